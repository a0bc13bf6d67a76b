//! A cluster behind `talosctl`: every call bounded, what changes things outliving us, what is at work noted.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use phase_engine::StepId;
use process::files::write_atomically;
use process::{How, Invocation, Progress, Running, Signal, collect, wait};
use talos::{Client, Cluster, Journal, Limits, Machine, Role, Seen, Stopped, Upgrade};
use tofu::StepDir;

use crate::bench::Bench;
use crate::environment::Environment;
use crate::exec_step::Log;
use crate::stop::StopLevel;
use crate::ui::{Notice, Stage};

/// The longest that one look at one machine may take: `talosctl` tries on and on where nobody answers.
const LOOK: Duration = Duration::from_secs(10);
/// How much longer than it was told to a command may take.
const LENIENCE: Duration = Duration::from_secs(30);
/// The longest that a patch may take.
const PATCH: Duration = Duration::from_secs(120);
/// How often the operator's signals are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a command has after its SIGINT.
const AFTER_INTERRUPT: Duration = Duration::from_secs(10);
/// How many of the last lines an error shows.
const TAIL_LINES: usize = 20;

/// `talosctl`, and where its output is kept.
pub(crate) struct Talosctl<'b, 'm> {
    bench: &'b Bench<'m>,
    env: Environment,
    cwd: PathBuf,
    argv: Vec<String>,
    log: RefCell<Option<Log>>,
}

impl<'b, 'm> Talosctl<'b, 'm> {
    pub(crate) fn new(
        bench: &'b Bench<'m>,
        env: Environment,
        cwd: PathBuf,
        argv: Vec<String>,
    ) -> Self {
        Self {
            bench,
            env,
            cwd,
            argv,
            log: RefCell::new(None),
        }
    }

    /// Keeps what it writes, masked.
    pub(crate) fn logging(self, path: PathBuf) -> Self {
        *self.log.borrow_mut() = Some(Log::open(&path));
        self
    }

    fn invocation(&self, args: &[OsString]) -> Invocation {
        let (program, first) = self
            .argv
            .split_first()
            .map_or(("talosctl", &[][..]), |(program, first)| (program, first));
        let mut invocation = Invocation::new(program, &self.cwd).args(first).args(args);
        invocation.env.clone_from(&self.env);
        invocation
    }

