//! Opening a call: definitions, tools and secrets first, then the store, its lock and the target's key.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use phase_engine::{ExitCode, Failure, RunId, StepId, TargetName};
use platform::{
    Bundle, DirFiles, EncryptionMode, EnvValue, Faults, Git, GitView, NamedRoot, Platform, Target,
    TargetDefinitions,
};
use preflight::{KnownTarget, identify};
use process::Identity as ProcessIdentity;
use record::{RecordStore, TargetJson, ToolRecord};
use secrets::{KeyFile, Masker, MemoryDir, Secret, Stretching};
use state_backend::{Server, ServerOptions, StateBackend};
use store::lock::{Holder, HowTo, LockError, LockNotice, TargetLock};
use store::{Store, Writer, layout};
use tofu::{Program, Workshop};

use crate::api::{Machine, Site};
use crate::bench::Bench;
use crate::environment;
use crate::error::{CallError, stopped, unusable};
use crate::keyring::{self, Keyring, Side};
use crate::known;
use crate::library::{Library, Source};
use crate::masking::MaskedUi;
use crate::own_states;
use crate::paths::TargetPaths;
use crate::required_drill::{self, RequiredDrill};
use crate::scope::OutputBook;
use crate::secret_book::{self, SecretBook};
use crate::stop::StopRequests;
use crate::storage::{CallLocks, Opener, Storage};
use crate::ui::{Notice, Ui};

/// What a call works on, with the store not touched yet.
pub(crate) struct Opened<'m> {
    pub(crate) machine: &'m Machine,
    pub(crate) ui: Arc<dyn Ui>,
    pub(crate) stop: Arc<StopRequests>,
    pub(crate) target: Target,
    pub(crate) platform_name: String,
    /// Today's definitions, or what is wrong with them.
    pub(crate) today: Result<Arc<Source>, Faults>,
    pub(crate) secrets: SecretBook,
    pub(crate) masker: Masker,
    pub(crate) passphrase: Option<Secret>,
    pub(crate) program: Program,
    pub(crate) cli_config: Option<PathBuf>,
    pub(crate) paths: TargetPaths,
    pub(crate) storage: Arc<Storage>,
    /// The drill that is required, for what goes by today's definitions.
    pub(crate) drill: Option<RequiredDrill>,
    /// Where each ended record is copied to.
    pub(crate) archive: Option<RecordStore>,
    /// The workspace that the call is about, in place of the target's steps.
    pub(crate) workspace: Option<Workspace>,
}

/// A workspace of a handoff.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// Its step.
    pub(crate) step: StepId,
    /// Its root module, where it was named by its directory.
    pub(crate) named: Option<NamedRoot>,
}

/// How a target gets another key.
pub(crate) const REKEY: &str = "`rebuild state rekey --target T` takes everything to another one";

/// What faults of `rebuild.toml` do to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFaults {
    /// It goes by today's definitions, and ends.
    Stop,
    /// It goes by what stands, and goes on.
    GoOn,
    /// It goes by today's definitions, and a state that a root module keeps by itself is what it is about.
    Migrate,
}

/// The target's name, or what is wrong with it.
pub(crate) fn target_name(site: &Site) -> Result<TargetName, Failure> {
    TargetName::new(&site.target).map_err(|error| unusable(&error))
}

/// The platform's directory: the one that was named, or the nearest from here upward.
pub(crate) fn platform_dir(machine: &Machine, site: &Site) -> Result<PathBuf, Failure> {
    let start = site
        .platform
        .as_ref()
        .map_or_else(|| machine.cwd.clone(), |dir| machine.cwd.join(dir));
    platform::find_root(&start).map_err(|error| {
        unusable(&error)
            .hint("go into the platform's directory, or name it with `--platform DIR`; `rebuild init DIR` writes a new one")
    })
}

