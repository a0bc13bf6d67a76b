//! Making a step ready: its values, its plan, the guard. Nothing is changed here.

use std::sync::Arc;

use phase_engine::{ApplyHow, ExitCode, Failure, Notes, Preparation, ResourceAddress, StepId};
use platform::{PhaseDef, StepDef, StepKind, TofuStep, WORKSPACE_PHASE};
use record::{Applied, Detail, PlannedChange, PlannedWork, Starting, ToolRecord, Values};
use state_backend::GrantOptions;
use tofu::{PlanMode, PlanOptions, Planned, Session, Slot};

use crate::guard;
use crate::library::{Extras, Source};
use crate::resolve::{self, Inputs};
use crate::tofu_work::{Wanted, tofu_failure};
use crate::ui::Notice;
use crate::world::TargetWorld;

/// What a step is to be applied from.
pub(crate) struct Resolved {
    /// Today's definitions.
    pub(crate) source: Arc<Source>,
    /// What they say of it.
    pub(crate) def: StepDef,
    /// Its inputs, for a tofu step.
    pub(crate) inputs: Inputs,
    /// The inputs as the record keeps them.
    pub(crate) values: Values,
    /// The digest of all that.
    pub(crate) definition: String,
}

/// A step that is ready to be applied.
pub(crate) struct Prepared {
    /// What it is applied from.
    pub(crate) resolved: Resolved,
    /// How.
    pub(crate) work: Work,
}

/// How a step is applied.
pub(crate) enum Work {
    /// A plan shows that nothing is to do.
    Nothing {
        /// The session that the plan was made in.
        session: Box<Session>,
        /// What this call had changed when the plan was begun.
        seen: u64,
    },
    /// There is no state, so nothing can be destroyed: plan and apply are one process.
    Direct {
        /// The session.
        session: Box<Session>,
    },
    /// Exactly this plan.
    Saved {
        /// The session that it was made in.
        session: Box<Session>,
        /// The plan.
        plan: Box<Planned>,
    },
    /// A program.
    Exec,
    /// An upgrade of Talos.
    Talos,
    /// Hosts that are awaited, or a playbook on them.
    Handoff,
}

impl TargetWorld<'_, '_> {
    /// Resolves a step of today's definitions.
    pub(crate) fn resolved(&self, step: &StepId) -> Result<Resolved, Failure> {
        let source = Arc::clone(self.today()?);
        let (_, def) = source.step(step)?;
        let def = def.clone();
        self.bench.need_outputs(def.exprs(), &self.standing)?;
        let scope = self.bench.scope(&self.bench.target.values);
        let inputs = match &def.kind {
            StepKind::Tofu(tofu) => {
                let mut inputs = resolve::inputs(step, tofu, &tofu.inputs, &scope)?;
                self.add_given(step, tofu, &mut inputs)?;
                inputs.extend(self.bench.captured_inputs());
                inputs
            }
            StepKind::Talos(talos) => {
                let mut inputs = Inputs::new();
                let optional = [
                    ("version", Some(&talos.version)),
                    ("image", talos.image.as_ref()),
                    ("talosconfig", talos.talosconfig.as_ref()),
                ];
                for (name, expr) in optional {
                    if let Some(expr) = expr {
                        inputs.insert(name.to_owned(), resolve::value(step, name, expr, &scope)?);
                    }
                }
                inputs
            }
            StepKind::Ssh(_) | StepKind::Ansible(_) => {
                let mut inputs = Inputs::new();
                if let Some(hosts) = def.kind.hosts_output() {
                    let expr = hosts.expr();
                    self.bench.need_outputs([&expr], &self.standing)?;
                    let hosts = resolve::value(step, "`hosts`", &expr, &scope)?;
                    inputs.insert("hosts".to_owned(), hosts);
                }
                if let StepKind::Ansible(ansible) = &def.kind {
                    for (name, expr) in &ansible.vars {
                        let value = resolve::value(step, name, expr, &scope)?;
                        inputs.insert(format!("vars.{name}"), value);
                    }
                }
                for (name, value) in &def.env {
                    if let Some(expr) = value.expr() {
                        let value = resolve::value(step, name, expr, &scope)?;
                        inputs.insert(format!("env.{name}"), value);
                    }
                }
                inputs
            }
            StepKind::Exec(exec) => {
                let mut inputs = Inputs::new();
                let argvs = [
                    ("apply", &exec.apply),
                    ("verify", &exec.verify),
                    ("teardown", &exec.teardown),
                ];
                for (act, argv) in argvs {
                    for (n, expr) in argv.iter().enumerate() {
                        inputs.insert(
                            format!("{act}[{n}]"),
                            resolve::value(step, act, expr, &scope)?,
                        );
                    }
                }
                if let Some(stdin) = &exec.stdin {
                    inputs.insert(
                        "stdin".to_owned(),
                        resolve::value(step, "stdin", stdin, &scope)?,
                    );
                }
                for (name, value) in &def.env {
                    if let Some(expr) = value.expr() {
                        inputs.insert(
                            format!("env.{name}"),
                            resolve::value(step, name, expr, &scope)?,
                        );
                    }
                }
                inputs
            }
        };
        for (name, input) in &inputs {
            if input.sensitive {
                self.bench
                    .mask_value(&format!("{step}.{name}"), &input.value);
            }
        }
        let values = resolve::values(&inputs, &self.bench.key)?;
        let files = source.bundle.definition_digest(&source.platform, &def);
        let definition = resolve::definition(&files, &values);
        Ok(Resolved {
            source,
            def,
            inputs,
            values,
            definition,
        })
    }

