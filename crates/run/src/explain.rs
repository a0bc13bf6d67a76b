//! `explain`: where a target is, on one page. It reads records and definitions; the target itself is not looked at, so
//! what it says of drift is what the last preflight saw.

use phase_engine::{PhaseId, RunStatus, StepStatus};
use platform::{Git, GitView, Platform};
use preflight::Report;
use record::{
    LockShown, Record, RecordLedger, Seen, SeenPhase, StandingEntry, StatusDocument, TargetState,
    Time,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Machine, Site};
use crate::error::CallError;
use crate::look_commands::{status, unfinished};
use crate::open::{Held, definitions};
use crate::suspects::{self, SuspectShown};
use crate::ui::Notice;

/// Where a target is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// Whether it is protected.
    pub protected: bool,
    /// Where it is, in one word.
    pub state: TargetState,
    /// Who holds its lock.
    pub lock: Option<LockShown>,
    /// The run that it is in, or was in last.
    pub run: Option<String>,
    /// Why that run is not finished.
    pub unfinished: Option<String>,
    /// The last run that came to be finished.
    pub last_known_good: Option<String>,
    /// The commit of today's definitions.
    pub commit: Option<String>,
    /// Whether today's definitions differ from that commit.
    pub dirty: bool,
    /// How many faults today's definitions have.
    pub n_faults: usize,
    /// When a preflight last looked at the target.
    pub seen: Option<Time>,
    /// What stands and what is defined, in the order of the phases; what is defined no more comes last.
    pub phases: Vec<PhaseShown>,
    /// What may exist in no state.
    pub suspects: Vec<SuspectShown>,
    /// The commands that come next, each with why.
    pub next: Vec<NextShown>,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseShown {
    /// The phase.
    pub id: String,
    /// Its title; empty where today's definitions don't hold it.
    pub title: String,
    /// What the last preflight said of it.
    pub verdict: Option<String>,
    /// What that preflight found: step, address, attribute and reason.
    pub findings: Vec<String>,
    /// Its steps.
    pub steps: Vec<StepShown>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepShown {
    /// The step.
    pub step: String,
    /// Whether it stands.
    pub stands: bool,
    /// Whether today's definitions hold it.
    pub defined: bool,
    /// The commit that it was applied from.
    pub commit: Option<String>,
    /// The digest of the bundle that it was applied from.
    pub bundle: Option<String>,
    /// The run that applied it.
    pub run: Option<String>,
    /// Since when.
    pub since: Option<Time>,
    /// What the run did not bring to its end with it.
    pub unfinished: Option<String>,
    /// Where its state was before it was taken over.
    pub adopted_from: Option<String>,
}

/// A command that comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextShown {
    /// What to type.
    pub command: String,
    /// Why.
    pub why: String,
}

/// Tells where a target is.
///
/// # Errors
/// The target file or the store can't be read.
pub fn explain(machine: &Machine, site: &Site) -> Result<Explanation, CallError> {
    let (root, read) = definitions(machine, site, None)?;
    let status = status(machine, site)?;
    let git = Git::find(machine.spawner.as_ref(), &machine.env);
    // Definitions that are under no git have no commit.
    let (commit, dirty) = match git.state(&root) {
        Ok(Some(state)) => (Some(state.commit), state.dirty),
        _ => (None, false),
    };
    let n_faults = read
        .platform
        .as_ref()
        .err()
        .map_or(0, |faults| faults.len());
    let platform = read.platform.ok();
    let record = status.run.as_ref();
    let mut explained = Explanation {
        schema: 1,
        target: status.target.to_string(),
        protected: read.target.protected,
        state: status.state,
        lock: status.lock.clone(),
        run: record.map(|record| record.run.to_string()),
        unfinished: record
            .filter(|record| !record.status.has_ended())
            .map(unfinished),
        last_known_good: status.last_known_good.as_ref().map(ToString::to_string),
        commit,
        dirty,
        n_faults,
        seen: record.and_then(|record| Some(record.seen.as_ref()?.at)),
        phases: phases(platform.as_ref(), record),
        suspects: record
            .map(|record| record.suspects.iter().map(SuspectShown::from).collect())
            .unwrap_or_default(),
        next: Vec::new(),
    };
    explained.next = next(&explained, &status);
    Ok(explained)
}

/// What is defined and what stands.
fn phases(platform: Option<&Platform>, record: Option<&Record>) -> Vec<PhaseShown> {
    let mut shown: Vec<PhaseShown> = Vec::new();
    let standing = record
        .map(|record| record.standing.as_slice())
        .unwrap_or_default();
    for phase in platform.iter().flat_map(|platform| &platform.phases) {
        let steps = phase.steps.iter().map(|def| {
            let entry = standing.iter().find(|entry| entry.step == def.id);
            step_of(&def.id.to_string(), entry, record, true)
        });
        shown.push(phase_of(&phase.id, &phase.title, record, steps.collect()));
    }
    for entry in standing {
        let name = entry.step.to_string();
        if shown
            .iter()
            .any(|phase| phase.steps.iter().any(|step| step.step == name))
        {
            continue;
        }
        // Of definitions that can't be read nothing is said.
        let step = step_of(&name, Some(entry), record, platform.is_none());
        match shown
            .iter_mut()
            .find(|phase| phase.id == entry.step.phase.as_str())
        {
            Some(phase) => phase.steps.push(step),
            None => shown.push(phase_of(&entry.step.phase, "", record, vec![step])),
        }
    }
    shown
}

