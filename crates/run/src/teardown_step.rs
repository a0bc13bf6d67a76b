//! Tearing a step down, and proving its phase gone.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use checks::Residue;
use phase_engine::{
    ExitCode, Failure, Forgetting, Notes, PhaseId, ResidueResult, StepId, TeardownResult,
};
use platform::StepKind;
use process::wait;
use record::{Applied, Detail, StandingEntry, StateMark};
use state_backend::GrantOptions;
use tofu::{ApplyWhat, RunError, Session, Slot};

use crate::bench::Bench;
use crate::error::{failed, stopped};
use crate::library::Source;
use crate::resolve;
use crate::stop::StopLevel;
use crate::tofu_work::{Wanted, tofu_failure};
use crate::ui::Notice;
use crate::world::{PhaseSource, TargetWorld};

impl TargetWorld<'_, '_> {
    /// Tears a step down with the definitions last attempted; where a provider's configuration is missing there,
    /// with those before.
    pub(crate) fn teardown_step(
        &self,
        step: &StepId,
        _: &dyn Notes<Detail>,
    ) -> TeardownResult<Detail> {
        let sources = match self.teardown_sources(step) {
            Ok(sources) => sources,
            Err(failure) => {
                return TeardownResult::Failed {
                    failure,
                    detail: None,
                };
            }
        };
        let mut last = None;
        for (source, recorded) in &sources {
            let (entry, applied) = match recorded {
                Some((entry, applied)) => (Some(entry), Some(applied)),
                None => (None, None),
            };
            match self.teardown_from(step, source, entry, applied) {
                Ok(result) => return result,
                Err(Teardown::OtherBundle(failure)) => last = Some(failure),
                Err(Teardown::Failed(mut failure, detail)) => {
                    // The teardown has begun: this is no stop before anything.
                    if failure.exit == ExitCode::Stopped {
                        failure.exit = ExitCode::Failed;
                    }
                    return TeardownResult::Failed {
                        failure,
                        detail: detail.map(|detail| *detail),
                    };
                }
            }
        }
        let failure =
            last.unwrap_or_else(|| Failure::failed(format!("no bundle tears step `{step}` down")));
        TeardownResult::Failed {
            failure,
            detail: None,
        }
    }

    fn teardown_from(
        &self,
        step: &StepId,
        source: &std::sync::Arc<Source>,
        entry: Option<&StandingEntry>,
        applied: Option<&Applied>,
    ) -> Result<TeardownResult<Detail>, Teardown> {
        let (_, def) = match applied {
            Some(applied) => source.applied_step(step, applied)?,
            None => source.step(step)?,
        };
        let values = applied.map_or(&self.bench.target.values, |applied| &applied.target);
        let tofu = match &def.kind {
            StepKind::Exec(exec) => {
                if !exec.teardown.is_empty() {
                    let needed = def.exprs_of(exec, &exec.teardown);
                    self.bench.need_outputs(needed, &self.standing)?;
                    self.bench.run_exec(
                        step,
                        source,
                        def,
                        exec,
                        &exec.teardown,
                        "teardown",
                        values,
                    )?;
                }
                return Ok(TeardownResult::Gone { detail: None });
            }
            // What was upgraded stays as it is, and goes with the step that made it.
            StepKind::Talos(_) => return Ok(TeardownResult::Gone { detail: None }),
            StepKind::Ssh(ssh) => {
                self.bench.forget_hosts(&ssh.hosts)?;
                return Ok(TeardownResult::Gone { detail: None });
            }
            StepKind::Ansible(ansible) => {
                self.bench
                    .teardown_ansible(step, source, def, ansible, &self.standing, values)?;
                return Ok(TeardownResult::Gone { detail: None });
            }
            StepKind::Tofu(tofu) => tofu,
        };
        let found = self.bench.mark(step)?;
        if found.is_none() {
            return match entry.and_then(|entry| entry.state.as_ref()) {
                None => Ok(TeardownResult::Empty),
                Some(mark) if self.bench.was_retired(step, mark)? => Ok(TeardownResult::Empty),
                Some(mark) => Err(self.lost_state(step, mark.serial).into()),
            };
        }
        let session = match (entry, applied) {
            (Some(entry), Some(applied)) => {
                self.bench
                    .applied_session(entry, applied, source, def, tofu, &self.standing)?
                    .session
            }
            _ => {
                self.bench.need_outputs(def.exprs(), &self.standing)?;
                let scope = self.bench.scope(values);
                let mut inputs = resolve::inputs(step, tofu, &tofu.inputs, &scope)?;
                self.add_given(step, tofu, &mut inputs)?;
                inputs.extend(self.bench.captured_inputs());
                self.bench.session(Wanted {
                    step,
                    source,
                    def,
                    tofu,
                    slot: Slot::Tree,
                    variables: inputs
                        .into_iter()
                        .map(|(name, input)| (name, input.value))
                        .collect(),
                    extras: None,
                    state_providers: std::collections::BTreeSet::new(),
                    state: Some(GrantOptions::default()),
                    state_of: None,
                })?
            }
        };
        // A destroy of an emptied state ends well and leaves everything where it is.
        if let Some(recorded) = entry.and_then(|entry| entry.state.as_ref())
            && is_anothers(found.as_ref(), recorded, self.cut_teardowns.contains(step))
            && self.bench.facts(step, &session)?.addresses.is_empty()
        {
            return Err(self
                .what_was_made(
                    step,
                    format!(
                        "the state of step `{step}` is empty, and it is not the one that the record knows at serial {}",
                        recorded.serial
                    ),
                )
                .into());
        }
        self.set_changed();
        let mut n_again = 0;
        while let Err(error) = session.apply(ApplyWhat::DirectDestroy {
            // Where a value is lost, nothing may be made of it: a refresh evaluates the whole configuration.
            refresh: def.destroy_refresh && !self.bench.without_captured.load(Ordering::Relaxed),
        }) {
            n_again += 1;
            if n_again > CONFLICTS || !is_conflict(&error) || !self.may_try_again(step) {
                return Err(self.failed_destroy(step, &session, &error));
            }
        }
        self.retire_emptied(step, &session)
            .map_err(|failure| self.failed_after_destroy(step, failure))?;
        Ok(TeardownResult::Gone { detail: None })
    }

