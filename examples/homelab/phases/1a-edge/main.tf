# The public end: an HTTP server that sends requests on by their first path segment.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute."
}

variable "edge_port" {
  type        = number
  description = "The port of the edge."
}

module "edge" {
  source = "../../modules/service"

  lab  = var.lab
  name = "edge"
  role = "edge"
  port = var.edge_port
}

output "url" {
  value       = module.edge.url
  description = "Where the edge answers."
}
