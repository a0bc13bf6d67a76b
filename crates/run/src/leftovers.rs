//! Before anything else of a call: what a killed one left. Its children are waited for, and what they tell is kept.

use std::path::{Path, PathBuf};

use phase_engine::{ExitCode, Failure, ResourceAddress, StepId};
use platform::WORKSPACE_PHASE;
use process::{Exit, Identity, Liveness, Waited, wait_until_dead};
use record::{PlannedChange, Record, StandingEntry, StepRecord, Suspected};
use secrets::{Masker, MemoryDir};
use tofu::{ERRORED_STATE, Leftover, MayExist, Outcome, StateFacts, StepDir};

use crate::bench::Bench;
use crate::error::stopped;
use crate::masking;
use crate::stop::StopLevel;
use crate::ui::Notice;

/// How the name of a file begins that a child's output goes to, as the crate `tofu` makes it.
const OUTPUT: &str = "output-";

/// What a killed call left of one step.
pub(crate) struct Found {
    /// The step's directory.
    pub(crate) dir: StepDir,
    /// The step.
    pub(crate) step: StepId,
    /// Its child, now dead, and what that one told.
    pub(crate) leftover: Option<Leftover>,
    /// States that could not be written.
    pub(crate) errored: Vec<PathBuf>,
    /// What was to be such a state and is none: OpenTofu writes it in place, so a full disk or a kill leaves a part.
    pub(crate) broken: Vec<PathBuf>,
}

impl Found {
    /// What the child told, where its output is still there.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.leftover.as_ref()?.outcome.as_ref()
    }

    /// What the child may have made, before anybody has looked into its state.
    pub(crate) fn suspects(&self, record: Option<&Record>, masker: &Masker) -> Vec<Suspected> {
        let Some(leftover) = &self.leftover else {
            // Something was made, and nobody knows what.
            let unknown = self.broken.first().map(|_| Suspected::default());
            return unknown.into_iter().collect();
        };
        let of_step = record.and_then(|record| record.step(&self.step));
        if let Some(outcome) = &leftover.outcome {
            let mut outcome = outcome.clone();
            if !self.errored.is_empty() {
                // It came to its end by itself, and wrote down all that it had made.
                outcome.end(Exit::Code(1));
            }
            return suspected(outcome.may_exist(), of_step, masker);
        }
        if !leftover.suspects.is_empty() {
            return suspected(leftover.suspects.clone(), of_step, masker);
        }
        // What it told is lost with the memory that held it: the machine went down.
        let is_tofu_apply = leftover.identity.is_some()
            && leftover.command == "apply"
            && self.errored.is_empty()
            && record
                .and_then(|record| record.standing_of(&self.step))
                .is_some_and(StandingEntry::has_state);
        let planned = of_step
            .and_then(|step| step.planned.as_ref())
            .filter(|_| is_tofu_apply);
        let Some(planned) = planned else {
            return Vec::new();
        };
        let mut suspects: Vec<Suspected> =
            planned.changes.iter().map(planned_as_suspected).collect();
        if !planned.complete {
            suspects.push(Suspected::default());
        }
        suspects
    }
}

/// What may exist in no state, as a record has it; what the step's state had in its place is in the plan.
pub(crate) fn suspected(
    found: Vec<MayExist>,
    of_step: Option<&StepRecord>,
    masker: &Masker,
) -> Vec<Suspected> {
    let found = found.into_iter().filter_map(|one| {
        let address = masking::address(masker, ResourceAddress::new(one.address).ok()?);
        let had = of_step.filter(|_| one.is_made);
        let found = Suspected {
            was: had.and_then(|step| step.had(&address)),
            address: Some(address),
            provider: one.provider,
            id: one.id,
        };
        Some(masking::suspected(masker, found))
    });
    found.collect()
}

/// What was planned to be made on a machine that nobody hears of any more.
pub(crate) fn planned_as_suspected(change: &PlannedChange) -> Suspected {
    Suspected {
        address: Some(change.address.clone()),
        provider: change.provider.clone(),
        id: None,
        was: change.was.clone(),
    }
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

    /// Finds what dead children left. Only after [`Bench::await_children`].
    pub(crate) fn leftovers(&self) -> Result<Vec<Found>, Failure> {
        let mut found = Vec::new();
        for dir in self.workshop.steps().map_err(|error| stopped(&error))? {
            let Ok(step) = dir.key().as_str().replacen('/', ".", 1).parse::<StepId>() else {
                continue;
            };
            // What is left of another workspace, or of the target's own steps, is in another record.
            let is_own = match &self.workspace {
                Some(own) => step == *own,
                None => step.phase.as_str() != WORKSPACE_PHASE,
            };
            if !is_own {
                continue;
            }
            let leftover = dir
                .leftover(&self.masker)
                .map_err(|error| stopped(&error))?;
            let mut errored = Vec::new();
            let mut broken = Vec::new();
            for path in dir.errored_states().map_err(|error| stopped(&error))? {
                let bytes = std::fs::read(&path).map_err(|error| stopped(&error))?;
                match StateFacts::read(&bytes) {
                    Ok(_) => errored.push(path),
                    Err(_) => broken.push(path),
                }
            }
            if leftover.is_some() || !errored.is_empty() || !broken.is_empty() {
                found.push(Found {
                    dir,
                    step,
                    leftover,
                    errored,
                    broken,
                });
            }
        }
        Ok(found)
    }

    /// Forgets what ended acts of these steps may have made: the record has it.
    pub(crate) fn forget_ended<'s>(&self, steps: impl IntoIterator<Item = &'s StepId>) {
        for step in steps {
            // What can't be removed is recorded once more by the next call.
            if let Ok(dir) = self.step_dir(step) {
                let _ = dir.forget_ended();
            }
        }
    }

    /// Forgets what dead children left, once all of it is in the record and the store.
    pub(crate) fn forget_leftovers(&self, found: &[Found]) -> Result<(), Failure> {
        for Found {
            dir,
            leftover,
            step,
            broken,
            ..
        } in found
        {
            for path in broken {
                self.set_aside(dir, step, path)?;
            }
            match leftover {
                Some(leftover) => dir.forget_leftover(leftover),
                None => dir.clear_marker(),
            }
            .map_err(|error| stopped(&error))?;
        }
        sweep();
        Ok(())
    }
}

