//! Step 3 of `up`: `init` and `validate` of every root module in parallel, before anything is applied.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use phase_engine::{ExitCode, Failure};
use platform::{StepDef, StepKind, TofuStep};
use process::files::write_passing;
use state_backend::GrantOptions;
use tofu::{InitFailure, RunError, Slot};

use crate::library::Source;
use crate::stop::StopLevel;
use crate::tofu_work::{Wanted, tofu_failure};
use crate::ui::Notice;
use crate::world::TargetWorld;

impl TargetWorld<'_, '_> {
    /// Makes every root module of today's definitions ready, and finds what is wrong with them.
    ///
    /// # Errors
    /// One failure for all of them: a mistake in the last phase is found before the first is applied.
    pub(crate) fn prepare_all(&self) -> Result<(), Failure> {
        let today = Arc::clone(self.today()?);
        if today
            .platform
            .steps()
            .any(|def| matches!(def.kind, StepKind::Talos(_)))
        {
            self.bench.demand_talosctl(&today.platform)?;
        }
        self.bench.demand_handoff(&today.platform)?;
        let steps: Vec<(&StepDef, &TofuStep)> = today
            .platform
            .steps()
            .filter_map(|def| match &def.kind {
                StepKind::Tofu(tofu) => Some((def, tofu)),
                _ => None,
            })
            .collect();
        let next = AtomicUsize::new(0);
        let failures: Mutex<Vec<(usize, Failure)>> = Mutex::new(Vec::new());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((def, tofu)) = steps.get(index) else {
                    return;
                };
                if self.bench.stop.level() >= StopLevel::Gentle {
                    let stopped = Failure::new(
                        ExitCode::Interrupted,
                        "interrupted before anything was applied",
                    );
                    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                    add_interrupt(&mut failures, index, stopped);
                    return;
                }
                if let Err(failure) = self.prepare_one(&today, def, tofu) {
                    failures
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, failure));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs.min(steps.len()) {
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let mut failures = failures
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(|(index, _)| *index);
        merged(failures.into_iter().map(|(_, failure)| failure))
    }

