//! `state rekey`: everything that is stored goes from one key to another, or to or from none.
//!
//! `keys.json` holds both files while that goes on, so every value can be read by one of two keys at each instant, and a
//! change that was cut is gone on with. The former one is dropped only when nothing needs it any more.

mod convert;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use phase_engine::{ExitCode, Failure, RunStatus};
use process::Identity;
use record::{Record, RecordStore};
use secrets::{KeyError, KeyFile, KeyMode, MemoryDir, Secret, Source, Stretching, TargetKey};
use serde::Serialize;
use store::lock::{Holder, LockNotice, TargetLock};
use store::{Key, StateHeader, Store, Tag, layout, settle, state_file};
use tofu::encryption::KeySource;

use crate::api::{Machine, Site};
use crate::environment;
use crate::error::{CallError, stopped, unusable};
use crate::keyring::{self, Keyring, Side};
use crate::open::{OnFaults, Opened, locked, moment, the_known_store, waiting_for};
use crate::secret_book;
use crate::stop::StopRequests;
use crate::storage::CallLocks;
use crate::ui::{Notice, Ui};
use convert::Converter;

/// Where the former passphrase comes from.
#[derive(Clone, Debug, Default)]
pub struct RekeyOptions {
    /// A variable of the caller's environment.
    pub former_env: Option<String>,
    /// A file.
    pub former_file: Option<String>,
}

/// What `state rekey` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Rekeyed {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// States that were encrypted anew, those of workspaces included.
    pub n_states: usize,
    /// Earlier versions of them.
    pub n_versions: usize,
    /// Bundles that were sealed anew.
    pub n_bundles: usize,
    /// What still needs the former key, by its key in the store; the former key stays as long as there is any.
    pub needs_former: Vec<String>,
}

