//! What `lock.json` holds.

use super::LockError;
use process::Identity;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The version of the body that this code writes.
pub(super) const SCHEMA: u32 = 1;

/// Who holds a target's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub identity: Identity,
    /// The user's name.
    pub user: String,
    /// The machine's name.
    pub host: String,
    /// The run, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What it does: `up`, `down`, `preflight`, …
    pub command: String,
    /// Since when, by the holder's clock (RFC 3339). For people; never compared.
    pub since: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            host,
            command,
            since,
            ..
        } = self;
        write!(
            f,
            "`{command}` by {user} on {host} (pid {})",
            self.identity.pid
        )?;
        if let Some(run) = &self.run {
            write!(f, ", run {run}")?;
        }
        write!(f, ", since {since}")
    }
}

/// The value of `lock.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBody {
    /// The version of this body's shape.
    pub schema: u32,
    /// The fencing number.
    pub fence: u64,
    /// Counts the renewals.
    pub beat: u64,
    /// The lease, in milliseconds.
    pub lease_ms: u64,
    /// Tells this acquisition from every other.
    pub nonce: String,
    /// Who holds the lock.
    pub holder: Holder,
}

impl LockBody {
    pub(super) fn new(holder: Holder, fence: u64, lease: Duration) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let nonce = format!("{:032x}", rand::random::<u128>());
        Self {
            schema: SCHEMA,
            fence,
            beat: 0,
            lease_ms,
            nonce,
            holder,
        }
    }

    /// The lease.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, LockError> {
        serde_json::to_vec_pretty(self).map_err(LockError::Encode)
    }

    pub(super) fn decode(bytes: &[u8], store: &str) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let unreadable = |source| LockError::Unreadable {
            store: store.to_owned(),
            source,
        };
        let Schema { schema } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if schema > SCHEMA {
            return Err(LockError::Newer {
                store: store.to_owned(),
                found: schema,
            });
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
