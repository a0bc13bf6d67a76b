//! The workspace of a handoff: one root module that no step owns, worked on under its target's lock.
//!
//! Everything is as for a tofu step of a run: the target's store and key, its environment and secrets, masking,
//! the plan guard, rescues. Only what stands of it is written down elsewhere: on this machine, beside the
//! target's working directory. Its state is `workspace/<name>`, of which the target's own steps know nothing.

mod bundles;
mod capture;
mod hosts;
mod listed;
mod recorded;
mod sealed;
mod site;
mod teardown;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use phase_engine::{
    ApplyHow, CallKind, Entry, ExitCode, Failure, Ledger as _, NotStored, Notes, PhaseFailure,
    Preparation, RunStatus, StepEvent, StepId, StepStatus,
};
use platform::{Resolved, StepDef, StepKind, WorkspaceDef};
use process::files::{create_private_dir, write_atomically};
use record::{CallCommand, Detail, RecordLedger, RecordStore};
use secrets::{Masker, Secret};
use serde_json::Value;
use store::LocalStore;

use bundles::digests_in;
pub use capture::{CAPTURE_VARIABLE, CapturePlay, Caught};
pub use hosts::{Awaited, WorkspacePlay};
pub use listed::{
    HostsOf, Listing, RecordedHosts, hosts_of_step, hosts_of_target, hosts_of_workspace,
};
pub use recorded::{Recorded, recorded};
pub use site::{WorkspaceSite, find};
pub use teardown::{WorkspaceDown, WorkspaceDryRun};

use crate::api::Machine;
use crate::bench::Bench;
use crate::error::{CallError, failed, unusable};
use crate::open::{Held, OnFaults, Opened};
use crate::resolve::Inputs;
use crate::secret_book;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::suspects;
use crate::ui::{Doing, Notice, Ui};
use crate::up::Walk;
use crate::world::{Agreed, TargetWorld};

/// What stands in for a captured value that is lost, in a teardown. Measured on 1.12: a destroy without a refresh hands
/// variables to provider configurations alone, and judges none by its `validation`; null is refused where `nullable` is
/// false.
pub(crate) const LOST: &str = "";
/// How many records of earlier applies of a workspace are kept on this machine.
const RECORDS_KEPT: usize = 50;
/// The file beside a workspace's record that says which directory it is, where that is its only name.
const ROOT_FILE: &str = "root";

impl Bench<'_> {
    /// The variables that come from memory only, as inputs.
    pub(crate) fn captured_inputs(&self) -> Inputs {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let sensitive = true;
        captured
            .iter()
            .map(|(name, secret)| {
                let value = Value::from(secret.expose());
                (name.clone(), Resolved { value, sensitive })
            })
            .collect()
    }
}

/// What an apply of a workspace may do.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceApply {
    /// Its plan may destroy and replace on a protected target.
    pub allow_destroy: bool,
    /// Tainted addresses that may be replaced.
    pub replace: Vec<String>,
    /// Tainted addresses that are kept as they are.
    pub keep: Vec<String>,
}

/// What an apply came to.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceApplied {
    /// One line for people: `2 created`.
    pub summary: String,
    /// The outputs that are not sensitive.
    pub outputs: BTreeMap<String, Value>,
}

/// A workspace, with its target's lock held.
pub struct Workspace<'m> {
    held: Held<'m>,
    site: WorkspaceSite,
}

impl<'m> Workspace<'m> {
    /// Reads the definitions, takes the target's lock and brings to its end what a killed call left of the workspace.
    ///
    /// `command` is what the lock's holder is said to do.
    ///
    /// # Errors
    /// Faults; the target is locked; the store can't be read; what was left can't be rescued.
    pub fn open(
        machine: &'m Machine,
        site: &WorkspaceSite,
        command: &str,
        stop: &Arc<StopRequests>,
        ui: &Arc<dyn Ui>,
    ) -> Result<Self, CallError> {
        let opened = Opened::open_on(
            machine,
            &site.site,
            Some(site.workspace()),
            stop,
            ui,
            OnFaults::Stop,
        )?;
        let def = today_of(&opened, site)?;
        let names = secret_book::used_by_step(def.step());
        opened
            .secrets
            .need(&names)
            .map_err(|error| unusable(&error).hint(error.hint()))?;
        Self::hold(opened, site, command)
    }

    fn hold(opened: Opened<'m>, site: &WorkspaceSite, command: &str) -> Result<Self, CallError> {
        let held = opened.hold(command, None)?;
        let settled = held
            .ledger(CallCommand::Provision)
            .and_then(|mut ledger| held.settle_leftovers(&mut ledger));
        let workspace = Self {
            held,
            site: site.clone(),
        };
        match settled {
            Ok(()) => Ok(workspace),
            Err(failure) => {
                workspace.release();
                Err(failure.into())
            }
        }
    }

