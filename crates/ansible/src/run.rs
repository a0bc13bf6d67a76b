//! One run of `ansible-playbook`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::files::{FileError, create_private_dir, write_atomically};
use process::{Exit, How, Invocation, KillError, Progress, ReadError, Signal, SpawnError, Spawner};

use crate::event::Event;

/// What prints the events.
const PLUGIN: &str = include_str!("rebuild_events.py");

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Run {
    /// `ansible-playbook`.
    pub program: PathBuf,
    /// Its first arguments, where another program starts it.
    pub prefix: Vec<String>,
    /// The directory that it runs in: the tree that the playbook lies in.
    pub cwd: PathBuf,
    /// A private directory for its configuration, HOME and temporary files.
    pub dir: PathBuf,
    /// The inventory; a document's name ends in `.yml`.
    pub inventory: PathBuf,
    /// The playbook, seen from `cwd`.
    pub playbook: PathBuf,
    /// The hosts that it is limited to, as a pattern.
    pub limit: Option<String>,
    /// Files of extra variables, in memory-backed storage where they hold a secret.
    pub extra_vars: Vec<PathBuf>,
    /// Where roles are looked for, besides beside the playbook.
    pub roles: Vec<PathBuf>,
    /// Where collections are looked for, besides where Ansible itself has them.
    pub collections: Vec<PathBuf>,
    /// The ssh client; without it the first on the PATH.
    pub ssh: Option<PathBuf>,
    /// Whether nothing may be changed.
    pub check: bool,
    /// Whether differences are printed.
    pub diff: bool,
    /// Its environment, besides what is set here. `ANSIBLE_*` of the caller must not be in it.
    pub env: BTreeMap<OsString, OsString>,
}

/// What the caller wants of a run that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    No,
    /// End it: one SIGINT to its whole group, and SIGKILL when that was not enough within [`GRACE`].
    Interrupt,
    /// Kill its whole group at once.
    Kill,
}

/// How long a run has to end after its one SIGINT.
pub const GRACE: Duration = Duration::from_secs(20);