fn phase_of(
    id: &PhaseId,
    title: &str,
    record: Option<&Record>,
    steps: Vec<StepShown>,
) -> PhaseShown {
    let seen = record.and_then(|record| record.seen.as_ref());
    let seen = seen.and_then(|seen| seen.phases.iter().find(|phase| phase.id == id.as_str()));
    PhaseShown {
        id: id.to_string(),
        title: title.to_owned(),
        verdict: seen.map(|seen| seen.verdict.clone()),
        findings: seen.map(|seen| seen.findings.clone()).unwrap_or_default(),
        steps,
    }
}

fn step_of(
    name: &str,
    entry: Option<&StandingEntry>,
    record: Option<&Record>,
    defined: bool,
) -> StepShown {
    let applied = entry.map(|entry| &entry.applied);
    let of_run = record.and_then(|record| {
        record
            .steps
            .iter()
            .find(|step| step.step.to_string() == name)
    });
    let unfinished = of_run
        .filter(|step| {
            !matches!(
                step.status,
                StepStatus::Pending
                    | StepStatus::Succeeded
                    | StepStatus::Verified
                    | StepStatus::TornDown
                    | StepStatus::Forgotten
            )
        })
        .map(|step| match &step.error {
            Some(error) => format!("{}: {}", step.status.word(), error.what),
            None => step.status.word().to_owned(),
        });
    StepShown {
        step: name.to_owned(),
        stands: entry.is_some(),
        defined,
        commit: applied.and_then(|applied| applied.commit.clone()),
        bundle: applied.map(|applied| applied.bundle.clone()),
        run: applied.map(|applied| applied.run.to_string()),
        since: applied.map(|applied| applied.since),
        unfinished,
        adopted_from: entry.and_then(|entry| Some(entry.adopted.as_ref()?.from.clone())),
    }
}

/// What comes next, the most pressing first.
fn next(explained: &Explanation, status: &StatusDocument) -> Vec<NextShown> {
    let target = &explained.target;
    let mut next: Vec<NextShown> = Vec::new();
    let mut add = |command: String, why: &str| {
        next.push(NextShown {
            command,
            why: why.to_owned(),
        })
    };
    if explained.lock.is_some() {
        add(
            format!("rebuild status --target {target}"),
            "somebody is at work; this shows how far",
        );
    }
    if explained.n_faults > 0 {
        add(
            "rebuild check".to_owned(),
            "today's definitions have faults",
        );
    }
    for command in suspects::next_of(status.run.as_ref(), target) {
        if !explained.suspects.is_empty() {
            add(command, "an object may exist in no state");
        }
    }
    let down = format!("rebuild down --target {target}");
    match explained.state {
        TargetState::Empty => add(
            format!("rebuild up --target {target}"),
            "nothing stands: it builds everything",
        ),
        TargetState::TearingDown => add(down, "the teardown has not come to its end"),
        TargetState::Unfinished => {
            let why = match status.run.as_ref().map(|record| record.status) {
                Some(RunStatus::Paused) => "the run is paused",
                _ => "the run is not finished",
            };
            add(format!("rebuild up --target {target} --resume"), why);
            add(down, "it can be torn down instead");
        }
        TargetState::Finished => {
            for phase in &explained.phases {
                if matches!(phase.verdict.as_deref(), Some("drifted" | "tainted")) {
                    let (id, why) = (&phase.id, "the last preflight found it changed");
                    add(format!("rebuild repair {id} --target {target}"), why);
                    add(
                        format!("rebuild accept {id} --target {target} --reason TEXT"),
                        why,
                    );
                }
            }
            let removed = explained.phases.iter().flat_map(|phase| &phase.steps);
            if removed.filter(|step| step.stands && !step.defined).count() > 0 {
                add(
                    format!("rebuild up --target {target} --prune"),
                    "steps stand that are defined no more",
                );
            }
            add(
                format!("rebuild preflight --target {target}"),
                "looks whether it is as it was applied",
            );
            add(
                format!("rebuild plan --target {target}"),
                "shows what `up` would change",
            );
        }
    }
    next
}

impl Held<'_> {
    /// Keeps what a preflight saw, for who asks later. That it can't be kept is no reason to stop.
    pub(crate) fn remember_seen(&self, ledger: &mut RecordLedger, report: &Report) {
        if ledger
            .record()
            .is_none_or(|record| record.standing.is_empty())
        {
            return;
        }
        let seen = seen_of(report, Time::from((self.bench.machine.now)()));
        if let Err(error) = ledger.change(|record| record.seen = Some(seen)) {
            self.bench.ui.tell(&Notice::Warning {
                message: format!("what preflight saw is not kept: {error}"),
                hint: None,
            });
        }
    }
}

fn seen_of(report: &Report, at: Time) -> Seen {
    let phases = report.phases.iter().map(|phase| SeenPhase {
        id: phase.id.clone(),
        verdict: phase.verdict.to_string(),
        findings: phase
            .findings
            .iter()
            .map(|finding| {
                let mut text = String::new();
                for part in [&finding.step, &finding.address, &finding.attribute] {
                    text.extend(part.iter().map(|part| format!("{part} ")));
                }
                format!("{text}({})", finding.reason)
            })
            .collect(),
    });
    Seen {
        at,
        passes: report.passes(),
        phases: phases.collect(),
    }
}
