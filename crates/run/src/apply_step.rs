//! Applying a step, and what is kept of it however it ends.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use phase_engine::{ExitCode, Notes, StepId, StepResult};
use platform::StepKind;
use record::{Detail, Input, PlannedChange, Suspected};
use secrets::Masker;
use tofu::events::{ApplyStage, Event, OutputEvent};
use tofu::{Applied, ApplyWhat, EventLine, Observer, Outcome, RunError, Session};

use crate::in_state::InState;
use crate::leftovers;
use crate::masking::{self, holds_secret};
use crate::prepare_step::{Prepared, Work, planned_change};
use crate::scope::Output;
use crate::tofu_work::tofu_failure;
use crate::ui::{Notice, Stage, Ui};
use crate::world::TargetWorld;

/// How long planned changes are gathered before they are stored together.
const GATHER: Duration = Duration::from_millis(20);

impl TargetWorld<'_, '_> {
    /// Applies what was prepared. The second part is one line for people.
    pub(crate) fn apply_step(
        &self,
        step: &StepId,
        prepared: Prepared,
        notes: &dyn Notes<Detail>,
    ) -> (StepResult<Detail>, String) {
        let Prepared { resolved, work } = prepared;
        match work {
            Work::Exec => {
                let StepKind::Exec(exec) = &resolved.def.kind else {
                    return (StepResult::well(None), String::new());
                };
                self.set_changed();
                let values = &self.bench.target.values;
                let ran = self.bench.run_exec(
                    step,
                    &resolved.source,
                    &resolved.def,
                    exec,
                    &exec.apply,
                    "apply",
                    values,
                );
                self.set_changed();
                match ran {
                    Ok(()) => (StepResult::well(None), "done".to_owned()),
                    Err(failure) => (StepResult::failed(failure, None), String::new()),
                }
            }
            Work::Handoff => self.apply_handoff(step, &resolved, notes),
            Work::Talos => {
                let StepKind::Talos(talos) = &resolved.def.kind else {
                    return (StepResult::well(None), String::new());
                };
                self.set_changed();
                let upgraded = self.bench.upgrade_talos(
                    step,
                    &resolved.source,
                    &resolved.def,
                    talos,
                    &self.standing,
                    &self.bench.target.values,
                );
                self.set_changed();
                match upgraded {
                    Ok(summary) => (StepResult::well(None), summary),
                    Err(failure) => (StepResult::failed(failure, None), String::new()),
                }
            }
            Work::Nothing { session, seen } => {
                // Its outputs are those that are known; its state did not move.
                drop(session);
                self.set_proven(step, seen);
                match self.bench.mark(step) {
                    Ok(state) => (
                        StepResult::well(Some(Detail {
                            state,
                            ..Detail::default()
                        })),
                        "nothing to do".to_owned(),
                    ),
                    Err(failure) => (StepResult::failed(failure, None), String::new()),
                }
            }
            Work::Direct { session } => self.apply_tofu(step, &session, ApplyWhat::Direct, notes),
            Work::Saved { session, plan } => {
                self.apply_tofu(step, &session, ApplyWhat::Saved(&plan), notes)
            }
        }
    }

    /// Applies a step through OpenTofu, with its planned changes noted as they are read.
    pub(crate) fn apply_tofu(
        &self,
        step: &StepId,
        session: &Session,
        what: ApplyWhat<'_>,
        notes: &dyn Notes<Detail>,
    ) -> (StepResult<Detail>, String) {
        self.set_changed();
        let applied = self.noting(session, notes, || session.apply(what));
        // A plan that was made beside it saw only a part of it.
        self.set_changed();
        match applied {
            Ok(Applied { outcome, .. }) => {
                let summary = outcome.apply_summary.map(counted).unwrap_or_default();
                let detail = self.detail_of(step, &outcome, true);
                let state = match self.bench.mark(step) {
                    Ok(state) => state,
                    Err(failure) => {
                        return (StepResult::failed(failure, Some(detail)), String::new());
                    }
                };
                (StepResult::well(Some(Detail { state, ..detail })), summary)
            }
            Err(error) => (self.failed_apply(step, session, &error), String::new()),
        }
    }

