//! Ansible first: a playbook writes secrets into memory, from where they are sealed and given to the workspace.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use envelope::{Capture, Captured, KeyName};
use handoff::{Hands, On, Play, Played, Told};
use phase_engine::{ExitCode, Failure};
use process::How;
use serde_json::{Map, Value};

use super::Workspace;
use crate::ansible_step::way_to_have;
use crate::error::failed;
use crate::exec_step::Log;
use crate::handoff_step::{Act, PLAYS, UTF8, notice};
use crate::ui::Notice;

/// The extra variable that tells the play where it may write secrets.
pub const CAPTURE_VARIABLE: &str = "rebuild_capture";
/// How many entries of a log are held back in memory; those before them are dropped.
const MOST_HELD: usize = 100_000;

/// The playbook that captures secrets.
#[derive(Clone, Debug, Default)]
pub struct CapturePlay {
    /// Its path: as typed, or within the platform once it was looked at.
    pub playbook: String,
    /// The inventory that it is run on; this machine alone without one.
    pub inventory: Option<PathBuf>,
    /// The pattern that limits it.
    pub limit: Option<String>,
}

/// What a playbook captured. It lies in memory, and is wiped when this is dropped.
pub struct Caught {
    capture: Capture,
    files: Vec<Captured>,
    /// One line for people.
    pub summary: String,
}

impl Caught {
    /// The names of the secrets, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.key.to_string()).collect()
    }
}