/// Makes sure that the store is the one that this machine knows the target by.
///
/// # Errors
/// It is another one, it is empty though this machine knows one, or it can't be read.
pub(crate) fn the_known_store(
    store: &Arc<dyn Store>,
    paths: &TargetPaths,
    platform: &str,
    target: &TargetName,
    first_build: Option<&str>,
) -> Result<(), Failure> {
    let found = RecordStore::new(Arc::clone(store))
        .target()
        .map_err(|error| stopped(&error))?
        .map(|loaded| KnownTarget {
            platform: loaded.value.platform,
            target: loaded.value.target.to_string(),
            id: loaded.value.id,
        });
    let known = known::read(&paths.known()).map_err(|error| stopped(&error))?;
    let identity = identify(
        found.as_ref(),
        known.as_deref(),
        platform,
        target.as_str(),
        first_build,
    );
    let (Some(why), Some(way_on)) = (identity.why(), identity.way_on(target.as_str())) else {
        return Ok(());
    };
    Err(Failure::new(ExitCode::Stopped, why)
        .because(format!("the store is {}", store.describe()))
        .hint(way_on))
}

/// Reads the definitions of a site. Faults of `rebuild.toml` are in the answer, those of the target are an error.
pub(crate) fn definitions(
    machine: &Machine,
    site: &Site,
    named: Option<&NamedRoot>,
) -> Result<(PathBuf, TargetDefinitions), CallError> {
    let name = target_name(site)?;
    let root = platform_dir(machine, site)?;
    let files = DirFiles::open(&root).map_err(|error| unusable(&error))?;
    let found = platform::load_target_with(&files, None, &name, named)?;
    Ok((root, found))
}

impl<'m> Opened<'m> {
    /// Reads both files, packs the bundle, fetches the secrets that are used, finds the tools.
    ///
    /// # Errors
    /// Faults; nothing was touched.
    pub(crate) fn open(
        machine: &'m Machine,
        site: &Site,
        stop: &Arc<StopRequests>,
        ui: &Arc<dyn Ui>,
        faults: OnFaults,
    ) -> Result<Self, CallError> {
        Self::open_on(machine, site, None, stop, ui, faults)
    }

