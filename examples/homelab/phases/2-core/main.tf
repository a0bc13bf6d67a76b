# The service that people come for: it keeps notes, and takes new ones from whoever knows the token.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute."
}

variable "core_port" {
  type        = number
  description = "The port of the core."
}

# The notes are apart from the server, so that a new server finds the old notes.
resource "terraform_data" "notes" {
  input            = "${var.lab}/core"
  triggers_replace = [var.lab]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$CORE/data\""
    environment = { CORE = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "rm -rf \"$CORE\""
    environment = { CORE = self.input }
  }
}

module "core" {
  source     = "../../modules/service"
  depends_on = [terraform_data.notes]

  lab  = var.lab
  name = "core"
  role = "core"
  port = var.core_port
}

output "url" {
  value       = module.core.url
  description = "Where the core answers inside the home network."
}

output "data" {
  value       = "${terraform_data.notes.output}/data"
  description = "The directory that holds the notes."
}
