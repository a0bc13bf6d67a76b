//! The hosts of a workspace: awaited, looked at under their keys, given to a playbook, forgotten.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use handoff::{Fleet, Limits, Reached, SshSettings};
use phase_engine::{ExitCode, Failure, StepId};
use platform::{AnsibleStep, HostsOutput, PLATFORM_FILE, WorkspaceDef};
use record::{CallCommand, RecordStore};
use serde_json::{Map, Value, json};
use store::LocalStore;

use super::{Workspace, undefined};
use crate::ansible_step::Given;
use crate::error::failed;
use crate::handoff_step::Act;
use crate::library::Source;
use crate::standing::Standing;
use crate::world::Agreed;

/// The playbook that the hosts are given to.
#[derive(Clone, Debug, Default)]
pub struct WorkspacePlay {
    /// Its path: as typed, or within the platform once it was looked at.
    pub playbook: String,
    /// Workspaces of the same target whose hosts the play is given besides.
    pub with: Vec<String>,
    /// The pattern that limits it, as a person wrote it.
    pub limit: Option<String>,
    /// Whether differences are told.
    pub diff: bool,
}

/// Hosts that were awaited in this call.
pub struct Awaited {
    groups: Vec<Group>,
    fleet: Fleet,
    ssh: SshSettings,
    reached: Vec<Reached>,
}

/// The hosts of one workspace.
struct Group {
    hosts: HostsOutput,
    fleet: Fleet,
    standing: Standing,
    is_sensitive: bool,
}

impl Awaited {
    /// One line for people.
    #[must_use]
    pub fn summary(&self) -> String {
        match self.reached.len() {
            1 => "1 host reached".to_owned(),
            n => format!("{n} hosts reached"),
        }
    }

    /// Each host with the address that answered.
    #[must_use]
    pub fn outputs(&self) -> Value {
        let hosts = self.reached.iter();
        let hosts: Map<String, Value> = hosts
            .map(|one| {
                let said = json!({ "address": one.address.as_str(), "python": one.python });
                (one.host.to_string(), said)
            })
            .collect();
        json!({ "hosts": hosts })
    }
}