    /// The same for a call about a workspace.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub(crate) fn open_on(
        machine: &'m Machine,
        site: &Site,
        workspace: Option<Workspace>,
        stop: &Arc<StopRequests>,
        ui: &Arc<dyn Ui>,
        faults: OnFaults,
    ) -> Result<Self, CallError> {
        let named = workspace.as_ref().and_then(|one| one.named.as_ref());
        let (
            root,
            TargetDefinitions {
                target,
                platform,
                warnings,
            },
        ) = definitions(machine, site, named)?;
        for warning in &warnings {
            ui.tell(&Notice::Warning {
                message: warning.message.clone(),
                hint: warning.help.clone(),
            });
        }
        let masker = Masker::new();
        let ui: Arc<dyn Ui> = Arc::new(MaskedUi {
            inner: Arc::clone(ui),
            masker: masker.clone(),
        });
        let (tools, today) = match platform {
            Ok(platform) => {
                let tools = platform.tools.clone();
                (tools, Ok(Arc::new(pack(machine, &root, platform, &ui)?)))
            }
            // Before any secret is asked for.
            Err(found) if faults != OnFaults::GoOn => return Err(CallError::from(found)),
            Err(found) => (Default::default(), Err(found)),
        };
        let platform_name = match &today {
            Ok(today) => today.platform.name.clone(),
            Err(faults) => match platform_name_of(&root) {
                Ok(name) => name,
                // The name is the one thing that is needed of the file; the faults say why it is not there.
                Err(_) => return Err(faults.clone().into()),
            },
        };
        let drill = match (&target.drill, &today) {
            (Some(def), Ok(today)) if faults == OnFaults::Stop => {
                let provides_state = today
                    .platform
                    .phases
                    .first()
                    .is_some_and(|phase| phase.provides_state);
                Some(required_drill::required_drill(
                    machine,
                    &root,
                    &platform_name,
                    provides_state,
                    def,
                )?)
            }
            _ => None,
        };
        let mut named: BTreeSet<String> = target.env.keys().cloned().collect();
        named.extend(target.env.values().filter_map(|value| match value {
            EnvValue::From(from) => Some(from.clone()),
            EnvValue::Value(_) => None,
        }));
        let dropped = environment::dropped(&machine.env, &named);
        if !dropped.is_empty() {
            ui.tell(&Notice::EnvironmentDropped { names: dropped });
        }
        let mut used = match &today {
            Ok(today) => secret_book::used(&today.platform, &target),
            // What a teardown from stored bundles needs is not known yet: fetched when it is asked for.
            Err(_) => BTreeSet::new(),
        };
        used.extend(secret_book::used_by_store(&target));
        let secrets = SecretBook::fetch(&used, &target, machine, &root, &masker, &ui)
            .map_err(|error| unusable(&error).hint(error.hint()))?;
        let passphrase = match &target.encryption {
            None => None,
            Some(encryption) => {
                let passphrase = secret_book::fetch_one(
                    &encryption.passphrase,
                    "passphrase",
                    target.name.as_str(),
                    machine,
                    &root,
                )
                .map_err(|error| unusable(&error).hint(error.hint()))?;
                masker.add("passphrase", &passphrase);
                Some(passphrase)
            }
        };
        let unmaskable = masker.unmaskable();
        if !unmaskable.is_empty() {
            ui.tell(&Notice::Unmaskable { names: unmaskable });
        }
        let tool = tools.get("tofu");
        let command = tool
            .and_then(|tool| tool.command.as_deref())
            .map(|words| command_of(words, &root));
        let program = Program::find(
            command.as_deref(),
            machine
                .env
                .get(OsStr::new("PATH"))
                .map(std::ffi::OsString::as_os_str),
            tool.and_then(|tool| tool.version.as_ref()),
            Some(&machine.state_home.join("tools.json")),
            machine.spawner.as_ref(),
        )
        .map_err(|error| {
            unusable(&error)
                .hint("install OpenTofu 1.12, or name it in `[tools] tofu = { command = […] }`")
        })?;
        if let Some(wanted) = tool.and_then(|tool| tool.sha256.as_ref())
            && !wanted.eq_ignore_ascii_case(&program.digest)
        {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "`{}` is not the tofu that `[tools]` names: its SHA-256 is `{}`",
                    program.path.display(),
                    program.digest
                ),
            )
            .into());
        }
        ui.tell(&Notice::Tool {
            name: "tofu".to_owned(),
            path: program.path.display().to_string(),
            version: program.version.to_string(),
        });
        let cli_config = tool
            .and_then(|tool| tool.cli_config.as_ref())
            .map(|file| root.join(file));
        let paths = TargetPaths::new(&machine.state_home, &platform_name, &target.name);
        let opener = Opener {
            machine,
            target: &target,
            root: &root,
            secrets: &secrets,
        };
        let platform = today.as_ref().ok().map(|today| &today.platform);
        let storage = Storage::open(&opener, &paths, &platform_name, platform)?
            .adopting(faults == OnFaults::Migrate);
        let storage = Arc::new(storage);
        let archive = required_drill::archive(&opener, &paths)?;
        let own = match &today {
            Ok(today) if faults != OnFaults::Migrate => {
                own_states::not_taken_over(&storage, &today.platform)?
            }
            _ => None,
        };
        let today = match own {
            Some(found) if faults != OnFaults::GoOn => return Err(CallError::from(found)),
            Some(found) => Err(found),
            None => today,
        };
        Ok(Self {
            machine,
            ui,
            stop: Arc::clone(stop),
            target,
            platform_name,
            today,
            secrets,
            masker,
            passphrase,
            program,
            cli_config,
            paths,
            storage,
            drill,
            archive,
            workspace,
        })
    }

    /// Today's definitions, where they have no faults.
    pub(crate) fn today(&self) -> Option<Arc<Source>> {
        self.today.as_ref().ok().cloned()
    }
}

/// A tool's command line: a program that is named by a relative path lies in the platform directory.
fn command_of(words: &[String], root: &std::path::Path) -> Vec<String> {
    let mut words = words.to_vec();
    if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
        *program = root.join(&*program).display().to_string();
    }
    words
}

fn pack(
    machine: &Machine,
    root: &std::path::Path,
    platform: Platform,
    ui: &Arc<dyn Ui>,
) -> Result<Source, Failure> {
    let git = Git::find(machine.spawner.as_ref(), &machine.env);
    let bundle = Bundle::pack(root, &git)
        .and_then(|bundle| bundle.with_rendered(&platform.rendered))
        .map_err(|error| unusable(&error))?;
    let state = git.state(root).map_err(|error| unusable(&error))?;
    let (commit, dirty) = match state {
        Some(state) => (Some(state.commit), state.dirty),
        None => (None, false),
    };
    ui.tell(&Notice::Bundle {
        digest: bundle.digest().to_owned(),
        commit: commit.clone(),
        dirty,
    });
    Ok(Source {
        bundle,
        platform,
        commit,
        dirty,
    })
}

