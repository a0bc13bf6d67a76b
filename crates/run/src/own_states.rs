//! Root modules that keep a state by themselves: a fault of the definitions until this target has taken it over.

use phase_engine::Failure;
use platform::{Fault, Faults, Platform, StepKind};
use record::{Record, RecordStore};

use crate::error::stopped;
use crate::storage::Storage;

/// The faults that a platform's own states are until this target has taken them over; none where it has no such state
/// left. Only then is the store looked at.
///
/// # Errors
/// There is such a state, and the record that knows whether it was taken over can't be read.
pub(crate) fn not_taken_over(
    storage: &Storage,
    platform: &Platform,
) -> Result<Option<Faults>, Failure> {
    let own = platform::own_states(platform);
    if own.is_empty() {
        return Ok(None);
    }
    storage.locate()?;
    let current = RecordStore::new(storage.current())
        .current()
        .map_err(|error| stopped(&error))?;
    let faults = left(own, platform, current.as_ref().map(|loaded| &loaded.value));
    Ok((!faults.is_empty()).then(|| Faults::of(faults)))
}

/// The faults of root modules of which a step was not taken over.
fn left(own: Vec<(String, Fault)>, platform: &Platform, record: Option<&Record>) -> Vec<Fault> {
    let is_left = |root: &str| {
        platform.steps().any(|step| {
            matches!(&step.kind, StepKind::Tofu(tofu) if tofu.root == root)
                && record
                    .and_then(|record| {
                        let own = record.standing_of(&step.id);
                        // One that is about to take its place has that one's state.
                        own.or_else(|| record.standing_of(step.moved_from.as_ref()?))
                    })
                    .is_none_or(|entry| entry.adopted.is_none())
        })
    };
    own.into_iter()
        .filter(|(root, _)| is_left(root))
        .map(|(_, fault)| fault)
        .collect()
}
