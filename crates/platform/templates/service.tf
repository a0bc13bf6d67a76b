# One root module, two steps: each has a state of its own.

terraform {
  required_version = "~> 1.12"
}

variable "service" {
  description = "The name of the service."
  type        = string
}

variable "hosts" {
  description = "The machines that it runs on."
  type        = list(string)
}

resource "terraform_data" "service" {
  input = { name = var.service, hosts = var.hosts }
}

output "name" {
  value = terraform_data.service.output.name
}
