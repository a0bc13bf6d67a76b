terraform {
  required_version = "~> 1.12"
}

variable "hosts" {
  description = "The names of the machines at home."
  type        = list(string)
}

resource "terraform_data" "host" {
  for_each = toset(var.hosts)
  input    = each.key
}

output "names" {
  value = [for host in terraform_data.host : host.output]
}