    /// Makes a step ready to be applied, or says what is against it.
    pub(crate) fn prepare_step(
        &self,
        step: &StepId,
        how: ApplyHow,
        notes: &dyn Notes<Detail>,
    ) -> Result<Preparation<Prepared, Detail>, Failure> {
        let resolved = self.resolved(step)?;
        let def = resolved.def.clone();
        match &def.kind {
            StepKind::Exec(exec) => {
                let starting = self.starting(
                    &resolved,
                    PlannedWork {
                        complete: true,
                        changes: Vec::new(),
                    },
                    None,
                )?;
                // A program that was cut says itself, by its verify, whether it is done.
                if matches!(
                    how,
                    ApplyHow::AfterCut {
                        same_definition: true
                    }
                ) && self
                    .bench
                    .run_exec(
                        step,
                        &resolved.source,
                        &def,
                        exec,
                        &exec.verify,
                        "verify",
                        &self.bench.target.values,
                    )
                    .is_ok()
                {
                    return Ok(Preparation::AlreadyDone {
                        detail: detail_of(starting),
                    });
                }
                Ok(Preparation::Ready {
                    plan: Prepared {
                        resolved,
                        work: Work::Exec,
                    },
                    detail: detail_of(starting),
                })
            }
            // What was cut goes on by itself at the machine it was at; hosts are awaited, and a playbook is run, again.
            StepKind::Talos(_) | StepKind::Ssh(_) | StepKind::Ansible(_) => {
                let planned = PlannedWork {
                    complete: true,
                    changes: Vec::new(),
                };
                let starting = self.starting(&resolved, planned, None)?;
                let work = match &def.kind {
                    StepKind::Talos(_) => Work::Talos,
                    _ => Work::Handoff,
                };
                Ok(Preparation::Ready {
                    plan: Prepared { resolved, work },
                    detail: detail_of(starting),
                })
            }
            StepKind::Tofu(tofu) => self.prepare_tofu(step, resolved, &def, tofu, notes),
        }
    }

