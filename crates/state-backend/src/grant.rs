//! Grants: credentials that open one state each.

use crate::Demand;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use store::sha256_hex;

/// What a grant allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantOptions {
    /// The state must be there, as this or later: it is an error where it isn't, not "no state".
    pub must_exist: Option<Demand>,
    /// GET only.
    pub read_only: bool,
}

/// What OpenTofu needs to reach one state: the values of `TF_HTTP_*`.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// `TF_HTTP_ADDRESS`.
    pub address: String,
    /// `TF_HTTP_LOCK_ADDRESS`.
    pub lock_address: String,
    /// `TF_HTTP_UNLOCK_ADDRESS`.
    pub unlock_address: String,
    /// `TF_HTTP_USERNAME`.
    pub username: String,
    /// `TF_HTTP_PASSWORD`.
    pub password: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("address", &self.address)
            .field("username", &self.username)
            .field("password", &"[secret]")
            .finish_non_exhaustive()
    }
}

/// What a credential opens.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) step_key: String,
    pub(crate) options: GrantOptions,
    /// The password itself is not kept.
    password_digest: String,
}

/// The grants of a server.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<String, Grant>>);

impl Grants {
    pub(crate) fn add(&self, origin: &str, step_key: &str, options: GrantOptions) -> Access {
        let username = format!("{:016x}", rand::random::<u64>());
        let password = format!(
            "{:032x}{:032x}",
            rand::random::<u128>(),
            rand::random::<u128>()
        );
        let password_digest = sha256_hex(password.as_bytes());
        let grant = Grant {
            step_key: step_key.to_owned(),
            options,
            password_digest,
        };
        self.locked().insert(username.clone(), grant);
        let address = format!("{origin}/state/{step_key}");
        Access {
            lock_address: address.clone(),
            unlock_address: address.clone(),
            address,
            username,
            password,
        }
    }

    pub(crate) fn remove(&self, username: &str) {
        self.locked().remove(username);
    }

    /// The grant of a credential; `None` for a wrong or a revoked one.
    pub(crate) fn find(&self, username: &str, password: &str) -> Option<Grant> {
        let offered = sha256_hex(password.as_bytes());
        let grant = self.locked().get(username).cloned()?;
        is_same(&offered, &grant.password_digest).then_some(grant)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Grant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares in a time that does not depend on where the two differ.
fn is_same(left: &str, right: &str) -> bool {
    let differing = left
        .bytes()
        .zip(right.bytes())
        .fold(0, |sum, (left, right)| sum | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_opens_what_it_was_made_for_until_it_is_revoked() {
        let grants = Grants::default();
        let edge = grants.add("http://127.0.0.1:1", "1a/edge", GrantOptions::default());
        let dns = grants.add("http://127.0.0.1:1", "1a/dns", GrantOptions::default());
        assert_eq!(edge.address, "http://127.0.0.1:1/state/1a/edge");
        assert_eq!(
            grants
                .find(&edge.username, &edge.password)
                .unwrap()
                .step_key,
            "1a/edge"
        );
        assert!(grants.find(&edge.username, &dns.password).is_none());
        assert!(grants.find(&edge.username, "").is_none());
        assert!(grants.find("", "").is_none());
        grants.remove(&edge.username);
        assert!(grants.find(&edge.username, &edge.password).is_none());
        assert!(grants.find(&dns.username, &dns.password).is_some());
    }

    #[test]
    fn a_password_never_shows() {
        let access =
            Grants::default().add("http://127.0.0.1:1", "1a/edge", GrantOptions::default());
        assert_eq!(access.password.len(), 64);
        assert!(!format!("{access:?}").contains(&access.password));
    }
}
