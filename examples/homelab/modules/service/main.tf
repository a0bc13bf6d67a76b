# One background server of the lab.
#
# Two resources, because OpenTofu runs no destroy provisioner of an object that is tainted: `slot`
# has nothing that can fail when it is made and stops the server when it goes; `server` starts it.
# A start that failed or was cut therefore still leaves something that cleans up.

terraform {
  required_version = "~> 1.12"
}

locals {
  program = "${path.module}/service.py"
}

resource "terraform_data" "slot" {
  input = {
    lab  = var.lab
    name = var.name
    port = var.port
  }

  # Any change of these is another server: the old one goes before the new one comes.
  triggers_replace = [var.lab, var.name, var.role, var.port, var.upstream, filesha256(local.program)]

  provisioner "local-exec" {
    when    = destroy
    command = "exec python3 '${path.module}/service.py' stop --lab \"$LAB\" --name \"$NAME\" --port \"$PORT\""
    environment = {
      LAB  = self.input.lab
      NAME = self.input.name
      PORT = self.input.port
    }
  }
}

resource "terraform_data" "server" {
  input            = "http://127.0.0.1:${var.port}"
  triggers_replace = [terraform_data.slot.id]

  provisioner "local-exec" {
    command = "exec python3 '${local.program}' start --lab \"$LAB\" --name \"$NAME\" --role \"$ROLE\" --port \"$PORT\" --upstream \"$UPSTREAM\""
    environment = {
      LAB      = var.lab
      NAME     = var.name
      ROLE     = var.role
      PORT     = var.port
      UPSTREAM = var.upstream
    }
  }
}
