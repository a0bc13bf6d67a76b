//! Looking at one standing step: its state, and a plan or its own verify. Preflight and every verify see with this.

use std::sync::Arc;

use phase_engine::{Failure, StepId};
use platform::{ExecStep, StepDef, StepKind, TofuStep};
use preflight::{
    Looked, PlanFacts, Recorded, StateFacts, StateObservation, StepObservation, explained_outputs,
};
use record::{Applied, StandingEntry, StateMark};
use state_backend::BackendError;
use tofu::{PlanDocument, PlanMode, PlanOptions, Planned, Session};

use crate::bench::Bench;
use crate::error::stopped;
use crate::exec_step::{self, ExecCall, ExecError};
use crate::library::Source;
use crate::resolve;
use crate::standing::Standing;

/// A plan of a step as it was applied, kept for what may be done with it.
pub(crate) struct KeptPlan {
    /// The session that it was made in.
    pub(crate) session: Session,
    /// The plan.
    pub(crate) plan: Planned,
    /// Its JSON form, where something showed.
    pub(crate) document: Option<PlanDocument>,
    /// What it says.
    pub(crate) facts: PlanFacts,
}

/// What was seen of a step, and the plan that showed it.
pub(crate) struct Sight {
    /// What was seen.
    pub(crate) observation: StepObservation,
    /// The plan, where one was made and is whole.
    pub(crate) plan: Option<KeptPlan>,
}

impl Sight {
    fn of(
        step: &StepId,
        state: Option<StateObservation>,
        looked: Looked,
        def: Option<&StepDef>,
    ) -> Self {
        let observation = StepObservation {
            step: step.clone(),
            state,
            looked,
            ignore: def.map(ignored).unwrap_or_default(),
        };
        Self {
            observation,
            plan: None,
        }
    }

    fn undecided(step: &StepId, failure: &Failure, def: Option<&StepDef>) -> Self {
        let message = failure.one_line();
        Self::of(step, None, Looked::Undecided { message }, def)
    }
}

/// What is excused: by the definitions, and of what is rendered, what a cloud adds by itself.
fn ignored(def: &StepDef) -> Vec<preflight::IgnoreDrift> {
    let rules = def.ignore_drift.iter();
    let rules = rules.map(|rule| preflight::IgnoreDrift {
        address: rule.address.clone(),
        attribute: rule.attribute.clone(),
        reason: rule.reason.clone(),
        until: Some(rule.until),
    });
    let added = provider::ProviderName::ALL.into_iter().filter_map(|name| {
        let StepKind::Tofu(tofu) = &def.kind else {
            return None;
        };
        let is_used = tofu.nodes.is_some() && tofu.module.providers.contains_key(name.as_str());
        let (attribute, reason) = name.adds_by_itself().filter(|_| is_used)?;
        Some(preflight::IgnoreDrift {
            address: format!("{name}_*"),
            attribute: Some(attribute.to_owned()),
            reason: reason.to_owned(),
            until: None,
        })
    });
    rules.chain(added).collect()
}