    /// Runs an act of a session while planned changes are stored as they are read.
    fn noting<T: Send>(
        &self,
        session: &Session,
        notes: &dyn Notes<Detail>,
        act: impl FnOnce() -> T + Send,
    ) -> T {
        let (sender, receiver) = mpsc::channel();
        let hearer = self.bench.hearer_of(session.settings().step.key().as_str());
        if let Some(hearer) = &hearer {
            hearer.listen(Some(sender));
        } else {
            drop(sender);
        }
        std::thread::scope(|scope| {
            let acting = scope.spawn(move || {
                let result = act();
                if let Some(hearer) = hearer {
                    hearer.listen(None);
                }
                result
            });
            while let Ok(first) = receiver.recv() {
                let mut planned = vec![first];
                while let Ok(next) = receiver.recv_timeout(GATHER) {
                    planned.push(next);
                }
                // Where it can't be stored the engine knows, and begins nothing more.
                let _ = notes.note(Detail {
                    planned,
                    ..Detail::default()
                });
            }
            match acting.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// What is kept of an apply's events. Sensitive outputs are known by name only.
    pub(crate) fn detail_of(&self, step: &StepId, outcome: &Outcome, ended_well: bool) -> Detail {
        let mut made: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for touched in &outcome.completed {
            let of_type = made.entry(touched.action.clone()).or_default();
            *of_type.entry(resource_type(&touched.address)).or_default() += 1;
        }
        if !ended_well {
            return Detail {
                made,
                ..Detail::default()
            };
        }
        let outputs: BTreeMap<String, Output> = outcome
            .outputs
            .iter()
            .map(|(name, output): (&String, &OutputEvent)| {
                let sensitive = output.sensitive
                    || output
                        .value
                        .as_ref()
                        .is_some_and(|value| holds_secret(&self.bench.masker, value));
                let value = output.value.clone().filter(|_| !sensitive);
                (name.clone(), Output { value, sensitive })
            })
            .collect();
        let plain = outputs
            .iter()
            .filter_map(|(name, output)| Some((name.clone(), Input::plain(output.value.clone()?))))
            .collect();
        self.bench.outputs.put(step, outputs);
        Detail {
            made,
            outputs: Some(plain),
            ..Detail::default()
        }
    }

    fn failed_apply(
        &self,
        step: &StepId,
        session: &Session,
        error: &RunError,
    ) -> StepResult<Detail> {
        let mut failure = tofu_failure(error, ExitCode::Failed);
        for refusal in self.bench.server.take_refusals(&step.key()) {
            failure = failure.because(format!(
                "the state backend refused a {}: {}",
                refusal.method, refusal.why
            ));
        }
        let mut detail = self.detail_of(step, &error.outcome, false);
        match self.bench.mark(step) {
            Ok(state) => detail.state = state,
            Err(unread) => failure = failure.because(unread.what),
        }
        detail.suspects = self.suspects(step, session, &error.outcome);
        if !detail.suspects.is_empty() {
            let names: Vec<String> = detail
                .suspects
                .iter()
                .map(|found| {
                    found
                        .address
                        .as_ref()
                        .map_or_else(|| step.to_string(), |a| format!("`{}`", a.as_str()))
                })
                .collect();
            failure = failure.because(format!(
                "these may exist and be in no state: {}",
                names.join(", ")
            ));
        }
        let target = self.bench.target.name.as_str();
        StepResult::failed(
            failure.hint(crate::up::Walk::Up.ways_on(target)),
            Some(detail),
        )
    }

    /// What an apply that was cut short may have made and left in no state.
    pub(crate) fn suspects(
        &self,
        step: &StepId,
        session: &Session,
        outcome: &Outcome,
    ) -> Vec<Suspected> {
        let found = outcome.may_exist();
        if found.is_empty() {
            return Vec::new();
        }
        let masker = &self.bench.masker;
        let record = self.standing.0.get();
        let of_step = record.as_ref().and_then(|record| record.step(step));
        let mut suspects = leftovers::suspected(found, of_step, masker);
        // It was interrupted, and what it left has to be known all the same.
        session.leave_undisturbed();
        if let Ok(facts) = self.bench.facts(step, session) {
            let objects = InState::of(&facts, masker);
            suspects.retain(|one| !objects.has(one));
        }
        suspects
    }
}

/// The type in a resource's address: `module.a["x"].kind.name[0]` gives `kind`.
fn resource_type(address: &str) -> String {
    let mut rest = address;
    while let Some(after) = rest.strip_prefix("module.") {
        // A module's key may hold dots: skip it by its brackets.
        let mut depth = 0_u32;
        let end = after.char_indices().find(|(_, c)| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            *c == '.' && depth == 0
        });
        let Some((end, _)) = end else {
            return rest.to_owned();
        };
        rest = &after[end + 1..];
    }
    let rest = rest.strip_prefix("data.").unwrap_or(rest);
    rest.split('.').next().unwrap_or(rest).to_owned()
}

/// Hears a step's events: for the operator, and for the record.
pub(crate) struct Hearer {
    step: String,
    ui: std::sync::Arc<dyn Ui>,
    masker: Masker,
    planned: Mutex<Option<Sender<PlannedChange>>>,
}

impl Hearer {
    pub(crate) fn new(step: String, ui: std::sync::Arc<dyn Ui>, masker: Masker) -> Self {
        Self {
            step,
            ui,
            masker,
            planned: Mutex::new(None),
        }
    }

    /// From now on planned creations and replacements go to `sender`; nowhere without one.
    fn listen(&self, sender: Option<Sender<PlannedChange>>) {
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }
}

impl Observer for Hearer {
    fn event(&self, command: &str, line: &EventLine) {
        match &line.event {
            Event::PlannedChange(change)
                if matches!(change.action.as_str(), "create" | "replace") =>
            {
                if let Some(sender) = &*self.planned.lock().unwrap_or_else(PoisonError::into_inner)
                    && let Some(planned) = planned_change(change)
                {
                    let _ = sender.send(PlannedChange {
                        address: masking::address(&self.masker, planned.address),
                        ..planned
                    });
                }
            }
            Event::Apply(stage, hook) if command != "plan" => {
                let stage = match stage {
                    ApplyStage::Started | ApplyStage::Progress => Stage::Started,
                    ApplyStage::Completed => Stage::Completed,
                    ApplyStage::Errored => Stage::Errored,
                };
                self.ui.tell(&Notice::Resource {
                    step: self.step.clone(),
                    address: hook.resource.addr.clone(),
                    action: hook.action.as_str().to_owned(),
                    stage,
                    seconds: hook.elapsed_seconds.max(0.0) as u64,
                });
            }
            _ => {}
        }
    }

    fn quiet(&self, _: &str, address: Option<&str>, silence: Duration) {
        self.ui.tell(&Notice::Quiet {
            step: self.step.clone(),
            address: address.map(str::to_owned),
            seconds: silence.as_secs(),
        });
    }
}

/// An apply's counts in one line; what is zero is left out.
fn counted(counts: tofu::events::ChangeSummary) -> String {
    let parts: Vec<String> = [
        (counts.add, "created"),
        (counts.change, "updated"),
        (counts.import, "imported"),
        (counts.remove, "destroyed"),
        (counts.forget, "forgotten"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, word)| format!("{n} {word}"))
    .collect();
    if parts.is_empty() {
        "nothing to do".to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::resource_type;

    #[test]
    fn the_type_of_an_address_is_found_behind_modules_and_keys() {
        for (address, expected) in [
            ("local_file.a", "local_file"),
            ("module.m.terraform_data.x[0]", "terraform_data"),
            (r#"module.m["a.b"].module.n[1].kind.name["k"]"#, "kind"),
            ("data.http.page", "http"),
        ] {
            assert_eq!(resource_type(address), expected, "{address}");
        }
    }
}
