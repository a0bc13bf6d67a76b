//! `down`: everything that stands, in reverse, each with the bundle last attempted; then proof that it is gone.

use std::sync::Arc;

use phase_engine::{
    Command, ExitCode, Failure, Mode, PhaseId, RunState, StepId, StepStatus, Teardown,
    TeardownStep, admission,
};
use record::{CallCommand, Record};
use serde::Serialize;

use crate::api::{DownOptions, Machine, Site};
use crate::error::{CallError, stopped};
use crate::open::{Held, OnFaults, Opened, target_name};
use crate::operator::Watch;
use crate::session::Ended;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::ui::{Notice, Ui};
use crate::up::{Walk, concluded};
use crate::world::TargetWorld;

/// What a `down` would do.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DryRun {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The steps in the order in which they would go.
    pub steps: Vec<DryStep>,
    /// What `down` would bring to its end before that, and what it would not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One step that would go.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DryStep {
    /// The step.
    pub step: String,
    /// The resources in its state; a step of another kind has none.
    pub addresses: Vec<String>,
}

/// Tears a target down.
pub fn down(
    machine: &Machine,
    site: &Site,
    options: &DownOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Ended {
    match held_down(machine, site, options, stop, ui) {
        Ok(ended) => ended,
        Err(error) => Ended::failed(None, error),
    }
}

/// Says what a `down` would do, and touches nothing of the target.
///
/// # Errors
/// As [`down`], before its first step.
pub fn down_dry_run(
    machine: &Machine,
    site: &Site,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<DryRun, CallError> {
    let held =
        Opened::open(machine, site, stop, ui, OnFaults::GoOn)?.hold("down --dry-run", None)?;
    let dry = dry_run(&held);
    held.release();
    dry.map_err(CallError::from)
}

fn dry_run(held: &Held<'_>) -> Result<DryRun, Failure> {
    let inner = held.ledger(CallCommand::Down)?;
    let standing = Standing(inner.view());
    let world = held.world(standing, held.run.clone(), 1)?;
    let plan = teardown(held, &inner.history(), &world)?;
    let steps = plan
        .order()
        .into_iter()
        .map(|step| {
            Ok(DryStep {
                step: step.id.to_string(),
                addresses: world.addresses(&step.id)?,
            })
        })
        .collect::<Result<_, Failure>>()?;
    Ok(DryRun {
        schema: 1,
        target: held.bench.target.name.to_string(),
        steps,
        notes: inner.record().map(notes).unwrap_or_default(),
    })
}

/// What of a cut call `down` settles first, so that what it tears down may be more or be called otherwise.
fn notes(record: &Record) -> Vec<String> {
    let standing = record.standing.iter();
    let moves = standing.clone().filter_map(|entry| {
        let (from, to) = (&entry.step, entry.moving_to.as_ref()?);
        Some(format!(
            "step `{from}` is on its way to `{to}`, by a call that was cut: `down` ends that move first, and tears it down as `{to}`"
        ))
    });
    let writing = |step: &StepId| {
        let entry = record.standing_of(step);
        entry.and_then(|entry| entry.writing.as_ref()?.host.clone())
    };
    let at_work = standing.filter_map(|entry| {
        let step = &entry.step;
        let cut = record.step(step).filter(|of| {
            matches!(of.status, StepStatus::Started | StepStatus::TearingDown)
        });
        let host = cut.and_then(|of| of.host.clone()).or_else(|| writing(step))?;
        Some(format!(
            "step `{step}` was at work on host `{host}` when its call was cut: `down` first takes in what that came to, which may be more"
        ))
    });
    let suspects = record.suspects.iter().map(|suspect| {
        format!(
            "{}: `down` removes what is in the states, not this",
            crate::suspects::told(suspect)
        )
    });
    moves.chain(at_work).chain(suspects).collect()
}

fn held_down(
    machine: &Machine,
    site: &Site,
    options: &DownOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    let name = target_name(site)?;
    if let Some(confirmed) = options
        .confirm
        .as_ref()
        .filter(|confirmed| **confirmed != name.as_str())
    {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("`--confirm {confirmed}` is not the target `{name}`"),
        )
        .hint("nothing was run")
        .into());
    }
    let opened = Opened::open(machine, site, stop, ui, OnFaults::GoOn)?;
    if let Err(faults) = &opened.today {
        ui.tell(&Notice::Warning {
            message: format!("rebuild.toml has faults; what stands is torn down from what it was applied from\n{}", faults.render_plain()),
            hint: None,
        });
    }
    let forget = match &options.forget {
        None => None,
        Some(step) => Some(step.parse::<StepId>().map_err(|error| {
            Failure::of(ExitCode::Unusable, &error).hint("`--forget` takes `PHASE.STEP`")
        })?),
    };
    if forget.is_some()
        && options
            .reason
            .as_deref()
            .is_none_or(|reason| reason.trim().is_empty())
    {
        return Err(Failure::new(
            ExitCode::Unusable,
            "`--forget` needs `--reason TEXT`, which is recorded",
        )
        .into());
    }
    confirmed(&opened, options)?;
    let held = opened.hold("down", None)?;
    let ended = walk(
        &held,
        forget.as_ref(),
        options.reason.as_deref(),
        options.lost_host.as_deref(),
    );
    held.release();
    match ended {
        Ok(ended) => Ok(ended),
        Err(error) => Ok(Ended::failed(None, error)),
    }
}

