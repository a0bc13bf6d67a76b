//! A run's record: what `up` and `down` end with, and all of it for `runs show`.

use phase_engine::{RunStatus, StepStatus};
use record::{
    CallCommand, CallRecord, ErrorRecord, PhaseRecord, PhaseStatus, Record, StandingEntry,
    StepRecord, Time,
};

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};
use crate::ui::{seconds, short};

/// The summary.
pub(crate) fn run(record: &Record, look: Look) -> String {
    let tone = tone_of_run(record.status);
    let mut text = format!(
        "run {} of {} on {}: {}\n",
        record.run,
        clean(&record.platform),
        record.target,
        look.paint(tone, record.status.word())
    );
    text.push_str(&format!("  {}\n", time(record, look)));
    let rows: Vec<_> = record.phases.iter().map(phase_row).collect();
    text.push_str(&table(&rows, "  ", look));
    if record.status == RunStatus::Paused {
        let command = if record.teardown_began.is_some() {
            format!("rebuild down --target {}", record.target)
        } else {
            format!("rebuild up --target {} --resume", record.target)
        };
        text.push_str(&format!("`{command}` goes on\n"));
    }
    text
}

/// Everything that the record knows and a person may want to.
pub(crate) fn run_whole(record: &Record, look: Look) -> String {
    let mut text = run(record, look);
    if let Some(previous) = &record.previous {
        text.push_str(&format!("  after run {previous}\n"));
    }
    section(
        &mut text,
        "calls",
        &record.calls.iter().map(call_row).collect::<Vec<_>>(),
        look,
    );
    section(
        &mut text,
        "steps",
        &record.steps.iter().map(step_row).collect::<Vec<_>>(),
        look,
    );
    section(
        &mut text,
        "standing",
        &standing_rows(&record.standing),
        look,
    );
    let suspects = record.suspects.iter().map(|suspect| {
        let address = suspect
            .address
            .as_ref()
            .map_or("the step itself", |address| address.as_str());
        vec![
            suspect.step.to_string().into(),
            clean(address).into_owned().into(),
        ]
    });
    section(&mut text, "suspects", &suspects.collect::<Vec<_>>(), look);
    let decisions = record.decisions.iter().map(|decision| {
        let part = |text: &Option<String>| {
            Cell::from(clean(text.as_deref().unwrap_or_default()).into_owned())
        };
        vec![
            moment(decision.at).into(),
            word(&decision.kind).into(),
            part(&decision.about),
            clean(&decision.user).into_owned().into(),
            part(&decision.reason),
        ]
    });
    section(&mut text, "decisions", &decisions.collect::<Vec<_>>(), look);
    if let Some(error) = &record.error {
        text.push_str(&of_error(error, look));
    }
    text
}

/// What stands, a line a step.
pub(super) fn standing_rows(standing: &[StandingEntry]) -> Vec<Vec<Cell>> {
    let row = |entry: &StandingEntry| {
        let from = match &entry.applied.commit {
            Some(commit) => format!("commit {}", short(commit)),
            None => format!("bundle {}", short(&entry.applied.bundle)),
        };
        let attempted = if entry.applied.attempted {
            Cell("its apply has not ended well".to_owned(), Some(Tone::Bad))
        } else {
            "".into()
        };
        vec![
            entry.step.to_string().into(),
            clean(&entry.kind).into_owned().into(),
            from.into(),
            format!("run {}", entry.applied.run).into(),
            attempted,
        ]
    };
    standing.iter().map(row).collect()
}

fn section(text: &mut String, title: &str, rows: &[Vec<Cell>], look: Look) {
    if !rows.is_empty() {
        text.push_str(&format!("{}\n", look.paint(Tone::Strong, title)));
        text.push_str(&table(rows, "  ", look));
    }
}