    /// What it is, by today's definitions.
    fn def(&self) -> Result<WorkspaceDef, Failure> {
        let today = self.held.today.as_ref().ok();
        let found = today.and_then(|today| today.platform.workspace(&self.site.name));
        found.cloned().ok_or_else(|| undefined(&self.site))
    }

    /// Gives the workspace variables from memory: sensitive ones, which are named in `captured` of its definition.
    /// They are masked from now on, and on no disk.
    ///
    /// # Errors
    /// One of them is none that the workspace captures.
    pub fn give(&self, captured: BTreeMap<String, Secret>) -> Result<(), Failure> {
        // One that is defined no more is torn down with what it was given.
        let own = self.def().ok().map(|def| def.captured);
        for (name, secret) in &captured {
            if own.as_ref().is_some_and(|own| !own.contains(name)) {
                return Err(Failure::new(
                    ExitCode::Unusable,
                    format!(
                        "workspace `{}` captures no variable `{name}`",
                        self.site.name
                    ),
                )
                .hint(format!(
                    "add it to `captured` of `[workspace.{}]`",
                    self.site.name
                )));
            }
            self.held.bench.masker.add(name, secret);
        }
        let mut own = self
            .held
            .bench
            .captured
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        own.extend(captured);
        Ok(())
    }

    /// The variables that it captures.
    ///
    /// # Errors
    /// It is defined no more.
    pub fn captures(&self) -> Result<Vec<String>, Failure> {
        Ok(self.def()?.captured)
    }

    /// Hides secrets in what is told.
    #[must_use]
    pub fn masker(&self) -> &Masker {
        &self.held.bench.masker
    }

    /// A failure as it may be told and kept.
    #[must_use]
    pub fn masked(&self, failure: Failure) -> Failure {
        self.held.bench.masked_failure(failure)
    }

    /// Its name and target.
    #[must_use]
    pub fn site(&self) -> &WorkspaceSite {
        &self.site
    }