/// A protected target is torn down only by who names it.
fn confirmed(opened: &Opened<'_>, options: &DownOptions) -> Result<(), Failure> {
    let target = &opened.target;
    if !target.protected || options.confirm.is_some() {
        return Ok(());
    }
    let name = &target.name;
    let what = match &options.forget {
        None => format!("this tears down everything of target `{name}`, which is protected"),
        Some(step) => {
            format!("this gives up step `{step}` of target `{name}`, which is protected")
        }
    };
    if opened.ui.interactive() && opened.ui.confirm_by_name(name.as_str(), &what) {
        return Ok(());
    }
    Err(Failure::new(
        ExitCode::Declined,
        format!("target `{name}` is protected, and nobody named it"),
    )
    .hint(format!(
        "`rebuild down --confirm {name}`; nothing was touched"
    )))
}

/// Tears down after a failure or at a checkpoint, under the lock that `up` holds.
pub(crate) fn tear_down_now(held: &Held<'_>) -> Result<Ended, CallError> {
    walk(held, None, None, None)
}

/// What a handoff made stands on what the target's steps made, and its state is in the store that goes with them.
fn no_workspace_stands(held: &Held<'_>) -> Result<(), Failure> {
    let standing = held
        .bench
        .server
        .backend()
        .list_workspaces()
        .map_err(|error| stopped(&error))?;
    if standing.is_empty() {
        return Ok(());
    }
    let target = &held.bench.target.name;
    let quoted: Vec<String> = standing.iter().map(|name| format!("`{name}`")).collect();
    let ways: Vec<String> = standing
        .iter()
        .map(|name| format!("`rebuild provision down {name} --target {target}`"))
        .collect();
    let what = match standing.as_slice() {
        [one] => format!("workspace `{one}` stands in target `{target}`"),
        _ => format!(
            "workspaces {} stand in target `{target}`",
            quoted.join(", ")
        ),
    };
    Err(Failure::new(ExitCode::Declined, what).hint(format!(
        "nothing was touched; first {}, then `rebuild down --target {target}` again",
        ways.join(", ")
    )))
}

