//! An `ansible` step: a playbook on the hosts of an output, proven in check mode, undone by another playbook.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use handoff::{HostCounts, Missing, On, Play, Played, Reached, SshSettings};
use phase_engine::{Failure, StepId};
use platform::{AnsibleStep, StepDef, StepKind};
use process::How;
use record::Detail;
use serde_json::{Map, Value};

use crate::bench::Bench;
use crate::error::failed;
use crate::handoff_step::{AGAIN, Act, PLAYS, UTF8};
use crate::library::Source;
use crate::resolve;
use crate::standing::Standing;

/// What one playbook run is given.
pub(crate) struct Given<'a> {
    pub(crate) source: &'a Source,
    pub(crate) def: &'a StepDef,
    pub(crate) ansible: &'a AnsibleStep,
    pub(crate) playbook: &'a str,
    pub(crate) check: bool,
    pub(crate) values: &'a BTreeMap<String, Value>,
}

impl Bench<'_> {
    /// Runs the playbook; says in a line what came of it.
    pub(crate) fn apply_ansible(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        ansible: &AnsibleStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(Detail, String), Failure> {
        let given = Given {
            source,
            def,
            ansible,
            playbook: &ansible.playbook,
            check: false,
            values,
        };
        let (played, is_sensitive) = self.play_on_all(step, "apply", &given, standing)?;
        let detail = self.pins_detail(&ansible.hosts, is_sensitive)?;
        Ok((detail, played.summary()))
    }

    /// Looks whether the hosts are there and, where the step wants it, whether the playbook would change nothing.
    pub(crate) fn verify_ansible(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        ansible: &AnsibleStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), Failure> {
        let act = self.act(step, def, "verify");
        let (fleet, _) = self.fleet(step, &ansible.hosts, standing, values)?;
        let (ssh, reached) = self.look_at_hosts(&act, &ansible.hosts, &fleet, standing)?;
        if !ansible.verify {
            return Ok(());
        }
        // What a record can't hold comes from the states of now.
        self.need_outputs(def.exprs(), standing)?;
        let given = Given {
            source,
            def,
            ansible,
            playbook: &ansible.playbook,
            check: true,
            values,
        };
        let played = self.play(&act, &given, &ssh, &fleet, &reached)?;
        let n_changed = |counts: &HostCounts| counts.changed > 0;
        let drifted = played.hosts.iter().filter(|(_, counts)| n_changed(counts));
        let drifted: Vec<String> = drifted
            .map(|(host, counts)| format!("`{host}`: {} would be changed", tasks(counts.changed)))
            .collect();
        if drifted.is_empty() {
            return Ok(());
        }
        let mut failure = Failure::failed(format!(
            "verify of step `{step}` failed: in check mode it would change something"
        ));
        for line in drifted {
            failure = failure.because(line);
        }
        Err(failure.log(act.log))
    }

    /// Runs the playbook that undoes it, where there is one.
    pub(crate) fn teardown_ansible(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        ansible: &AnsibleStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), Failure> {
        if let Some(playbook) = &ansible.teardown {
            self.need_outputs(def.exprs(), standing)?;
            let given = Given {
                source,
                def,
                ansible,
                playbook,
                check: false,
                values,
            };
            let target = &self.target.name;
            self.play_on_all(step, "teardown", &given, standing)
                .map_err(|failure| match failure.hint {
                    None if !failure.is_interrupt() => failure.hint(format!(
                        "mend it and run `rebuild down --target {target}` again; where its hosts are dead, `rebuild down --target {target} --forget {step} --reason TEXT` goes on without it"
                    )),
                    _ => failure,
                })?;
        }
        let mut steps = source.platform.steps();
        let awaited =
            steps.any(|def| matches!(&def.kind, StepKind::Ssh(ssh) if ssh.hosts == ansible.hosts));
        if awaited {
            // The `ssh` step forgets them, later.
            return Ok(());
        }
        self.forget_hosts(&ansible.hosts)
    }

    fn play_on_all(
        &self,
        step: &StepId,
        doing: &str,
        given: &Given<'_>,
        standing: &Standing,
    ) -> Result<(Played, bool), Failure> {
        let act = self.act(step, given.def, doing);
        let hosts = &given.ansible.hosts;
        let (fleet, is_sensitive) = self.fleet(step, hosts, standing, given.values)?;
        let mut limits = self.limits_after(&given.source.platform, step, hosts);
        if doing == "teardown" {
            // They were there once: nobody waits for a machine to come up that is to go.
            limits.deadline = limits.deadline.min(AGAIN);
        }
        let (ssh, reached) = self.onboard(&act, hosts, &fleet, standing, limits)?;
        let played = self.play(&act, given, &ssh, &fleet, &reached)?;
        Ok((played, is_sensitive))
    }

    fn act<'a>(&self, step: &'a StepId, def: &StepDef, doing: &str) -> Act<'a> {
        Act {
            step,
            log: self.log(step, doing),
            deadline: def.timeout.map(|timeout| Instant::now() + timeout),
        }
    }

    /// Runs a playbook on hosts that were reached just now.
    pub(crate) fn play(
        &self,
        act: &Act<'_>,
        given: &Given<'_>,
        ssh: &SshSettings,
        fleet: &handoff::Fleet,
        reached: &[Reached],
    ) -> Result<Played, Failure> {
        let (step, ansible) = (act.step, given.ansible);
        let dir = self.step_dir(step)?;
        self.place(&dir, tofu::Slot::Tree, given.source, &[])?;
        let scope = self.scope(given.values);
        let mut vars = Map::new();
        for (name, expr) in &ansible.vars {
            let found = resolve::value(step, &format!("variable `{name}`"), expr, &scope)?;
            if found.sensitive {
                self.mask_value(&format!("{step}.{name}"), &found.value);
            }
            vars.insert(name.clone(), found.value);
        }
        let mut env = self.env_of(&format!("step `{step}`"), &given.def.env, &scope)?;
        env.entry("LC_ALL".into()).or_insert_with(|| UTF8.into());
        let tool = self.ansible_tool(&given.source.platform)?;
        // A run that changes things outlives us, and the next call waits for it.
        let output = self.memory.path().join(format!(
            "play-output-{}",
            self.n_files.fetch_add(1, Ordering::Relaxed)
        ));
        let how = if given.check {
            How::reader()
        } else {
            How::changer(&output, dir.marker())
        };
        let play = Play {
            program: tool.program,
            prefix: tool.prefix,
            tree: dir.tree(tofu::Slot::Tree),
            playbook: given.playbook.into(),
            on: On::Hosts {
                ssh,
                fleet,
                reached,
            },
            limit: ansible.limit.clone(),
            vars,
            check: given.check,
            diff: ansible.diff,
            env,
            how,
        };
        let played = self.with_hands(act, PLAYS, |hands| hands.play(&play))?;
        let lives_on = matches!(&played, Err(handoff::PlayError::Run(_)));
        if !given.check && !lives_on {
            // Seen to its end: nothing is left for the next call to wait for.
            let _ = std::fs::remove_file(&output);
            dir.clear_marker().map_err(|error| failed(&error))?;
        }
        let played = played.map_err(|error| failed(&error).log(act.log.clone()))?;
        if let Err(why) = played.changed() {
            if played.is_stopped {
                return Err(self.stopped(act, "the playbook"));
            }
            let mut failure = Failure::failed(format!(
                "playbook `{}` of step `{step}`: {why}",
                given.playbook
            ));
            for line in &why.why {
                failure = failure.because(self.masked(line));
            }
            if let Some(missing) = why.missing() {
                let then = if self.workspace.is_some() {
                    "the same command goes on".to_owned()
                } else {
                    format!(
                        "`rebuild up --target {} --resume` goes on",
                        self.target.name
                    )
                };
                let way = way_to_have(&missing, given.playbook, |path| {
                    given.source.bundle.file(path).is_some()
                });
                failure = failure.hint(format!("{way}; then {then}"));
            }
            return Err(failure.log(act.log.clone()));
        }
        Ok(played)
    }
}