impl Bench<'_> {
    /// Keeps what is no state out of the way of the next apply, for whoever wants to look at it.
    fn set_aside(&self, dir: &StepDir, step: &StepId, path: &Path) -> Result<(), Failure> {
        let kept = dir.path().join(format!("{ERRORED_STATE}.broken"));
        std::fs::rename(path, &kept).map_err(|error| stopped(&error))?;
        self.ui.tell(&Notice::Warning {
            message: format!(
                "the state that an apply of step `{step}` could not write is cut off, and is kept as `{}`",
                kept.display()
            ),
            hint: Some(
                "where the apply's output did not hold it either, what it had made is among the suspects".to_owned(),
            ),
        });
        Ok(())
    }
}

/// Removes memory-backed directories of callers that are dead, but for those that a living child still uses.
///
/// What a dead child told is read by the next call on its own target: until then its output is kept, and nothing else.
pub(crate) fn sweep() {
    let kept_by_children = owners_of_outputs();
    let keep = |dir: &Path, owner: &Identity| {
        is_in_use(owner, &kept_by_children) || left_with_output_only(dir)
    };
    // What can't be removed now is tried by the next call.
    let _ = MemoryDir::sweep(&keep);
}

/// Whether an owner's memory-backed directories are still used: by itself, or by a child that it left behind, of
/// whatever target. Such a child's output goes to one of them, its key and its values lie in others: it keeps all.
fn is_in_use(owner: &Identity, kept_by_children: &[Identity]) -> bool {
    owner.liveness() != Liveness::Dead || kept_by_children.contains(owner)
}

/// Whose memory-backed directories the outputs of living processes go to.
fn owners_of_outputs() -> Vec<Identity> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut owners: Vec<Identity> = Vec::new();
    for process in processes.filter_map(Result::ok) {
        if let Ok(output) = std::fs::read_link(process.path().join("fd/1"))
            && let Some(owner) = MemoryDir::owner_of(&output)
            && !owners.contains(&owner)
        {
            owners.push(owner);
        }
    }
    owners
}

/// Removes what is in a dead caller's directory but for a child's output that nobody has read yet; says whether there
/// is one.
fn left_with_output_only(dir: &Path) -> bool {
    let is_output = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(OUTPUT))
    };
    let Ok(entries) = std::fs::read_dir(dir) else {
        return false;
    };
    let files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect();
    if !files.iter().any(|file| is_output(file)) {
        return false;
    }
    let others = files
        .iter()
        .filter(|file| !is_output(file) && !MemoryDir::names_owner(file));
    for file in others {
        // Best effort, like the sweep itself.
        let _ = std::fs::remove_file(file).or_else(|_| std::fs::remove_dir_all(file));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_dead_call_only_the_output_that_nobody_has_read_is_kept() {
        let dir = MemoryDir::create("test").unwrap();
        let values = dir.write("variables.tfvars.json", b"{}").unwrap();
        assert!(!left_with_output_only(dir.path()), "swept as a whole");
        assert!(values.exists());
        let output = dir.write("output-apply-0", b"{}").unwrap();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        assert!(left_with_output_only(dir.path()));
        assert!(output.exists() && !values.exists() && !dir.path().join("tmp").exists());
        assert!(
            MemoryDir::owner_of(&output).is_some(),
            "it is still somebody's"
        );
    }

    #[test]
    fn a_living_child_keeps_every_directory_of_its_dead_owner() {
        let me = Identity::of_self().unwrap();
        let dead = Identity {
            start_time: me.start_time + 1,
            ..me.clone()
        };
        let other = Identity {
            start_time: me.start_time + 2,
            ..me.clone()
        };
        assert!(is_in_use(&me, &[]), "the owner lives");
        assert!(!is_in_use(&dead, &[]));
        assert!(is_in_use(&dead, std::slice::from_ref(&dead)));
        assert!(!is_in_use(&other, &[dead]), "another dead owner's");
    }
}