    /// Moves the state of a step to its versions, once it is proven to hold nothing.
    fn retire_emptied(&self, step: &StepId, session: &Session) -> Result<(), Failure> {
        // An interrupt lets what runs end, and this is the end of it.
        session.leave_undisturbed();
        let left = self.bench.left_in(step, session)?;
        if !left.is_empty() {
            return Err(Failure::failed(format!(
                "the destroy of step `{step}` ended well and left resources in its state"
            ))
            .because(left.join(", ")));
        }
        let backend = self.bench.server.backend();
        backend
            .retire(&step.key())
            .map(drop)
            .map_err(|error| failed(&error))
    }

    /// The record gets to know the state that a destroy left: the next teardown must not take it for another's.
    fn failed_after_destroy(&self, step: &StepId, failure: Failure) -> Teardown {
        let detail = Detail {
            state: self.bench.mark(step).ok().flatten(),
            ..Detail::default()
        };
        Teardown::Failed(failure, Some(Box::new(detail)))
    }

    /// Waits until something that is still in use may be free; false where the operator asks for an end.
    fn may_try_again(&self, step: &StepId) -> bool {
        self.bench.ui.tell(&Notice::Warning {
            message: format!(
                "the cloud says that something of step `{step}` is still in use: its destroy is tried again"
            ),
            hint: None,
        });
        let stop = &self.bench.stop;
        let pause = self.bench.machine.patience / CONFLICT_PAUSES;
        let tick = pause.min(Duration::from_millis(100));
        let asked = wait::until(Instant::now() + pause, tick, || {
            (stop.level() >= StopLevel::Gentle).then_some(())
        });
        asked.is_none()
    }

    fn failed_destroy(&self, step: &StepId, session: &Session, error: &RunError) -> Teardown {
        let failure = tofu_failure(error, ExitCode::Failed);
        let missing = error
            .diagnostics()
            .iter()
            .any(|diagnostic| diagnostic.mentions("Provider configuration not present"));
        if missing && error.outcome.started.is_empty() {
            return Teardown::OtherBundle(failure);
        }
        let mut detail = self.detail_of(step, &error.outcome, false);
        detail.state = self.bench.mark(step).ok().flatten();
        detail.suspects = self.suspects(step, session, &error.outcome);
        Teardown::Failed(failure, Some(Box::new(detail)))
    }

    /// A state that the record knows and the store lacks: what it had made must be named.
    fn lost_state(&self, step: &StepId, serial: u64) -> Failure {
        self.what_was_made(
            step,
            format!(
                "the state of step `{step}` is not in the store, and the record knows it at serial {serial}"
            ),
        )
    }