/// The platform's name of a `rebuild.toml` with faults elsewhere: `down` needs nothing else of it.
pub(crate) fn platform_name_of(root: &std::path::Path) -> Result<String, Failure> {
    let path = root.join(platform::PLATFORM_FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| unusable(&error))?;
    platform::platform_name(&text).ok_or_else(|| {
        Failure::new(ExitCode::Unusable, format!("`{}` does not say the platform's name", path.display()))
            .hint("`[platform] name` says whose states these are; it is the one thing that `down` needs of the file")
    })
}

/// A call that holds the target's lock.
pub(crate) struct Held<'m> {
    pub(crate) bench: Bench<'m>,
    pub(crate) today: Result<Arc<Source>, Faults>,
    pub(crate) lock: Arc<CallLocks>,
    pub(crate) records: RecordStore,
    pub(crate) paths: TargetPaths,
    pub(crate) platform_name: String,
    pub(crate) run: RunId,
    /// What is written before a first run begins: `keys.json`, where there is none, and `target.json`.
    pub(crate) first: First,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) drill: Option<RequiredDrill>,
    pub(crate) archive: Option<RecordStore>,
}

/// What a first build writes before its run begins.
pub(crate) struct First {
    pub(crate) keys: Option<Vec<u8>>,
    pub(crate) target: Option<TargetJson>,
    pub(crate) id: String,
}

