terraform {
  required_version = "~> 1.12"
}

variable "edge" {
  description = "The address of the edge, where the tunnel ends."
  type        = string
}

resource "terraform_data" "tunnel" {
  input = { peer = var.edge }
}

output "peer" {
  value = terraform_data.tunnel.output.peer
}