/// Moves everything that a target has stored to the key that its file names today.
///
/// # Errors
/// A passphrase is wrong, a run is cut, the target is locked; nothing was touched then. What can't be read by either key is
/// in the answer, and the former key stays.
pub fn rekey(
    machine: &Machine,
    site: &Site,
    options: &RekeyOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Rekeyed, CallError> {
    let opened = Opened::open(machine, site, stop, ui, OnFaults::GoOn)?;
    opened.storage.locate()?;
    let store = opened.storage.current();
    let name = opened.target.name.clone();
    the_known_store(&store, &opened.paths, &opened.platform_name, &name, None)?;
    let former = former_passphrase(&opened, options)?;
    let mut notify = |notice: LockNotice| {
        ui.tell(&Notice::Waiting {
            what: waiting_for(&notice),
        });
    };
    let holder = Holder {
        identity: Identity::of_self().map_err(|error| unusable(&error))?,
        user: machine.user.clone(),
        host: machine.host.clone(),
        run: None,
        command: "state rekey".to_owned(),
        since: moment((machine.now)()),
    };
    let lock = TargetLock::acquire(Arc::clone(&store), holder, machine.lease, &mut notify)
        .map_err(|error| locked(&error, &name))?;
    let locks = CallLocks::new(Arc::clone(&store), lock, machine.lease);
    let done = opened
        .storage
        .still_counts(&store)
        .and_then(|()| held(&opened, &store, former.as_ref(), locks.fence()));
    let released = locks.release();
    let done = done?;
    if let Err(error) = released {
        ui.tell(&Notice::Warning {
            message: error.to_string(),
            hint: None,
        });
    }
    Ok(done)
}

fn former_passphrase(
    opened: &Opened<'_>,
    options: &RekeyOptions,
) -> Result<Option<Secret>, Failure> {
    let source = match (&options.former_env, &options.former_file) {
        (Some(name), _) => Source::Env(name.clone()),
        (None, Some(file)) => Source::File(file.into()),
        (None, None) => return opened.named_former(),
    };
    let machine = opened.machine;
    let secret = secret_book::fetch_one(
        &source,
        "former passphrase",
        opened.target.name.as_str(),
        machine,
        &machine.cwd,
    )
    .map_err(|error| {
        unusable(&error)
            .hint("`--former-env NAME` or `--former-file FILE` gives it; nothing was touched")
    })?;
    opened.masker.add("former passphrase", &secret);
    Ok(Some(secret))
}

fn held(
    opened: &Opened<'_>,
    store: &Arc<dyn Store>,
    former: Option<&Secret>,
    fence: u64,
) -> Result<Rekeyed, Failure> {
    let name = opened.target.name.as_str();
    let records = RecordStore::new(Arc::clone(store));
    let mut rekeyed = Rekeyed {
        schema: 1,
        target: name.to_owned(),
        ..Rekeyed::default()
    };
    let Some(found) = store
        .get(&layout::keys_json())
        .map_err(|error| stopped(&error))?
    else {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("target `{name}` was never built, so nothing of it is encrypted"),
        )
        .hint(
            "its first build takes the passphrase that the target file names; nothing was touched",
        ));
    };
    let file = KeyFile::from_json(&found.bytes).map_err(|error| unusable(&error))?;
    let is_resumed = file.former.is_some();
    nothing_is_cut(opened, &records, is_resumed)?;
    let mut tag = found.tag;
    let keys = match sides(opened, store, file, former)? {
        Some(keys) => keys,
        None => return Ok(rekeyed),
    };
    keyring::reconcile(&records, store, fence)?;
    let Some(old) = &keys.former else {
        // Nothing needs the former key any more.
        put_keys(store, &keys.today.file, &tag)?;
        return Ok(rekeyed);
    };
    let new = &keys.today;
    if !is_resumed {
        let both = KeyFile {
            former: Some(Box::new(old.file.clone())),
            ..new.file.clone()
        };
        tag = put_keys(store, &both, &tag)?;
    }
    let memory = MemoryDir::create("rekey").map_err(|error| stopped(&error))?;
    let sources = Sources {
        old: old.source(opened.machine, &memory, "former-key")?,
        new: new.source(opened.machine, &memory, "key")?,
        writing: keys.writing(opened.machine, &memory)?.map(|(key, _)| key),
    };
    let converter = Converter {
        machine: opened.machine,
        program: &opened.program,
        env: environment::base(&opened.machine.env, memory.path(), memory.path()),
        memory: &memory,
        n_dirs: AtomicU64::new(0),
    };
    for prefix in [layout::STATES, layout::WORKSPACES] {
        for key in store.list(prefix).map_err(|error| stopped(&error))? {
            match turn(store, &key, &converter, &sources, fence) {
                Ok(is_new) if key.as_str().contains('@') => {
                    rekeyed.n_versions += usize::from(is_new);
                }
                Ok(is_new) => rekeyed.n_states += usize::from(is_new),
                Err(failure) => {
                    tell_left(opened, &key, &failure);
                    rekeyed.needs_former.push(key.to_string());
                }
            }
        }
    }
    keyring::reconcile(&records, store, fence)?;
    for key in store
        .list(layout::BUNDLES)
        .map_err(|error| stopped(&error))?
    {
        match seal_anew(store, &key, &old.key, &new.key) {
            Ok(is_new) => rekeyed.n_bundles += usize::from(is_new),
            Err(failure) => {
                tell_left(opened, &key, &failure);
                rekeyed.needs_former.push(key.to_string());
            }
        }
    }
    if rekeyed.needs_former.is_empty() {
        put_keys(store, &new.file, &tag)?;
        return Ok(rekeyed);
    }
    let mut failure = Failure::failed(format!(
        "{} of target `{name}` can't be read by either key, so the former one stays",
        rekeyed.needs_former.len()
    ));
    failure.causes = rekeyed.needs_former.clone();
    Err(failure.hint(format!(
        "put back what is damaged, or take it away, then the same command goes on: `rebuild state rekey --target {name}`"
    )))
}

fn tell_left(opened: &Opened<'_>, key: &Key, failure: &Failure) {
    opened.ui.tell(&Notice::Warning {
        message: format!("`{key}` still needs the former key: {}", failure.one_line()),
        hint: None,
    });
}

/// What a cut call left is encrypted with the former key, and its rescue needs that one.
fn nothing_is_cut(
    opened: &Opened<'_>,
    records: &RecordStore,
    is_resumed: bool,
) -> Result<(), Failure> {
    let name = &opened.target.name;
    let current = records.current().map_err(|error| stopped(&error))?;
    let cut = current.and_then(|record| cut(&record.value));
    let cut = cut.or_else(|| holds_rescue(&opened.paths.work()).then_some(Cut::Call));
    let Some(cut) = cut else {
        return Ok(());
    };
    let (what, ends) = match &cut {
        Cut::Call => (
            format!("a call on target `{name}` was cut"),
            format!(
                "`rebuild up --target {name} --resume` or `rebuild down --target {name}` brings it to an end"
            ),
        ),
        Cut::Write { step, host } => (
            format!(
                "a call on target `{name}` was cut while it wrote the state of step `{step}` on host `{host}`"
            ),
            format!("`rebuild preflight --target {name}` on `{host}` sees what that came to"),
        ),
    };
    let (when, with) = if is_resumed {
        (
            "while its key is being changed",
            format!(
                "both passphrases in `[encryption]` of targets/{name}.toml (`passphrase` and `former`)"
            ),
        )
    } else {
        (
            "and what it left is encrypted with the former key",
            format!("the former passphrase in targets/{name}.toml"),
        )
    };
    let what = match (is_resumed, &cut) {
        (true, Cut::Call) => format!("{what} {when}"),
        _ => format!("{what}, {when}"),
    };
    Err(Failure::new(ExitCode::Stopped, what)
        .hint(format!("with {with}, {ends}; nothing was touched")))
}