impl<'m> Opened<'m> {
    /// Takes the target's lock and opens its key, its state backend and its working directory.
    ///
    /// # Errors
    /// The target is locked by someone else, the store can't be read or is another target's, the key is wrong.
    pub(crate) fn hold(
        self,
        command: &str,
        first_build: Option<&str>,
    ) -> Result<Held<'m>, CallError> {
        let machine = self.machine;
        let me = ProcessIdentity::of_self().map_err(|error| unusable(&error))?;
        let run =
            RunId::new(ulid::Ulid::generate().to_string()).map_err(|error| unusable(&error))?;
        self.storage.locate()?;
        let key_file = self.key_file()?;
        // Stretching the passphrase is slow on purpose: once a call, whether it makes the key or opens it.
        let (json, keys) = match key_file {
            Some(file) => {
                let keys = self.keyring(file)?;
                self.same_mode(&keys.today.file)?;
                (None, keys)
            }
            None => {
                let today = self.new_key()?;
                let json = today.file.to_json().map_err(|error| unusable(&error))?;
                (
                    Some(json),
                    Keyring {
                        today,
                        former: None,
                    },
                )
            }
        };
        let holder = Holder {
            identity: me.clone(),
            user: machine.user.clone(),
            host: machine.host.clone(),
            run: None,
            command: command.to_owned(),
            since: moment((machine.now)()),
        };
        let ui = Arc::clone(&self.ui);
        let mut notify = |notice: LockNotice| {
            ui.tell(&Notice::Waiting {
                what: waiting_for(&notice),
            })
        };
        let counted = self.storage.current();
        let lock = TargetLock::acquire(
            Arc::clone(&counted),
            holder.clone(),
            machine.lease,
            &mut notify,
        )
        .map_err(|error| locked(&error, &self.target.name))?;
        let locks = Arc::new(CallLocks::new(Arc::clone(&counted), lock, machine.lease));
        let held = self
            .storage
            .still_counts(&counted)
            .map_err(CallError::from)
            .and_then(|()| {
                self.build_held(first_build, Arc::clone(&locks), holder, keys, json, run)
            });
        if held.is_err() {
            let _ = locks.release();
        }
        held
    }

    fn build_held(
        self,
        first_build: Option<&str>,
        lock: Arc<CallLocks>,
        holder: Holder,
        keyring: Keyring,
        keys: Option<Vec<u8>>,
        run: RunId,
    ) -> Result<Held<'m>, CallError> {
        let machine = self.machine;
        let store = self.storage.store();
        let records = RecordStore::new(Arc::clone(&store));
        let found = records.target().map_err(|error| stopped(&error))?;
        let found = found.map(|loaded| loaded.value);
        the_known_store(
            &store,
            &self.paths,
            &self.platform_name,
            &self.target.name,
            first_build,
        )?;
        self.storage.sweep()?;
        let first = match (&found, keys) {
            (Some(found), keys) => First {
                keys,
                target: None,
                id: found.id.clone(),
            },
            (None, keys) => {
                let id = ulid::Ulid::generate().to_string();
                let target = TargetJson {
                    schema: record::SCHEMA,
                    platform: self.platform_name.clone(),
                    target: self.target.name.clone(),
                    id: id.clone(),
                    moved_to: None,
                };
                First {
                    keys,
                    target: Some(target),
                    id,
                }
            }
        };
        let workshop = Workshop::open(&self.paths.work(), self.cli_config.as_deref())
            .map_err(|error| stopped(&error))?;
        let mut library_former = None;
        let memory = MemoryDir::create("call").map_err(|error| stopped(&error))?;
        let encryption = keyring.settings(machine, &memory)?;
        let key = Arc::clone(&keyring.today.key);
        if let Some(former) = &keyring.former {
            self.ui.tell(&Notice::Warning {
                message: format!(
                    "the key of target `{}` is being changed: what is written goes to the new one",
                    self.target.name
                ),
                hint: Some(format!(
                    "`rebuild state rekey --target {}` takes over what is left; the former passphrase is needed until then",
                    self.target.name
                )),
            });
            keyring::reconcile(&records, &store, lock.fence())?;
            library_former = Some(Arc::clone(&former.key));
        }
        let guard = Arc::clone(&lock);
        let writer = Writer {
            identity: holder.identity.clone(),
            user: machine.user.clone(),
            host: machine.host.clone(),
            run: None,
        };
        let backend = StateBackend::new(
            Arc::clone(&store),
            lock.fence(),
            writer,
            Arc::new(move || guard.hold()),
        );
        let server = Server::start(Arc::new(backend), ServerOptions::default())
            .map_err(|error| stopped(&error))?;
        let named = self.workspace.as_ref().and_then(|one| one.named.clone());
        let library = Library::new(Arc::clone(&store), named);
        library.unlock(Arc::clone(&key));
        if let Some(former) = library_former {
            library.unlock_former(former);
        }
        if let Ok(today) = &self.today {
            library.add(Arc::clone(today));
        }
        self.ui.tell(&Notice::Locked {
            fence: lock.fence(),
        });
        let env = environment::base(&machine.env, &workshop.home(), &workshop.tmp());
        let logs = self.paths.logs().join(run.as_str());
        let bench = Bench {
            machine,
            ui: self.ui,
            stop: self.stop,
            target: self.target,
            secrets: self.secrets,
            masker: self.masker,
            key,
            program: self.program,
            workshop,
            memory,
            encryption,
            server,
            library,
            outputs: OutputBook::default(),
            logs,
            env,
            n_files: AtomicU64::new(0),
            hearers: Mutex::default(),
            placing: Mutex::default(),
            consents: Arc::default(),
            storage: self.storage,
            locks: Arc::clone(&lock),
            holder,
            workspace: self.workspace.map(|one| one.step),
            captured: Mutex::default(),
            without_captured: AtomicBool::new(false),
            paths: self.paths.clone(),
            ssh: Mutex::default(),
        };
        Ok(Held {
            bench,
            today: self.today,
            lock,
            records,
            paths: self.paths,
            platform_name: self.platform_name,
            run,
            first,
            store,
            drill: self.drill,
            archive: self.archive,
        })
    }

    /// Reads `keys.json`; `None` before the first build.
    fn key_file(&self) -> Result<Option<KeyFile>, Failure> {
        let Some(found) = self
            .storage
            .current()
            .get(&layout::keys_json())
            .map_err(|error| stopped(&error))?
        else {
            return Ok(None);
        };
        KeyFile::from_json(&found.bytes)
            .map(Some)
            .map_err(|error| unusable(&error))
    }

    /// A state that was encrypted in one mode can't be read in the other.
    fn same_mode(&self, file: &KeyFile) -> Result<(), Failure> {
        let today = self.state_mode();
        match (&file.state_mode, today) {
            (Some(was), Some(today)) if was != today => Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "the states of target `{}` are encrypted in the mode `{was}`, and it names the mode `{today}`",
                    self.target.name
                ),
            )
            .hint(format!("name the mode that the target was built with; {REKEY}"))),
            _ => Ok(()),
        }
    }

    /// How OpenTofu gets the key of this target's states today.
    pub(crate) fn state_mode(&self) -> Option<&'static str> {
        self.target.encryption.as_ref().map(|def| match def.mode {
            EncryptionMode::External => "external",
            EncryptionMode::Pbkdf2 => "pbkdf2",
        })
    }

    fn new_key(&self) -> Result<Side, Failure> {
        let made = match &self.passphrase {
            Some(passphrase) => {
                KeyFile::create(passphrase, Stretching::DEFAULT).map(|(file, key)| {
                    let file = KeyFile {
                        state_mode: self.state_mode().map(str::to_owned),
                        ..file
                    };
                    (file, key)
                })
            }
            None => KeyFile::without_passphrase(Stretching::DEFAULT).and_then(|file| {
                let key = file.open(None)?;
                Ok((file, key))
            }),
        };
        let (file, key) = made.map_err(|error| unusable(&error))?;
        Ok(Side {
            file,
            key: Arc::new(key),
            passphrase: self.passphrase.clone(),
        })
    }
}

