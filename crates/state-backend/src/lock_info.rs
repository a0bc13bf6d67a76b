//! A state's lock, as OpenTofu describes it and as the store keeps it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::Writer;

/// The version of a lock's body that this code writes.
const SCHEMA: u32 = 1;
/// OpenTofu's time where there is none.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// OpenTofu's description of a lock (`internal/states/statemgr/locker.go`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LockInfo {
    /// The lock's id: a UUID that OpenTofu makes for each lock.
    #[serde(rename = "ID")]
    pub id: String,
    /// What holds it: `OperationTypeApply`, …
    #[serde(default)]
    pub operation: String,
    /// More about it.
    #[serde(default)]
    pub info: String,
    /// Who: `user@host`.
    #[serde(default)]
    pub who: String,
    /// OpenTofu's version.
    #[serde(default)]
    pub version: String,
    /// Since when, RFC 3339.
    #[serde(default = "no_time")]
    pub created: String,
    /// The path of the state, where the backend has one.
    #[serde(default)]
    pub path: String,
    /// What a later OpenTofu may add.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Why bytes are no description of a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockInfoError {
    /// They are not OpenTofu's JSON.
    #[error("the lock's description can't be read")]
    Json(#[source] serde_json::Error),
    /// There is no id.
    #[error("the lock has no id")]
    NoId,
    /// OpenTofu would fail to read the time when it is shown this lock.
    #[error("`Created` is `{0}`, which is no RFC 3339 time")]
    Created(String),
    /// A later `rebuild` has written it.
    #[error("the lock has schema {0}: a newer `rebuild` is needed to read it")]
    Newer(u32),
}

fn no_time() -> String {
    NO_TIME.to_owned()
}

impl LockInfo {
    /// Reads what OpenTofu sends with LOCK.
    ///
    /// # Errors
    /// Where OpenTofu could not read it back when it is shown as the holder.
    pub fn parse(bytes: &[u8]) -> Result<Self, LockInfoError> {
        let info: Self = serde_json::from_slice(bytes).map_err(LockInfoError::Json)?;
        if info.id.is_empty() {
            return Err(LockInfoError::NoId);
        }
        if info.created.parse::<jiff::Timestamp>().is_err() {
            return Err(LockInfoError::Created(info.created));
        }
        Ok(info)
    }

    /// The description of a lock that is taken at `now`, with an id of its own.
    pub fn new(operation: &str, info: &str, who: &str, now: jiff::Timestamp) -> Self {
        let id = format!("{:032x}", rand::random::<u128>());
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        Self {
            id: parts.join("-"),
            operation: operation.to_owned(),
            info: info.to_owned(),
            who: who.to_owned(),
            version: String::new(),
            created: now.to_string(),
            path: String::new(),
            more: Map::new(),
        }
    }

    /// A description that holds `text` for OpenTofu to show, of a lock that is not a state's.
    pub(crate) fn telling(text: String) -> Self {
        Self {
            id: "-".to_owned(),
            operation: "rebuild".to_owned(),
            info: text,
            who: String::new(),
            version: String::new(),
            created: no_time(),
            path: String::new(),
            more: Map::new(),
        }
    }
}

/// Reads the id out of what OpenTofu sends with UNLOCK; `force-unlock` sends nothing else.
pub(crate) fn id_of(bytes: &[u8]) -> Result<String, LockInfoError> {
    #[derive(Deserialize)]
    struct Id {
        #[serde(rename = "ID", default)]
        id: String,
    }
    let Id { id } = serde_json::from_slice(bytes).map_err(LockInfoError::Json)?;
    if id.is_empty() {
        Err(LockInfoError::NoId)
    } else {
        Ok(id)
    }
}

/// The value of `lock/<phase>/<step>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLock {
    /// The version of this body's shape.
    pub schema: u32,
    /// The number of the target's lock under which it was taken, or taken over.
    pub fence: u64,
    /// The call of `rebuild` in which it was taken.
    pub writer: Writer,
    /// What OpenTofu said of it.
    pub info: LockInfo,
}

impl StateLock {
    pub(crate) fn new(fence: u64, writer: Writer, info: LockInfo) -> Self {
        Self {
            schema: SCHEMA,
            fence,
            writer,
            info,
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, LockInfoError> {
        serde_json::to_vec(self).map_err(LockInfoError::Json)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, LockInfoError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let Schema { schema } = serde_json::from_slice(bytes).map_err(LockInfoError::Json)?;
        if schema > SCHEMA {
            return Err(LockInfoError::Newer(schema));
        }
        serde_json::from_slice(bytes).map_err(LockInfoError::Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opentofu_sends_comes_back_whole() {
        let text = r#"{"ID":"5f","Operation":"OperationTypeApply","Info":"","Who":"ann@lab","Version":"1.12.6","Created":"2026-01-02T03:04:05.678Z","Path":"","New":[1]}"#;
        let info = LockInfo::parse(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&info).unwrap(), text);
    }

    #[test]
    fn what_opentofu_could_not_read_back_is_refused() {
        let parse = |text: &str| LockInfo::parse(text.as_bytes());
        assert!(matches!(parse(r#"{"ID":""}"#), Err(LockInfoError::NoId)));
        assert!(matches!(
            parse(r#"{"ID":"x","Created":"yesterday"}"#),
            Err(LockInfoError::Created(_))
        ));
        for text in ["", "[]", "{}", r#"{"ID":1}"#, r#"{"ID":"x","Who":7}"#] {
            assert!(matches!(parse(text), Err(LockInfoError::Json(_))), "{text}");
        }
        assert_eq!(parse(r#"{"ID":"x"}"#).unwrap().created, NO_TIME);
    }

    #[test]
    fn force_unlock_sends_little_more_than_an_id() {
        let sent = br#"{"ID":"x","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}"#;
        assert_eq!(id_of(sent).unwrap(), "x");
        assert!(matches!(id_of(b"{}"), Err(LockInfoError::NoId)));
        assert!(matches!(id_of(b""), Err(LockInfoError::Json(_))));
    }
}