/// Where people write down what a platform takes from others.
const REQUIREMENTS: [&str; 3] = [
    "requirements.yml",
    "collections/requirements.yml",
    "roles/requirements.yml",
];

/// How a collection or a role gets to where a playbook finds it.
pub(crate) fn way_to_have(
    missing: &Missing,
    playbook: &str,
    is_there: impl Fn(&str) -> bool,
) -> String {
    let beside = playbook
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    let places = REQUIREMENTS
        .iter()
        .flat_map(|name| [platform::join("", name), platform::join(beside, name)]);
    let mut known = places.flatten().filter(|path| is_there(path));
    let (what, command, directory) = match (missing, known.next()) {
        (Missing::Collection(name), Some(file)) => (
            format!("collection `{name}` is not there, or too old"),
            format!("collection install -r {file} -p collections"),
            "collections",
        ),
        (Missing::Collection(name), None) => (
            format!("collection `{name}` is not there, or too old"),
            format!("collection install {name} -p collections"),
            "collections",
        ),
        (Missing::Role(name), Some(file)) => (
            format!("role `{name}` is not there"),
            format!("role install -r {file} -p roles"),
            "roles",
        ),
        (Missing::Role(name), None) if name.contains('.') => (
            format!("role `{name}` is not there"),
            format!("role install {name} -p roles"),
            "roles",
        ),
        (Missing::Role(name), None) => {
            return format!(
                "role `{name}` is looked for in `roles` of the platform's directory and beside the playbook; what git \
                 ignores is none of the platform's"
            );
        }
    };
    format!(
        "{what}: `ansible-galaxy {command}` in the platform's directory brings it, and git must not ignore `{directory}` there"
    )
}

fn tasks(n: u32) -> String {
    match n {
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_brings_what_is_missing_goes_by_the_platforms_requirements() {
        let collection = Missing::Collection("community.general".to_owned());
        let role = |name: &str| Missing::Role(name.to_owned());
        for (missing, file, expected) in [
            (
                &collection,
                "",
                "`ansible-galaxy collection install community.general -p collections`",
            ),
            (
                &collection,
                "requirements.yml",
                "`ansible-galaxy collection install -r requirements.yml -p collections`",
            ),
            (
                &collection,
                "books/requirements.yml",
                "install -r books/requirements.yml -p",
            ),
            (
                &role("geerling.docker"),
                "",
                "`ansible-galaxy role install geerling.docker -p roles`",
            ),
            (
                &role("geerling.docker"),
                "roles/requirements.yml",
                "install -r roles/requirements.yml -p roles`",
            ),
            (
                &role("own"),
                "",
                "is looked for in `roles` of the platform's directory",
            ),
        ] {
            let told = way_to_have(missing, "books/site.yml", |path| path == file);
            assert!(told.contains(expected), "no {expected:?} in {told}");
        }
    }
}
