# The way from the edge to the home network: bytes that come in here go on to the core.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute."
}

variable "tunnel_port" {
  type        = number
  description = "The port of the tunnel's near end."
}

variable "core_port" {
  type        = number
  description = "The port of the core, at the far end."
}

module "tunnel" {
  source = "../../modules/service"

  lab      = var.lab
  name     = "tunnel"
  role     = "tunnel"
  port     = var.tunnel_port
  upstream = "127.0.0.1:${var.core_port}"
}

output "url" {
  value       = module.tunnel.url
  description = "The near end, as the edge sees it."
}