impl Workspace<'_> {
    /// Looks, before anything is done, whether a playbook can capture secrets for this workspace: it is there, Ansible
    /// is, and what is captured can be sealed and opened again.
    ///
    /// # Errors
    /// What is missing or wrong; nothing was touched.
    pub fn capture_of(&self, play: CapturePlay) -> Result<CapturePlay, Failure> {
        let source = self.source()?;
        let playbook = self.playbook(&source, &play.playbook)?;
        let bench = &self.held.bench;
        if self.def()?.captured.is_empty() {
            let name = &self.site.name;
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("workspace `{name}` captures nothing"),
            )
            .hint(format!(
                "add `captured = [\"NAME\"]` to `[workspace.{name}]`: the sensitive variables that the playbook is to \
                 find values for. Nothing was touched"
            )));
        }
        let inventory = play.inventory.map(|path| bench.machine.cwd.join(path));
        if let Some(path) = inventory.as_ref().filter(|path| !path.exists()) {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("there is no inventory `{}`", path.display()),
            )
            .hint("nothing was touched"));
        }
        self.can_seal()?;
        bench.demand_ansible(&source.platform)?;
        Ok(CapturePlay {
            playbook,
            inventory,
            ..play
        })
    }

    /// Runs the playbook to its end; gives what it captured. What it said is written into the log only once what it
    /// captured can be masked in it.
    ///
    /// # Errors
    /// It could not be run, did not do its part, or captured too little or what is no secret.
    pub fn capture(&self, play: &CapturePlay) -> Result<Caught, Failure> {
        let unusable = |error: &envelope::CaptureError| Failure::of(ExitCode::Unusable, error);
        let capture = Capture::create().map_err(|error| unusable(&error))?;
        let act = self.act("ansible");
        let held = Mutex::new(Vec::new());
        let played = self.played(play, &capture, &act, &held);
        let _ = ::fault::point("capture.played", String::new);
        let read = capture.read();
        let masker = &self.held.bench.masker;
        for file in read.iter().flatten() {
            if let Some(secret) = file.to_secret() {
                masker.add(file.key.as_str(), &secret);
            }
        }
        let mut log = Log::open(&act.log);
        for entry in held.into_inner().unwrap_or_else(PoisonError::into_inner) {
            log.take(&masker.mask(&entry));
        }
        let with_log = |failure: Failure| self.masked(failure).log(act.log.clone());
        let summary = played.map_err(with_log)?;
        let files = read.map_err(|error| {
            with_log(failed(&error).hint(format!(
                "let a task write each secret into a file of its own in `{{{{ {CAPTURE_VARIABLE} }}}}`; what was captured is \
                 wiped"
            )))
        })?;
        let caught = Caught {
            capture,
            files,
            summary,
        };
        self.is_enough(&caught, play).map_err(with_log)?;
        Ok(caught)
    }

    /// Seals what was captured, as `job`'s, wipes it, and gives the workspace what it wants of it.
    ///
    /// # Errors
    /// It can't be sealed, or the workspace wants a text and it is none.
    pub fn seal_caught(&self, job: &str, caught: Caught) -> Result<Vec<String>, Failure> {
        let names = caught.names();
        let wanted = self.captures()?;
        let mut given = std::collections::BTreeMap::new();
        for file in &caught.files {
            self.seal(job, file)?;
            let _ = ::fault::point("capture.sealed", || file.key.to_string());
            let wiped = caught.capture.wipe(&file.key);
            wiped.map_err(|error| failed(&error))?;
            if wanted.iter().any(|name| name == file.key.as_str()) {
                let secret = file.to_secret().ok_or_else(|| no_text(&file.key))?;
                given.insert(file.key.to_string(), secret);
            }
        }
        self.give(given)?;
        Ok(names)
    }

    /// What the workspace wants and neither the play captured nor the envelope holds from an earlier one.
    fn is_enough(&self, caught: &Caught, play: &CapturePlay) -> Result<(), Failure> {
        let captured: BTreeSet<String> = caught.names().into_iter().collect();
        let wanted = self.captures()?;
        let is_no_text = caught
            .files
            .iter()
            .find(|file| file.to_secret().is_none() && wanted.contains(&file.key.to_string()));
        if let Some(file) = is_no_text {
            return Err(no_text(&file.key));
        }
        let sealed = self.sealed_names()?;
        let lacking: Vec<String> = wanted
            .into_iter()
            .filter(|name| !captured.contains(name) && !sealed.contains(name))
            .map(|name| format!("`{name}`"))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "playbook `{}` captured no {}, which workspace `{}` wants",
            play.playbook,
            lacking.join(", "),
            self.site.name
        ))
        .hint(format!(
            "let a task write a file of that name into `{{{{ {CAPTURE_VARIABLE} }}}}`; what else was captured is wiped"
        )))
    }

    fn played(
        &self,
        play: &CapturePlay,
        capture: &Capture,
        act: &Act<'_>,
        held: &Mutex<Vec<String>>,
    ) -> Result<String, Failure> {
        let bench = &self.held.bench;
        let (source, def) = (self.source()?, self.def()?);
        let step = &self.site.step;
        let dir = bench.step_dir(step)?;
        bench.place(&dir, tofu::Slot::Tree, &source, &[])?;
        let scope = bench.scope(&bench.target.values);
        let mut env = bench.env_of(&format!("step `{step}`"), &def.step().env, &scope)?;
        env.entry("LC_ALL".into()).or_insert_with(|| UTF8.into());
        let tool = bench.ansible_tool(&source.platform)?;
        let n = bench.n_files.fetch_add(1, Ordering::Relaxed);
        let output = bench.memory.path().join(format!("play-output-{n}"));
        let path = capture.path().display().to_string();
        let played = Play {
            program: tool.program,
            prefix: tool.prefix,
            tree: dir.tree(tofu::Slot::Tree),
            playbook: play.playbook.clone().into(),
            on: match &play.inventory {
                Some(path) => On::Inventory { path },
                None => On::ThisMachine,
            },
            limit: play.limit.clone(),
            vars: Map::from_iter([(CAPTURE_VARIABLE.to_owned(), Value::from(path))]),
            check: false,
            diff: false,
            env,
            // It changes things, so it outlives us, and the next call waits for it.
            how: How::changer(&output, dir.marker()),
        };
        let played = self.with_held_log(act, held, |hands| hands.play(&played))?;
        if !matches!(&played, Err(handoff::PlayError::Run(_))) {
            // Seen to its end: nothing is left for the next call to wait for.
            let _ = std::fs::remove_file(&output);
            dir.clear_marker().map_err(|error| failed(&error))?;
        }
        let played: Played = played.map_err(|error| failed(&error))?;
        let Err(why) = played.changed() else {
            return Ok(played.summary());
        };
        if played.is_stopped {
            return Err(bench.stopped(act, "the playbook"));
        }
        let mut failure = Failure::failed(format!("playbook `{}`: {why}", play.playbook));
        for line in &why.why {
            failure = failure.because(line.as_str());
        }
        if let Some(missing) = why.missing() {
            let way = way_to_have(&missing, &play.playbook, |path| {
                source.bundle.file(path).is_some()
            });
            failure = failure.hint(format!("{way}; then the same command goes on"));
        }
        Err(failure)
    }

    /// Hands whose log is held back in memory. The operator is told which tasks there are and how they ended, and
    /// nothing of what they say: nobody knows yet what in it is secret.
    fn with_held_log<T>(
        &self,
        act: &Act<'_>,
        held: &Mutex<Vec<String>>,
        work: impl FnOnce(&Hands<'_>) -> T,
    ) -> Result<T, Failure> {
        let step = act.step.to_string();
        let ui = &self.held.bench.ui;
        let tell = |told: &Told| {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if held.len() < MOST_HELD {
                held.push(told.to_string());
            }
            match notice(&step, told) {
                Some(Notice::TaskEnded {
                    step,
                    host,
                    task,
                    status,
                    ..
                }) => ui.tell(&Notice::TaskEnded {
                    step,
                    host,
                    task,
                    status,
                    message: String::new(),
                }),
                Some(Notice::Difference { .. }) | None => {}
                Some(other) => ui.tell(&other),
            }
        };
        // What the play itself does over SSH is by the inventory; this machine alone needs none.
        let bench = &self.held.bench;
        let ssh = bench.ssh_client().unwrap_or_else(|_| "ssh".into());
        bench.with_hands_telling(act, PLAYS, &ssh, work, &tell)
    }
}

fn no_text(key: &KeyName) -> Failure {
    Failure::failed(format!(
        "the captured file `{key}` is no text, which a variable of OpenTofu must be"
    ))
    .hint("let the play encode it, for example in base64; what was captured is wiped")
}