/// A point in time to the second, in UTC.
pub(super) fn moment(time: Time) -> String {
    time.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How long the run took, measured against its budget.
fn time(record: &Record, look: Look) -> String {
    let mut text = match record.last_verify {
        Some(_) => format!(
            "{} from its first start to its last verify",
            seconds(record.total_seconds)
        ),
        None => "nothing verified yet".to_owned(),
    };
    if let Some(budget) = record.budget_seconds {
        let over = record.total_seconds - budget;
        if record.over_budget {
            let mark = format!(
                "{} over the budget of {}",
                seconds(over.max(0.0)),
                seconds(budget)
            );
            text.push_str(&format!(", {}", look.paint(Tone::Warn, &mark)));
        } else {
            text.push_str(&format!(", within the budget of {}", seconds(budget)));
        }
    }
    text
}

fn phase_row(phase: &PhaseRecord) -> Vec<Cell> {
    let tone = match phase.status {
        PhaseStatus::Verified | PhaseStatus::TornDown => Tone::Good,
        PhaseStatus::Failed | PhaseStatus::Interrupted | PhaseStatus::TeardownFailed => Tone::Bad,
        PhaseStatus::Applying | PhaseStatus::Verifying | PhaseStatus::TearingDown => Tone::Warn,
    };
    let paused = if phase.pause_seconds >= 1.0 {
        format!("paused {}", seconds(phase.pause_seconds))
    } else {
        String::new()
    };
    vec![
        phase.id.to_string().into(),
        Cell(word(&phase.status), Some(tone)),
        format!("apply {}", seconds(phase.apply_seconds)).into(),
        format!("verify {}", seconds(phase.verify_seconds)).into(),
        made(phase).into(),
        paused.into(),
    ]
}

/// What a phase did, as `3 created, 1 updated`.
fn made(phase: &PhaseRecord) -> String {
    let counts = phase.made.iter().map(|(action, types)| {
        let n: u64 = types.values().sum();
        format!("{n} {}", clean(run::ui::done(action)))
    });
    counts.collect::<Vec<_>>().join(", ")
}

fn call_row(call: &CallRecord) -> Vec<Cell> {
    let command = match call.command {
        CallCommand::Up => "up",
        CallCommand::Resume => "up --resume",
        CallCommand::Down => "down",
        CallCommand::Repair => "repair",
        CallCommand::Accept => "accept",
        CallCommand::Migrate => "state migrate",
        CallCommand::Provision => "provision",
    };
    let end = match (call.ended, call.exit) {
        (Some(ended), Some(exit)) => format!(
            "exit {exit} after {}",
            seconds(ended.seconds_since(call.started))
        ),
        (Some(ended), None) => {
            format!("ended after {}", seconds(ended.seconds_since(call.started)))
        }
        (None, _) => "has no end".to_owned(),
    };
    let from = match (&call.commit, call.dirty) {
        (Some(commit), false) => format!("commit {}", short(commit)),
        (Some(commit), true) => format!("commit {} with changes", short(commit)),
        (None, _) => String::new(),
    };
    vec![
        moment(call.started).into(),
        command.into(),
        end.into(),
        clean(&format!("{}@{}", call.user, call.host))
            .into_owned()
            .into(),
        from.into(),
    ]
}

fn step_row(step: &StepRecord) -> Vec<Cell> {
    let tone = match step.status {
        StepStatus::Succeeded | StepStatus::Verified | StepStatus::TornDown => Some(Tone::Good),
        StepStatus::Failed
        | StepStatus::Interrupted
        | StepStatus::VerifyFailed
        | StepStatus::TeardownFailed => Some(Tone::Bad),
        StepStatus::Pending
        | StepStatus::Started
        | StepStatus::TearingDown
        | StepStatus::Forgotten => None,
    };
    let attempts = match step.attempts {
        0 => String::new(),
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    };
    let error = step
        .error
        .as_ref()
        .map_or_else(String::new, |error| one_line(&error.what));
    vec![
        step.step.to_string().into(),
        Cell(step.status.word().to_owned(), tone),
        attempts.into(),
        error.into(),
    ]
}

/// Why the last call did not end well.
fn of_error(error: &ErrorRecord, look: Look) -> String {
    let mut text = format!(
        "{}: {}\n",
        look.paint(Tone::Bad, "error"),
        one_line(&error.what)
    );
    for cause in &error.causes {
        text.push_str(&format!(
            "{}: {}\n",
            look.paint(Tone::Bad, "caused by"),
            one_line(cause)
        ));
    }
    if let Some(log) = &error.log {
        text.push_str(&format!(
            "{}: {}\n",
            look.paint(Tone::Strong, "log"),
            clean(log)
        ));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!(
            "{}: {}\n",
            look.paint(Tone::Strong, "hint"),
            one_line(hint)
        ));
    }
    text
}

fn one_line(text: &str) -> String {
    clean(text.trim()).replace('\n', " ")
}

pub(super) const fn tone_of_run(status: RunStatus) -> Tone {
    match status {
        RunStatus::Finished | RunStatus::TornDown => Tone::Good,
        RunStatus::Running | RunStatus::Paused => Tone::Warn,
        RunStatus::Failed | RunStatus::Interrupted | RunStatus::TeardownFailed => Tone::Bad,
    }
}

/// A word of a format, as documents spell it.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
