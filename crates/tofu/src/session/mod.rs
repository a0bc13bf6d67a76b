//! Everything that one step's commands need, and the commands.

mod apply;
mod init;
mod modules;
mod plan;
mod read;
#[cfg(test)]
mod tests;

pub use apply::{Applied, ApplyWhat, Leftover, MayExist};
pub use init::{InitReport, LockPolicy};
pub use modules::{DownloadedModule, ModuleFile};
pub use plan::Planned;
pub use read::{OutputValue, Validation};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process::{How, Invocation, Liveness, Spawner, Stream};
use secrets::{Masker, MemoryDir, Secret};
use serde_json::Value;

use crate::arguments::Command;
use crate::control::{Control, Observer, Uncontrolled, Wanted};
use crate::drive::{Driven, drive};
use crate::environment::{self, Backend};
use crate::error::{Cause, RunError};
use crate::events::{Event, EventLine};
use crate::outcome::Outcome;
use crate::program::Program;
use crate::step_dir::{ERRORED_STATE, InitInputs, Slot, StepDir};
use crate::transcript::Transcript;
use crate::workshop::Workshop;

/// A plugin makes its socket in TMPDIR, and a longer path leaves no room for its name (`sun_path`, 104
/// bytes on macOS).
const SOCKET_ROOM: usize = 80;

/// What a session is made from.
#[derive(Clone)]
pub struct SessionSettings {
    /// The target's working directory.
    pub workshop: Workshop,
    /// The step's directory.
    pub step: StepDir,
    /// Which of its trees.
    pub slot: Slot,
    /// The root module's path in the bundle.
    pub root_module: String,
    /// The `tofu` to run.
    pub program: Program,
    /// The allow-listed environment; what this crate sets itself wins, `GOGC` apart.
    pub env: BTreeMap<OsString, OsString>,
    /// The state; `None` only for what needs none (`validate`): `init` then sets up no backend.
    pub backend: Option<Backend>,
    /// The value of `TF_ENCRYPTION`.
    pub encryption: Option<Secret>,
    /// Declared input variables.
    pub variables: BTreeMap<String, Value>,
    /// What `init` reads: decides which data directory is used.
    pub init_inputs: InitInputs,
    /// The dependency lock file that applies.
    pub lock_file: LockPolicy,
    /// How many operations run at once; `None`: OpenTofu's ten.
    pub parallelism: Option<u16>,
    /// Known secrets.
    pub masker: Masker,
    /// Starts processes.
    pub spawner: Arc<dyn Spawner>,
    /// Says what is wanted while a command runs.
    pub control: Arc<dyn Control>,
    /// Hears the events.
    pub observer: Arc<dyn Observer>,
    /// How long a silence is before the observer is told; zero: never.
    pub patience: Duration,
}

/// The commands of one step. Its files with values lie in memory-backed storage and go with it.
pub struct Session {
    settings: SessionSettings,
    memory: Arc<MemoryDir>,
    var_file: Option<PathBuf>,
    directory: PathBuf,
    tmp: PathBuf,
    data_dir: Mutex<Option<PathBuf>>,
    n_files: AtomicU64,
    init_pauses: Vec<Duration>,
    modules: Vec<ModuleFile>,
    /// The control is heard no more.
    is_undisturbed: AtomicBool,
}

/// What a command came to.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) stdout: Vec<u8>,
    pub(crate) transcript: Option<PathBuf>,
    pub(crate) interrupted: bool,
}

impl Session {
    /// Prepares a session: memory-backed storage, and the file of variables in it.
    ///
    /// # Errors
    /// When there is no memory-backed storage, or the root module's path leads out of the tree.
    pub fn open(settings: SessionSettings) -> Result<Self, RunError> {
        let failed = |cause: Cause| RunError::new(settings.step.key(), "init", cause);
        let directory = settings
            .step
            .root_module(settings.slot, &settings.root_module)
            .map_err(|error| failed(error.into()))?;
        let memory = MemoryDir::create("tofu")
            .map_err(|error| failed(io_cause("make a memory-backed directory", error)))?;
        let mut tmp = settings.workshop.tmp();
        if tmp.as_os_str().len() > SOCKET_ROOM {
            tmp = memory.path().join("tmp");
            process::files::create_private_dir(&tmp)
                .map_err(|error| failed(io_cause("make a short TMPDIR", error)))?;
        }
        let var_file = if settings.variables.is_empty() {
            None
        } else {
            let bytes = serde_json::to_vec(&settings.variables)
                .map_err(|error| failed(Cause::Answer(error)))?;
            let path = memory
                .write("variables.tfvars.json", &bytes)
                .map_err(|error| failed(io_cause("write the variables", error)))?;
            Some(path)
        };
        Ok(Self {
            settings,
            memory: Arc::new(memory),
            var_file,
            directory,
            tmp,
            data_dir: Mutex::new(None),
            n_files: AtomicU64::new(0),
            init_pauses: init::PAUSES.to_vec(),
            modules: Vec::new(),
            is_undisturbed: AtomicBool::new(false),
        })
    }

