//! One playbook on hosts that were reached, or on this machine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ansible::{Event, Run, RunError, Status, Stop, Tally};
use fleet::{Fleet, FleetError, PatternError, Workspace, variables_document};
use process::How;
use process::files::{FileError, create_private_dir, write_atomically};
use serde_json::{Map, Value};
use ssh_reach::{Reached, client_config};

use crate::hands::{Hands, Told};
use crate::played::Played;
use crate::ssh::SshSettings;

/// How many of the last lines that are no event are kept for an error.
const TAIL_LINES: usize = 20;

/// What a playbook is run on.
#[derive(Debug, Clone, Copy)]
pub enum On<'a> {
    /// The hosts of a fleet, each at the address that answered.
    Hosts {
        /// How they are reached.
        ssh: &'a SshSettings,
        /// All of them.
        fleet: &'a Fleet,
        /// What [`Hands::reach`] or [`Hands::verify_reach`] told just now.
        reached: &'a [Reached],
    },
    /// This machine alone, as `localhost`.
    ThisMachine,
    /// An inventory of a person's, which says itself how its hosts are reached. Those that the plays name are
    /// expected.
    Inventory {
        /// The file or directory.
        path: &'a Path,
    },
}

/// A playbook to run.
#[derive(Debug, Clone)]
pub struct Play<'a> {
    /// `ansible-playbook`.
    pub program: PathBuf,
    /// Its first arguments, where another program starts it.
    pub prefix: Vec<String>,
    /// The platform's tree that it lies in; `roles` and `collections` there are found.
    pub tree: PathBuf,
    /// The playbook, seen from the tree.
    pub playbook: PathBuf,
    /// What it is run on.
    pub on: On<'a>,
    /// The pattern that limits it, as a person wrote it.
    pub limit: Option<String>,
    /// Extra variables. May be secret: they lie in memory only. No template in one is run.
    pub vars: Map<String, Value>,
    /// Whether nothing may be changed.
    pub check: bool,
    /// Whether differences are told.
    pub diff: bool,
    /// Its environment, with a PATH; nothing of the caller's that begins with `ANSIBLE_`.
    pub env: BTreeMap<OsString, OsString>,
    /// What our end means to it.
    pub how: How,
}

