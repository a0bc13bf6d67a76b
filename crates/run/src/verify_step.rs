//! Verifying a step: what preflight sees, and after an apply what may be settled once.

use phase_engine::{Basis, ExitCode, Failure, Notes, StepId, StepResult};
use preflight::{Settle, StepVerdict, Verdict, judge, settle};
use record::Detail;
use serde_json::Value;
use tofu::ApplyWhat;

use crate::look::Sight;
use crate::tofu_work::tofu_failure;
use crate::world::TargetWorld;

impl TargetWorld<'_, '_> {
    /// Proves a step, from the definitions that it was last applied from.
    pub(crate) fn verify_step(
        &self,
        step: &StepId,
        basis: Basis,
        notes: &dyn Notes<Detail>,
    ) -> StepResult<Detail> {
        let sight = match self.sight(step, basis) {
            Ok(sight) => sight,
            Err(failure) => return StepResult::failed(failure, None),
        };
        if basis == Basis::JustApplied
            && let Some(kept) = &sight.plan
            && let Some(document) = &kept.document
            && settle(&kept.facts, &document.configuration) == Settle::ApplyOnce
        {
            // A later resource filled in an attribute of an earlier one: the refreshed values are stored, once.
            if let Err(error) = kept.session.apply(ApplyWhat::Saved(&kept.plan)) {
                return StepResult::failed(tofu_failure(&error, ExitCode::Failed), None);
            }
            let detail = match self.bench.mark(step) {
                Ok(state) => Detail {
                    state,
                    ..Detail::default()
                },
                Err(failure) => return StepResult::failed(failure, None),
            };
            if notes.note(detail).is_err() {
                return StepResult::failed(
                    Failure::failed("the ledger could not be written"),
                    None,
                );
            }
            return match self.sight(step, basis) {
                Ok(sight) => self.verdict_of(step, &sight),
                Err(failure) => StepResult::failed(failure, None),
            };
        }
        self.verdict_of(step, &sight)
    }

    fn sight(&self, step: &StepId, basis: Basis) -> Result<Sight, Failure> {
        let nothing = || {
            Failure::failed(format!(
                "step `{step}` is to be verified, and nothing stands of it"
            ))
        };
        let entry = self.standing.get(step).ok_or_else(nothing)?;
        let applied = match basis {
            Basis::JustApplied => Some(&entry.applied),
            Basis::Standing => entry.as_applied(),
        }
        .ok_or_else(nothing)?;
        Ok(self.bench.look(&entry, applied, &self.standing))
    }

    fn verdict_of(&self, step: &StepId, sight: &Sight) -> StepResult<Detail> {
        let seen = judge(&sight.observation, self.day());
        if seen.verdict == Verdict::Clean {
            return StepResult::well(None);
        }
        let interrupted = self.bench.stop.level() >= crate::stop::StopLevel::Gentle
            && seen.verdict == Verdict::NotRun;
        let exit = if interrupted {
            ExitCode::Interrupted
        } else {
            ExitCode::Failed
        };
        let failure = Failure::new(exit, format!("step `{step}` is `{}`", seen.verdict));
        StepResult::failed(self.explained(failure, &seen), None)
    }

    fn explained(&self, mut failure: Failure, seen: &StepVerdict) -> Failure {
        for finding in &seen.findings {
            let mut text = finding.reason.as_str().to_owned();
            if let Some(address) = &finding.address {
                text = format!("{text}: `{address}`");
            }
            if let Some(attribute) = &finding.attribute {
                text = format!("{text} `{attribute}`");
            }
            if finding.was != Value::Null || finding.is != Value::Null {
                text = format!("{text}: was {}, is {}", finding.was, finding.is);
            }
            failure = failure.because(self.bench.masked(&text));
        }
        failure
    }
}