fn walk(
    held: &Held<'_>,
    forget: Option<&StepId>,
    reason: Option<&str>,
    lost_host: Option<&str>,
) -> Result<Ended, CallError> {
    let mut inner = held.ledger(CallCommand::Down)?;
    held.settle_leftovers(&mut inner)?;
    held.archive_ended(inner.record());
    if forget.is_none() {
        no_workspace_stands(held)?;
    }
    held.settle_lost_hosts(&mut inner, lost_host)?;
    if held.bench.target.protected {
        crate::suspects::none_unsettled(inner.record(), held.bench.target.name.as_str())?;
    }
    let history = inner.history();
    let standing = Standing(inner.view());
    let world = held.world(standing, held.run.clone(), 1)?;
    let mut plan = teardown(held, &history, &world)?;
    let states = !held.bench.stated()?.is_empty();
    if let Ok(Mode::NothingLeft) = admission(Command::Down, RunState::of(&history, states)) {
        held.bench.ui.tell(&Notice::NothingLeft {
            target: held.bench.target.name.to_string(),
        });
        return Ok(Ended::well(inner.record().cloned()));
    }
    if let Some(step) = forget {
        if !plan.order().iter().any(|known| known.id == *step) {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("`--forget {step}`: nothing stands of that step"),
            )
            .into());
        }
        // Nothing else is touched.
        plan = plan.narrowed_to_forget(step);
    }
    let watch = Watch {
        bench: &held.bench,
        today: held.today.as_ref().ok().cloned(),
        view: inner.view(),
    };
    let mut ledger = held.with_first(inner);
    if let Some(step) = forget {
        ledger.decided(record::Decision {
            kind: record::DecisionKind::Forget,
            at: record::Time::from((held.bench.machine.now)()),
            user: held.bench.machine.user.clone(),
            about: Some(step.to_string()),
            reason: reason.map(|reason| held.bench.masked(reason)),
        });
    }
    let ended = phase_engine::down(&plan, history, &world, &mut ledger, &watch);
    let record = ledger.record().cloned();
    held.archive_ended(record.as_ref());
    let target = held.bench.target.name.as_str();
    Ok(concluded(record, ended, target, Walk::Down))
}

/// What there is to tear down: what stands, then states that nothing stands for, phase 0 last.
fn teardown(
    held: &Held<'_>,
    history: &phase_engine::History,
    world: &TargetWorld<'_, '_>,
) -> Result<Teardown, Failure> {
    let mut plan = Teardown::of(history, |step| world.standing.get(step)?.contained_in);
    let order: Vec<StepId> = held
        .today
        .iter()
        .flat_map(|today| today.platform.steps().map(|step| step.id.clone()))
        .collect();
    let place = |step: &StepId| order.iter().position(|other| other == step);
    let mut unknown: Vec<StepId> = held
        .bench
        .stated()?
        .into_iter()
        .filter(|step| !history.standing.contains(step))
        .collect();
    unknown.sort_by_key(|step| std::cmp::Reverse(place(step)));
    plan.unknown = unknown
        .into_iter()
        .map(|id| TeardownStep {
            id,
            contained_in: None,
        })
        .collect();
    plan.last = last_phase(held, history);
    Ok(plan)
}

/// The phase that goes last: today's first, or the first that was applied.
fn last_phase(held: &Held<'_>, history: &phase_engine::History) -> Option<PhaseId> {
    match &held.today {
        Ok(today) => today.platform.phases.first().map(|phase| phase.id.clone()),
        Err(_) => history.standing.first().map(|step| step.phase.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_cut_call_left_is_noted_beside_what_would_go() {
        let at = "2027-01-15T08:00:00Z";
        let stands = |step: &str| json!({ "step": step, "kind": "tofu", "bundle": "b", "values": {}, "run": "R1", "since": at });
        let mut moving = stands("1.edge");
        moving["moving_to"] = "2.border".into();
        let mut accepted = stands("1.accepted");
        accepted["writing"] = json!({ "host": "far", "since": at });
        let record: Record = serde_json::from_value(json!({
            "schema": 1, "fence": 1, "run": "R1", "platform": "lab", "target": "drill", "status": "interrupted",
            "first_start": at, "calls": [], "phases": [],
            "steps": [{ "step": "1.cut", "status": "started", "host": "near" }, { "step": "1.whole", "status": "verified", "host": "near" }],
            "standing": [moving, accepted, stands("1.cut"), stands("1.whole")],
            "suspects": [{ "step": "1.cut", "address": "x.y", "since": at, "run": "R1" }]
        }))
        .unwrap();
        let noted = notes(&record);
        let begins = [
            "step `1.edge` is on its way to `2.border`",
            "step `1.accepted` was at work on host `far`",
            "step `1.cut` was at work on host `near`",
            "`x.y` of step `1.cut` may exist in no state",
        ];
        assert_eq!(noted.len(), begins.len(), "{noted:#?}");
        for (note, begin) in noted.iter().zip(begins) {
            assert!(note.starts_with(begin), "{note}");
        }
    }
}
