//! Probes with a deadline: http, tcp, dns, exec
