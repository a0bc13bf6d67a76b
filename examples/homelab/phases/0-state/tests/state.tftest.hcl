# Plans only: nothing is made.

run "the_bucket_is_in_the_lab" {
  command = plan

  variables {
    lab = "/nowhere/lab"
  }

  assert {
    condition     = terraform_data.lab.input == "/nowhere/lab"
    error_message = "The lab is made somewhere else."
  }

  # A plan alone can't know yet whether the marker will be there.
  expect_failures = [check.bucket_is_marked]
}

run "the_root_directory_is_no_lab" {
  command = plan

  variables {
    lab = "/lab"
  }

  expect_failures = [var.lab]
}
