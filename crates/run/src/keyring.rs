//! The key of a target: today's, and the former one while a change of keys stands unfinished.
//!
//! As long as both passphrases are given, everything is read with either and written with today's, so any command goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, TargetName};
use record::{RecordStore, StateMark};
use secrets::{KeyError, KeyFile, KeyMode, MemoryDir, Secret, TargetKey};
use store::{Store, layout, state_file};
use tofu::encryption::{self, Closed, Fallback, KeySource};

use crate::api::Machine;
use crate::error::{stopped, unusable};
use crate::open::{Opened, REKEY};
use crate::secret_book;

/// So many keys of the store are named in a message.
const NAMED: usize = 20;

/// One of the two keys of a change.
pub(crate) struct Side {
    pub(crate) file: KeyFile,
    pub(crate) key: Arc<TargetKey>,
    pub(crate) passphrase: Option<Secret>,
}

impl Side {
    fn is_stretched_by_tofu(&self) -> bool {
        self.file.state_mode.as_deref() == Some("pbkdf2")
    }

    /// How OpenTofu gets it; none where nothing is encrypted.
    pub(crate) fn source(
        &self,
        machine: &Machine,
        memory: &MemoryDir,
        name: &str,
    ) -> Result<Option<KeySource>, Failure> {
        let (Some(passphrase), Some(state_key), Some(id)) =
            (&self.passphrase, self.key.state_key(), self.key.id())
        else {
            return Ok(None);
        };
        if self.is_stretched_by_tofu() {
            return Ok(Some(KeySource::Pbkdf2 {
                passphrase: passphrase.clone(),
                iterations: machine.rounds,
            }));
        }
        let file = memory
            .write(name, state_key.as_slice())
            .map_err(|error| stopped(&error))?;
        let program = program(machine, &[&file.display().to_string(), &id]);
        Ok(Some(KeySource::External { program }))
    }
}

fn program(machine: &Machine, words: &[&str]) -> Vec<String> {
    let mut program = vec![machine.exe.display().to_string(), "__key".to_owned()];
    program.extend(words.iter().map(|word| (*word).to_owned()));
    program
}

/// Today's key, and the former one where that is needed and given.
pub(crate) struct Keyring {
    pub(crate) today: Side,
    pub(crate) former: Option<Side>,
}

impl Keyring {
    /// How OpenTofu gets what it writes with, and what it may read besides; none where nothing is encrypted.
    pub(crate) fn writing(
        &self,
        machine: &Machine,
        memory: &MemoryDir,
    ) -> Result<Option<(KeySource, Fallback)>, Failure> {
        let Some(today) = self.today.source(machine, memory, "state-key")? else {
            return Ok(None);
        };
        let Some(former) = &self.former else {
            return Ok(Some((today, Fallback::None)));
        };
        let Some(source) = former.source(machine, memory, "former-state-key")? else {
            return Ok(Some((today, Fallback::Plain)));
        };
        if self.today.is_stretched_by_tofu() != former.is_stretched_by_tofu() {
            return Ok(Some((today, Fallback::Key(source))));
        }
        // OpenTofu takes no two key providers of a kind: ours tells the two keys apart.
        let source = match (today, source) {
            (KeySource::External { mut program }, KeySource::External { program: other }) => {
                // The program, `__key`, and the file.
                program.extend(other.get(2).cloned());
                KeySource::External { program }
            }
            _ => self.chained(machine, memory, former)?,
        };
        Ok(Some((source, Fallback::None)))
    }

    fn chained(
        &self,
        machine: &Machine,
        memory: &MemoryDir,
        former: &Side,
    ) -> Result<KeySource, Failure> {
        let written = |name: &str, passphrase: &Option<Secret>| {
            let text = passphrase.as_ref().map_or("", |secret| secret.expose());
            memory
                .write(name, text.as_bytes())
                .map(|file| file.display().to_string())
                .map_err(|error| stopped(&error))
        };
        let today = written("passphrase", &self.today.passphrase)?;
        let former = written("former-passphrase", &former.passphrase)?;
        let id = self.today.key.id().unwrap_or_default();
        Ok(KeySource::Chained {
            program: program(machine, &["passphrase", &today, &id, &former]),
            iterations: machine.rounds,
        })
    }

