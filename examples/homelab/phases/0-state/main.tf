# The ground that everything else stands on: the lab's directory, and a bucket in it.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute. It is made here and must be gone again at the end."

  validation {
    condition     = startswith(var.lab, "/") && length(split("/", trimsuffix(var.lab, "/"))) > 2
    error_message = "The lab's directory is an absolute path below another directory."
  }
}

resource "terraform_data" "lab" {
  input            = var.lab
  triggers_replace = [var.lab]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$LAB\""
    environment = { LAB = self.input }
  }

  # `rmdir`, not `rm -r`: whatever a later phase left behind keeps this one from going.
  provisioner "local-exec" {
    when        = destroy
    command     = "if [ -d \"$LAB\" ]; then rmdir \"$LAB\"; fi"
    environment = { LAB = self.input }
  }
}

resource "terraform_data" "bucket" {
  input            = "${terraform_data.lab.output}/bucket"
  triggers_replace = [terraform_data.lab.id]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$BUCKET\" && echo homelab > \"$BUCKET/.bucket\""
    environment = { BUCKET = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "if [ -d \"$BUCKET\" ]; then rm -f \"$BUCKET/.bucket\" && rmdir \"$BUCKET\"; fi"
    environment = { BUCKET = self.input }
  }
}

check "bucket_is_marked" {
  assert {
    condition     = fileexists("${terraform_data.bucket.output}/.bucket")
    error_message = "The bucket has lost its marker: somebody emptied or replaced it."
  }
}

output "bucket" {
  value       = terraform_data.bucket.output
  description = "The bucket's directory."
}
