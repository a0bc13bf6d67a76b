# A folder stands in for what your clouds keep states and backups in.

terraform {
  required_version = "~> 1.12"
}

variable "place" {
  description = "The folder that everything is made in."
  type        = string
}

resource "terraform_data" "folder" {
  input = var.place

  provisioner "local-exec" {
    command     = "mkdir -p \"$FOLDER\""
    environment = { FOLDER = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "rmdir \"$FOLDER\""
    environment = { FOLDER = self.input }
  }
}

output "bucket" {
  value = "${terraform_data.folder.output}/bucket"
}
