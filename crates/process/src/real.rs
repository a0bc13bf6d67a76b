//! The spawner that starts real programs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::captured::{self, Captured};
use crate::child::Waiter;
use crate::files::{FileError, create_private_file};
use crate::followed::Followed;
use crate::group;
use crate::identity::{Identity, raw_pid};
use crate::invocation::Invocation;
use crate::launch;
use crate::programs::find_program;
use crate::spawn::{How, Output, Running, Signal, SpawnError, Spawner};
use crate::wait;

/// The longest single argument or variable that Linux takes, in bytes, its end included
/// (`MAX_ARG_STRLEN`, `man 2 execve`).
const LONGEST_STRING: usize = 128 * 1024;

/// Starts real programs.
#[derive(Debug, Clone)]
pub struct RealSpawner {
    /// The launcher's program and first arguments; empty: programs are started directly.
    launcher: Vec<OsString>,
}

impl RealSpawner {
    /// Starts programs through a launcher: a program, by absolute path, and first arguments that
    /// make it call [`launch::main`].
    #[must_use]
    pub fn new(launcher: Vec<OsString>) -> Self {
        Self { launcher }
    }

    /// Starts programs directly, for tests and tools.
    ///
    /// Without a launcher there is no parent-death signal, SIGHUP is not ignored, and a marker is
    /// written right after the start instead of before it.
    #[must_use]
    pub fn direct() -> Self {
        Self {
            launcher: Vec::new(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this crate alone spawns")]
    fn command(&self, program: &Path, call: &Invocation, how: &How) -> Command {
        let mut command = match self.launcher.split_first() {
            None => Command::new(program),
            Some((launcher, first)) => {
                let mut command = Command::new(launcher);
                command
                    .args(first)
                    .args(launch::arguments(how.ending, how.marker.as_ref()))
                    .arg(program);
                command
            }
        };
        command
            .args(&call.args)
            .current_dir(&call.cwd)
            .env_clear()
            .envs(&call.env)
            .process_group(0);
        command
    }
}

impl Spawner for RealSpawner {
    fn start(&self, call: &Invocation, how: &How) -> Result<Box<dyn Running>, SpawnError> {
        if !call.cwd.is_dir() {
            let (program, cwd) = (call.program.clone(), call.cwd.clone());
            return Err(SpawnError::NoDirectory { program, cwd });
        }
        let path = call.env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let program = find_program(&call.program, path, &call.cwd)?;
        check_lengths(&program, call)?;
        let _ = fault::point("spawn.before", || call.brief());
        let cannot_start = |source| SpawnError::Start {
            program: program.clone(),
            source,
        };

        let mut command = self.command(&program, call, how);
        command.stdin(stdin(call.stdin.as_deref()).map_err(cannot_start)?);
        let waiter = Waiter::new().map_err(cannot_start)?;
        match &how.output {
            Output::Followed { path } => {
                let (file, to_follow) = output_file(&program, path)?;
                let second = file.try_clone().map_err(cannot_start)?;
                command.stdout(file).stderr(second);
                let (identity, pid) = self.spawn(command, &program, call, how)?;
                let child = waiter.watch(identity, pid, how.ending, None);
                let _ = fault::point("spawn.after", || call.brief());
                Ok(Box::new(Followed::new(child, to_follow)))
            }
            Output::Captured => {
                let (out, out_writer) = io::pipe().map_err(cannot_start)?;
                let (err, err_writer) = io::pipe().map_err(cannot_start)?;
                let (notice, notice_writer) = io::pipe().map_err(cannot_start)?;
                let (sender, pieces) = mpsc::channel();
                command.stdout(out_writer).stderr(err_writer);
                std::thread::Builder::new()
                    .name("child-output".into())
                    .stack_size(256 * 1024)
                    .spawn(move || captured::drain(out, err, &notice, &sender))
                    .map_err(cannot_start)?;
                let (identity, pid) = self.spawn(command, &program, call, how)?;
                let child = waiter.watch(identity, pid, how.ending, Some(notice_writer));
                let _ = fault::point("spawn.after", || call.brief());
                Ok(Box::new(Captured { child, pieces }))
            }
        }
    }
}

impl RealSpawner {
    /// Starts the child and tells who it is. Our ends of its pipes are closed afterwards.
    fn spawn(
        &self,
        command: Command,
        program: &Path,
        call: &Invocation,
        how: &How,
    ) -> Result<(Identity, Pid), SpawnError> {
        let program = program.to_owned();
        let number = spawn_on_lasting_thread(command).map_err(|source| {
            if source.kind() == io::ErrorKind::ArgumentListTooLong {
                let n_bytes = strings(call).map(|(_, n_bytes)| n_bytes).sum();
                SpawnError::TooLong {
                    program: program.clone(),
                    n_bytes,
                }
            } else {
                SpawnError::Start {
                    program: program.clone(),
                    source,
                }
            }
        })?;
        let marked = Identity::of(number).and_then(|identity| {
            // Otherwise the launcher has written it, or is about to.
            if let Some(marker) = how.marker.as_ref().filter(|_| self.launcher.is_empty()) {
                identity.write_marker(marker)?;
            }
            Ok(identity)
        });
        match (marked, raw_pid(number)) {
            (Ok(identity), Some(pid)) => Ok((identity, pid)),
            (Err(source), Some(pid)) => {
                // Nobody could find it again: it must not live.
                let _ = group::signal(pid, Signal::Kill);
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                Err(SpawnError::Unidentified { program, source })
            }
            (_, None) => Err(SpawnError::Start {
                program,
                source: io::Error::from(io::ErrorKind::InvalidData),
            }),
        }
    }
}

/// The parent-death signal comes when the *thread* that started a child ends (`man 2
/// PR_SET_PDEATHSIG`), so all children are started by one thread that lasts as long as we do.
fn spawn_on_lasting_thread(command: Command) -> io::Result<u32> {
    type Job = (Command, Sender<io::Result<u32>>);
    static THREAD: OnceLock<Mutex<Option<Sender<Job>>>> = OnceLock::new();

    let (answer, answered) = mpsc::channel();
    {
        let mut thread = THREAD
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, jobs) = mpsc::channel::<Job>();
            std::thread::Builder::new()
                .name("spawner".into())
                .spawn(move || {
                    for (command, answer) in jobs {
                        let _ = answer.send(spawn_now(command));
                    }
                })?;
            *thread = Some(sender);
        }
        let gone = || io::Error::other("the spawning thread is gone");
        let sender = thread.as_ref().ok_or_else(gone)?;
        sender.send((command, answer)).map_err(|_| gone())?;
    }
    answered
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the spawning thread is gone")))
}

fn spawn_now(mut command: Command) -> io::Result<u32> {
    let deadline = Instant::now() + Duration::from_millis(500);
    let spawned = wait::until(deadline, Duration::from_millis(10), || {
        match command.spawn() {
            // A file just written may still be open in a fork of another thread.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
            // The handle is let go without a kill and without a wait: `Child` does both by the pid.
            spawned => Some(spawned.map(|child| child.id())),
        }
    });
    spawned.unwrap_or_else(|| Err(io::ErrorKind::ExecutableFileBusy.into()))
}

fn output_file(program: &Path, path: &Path) -> Result<(File, File), SpawnError> {
    let failed = |source| SpawnError::OutputFile {
        program: program.to_owned(),
        path: path.to_owned(),
        source,
    };
    let file = create_private_file(path).map_err(|error| match error {
        FileError::Io { source, .. } => failed(source),
        FileError::NotOurs { .. } => failed(io::ErrorKind::PermissionDenied.into()),
    })?;
    let to_follow = File::open(path).map_err(failed)?;
    Ok((file, to_follow))
}

/// An empty stdin, or one that holds all its bytes already, in memory: our end cannot cut it.
#[cfg(target_os = "linux")]
fn stdin(bytes: Option<&[u8]>) -> io::Result<Stdio> {
    use std::io::{Seek, Write};
    let Some(bytes) = bytes else {
        return Ok(Stdio::null());
    };
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("stdin", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// An empty stdin, or a pipe that a thread fills.
#[cfg(not(target_os = "linux"))]
fn stdin(bytes: Option<&[u8]>) -> io::Result<Stdio> {
    use std::io::Write;
    let Some(bytes) = bytes else {
        return Ok(Stdio::null());
    };
    let (reader, mut writer) = io::pipe()?;
    let bytes = bytes.to_vec();
    std::thread::Builder::new()
        .name("child-stdin".into())
        .spawn(move || {
            // A program need not read its stdin.
            let _ = writer.write_all(&bytes);
        })?;
    Ok(reader.into())
}

/// Names and lengths of every string that the system has to pass on.
fn strings(call: &Invocation) -> impl Iterator<Item = (String, usize)> + '_ {
    let args = call.args.iter().enumerate();
    let args = args.map(|(i, arg)| (format!("argument {}", i + 1), arg.as_bytes().len() + 1));
    let env = call.env.iter().map(|(name, value)| {
        let n_bytes = name.as_bytes().len() + value.as_bytes().len() + 2;
        (format!("variable `{}`", name.to_string_lossy()), n_bytes)
    });
    args.chain(env)
}

fn check_lengths(program: &Path, call: &Invocation) -> Result<(), SpawnError> {
    match strings(call).find(|(_, n_bytes)| *n_bytes > LONGEST_STRING) {
        None => Ok(()),
        Some((what, n_bytes)) => Err(SpawnError::StringTooLong {
            program: PathBuf::from(program),
            what,
            n_bytes,
            limit: LONGEST_STRING,
        }),
    }
}