    fn prepare_one(
        &self,
        today: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<(), Failure> {
        let step = &def.id;
        let entry = self.standing_for(step);
        // While something stands from other definitions, its tree is preflight's; today's lie beside it.
        let slot = match &entry {
            Some(entry)
                if entry
                    .as_applied()
                    .is_none_or(|applied| applied.bundle != today.bundle.digest()) =>
            {
                Slot::Beside
            }
            _ => Slot::Tree,
        };
        let applied = entry.as_ref().map(|entry| &entry.applied);
        let session = self.bench.session(Wanted {
            step,
            source: today,
            def,
            tofu,
            slot,
            variables: std::collections::BTreeMap::new(),
            extras: if self.upgrade.is_some() {
                None
            } else {
                self.extras_today(step, applied)?
            },
            state_providers: applied
                .map(|applied| applied.providers.keys().cloned().collect())
                .unwrap_or_default(),
            state: Some(GrantOptions::default()),
            state_of: None,
        })?;
        let report = match &self.upgrade {
            None => session.init(false),
            Some(_) => session.init(true),
        };
        let report = report.map_err(|error| unusable_init(&error))?;
        if let Some(upgrade) = &self.upgrade {
            let committed = today.bundle.file(&crate::tofu_work::lock_file_of(tofu));
            let committed = committed.map(|file| file.bytes.as_slice());
            let former = match applied {
                Some(applied) => self.bench.extras(applied)?,
                None => None,
            };
            let modules = session
                .downloaded_modules()
                .map_err(|error| tofu_failure(&error, ExitCode::Unusable))?;
            upgrade.keep(
                step,
                committed,
                &report,
                modules,
                applied,
                former.as_deref(),
            );
        }
        self.bench.ui.tell(&Notice::Init {
            step: step.to_string(),
            warm: report.was_warm,
        });
        let passed = Passed::of(self.bench.workshop.root().join("validated.json"));
        let proof = format!(
            "{}\n{}\n{}",
            self.bench.program.digest,
            today.bundle.definition_digest(&today.platform, def),
            String::from_utf8_lossy(report.lock_file.as_deref().unwrap_or_default()),
        );
        let proof = store::sha256_hex(proof.as_bytes());
        if passed.has(&proof) {
            return Ok(());
        }
        let diagnostics = session
            .validate()
            .map_err(|error| tofu_failure(&error, ExitCode::Unusable))?;
        let errors: Vec<_> = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .collect();
        if errors.is_empty() {
            passed.add(proof);
            return Ok(());
        }
        let mut failure = Failure::new(
            ExitCode::Unusable,
            format!("root module `{}` of step `{step}` is not valid", tofu.root),
        );
        for diagnostic in errors {
            failure = failure.because(self.bench.masked(&diagnostic.to_string()));
        }
        Err(failure.hint("mend the definitions; nothing was applied"))
    }
}

/// One of those who work at once says for all of them that they were interrupted.
fn add_interrupt(failures: &mut Vec<(usize, Failure)>, index: usize, stopped: Failure) {
    if !failures.iter().any(|(_, failure)| failure.is_interrupt()) {
        failures.push((index, stopped));
    }
}

/// One failure of several: what the others say is a cause of the first.
fn merged(failures: impl IntoIterator<Item = Failure>) -> Result<(), Failure> {
    let mut failures = failures.into_iter();
    let Some(mut first) = failures.next() else {
        return Ok(());
    };
    for failure in failures {
        first.causes.push(failure.what);
        first.causes.extend(failure.causes);
    }
    Err(first)
}

/// A failed `init`: a surplus entry of a lock file is a definitions fault, and named.
fn unusable_init(error: &RunError) -> Failure {
    let mut failure = tofu_failure(error, ExitCode::Unusable);
    if let Some(InitFailure::LockFile { surplus, missing }) = error.init_failure() {
        for address in surplus {
            failure = failure.because(format!(
                "the dependency lock file has a surplus entry for `{address}`"
            ));
        }
        for address in missing {
            failure = failure.because(format!(
                "the dependency lock file has no entry for `{address}`"
            ));
        }
        failure = failure.hint("run `tofu init` in the root module and commit its lock file");
    } else {
        failure = failure.hint("nothing was applied");
    }
    failure
}

/// Definitions that passed `validate` on this machine, with the tool and providers of then.
struct Passed {
    path: PathBuf,
}

/// Read and written whole, by several threads of this process.
static PASSED: Mutex<()> = Mutex::new(());

/// More are not kept: the oldest in sort order go, which costs a `validate`.
const MAX_PASSED: usize = 500;

impl Passed {
    fn of(path: PathBuf) -> Self {
        Self { path }
    }

    fn read(&self) -> BTreeSet<String> {
        std::fs::read(&self.path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn has(&self, proof: &str) -> bool {
        self.read().contains(proof)
    }

    /// One that can't be kept costs a `validate` the next time.
    fn add(&self, proof: String) {
        let _held = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.read();
        if all.len() >= MAX_PASSED {
            all.pop_first();
        }
        all.insert(proof);
        if let Ok(bytes) = serde_json::to_vec(&all) {
            let _ = write_passing(&self.path, &bytes, 0o600);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_of_several_at_once_is_told_once() {
        let stopped = || Failure::new(ExitCode::Interrupted, "interrupted");
        let mut failures = vec![(0, Failure::new(ExitCode::Unusable, "a.tf is wrong"))];
        for index in 1..4 {
            add_interrupt(&mut failures, index, stopped());
        }
        let all = merged(failures.into_iter().map(|(_, failure)| failure)).unwrap_err();
        assert_eq!(
            (all.what.as_str(), all.exit),
            ("a.tf is wrong", ExitCode::Unusable)
        );
        assert_eq!(all.causes, ["interrupted"]);
        let mut alone = Vec::new();
        add_interrupt(&mut alone, 2, stopped());
        add_interrupt(&mut alone, 1, stopped());
        let alone = merged(alone.into_iter().map(|(_, failure)| failure)).unwrap_err();
        assert!(
            alone.causes.is_empty(),
            "no cause that says what it is a cause of"
        );
        assert!(merged([]).is_ok());
    }
}