    /// The value of `TF_ENCRYPTION`.
    pub(crate) fn settings(
        &self,
        machine: &Machine,
        memory: &MemoryDir,
    ) -> Result<Option<Secret>, Failure> {
        if let Some((today, fallback)) = self.writing(machine, memory)? {
            return Ok(Some(encryption::environment(&today, &fallback)));
        }
        let former = match &self.former {
            Some(former) => former.source(machine, memory, "former-state-key")?,
            None => None,
        };
        Ok(former.map(|former| encryption::dropping_environment(&former)))
    }
}

impl Opened<'_> {
    /// Opens the target's key; while a change of it stands unfinished, the former one as well.
    pub(crate) fn keyring(&self, file: KeyFile) -> Result<Keyring, Failure> {
        if let Some(before) = file.former.clone() {
            let store = self.storage.current();
            let today = self.passphrase.as_ref();
            return both(&store, &self.target.name, file, *before, today, || {
                self.named_former()
            });
        }
        let key = file.open(self.passphrase.as_ref()).map_err(|error| {
            let target = &self.target.name;
            unusable(&error).hint(match error {
                KeyError::Added => format!(
                    "`rebuild state rekey --target {target}` encrypts what is stored; without `[encryption]` in \
                     targets/{target}.toml all goes on as it was. Nothing was touched"
                ),
                KeyError::Newer { .. } => {
                    "use the version of `rebuild` that wrote it, or a newer one; nothing was touched".to_owned()
                }
                _ => format!(
                    "give the passphrase that target `{target}` was built with: without it nobody can read its states. Nothing was \
                     touched; {REKEY}"
                ),
            })
        })?;
        let today = Side {
            file,
            key: Arc::new(key),
            passphrase: self.passphrase.clone(),
        };
        Ok(Keyring {
            today,
            former: None,
        })
    }

    /// The former passphrase, where the target's file names one.
    pub(crate) fn named_former(&self) -> Result<Option<Secret>, Failure> {
        let Some(source) = &self.target.former else {
            return Ok(None);
        };
        let secret = secret_book::fetch_one(
            source,
            "former passphrase",
            self.target.name.as_str(),
            self.machine,
            self.secrets.root(),
        )
        .map_err(|error| unusable(&error).hint(error.hint()))?;
        self.masker.add("former passphrase", &secret);
        Ok(Some(secret))
    }
}

/// Opens the keys of a change that stands unfinished: `before` with the former passphrase, `file` with today's.
///
/// # Errors
/// One of the passphrases is not what it must be. Today's alone is enough where nothing needs the former one.
pub(crate) fn both(
    store: &Arc<dyn Store>,
    name: &TargetName,
    file: KeyFile,
    before: KeyFile,
    today: Option<&Secret>,
    former: impl FnOnce() -> Result<Option<Secret>, Failure>,
) -> Result<Keyring, Failure> {
    let file = KeyFile {
        former: None,
        ..file
    };
    let key = file.open(today).map_err(|error| {
        let is_former = before.open(today).is_ok();
        let mut failure = unusable(&error);
        failure.causes.insert(0, std::mem::take(&mut failure.what));
        failure.what = format!("the key of target `{name}` is being changed, and that has not come to its end");
        failure.hint(match is_former {
            true => format!(
                "targets/{name}.toml names the former passphrase: let `passphrase` of `[encryption]` name the new one and `former` this one. \
                 Any command goes on with both, and `rebuild state rekey --target {name}` ends the change. Nothing was touched"
            ),
            false => format!(
                "let `[encryption]` of targets/{name}.toml name the new passphrase as `passphrase` and the one before as `former`: any \
                 command goes on with both, and `rebuild state rekey --target {name}` ends the change. Nothing was touched"
            ),
        })
    })?;
    let today_side = Side {
        file,
        key: Arc::new(key),
        passphrase: today.cloned(),
    };
    // A target without encryption has no former passphrase to give; where only the mode changes, today's is the former one.
    let given = match before.mode {
        KeyMode::None => None,
        KeyMode::Passphrase => former()?.or_else(|| today.cloned()),
    };
    match before.open(given.as_ref()) {
        Ok(key) => Ok(Keyring {
            today: today_side,
            former: Some(Side {
                file: before,
                key: Arc::new(key),
                passphrase: given,
            }),
        }),
        Err(_) => {
            let left = needs_former(store, &before, &today_side)?;
            if left.is_empty() {
                return Ok(Keyring {
                    today: today_side,
                    former: None,
                });
            }
            Err(still_needed(name, &left))
        }
    }
}