    fn prepare_tofu(
        &self,
        step: &StepId,
        resolved: Resolved,
        def: &StepDef,
        tofu: &TofuStep,
        notes: &dyn Notes<Detail>,
    ) -> Result<Preparation<Prepared, Detail>, Failure> {
        let entry = self.standing.get(step);
        let mark = self.bench.mark(step)?;
        if mark.is_none() && entry.as_ref().is_some_and(|entry| entry.state.is_some()) {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "the state of step `{step}` is gone, and the record knows that it was there"
                ),
            )
            .hint("restore the state from its versions in the store before anything else"));
        }
        let same = entry.as_ref().is_some_and(|entry| {
            !entry.applied.attempted && entry.applied.definition == resolved.definition
        });
        // A plan of the same definitions and values, made in this call before anything changed, is today's plan.
        let kept = self
            .kept_plan(step)
            .filter(|_| same && self.n_changes() == 0 && self.upgrade.is_none());
        let seen = self.n_changes();
        let (session, plan) = match kept {
            Some(kept) => (kept.session, Some(kept.plan)),
            None => {
                let session = self.session_today(step, &resolved, def, tofu, Slot::Tree)?;
                if mark.is_some() {
                    self.keep_tainted(step, &session, notes)?;
                }
                let plan = match mark {
                    None => None,
                    Some(_) => Some(
                        session
                            .plan(PlanMode::Normal, &PlanOptions::default())
                            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?,
                    ),
                };
                (session, plan)
            }
        };
        let Some(plan) = plan else {
            let report = session
                .init(false)
                .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
            let starting =
                self.starting(&resolved, PlannedWork::default(), Some((&session, &report)))?;
            let work = Work::Direct {
                session: Box::new(session),
            };
            return Ok(Preparation::Ready {
                plan: Prepared { resolved, work },
                detail: detail_of(starting),
            });
        };
        let today = Arc::clone(self.today()?);
        self.guard(step, &plan, today.platform.phase(&step.phase))?;
        if !does_nothing(&plan) {
            self.bench.has_room(step)?;
        }
        let changes = planned_makings(&plan);
        let report = session
            .init(false)
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let starting = self.starting(
            &resolved,
            PlannedWork {
                complete: true,
                changes,
            },
            Some((&session, &report)),
        )?;
        let session = Box::new(session);
        let work = if does_nothing(&plan) {
            Work::Nothing { session, seen }
        } else {
            Work::Saved {
                session,
                plan: Box::new(plan),
            }
        };
        Ok(Preparation::Ready {
            plan: Prepared { resolved, work },
            detail: detail_of(starting),
        })
    }

    /// A session of a step on today's definitions.
    pub(crate) fn session_today(
        &self,
        step: &StepId,
        resolved: &Resolved,
        def: &StepDef,
        tofu: &TofuStep,
        slot: Slot,
    ) -> Result<Session, Failure> {
        let entry = self.standing_for(step);
        let applied = entry.as_ref().map(|entry| &entry.applied);
        let extras = self.extras_today(step, applied)?;
        self.bench.session(Wanted {
            step,
            source: &resolved.source,
            def,
            tofu,
            slot,
            variables: resolved
                .inputs
                .iter()
                .map(|(name, resolved)| (name.clone(), resolved.value.clone()))
                .collect(),
            extras,
            state_providers: applied
                .map(|applied| applied.providers.keys().cloned().collect())
                .unwrap_or_default(),
            state: Some(GrantOptions::default()),
            // Its own, once it has one.
            state_of: self
                .moves
                .get(step)
                .filter(|from| self.standing.get(from).is_some()),
        })
    }

    /// Stops a plan that destroys what nobody agreed to lose.
    pub(crate) fn guard(
        &self,
        step: &StepId,
        plan: &Planned,
        phase: Option<&PhaseDef>,
    ) -> Result<(), Failure> {
        let bench = self.bench;
        // What failed by itself was never whole: a step that failed is applied again. Of one that was cut
        // nobody knows how far it came.
        let failed_by_itself = self
            .standing
            .status_of(step)
            .is_some_and(|status| status == phase_engine::StepStatus::Failed);
        let changes: Vec<guard::Planned> = plan
            .outcome
            .planned
            .iter()
            .map(|change| guard::Planned {
                address: change.address().to_owned(),
                action: change.action.as_str().to_owned(),
                tainted: change.is_tainted() && !failed_by_itself,
            })
            .collect();
        let rules = guard::Rules {
            protected: bench
                .target
                .protected
                .then(|| bench.target.name.to_string()),
            max_destroy: phase.and_then(|phase| phase.max_destroy),
            allowed: self.agreed.allow_destroy.contains(&step.phase),
            replace: self.agreed.replace.clone(),
        };
        let (why, addresses) = match guard::judge(&changes, &rules) {
            guard::Verdict::Pass => {
                self.tell_replaced(step, plan);
                return Ok(());
            }
            guard::Verdict::Stop { why, addresses } => (why, addresses),
        };
        if bench.agree_to_destroy(step, &addresses) {
            self.tell_replaced(step, plan);
            return Ok(());
        }
        let allow = if step.phase.as_str() == WORKSPACE_PHASE {
            "--allow-destroy".to_owned()
        } else {
            format!("--allow-destroy {}", step.phase)
        };
        Err(Failure::new(
            ExitCode::Declined,
            format!("the plan guard stopped step `{step}`"),
        )
        .because(why)
        .hint(format!(
            "nothing of this step was changed; agree at a terminal, or add `{allow}`; for what is tainted \
             `--replace ADDRESS` or `--keep ADDRESS`"
        )))
    }

    /// What was never whole is replaced without a word of the definitions: it is told.
    fn tell_replaced(&self, step: &StepId, plan: &Planned) {
        for change in plan.outcome.tainted() {
            let address = self.bench.masked(change.address());
            self.bench.ui.tell(&Notice::Told {
                message: format!(
                    "`{address}` of step `{step}` is tainted, since it did not come to be whole: it is replaced"
                ),
            });
        }
    }

    /// Takes the mark for replacement off the addresses that `--keep` names. The record says first that the state is
    /// written, and then what it came to.
    pub(crate) fn keep_tainted(
        &self,
        step: &StepId,
        session: &Session,
        notes: &dyn Notes<Detail>,
    ) -> Result<(), Failure> {
        if self.agreed.keep.is_empty() {
            return Ok(());
        }
        let facts = self.bench.facts(step, session)?;
        let kept: Vec<&String> = facts
            .tainted
            .iter()
            .filter(|address| self.agreed.keep.contains(*address))
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        let note = |detail: Detail| {
            let noted = notes.note(detail);
            noted.map_err(|_| Failure::failed("the ledger could not be written"))
        };
        note(Detail {
            writes: true,
            ..Detail::default()
        })?;
        let done = kept.into_iter().try_for_each(|address| {
            session
                .untaint(address)
                .map_err(|error| tofu_failure(&error, ExitCode::Failed))
        });
        let state = self.bench.mark(step);
        done?;
        note(Detail {
            state: state?,
            ..Detail::default()
        })
    }

    /// What the ledger keeps of a step whose apply begins.
    pub(crate) fn starting(
        &self,
        resolved: &Resolved,
        planned: PlannedWork,
        init: Option<(&Session, &tofu::InitReport)>,
    ) -> Result<Starting, Failure> {
        let bench = self.bench;
        let init_extras = match init {
            Some((session, report)) => bench.library.queue_extras(Extras {
                lock_file: report.lock_file.clone(),
                modules: session
                    .downloaded_modules()
                    .map_err(|error| tofu_failure(&error, ExitCode::Failed))?,
            })?,
            None => None,
        };
        let providers = init
            .map(|(_, report)| {
                report
                    .providers
                    .iter()
                    .map(|package| (package.address.clone(), package.version.clone()))
                    .collect()
            })
            .unwrap_or_default();
        let is_tofu = matches!(resolved.def.kind, StepKind::Tofu(_));
        let tool = is_tofu.then(|| ToolRecord {
            name: "tofu".to_owned(),
            version: bench.program.version.to_string(),
            sha256: Some(bench.program.digest.clone()),
        });
        let run = self.run.clone();
        Ok(Starting {
            kind: resolved.def.kind.word().to_owned(),
            contained_in: resolved.def.contained_in.clone(),
            applied: Applied {
                bundle: resolved.source.bundle.digest().to_owned(),
                init_extras,
                called: None,
                commit: resolved.source.commit.clone(),
                definition: resolved.definition.clone(),
                values: resolved.values.clone(),
                target: bench.target.values.clone(),
                tool,
                providers,
                run,
                since: record::Time::from((bench.machine.now)()),
                attempted: true,
            },
            planned,
        })
    }
}

