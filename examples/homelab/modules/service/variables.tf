variable "lab" {
  type        = string
  description = "The lab's directory, absolute."

  validation {
    condition     = startswith(var.lab, "/") && !strcontains(var.lab, "'")
    error_message = "The lab's directory is an absolute path."
  }
}

variable "name" {
  type        = string
  description = "The server's name; its directory in the lab is named so too."
}

variable "role" {
  type        = string
  description = "What it does: edge, tunnel, core or metrics."

  validation {
    condition     = contains(["edge", "tunnel", "core", "metrics"], var.role)
    error_message = "The role is one of edge, tunnel, core, metrics."
  }
}

variable "port" {
  type        = number
  description = "The port it listens on, on the loopback address."

  validation {
    condition     = var.port >= 1024 && var.port <= 65535 && floor(var.port) == var.port
    error_message = "A port that needs no privilege: 1024 to 65535."
  }
}

variable "upstream" {
  type        = string
  default     = ""
  description = "HOST:PORT that a tunnel passes bytes on to."
}