fn still_needed(name: &TargetName, left: &[String]) -> Failure {
    let mut failure = Failure::new(
        ExitCode::Unusable,
        format!(
            "the key of target `{name}` is being changed, that has not come to its end, and the former passphrase is not given; {} in the \
             store still {} it",
            count(left.len()),
            if left.len() == 1 { "needs" } else { "need" }
        ),
    );
    failure.causes = left
        .iter()
        .take(NAMED)
        .map(|key| format!("`{key}` still needs the former passphrase"))
        .collect();
    if let Some(more) = left.len().checked_sub(NAMED).filter(|more| *more > 0) {
        failure.causes.push(format!("and {more} more"));
    }
    failure.hint(format!(
        "`former = {{ env = \"NAME\" }}` in `[encryption]` of targets/{name}.toml gives it: any command goes on with both, and \
         `rebuild state rekey --target {name}` takes over what is left. Nothing was touched"
    ))
}

fn count(n: usize) -> String {
    match n {
        1 => "one value".to_owned(),
        n => format!("{n} values"),
    }
}

/// Lists by key what today's key does not open, as far as it can be told from the outside.
///
/// # Errors
/// The store can't be read, or a state in it is none.
pub(crate) fn needs_former(
    store: &Arc<dyn Store>,
    before: &KeyFile,
    today: &Side,
) -> Result<Vec<String>, Failure> {
    let mut left = Vec::new();
    for prefix in [layout::STATES, layout::WORKSPACES] {
        for key in store.list(prefix).map_err(|error| stopped(&error))? {
            let Some(found) = store.get(&key).map_err(|error| stopped(&error))? else {
                continue;
            };
            let (_, bytes) = state_file::decode(&found.bytes).map_err(|error| stopped(&error))?;
            let closed = encryption::closed_how(bytes).map_err(|error| stopped(&error))?;
            if !is_todays(&closed, before, today) {
                left.push(key.to_string());
            }
        }
    }
    for key in store
        .list(layout::BUNDLES)
        .map_err(|error| stopped(&error))?
    {
        let Some(found) = store.get(&key).map_err(|error| stopped(&error))? else {
            continue;
        };
        if today.key.open(&found.bytes, key.as_str()).is_err() {
            left.push(key.to_string());
        }
    }
    Ok(left)
}

fn is_todays(closed: &Closed, before: &KeyFile, today: &Side) -> bool {
    let same_kind = before.mode == KeyMode::Passphrase
        && before.state_mode.as_deref().unwrap_or("external")
            == today.file.state_mode.as_deref().unwrap_or("external");
    let named = |name: &Option<String>| !same_kind || *name == today.key.id();
    match closed {
        Closed::Open => !today.key.is_encrypting(),
        Closed::External(name) => {
            today.key.is_encrypting() && !today.is_stretched_by_tofu() && named(name)
        }
        Closed::Pbkdf2(name) => {
            today.key.is_encrypting() && today.is_stretched_by_tofu() && named(name)
        }
        Closed::Otherwise => false,
    }
}

/// Lets the record know the states whose key alone was changed since it was written. A state that is none of those that it
/// knew stays unexplained.
///
/// # Errors
/// The store can't be read or written.
pub(crate) fn reconcile(
    records: &RecordStore,
    store: &Arc<dyn Store>,
    fence: u64,
) -> Result<(), Failure> {
    let Some(mut current) = records.current().map_err(|error| stopped(&error))? else {
        return Ok(());
    };
    let mut turned = BTreeMap::new();
    for key in store
        .list(layout::STATES)
        .map_err(|error| stopped(&error))?
    {
        let Some(step) = layout::step_of_state(&key) else {
            continue;
        };
        let Some(found) = store.get(&key).map_err(|error| stopped(&error))? else {
            continue;
        };
        let (header, _) = state_file::decode(&found.bytes).map_err(|error| stopped(&error))?;
        turned.insert(step.to_owned(), header);
    }
    let mut record = current.value.clone();
    for entry in &mut record.standing {
        let (Some(known), Some(header)) = (&mut entry.state, turned.get(&entry.step.key())) else {
            continue;
        };
        let is_the_same = header.rekeyed_from.as_deref() == Some(known.digest.as_str());
        if is_the_same && header.lineage == known.lineage {
            *known = StateMark {
                lineage: header.lineage.clone(),
                serial: header.serial,
                digest: header.digest.clone(),
            };
        }
    }
    if record == current.value {
        return Ok(());
    }
    record.fence = fence;
    records
        .save(&mut current, record)
        .map_err(|error| stopped(&error))
}
