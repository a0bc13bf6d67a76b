# Where backups go, and the server that says what is up.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute."
}

variable "metrics_port" {
  type        = number
  description = "The port of the metrics."
}

variable "bucket" {
  type        = string
  description = "The bucket's directory."
}

resource "terraform_data" "vault" {
  input            = "${var.bucket}/backups"
  triggers_replace = [var.bucket]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$VAULT\""
    environment = { VAULT = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "rm -rf \"$VAULT\""
    environment = { VAULT = self.input }
  }
}

module "metrics" {
  source = "../../modules/service"

  lab  = var.lab
  name = "metrics"
  role = "metrics"
  port = var.metrics_port
}

output "vault" {
  value       = terraform_data.vault.output
  description = "The directory that holds the backups."
}

output "url" {
  value       = module.metrics.url
  description = "Where the metrics are."
}