/// A playbook could not be run. How it ended is no error here.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The limit can't be given to Ansible.
    #[error("the limit can't be given to Ansible")]
    Limit(#[source] PatternError),
    /// The inventory can't be made.
    #[error("the inventory can't be made")]
    Inventory(#[source] FleetError),
    /// A file of its own could not be written into memory.
    #[error("Ansible's own files could not be written into memory")]
    Files(#[source] FileError),
    /// It could not be started or followed.
    #[error("`ansible-playbook` could not be run")]
    Run(#[source] RunError),
}

impl Hands<'_> {
    /// Runs a playbook to its end, or until the stop ends it, and judges it by hosts.
    ///
    /// Everything that Ansible writes for itself lies in memory: its configuration, HOME, temporary files, the
    /// inventory and the variables. It is removed at the end.
    ///
    /// # Errors
    /// When it could not be started or followed.
    pub fn play(&self, play: &Play<'_>) -> Result<Played, PlayError> {
        let dir = self.fresh("play");
        create_private_dir(&dir).map_err(PlayError::Files)?;
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            write_atomically(&path, text.as_bytes(), 0o600).map_err(PlayError::Files)?;
            Ok(path)
        };
        let (inventory, all, limit) = match play.on {
            On::ThisMachine => (
                put("hosts.yml", THIS_MACHINE)?,
                BTreeSet::from(["localhost".to_owned()]),
                play.limit.clone(),
            ),
            On::Inventory { path } => (path.to_owned(), BTreeSet::new(), play.limit.clone()),
            On::Hosts {
                ssh,
                fleet,
                reached,
            } => {
                let limit = play.limit.as_ref().map(|limit| fleet.limit(limit));
                let limit = limit.transpose().map_err(PlayError::Limit)?;
                let text = self.inventory(ssh, fleet, reached, &put)?;
                let all = fleet.hosts().map(|host| host.name.as_str().to_owned());
                (put("hosts.yml", &text)?, all.collect(), limit)
            }
        };
        let mut extra_vars = Vec::new();
        if !play.vars.is_empty() {
            extra_vars.push(put("vars.yml", &variables_document(&play.vars))?);
        }
        let beside = play.tree.join(&play.playbook);
        let beside = beside.parent().unwrap_or(&play.tree);
        let of_tree = |name: &str| {
            let mut found: Vec<PathBuf> = vec![play.tree.join(name), beside.join(name)];
            found.dedup();
            found
        };
        let run = Run {
            program: play.program.clone(),
            prefix: play.prefix.clone(),
            cwd: play.tree.clone(),
            dir: dir.join("own"),
            inventory,
            playbook: play.playbook.clone(),
            limit,
            extra_vars,
            roles: of_tree("roles"),
            collections: of_tree("collections"),
            ssh: Some(self.ssh.to_owned()),
            check: play.check,
            diff: play.diff,
            env: play.env.clone(),
        };
        let mut tally = Tally::default();
        let mut tail = Tail::default();
        let asked = RefCell::new(Stop::No);
        let stop = || {
            let now = (self.stop)();
            let worst = (*asked.borrow()).max(now);
            asked.replace(worst);
            now
        };
        let followed = run.follow(self.spawner, &play.how, &stop, |line, event| {
            if let Some(event) = event {
                tally.add(&event);
                self.tell_event(event);
            } else {
                let text = self.masked(&String::from_utf8_lossy(line));
                if !text.trim().is_empty() {
                    tail.add(&text);
                    (self.tell)(&Told::Line { text });
                }
            }
        });
        // What lies in memory goes with it, whatever it came to; the storage as a whole goes later.
        let _ = std::fs::remove_dir_all(&dir);
        let exit = followed.map_err(PlayError::Run)?;
        let all = match play.on {
            On::Inventory { .. } => tally.played().clone(),
            On::Hosts { .. } | On::ThisMachine => all,
        };
        let within = |host: &String| tally.within().is_none_or(|within| within.contains(host));
        let expected = all.into_iter().filter(within).collect();
        let verdict = tally.judge(exit, &expected);
        Ok(Played {
            verdict: self.masked_verdict(verdict),
            exit,
            hosts: tally.recap().cloned().unwrap_or_default(),
            tail: tail.lines.into(),
            is_stopped: asked.into_inner() >= Stop::Interrupt,
        })
    }

    /// The inventory of a play: each host at the address that answered, by a client's configuration of its own.
    fn inventory(
        &self,
        ssh: &SshSettings,
        fleet: &Fleet,
        reached: &[Reached],
        put: &dyn Fn(&str, &str) -> Result<PathBuf, PlayError>,
    ) -> Result<String, PlayError> {
        let login = self.login(&ssh.identity).map_err(PlayError::Files)?;
        let at = |mut fleet: Fleet| {
            for one in reached {
                fleet = fleet.reached(one.host.clone(), one.address.clone());
            }
            fleet
        };
        let known = at(fleet.clone());
        let mut workspaces: Vec<Workspace> = fleet.workspaces().to_vec();
        let hosts = workspaces.iter_mut().flat_map(|one| one.hosts.iter_mut());
        for (number, host) in hosts.enumerate() {
            let text = client_config(&known, host, &ssh.known_hosts, &login, ssh.patience);
            let path = put(&format!("ssh-{number}.config"), &text)?;
            let mut arguments = format!("-F {}", path.display());
            if let Some(Value::String(own)) = host.variables.get("ansible_ssh_common_args") {
                arguments.push(' ');
                arguments.push_str(own);
            }
            let set = &mut host.variables;
            set.insert("ansible_ssh_common_args".to_owned(), arguments.into());
            if !set.contains_key("ansible_python_interpreter")
                && let Some(one) = reached.iter().find(|one| one.host == host.name)
            {
                let python = one.python.as_str().into();
                set.insert("ansible_python_interpreter".to_owned(), python);
            }
        }
        let fleet = Fleet::new(workspaces).map_err(PlayError::Inventory)?;
        Ok(at(fleet).inventory())
    }

    fn tell_event(&self, event: Event) {
        let told = match event {
            Event::Play { name, hosts, .. } => Told::Play {
                name: self.masked(&name),
                n_hosts: hosts.len(),
            },
            Event::NoHosts => Told::Line {
                text: "no host matched".to_owned(),
            },
            Event::Task { name } => Told::Task {
                name: self.masked(&name),
            },
            Event::Result {
                host,
                task,
                status,
                ignored,
                message,
            } => Told::Result {
                host,
                task: self.masked(&task),
                status: match status {
                    Status::Ok => "ok",
                    Status::Changed => "changed",
                    Status::Skipped => "skipped",
                    Status::Failed if ignored => "ignored",
                    Status::Failed => "failed",
                    Status::Unreachable => "unreachable",
                },
                message: self.masked(&message),
            },
            Event::Diff { host, task, text } => Told::Diff {
                host,
                task: self.masked(&task),
                text: self.masked(&text),
            },
            Event::Recap { hosts } => {
                for (host, counts) in hosts {
                    (self.tell)(&Told::Host { host, counts });
                }
                return;
            }
        };
        (self.tell)(&told);
    }
}

/// The last lines that are no event, without what Python tells its own people.
#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    in_traceback: bool,
}

impl Tail {
    fn add(&mut self, line: &str) {
        // Its frames are indented; the error itself is not.
        let begins = line.starts_with("Traceback (most recent call last)");
        self.in_traceback = begins || self.in_traceback && line.starts_with(' ');
        if self.in_traceback {
            return;
        }
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }
}

/// What a play on this machine alone is given.
const THIS_MACHINE: &str = "all:
  hosts:
    localhost: {ansible_connection: local, ansible_python_interpreter: \"{{ ansible_playbook_python }}\"}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_exception_its_words_are_kept_and_not_its_frames() {
        let mut tail = Tail::default();
        for line in [
            "ERROR: the value is wrong",
            "  in forks",
            "Traceback (most recent call last):",
            "  File \"manager.py\", line 1, in get",
            "            ^^^^^^",
            "ValueError: many",
        ] {
            tail.add(line);
        }
        assert_eq!(
            tail.lines,
            [
                "ERROR: the value is wrong",
                "  in forks",
                "ValueError: many"
            ]
        );
        for n in 0..50 {
            tail.add(&n.to_string());
        }
        assert_eq!((tail.lines.len(), tail.lines[0].as_str()), (20, "30"));
    }
}