    /// Where the masked logs of this call lie.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.held.bench.logs
    }

    /// Plans it, asks the guard, and applies exactly that plan. What stands of it is written down before and after.
    ///
    /// # Errors
    /// Whatever stops or ends a step of a run; objects of it may exist that are in no state.
    pub fn apply(&self, options: &WorkspaceApply) -> Result<WorkspaceApplied, Failure> {
        self.give_sealed()?;
        let lacking = self.lacking(self.captures()?);
        if !lacking.is_empty() {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "workspace `{}` captures {}, and nothing gives that a value",
                    self.site.name,
                    lacking
                        .iter()
                        .map(|name| format!("`{name}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            )
            .hint(format!(
                "`rebuild bootstrap run PLAYBOOK {}` captures it first",
                self.site.as_typed()
            )));
        }
        let applied = self.applied(options);
        applied.map_err(|failure| self.with_ways_on(failure))
    }

    fn applied(&self, options: &WorkspaceApply) -> Result<WorkspaceApplied, Failure> {
        let step = &self.site.step;
        let bench = &self.held.bench;
        let mut ledger = self.held.ledger(CallCommand::Provision)?;
        let named = format!("{} --workspace {}", bench.target.name, self.site.name);
        suspects::none_unsettled(ledger.record(), &named)?;
        let standing = Standing(ledger.view());
        self.forget_retired(&mut ledger, &standing)?;
        let agreed = Agreed {
            allow_destroy: options
                .allow_destroy
                .then(|| step.phase.clone())
                .into_iter()
                .collect(),
            replace: options.replace.iter().cloned().collect(),
            keep: options.keep.iter().cloned().collect(),
        };
        let world = self.world(standing, agreed)?;
        let how = match world.standing.status_of(step) {
            Some(StepStatus::Started) => ApplyHow::AfterCut {
                same_definition: false,
            },
            Some(StepStatus::Failed | StepStatus::Interrupted) => ApplyHow::AfterFailure,
            _ => ApplyHow::Fresh,
        };
        let definition = world.resolved(step)?.definition;
        let kept = Kept {
            ledger: Mutex::new(ledger),
            step: step.clone(),
        };
        let prepared = world
            .prepare_step(step, how, &kept)
            .unwrap_or_else(Preparation::NotReady);
        let mut ledger = kept.into_ledger();
        let (plan, detail) = match bench.masked_preparation(prepared) {
            Preparation::Ready { plan, detail } => (plan, detail),
            Preparation::NotReady(failure) => return Err(failure),
            // A tofu step that was cut is planned anew.
            Preparation::AlreadyDone { .. } => return Ok(WorkspaceApplied::default()),
        };
        self.write_first()?;
        let began = vec![
            Entry::CallBegan {
                kind: CallKind::New,
            },
            Entry::PhaseApplying {
                phase: step.phase.clone(),
            },
            Entry::Step {
                step: step.clone(),
                event: StepEvent::Started,
                definition: Some(definition),
                detail: Some(detail),
                failure: None,
            },
        ];
        ledger.append(began).map_err(|error| failed(&error))?;
        let decisions = std::mem::take(
            &mut *bench
                .consents
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if !decisions.is_empty() {
            ledger
                .change(|record| record.decisions.extend(decisions))
                .map_err(|error| failed(&error))?;
        }
        let kept = Kept {
            ledger: Mutex::new(ledger),
            step: step.clone(),
        };
        let act = || {
            let (result, summary) = world.apply_step(step, plan, &kept);
            (bench.masked_result(result), summary)
        };
        let (result, summary) = world.told(step, Doing::Apply, act, |(result, summary)| {
            match &result.end {
                Ok(()) => (true, summary.clone()),
                Err(failure) => (false, failure.what.clone()),
            }
        });
        let mut ledger = kept.into_ledger();
        let (event, status, failure) = match &result.end {
            Ok(()) => (StepEvent::Succeeded, RunStatus::Finished, None),
            Err(failure) if failure.is_interrupt() => (
                StepEvent::Interrupted,
                RunStatus::Interrupted,
                Some(failure.clone()),
            ),
            Err(failure) => (StepEvent::Failed, RunStatus::Failed, Some(failure.clone())),
        };
        self.end(&mut ledger, event, status, result.detail, failure)?;
        result.end?;
        let outputs = self.plain_outputs(&Standing(ledger.view()))?;
        Ok(WorkspaceApplied { summary, outputs })
    }

    /// What must be in the store, and on this machine, before the first entry is.
    fn write_first(&self) -> Result<(), Failure> {
        self.held.write_first()?;
        self.held.bench.library.flush()?;
        if let Some(named) = &self.site.named {
            let dir = self.held.paths.workspace(&self.site.name);
            let written = create_private_dir(&dir).and_then(|()| {
                write_atomically(&dir.join(ROOT_FILE), named.root.as_bytes(), 0o600)
            });
            written.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Forgets what stood of it, where it was torn down from another machine: its state is among its versions.
    fn forget_retired(
        &self,
        ledger: &mut RecordLedger,
        standing: &Standing,
    ) -> Result<(), Failure> {
        let step = &self.site.step;
        let Some(mark) = standing.get(step).and_then(|entry| entry.state) else {
            return Ok(());
        };
        if self.held.bench.mark(step)?.is_some() || !self.held.bench.was_retired(step, &mark)? {
            return Ok(());
        }
        ledger
            .change(|record| record.standing.retain(|entry| entry.step != *step))
            .map_err(|error| failed(&error))
    }

    /// Stores how an act on it ended, and the call with it.
    fn end(
        &self,
        ledger: &mut RecordLedger,
        event: StepEvent,
        status: RunStatus,
        detail: Option<Detail>,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        let step = &self.site.step;
        let exit = failure.as_ref().map_or(ExitCode::Done, |one| one.exit);
        let failures = failure.iter().map(|failure| PhaseFailure {
            phase: Some(step.phase.clone()),
            step: Some(step.clone()),
            failure: failure.clone(),
        });
        let failures = failures.collect();
        let entries = vec![
            Entry::step(step, event, detail, failure),
            Entry::CallEnded {
                status,
                exit,
                failures,
            },
        ];
        let ended = crate::standing::ended_badly(&entries);
        ledger.append(entries).map_err(|error| failed(&error))?;
        self.held.bench.forget_ended(&ended);
        let dir = self.held.paths.workspace(&self.site.name);
        let mut named = BTreeSet::new();
        let pruned = RecordStore::new(Arc::new(LocalStore::open(dir)))
            .prune_telling(RECORDS_KEPT, |record| named.extend(digests_in(record)))
            .map_err(|error| failed(&error));
        if let Err(failure) = pruned.and_then(|_| self.forget_bundles(named)) {
            self.held.bench.ui.tell(&Notice::Warning {
                message: format!(
                    "old records or definitions of this workspace are left: {}",
                    failure.what
                ),
                hint: None,
            });
        }
        Ok(())
    }

    /// The outputs as its state has them now, sensitive ones too; an output that the state lacks is not there.
    ///
    /// # Errors
    /// Nothing stands of it, or its state can't be read.
    pub fn output(&self, name: &str) -> Result<Option<Value>, Failure> {
        let ledger = self.held.ledger(CallCommand::Provision)?;
        let standing = Standing(ledger.view());
        // Brings up what it refers to.
        let _world = self.world(standing.clone(), Agreed::default())?;
        let known = self.held.bench.outputs.get(&self.site.step, name);
        let is_of_now = ledger
            .record()
            .is_some_and(|record| record.run == self.held.run);
        if let Some(value) = known.filter(|_| is_of_now).and_then(|output| output.value) {
            return Ok(Some(value));
        }
        self.held.bench.read_outputs(&self.site.step, &standing)?;
        let found = self.held.bench.outputs.get(&self.site.step, name);
        Ok(found.and_then(|output| output.value))
    }

    /// The value of the output that names its hosts, as its state has it now.
    ///
    /// # Errors
    /// As [`Workspace::output`]; there is no such output.
    pub fn hosts(&self) -> Result<Value, Failure> {
        let name = self.def()?.hosts;
        self.output(&name)?.ok_or_else(|| {
            Failure::failed(format!(
                "workspace `{}` has no output `{name}`, which names its hosts",
                self.site.name
            ))
            .hint("declare it in the root module, and run the same command again")
        })
    }

    /// Gives the lock back.
    pub fn release(self) {
        self.held.release();
    }
}

impl Workspace<'_> {
    /// What is driven, with what its variables refer to brought up: outputs of the target's own steps.
    fn world(&self, standing: Standing, agreed: Agreed) -> Result<TargetWorld<'_, '_>, Failure> {
        let held = &self.held;
        let refers = |def: &StepDef| !def.refers_to().is_empty();
        let mut defs: Vec<StepDef> = Vec::new();
        if let Ok(def) = self.def() {
            defs.push(def.step().clone());
        }
        for entry in standing.all() {
            for applied in entry.teardown_order() {
                let source = held.bench.library.get(&applied.bundle)?;
                defs.push(source.applied_step(&entry.step, applied)?.1.clone());
            }
        }
        if defs.iter().any(refers) {
            let of_target = held.target_standing()?;
            for entry in of_target.all() {
                held.bench.recall_outputs(&entry, &of_target)?;
            }
            for def in &defs {
                held.bench.need_outputs(def.exprs(), &of_target)?;
            }
        }
        let mut world = held.world(standing, held.run.clone(), 1)?;
        world.agreed = agreed;
        Ok(world)
    }

    /// Names what goes on with a handoff, where a failure names what goes on with a run.
    fn with_ways_on(&self, mut failure: Failure) -> Failure {
        let target = self.held.bench.target.name.as_str();
        if failure.hint.as_deref() == Some(Walk::Up.ways_on(target).as_str()) {
            failure.hint = None;
        }
        failure
    }

    /// Outputs that are not sensitive, as the record has them after an apply.
    fn plain_outputs(&self, standing: &Standing) -> Result<BTreeMap<String, Value>, Failure> {
        let step = &self.site.step;
        let bench = &self.held.bench;
        let def = self.def()?;
        let known: BTreeMap<String, Value> = standing
            .get(step)
            .iter()
            .flat_map(|entry| entry.outputs.iter())
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        let StepKind::Tofu(tofu) = &def.step().kind else {
            return Ok(known);
        };
        let declared = &tofu.module.outputs;
        let is_open = |name: &&String| declared.get(*name).is_some_and(|one| !one.sensitive);
        if declared
            .keys()
            .filter(is_open)
            .all(|name| known.contains_key(name))
        {
            return Ok(known);
        }
        // It was applied on another machine, and this one had nothing to do.
        bench.read_outputs(step, standing)?;
        let open = declared.keys().filter_map(|name| {
            let output = bench.outputs.get(step, name)?;
            Some((name.clone(), output.value.filter(|_| !output.sensitive)?))
        });
        Ok(open.collect())
    }
}

/// What an act at work leaves in the workspace's record.
struct Kept {
    ledger: Mutex<RecordLedger>,
    step: StepId,
}

impl Notes<Detail> for Kept {
    fn note(&self, detail: Detail) -> Result<(), NotStored> {
        let step = self.step.clone();
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger
            .append(vec![Entry::Note { step, detail }])
            .map_err(|_| NotStored)
    }
}

impl Kept {
    fn into_ledger(self) -> RecordLedger {
        self.ledger
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn today_of(opened: &Opened<'_>, site: &WorkspaceSite) -> Result<WorkspaceDef, Failure> {
    let today = opened.today();
    let found = today
        .as_ref()
        .and_then(|today| today.platform.workspace(&site.name));
    found.cloned().ok_or_else(|| undefined(site))
}

fn undefined(site: &WorkspaceSite) -> Failure {
    Failure::new(
        ExitCode::Unusable,
        format!("rebuild.toml has no workspace `{}`", site.name),
    )
    .hint(
        "add it as `[workspace.NAME]`, or name its root module's directory with `--target TARGET`",
    )
}
