//! `store move`: a target goes from the store that it has to another one, whole or not at all.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, TargetName};
use platform::StoreDef;
use process::Identity;
use record::{MovedTo, RecordStore, TargetJson};
use serde::Serialize;
use store::Store;
use store::lock::{Holder, HowTo, LockError, LockNotice, TargetLock};

use crate::api::{Machine, Site};
use crate::error::{CallError, stopped, unusable};
use crate::open::{locked, moment, waiting_for};
use crate::storage::transfer::{self, TransferError};
use crate::storage::{CallLocks, Home};
use crate::ui::{Notice, Ui};

/// What `store move` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StoreMove {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// Where it was.
    pub from: String,
    /// Where it is.
    pub to: String,
    /// How many values were copied and compared; 0 where an earlier call had done it all.
    pub n_values: usize,
    /// What `[store]` in the target's file has to say from now on, as TOML.
    pub store: String,
}

/// Moves a target into another store: copies, reads back, compares, and lets the other one count.
///
/// `to` is a directory (`/…`, `~/…`), or what `[store]` would say, as TOML.
///
/// # Errors
/// Faults of `to`; nothing to move; one of the stores can't be read, is locked, or the other one is someone else's.
pub fn store_move(
    machine: &Machine,
    site: &Site,
    to: &str,
    ui: &Arc<dyn Ui>,
) -> Result<StoreMove, CallError> {
    let home = Home::open(machine, site)?;
    let name = &home.target.name;
    let (dest, toml) = other_store(to, &home)?;
    let moved = |from: &Arc<dyn Store>, n_values| StoreMove {
        schema: 1,
        target: name.to_string(),
        from: from.describe(),
        to: dest.describe(),
        n_values,
        store: toml.clone(),
    };
    if home.storage.named().describe() == dest.describe() {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "target `{name}` is to move to where `[store]` says that it is: {}",
                dest.describe()
            ),
        )
        .hint("move it first, then let `[store]` say the new place; nothing was touched")
        .into());
    }
    if let Some(from) = already_moved(&home, &dest)? {
        return Ok(moved(&from, 0));
    }
    let source = home.known_store()?;
    let target = target_of(&source)?.ok_or_else(|| {
        Failure::new(
            ExitCode::Unusable,
            format!("target `{name}` was never built, so there is nothing to move"),
        )
        .hint(format!(
            "let `[store]` of targets/{name}.toml say the new place; nothing was touched"
        ))
    })?;
    // Before its lock: nothing is written into a store that is someone else's.
    transfer::may_take(&dest, &target).map_err(|error| refused(&error, name.as_str()))?;
    let identity = Identity::of_self().map_err(|error| stopped(&error))?;
    let take = |store: &Arc<dyn Store>| -> Result<TargetLock, LockError> {
        let holder = Holder {
            identity: identity.clone(),
            user: machine.user.clone(),
            host: machine.host.clone(),
            run: None,
            command: "store move".to_owned(),
            since: moment((machine.now)()),
        };
        let mut notify = |notice: LockNotice| {
            ui.tell(&Notice::Waiting {
                what: waiting_for(&notice),
            });
        };
        TargetLock::acquire(Arc::clone(store), holder, machine.lease, &mut notify)
    };
    let source_lock = take(&source).map_err(|error| locked(&error, name))?;
    let locks = CallLocks::new(Arc::clone(&source), source_lock, machine.lease);
    let done = (|| {
        home.storage.still_counts(&source)?;
        let dest_lock = take(&dest).map_err(|error| locked_there(&error, name, to))?;
        locks.add(Arc::clone(&dest), dest_lock);
        let to = MovedTo {
            host: machine.host.clone(),
            path: dest.describe(),
        };
        transfer::fill(&source, &dest, &target)
            .and_then(|n| transfer::point_to(&source, to).map(|()| n))
            .map_err(|error| refused(&error, name.as_str()))
    })();
    let released = locks.release();
    let n_values = done?;
    if let Err(error) = released {
        ui.tell(&Notice::Warning {
            message: error.to_string(),
            hint: None,
        });
    }
    Ok(moved(&source, n_values))
}

fn target_of(store: &Arc<dyn Store>) -> Result<Option<TargetJson>, Failure> {
    let found = RecordStore::new(Arc::clone(store)).target();
    Ok(found
        .map_err(|error| stopped(&error))?
        .map(|loaded| loaded.value))
}

/// The store that says that everything is in `dest` already, where that is so.
fn already_moved(
    home: &Home<'_>,
    dest: &Arc<dyn Store>,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    let named = home.storage.named();
    // What can't be read is for the move itself to say.
    let Ok(Some(says)) = target_of(&named) else {
        return Ok(None);
    };
    let Some(to) = &says.moved_to else {
        return Ok(None);
    };
    if to.path != dest.describe() {
        return Ok(None);
    }
    let there = target_of(dest)?;
    Ok(there
        .is_some_and(|there| there.id == says.id && there.moved_to.is_none())
        .then_some(named))
}

