//! Before anything else of a call: what a killed one left. Its children are waited for, their states rescued, the
//! locks of the dead released.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, ResourceAddress, StepId};
use platform::StepKind;
use process::{Liveness, Waited, wait_until_dead};
use record::StateMark;
use secrets::MemoryDir;
use state_backend::GrantOptions;
use tofu::{ERRORED_STATE, Session, Slot, StateFacts, StepDir, with_lineage};

use crate::bench::Bench;
use crate::error::stopped;
use crate::standing::Standing;
use crate::stop::StopLevel;
use crate::tofu_work::{Wanted, tofu_failure};
use crate::ui::Notice;

/// What was found of one step.
#[derive(Debug)]
pub(crate) struct Rescued {
    /// The step.
    pub(crate) step: StepId,
    /// Its state as it is now, where that was brought to the store.
    pub(crate) state: Option<StateMark>,
    /// What may have been made and is in no state.
    pub(crate) suspects: BTreeSet<String>,
}

impl Bench<'_> {
    /// Waits for every child of a killed call that still lives. Never two at once.
    pub(crate) fn await_children(&self) -> Result<(), Failure> {
        for dir in self.workshop.steps().map_err(|error| stopped(&error))? {
            let Some(child) = dir.running_child().map_err(|error| stopped(&error))? else {
                continue;
            };
            if child.liveness != Liveness::Alive {
                continue;
            }
            let pid = child.identity.pid;
            self.ui.tell(&Notice::Waiting {
                what: format!(
                    "the end of process {pid}, which an earlier call started on step `{}` and which still runs",
                    dir.key().as_str().replacen('/', ".", 1)
                ),
            });
            let mut keep = || self.stop.level() < StopLevel::Gentle;
            if wait_until_dead(&child.identity, &mut keep) != Waited::Dead {
                return Err(Failure::new(
                    ExitCode::Interrupted,
                    format!("process {pid} of an earlier call still runs; nothing was changed"),
                ));
            }
        }
        Ok(())
    }

    /// Brings what dead children left to the store. Only after [`Bench::await_children`].
    pub(crate) fn rescue(&self, standing: &Standing) -> Result<Vec<Rescued>, Failure> {
        let mut found = Vec::new();
        for dir in self.workshop.steps().map_err(|error| stopped(&error))? {
            let Ok(step) = dir.key().as_str().replacen('/', ".", 1).parse::<StepId>() else {
                continue;
            };
            if let Some(rescued) = self.rescue_step(&dir, &step, standing)? {
                found.push(rescued);
            }
        }
        self.sweep();
        Ok(found)
    }

    fn rescue_step(
        &self,
        dir: &StepDir,
        step: &StepId,
        standing: &Standing,
    ) -> Result<Option<Rescued>, Failure> {
        let leftover = dir
            .leftover(&self.masker)
            .map_err(|error| stopped(&error))?;
        let errored = dir.errored_states().map_err(|error| stopped(&error))?;
        self.release_dead_lock(step)?;
        if leftover.is_none() && errored.is_empty() {
            return Ok(None);
        }
        let mut rescued = Rescued {
            step: step.clone(),
            state: None,
            suspects: BTreeSet::new(),
        };
        for path in &errored {
            let bytes = std::fs::read(path).map_err(|error| stopped(&error))?;
            self.bring(dir, step, standing, &bytes, path)?;
            std::fs::remove_file(path).map_err(|error| stopped(&error))?;
            self.ui.tell(&Notice::Warning {
                message: format!("the state that an apply of step `{step}` could not write was brought to the store"),
                hint: None,
            });
        }
        let outcome = leftover.and_then(|leftover| leftover.outcome);
        if errored.is_empty()
            && let Some(emergency) = outcome
                .as_ref()
                .and_then(|outcome| outcome.emergency_state.as_ref())
        {
            self.bring(
                dir,
                step,
                standing,
                &emergency.0,
                &dir.path().join(ERRORED_STATE),
            )?;
        }
        rescued.state = self.mark(step)?;
        if let Some(outcome) = &outcome {
            let mut suspects = outcome.suspects();
            if !suspects.is_empty() && rescued.state.is_some() {
                let session = self.rescue_session(step, standing, false)?;
                let facts = self.facts(step, &session)?;
                suspects.retain(|address| !facts.addresses.contains(address));
            }
            rescued.suspects = suspects
                .into_iter()
                .map(|address| self.masked(&address))
                .filter(|address| ResourceAddress::new(address.clone()).is_ok())
                .collect();
        }
        dir.clear_marker().map_err(|error| stopped(&error))?;
        Ok(Some(rescued))
    }

    /// A state lock whose holder is proven dead is released; any other is not.
    fn release_dead_lock(&self, step: &StepId) -> Result<(), Failure> {
        self.server
            .backend()
            .release_lock_of_dead(&step.key(), &|writer| {
                writer.identity.liveness() == Liveness::Dead
            })
            .map_err(|error| stopped(&error))?;
        Ok(())
    }

    /// Brings one state to the store, byte for byte; one without a lineage is given one.
    fn bring(
        &self,
        dir: &StepDir,
        step: &StepId,
        standing: &Standing,
        bytes: &[u8],
        from: &Path,
    ) -> Result<(), Failure> {
        let cannot = |failure: Failure| {
            let mut failure = failure;
            let why = std::mem::replace(
                &mut failure.what,
                format!("a state of step `{step}` that could not be written is not rescued"),
            );
            failure.causes.insert(0, why);
            failure.exit = ExitCode::Stopped;
            failure.hint = Some(format!(
                "going on would fork the state; keep `{}` and mend what stands in the way, then run the same command again",
                from.display()
            ));
            failure
        };
        let facts = StateFacts::read(bytes).map_err(|error| cannot(stopped(&error)))?;
        self.server
            .backend()
            .write_rescued(&dir.key().to_string(), bytes)
            .map_err(|error| cannot(stopped(&error)))?;
        if facts.lineage.is_empty() {
            let lineage = new_lineage();
            let session = self.rescue_session(step, standing, true).map_err(cannot)?;
            let failed = |error: &tofu::RunError| cannot(tofu_failure(error, ExitCode::Stopped));
            let plain = session
                .state_pull()
                .map_err(|error| failed(&error))?
                .unwrap_or_default();
            let mended = with_lineage(&plain, &lineage).map_err(|error| cannot(stopped(&error)))?;
            session
                .state_push(&mended)
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// A session that can read, and where asked write, the state of a step as it was last attempted.
    pub(crate) fn rescue_session(
        &self,
        step: &StepId,
        standing: &Standing,
        writes: bool,
    ) -> Result<Session, Failure> {
        let entry = standing.get(step).ok_or_else(|| {
            Failure::new(
                ExitCode::Stopped,
                format!("the record does not know step `{step}`"),
            )
        })?;
        let source = self.library.get(&entry.applied.bundle)?;
        let (_, def) = source.step(step)?;
        let StepKind::Tofu(tofu) = &def.kind else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("step `{step}` has no state"),
            ));
        };
        let source = Arc::clone(&source);
        self.session(Wanted {
            step,
            source: &source,
            def,
            tofu,
            slot: Slot::Tree,
            variables: std::collections::BTreeMap::new(),
            extras: self.extras(&entry.applied)?,
            state_providers: entry.applied.providers.keys().cloned().collect(),
            state: Some(GrantOptions {
                read_only: !writes,
                ..GrantOptions::default()
            }),
        })
    }

    /// Removes memory-backed directories of callers that are dead, but for those that a living child still uses.
    fn sweep(&self) {
        let in_use = used_by_children();
        let keep = |path: &Path, owner: &process::Identity| {
            owner.liveness() != Liveness::Dead || in_use.iter().any(|used| used.starts_with(path))
        };
        // What can't be removed now is tried by the next call.
        let _ = MemoryDir::sweep(&keep);
    }
}

/// Where the standard output of every living process goes: a child that outlived its caller writes there.
fn used_by_children() -> Vec<std::path::PathBuf> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(Result::ok)
        .filter_map(|process| std::fs::read_link(process.path().join("fd/1")).ok())
        .collect()
}

/// A new lineage, in the form that OpenTofu gives: a random UUID (version 4, RFC 9562).
fn new_lineage() -> String {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}
