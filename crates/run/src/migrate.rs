//! `state migrate`: a root module that was applied before `rebuild` keeps its state here from then on, and with `--back`
//! where it was.
//!
//! The record's word `adopted` on what stands is the only switch: with it the store's state rules, without it the old
//! one. A copy is whole, read back and compared before the switch is turned, and nothing is taken away before it was.
//! A state in the store beside which nothing stands is a copy of a migration that was cut.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{StepDef, StepKind, TofuStep};
use record::{
    Adopted, CallCommand, DecisionKind, Input, Outputs, PlannedWork, Record, RecordLedger,
    StandingEntry, StateMark, Time,
};
use schemars::JsonSchema;
use serde::Serialize;
use tofu::{Session, Slot, StateFacts};

use crate::api::{Machine, MigrateOptions, Site};
use crate::error::{CallError, stopped};
use crate::library::Source;
use crate::masking::holds_secret;
use crate::old_state::{OldState, OldStateWanted};
use crate::open::{Held, OnFaults, Opened, platform_dir};
use crate::rescue::says_the_same;
use crate::resolve::Inputs;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::tofu_work::tofu_failure;
use crate::ui::Ui;

/// Which way a state went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Into the target's store.
    In,
    /// Back to where it was.
    Back,
}

/// What became of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Migrated {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The step.
    pub step: String,
    /// Which way the state went.
    pub direction: Direction,
    /// The old place.
    pub old: String,
    /// The state's lineage.
    pub lineage: String,
    /// The state's serial, where it is kept now.
    pub serial: u64,
    /// How many resources it has.
    pub n_resources: usize,
    /// It had been done before.
    pub already: bool,
    /// The commands that go on from here.
    pub next: Vec<String>,
}