    fn what_was_made(&self, step: &StepId, what: String) -> Failure {
        let record = self.standing.0.get();
        let made: Vec<String> = record
            .iter()
            .filter_map(|record| record.phase(&step.phase))
            .flat_map(|phase| &phase.made)
            .flat_map(|(action, types)| {
                types
                    .iter()
                    .map(move |(kind, n)| format!("{n} {kind} {}", crate::ui::done(action)))
            })
            .collect();
        let planned: Vec<String> = record
            .iter()
            .filter_map(|record| record.step(step))
            .filter_map(|step| step.planned.as_ref())
            .flat_map(|planned| {
                planned
                    .changes
                    .iter()
                    .map(|change| format!("`{}`", change.address.as_str()))
            })
            .collect();
        let mut failure = Failure::failed(what);
        if !made.is_empty() {
            failure = failure.because(format!(
                "phase `{}` had made: {}",
                step.phase,
                made.join(", ")
            ));
        }
        if !planned.is_empty() {
            failure = failure.because(format!("the step had made: {}", planned.join(", ")));
        }
        let target = &self.bench.target.name;
        failure.hint(format!(
            "restore the state from its versions in the store; or see that nothing is left and type \
             `rebuild down --target {target} --forget {step} --reason TEXT`"
        ))
    }

    /// Looks for what a phase left behind: states first, then its probes.
    pub(crate) fn residue_of(
        &self,
        phase: &PhaseId,
        deferred: &[StepId],
    ) -> Result<ResidueResult, Failure> {
        let left: Vec<String> = self
            .bench
            .stated_of(phase)?
            .into_iter()
            .filter(|step| !deferred.contains(step))
            .map(|step| format!("`{step}`"))
            .collect();
        if !left.is_empty() {
            return Ok(ResidueResult::Left(
                Failure::failed(format!(
                    "phase `{phase}` is torn down, and states of it are still there"
                ))
                .because(left.join(", ")),
            ));
        }
        let Some(PhaseSource {
            source,
            values,
            called,
        }) = self.source_of_proof(phase)
        else {
            return Ok(ResidueResult::Clean);
        };
        let Some(def) = source.platform.phase(&called) else {
            return Ok(ResidueResult::Clean);
        };
        // Each is asked: what one finds must not hide behind another that can't be asked.
        let mut left: Option<Failure> = None;
        let mut unasked: Option<Failure> = None;
        for probe in &def.residue {
            let within = probe.within.max(Duration::from_millis(1));
            let what = format!("residue probe `{}` of phase `{phase}`", probe.name);
            match self
                .bench
                .ask_residue(&source, &called, probe, &values, within)
            {
                Ok(Residue::Silent { .. }) => {}
                Ok(Residue::Left { lines, n_lines }) => {
                    let found = format!(
                        "{what} found {n_lines} {} of what is left",
                        if n_lines == 1 { "line" } else { "lines" }
                    );
                    let lines = self.bench.masked(&lines.join("\n"));
                    left = Some(match left {
                        None => Failure::failed(found).because(lines),
                        Some(first) => first.because(found).because(lines),
                    });
                }
                Ok(Residue::Failed(failure)) => {
                    unasked.get_or_insert_with(|| {
                        Failure::failed(format!("{what} could not be asked"))
                            .because(self.bench.masked(&failure.to_string()))
                    });
                }
                Err(failure) => {
                    unasked.get_or_insert(failure);
                }
            }
        }
        if self.bench.stop.level() >= StopLevel::Gentle && (left.is_some() || unasked.is_some()) {
            return Err(Failure::new(
                ExitCode::Interrupted,
                format!("interrupted before phase `{phase}` was proven gone"),
            ));
        }
        Ok(match (left, unasked) {
            (Some(left), _) => ResidueResult::Left(left),
            (None, Some(unasked)) => ResidueResult::Unprovable(unasked),
            (None, None) => ResidueResult::Clean,
        })
    }

    /// The definitions whose probes prove a phase gone, and the target's values for them.
    fn source_of_proof(&self, phase: &PhaseId) -> Option<PhaseSource> {
        if let Some(found) = self.phase_sources.get(phase) {
            return Some(found.clone());
        }
        Some(PhaseSource {
            source: std::sync::Arc::clone(self.today.as_ref()?),
            values: self.bench.target.values.clone(),
            called: phase.clone(),
        })
    }

    /// How many probes prove a phase gone.
    pub(crate) fn n_probes(&self, phase: &PhaseId) -> usize {
        self.source_of_proof(phase)
            .and_then(|found| Some(found.def()?.residue.len()))
            .unwrap_or_default()
    }

    /// Gives a step up: its state moves to its versions, its addresses are kept.
    pub(crate) fn forget_step(
        &self,
        step: &StepId,
        _: Forgetting,
    ) -> Result<Option<Detail>, Failure> {
        let forgotten = self
            .addresses(step)
            .unwrap_or_else(|failure| vec![format!("unknown: {}", failure.what)]);
        self.bench
            .server
            .backend()
            .retire(&step.key())
            .map_err(|error| stopped(&error))?;
        Ok(Some(Detail {
            forgotten,
            ..Detail::default()
        }))
    }