    fn note(&self, line: &str) {
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.take(&self.bench.masker.mask(line));
        }
    }

    /// Runs a command that only reads, for a short time.
    pub(crate) fn read(&self, args: &[OsString]) -> Result<String, String> {
        self.run(args, LOOK)
    }

    /// Runs a command to its end. Whatever it is stopped by is no answer.
    fn run(&self, args: &[OsString], limit: Duration) -> Result<String, String> {
        let stop = &self.bench.stop;
        let ran = collect(
            self.bench.machine.spawner.as_ref(),
            &self.invocation(args),
            &How::reader(),
            limit,
            &mut || stop.level() >= StopLevel::Interrupt,
        );
        let collected = ran.map_err(|error| self.bench.masked(&chain(&error)))?;
        let stdout = String::from_utf8_lossy(&collected.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&collected.stderr).into_owned();
        stderr.lines().for_each(|line| self.note(line));
        if collected.exit.is_success() {
            return Ok(stdout);
        }
        stdout.lines().for_each(|line| self.note(line));
        let last = stderr
            .lines()
            .chain(stdout.lines())
            .rfind(|line| !line.trim().is_empty());
        let why = last.map_or_else(
            || format!("it ended with {}", collected.exit),
            |line| line.trim().to_owned(),
        );
        Err(self.bench.masked(&why))
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// A cluster, as `talosctl` shows it.
pub(crate) struct TalosctlCluster<'b, 'm> {
    program: Talosctl<'b, 'm>,
    client: Client,
    machines: Vec<Machine>,
    image: String,
    limits: Limits,
    patches: Vec<PathBuf>,
    changes: Option<Changes>,
    started: Instant,
    /// Why machines did not answer when they were last looked at, by name.
    silent: RefCell<BTreeMap<String, String>>,
}

/// What only a call that changes something needs.
struct Changes {
    step: StepId,
    dir: StepDir,
    journal: PathBuf,
    timeout: Option<Duration>,
}

impl<'b, 'm> TalosctlCluster<'b, 'm> {
    pub(crate) fn new(
        program: Talosctl<'b, 'm>,
        client: Client,
        machines: Vec<Machine>,
        image: String,
        limits: Limits,
        patches: Vec<PathBuf>,
    ) -> Self {
        Self {
            program,
            client,
            machines,
            image,
            limits,
            patches,
            changes: None,
            started: Instant::now(),
            silent: RefCell::default(),
        }
    }

    pub(crate) fn changing(
        mut self,
        step: StepId,
        dir: StepDir,
        journal: PathBuf,
        timeout: Option<Duration>,
    ) -> Self {
        self.changes = Some(Changes {
            step,
            dir,
            journal,
            timeout,
        });
        self
    }

    /// Why machines did not answer when they were last looked at.
    pub(crate) fn last_words(&self) -> Vec<String> {
        let silent = self.silent.borrow();
        silent
            .iter()
            .map(|(machine, why)| format!("machine `{machine}`: {why}"))
            .collect()
    }

    /// The step's time, once it is over.
    pub(crate) fn over_time(&self) -> Option<Duration> {
        let limit = self.changes.as_ref()?.timeout?;
        (self.started.elapsed() >= limit).then_some(limit)
    }

    /// The version is that of one start only where the start is the same before and after it was asked for: an old
    /// version with a new start would look like a rollback.
    fn look_at(&self, machine: &Machine) -> Result<Seen, String> {
        let boot_id = self.boot_id(machine)?;
        let said = self.program.read(&self.client.version(machine))?;
        let version = talos::server_version(&said).map_err(|error| error.to_string())?;
        if self.boot_id(machine)? != boot_id {
            return Err("it started anew while it was asked".to_owned());
        }
        Ok(Seen::Up { version, boot_id })
    }

    fn boot_id(&self, machine: &Machine) -> Result<String, String> {
        let said = self.program.read(&self.client.boot_id(machine))?;
        talos::boot_id(&said).map_err(|error| error.to_string())
    }
}

impl Cluster for TalosctlCluster<'_, '_> {
    fn look(&self, machine: &Machine) -> Seen {
        match self.look_at(machine) {
            Ok(seen) => {
                self.silent.borrow_mut().remove(&machine.name);
                seen
            }
            Err(why) => {
                self.silent.borrow_mut().insert(machine.name.clone(), why);
                Seen::Silent
            }
        }
    }

    fn health(&self) -> Result<(), String> {
        let wait = self.limits.health;
        self.program
            .run(&self.client.health(&self.machines, wait), wait + LENIENCE)?;
        let members = self
            .machines
            .iter()
            .filter(|machine| machine.role == Role::ControlPlane);
        let said = self
            .program
            .run(&self.client.etcd_status(&self.machines), LENIENCE)?;
        let faults =
            talos::etcd_faults(&said, members.count()).map_err(|error| error.to_string())?;
        if faults.is_empty() {
            Ok(())
        } else {
            Err(format!("etcd: {}", faults.join("; ")))
        }
    }

    fn upgrade(&self, machine: &Machine) -> Result<Box<dyn Upgrade + '_>, String> {
        let changes = self.changes.as_ref().ok_or("this call changes nothing")?;
        let bench = self.program.bench;
        let n = bench
            .n_files
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let output = bench.memory.path().join(format!("talosctl-{n}"));
        let args = self.client.upgrade(machine, &self.image, self.limits.node);
        let how = How::changer(&output, changes.dir.marker());
        let running = bench
            .machine
            .spawner
            .start(&self.program.invocation(&args), &how)
            .map_err(|error| bench.masked(&chain(&error)))?;
        Ok(Box::new(Child {
            program: &self.program,
            running: Some(running),
            dir: &changes.dir,
            output,
            ended: None,
            tail: VecDeque::new(),
        }))
    }

    fn patch(&self, machine: &Machine, n: usize) -> Result<(), String> {
        let patch = self.patches.get(n).ok_or("there is no such patch")?;
        self.program
            .run(&self.client.patch(machine, patch), PATCH)
            .map(drop)
    }

    fn note(&self, journal: Option<&Journal>) -> Result<(), String> {
        let Some(changes) = &self.changes else {
            return Ok(());
        };
        match journal {
            Some(journal) => {
                let bytes = serde_json::to_vec(journal).map_err(|error| error.to_string())?;
                write_atomically(&changes.journal, &bytes, 0o600).map_err(|error| chain(&error))
            }
            None => match std::fs::remove_file(&changes.journal) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!(
                    "cannot remove `{}`: {error}",
                    changes.journal.display()
                )),
                _ => Ok(()),
            },
        }
    }

    fn wait(&self, time: Duration) -> Result<(), Stopped> {
        let stop = &self.program.bench.stop;
        let asked = wait::until(Instant::now() + time, TICK.min(time), || {
            (stop.level() >= StopLevel::Interrupt || self.over_time().is_some()).then_some(())
        });
        asked.map_or(Ok(()), |()| Err(Stopped))
    }

    fn passed(&self) -> Duration {
        self.started.elapsed()
    }

    fn tell(&self, machine: &Machine, is_back: bool) {
        let Some(changes) = &self.changes else { return };
        self.program.bench.ui.tell(&Notice::Resource {
            step: changes.step.to_string(),
            address: machine.name.clone(),
            action: "upgrade".to_owned(),
            stage: if is_back {
                Stage::Completed
            } else {
                Stage::Started
            },
            seconds: 0,
        });
    }
}

