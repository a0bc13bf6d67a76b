# The machines: a directory stands for each. What runs on them is set up by the step `configure`.

terraform {
  required_version = "~> 1.12"
}

variable "lab" {
  type        = string
  description = "The lab's directory, absolute."
}

variable "machines" {
  type        = map(string)
  description = "Name to role, for each machine."

  validation {
    condition     = alltrue([for name in keys(var.machines) : can(regex("^[a-z][a-z0-9-]*$", name))])
    error_message = "A machine's name is made of lower-case letters, digits and dashes."
  }
}

resource "terraform_data" "rack" {
  input            = "${var.lab}/metal"
  triggers_replace = [var.lab]

  provisioner "local-exec" {
    command     = "umask 077 && mkdir -p \"$RACK\""
    environment = { RACK = self.input }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "if [ -d \"$RACK\" ]; then rmdir \"$RACK\"; fi"
    environment = { RACK = self.input }
  }
}

resource "terraform_data" "machine" {
  for_each = var.machines

  input = {
    home = "${terraform_data.rack.output}/${each.key}"
    role = each.value
  }
  triggers_replace = [terraform_data.rack.id, each.value]

  provisioner "local-exec" {
    command = "umask 077 && mkdir -p \"$HOME_OF_IT\" && echo \"$ROLE\" > \"$HOME_OF_IT/role\""
    environment = {
      HOME_OF_IT = self.input.home
      ROLE       = self.input.role
    }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "rm -rf \"$HOME_OF_IT\""
    environment = { HOME_OF_IT = self.input.home }
  }
}

output "rack" {
  value       = terraform_data.rack.output
  description = "The directory that holds the machines."
}

output "hosts" {
  value       = { for name, machine in terraform_data.machine : name => { home = machine.output.home, role = machine.output.role } }
  description = "Every machine."
}