impl Bench<'_> {
    /// Looks at a standing step as it was last applied.
    pub(crate) fn look(
        &self,
        entry: &StandingEntry,
        applied: &Applied,
        standing: &Standing,
    ) -> Sight {
        let step = &entry.step;
        let source = match self.library.get(&applied.bundle) {
            Ok(source) => source,
            Err(failure) => return Sight::undecided(step, &failure, None),
        };
        let def = match source.applied_step(step, applied) {
            Ok((_, def)) => def,
            Err(failure) => return Sight::undecided(step, &failure, None),
        };
        match &def.kind {
            StepKind::Tofu(tofu) => self.look_tofu(entry, applied, &source, def, tofu, standing),
            StepKind::Exec(exec) => {
                // What a record can't hold comes from the states of now.
                if let Err(failure) = self.need_outputs(def.exprs_of(exec, &exec.verify), standing)
                {
                    return Sight::undecided(step, &failure, Some(def));
                }
                self.look_exec(entry, applied, &source, def, exec)
            }
            StepKind::Ssh(ssh) => {
                let looked = self.verify_ssh(step, ssh, standing, &applied.target);
                Sight::of(step, None, looked_of(looked), Some(def))
            }
            StepKind::Ansible(ansible) => {
                let looked =
                    self.verify_ansible(step, &source, def, ansible, standing, &applied.target);
                Sight::of(step, None, looked_of(looked), Some(def))
            }
            StepKind::Talos(talos) => {
                let looked =
                    self.verify_talos(step, &source, def, talos, standing, &applied.target);
                Sight::of(step, None, looked_of(looked), Some(def))
            }
        }
    }

    fn look_tofu(
        &self,
        entry: &StandingEntry,
        applied: &Applied,
        source: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
        standing: &Standing,
    ) -> Sight {
        let step = &entry.step;
        let state = self.compare_state(entry);
        if let Some(state) = &state
            && !is_as_recorded(state)
        {
            // A plan on a lost or foreign state says nothing, or "no changes".
            let why = "its state is not the one that was recorded".to_owned();
            return Sight::of(step, Some(state.clone()), Looked::NotRun { why }, Some(def));
        }
        let applied_session =
            match self.applied_session(entry, applied, source, def, tofu, standing) {
                Ok(session) => session,
                Err(failure) => return Sight::undecided(step, &failure, Some(def)),
            };
        let session = applied_session.session;
        let plan = match session.plan(PlanMode::Normal, &PlanOptions::default()) {
            Ok(plan) => plan,
            Err(error) => return Sight::of(step, state, Looked::of_error(&error), Some(def)),
        };
        let document = if PlanFacts::wants_document(&plan.outcome) {
            match session.show(&plan) {
                Ok(document) => Some(document),
                Err(error) => return Sight::of(step, state, Looked::of_error(&error), Some(def)),
            }
        } else {
            None
        };
        let mut facts = PlanFacts::of_outcome(&plan.outcome, document.as_ref());
        if let Some(document) = &document {
            facts.explained_outputs =
                explained_outputs(&document.configuration, &applied_session.changed, &|path| {
                    tofu.module.locals_at(path)
                });
        }
        let mut sight = Sight::of(
            step,
            state,
            Looked::Planned(Box::new(facts.clone())),
            Some(def),
        );
        sight.plan = Some(KeptPlan {
            session,
            plan,
            document,
            facts,
        });
        sight
    }

    /// Compares a step's state with the recorded one; nothing is compared where none was ever recorded.
    fn compare_state(&self, entry: &StandingEntry) -> Option<StateObservation> {
        let message = |error: &BackendError| stopped(error).one_line();
        let found = match self.server.backend().read_state(&entry.step.key()) {
            Ok(Some(state)) => StateFacts::Present {
                lineage: state.header.lineage,
                serial: state.header.serial,
                digest: state.header.digest,
            },
            Ok(None) => StateFacts::Absent,
            Err(error @ BackendError::Damaged { .. }) => StateFacts::Damaged {
                message: message(&error),
            },
            Err(error) => StateFacts::Unreadable {
                message: message(&error),
            },
        };
        // One that is being changed, or was when its call was cut elsewhere, is as recorded as far as that explains it.
        if let StateFacts::Present {
            lineage,
            serial,
            digest,
        } = &found
        {
            let mark = StateMark {
                lineage: lineage.clone(),
                serial: *serial,
                digest: digest.clone(),
            };
            if entry.writing.is_some() && entry.explains(&mark) {
                return None;
            }
        }
        entry.state.as_ref().map(|mark| StateObservation {
            recorded: Recorded {
                lineage: mark.lineage.clone(),
                serial: mark.serial,
                digest: mark.digest.clone(),
            },
            found,
        })
    }

    fn look_exec(
        &self,
        entry: &StandingEntry,
        applied: &Applied,
        source: &Source,
        def: &StepDef,
        exec: &ExecStep,
    ) -> Sight {
        let step = &entry.step;
        let ran = self.run_exec(
            step,
            source,
            def,
            exec,
            &exec.verify,
            "verify",
            &applied.target,
        );
        Sight::of(step, None, looked_of(ran), Some(def))
    }

    /// Runs one program of an exec step in the step's tree.
    #[expect(clippy::too_many_arguments, reason = "each is a fact of its own")]
    pub(crate) fn run_exec(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        exec: &ExecStep,
        argv: &[platform::Expr],
        act: &str,
        values: &std::collections::BTreeMap<String, serde_json::Value>,
    ) -> Result<(), Failure> {
        let what = format!("{act} of step `{step}`");
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Failure::of(phase_engine::ExitCode::Failed, error)
        };
        let dir = self.step_dir(step)?;
        self.place(&dir, tofu::Slot::Tree, source, &[])?;
        let scope = self.scope(values);
        let argv = resolve::argv(&what, argv, &scope)?;
        let stdin = match &exec.stdin {
            Some(expr) => Some(
                resolve::value(step, "`stdin`", expr, &scope)?
                    .into_text()
                    .into_bytes(),
            ),
            None => None,
        };
        let log = self.log(step, act);
        let changes = (act != "verify").then(|| {
            let n = self
                .n_files
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (self.memory.path().join(format!("exec-{n}")), dir.marker())
        });
        let call = ExecCall {
            argv: &argv,
            env: self.env_of(&what, &def.env, &scope)?,
            cwd: &dir.tree(tofu::Slot::Tree),
            stdin,
            changes: changes.clone(),
            log: &log,
            timeout: def.timeout,
        };
        let ran = exec_step::run(
            &call,
            self.machine.spawner.as_ref(),
            &self.masker,
            &self.stop,
        );
        if let Some((output, _)) = &changes
            && !matches!(ran, Err(ExecError::Read { .. } | ExecError::Kill { .. }))
        {
            // Seen to its end: nothing is left for the next call to wait for.
            let _ = std::fs::remove_file(output);
            dir.clear_marker().map_err(|error| failed(&error))?;
        }
        ran.map_err(|error| {
            let exit = if error.is_interrupt() {
                phase_engine::ExitCode::Interrupted
            } else {
                phase_engine::ExitCode::Failed
            };
            let mut failure = Failure::new(exit, format!("{what} failed"))
                .because(error.to_string())
                .log(log.clone());
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                failure = failure.because(self.masked(&error.to_string()));
                source = error.source();
            }
            if !error.tail().is_empty() {
                failure = failure.because(error.tail().join("\n"));
            }
            failure
        })
    }
}

/// What a step's own verify says.
fn looked_of(verified: Result<(), Failure>) -> Looked {
    match verified {
        Ok(()) => Looked::Verified,
        Err(failure) if failure.is_interrupt() => Looked::NotRun { why: failure.what },
        Err(failure) => Looked::VerifyFailed {
            message: failure.one_line(),
        },
    }
}

/// Whether a found state is the recorded one, byte for byte.
fn is_as_recorded(state: &StateObservation) -> bool {
    match &state.found {
        StateFacts::Present {
            lineage,
            serial,
            digest,
        } => {
            *lineage == state.recorded.lineage
                && *serial == state.recorded.serial
                && *digest == state.recorded.digest
        }
        StateFacts::Absent | StateFacts::Damaged { .. } | StateFacts::Unreadable { .. } => false,
    }
}