    /// From now on commands run to their end, whatever the control wants: after a command was interrupted, what it
    /// left has to be read all the same.
    pub fn leave_undisturbed(&self) {
        self.is_undisturbed.store(true, Ordering::Relaxed);
    }

    /// Why a command ended that was asked to.
    fn stopped(&self) -> Cause {
        if self.control().is_timeout() {
            Cause::TimedOut
        } else {
            Cause::Interrupted
        }
    }

    fn control(&self) -> &dyn Control {
        if self.is_undisturbed.load(Ordering::Relaxed) {
            &Uncontrolled
        } else {
            self.settings.control.as_ref()
        }
    }

    /// Sets the pauses between tries of an `init` that meets a network fault; as many tries follow.
    #[must_use]
    pub fn with_init_pauses(mut self, pauses: Vec<Duration>) -> Self {
        self.init_pauses = pauses;
        self
    }

    /// The settings that it was made from.
    #[must_use]
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The directory of the root module.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn fresh_file(&self, name: &str) -> PathBuf {
        self.memory.path().join(format!(
            "{name}-{}",
            self.n_files.fetch_add(1, Ordering::Relaxed)
        ))
    }

    fn error(&self, command: &'static str, cause: impl Into<Cause>) -> RunError {
        RunError::new(self.settings.step.key(), command, cause)
    }

    /// The data directory, after an `init` where none went well there yet.
    fn warm_data_dir(&self) -> Result<PathBuf, RunError> {
        let known = self
            .data_dir
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match known {
            Some(data_dir) => Ok(data_dir),
            None => Ok(self.init(false)?.data_dir),
        }
    }

    /// Runs a command in the warm data directory; where OpenTofu says that it does not fit after
    /// all, runs `init` there and the command once more.
    fn run(&self, command: &Command) -> Result<Ran, RunError> {
        self.run_with_stdin(command, None)
    }

    fn run_with_stdin(&self, command: &Command, stdin: Option<&[u8]>) -> Result<Ran, RunError> {
        let data_dir = self.warm_data_dir()?;
        match self.run_once(command, &data_dir, false, stdin) {
            Err(error) if error.outcome.needs_init() && error.outcome.started.is_empty() => {
                let data_dir = self.reinit(&data_dir)?;
                self.run_once(command, &data_dir, false, stdin)
            }
            result => result,
        }
    }

    /// Runs a command, judged: anything but a good end is an error.
    fn run_once(
        &self,
        command: &Command,
        data_dir: &Path,
        offline: bool,
        stdin: Option<&[u8]>,
    ) -> Result<Ran, RunError> {
        let ran = self.run_raw(command, data_dir, offline, stdin)?;
        if ran.outcome.is_success() {
            return Ok(ran);
        }
        let cause = match ran.outcome.exit {
            _ if ran.interrupted => self.stopped(),
            Some(exit) => Cause::Ended(exit),
            None => Cause::Interrupted,
        };
        Err(RunError {
            outcome: Box::new(ran.outcome),
            transcript: ran.transcript,
            ..self.error(command.name(), cause)
        })
    }

    /// Runs a command to its end, whatever that is.
    pub(crate) fn run_raw(
        &self,
        command: &Command,
        data_dir: &Path,
        offline: bool,
        stdin: Option<&[u8]>,
    ) -> Result<Ran, RunError> {
        let settings = &self.settings;
        let name = command.name();
        // What was asked to end before it began is not begun.
        if self.control().wanted() != Wanted::Run {
            return Err(self.error(name, self.stopped()));
        }
        let call = self.invocation(command, data_dir, offline, stdin);
        let how = if command.changes() {
            self.refuse_a_second(command)?;
            let output = self.fresh_file(&format!("output-{}", name.replace(' ', "-")));
            settings
                .step
                .note_output(name, &output)
                .map_err(|error| self.error(name, io_cause("note where the output goes", error)))?;
            How::changer(output, settings.step.marker())
        } else {
            How::reader()
        };
        // A transcript that can't be kept is no reason to fail.
        let mut transcript =
            Transcript::begin(&settings.workshop.logs(settings.step.key()), name).ok();
        let mut outcome = Outcome::default();
        let mut stdout = Vec::new();
        let streams = command.streams();
        // The last address that was named, for the watchdog.
        let address = RefCell::new(None::<String>);
        let mut on_line = |bytes: &[u8], stream: Stream| {
            if !streams && stream == Stream::Stdout {
                stdout.extend_from_slice(bytes);
                stdout.push(b'\n');
                return;
            }
            if let Some(transcript) = &mut transcript {
                let _ = transcript.add(bytes, &settings.masker);
            }
            let mut line = EventLine::parse(bytes);
            mask(&mut line, &settings.masker);
            outcome.take(&line);
            if let Some(found) = line.address() {
                *address.borrow_mut() = Some(found.to_owned());
            }
            hold_values_back(&mut line);
            settings.observer.event(name, &line);
        };
        let driven = drive(
            settings.spawner.as_ref(),
            &call,
            &how,
            self.control(),
            settings.patience,
            &mut on_line,
            &mut |silence| {
                settings
                    .observer
                    .quiet(name, address.borrow().as_deref(), silence)
            },
        );
        let transcript = transcript.map(|transcript| transcript.path().to_owned());
        let Driven { exit, sent } = match driven {
            Ok(driven) => driven,
            Err(cause) => {
                return Err(RunError {
                    outcome: Box::new(outcome),
                    transcript,
                    ..self.error(name, cause)
                });
            }
        };
        outcome.interrupted |= sent >= Wanted::Interrupt;
        outcome.killed = sent == Wanted::Kill;
        outcome.end(exit);
        if let process::Output::Followed { path } = &how.output {
            let noted = settings
                .step
                .note_end(name, path, &outcome, &settings.masker);
            // What can't be noted is read from the output by the next call.
            if noted.unwrap_or(true) {
                self.memory.keep();
            }
        }
        let interrupted = sent != Wanted::Run;
        Ok(Ran {
            outcome,
            stdout,
            transcript,
            interrupted,
        })
    }

