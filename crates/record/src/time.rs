//! Points in time, as RFC 3339 text.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A point in time; RFC 3339 in UTC where it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub jiff::Timestamp);

impl Time {
    /// Gives the seconds from `earlier` to this, to the millisecond; none where the clock went back.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        let seconds = self.0.duration_since(earlier.0).as_secs_f64();
        rounded(seconds.max(0.0))
    }
}

/// Rounds seconds to the millisecond, so that sums stay readable.
pub(crate) fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

impl From<jiff::Timestamp> for Time {
    fn from(timestamp: jiff::Timestamp) -> Self {
        Self(timestamp)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