/// Takes a state over, or gives it back.
///
/// # Errors
/// It can't be read or written, or is not the one that it was; one side is complete all the same, and is named.
pub fn migrate(
    machine: &Machine,
    site: &Site,
    options: &MigrateOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Migrated, CallError> {
    let step: StepId = options.step.parse().map_err(|error| {
        Failure::of(ExitCode::Unusable, &error).hint("a step is named `PHASE.STEP`")
    })?;
    let platform = platform_dir(machine, site)?;
    let held =
        Opened::open(machine, site, stop, ui, OnFaults::Migrate)?.hold("state migrate", None)?;
    let migrated = Migration {
        held: &held,
        step: &step,
        options,
        platform: &platform,
    }
    .run();
    held.release();
    migrated.map_err(CallError::from)
}

struct Migration<'a, 'm> {
    held: &'a Held<'m>,
    step: &'a StepId,
    options: &'a MigrateOptions,
    platform: &'a std::path::Path,
}

/// A state in clear, and what it is.
struct Plain {
    bytes: Vec<u8>,
    facts: StateFacts,
}

impl Plain {
    fn of(bytes: Vec<u8>) -> Result<Self, Failure> {
        let facts = StateFacts::read(&bytes).map_err(|error| stopped(&error))?;
        Ok(Self { bytes, facts })
    }

    fn same_as(&self, other: &Self) -> Result<bool, Failure> {
        let same = says_the_same(&self.bytes, &other.bytes).map_err(|error| stopped(&error))?;
        Ok(same && self.facts.lineage == other.facts.lineage)
    }
}

impl Migration<'_, '_> {
    fn run(&self) -> Result<Migrated, Failure> {
        let held = self.held;
        let mut ledger = held.ledger(CallCommand::Migrate)?;
        held.settle_leftovers(&mut ledger)?;
        if let Some(record) = ledger.record().filter(|record| !record.status.has_ended()) {
            let target = &held.bench.target.name;
            return Err(
                Failure::new(ExitCode::Stopped, crate::look_commands::unfinished(record)).hint(
                    format!(
                        "`rebuild up --target {target} --resume` goes on with it; states move when it is finished"
                    ),
                ),
            );
        }
        let source =
            held.today.as_ref().map(Arc::clone).map_err(|_| {
                Failure::new(ExitCode::Unusable, "today's definitions can't be read")
            })?;
        let (_, def) = source.step(self.step).map_err(|_| {
            Failure::new(
                ExitCode::Unusable,
                format!("this platform has no step `{}`", self.step),
            )
            .hint("a step is named `PHASE.STEP`; nothing was changed")
        })?;
        let StepKind::Tofu(tofu) = &def.kind else {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("step `{}` has no state: it is no `tofu` step", self.step),
            ));
        };
        if tofu.module.own_state.is_none() {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "root module `{}` does not say where else its state is: it has no `backend` and no `cloud` block, and \
                     no `terraform.tfstate` lies beside it",
                    tofu.root
                ),
            )
            .hint("bring the block back; it goes, or is left without effect, once the state has moved"));
        }
        if self.options.back {
            self.back(&mut ledger, &source, def, tofu)
        } else {
            self.take_over(&mut ledger, &source, def, tofu)
        }
    }

    fn old(
        &self,
        source: &Source,
        def: &StepDef,
        tofu: &TofuStep,
        inputs: Option<&Inputs>,
        adopted: Option<&Adopted>,
    ) -> Result<OldState, Failure> {
        let recorded = adopted.and_then(|adopted| adopted.workspace.clone());
        self.held.bench.old_state(&OldStateWanted {
            step: self.step,
            source,
            def,
            tofu,
            inputs,
            platform: self.platform,
            workspace: self.options.workspace.clone().or(recorded),
            backend_config: &self.options.backend_config,
        })
    }

    /// The old state, which must be there.
    fn pull(&self, old: &OldState) -> Result<Plain, Failure> {
        let bytes = old
            .backend
            .pull()
            .map_err(|error| tofu_failure(&error, ExitCode::Stopped))?;
        let bytes = bytes.ok_or_else(|| {
            Failure::new(
                ExitCode::Stopped,
                format!("there is no state of step `{}` in {}", self.step, old.backend.place()),
            )
            .hint("`--workspace` names another workspace, `--backend-config` gives what the block leaves out; nothing was changed")
        })?;
        let plain = Plain::of(bytes)?;
        if plain.facts.lineage.is_empty() {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the state in {} has no lineage", old.backend.place()),
            )
            .hint("nothing was changed"));
        }
        Ok(plain)
    }

    fn take_over(
        &self,
        ledger: &mut RecordLedger,
        source: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<Migrated, Failure> {
        let (held, step) = (self.held, self.step);
        let bench = &held.bench;
        let standing = Standing(ledger.view());
        if let Some(entry) = standing.get(step) {
            let Some(adopted) = &entry.adopted else {
                return Err(Failure::new(
                    ExitCode::Stopped,
                    format!("step `{step}` was applied here, so it has a state already"),
                )
                .hint("remove the block that says otherwise from its root module"));
            };
            let serial = entry.state.as_ref().map_or(adopted.serial, |s| s.serial);
            return Ok(self.migrated(
                Direction::In,
                &adopted.from,
                &adopted.lineage,
                serial,
                0,
                true,
            ));
        }
        let world = held.world(standing, held.run.clone(), 1)?;
        let resolved = world.resolved(step).map_err(|failure| {
            failure.hint("states are taken over in the order of the phases: first those that this step refers to")
        })?;
        let old = self.old(source, def, tofu, Some(&resolved.inputs), None)?;
        let theirs = self.pull(&old)?;
        let place = old.backend.place().to_owned();

        if let Some(there) = bench.mark(step)? {
            self.is_copy(&there, &theirs, &place)?;
        }
        // What a state is encrypted with must be there before the state is.
        held.write_first()?;
        let session = world.session_today(step, &resolved, def, tofu, Slot::Tree)?;
        let ours = self.copied(&session, &theirs)?;
        let again = self.pull(&old)?;
        if again.facts.serial != theirs.facts.serial || !again.same_as(&theirs)? {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the state in {place} was changed while it was copied: it still rules"),
            )
            .hint("see that nobody works with it, then type the same command again"));
        }
        let report = session
            .init(false)
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let mut starting =
            world.starting(&resolved, PlannedWork::default(), Some((&session, &report)))?;
        // Whatever applied it, it is held against these definitions from now on.
        starting.applied.attempted = false;
        let outputs = self.outputs(&session)?;
        let state = bench.mark(step)?;
        bench.library.flush()?;
        let adopted = Adopted {
            from: bench.masked(&place),
            workspace: self.options.workspace.clone(),
            lineage: theirs.facts.lineage.clone(),
            serial: theirs.facts.serial,
            at: Time::from((bench.machine.now)()),
        };
        let decision = held.decision(DecisionKind::Migrate, format!("{step} from {place}"));
        ledger
            .adopt(|record, sequence| {
                let mut ids: Vec<StepId> = record.standing.iter().map(|e| e.step.clone()).collect();
                let at = phase_engine::place(&mut ids, step, sequence);
                let applied = record::Applied {
                    run: record.run.clone(),
                    ..starting.applied
                };
                let entry = StandingEntry {
                    step: step.clone(),
                    kind: starting.kind,
                    contained_in: starting.contained_in,
                    applied,
                    previous: Vec::new(),
                    state,
                    writing: None,
                    outputs,
                    adopted: Some(adopted),
                    formerly: Default::default(),
                    moving_to: None,
                };
                record.standing.insert(at, entry);
                record.decisions.push(decision);
            })
            .map_err(|error| stopped(&error))?;
        Ok(self.migrated(
            Direction::In,
            &place,
            &ours.facts.lineage,
            ours.facts.serial,
            ours.facts.addresses.len(),
            false,
        ))
    }

    /// Makes sure that a state beside which nothing stands is no more than a copy of the old one. Encrypting a copy
    /// counts its serial up by one.
    fn is_copy(&self, there: &StateMark, theirs: &Plain, place: &str) -> Result<(), Failure> {
        let facts = &theirs.facts;
        if there.lineage == facts.lineage && there.serial <= facts.serial + 1 {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::Stopped,
            format!(
                "the store has a state of step `{}` that nobody knows, and it is no copy of the one in {place}",
                self.step
            ),
        )
        .because(format!(
            "lineage `{}` and serial {} in the store, lineage `{}` and serial {} there",
            there.lineage, there.serial, facts.lineage, facts.serial
        ))
        .hint("nothing was changed; find out what that state is before anything else"))
    }

    /// Writes a state into the store through its encryption, and reads it back.
    fn copied(&self, session: &Session, theirs: &Plain) -> Result<Plain, Failure> {
        let (bench, step) = (&self.held.bench, self.step);
        let failed = |error: &tofu::RunError| tofu_failure(error, ExitCode::Failed);
        let read = || -> Result<Option<Plain>, Failure> {
            let bytes = session.state_pull().map_err(|error| failed(&error))?;
            bytes.map(Plain::of).transpose()
        };
        let of_a_cut_one = match bench.mark(step)? {
            Some(_) => read()?,
            None => None,
        };
        match of_a_cut_one {
            Some(copy) if copy.same_as(theirs)? => return Ok(copy),
            // The old one still rules: what was copied of it before is kept as a version.
            Some(_) => {
                bench
                    .server
                    .backend()
                    .retire(&step.key())
                    .map_err(|error| stopped(&error))?;
            }
            None => {}
        }
        // Not by `state push`: into a place without a state OpenTofu writes another lineage (measured).
        let bytes = bench.as_stored(step, &theirs.bytes)?;
        bench
            .server
            .backend()
            .write_rescued(&step.key(), &bytes)
            .map_err(|error| stopped(&error))?;
        let copy = read()?;
        match copy {
            Some(copy) if copy.same_as(theirs)? && copy.facts.serial >= theirs.facts.serial => {
                Ok(copy)
            }
            _ => Err(Failure::failed(format!(
                "the state of step `{step}` that was written to the store is not the one that was read: the old one still rules"
            ))),
        }
    }

    /// The outputs that may be shown; those that later steps need and may not be are read when they are needed.
    fn outputs(&self, session: &Session) -> Result<Outputs, Failure> {
        let masker = &self.held.bench.masker;
        let outputs = session
            .output_json()
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        Ok(Outputs::of(outputs.into_iter().map(|(name, output)| {
            let hidden = output.sensitive || holds_secret(masker, &output.value);
            let input = if hidden {
                Input::sensitive(output.value)
            } else {
                Input::plain(output.value)
            };
            (name, input)
        })))
    }

    fn back(
        &self,
        ledger: &mut RecordLedger,
        source: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<Migrated, Failure> {
        let (held, step) = (self.held, self.step);
        let bench = &held.bench;
        let standing = Standing(ledger.view());
        let Some(entry) = standing.get(step) else {
            return self.forget_copy(source, def, tofu);
        };
        let Some(adopted) = entry.adopted.clone() else {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "the state of step `{step}` was made here: there is no place to give it back to"
                ),
            )
            .hint("nothing was changed"));
        };
        let world = held.world(standing, held.run.clone(), 1)?;
        // Settings may refer to inputs; one that has no value any more may not be among them.
        let inputs = world.resolved(step).ok().map(|resolved| resolved.inputs);
        let applied_source = bench.library.get(&entry.applied.bundle)?;
        let (_, applied_def) = applied_source.applied_step(step, &entry.applied)?;
        let StepKind::Tofu(applied_tofu) = &applied_def.kind else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("step `{step}` has no state"),
            ));
        };
        let session = bench
            .applied_session(
                &entry,
                &entry.applied,
                &applied_source,
                applied_def,
                applied_tofu,
                &world.standing,
            )?
            .session;
        let ours = session
            .state_pull()
            .map_err(|error| tofu_failure(&error, ExitCode::Stopped))?
            .ok_or_else(|| {
                Failure::new(
                    ExitCode::Stopped,
                    format!(
                        "the state of step `{step}` is gone, and the record knows that it was there"
                    ),
                )
                .hint("restore it from its versions in the store before anything else")
            })?;
        let ours = Plain::of(ours)?;
        let old = self.old(source, def, tofu, inputs.as_ref(), Some(&adopted))?;
        let theirs = self.pull(&old)?;
        let place = old.backend.place().to_owned();
        let serial = self.handed_back(&old, &ours, &theirs, &adopted)?;
        let decision = held.decision(DecisionKind::MigrateBack, format!("{step} to {place}"));
        ledger
            .change(|record: &mut Record| {
                record.standing.retain(|entry| entry.step != *step);
                record.decisions.push(decision);
            })
            .map_err(|error| stopped(&error))?;
        bench
            .server
            .backend()
            .retire(&step.key())
            .map_err(|error| stopped(&error))?;
        Ok(self.migrated(
            Direction::Back,
            &place,
            &ours.facts.lineage,
            serial,
            ours.facts.addresses.len(),
            false,
        ))
    }

    /// Brings the old place to what the store has; says which serial it has there then.
    fn handed_back(
        &self,
        old: &OldState,
        ours: &Plain,
        theirs: &Plain,
        adopted: &Adopted,
    ) -> Result<u64, Failure> {
        let place = old.backend.place();
        let fork = |why: String| {
            Failure::new(ExitCode::Stopped, why)
                .because(format!("the store's state of step `{}` still rules", self.step))
                .hint("nothing was changed; what was done to the old state since has to be looked at by hand")
        };
        if ours.facts.lineage != theirs.facts.lineage {
            return Err(fork(format!(
                "the state in {place} has lineage `{}`, and the store's has `{}`",
                theirs.facts.lineage, ours.facts.lineage
            )));
        }
        if ours.same_as(theirs)? {
            return Ok(theirs.facts.serial);
        }
        if theirs.facts.serial != adopted.serial {
            return Err(fork(format!(
                "the state in {place} has serial {}, and had {} when it was taken over: somebody has used it since",
                theirs.facts.serial, adopted.serial
            )));
        }
        old.backend
            .push(&ours.bytes)
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let written = self.pull(old)?;
        if written.same_as(ours)? {
            return Ok(written.facts.serial);
        }
        Err(Failure::failed(format!(
            "the state that was written to {place} is not the store's: the store's still rules"
        )))
    }

    /// Of a migration that was cut before its end only the copy is taken away.
    fn forget_copy(
        &self,
        source: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<Migrated, Failure> {
        let (bench, step) = (&self.held.bench, self.step);
        let Some(there) = bench.mark(step)? else {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("no state of step `{step}` was taken over, so there is none to give back"),
            )
            .hint("nothing was changed"));
        };
        let old = self.old(source, def, tofu, None, None)?;
        let theirs = self.pull(&old)?;
        let place = old.backend.place().to_owned();
        self.is_copy(&there, &theirs, &place)?;
        bench
            .server
            .backend()
            .retire(&step.key())
            .map_err(|error| stopped(&error))?;
        Ok(self.migrated(
            Direction::Back,
            &place,
            &theirs.facts.lineage,
            theirs.facts.serial,
            theirs.facts.addresses.len(),
            true,
        ))
    }

    fn migrated(
        &self,
        direction: Direction,
        old: &str,
        lineage: &str,
        serial: u64,
        n_resources: usize,
        already: bool,
    ) -> Migrated {
        let target = &self.held.bench.target.name;
        let next = match direction {
            Direction::In => vec![
                format!("rebuild plan --target {target}"),
                format!(
                    "rebuild state migrate {} --target {target} --back",
                    self.step
                ),
            ],
            Direction::Back => vec![format!(
                "rebuild state migrate {} --target {target}",
                self.step
            )],
        };
        Migrated {
            schema: 1,
            target: target.to_string(),
            step: self.step.to_string(),
            direction,
            old: self.held.bench.masked(old),
            lineage: lineage.to_owned(),
            serial,
            n_resources,
            already,
            next,
        }
    }
}
