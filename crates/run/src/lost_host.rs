//! What was at work on another machine when its call was cut: nothing here can say what became of it.

use phase_engine::{ExitCode, Failure, StepId, StepStatus};
use platform::StepKind;
use record::{Decision, DecisionKind, Record, RecordLedger, StepRecord, Suspected, Time};

use crate::error::stopped;
use crate::in_state::InState;
use crate::leftovers::planned_as_suspected;
use crate::open::Held;
use crate::standing::Standing;

impl Held<'_> {
    /// Stops where a step was cut on another machine, unless a person says that this machine is lost
    /// (`--lost-host HOST`): then its state locks are released, and what it was to create and is in no state
    /// becomes suspect.
    pub(crate) fn settle_lost_hosts(
        &self,
        ledger: &mut RecordLedger,
        lost: Option<&str>,
    ) -> Result<(), Failure> {
        let here = self.bench.machine.host.as_str();
        let Some(record) = ledger.record() else {
            return Ok(());
        };
        let cut = cut_elsewhere(record, here);
        if cut.is_empty() {
            return Ok(());
        }
        if let Some(at_work) = cut.iter().find(|cut| Some(cut.host.as_str()) != lost) {
            return Err(elsewhere(at_work, self.bench.target.name.as_str()));
        }
        let standing = Standing(ledger.view());
        let mut suspects = Vec::new();
        for cut in &cut {
            self.bench
                .server
                .backend()
                .release_lock_of_dead(&cut.step.key(), &|writer| {
                    Some(writer.host.as_str()) == lost
                })
                .map_err(|error| stopped(&error))?;
            if let Some(step) = record.step(&cut.step) {
                let found = self.suspects_of(step, &standing)?;
                suspects.extend(found.into_iter().map(|found| (&cut.step, found)));
            }
        }
        // What its states came to is known now: nobody writes them any more.
        let mut settled = record.clone();
        self.bench
            .settle_writings(&mut settled, |host| host == lost)?;
        for writing in settled
            .standing
            .iter_mut()
            .filter_map(|e| e.writing.as_mut())
        {
            // What that machine can't have written is told as what it is, and nobody is asked for the machine again.
            writing.host = writing
                .host
                .take()
                .filter(|host| Some(host.as_str()) != lost);
        }
        let states = settled.standing;
        let now = Time::from((self.bench.machine.now)());
        let decision = Decision {
            kind: DecisionKind::LostHost,
            at: now,
            user: self.bench.machine.user.clone(),
            about: lost.map(str::to_owned),
            reason: None,
        };
        ledger
            .change(|record| {
                record.decisions.push(decision);
                record.standing = states;
                for (step, found) in suspects {
                    record.suspect(step, found, lost.map(str::to_owned), now);
                }
                // What is left to do about it is done here: nobody is asked again.
                for step in &mut record.steps {
                    if cut.iter().any(|cut| cut.step == step.step) {
                        step.host = Some(here.to_owned());
                    }
                }
            })
            .map_err(|error| stopped(&error))
    }

    /// What a step that was cut elsewhere may have made: what it was to create or replace and is in no state. While
    /// that was not known, the step itself.
    fn suspects_of(
        &self,
        cut: &StepRecord,
        standing: &Standing,
    ) -> Result<Vec<Suspected>, Failure> {
        let Some(planned) = cut
            .planned
            .as_ref()
            .filter(|_| cut.status == StepStatus::Started)
        else {
            return Ok(Vec::new());
        };
        let known = self.objects_in_state(&cut.step, standing)?;
        let changes = planned.changes.iter().map(planned_as_suspected);
        let mut found: Vec<Suspected> = changes.filter(|found| !known.has(found)).collect();
        if !planned.complete {
            found.push(Suspected::default());
        }
        Ok(found)
    }

    fn objects_in_state(&self, step: &StepId, standing: &Standing) -> Result<InState, Failure> {
        let Some(entry) = standing.get(step) else {
            return Ok(InState::default());
        };
        let source = self.bench.library.get(&entry.applied.bundle)?;
        let (_, def) = source.applied_step(step, &entry.applied)?;
        match &def.kind {
            StepKind::Tofu(_) => self.bench.objects_now(step, standing),
            _ => Ok(InState::default()),
        }
    }
}

/// A step that was at work on another machine.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    step: StepId,
    host: String,
}

/// The steps whose apply or teardown was cut on another machine than `here`, or that had begun to write their state there.
fn cut_elsewhere(record: &Record, here: &str) -> Vec<Cut> {
    let at_work = record
        .steps
        .iter()
        .filter(|step| matches!(step.status, StepStatus::Started | StepStatus::TearingDown))
        .filter_map(|step| Some((&step.step, step.host.as_ref()?)));
    let writing = record
        .standing
        .iter()
        .filter_map(|entry| Some((&entry.step, entry.writing.as_ref()?.host.as_ref()?)));
    let mut cut: Vec<Cut> = Vec::new();
    for (step, host) in at_work.chain(writing) {
        if host != here && cut.iter().all(|cut| cut.step != *step) {
            cut.push(Cut {
                step: step.clone(),
                host: host.clone(),
            });
        }
    }
    cut
}

fn elsewhere(cut: &Cut, target: &str) -> Failure {
    let Cut { step, host } = cut;
    Failure::new(
        ExitCode::Stopped,
        format!("step `{step}` was at work on host `{host}` when its call was cut"),
    )
    .because("what it made since, and a state that it could not write, are known there alone")
    .hint(format!(
        "run `rebuild` on `{host}`, which brings both to the store; if that machine is lost for good, name it: \
         `rebuild suspects --target {target} --lost-host {host}` lists what it may have made, and `up --resume` and `down` take `--lost-host {host}` too"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_at_work_on_another_machine_is_found_by_its_step_and_by_its_state() {
        let at = "2027-01-15T08:00:00Z";
        let step = |name: &str, status: &str, host: &str| json!({ "step": name, "status": status, "host": host });
        let stands = |name: &str, writer: Option<&str>| {
            let mut entry = json!({ "step": name, "kind": "tofu", "bundle": "b", "values": {}, "run": "R1", "since": at });
            if let Some(host) = writer {
                entry["writing"] = json!({ "host": host, "since": at });
            }
            entry
        };
        let mut seen_to_its_end = stands("1.seen", None);
        seen_to_its_end["writing"] = json!({ "since": at });
        let record: Record = serde_json::from_value(json!({
            "schema": 1, "fence": 1, "run": "R1", "platform": "lab", "target": "drill", "status": "interrupted",
            "first_start": at, "calls": [], "phases": [],
            "steps": [step("1.cut", "started", "far"), step("1.here", "started", "near"), step("1.proven", "verified", "far"),
                      step("1.settled", "succeeded", "near"), step("1.going", "tearing-down", "far")],
            "standing": [stands("1.cut", Some("far")), stands("1.here", Some("near")), stands("1.proven", None),
                         stands("1.settled", Some("far")), seen_to_its_end]
        }))
        .unwrap();
        let cut = |here: &str| -> Vec<String> {
            let cut = cut_elsewhere(&record, here);
            cut.into_iter()
                .map(|cut| format!("{} {}", cut.step, cut.host))
                .collect()
        };
        assert_eq!(cut("near"), ["1.cut far", "1.going far", "1.settled far"]);
        assert_eq!(cut("far"), ["1.here near"]);
    }
}
