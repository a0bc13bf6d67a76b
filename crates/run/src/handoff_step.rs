//! What `ssh` and `ansible` steps share: which hosts, how they are reached, what is told, which tools.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use handoff::{
    Fleet, Hands, HostKeys, Identity, Limits, Machines, NotReached, Reached, SshSettings, Stop,
    Told, fleet_of,
};
use phase_engine::{ExitCode, Failure, Notes, StepId, StepResult};
use platform::{HostsOutput, Platform, StepKind};
use process::{How, Invocation, collect, find_program};
use record::{Detail, Input};
use secrets::Source as SecretSource;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::error::failed;
use crate::exec_step::Log;
use crate::prepare_step::Resolved;
use crate::resolve;
use crate::standing::Standing;
use crate::stop::StopLevel;
use crate::ui::Notice;
use crate::world::TargetWorld;

/// The program, where `[tools]` names none.
const ANSIBLE: &str = "ansible-playbook";
/// The most that hosts that an `ssh` step awaited may take to answer again.
pub(crate) const AGAIN: Duration = Duration::from_secs(120);
/// The output of the ledger's under which pins are kept, for another machine of ours.
const PINS: &str = "known_hosts";

/// Ansible as it was found.
#[derive(Clone)]
pub(crate) struct AnsibleTool {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its first arguments.
    pub(crate) prefix: Vec<String>,
}

/// How long an act may go on, and what it is told.
pub(crate) struct Act<'a> {
    /// The step.
    pub(crate) step: &'a StepId,
    /// The masked log.
    pub(crate) log: PathBuf,
    /// When it must be over.
    pub(crate) deadline: Option<Instant>,
}

/// What ends a wait: nothing is half done then, so the first interrupt does.
const WAITS: StopLevel = StopLevel::Gentle;
/// What ends a playbook, which may be in the middle of anything.
pub(crate) const PLAYS: StopLevel = StopLevel::Interrupt;

impl Act<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }
}

impl<'m> Bench<'m> {
    /// Looks before anything whether all is there that `ssh` and `ansible` steps need: the way in, ssh, Ansible.
    pub(crate) fn demand_handoff(&self, platform: &Platform) -> Result<(), Failure> {
        let is = |wanted: fn(&StepKind) -> bool| platform.steps().any(|def| wanted(&def.kind));
        if !is(|kind| kind.hosts_output().is_some()) {
            return Ok(());
        }
        self.ssh_settings()?;
        self.ssh_client()?;
        if is(|kind| matches!(kind, StepKind::Ansible(_))) {
            self.demand_ansible(platform)?;
        }
        Ok(())
    }

    /// The same for a handoff, which needs all of it.
    pub(crate) fn demand_hands(&self, platform: &Platform) -> Result<(), Failure> {
        self.ssh_settings()?;
        self.ssh_client()?;
        self.demand_ansible(platform)
    }