/// What was cut, of which the record does not say what it came to.
#[derive(Debug, PartialEq, Eq)]
enum Cut {
    /// A call of the run.
    Call,
    /// A command beside the run that had begun to write a state.
    Write { step: String, host: String },
}

fn cut(record: &Record) -> Option<Cut> {
    if matches!(record.status, RunStatus::Running | RunStatus::Interrupted) {
        return Some(Cut::Call);
    }
    record.standing.iter().find_map(|entry| {
        let host = entry.writing.as_ref()?.host.clone()?;
        let step = entry.step.to_string();
        Some(Cut::Write { step, host })
    })
}

/// Whether a state waits somewhere to be rescued.
fn holds_rescue(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let kind = entry.file_type();
        kind.is_ok_and(|kind| {
            (kind.is_dir() && holds_rescue(&entry.path()))
                || (kind.is_file() && entry.file_name() == "errored.tfstate")
        })
    })
}

/// The former key and today's; nothing where they are the same.
fn sides(
    opened: &Opened<'_>,
    store: &Arc<dyn Store>,
    file: KeyFile,
    former: Option<&Secret>,
) -> Result<Option<Keyring>, Failure> {
    let name = &opened.target.name;
    let today = opened.passphrase.clone();
    let wrong = |which: &str, error: &KeyError| {
        let mut failure = unusable(error);
        failure.causes.insert(0, std::mem::take(&mut failure.what));
        failure.what = format!("{which} of target `{name}` can't be had");
        failure.hint(format!(
            "`--former-env NAME` or `--former-file FILE` gives the passphrase that everything is stored with; \
             targets/{name}.toml names the one that it is to go to. Nothing was touched"
        ))
    };
    let side = |file: KeyFile, passphrase: Option<Secret>, which: &str| {
        let key = file
            .open(passphrase.as_ref())
            .map_err(|error| wrong(which, &error))?;
        Ok::<_, Failure>(Side {
            file: KeyFile {
                former: None,
                ..file
            },
            key: Arc::new(key),
            passphrase,
        })
    };
    // A target without encryption has no former passphrase to give.
    let former_of = |file: &KeyFile| match file.mode {
        KeyMode::None => None,
        KeyMode::Passphrase => former.cloned().or_else(|| today.clone()),
    };
    if let Some(before) = file.former.clone() {
        let former = former.cloned();
        let keys = keyring::both(store, name, file, *before, today.as_ref(), || Ok(former))?;
        return Ok(Some(keys));
    }
    // Everything is under today's passphrase already, or only the mode changes.
    let passphrase = match file.open(today.as_ref()) {
        Ok(_) => today.clone(),
        Err(_) => former_of(&file),
    };
    let old = side(file, passphrase, "the former key")?;
    let mode = opened.state_mode().map(str::to_owned);
    let same_key = old.file.open(today.as_ref()).is_ok();
    if same_key && old.file.state_mode == mode {
        return Ok(None);
    }
    let new = if same_key {
        let file = KeyFile {
            state_mode: mode,
            ..old.file.clone()
        };
        side(file, today, "today's key")?
    } else {
        let made = match &today {
            Some(passphrase) => KeyFile::create(passphrase, Stretching::DEFAULT),
            None => KeyFile::without_passphrase(Stretching::DEFAULT)
                .and_then(|file| Ok((file.clone(), file.open(None)?))),
        };
        let (file, key) = made.map_err(|error| wrong("today's key", &error))?;
        Side {
            file: KeyFile {
                state_mode: mode,
                ..file
            },
            key: Arc::new(key),
            passphrase: today,
        }
    };
    Ok(Some(Keyring {
        today: new,
        former: Some(old),
    }))
}

