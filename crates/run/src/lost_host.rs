//! What was at work on another machine when its call was cut: nothing here can say what became of it.

use std::collections::BTreeSet;

use phase_engine::{ExitCode, Failure, ResourceAddress, StepId, StepStatus};
use platform::StepKind;
use record::{Decision, DecisionKind, Record, RecordLedger, StepRecord, Suspect, Time};
use tofu::Session;

use crate::error::stopped;
use crate::open::Held;
use crate::standing::Standing;

/// A step, the object of it that may exist in no state, and its provider; no object where any may.
type Suspected = (StepId, Option<ResourceAddress>, Option<String>);

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
        let cut: Vec<StepRecord> = record
            .steps
            .iter()
            .filter(|step| matches!(step.status, StepStatus::Started | StepStatus::TearingDown))
            .filter(|step| step.host.as_deref().is_some_and(|host| host != here))
            .cloned()
            .collect();
        if cut.is_empty() {
            return Ok(());
        }
        if let Some(step) = cut.iter().find(|step| step.host.as_deref() != lost) {
            return Err(elsewhere(step, self.bench.target.name.as_str()));
        }
        let standing = Standing(ledger.view());
        let mut suspects = Vec::new();
        for step in &cut {
            self.bench
                .server
                .backend()
                .release_lock_of_dead(&step.step.key(), &|writer| {
                    Some(writer.host.as_str()) == lost
                })
                .map_err(|error| stopped(&error))?;
            suspects.extend(self.suspects_of(step, &standing)?);
        }
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
                for (step, address, provider) in suspects {
                    suspect(record, step, address, provider, lost, now);
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
        let known = self.addresses_in_state(&cut.step, standing)?;
        let mut found: Vec<_> = planned
            .changes
            .iter()
            .filter(|change| !known.contains(change.address.as_str()))
            .map(|change| {
                (
                    cut.step.clone(),
                    Some(change.address.clone()),
                    change.provider.clone(),
                )
            })
            .collect();
        if !planned.complete {
            found.push((cut.step.clone(), None, None));
        }
        Ok(found)
    }

    fn addresses_in_state(
        &self,
        step: &StepId,
        standing: &Standing,
    ) -> Result<BTreeSet<String>, Failure> {
        let Some(entry) = standing.get(step) else {
            return Ok(BTreeSet::new());
        };
        let source = self.bench.library.get(&entry.applied.bundle)?;
        let (_, def) = source.applied_step(step, &entry.applied)?;
        let StepKind::Tofu(_) = &def.kind else {
            return Ok(BTreeSet::new());
        };
        let session: Session = self.bench.rescue_session(step, standing, false)?;
        Ok(self
            .bench
            .facts(step, &session)?
            .addresses
            .iter()
            // As the record has them.
            .map(|address| self.bench.masked(address))
            .collect())
    }
}

fn suspect(
    record: &mut Record,
    step: StepId,
    address: Option<ResourceAddress>,
    provider: Option<String>,
    host: Option<&str>,
    since: Time,
) {
    let is_known = record
        .suspects
        .iter()
        .any(|known| known.step == step && known.address == address);
    if !is_known {
        let run = record.run.clone();
        record.suspects.push(Suspect {
            step,
            address,
            provider,
            host: host.map(str::to_owned),
            since,
            run,
        });
    }
}

fn elsewhere(step: &StepRecord, target: &str) -> Failure {
    let host = step.host.as_deref().unwrap_or_default();
    Failure::new(
        ExitCode::Stopped,
        format!("step `{}` was at work on host `{host}` when its call was cut", step.step),
    )
    .because("what it made since, and a state that it could not write, are known there alone")
    .hint(format!(
        "run `rebuild` on `{host}`, which brings both to the store; if that machine is lost for good, name it: \
         `rebuild suspects --target {target} --lost-host {host}` lists what it may have made, and `up --resume` and `down` take `--lost-host {host}` too"
    ))
}
