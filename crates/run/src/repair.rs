//! `repair`: what stands of a phase is brought back to the definitions that it was applied from.

use std::sync::Arc;

use phase_engine::{Basis, Entry, ExitCode, Failure, StepEvent, StepResult};
use platform::{AnsibleStep, ExecStep, SshStep, StepDef, StepKind, TalosStep, TofuStep};
use record::{CallCommand, Detail, PlannedChange, PlannedWork, Starting};
use tofu::{ApplyWhat, PlanMode, PlanOptions};

use crate::api::{Machine, MendOptions, Site};
use crate::mend::{MendNotes, MendStep, Mending, mend};
use crate::prepare_step::{does_nothing, planned_makings};
use crate::session::Ended;
use crate::stop::StopRequests;
use crate::tofu_work::tofu_failure;
use crate::ui::{Doing, Ui};
use crate::world::{TargetWorld, judged};

/// Applies what a phase was last applied from, under the plan guard, and verifies it.
pub fn repair(
    machine: &Machine,
    site: &Site,
    options: &MendOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Ended {
    mend(
        machine,
        site,
        options,
        CallCommand::Repair,
        stop,
        ui,
        |world, mending| {
            for step in mending.steps(world)? {
                mending.go_on(world)?;
                let (_, def) = step.def()?;
                world.bench.need_outputs(def.exprs(), &world.standing)?;
                match &def.kind {
                    StepKind::Tofu(tofu) => world.repair_tofu(mending, &step, def, tofu)?,
                    StepKind::Exec(exec) => world.repair_exec(mending, &step, def, exec)?,
                    StepKind::Talos(talos) => world.repair_talos(mending, &step, def, talos)?,
                    StepKind::Ssh(ssh) => world.repair_ssh(mending, &step, def, ssh)?,
                    StepKind::Ansible(ansible) => {
                        world.repair_ansible(mending, &step, def, ansible)?
                    }
                }
            }
            Ok(())
        },
    )
}

impl TargetWorld<'_, '_> {
    fn repair_tofu(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        let (mark, is_recorded) = step.state(self)?;
        let was_cut = mending.was_cut(id);
        if !is_recorded && !was_cut {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the state of step `{id}` is not the recorded one: somebody else wrote it"),
            )
            .because(format!("the store has serial {}", mark.serial))
            .hint(format!(
                "`rebuild accept {} --target {} --reason TEXT` takes it as it is; nothing was changed",
                id.phase, self.bench.target.name
            )));
        }
        let session = step.session(self, def, tofu)?;
        let failed = |error| tofu_failure(&error, ExitCode::Failed);
        let notes = MendNotes {
            mending,
            world: self,
            step: id,
        };
        let mut is_started = false;
        if !self.agreed.keep.is_empty() {
            let tainted = self.bench.facts(id, &session)?.tainted;
            if tainted.iter().any(|it| self.agreed.keep.contains(it)) {
                // The mark is taken off in the state, which is no longer the recorded one then.
                self.repair_starts(mending, step, Vec::new())?;
                is_started = true;
                self.keep_tainted(id, &session, &notes)?;
            }
        }
        let plan = session
            .plan(PlanMode::Normal, &PlanOptions::default())
            .map_err(failed)?;
        if does_nothing(&plan) && !was_cut && !is_started {
            return Ok(());
        }
        self.unless_unreachable(step, &plan)?;
        let (phase, _) = step.def()?;
        self.guard(id, &plan, Some(phase))?;
        let changes = planned_makings(&plan);
        self.repair_starts(mending, step, changes)?;
        let act = || {
            let (result, summary) = self.apply_tofu(id, &session, ApplyWhat::Saved(&plan), &notes);
            (self.bench.masked_result(result), summary)
        };
        let (result, _) = self.told(id, Doing::Apply, act, |(result, summary)| {
            let (ok, why) = judged(result);
            (ok, if ok { summary.clone() } else { why })
        });
        self.repair_ends(mending, step, result)
    }

    fn repair_exec(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        exec: &ExecStep,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        let run = |argv, act| {
            self.bench
                .run_exec(id, &step.source, def, exec, argv, act, &step.applied.target)
        };
        self.repair_program(
            mending,
            step,
            || run(&exec.verify, "verify"),
            || run(&exec.apply, "apply"),
        )
    }

    /// Machines that run another version are upgraded to the one that was applied.
    fn repair_talos(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        talos: &TalosStep,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        let (source, values) = (&step.source, &step.applied.target);
        let bench = self.bench;
        self.repair_program(
            mending,
            step,
            || bench.verify_talos(id, source, def, talos, &self.standing, values),
            || {
                bench
                    .upgrade_talos(id, source, def, talos, &self.standing, values)
                    .map(drop)
            },
        )
    }

    /// Applies by a program what its own verify finds wanting.
    fn repair_program(
        &self,
        mending: &Mending,
        step: &MendStep,
        verify: impl FnOnce() -> Result<(), Failure>,
        apply: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        match verify() {
            Ok(()) if !mending.was_cut(id) => return Ok(()),
            Err(failure) if failure.is_interrupt() => return Err(failure),
            Ok(()) | Err(_) => {}
        }
        self.repair_starts(mending, step, Vec::new())?;
        self.set_changed();
        let act = || {
            self.bench.masked_result(match apply() {
                Ok(()) => StepResult::well(None),
                Err(failure) => StepResult::failed(failure, None),
            })
        };
        let result = self.told(id, Doing::Apply, act, judged);
        self.repair_ends(mending, step, result)
    }

    /// Hosts that can't be reached are awaited and onboarded again.
    fn repair_ssh(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        ssh: &SshStep,
    ) -> Result<(), Failure> {
        let (id, values, bench) = (&step.entry.step, &step.applied.target, self.bench);
        self.repair_program(
            mending,
            step,
            || bench.verify_ssh(id, ssh, &self.standing, values),
            || {
                let awaited = bench.await_hosts(id, def, ssh, &self.standing, values);
                awaited.map(drop)
            },
        )
    }

    /// A playbook that would change something is run.
    fn repair_ansible(
        &self,
        mending: &Mending,
        step: &MendStep,
        def: &StepDef,
        ansible: &AnsibleStep,
    ) -> Result<(), Failure> {
        let (id, source, values) = (&step.entry.step, &step.source, &step.applied.target);
        let bench = self.bench;
        self.repair_program(
            mending,
            step,
            || bench.verify_ansible(id, source, def, ansible, &self.standing, values),
            || {
                let applied = bench.apply_ansible(id, source, def, ansible, &self.standing, values);
                applied.map(drop)
            },
        )
    }

    /// Stores that a step's repair begins: from the definitions that it stands from.
    fn repair_starts(
        &self,
        mending: &Mending,
        step: &MendStep,
        changes: Vec<PlannedChange>,
    ) -> Result<(), Failure> {
        let starting = Starting {
            kind: step.entry.kind.clone(),
            contained_in: step.entry.contained_in.clone(),
            applied: step.applied.clone(),
            planned: PlannedWork {
                complete: true,
                changes,
            },
        };
        let detail = self.bench.masked_detail(Detail {
            starting: Some(Box::new(starting)),
            ..Detail::default()
        });
        mending.append(
            self,
            vec![Entry::Step {
                step: step.entry.step.clone(),
                event: StepEvent::Started,
                definition: Some(step.applied.definition.clone()),
                detail: Some(detail),
                failure: None,
            }],
        )
    }

    /// Stores how a step's repair ended, and proves the step.
    fn repair_ends(
        &self,
        mending: &Mending,
        step: &MendStep,
        result: StepResult<Detail>,
    ) -> Result<(), Failure> {
        let id = &step.entry.step;
        let StepResult { end, detail } = result;
        if let Err(failure) = end {
            let event = if failure.is_interrupt() {
                StepEvent::Interrupted
            } else {
                StepEvent::Failed
            };
            mending.step(self, id, event, detail, Some(failure.clone()))?;
            let target = &self.bench.target.name;
            return Err(Failure {
                hint: Some(format!(
                    "mend what failed, then `rebuild repair {} --target {target}` again",
                    id.phase
                )),
                ..failure
            });
        }
        mending.step(self, id, StepEvent::Succeeded, detail, None)?;
        let notes = MendNotes {
            mending,
            world: self,
            step: id,
        };
        let verify = || {
            self.bench
                .masked_result(self.verify_step(id, Basis::JustApplied, &notes))
        };
        let verified = self.told(id, Doing::Verify, verify, judged);
        match verified.end {
            Ok(()) => mending.step(self, id, StepEvent::Verified, verified.detail, None),
            Err(failure) => {
                let kept = Some(failure.clone());
                mending.step(self, id, StepEvent::VerifyFailed, verified.detail, kept)?;
                Err(failure)
            }
        }
    }
}