fn put_keys(store: &Arc<dyn Store>, file: &KeyFile, tag: &Tag) -> Result<Tag, Failure> {
    let body = file.to_json().map_err(|error| stopped(&error))?;
    settle::put_if_match(store.as_ref(), &layout::keys_json(), &body, tag)
        .map_err(|error| stopped(&error))
}

/// How OpenTofu gets the keys of a change; none where states lie open.
struct Sources {
    old: Option<KeySource>,
    new: Option<KeySource>,
    /// What today's key opens and the former one does not: told apart from what the former one opens, without either.
    writing: Option<KeySource>,
}

/// Turns one state to today's key, unless that opens it already; tells whether it did.
fn turn(
    store: &Arc<dyn Store>,
    key: &Key,
    converter: &Converter<'_>,
    sources: &Sources,
    fence: u64,
) -> Result<bool, Failure> {
    let found = store
        .get(key)
        .map_err(|error| stopped(&error))?
        .ok_or_else(|| Failure::failed("it went away meanwhile"))?;
    let (header, bytes) = state_file::decode(&found.bytes).map_err(|error| stopped(&error))?;
    let plain = match converter.open(bytes, sources.old.as_ref()) {
        Ok(plain) => plain,
        // A change that was cut has come this far.
        Err(error) => {
            return match converter.open(bytes, sources.new.as_ref()) {
                Ok(_) => Ok(false),
                Err(_) => Err(stopped(&error)),
            };
        }
    };
    // The current one counts on, as after any write; a version keeps the serial that its key names.
    let serial = if key.as_str().contains('@') {
        header.serial
    } else {
        header.serial + 1
    };
    let closed = converter
        .close(&plain, serial, sources.writing.as_ref())
        .map_err(|error| stopped(&error))?;
    let turned =
        StateHeader::of(&closed, header.writer.clone(), fence).map_err(|error| stopped(&error))?;
    let turned = StateHeader {
        rekeyed_from: Some(header.digest.clone()),
        ..turned
    };
    if turned.lineage != header.lineage {
        return Err(Failure::failed("its lineage would not stay the same"));
    }
    let body = state_file::encode(&turned, &closed).map_err(|error| stopped(&error))?;
    settle::put_if_match(store.as_ref(), key, &body, &found.tag)
        .map_err(|error| stopped(&error))?;
    Ok(true)
}

/// Seals a bundle with today's key, unless that opens it already.
fn seal_anew(
    store: &Arc<dyn Store>,
    key: &Key,
    old: &TargetKey,
    new: &TargetKey,
) -> Result<bool, Failure> {
    let found = store
        .get(key)
        .map_err(|error| stopped(&error))?
        .ok_or_else(|| Failure::failed("it went away meanwhile"))?;
    if new.open(&found.bytes, key.as_str()).is_ok() {
        return Ok(false);
    }
    let bytes = old
        .open(&found.bytes, key.as_str())
        .map_err(|error| stopped(&error))?;
    let sealed = new
        .seal(&bytes, key.as_str())
        .map_err(|error| stopped(&error))?;
    settle::put_if_match(store.as_ref(), key, &sealed, &found.tag)
        .map_err(|error| stopped(&error))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_that_was_cut_stands_in_the_way_as_a_call_does() {
        let at = "2027-01-15T08:00:00Z";
        let record = |status: &str, writing: serde_json::Value| -> Record {
            serde_json::from_value(json!({
                "schema": 1, "fence": 1, "run": "R1", "platform": "lab", "target": "drill", "status": status,
                "first_start": at, "calls": [], "phases": [], "steps": [],
                "standing": [{ "step": "1.edge", "kind": "tofu", "bundle": "b", "values": {}, "run": "R1", "since": at, "writing": writing }]
            }))
            .unwrap()
        };
        let written = json!({ "host": "far", "since": at });
        assert_eq!(cut(&record("running", json!(null))), Some(Cut::Call));
        assert_eq!(
            cut(&record("interrupted", written.clone())),
            Some(Cut::Call)
        );
        let write = Cut::Write {
            step: "1.edge".to_owned(),
            host: "far".to_owned(),
        };
        assert_eq!(cut(&record("finished", written)), Some(write));
        // It was seen to its end; what it came to is in the store.
        assert_eq!(cut(&record("failed", json!({ "since": at }))), None);
        assert_eq!(cut(&record("finished", json!(null))), None);
    }
}