impl Workspace<'_> {
    /// Looks whether a playbook can be run on this workspace before anything is done: it is there, the workspaces that
    /// it is given are, its plays name no others, and the tools are.
    ///
    /// # Errors
    /// What is missing or wrong; nothing was touched.
    pub fn play_of(&self, play: WorkspacePlay) -> Result<WorkspacePlay, Failure> {
        let source = self.source()?;
        let playbook = self.playbook(&source, &play.playbook)?;
        for name in &play.with {
            self.other(&source, name)?;
        }
        let bytes = source.bundle.file(&playbook).map(|file| &file.bytes);
        let text = String::from_utf8_lossy(bytes.map_or(&[][..], Vec::as_slice)).into_owned();
        // Names alone decide; what hosts there are is not known before the apply.
        let names: Vec<&str> = std::iter::once(self.site.name.as_str())
            .chain(play.with.iter().map(String::as_str))
            .collect();
        let fleet = named_fleet(&names)?;
        // What Ansible makes of a playbook that can't be read here is Ansible's to say.
        for play in platform::plays(&text).unwrap_or_default() {
            if play.pattern.contains("{{") {
                continue;
            }
            fleet.check_play(&play.pattern).map_err(|error| {
                Failure::of(ExitCode::Unusable, &error)
                    .because(format!("playbook `{playbook}`"))
                    .hint("nothing was touched; mend the playbook, and run the same command again")
            })?;
        }
        if let Some(limit) = &play.limit {
            fleet.limit(limit).map_err(|error| {
                Failure::of(ExitCode::Unusable, &error)
                    .hint("nothing was touched; mend `--limit`, and run the same command again")
            })?;
        }
        self.held.bench.demand_hands(&source.platform)?;
        Ok(WorkspacePlay { playbook, ..play })
    }

    /// Awaits every host, all at once, and pins their keys; those of the other workspaces as they stand.
    ///
    /// # Errors
    /// With every host that was not reached, its rung and the last answer.
    pub fn await_hosts(&self, with: &[String], wait: Option<Duration>) -> Result<Awaited, Failure> {
        let mut groups = vec![self.own_group()?];
        for name in with {
            groups.push(self.other_group(name)?);
        }
        let workspaces = groups.iter().flat_map(|group| group.fleet.workspaces());
        let fleet = Fleet::new(workspaces.cloned().collect()).map_err(|error| failed(&error))?;
        let bench = &self.held.bench;
        let usual = Limits::default();
        let limits = Limits {
            deadline: wait.unwrap_or(usual.deadline),
            ..usual
        };
        let act = self.act("await");
        let mut reached = Vec::new();
        let mut ssh = bench.ssh_settings()?;
        for group in &groups {
            let (settings, more) =
                bench.onboard(&act, &group.hosts, &group.fleet, &group.standing, limits)?;
            ssh = settings;
            reached.extend(more);
        }
        Ok(Awaited {
            groups,
            fleet,
            ssh,
            reached,
        })
    }

    /// Looks at every host under the key that is pinned for it, and tells the public keys; those of a sensitive output
    /// are not told.
    ///
    /// # Errors
    /// A host does not answer under its key.
    pub fn onboard(&self, awaited: &Awaited) -> Result<Value, Failure> {
        let bench = &self.held.bench;
        let act = self.act("onboard");
        let mut pins = Map::new();
        for group in &awaited.groups {
            bench.look_at_hosts(&act, &group.hosts, &group.fleet, &group.standing)?;
            if !group.is_sensitive {
                let pinned = bench.pins_of(&group.hosts)?;
                pins.insert(group.hosts.step.step.to_string(), pinned);
            }
        }
        Ok(Value::Object(pins))
    }

    /// Runs the playbook on hosts that were awaited; says in a line what came of it.
    ///
    /// # Errors
    /// It could not be run, or did not do its part on every host that was expected.
    pub fn play(&self, awaited: &Awaited, play: &WorkspacePlay) -> Result<String, Failure> {
        let source = self.source()?;
        let def = self.def()?;
        let ansible = AnsibleStep {
            hosts: awaited.groups[0].hosts.clone(),
            playbook: play.playbook.clone(),
            teardown: None,
            limit: play.limit.clone(),
            vars: Default::default(),
            verify: false,
            diff: play.diff,
        };
        let bench = &self.held.bench;
        let given = Given {
            source: &source,
            def: def.step(),
            ansible: &ansible,
            playbook: &play.playbook,
            check: false,
            values: &bench.target.values,
        };
        let act = self.act("ansible");
        let played = bench.play(&act, &given, &awaited.ssh, &awaited.fleet, &awaited.reached)?;
        Ok(played.summary())
    }

    /// Takes back the pins of its hosts.
    ///
    /// # Errors
    /// The target's known hosts can't be changed.
    pub fn forget_hosts(&self) -> Result<(), Failure> {
        let output = self
            .def()
            .map_or_else(|_| "hosts".to_owned(), |def| def.hosts);
        let hosts = HostsOutput {
            step: self.site.step.clone(),
            output,
        };
        self.held.bench.forget_hosts(&hosts)
    }

    pub(super) fn act(&self, what: &str) -> Act<'_> {
        Act {
            step: &self.site.step,
            log: self.held.bench.log(&self.site.step, what),
            deadline: None,
        }
    }

    pub(super) fn source(&self) -> Result<Arc<Source>, Failure> {
        match &self.held.today {
            Ok(today) => Ok(Arc::clone(today)),
            Err(_) => Err(undefined(&self.site)),
        }
    }

    /// The path of a playbook within the platform.
    pub(super) fn playbook(&self, source: &Source, text: &str) -> Result<String, Failure> {
        let root = &self.site.root;
        let typed = self.held.bench.machine.cwd.join(text);
        let candidates = [typed.as_path(), Path::new(text)];
        let within = candidates.iter().filter_map(|path| {
            let path = path.strip_prefix(root).unwrap_or(path);
            platform::join("", path.to_str()?)
        });
        let mut known = within.filter(|path| source.bundle.file(path).is_some());
        known.next().ok_or_else(|| {
            Failure::new(
                ExitCode::Unusable,
                format!("the platform has no playbook `{text}`"),
            )
            .hint(format!(
                "name it from here or from `{}`; a file that git ignores is none of the platform's. Nothing was touched",
                root.join(PLATFORM_FILE).display()
            ))
        })
    }

    fn own_group(&self) -> Result<Group, Failure> {
        let hosts = HostsOutput {
            step: self.site.step.clone(),
            output: self.def()?.hosts,
        };
        // As the state has it now, which is more than what was recorded.
        self.hosts()?;
        let standing = Standing(self.held.ledger(CallCommand::Provision)?.view());
        self.group(hosts, standing)
    }

    fn group(&self, hosts: HostsOutput, standing: Standing) -> Result<Group, Failure> {
        let bench = &self.held.bench;
        let (fleet, is_sensitive) =
            bench.fleet(&hosts.step, &hosts, &standing, &bench.target.values)?;
        Ok(Group {
            hosts,
            fleet,
            standing,
            is_sensitive,
        })
    }

    /// Another workspace of the same target.
    fn other(&self, source: &Source, name: &str) -> Result<WorkspaceDef, Failure> {
        let target = &self.held.bench.target.name;
        let of_target = |def: &&WorkspaceDef| def.target == *target && def.name().as_str() == name;
        let mut known = source.platform.workspaces.iter();
        known.find(of_target).cloned().ok_or_else(|| {
            Failure::new(
                ExitCode::Unusable,
                format!("target `{target}` has no workspace `{name}`"),
            )
            .hint("`--with` names workspaces of `[workspace]` that are of the same target; nothing was touched")
        })
    }

    fn other_group(&self, name: &str) -> Result<Group, Failure> {
        let source = self.source()?;
        let def = self.other(&source, name)?;
        let step: StepId = def.step().id.clone();
        let held = &self.held;
        let records = RecordStore::new(Arc::new(LocalStore::open(held.paths.workspace(name))));
        let standing = Standing(held.ledger_in(records, CallCommand::Provision)?.view());
        if standing.get(&step).is_none() {
            return Err(
                Failure::failed(format!("nothing stands of workspace `{name}`")).hint(format!(
                    "`rebuild provision run {name} PLAYBOOK` makes it first"
                )),
            );
        }
        // Brings up what it refers to.
        let _world = self.world(standing.clone(), Agreed::default())?;
        held.bench.read_outputs(&step, &standing)?;
        let hosts = HostsOutput {
            step,
            output: def.hosts,
        };
        self.group(hosts, standing)
    }
}

/// Workspaces by name alone, for what names decide.
fn named_fleet(names: &[&str]) -> Result<Fleet, Failure> {
    let workspaces = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let hosts = json!({ format!("host-{number}-of-{name}"): { "address": "192.0.2.1" } });
            let name = name
                .parse()
                .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
            handoff::Workspace::parse(name, &hosts)
                .map_err(|error| Failure::of(ExitCode::Unusable, &error))
        })
        .collect::<Result<_, Failure>>()?;
    Fleet::new(workspaces).map_err(|error| {
        Failure::of(ExitCode::Unusable, &error).hint("each workspace is named once")
    })
}