/// A run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its configuration could not be written.
    #[error("the configuration of Ansible could not be written")]
    Config(#[source] FileError),
    /// It could not be started.
    #[error("`{}` could not be started", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: SpawnError,
    },
    /// Its output could not be read.
    #[error("the output of `ansible-playbook` could not be read")]
    Read(#[source] ReadError),
    /// Something of it lives on after it was killed.
    #[error("`ansible-playbook` and what it started could not be killed")]
    Kill(#[source] KillError),
}

impl Run {
    /// Runs to the end, or until `stop` ends it. Each line goes to `line`, with the event that it is, where it is one.
    ///
    /// `stop` is asked several times a second; what it once asked for is not taken back.
    ///
    /// # Errors
    /// When it can't be started or read. How it ended is no error here.
    pub fn follow(
        &self,
        spawner: &dyn Spawner,
        how: &How,
        stop: &dyn Fn() -> Stop,
        mut line: impl FnMut(&[u8], Option<Event>),
    ) -> Result<Exit, RunError> {
        const STEP: Duration = Duration::from_millis(200);
        let call = self.prepare()?;
        let spawned = spawner.start(&call, how);
        let mut running = spawned.map_err(|source| RunError::Spawn {
            program: self.program.clone(),
            source,
        })?;
        let mut interrupted: Option<Instant> = None;
        let mut is_killed = false;
        loop {
            match running.next(STEP).map_err(RunError::Read)? {
                Progress::Line(bytes, _) => {
                    let event = Event::read(&bytes);
                    line(&bytes, event);
                }
                Progress::Quiet => {}
                Progress::Ended(exit) => return Ok(exit),
            }
            let wanted = stop();
            if wanted >= Stop::Interrupt && interrupted.is_none() {
                interrupted = Some(Instant::now());
                if wanted == Stop::Interrupt {
                    // A signal that finds nobody is no fault: it has ended meanwhile.
                    let _ = running.signal_group(Signal::Interrupt);
                }
            }
            let is_over = interrupted.is_some_and(|since| since.elapsed() >= GRACE);
            if (wanted == Stop::Kill || is_over) && !is_killed {
                is_killed = true;
                running.kill_group().map_err(RunError::Kill)?;
            }
        }
    }

    fn prepare(&self) -> Result<Invocation, RunError> {
        let plugins = self.dir.join("plugins");
        let home = self.dir.join("home");
        for directory in [&plugins, &home, &self.dir.join("tmp")] {
            create_private_dir(directory).map_err(RunError::Config)?;
        }
        let temporary = self.dir.join("remote");
        let on_this_machine = self.dir.join("this-machine.yml");
        let config = self.dir.join("ansible.cfg");
        let plugin = plugins.join("rebuild_events.py");
        let variables = this_machine(&temporary);
        for (path, text) in [
            (&config, CONFIG),
            (&plugin, PLUGIN),
            (&on_this_machine, &variables),
        ] {
            write_atomically(path, text.as_bytes(), 0o600).map_err(RunError::Config)?;
        }
        let mut call = Invocation::new(&self.program, &self.cwd)
            .args(&self.prefix)
            .envs(self.env.clone())
            .env("HOME", &home)
            .env("TMPDIR", self.dir.join("tmp"))
            .env("ANSIBLE_CONFIG", &config)
            .env("ANSIBLE_CALLBACK_PLUGINS", &plugins)
            .env("ANSIBLE_STDOUT_CALLBACK", "rebuild_events")
            .env("PYTHONUNBUFFERED", "1")
            // The first: what an inventory itself says goes before it.
            .arg("--inventory")
            .arg(&on_this_machine)
            .arg("--inventory")
            .arg(&self.inventory);
        for (name, paths) in [
            ("ANSIBLE_ROLES_PATH", &self.roles),
            ("ANSIBLE_COLLECTIONS_PATH", &self.collections),
        ] {
            if !paths.is_empty() {
                call = call.env(name, joined(paths));
            }
        }
        if let Some(ssh) = &self.ssh {
            call = call.env("ANSIBLE_SSH_EXECUTABLE", ssh);
        }
        if let Some(limit) = &self.limit {
            call = call.arg(format!("--limit={limit}"));
        }
        for file in &self.extra_vars {
            call = call.arg("--extra-vars").arg(at_file(file));
        }
        for (flag, is_on) in [("--check", self.check), ("--diff", self.diff)] {
            if is_on {
                call = call.arg(flag);
            }
        }
        Ok(call.arg("--").arg(&self.playbook))
    }
}

/// Variables of every host, by which tasks that are done on this machine keep their temporary files in our
/// directory: Ansible would put them into the home that the system knows of the user, whatever HOME says (measured).
fn this_machine(temporary: &Path) -> String {
    let own = serde_json::Value::from(temporary.to_string_lossy()).to_string();
    // A text of JSON within a text of YAML in single quotes, in which a quote is written twice.
    let own = own.replace('\'', "''");
    let shared = if temporary.starts_with(SHARED_MEMORY) {
        format!("[\"{SHARED_MEMORY}\"]")
    } else {
        SYSTEM_TMPDIRS.to_owned()
    };
    let is_here = "(ansible_connection | default(\"\")) == \"local\"";
    format!(
        "all:
  vars:
    ansible_remote_tmp: '{{{{ {own} if {is_here} else \"~/.ansible/tmp\" }}}}'
    ansible_async_dir: '{{{{ {own} if {is_here} else \"~/.ansible_async\" }}}}'
    ansible_system_tmpdirs: '{{{{ {shared} if {is_here} else {SYSTEM_TMPDIRS} }}}}'
"
    )
}

/// Memory that every user of this machine may write to: for tasks on it that become somebody else, who gets into no
/// directory of ours.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where such tasks have their files anywhere else: Ansible's own default.
const SYSTEM_TMPDIRS: &str = "[\"/var/tmp\", \"/tmp\"]";

fn joined(paths: &[PathBuf]) -> OsString {
    let mut text = OsString::new();
    for (number, path) in paths.iter().enumerate() {
        if number > 0 {
            text.push(":");
        }
        text.push(path);
    }
    text
}

/// Groups may have a `-`; nothing is cached, logged or kept for a retry, and nobody is asked anything. Modules
/// go through the connection and not by a file on the host. No connection outlives the run that opened it.
const CONFIG: &str = "[defaults]
force_valid_group_names = ignore
localhost_warning = False
retry_files_enabled = False
nocows = True
nocolor = True
host_key_checking = True
fact_caching = memory
[connection]
pipelining = True
[ssh_connection]
ssh_args = -o ControlMaster=no
";

fn at_file(file: &Path) -> OsString {
    let mut text = OsString::from("@");
    text.push(file);
    text
}
