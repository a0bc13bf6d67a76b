terraform {
  required_version = "~> 1.12"
}

variable "zone" {
  description = "The DNS zone that the edge answers for."
  type        = string
}

variable "bucket" {
  description = "Where the edge keeps its certificates."
  type        = string
}

resource "terraform_data" "edge" {
  input = { address = "edge.${var.zone}", bucket = var.bucket }
}

output "address" {
  value = terraform_data.edge.output.address
}
