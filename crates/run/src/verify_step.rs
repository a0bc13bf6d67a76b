//! Verifying a step: what preflight sees, and after an apply what may be settled once.

use phase_engine::{Basis, ExitCode, Failure, Notes, StepId, StepResult};
use preflight::{Finding, Reason, Settle, StepVerdict, Verdict, judge, settle};
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
            // A later resource filled in an attribute of an earlier one: the refreshed values are stored, once. The
            // record says first that the state is written.
            let begins = Detail {
                writes: true,
                ..Detail::default()
            };
            if notes.note(begins).is_err() {
                return StepResult::failed(unwritten(), None);
            }
            let settled = match kept.session.apply(ApplyWhat::Saved(&kept.plan)) {
                Ok(applied) => applied.outcome,
                Err(error) => {
                    let detail = Detail {
                        state: self.bench.mark(step).ok().flatten(),
                        suspects: self.suspects(step, &kept.session, &error.outcome),
                        ..Detail::default()
                    };
                    // An interrupt leaves no event of the step that would take this along.
                    let _ = notes.note(detail);
                    return StepResult::failed(tofu_failure(&error, ExitCode::Failed), None);
                }
            };
            // Outputs may be made from what was filled in: later steps refer to what they are now.
            let outputs = self.detail_of(step, &settled, true).outputs;
            let detail = match self.bench.mark(step) {
                Ok(state) => Detail {
                    state,
                    outputs,
                    ..Detail::default()
                },
                Err(failure) => return StepResult::failed(failure, None),
            };
            if notes.note(detail).is_err() {
                return StepResult::failed(unwritten(), None);
            }
            return match self.sight(step, basis) {
                Ok(sight) => self.verdict_of(step, &sight),
                Err(failure) => StepResult::failed(failure, None),
            };
        }
        let mut result = self.verdict_of(step, &sight);
        if basis == Basis::Standing
            && let Err(failure) = &mut result.end
        {
            let target = self.bench.target.name.as_str();
            failure.hint = Some(format!(
                "{}; then `rebuild up --target {target} --resume` goes on",
                crate::mend::ways_on(step.phase.as_str(), target)
            ));
        }
        result
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
        let failure = Failure::new(
            exit,
            format!("verify of step `{step}` failed: it is `{}`", seen.verdict),
        );
        StepResult::failed(self.explained(failure, step, &seen), None)
    }

    fn explained(&self, mut failure: Failure, step: &StepId, seen: &StepVerdict) -> Failure {
        for finding in &seen.findings {
            failure = failure.because(self.bench.masked(&told(finding)));
            if finding.reason == Reason::VerifyFailed {
                failure = failure.log(self.bench.log(step, "verify"));
            }
        }
        failure
    }
}

fn unwritten() -> Failure {
    Failure::failed("the ledger could not be written")
}

/// A finding as one cause of a failure: where, what, and the report's word for it.
fn told(finding: &Finding) -> String {
    let mut text = String::new();
    for part in [&finding.address, &finding.attribute].into_iter().flatten() {
        text.push_str(&format!("`{part}` "));
    }
    match (&finding.was, &finding.is) {
        (Value::Null, Value::Null) => {}
        (Value::Null, Value::String(message)) if finding.attribute.is_none() => {
            text.push_str(message);
            text.push(' ');
        }
        (was, is) => text.push_str(&format!("was {was}, is {is} ")),
    }
    text.push_str(&format!("({})", finding.reason));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(value: Value) -> Finding {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_finding_is_told_as_a_sentence_and_values_only_where_there_are_two() {
        for (value, expected) in [
            (
                json!({ "step": "canary", "address": null, "attribute": null, "was": null,
                        "is": "`sh` ended with exit code 1", "reason": "verify-failed" }),
                "`sh` ended with exit code 1 (verify-failed)",
            ),
            (
                json!({ "step": "edge", "address": "local_file.a", "attribute": "content", "was": "a", "is": "b",
                        "reason": "changed-outside" }),
                r#"`local_file.a` `content` was "a", is "b" (changed-outside)"#,
            ),
            (
                json!({ "step": "edge", "address": "local_file.a", "attribute": null, "was": null, "is": null,
                        "reason": "deleted-outside" }),
                "`local_file.a` (deleted-outside)",
            ),
        ] {
            assert_eq!(told(&finding(value)), expected);
        }
    }
}