    /// Never two at once, and never past a state that waits for its rescue: the caller looks first,
    /// this holds where it forgot.
    fn refuse_a_second(&self, command: &Command) -> Result<(), RunError> {
        let name = command.name();
        let looking =
            |error| self.error(name, io_cause("look for a child of an earlier call", error));
        if let Some(child) = self.settings.step.running_child().map_err(looking)?
            && child.liveness == Liveness::Alive
        {
            return Err(self.error(
                name,
                Cause::StillRunning {
                    pid: child.identity.pid,
                },
            ));
        }
        if matches!(
            command,
            Command::ApplySaved { .. } | Command::ApplyDirect { .. }
        ) {
            let path = self.directory.join(ERRORED_STATE);
            if path.symlink_metadata().is_ok() {
                return Err(self.error(name, Cause::Unrescued { path }));
            }
        }
        Ok(())
    }

    /// The whole call, without IO but for the lengths of paths.
    fn invocation(
        &self,
        command: &Command,
        data_dir: &Path,
        offline: bool,
        stdin: Option<&[u8]>,
    ) -> Invocation {
        let settings = &self.settings;
        let workshop = &settings.workshop;
        let env = environment::environment(&environment::Parts {
            base: &settings.env,
            home: &workshop.home(),
            tmp: &self.tmp,
            cli_config: &if offline {
                workshop.offline_cli_config()
            } else {
                workshop.cli_config()
            },
            data_dir,
            backend: settings.backend.as_ref(),
            encryption: settings.encryption.as_ref(),
        });
        let mut words = settings.program.command.iter().cloned();
        let program = words
            .next()
            .unwrap_or_else(|| settings.program.path.clone().into());
        let mut call = Invocation::new(PathBuf::from(program), &self.directory)
            .args(words)
            .args(command.arguments(self.var_file.as_deref(), settings.parallelism));
        call.env = env;
        call.stdin = stdin.map(<[u8]>::to_vec);
        call
    }
}

pub(crate) fn io_cause(
    doing: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Cause {
    Cause::Io {
        doing,
        source: Box::new(error),
    }
}

/// Masks the text of a line. Output values stay: they are what later steps are given.
pub(crate) fn mask(line: &mut EventLine, masker: &Masker) {
    let over = |text: &mut String| {
        if let std::borrow::Cow::Owned(masked) = masker.mask(text) {
            *text = masked;
        }
    };
    over(&mut line.message);
    match &mut line.event {
        Event::Text(text) | Event::Log(text) => over(text),
        Event::Other { message, .. } => over(message),
        Event::Diagnostic(diagnostic) => {
            over(&mut diagnostic.summary);
            over(&mut diagnostic.detail);
            diagnostic.address.iter_mut().for_each(over);
            if let Some(snippet) = &mut diagnostic.snippet {
                over(&mut snippet.code);
                snippet
                    .values
                    .iter_mut()
                    .for_each(|value| over(&mut value.statement));
            }
            if let Some(difference) = &mut diagnostic.difference {
                for side in [&mut difference.before, &mut difference.after] {
                    let text = side.to_string();
                    if let std::borrow::Cow::Owned(masked) = masker.mask(&text) {
                        *side = serde_json::from_str(&masked).unwrap_or(Value::String(masked));
                    }
                }
            }
        }
        Event::Apply(_, hook) | Event::Provision(_, hook) | Event::Refresh(_, hook) => {
            over(&mut hook.output);
            over(&mut hook.id_value);
        }
        _ => {}
    }
}

/// Leaves out what an observer must not print.
fn hold_values_back(line: &mut EventLine) {
    if let Event::Outputs(outputs) = &mut line.event {
        for output in outputs.values_mut() {
            output.value = None;
        }
    }
}