/// A point in time to the second, in UTC.
pub(crate) fn moment(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What is waited for, as it fits after "waiting for".
pub(crate) fn waiting_for(notice: &LockNotice) -> String {
    let whose = |holder: &Option<Holder>| {
        holder.as_ref().map_or_else(
            || "an unreadable lock".to_owned(),
            |holder| format!("the lock of {holder}"),
        )
    };
    match notice {
        LockNotice::Waiting { holder, lease } => {
            format!(
                "{} s, in which {} may show life",
                // A lease of less than a second is not none.
                lease.as_millis().div_ceil(1000),
                whose(holder)
            )
        }
        LockNotice::TakingOver { holder } => {
            format!("{}, whose holder is dead: it is taken over", whose(holder))
        }
    }
}

/// Why the target's lock is not ours.
pub(crate) fn locked(error: &LockError, target: &TargetName) -> Failure {
    match error {
        LockError::Held {
            how_to: how_to @ HowTo::WaitFor { .. },
            ..
        } => Failure::of(ExitCode::Locked, error).hint(format!(
            "{how_to}; `rebuild status --target {target}` shows how far it is"
        )),
        LockError::Held {
            how_to: HowTo::Unlock,
            ..
        } => Failure::of(ExitCode::Locked, error).hint(format!(
            "wait for it; only once you know that it is dead: `rebuild unlock --target {target}`"
        )),
        LockError::Beating { .. } => Failure::of(ExitCode::Locked, error)
            .hint("its holder lives, so nothing was unlocked: wait for it, or end it there"),
        LockError::NotLocked { .. } => {
            stopped(error).hint("there is nothing to unlock; any command may go on")
        }
        _ => stopped(error),
    }
}

/// The tools of a call, as the record keeps them.
pub(crate) fn tools(bench: &Bench<'_>) -> Vec<ToolRecord> {
    vec![
        ToolRecord {
            name: "rebuild".to_owned(),
            version: bench.machine.version.clone(),
            sha256: None,
        },
        ToolRecord {
            name: "tofu".to_owned(),
            version: bench.program.version.to_string(),
            sha256: Some(bench.program.digest.clone()),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::command_of;

    #[test]
    fn a_program_with_a_relative_path_lies_in_the_platform_directory() {
        for (program, expected) in [
            ("tofu", "tofu"),
            ("bin/tofu", "/lab/bin/tofu"),
            ("./tofu", "/lab/./tofu"),
            ("/opt/tofu", "/opt/tofu"),
        ] {
            let words = [program.to_owned(), "-x".to_owned()];
            assert_eq!(command_of(&words, "/lab".as_ref()), [expected, "-x"]);
        }
    }
}