/// A running `talosctl upgrade`.
struct Child<'c, 'b, 'm> {
    program: &'c Talosctl<'b, 'm>,
    running: Option<Box<dyn Running>>,
    dir: &'c StepDir,
    output: PathBuf,
    ended: Option<bool>,
    tail: VecDeque<String>,
}

impl Child<'_, '_, '_> {
    /// Reads what it wrote since, and whether it has ended.
    fn follow(&mut self, wait: Duration) {
        let Some(running) = &mut self.running else {
            return;
        };
        while self.ended.is_none() {
            match running.next(wait) {
                Ok(Progress::Line(line, _)) => {
                    let line = String::from_utf8_lossy(&line);
                    let line = self.program.bench.masked(&line);
                    self.program.note(&line);
                    if self.tail.len() == TAIL_LINES {
                        self.tail.pop_front();
                    }
                    self.tail.push_back(line);
                }
                Ok(Progress::Quiet) => return,
                Ok(Progress::Ended(exit)) => self.ended = Some(exit.is_success()),
                // What it said is lost; what it did shows on the machine.
                Err(_) => self.ended = Some(false),
            }
        }
    }
}

impl Upgrade for Child<'_, '_, '_> {
    fn ended(&mut self) -> Option<bool> {
        self.follow(Duration::ZERO);
        self.ended
    }

    fn end(&mut self) {
        self.follow(Duration::ZERO);
        if self.ended.is_none()
            && let Some(running) = &self.running
        {
            // One that is gone by itself meanwhile is none to signal.
            let _ = running.signal_group(Signal::Interrupt);
            let deadline = Instant::now() + AFTER_INTERRUPT;
            while self.ended.is_none() && Instant::now() < deadline {
                self.follow(TICK);
            }
        }
        if let Some(running) = self.running.take()
            && (self.ended.is_some() || running.kill_group().is_ok())
        {
            // Seen to its end: nothing is left for the next call to wait for.
            let _ = std::fs::remove_file(&self.output);
            let _ = self.dir.clear_marker();
        }
    }

    fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}
