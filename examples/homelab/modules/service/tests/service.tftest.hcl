# Plans only: nothing is started.

variables {
  lab  = "/nowhere/lab"
  name = "edge"
  role = "edge"
  port = 18080
}

run "its_url_follows_its_port" {
  command = plan

  assert {
    condition     = output.url == "http://127.0.0.1:18080"
    error_message = "The URL names another port."
  }
}

run "a_port_that_needs_privilege_is_refused" {
  command = plan

  variables {
    port = 80
  }

  expect_failures = [var.port]
}

run "a_role_that_nothing_plays_is_refused" {
  command = plan

  variables {
    role = "mail"
  }

  expect_failures = [var.role]
}
