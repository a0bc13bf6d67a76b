output "url" {
  value       = terraform_data.server.input
  description = "Where the server answers."
}