    /// Finds Ansible, and whether it is of the version that `[tools]` demands.
    pub(crate) fn demand_ansible(&self, platform: &Platform) -> Result<(), Failure> {
        let AnsibleTool { program, prefix } = self.ansible_tool(platform)?;
        let unusable = |what: String| Failure::new(ExitCode::Unusable, what);
        let mut call = Invocation::new(&program, self.workshop.tmp())
            .args(&prefix)
            .arg("--version");
        call.env.clone_from(&self.env);
        call = call.env("LC_ALL", UTF8);
        let stop = &self.stop;
        let said = collect(
            self.machine.spawner.as_ref(),
            &call,
            &How::reader(),
            Duration::from_secs(60),
            &mut || stop.level() >= StopLevel::Interrupt,
        )
        .map_err(|error| {
            let mut failure = Failure::of(ExitCode::Unusable, &error);
            failure.causes.insert(0, failure.what);
            failure.what = format!("`{}` can't be used", program.display());
            failure.hint(INSTALL_ANSIBLE)
        })?;
        let stdout = String::from_utf8_lossy(&said.stdout).into_owned();
        if !said.exit.is_success() {
            return Err(unusable(format!(
                "`{} --version` ended with {}",
                program.display(),
                said.exit
            ))
            .because(self.masked(String::from_utf8_lossy(&said.stderr).trim()))
            .hint(INSTALL_ANSIBLE));
        }
        let version = version_in(&stdout);
        self.ui.tell(&Notice::Tool {
            name: "ansible".to_owned(),
            path: program.display().to_string(),
            version: version
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), ToString::to_string),
        });
        let tool = platform.tools.get("ansible");
        let Some(demanded) = tool.and_then(|tool| tool.version.as_ref()) else {
            return Ok(());
        };
        match version {
            Some(version) if demanded.matches(&version) => Ok(()),
            Some(version) => Err(unusable(format!(
                "`{}` is ansible-core {version}, and `[tools] ansible` demands `{demanded}`",
                program.display()
            ))
            .hint("install a version that fits; nothing was touched")),
            None => Err(unusable(format!(
                "`{} --version` printed no version",
                program.display()
            ))),
        }
    }

    /// Finds Ansible.
    pub(crate) fn ansible_tool(&self, platform: &Platform) -> Result<AnsibleTool, Failure> {
        let tool = platform.tools.get("ansible");
        let named = tool.and_then(|tool| tool.command.clone());
        let words = named.unwrap_or_else(|| vec![ANSIBLE.to_owned()]);
        let (program, prefix) = words
            .split_first()
            .map_or((ANSIBLE, &[][..]), |(first, rest)| (first.as_str(), rest));
        let program = self
            .find(program)
            .map_err(|failure| failure.hint(INSTALL_ANSIBLE))?;
        Ok(AnsibleTool {
            program,
            prefix: prefix.to_vec(),
        })
    }

    pub(crate) fn ssh_client(&self) -> Result<PathBuf, Failure> {
        self.find("ssh")
            .map_err(|failure| failure.hint("install OpenSSH's client; nothing was touched"))
    }

    fn find(&self, program: &str) -> Result<PathBuf, Failure> {
        let path = self.machine.env.get(OsStr::new("PATH"));
        let found = find_program(
            Path::new(program),
            path.map(|path| path.as_os_str()),
            self.secrets.root(),
        );
        found.map_err(|error| Failure::of(ExitCode::Unusable, &error))
    }

    /// How the target's hosts are reached; found out once a call.
    pub(crate) fn ssh_settings(&self) -> Result<SshSettings, Failure> {
        let mut kept = self
            .ssh
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(settings) = &*kept {
            return Ok(settings.clone());
        }
        let target = &self.target.name;
        let unusable = |what: String| Failure::new(ExitCode::Unusable, what);
        let Some(def) = &self.target.ssh else {
            return Err(unusable(format!(
                "hosts are to be reached over SSH, and target `{target}` has no `[ssh]`"
            ))
            .hint(format!("add `[ssh]` to targets/{target}.toml")));
        };
        let identity = match &def.identity {
            None => match self.machine.env.get(OsStr::new("SSH_AUTH_SOCK")) {
                Some(socket) if !socket.is_empty() => Identity::Agent(socket.into()),
                _ => {
                    return Err(unusable(
                        "the identity key is the agent's, and no agent runs: `SSH_AUTH_SOCK` is not set".to_owned(),
                    )
                    .hint(format!(
                        "run `ssh-agent`, or name a key by `identity = {{ file = … }}` in `[ssh]` of targets/{target}.toml"
                    )));
                }
            },
            Some(SecretSource::File(path)) => {
                let file = match path.strip_prefix("~") {
                    Ok(rest) => self.machine.home.join(rest),
                    Err(_) => self.secrets.root().join(path),
                };
                if let Err(error) = std::fs::File::open(&file) {
                    return Err(unusable(format!("the identity key `{}` can't be read", file.display()))
                        .because(error.to_string())
                        .hint(format!("`identity` in `[ssh]` of targets/{target}.toml names it; nothing was touched")));
                }
                // The client takes no such key of its own user's, and the host then says that it is refused. Our own
                // directory tells who we are.
                let found = std::fs::metadata(&file);
                let own = std::fs::metadata(self.memory.path());
                let is_own =
                    matches!((&found, &own), (Ok(found), Ok(own)) if found.uid() == own.uid());
                let mode = found.map_or(0, |found| found.mode());
                if is_own && mode & 0o077 != 0 {
                    return Err(unusable(format!(
                        "the identity key `{}` may be read by others (mode {:04o}): ssh takes no such key",
                        file.display(),
                        mode & 0o7777
                    ))
                    .hint(format!("`chmod 600 {}`; nothing was touched", file.display())));
                }
                Identity::File(file)
            }
            Some(source) => {
                let key = self
                    .secrets
                    .take("ssh.identity", source)
                    .map_err(|error| Failure::of(ExitCode::Unusable, &error).hint(error.hint()))?;
                Identity::Key(key)
            }
        };
        let host_keys = match &def.host_keys {
            platform::HostKeys::Declared => HostKeys::Declared,
            platform::HostKeys::TrustFirst => HostKeys::TrustFirst,
            platform::HostKeys::Ca(key) => match key.parse() {
                Ok(key) => HostKeys::Authority(key),
                Err(error) => {
                    return Err(unusable(format!(
                        "`host_ca` of target `{target}` is no public key"
                    ))
                    .because(error.to_string()));
                }
            },
        };
        let settings = SshSettings::new(identity, host_keys, self.paths.known_hosts());
        *kept = Some(settings.clone());
        Ok(settings)
    }

    fn machines(&self) -> Machines {
        Machines::at(self.paths.machines())
    }

    /// The hosts that an output says, as they are now; what is secret in a sensitive one is masked from now on.
    pub(crate) fn fleet(
        &self,
        step: &StepId,
        hosts: &HostsOutput,
        standing: &Standing,
        values: &std::collections::BTreeMap<String, Value>,
    ) -> Result<(Fleet, bool), Failure> {
        let expr = hosts.expr();
        self.need_outputs([&expr], standing)?;
        let found = resolve::value(step, "`hosts`", &expr, &self.scope(values))?;
        if found.sensitive {
            self.mask_value(&format!("{}.{}", hosts.step, hosts.output), &found.value);
        }
        let group = hosts
            .group()
            .map(|group| group.to_string())
            .unwrap_or_default();
        match fleet_of(&group, &found.value) {
            Ok(fleet) => Ok((fleet, found.sensitive)),
            Err(handoff::FleetFault::Hosts(error)) => {
                let mut failure = Failure::failed(format!(
                    "output `{}` of step `{}` says no hosts that could be reached",
                    hosts.output, hosts.step
                ));
                for fault in &error.faults {
                    failure = failure.because(fault.to_string());
                }
                Err(failure.hint("it is a map by name, such as `{ web1 = { address = \"192.0.2.1\", host_key = \"ssh-ed25519 …\" } }`"))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// Awaits hosts and pins their keys: those of machines that are others than those pinned before are given up.
    pub(crate) fn onboard(
        &self,
        act: &Act<'_>,
        hosts: &HostsOutput,
        fleet: &Fleet,
        standing: &Standing,
        limits: Limits,
    ) -> Result<(SshSettings, Vec<Reached>), Failure> {
        let ssh = SshSettings {
            limits,
            ..self.ssh_settings()?
        };
        let (machines, key) = (self.machines(), key_of(hosts));
        self.restore_pins(hosts, fleet, standing)?;
        machines
            .renew(&key, &self.paths.known_hosts(), fleet)
            .map_err(|error| failed(&error))?;
        let none = std::collections::BTreeSet::new();
        let reached = self.with_hands(act, WAITS, |hands| hands.reach(&ssh, fleet, &none))?;
        let reached = reached.map_err(|error| self.not_reached(act, &error))?;
        Ok((ssh, reached))
    }

    /// Looks whether hosts can be reached now. Nothing that is pinned is given up.
    pub(crate) fn look_at_hosts(
        &self,
        act: &Act<'_>,
        hosts: &HostsOutput,
        fleet: &Fleet,
        standing: &Standing,
    ) -> Result<(SshSettings, Vec<Reached>), Failure> {
        let ssh = self.ssh_settings()?;
        self.restore_pins(hosts, fleet, standing)?;
        let reached = self.with_hands(act, WAITS, |hands| hands.verify_reach(&ssh, fleet))?;
        let reached = reached.map_err(|error| self.not_reached(act, &error))?;
        Ok((ssh, reached))
    }

    /// How long is waited for hosts that an `ssh` step before this one awaited, or that nobody did.
    pub(crate) fn limits_after(
        &self,
        platform: &Platform,
        step: &StepId,
        hosts: &HostsOutput,
    ) -> Limits {
        let before = platform.steps().take_while(|def| def.id != *step);
        let mut awaited =
            before.filter(|def| matches!(&def.kind, StepKind::Ssh(ssh) if ssh.hosts == *hosts));
        match awaited.next() {
            Some(_) => Limits {
                deadline: AGAIN,
                settle: Duration::ZERO,
                ..Limits::default()
            },
            None => Limits::default(),
        }
    }

    /// Takes back the pins of an output's hosts.
    pub(crate) fn forget_hosts(&self, hosts: &HostsOutput) -> Result<(), Failure> {
        self.machines()
            .forget(&key_of(hosts), &self.paths.known_hosts())
            .map_err(|error| failed(&error))
    }

    /// What the ledger keeps of onboarded hosts: public keys and where they were seen. Nothing of a sensitive output.
    pub(crate) fn pins_detail(
        &self,
        hosts: &HostsOutput,
        is_sensitive: bool,
    ) -> Result<Detail, Failure> {
        if is_sensitive {
            return Ok(Detail::default());
        }
        let key = key_of(hosts);
        let pins = self.machines().snapshot(&key, &self.paths.known_hosts());
        let pins = pins.map_err(|error| failed(&error))?;
        Ok(Detail {
            outputs: Some(vec![(
                PINS.to_owned(),
                Input::plain(json!({ "of": key, "hosts": pins })),
            )]),
            ..Detail::default()
        })
    }

    /// Which keys are pinned of an output's hosts. No secret.
    pub(crate) fn pins_of(&self, hosts: &HostsOutput) -> Result<Value, Failure> {
        self.machines()
            .snapshot(&key_of(hosts), &self.paths.known_hosts())
            .map_err(|error| failed(&error))
    }

    /// Where this machine knows nothing of the hosts, what another one of ours recorded of them counts.
    fn restore_pins(
        &self,
        hosts: &HostsOutput,
        fleet: &Fleet,
        standing: &Standing,
    ) -> Result<(), Failure> {
        let key = key_of(hosts);
        let recorded = standing.all().into_iter().rev().find_map(|entry| {
            let pins = entry.outputs.get(PINS)?;
            (pins.get("of")? == key.as_str()).then(|| pins.get("hosts").cloned())?
        });
        let Some(recorded) = recorded else {
            return Ok(());
        };
        self.machines()
            .restore(&key, &self.paths.known_hosts(), &recorded, fleet)
            .map(drop)
            .map_err(|error| failed(&error))
    }

    /// Does something with hands that tell the operator and the step's log what goes on; `ends_at` is what ends it early.
    pub(crate) fn with_hands<T>(
        &self,
        act: &Act<'_>,
        ends_at: StopLevel,
        work: impl FnOnce(&Hands<'_>) -> T,
    ) -> Result<T, Failure> {
        let log = std::sync::Mutex::new(Log::open(&act.log));
        let step = act.step.to_string();
        self.with_hands_telling(act, ends_at, &self.ssh_client()?, work, &|told: &Told| {
            let mut log = log
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            log.take(&told.to_string());
            if let Some(notice) = notice(&step, told) {
                self.ui.tell(&notice);
            }
        })
    }

    /// Does something with hands that tell somebody else what goes on.
    pub(crate) fn with_hands_telling<T>(
        &self,
        act: &Act<'_>,
        ends_at: StopLevel,
        ssh: &Path,
        work: impl FnOnce(&Hands<'_>) -> T,
        tell: &(dyn Fn(&Told) + Sync),
    ) -> Result<T, Failure> {
        let stop = || match self.stop.level() {
            StopLevel::Kill => Stop::Kill,
            level if level >= ends_at => Stop::Interrupt,
            _ if act.is_over() => Stop::Interrupt,
            _ => Stop::No,
        };
        let tell = |told: &Told| {
            let _ = ::fault::point("hands.told", String::new);
            tell(told);
        };
        Ok(work(&Hands {
            spawner: self.machine.spawner.as_ref(),
            memory: &self.memory,
            masker: &self.masker,
            ssh,
            tell: &tell,
            stop: &stop,
        }))
    }

    fn not_reached(&self, act: &Act<'_>, error: &NotReached) -> Failure {
        if matches!(error, NotReached::Stopped) {
            return self.stopped(act, "the wait for hosts");
        }
        let mut failure = failed(error);
        if let Some(line) = error.lines().first().filter(|_| error.lines().len() == 1) {
            failure = Failure::failed("a host was not reached").because(self.masked(line));
        } else {
            for line in error.lines() {
                failure = failure.because(self.masked(&line));
            }
        }
        if error.is_wrong_key() {
            failure = failure.hint(format!(
                "find out why before anything else: another machine may answer there. A key is given up by itself where `machine_id` of the host in the output is another one; once you know that the new key is right, take the host's lines out of `{}`",
                self.paths.known_hosts().display()
            ));
        }
        failure.log(act.log.clone())
    }

    /// What ended by the operator's wish, or by the step's own time-out.
    pub(crate) fn stopped(&self, act: &Act<'_>, what: &str) -> Failure {
        let step = act.step;
        if act.is_over() && self.stop.level() < StopLevel::Interrupt {
            return Failure::failed(format!("step `{step}` did not end within its `timeout`"))
                .log(act.log.clone());
        }
        Failure::new(
            ExitCode::Interrupted,
            format!("{what} of step `{step}` was interrupted"),
        )
        .log(act.log.clone())
    }
}

impl TargetWorld<'_, '_> {
    /// Applies an `ssh` or `ansible` step. The second part is one line for people.
    pub(crate) fn apply_handoff(
        &self,
        step: &StepId,
        resolved: &Resolved,
        _: &dyn Notes<Detail>,
    ) -> (StepResult<Detail>, String) {
        let (source, def) = (&resolved.source, &resolved.def);
        let values = &self.bench.target.values;
        self.set_changed();
        let applied = match &def.kind {
            StepKind::Ssh(ssh) => self
                .bench
                .await_hosts(step, def, ssh, &self.standing, values),
            StepKind::Ansible(ansible) => {
                self.bench
                    .apply_ansible(step, source, def, ansible, &self.standing, values)
            }
            _ => return (StepResult::well(None), String::new()),
        };
        self.set_changed();
        match applied {
            Ok((detail, summary)) => (StepResult::well(Some(detail)), summary),
            Err(failure) => {
                let target = self.bench.target.name.as_str();
                let hint = failure.hint.is_none();
                let failure = if hint {
                    failure.hint(crate::up::Walk::Up.ways_on(target))
                } else {
                    failure
                };
                (StepResult::failed(failure, None), String::new())
            }
        }
    }
}

/// Under which name this machine remembers the hosts of an output.
fn key_of(hosts: &HostsOutput) -> String {
    format!("{}.{}", hosts.step, hosts.output)
}

/// What is told to the operator.
pub(crate) fn notice(step: &str, told: &Told) -> Option<Notice> {
    let step = step.to_owned();
    Some(match told {
        Told::Stands { host, rung, answer } => Notice::Host {
            step,
            host: host.clone(),
            what: format!("{rung}: {answer}"),
        },
        Told::Reached { host, address } => Notice::Host {
            step,
            host: host.clone(),
            what: format!("reached at {address}"),
        },
        Told::Host { host, counts } => {
            let all = [
                (counts.ok, "ok"),
                (counts.changed, "changed"),
                (counts.failed, "failed"),
                (counts.unreachable, "unreachable"),
                (counts.skipped, "skipped"),
                (counts.rescued, "rescued"),
                (counts.ignored, "ignored"),
            ];
            let some: Vec<String> = all
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, word)| format!("{n} {word}"))
                .collect();
            Notice::Host {
                step,
                host: host.clone(),
                what: if some.is_empty() {
                    "nothing to do".to_owned()
                } else {
                    some.join(", ")
                },
            }
        }
        Told::Task { name } => Notice::Task {
            step,
            task: name.clone(),
        },
        Told::Result {
            host,
            task,
            status,
            message,
        } => Notice::TaskEnded {
            step,
            host: host.clone(),
            task: task.clone(),
            status: (*status).to_owned(),
            message: message.clone(),
        },
        Told::Diff { host, task, text } => Notice::Difference {
            step,
            host: host.clone(),
            task: task.clone(),
            text: text.clone(),
        },
        // In the log alone.
        Told::Play { .. } | Told::Line { .. } => return None,
    })
}

/// The locale that Ansible runs in: it refuses any whose encoding is not UTF-8.
pub(crate) const UTF8: &str = if cfg!(target_os = "macos") {
    "en_US.UTF-8"
} else {
    "C.UTF-8"
};

const INSTALL_ANSIBLE: &str = "install ansible-core, or name its `ansible-playbook` in `[tools] ansible = { command = […] }`; nothing was touched";

/// The version in `ansible-playbook [core 2.19.1]`.
fn version_in(said: &str) -> Option<semver::Version> {
    let first = said.lines().next()?;
    let inside = first.split_once('[').map_or(first, |(_, rest)| rest);
    let word = inside
        .trim_end_matches(']')
        .split_whitespace()
        .next_back()?;
    // `2.20.0rc1` and `2.19.0.dev0` are told by their numbers.
    let numbers: Vec<u64> = word
        .split('.')
        .map_while(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .collect();
    match numbers.as_slice() {
        [major, minor, patch, ..] => Some(semver::Version::new(*major, *minor, *patch)),
        [major, minor] => Some(semver::Version::new(*major, *minor, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ansible_says_its_version_in_the_first_line() {
        for (said, expected) in [
            (
                "ansible-playbook [core 2.19.14]\n  config file = None\n",
                Some("2.19.14"),
            ),
            ("ansible-playbook [core 2.20.0rc1]\n", Some("2.20.0")),
            ("ansible-playbook 2.9.27\n", Some("2.9.27")),
            ("hello\n", None),
            ("", None),
        ] {
            let found = version_in(said).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{said:?}");
        }
    }
}
