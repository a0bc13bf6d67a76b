//! What is counted, for Prometheus. No path and no name of a credential is a label.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// What the text is.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels<const N: usize> = [(&'static str, String); N];

/// The counters of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels<2>, Counter>,
    seconds: Family<Labels<1>, Histogram, fn() -> Histogram>,
    received: Counter,
    sent: Counter,
    pub(crate) connections: Gauge,
    pub(crate) failed_handshakes: Counter,
    pub(crate) unauthorized: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.002, 2.5, 10));
        let metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            received: Counter::default(),
            sent: Counter::default(),
            connections: Gauge::default(),
            failed_handshakes: Counter::default(),
            unauthorized: Counter::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = self.registry.sub_registry_with_prefix("rebuild_backend");
        registry.register(
            "requests",
            "Requests by method and status",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "request",
            "How long until the answer was ready",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register_with_unit(
            "received",
            "Bodies of requests",
            Unit::Bytes,
            self.received.clone(),
        );
        registry.register_with_unit("sent", "Bodies of answers", Unit::Bytes, self.sent.clone());
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register(
            "failed_handshakes",
            "Connections that came to no TLS",
            self.failed_handshakes.clone(),
        );
        registry.register(
            "unauthorized",
            "Requests without a credential that is known",
            self.unauthorized.clone(),
        );
        self
    }

    /// Counts a request. A method that OpenTofu does not use is `other`: a stranger chooses no label.
    pub(crate) fn count(&self, method: &str, status: u16, n_in: u64, n_out: u64, took: Duration) {
        let known = ["GET", "POST", "DELETE", "LOCK", "UNLOCK"];
        let method = if known.contains(&method) {
            method
        } else {
            "other"
        };
        self.requests
            .get_or_create(&[
                ("method", method.to_owned()),
                ("status", status.to_string()),
            ])
            .inc();
        self.seconds
            .get_or_create(&[("method", method.to_owned())])
            .observe(took.as_secs_f64());
        self.received.inc_by(n_in);
        self.sent.inc_by(n_out);
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_told() {
        let metrics = Metrics::new();
        metrics.count("LOCK", 423, 10, 20, Duration::from_millis(3));
        metrics.count("BREW\"", 405, 0, 0, Duration::ZERO);
        let text = metrics.text();
        assert!(
            text.contains(r#"rebuild_backend_requests_total{method="LOCK",status="423"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"rebuild_backend_requests_total{method="other",status="405"} 1"#),
            "{text}"
        );
        assert!(
            text.contains("rebuild_backend_received_bytes_total 10"),
            "{text}"
        );
        assert!(
            text.contains("rebuild_backend_request_seconds_bucket"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }
}