/// The store that `--to` means, for a lock in it that a move was cut with: it is nobody else's.
///
/// # Errors
/// Faults of `to`; one of the stores can't be read, or the other one is someone else's.
pub(crate) fn store_being_filled(to: &str, home: &Home<'_>) -> Result<Arc<dyn Store>, CallError> {
    let (dest, _) = other_store(to, home)?;
    if let Some(target) = target_of(&home.known_store()?)? {
        transfer::may_take(&dest, &target)
            .map_err(|error| refused(&error, home.target.name.as_str()))?;
    }
    Ok(dest)
}

/// The store that `--to` means, and what `[store]` has to say for it.
fn other_store(to: &str, home: &Home<'_>) -> Result<(Arc<dyn Store>, String), CallError> {
    let (def, toml) = read_def(to, home)?;
    Ok((home.opener().open(&def, &home.paths.store())?, toml))
}

/// What `--to` means, and what `[store]` has to say for it.
fn read_def(to: &str, home: &Home<'_>) -> Result<(StoreDef, String), CallError> {
    if to.starts_with('/') || to.starts_with("~/") {
        let dir = to.to_owned();
        let quoted = serde_json::to_string(&dir).map_err(|error| unusable(&error))?;
        let toml = format!("local = {{ dir = {quoted} }}");
        return Ok((StoreDef::Local { dir: Some(dir) }, toml));
    }
    if let Some(toml) = address_as_toml(to) {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("`--to {to}` is an address, and `[store]` of a target is not said by one"),
        )
        .hint(format!(
            "say what `[store]` is to say, and nothing was touched: `rebuild store move --target {} --to '{toml}'`",
            home.target.name
        ))
        .into());
    }
    if !to.contains('=') {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("`--to {to}` is no store"),
        )
        .hint(
            "give a directory (`/srv/states`, `~/states`), or what `[store]` is to say: 's3 = { bucket = \"…\", region = \"…\" }'",
        )
        .into());
    }
    let def = platform::store_of_text("--to", to, &home.target)?;
    Ok((def, to.trim().to_owned()))
}

/// What `[store]` has to say for an address such as `s3://BUCKET/PREFIX?region=eu-1`; nothing where it is none.
fn address_as_toml(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (first, behind) = place.split_once('/').unwrap_or((place, ""));
    let (kind, mut members, prefix) = match scheme {
        "s3" => ("s3", vec![("bucket", first)], behind),
        "gs" => ("gcs", vec![("bucket", first)], behind),
        "az" => {
            let (container, prefix) = behind.split_once('/').unwrap_or((behind, ""));
            (
                "azure",
                vec![("account", first), ("container", container)],
                prefix,
            )
        }
        _ => return None,
    };
    if !prefix.is_empty() {
        members.push(("prefix", prefix));
    }
    members.extend(query.split('&').filter_map(|pair| pair.split_once('=')));
    if kind == "s3" && members.iter().all(|(name, _)| *name != "region") {
        members.push(("region", "REGION"));
    }
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| match *value {
            "true" | "false" => format!("{name} = {value}"),
            _ => format!("{name} = {}", serde_json::Value::from(*value)),
        })
        .collect();
    Some(format!("{kind} = {{ {} }}", members.join(", ")))
}

/// Why the lock of the store that is to be filled is not ours: a move that was cut on another machine holds both.
fn locked_there(error: &LockError, target: &TargetName, to: &str) -> Failure {
    let failure = locked(error, target);
    match error {
        LockError::Held {
            how_to: HowTo::Unlock,
            ..
        } => Failure::of(ExitCode::Locked, error).hint(format!(
            "that is the lock of the store to move to; only once you know that its holder is dead: `rebuild unlock --target {target} --to '{to}'`"
        )),
        _ => failure,
    }
}

fn refused(error: &TransferError, target: &str) -> Failure {
    let failure = stopped(error);
    match error {
        TransferError::Foreign { .. }
        | TransferError::AnotherBuild { .. }
        | TransferError::Unowned { .. } => failure.hint(format!(
            "give target `{target}` a bucket or a prefix of its own; nothing was touched"
        )),
        _ => failure.hint(format!(
            "target `{target}` is where it was; the same command goes on once both stores can be reached"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::address_as_toml;

    #[test]
    fn an_address_is_turned_into_what_the_target_file_says() {
        for (address, expected) in [
            (
                "s3://states/live/a?region=eu-1&endpoint=http://127.0.0.1:9000&path_style=true",
                r#"s3 = { bucket = "states", prefix = "live/a", region = "eu-1", endpoint = "http://127.0.0.1:9000", path_style = true }"#,
            ),
            (
                "s3://states",
                r#"s3 = { bucket = "states", region = "REGION" }"#,
            ),
            (
                "gs://states/live",
                r#"gcs = { bucket = "states", prefix = "live" }"#,
            ),
            (
                "az://account/container/live",
                r#"azure = { account = "account", container = "container", prefix = "live" }"#,
            ),
        ] {
            assert_eq!(address_as_toml(address).as_deref(), Some(expected));
        }
        for none in [
            "/srv/states",
            "~/states",
            "s3 = { bucket = \"a\" }",
            "http://x",
        ] {
            assert_eq!(address_as_toml(none), None, "{none}");
        }
    }
}