fn detail_of(starting: Starting) -> Detail {
    Detail {
        starting: Some(Box::new(starting)),
        ..Detail::default()
    }
}

/// Whether a plan changes neither a resource nor an output, and shows the world as the state has it.
pub(crate) fn does_nothing(plan: &Planned) -> bool {
    plan.outcome.drift.is_empty()
        && plan.outcome.failed_checks.is_empty()
        && plan.outcome.real_changes().next().is_none()
        && plan.outcome.outputs.values().all(|output| {
            output
                .action
                .as_ref()
                .is_none_or(|action| action.as_str() == "noop")
        })
}

/// What a plan makes, as the record keeps it while nobody knows how far an apply came.
pub(crate) fn planned_makings(plan: &Planned) -> Vec<PlannedChange> {
    plan.outcome
        .planned
        .iter()
        .filter(|change| matches!(change.action.as_str(), "create" | "replace"))
        .filter_map(|change| {
            let had = plan.outcome.had.get(change.address());
            Some(PlannedChange {
                was: had.cloned(),
                ..planned_change(change)?
            })
        })
        .collect()
}

/// A planned change as the record keeps it.
pub(crate) fn planned_change(change: &tofu::Change) -> Option<PlannedChange> {
    Some(PlannedChange {
        address: ResourceAddress::new(change.address()).ok()?,
        action: change.action.as_str().to_owned(),
        provider: Some(change.resource.implied_provider.clone())
            .filter(|provider| !provider.is_empty()),
        was: None,
    })
}