    /// The addresses in a step's state.
    pub(crate) fn addresses(&self, step: &StepId) -> Result<Vec<String>, Failure> {
        let Some(found) = self
            .bench
            .server
            .backend()
            .read_state(&step.key())
            .map_err(|error| stopped(&error))?
        else {
            return Ok(Vec::new());
        };
        let facts = tofu::StateFacts::read(&found.bytes).map_err(|error| stopped(&error))?;
        if !facts.is_encrypted {
            return Ok(self.masked_addresses(facts.addresses));
        }
        let sources = self.teardown_sources(step)?;
        let Some((source, recorded)) = sources.first() else {
            return Ok(Vec::new());
        };
        let (_, def) = match recorded {
            Some((_, applied)) => source.applied_step(step, applied)?,
            None => source.step(step)?,
        };
        let StepKind::Tofu(tofu) = &def.kind else {
            return Ok(Vec::new());
        };
        let session = self.bench.session(Wanted {
            step,
            source,
            def,
            tofu,
            slot: Slot::Tree,
            variables: std::collections::BTreeMap::new(),
            extras: match recorded {
                Some((_, applied)) => self.bench.extras(applied)?,
                None => None,
            },
            state_providers: std::collections::BTreeSet::new(),
            state: Some(GrantOptions {
                read_only: true,
                ..GrantOptions::default()
            }),
            state_of: None,
        })?;
        let facts = self.bench.facts(step, &session)?;
        Ok(self.masked_addresses(facts.addresses))
    }

    /// The addresses as they may be shown.
    fn masked_addresses(&self, addresses: Vec<String>) -> Vec<String> {
        addresses
            .iter()
            .map(|address| self.bench.masked(address))
            .collect()
    }
}

impl Bench<'_> {
    /// Whether an earlier call moved a step's state to its versions, once the step was proven gone, and was cut
    /// before the ledger said so. Only then is the recorded serial, or a later one, among the versions: what is
    /// overwritten in the course of things is older.
    pub(crate) fn was_retired(&self, step: &StepId, mark: &StateMark) -> Result<bool, Failure> {
        let backend = self.server.backend();
        let versions = backend
            .versions(&step.key())
            .map_err(|error| stopped(&error))?;
        for version in versions
            .iter()
            .filter(|version| version.serial >= mark.serial)
        {
            let kept = backend
                .read_version(version)
                .map_err(|error| stopped(&error))?;
            if kept.is_some_and(|kept| kept.header.lineage == mark.lineage) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a state may be somebody else's: it is not the recorded one, and no teardown of ours was cut that may have
/// written it.
fn is_anothers(found: Option<&StateMark>, recorded: &StateMark, was_cut: bool) -> bool {
    found != Some(recorded) && !was_cut
}

/// How often a destroy is tried again that met a conflict.
const CONFLICTS: u32 = 2;
/// How many pauses before such a try make up the time that a tool may be silent: 5 s each.
const CONFLICT_PAUSES: u32 = 24;

/// Whether a destroy failed for nothing but HTTP's 409: what is to go is in use by something that is on its way out.
fn is_conflict(error: &RunError) -> bool {
    let mut n_errors = 0;
    let all = error
        .diagnostics()
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .inspect(|_| n_errors += 1)
        .all(|diagnostic| says_conflict(&format!("{} {}", diagnostic.summary, diagnostic.detail)));
    all && n_errors > 0
}

/// Whether a text names 409 as a number of its own, and no other status that forbids.
fn says_conflict(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word == "409")
}

/// Why a teardown from one bundle came to nothing.
enum Teardown {
    /// An older bundle may do.
    OtherBundle(Failure),
    /// It failed.
    Failed(Failure, Option<Box<Detail>>),
}

impl From<Failure> for Teardown {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure, None)
    }
}

#[cfg(test)]
mod tests {
    use record::StateMark;

    use super::{is_anothers, says_conflict};

    #[test]
    fn what_a_cut_teardown_of_ours_emptied_is_not_another_s() {
        let mark = |serial| StateMark {
            lineage: "l".to_owned(),
            serial,
            digest: format!("{serial}"),
        };
        assert!(!is_anothers(Some(&mark(1)), &mark(1), false));
        assert!(is_anothers(Some(&mark(2)), &mark(1), false));
        assert!(!is_anothers(Some(&mark(2)), &mark(1), true));
    }

    #[test]
    fn a_conflict_is_a_number_of_its_own() {
        for (text, expected) in [
            (
                "Expected HTTP response code [204] but got 409 instead: RouterInUse",
                true,
            ),
            ("409-Conflict, the volume is attached", true),
            ("Error Message: 409", true),
            ("got 403 instead: forbidden", false),
            ("port 14090 is closed", false),
            ("", false),
        ] {
            assert_eq!(says_conflict(text), expected, "{text}");
        }
    }
}
