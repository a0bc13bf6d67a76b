//! The teardown of a workspace: with what it was last applied from, guarded like `down`.

use std::sync::Arc;

use phase_engine::{
    CallKind, Entry, ExitCode, Failure, Ledger as _, RunStatus, StepEvent, TeardownResult,
};
use record::{CallCommand, Decision, DecisionKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Kept, Workspace, WorkspaceSite};
use crate::api::Machine;
use crate::error::{CallError, failed};
use crate::open::{OnFaults, Opened};
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::ui::{Doing, Notice, Ui};
use crate::world::Agreed;

/// How a workspace is torn down.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceDown {
    /// The target's name, typed as a flag.
    pub confirm: Option<String>,
    /// Nothing is to be touched, so nobody needs to confirm.
    pub dry_run: bool,
    /// Why what it captured and nothing can open any more is done without.
    pub without_captured: Option<String>,
}

/// What a teardown of a workspace would destroy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkspaceDryRun {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// The resources in its state.
    pub addresses: Vec<String>,
}

impl<'m> Workspace<'m> {
    /// Opens a workspace to tear it down. Faults of today's definitions stop nothing.
    ///
    /// # Errors
    /// A protected target is not named; the target is locked; the store can't be read.
    pub fn open_down(
        machine: &'m Machine,
        site: &WorkspaceSite,
        options: &WorkspaceDown,
        stop: &Arc<StopRequests>,
        ui: &Arc<dyn Ui>,
    ) -> Result<Self, CallError> {
        let target = &site.site.target;
        if let Some(confirmed) = options
            .confirm
            .as_ref()
            .filter(|confirmed| *confirmed != target)
        {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("`--confirm {confirmed}` is not the target `{target}`"),
            )
            .hint("nothing was run")
            .into());
        }
        let workspace = Some(site.workspace());
        let opened = Opened::open_on(machine, &site.site, workspace, stop, ui, OnFaults::GoOn)?;
        if let Err(faults) = &opened.today {
            ui.tell(&Notice::Warning {
                message: format!(
                    "rebuild.toml has faults; what stands is torn down from what it was applied from\n{}",
                    faults.render_plain()
                ),
                hint: None,
            });
        }
        if !options.dry_run {
            confirmed(&opened, site, options)?;
        }
        Self::hold(opened, site, "provision down")
    }

    /// Lists what a teardown would destroy.
    ///
    /// # Errors
    /// Its state can't be read.
    pub fn dry_run(&self) -> Result<WorkspaceDryRun, Failure> {
        let ledger = self.held.ledger(CallCommand::Provision)?;
        let world = self.world(Standing(ledger.view()), Agreed::default())?;
        Ok(WorkspaceDryRun {
            schema: 1,
            target: self.site.site.target.clone(),
            workspace: self.site.name.clone(),
            addresses: world.addresses(&self.site.step)?,
        })
    }

    /// Destroys what it made, with the definitions last attempted, and moves its state to its versions. Says whether
    /// there was anything.
    ///
    /// With a reason it goes `without` what it captured, where nothing opens that any more.
    ///
    /// # Errors
    /// What it captured can't be had; the destroy failed, or something may be left.
    pub fn destroy(&self, without: Option<&str>) -> Result<bool, Failure> {
        let step = &self.site.step;
        let bench = &self.held.bench;
        let mut ledger = self.held.ledger(CallCommand::Provision)?;
        let standing = Standing(ledger.view());
        if standing.get(step).is_none() && bench.mark(step)?.is_none() {
            return Ok(false);
        }
        match without {
            Some(_) => self.give_what_opens()?,
            None => self.give_for_teardown(&standing)?,
        }
        let world = self.world(standing, Agreed::default())?;
        ledger
            .append(vec![
                Entry::CallBegan {
                    kind: CallKind::TearDown,
                },
                Entry::TeardownBegan,
                Entry::step(step, StepEvent::TeardownStarted, None, None),
            ])
            .map_err(|error| failed(&error))?;
        if let Some(reason) = without {
            let decision = Decision {
                reason: Some(bench.masked(reason)),
                ..self
                    .held
                    .decision(DecisionKind::WithoutCaptured, step.to_string())
            };
            ledger
                .change(|record| record.decisions.push(decision))
                .map_err(|error| failed(&error))?;
        }
        let kept = Kept {
            ledger: std::sync::Mutex::new(ledger),
            step: step.clone(),
        };
        let act = || bench.masked_teardown(world.teardown_step(step, &kept));
        let result = world.told(step, Doing::Teardown, act, |result| match result {
            TeardownResult::Gone { .. } => (true, "gone".to_owned()),
            TeardownResult::Empty => (true, "nothing there".to_owned()),
            TeardownResult::Failed { failure, .. } => (false, failure.what.clone()),
        });
        let mut ledger = kept.into_ledger();
        match result {
            TeardownResult::Gone { detail } => {
                self.end(
                    &mut ledger,
                    StepEvent::TornDown,
                    RunStatus::TornDown,
                    detail,
                    None,
                )?;
                Ok(true)
            }
            TeardownResult::Empty => {
                self.end(
                    &mut ledger,
                    StepEvent::TornDown,
                    RunStatus::TornDown,
                    None,
                    None,
                )?;
                Ok(true)
            }
            TeardownResult::Failed { failure, detail } => {
                let failure = failure.hint(format!(
                    "mend what failed, then `rebuild provision down {}` again",
                    self.site.as_typed()
                ));
                self.end(
                    &mut ledger,
                    StepEvent::TeardownFailed,
                    RunStatus::TeardownFailed,
                    detail,
                    Some(failure.clone()),
                )?;
                Err(failure)
            }
        }
    }
}

/// A workspace of a protected target is torn down only by who names the target.
fn confirmed(
    opened: &Opened<'_>,
    site: &WorkspaceSite,
    options: &WorkspaceDown,
) -> Result<(), Failure> {
    let target = &opened.target;
    if !target.protected || options.confirm.is_some() {
        return Ok(());
    }
    let name = &target.name;
    let what = format!(
        "this tears down workspace `{}` of target `{name}`, which is protected",
        site.name
    );
    if opened.ui.interactive() && opened.ui.confirm_by_name(name.as_str(), &what) {
        return Ok(());
    }
    Err(Failure::new(
        ExitCode::Declined,
        format!("target `{name}` is protected, and nobody named it"),
    )
    .hint(format!(
        "`rebuild provision down {} --confirm {name}`; nothing was touched",
        site.as_typed()
    )))
}
