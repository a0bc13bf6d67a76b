//! `accept`: the world is taken as it is into what stands of a phase, with a reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use phase_engine::{Entry, ExitCode, Failure};
use platform::{StepDef, StepKind, TofuStep};
use record::{CallCommand, Detail, Input};
use tofu::{ApplyWhat, PlanMode, PlanOptions, Planned, Session};

use crate::api::{Machine, MendOptions, Site};
use crate::error::CallError;
use crate::masking::holds_secret;
use crate::mend::{MendStep, Mending, mend};
use crate::session::Ended;
use crate::stop::StopRequests;
use crate::tofu_work::tofu_failure;
use crate::ui::{Doing, Ui};
use crate::world::TargetWorld;

/// Takes what is there of a phase as what was applied: drift by an applied refresh-only plan, a state that was
/// written by hand as it is.
pub fn accept(
    machine: &Machine,
    site: &Site,
    options: &MendOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Ended {
    let has_reason = options
        .reason
        .as_deref()
        .is_some_and(|reason| !reason.trim().is_empty());
    if !has_reason {
        let failure = Failure::new(
            ExitCode::Unusable,
            "`accept` needs `--reason TEXT`, which is recorded",
        );
        return Ended::failed(None, CallError::from(failure));
    }
    mend(
        machine,
        site,
        options,
        CallCommand::Accept,
        stop,
        ui,
        |world, mending| {
            for step in mending.steps(world)? {
                mending.go_on(world)?;
                let (_, def) = step.def()?;
                // What a program looks at has no state that could be taken over.
                if let StepKind::Tofu(tofu) = &def.kind {
                    world.accept_tofu(mending, &step, def, tofu)?;
                }
            }
            Ok(())
        },
    )
}

impl TargetWorld<'_, '_> {
    fn accept_tofu(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        let (_, is_recorded) = step.state(self)?;
        if mending.was_cut(id) {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the last apply of step `{id}` was cut or failed"),
            )
            .hint(format!(
                "`rebuild repair {} --target {}` brings it to its end first",
                id.phase, self.bench.target.name
            )));
        }
        let session = step.session(self, def, tofu)?;
        let plan = session
            .plan(PlanMode::RefreshOnly, &PlanOptions::default())
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let changes_outputs = plan.outcome.outputs.values().any(|output| {
            output
                .action
                .as_ref()
                .is_some_and(|action| action.as_str() != "noop")
        });
        let is_as_recorded = plan.outcome.drift.is_empty() && !changes_outputs;
        if is_as_recorded && is_recorded {
            return Ok(());
        }
        self.unless_unreachable(step, &plan)?;
        let gone: Vec<String> = plan
            .outcome
            .drift
            .iter()
            .filter(|change| change.action.as_str() == "delete")
            .map(|change| self.bench.masked(change.address()))
            .collect();
        self.guard_lost(step, &gone)?;
        // The call is recorded before the state is touched, and that it is: cut after that, the new state is explained.
        if is_as_recorded {
            mending.append(self, Vec::new())?;
        } else {
            let begins = Detail {
                writes: true,
                ..Detail::default()
            };
            mending.append(
                self,
                vec![Entry::Note {
                    step: id.clone(),
                    detail: begins,
                }],
            )?;
            if let Err(failure) = self.store_refreshed(step, &session, &plan) {
                let detail = Detail {
                    state: self.bench.mark(id).ok().flatten(),
                    ..Detail::default()
                };
                // Where that can't be stored either, the next call sees what it came to.
                let _ = mending.append(
                    self,
                    vec![Entry::Note {
                        step: id.clone(),
                        detail,
                    }],
                );
                return Err(failure);
            }
        }
        let detail = Detail {
            state: self.bench.mark(id)?,
            outputs: Some(self.outputs_now(step, &session)?),
            ..Detail::default()
        };
        mending.append(
            self,
            vec![Entry::Note {
                step: id.clone(),
                detail,
            }],
        )
    }

    fn store_refreshed(
        &self,
        step: &MendStep,
        session: &Session,
        plan: &Planned,
    ) -> Result<(), Failure> {
        self.set_changed();
        let act = || {
            session
                .apply(ApplyWhat::Saved(plan))
                .map_err(|error| tofu_failure(&error, ExitCode::Failed))
        };
        self.told(
            &step.entry.step,
            Doing::Apply,
            act,
            |applied| match applied {
                Ok(_) => (true, "taken as it is".to_owned()),
                Err(failure) => (false, failure.what.clone()),
            },
        )
        .map(|_| ())
    }

    /// The outputs of a step that a record may hold.
    fn outputs_now(
        &self,
        step: &MendStep,
        session: &Session,
    ) -> Result<Vec<(String, Input)>, Failure> {
        let outputs = session
            .output_json()
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let mut plain = BTreeMap::new();
        for (name, output) in outputs {
            if output.sensitive {
                let what = format!("{}.{name}", step.entry.step);
                self.bench.mask_value(&what, &output.value);
            } else if !holds_secret(&self.bench.masker, &output.value) {
                plain.insert(name, Input::plain(output.value));
            }
        }
        Ok(plain.into_iter().collect())
    }
}
