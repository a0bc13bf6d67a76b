# A tenant as any other would be: a place of its own in the core.

terraform {
  required_version = "~> 1.12"
}

variable "data" {
  type        = string
  description = "The directory that holds the notes."
}

variable "tenant" {
  type        = string
  default     = "canary"
  description = "The tenant's name."
}

resource "terraform_data" "tenant" {
  input            = "${var.data}/${var.tenant}"
  triggers_replace = [var.data, var.tenant]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$TENANT\""
    environment = { TENANT = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "rm -rf \"$TENANT\""
    environment = { TENANT = self.input }
  }
}

output "tenant" {
  value       = var.tenant
  description = "The tenant's name."
}
