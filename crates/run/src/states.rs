//! The states in the store, as the steps of a call see them.

use phase_engine::{ExitCode, Failure, PhaseId, StepId};
use record::{Record, StateMark};
use state_backend::BackendError;
use tofu::{Session, StateFacts};

use crate::bench::Bench;
use crate::error::stopped;
use crate::tofu_work::tofu_failure;
use crate::ui::Notice;

/// What a state's size says of an apply.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// More than half of what is taken.
    Little,
    /// More than nine tenths: what an apply adds might be refused at its end.
    None,
}

fn room(n_bytes: u64, most: u64) -> Room {
    match (n_bytes > most / 10 * 9, n_bytes > most / 2) {
        (true, _) => Room::None,
        (_, true) => Room::Little,
        _ => Room::Enough,
    }
}

impl Bench<'_> {
    /// What the store has of a step's state; `None` where there is none.
    pub(crate) fn mark(&self, step: &StepId) -> Result<Option<StateMark>, Failure> {
        let found = self
            .server
            .backend()
            .read_state(&step.key())
            .map_err(|error| stopped(&error))?;
        Ok(found.map(|state| StateMark {
            lineage: state.header.lineage,
            serial: state.header.serial,
            digest: state.header.digest,
        }))
    }

    /// Sees that a state can grow before it is applied to, so that no apply ends with a state that nobody takes. A teardown,
    /// which makes it smaller, is never kept from it.
    pub(crate) fn has_room(&self, step: &StepId) -> Result<(), Failure> {
        let backend = self.server.backend();
        let Some(found) = backend
            .read_body(&step.key())
            .map_err(|error| stopped(&error))?
        else {
            return Ok(());
        };
        let most = self.server.max_body() as u64;
        let mib = |n_bytes: u64| n_bytes / 1024 / 1024;
        let size = format!(
            "the state of step `{step}` has {} MiB, and {} are the most that are taken",
            mib(found.bytes.len()),
            mib(most)
        );
        match room(found.bytes.len(), most) {
            Room::Enough => Ok(()),
            Room::Little => {
                self.ui.tell(&Notice::Warning {
                    message: size,
                    hint: Some("part its root module before it is too big to be applied to".to_owned()),
                });
                Ok(())
            }
            Room::None => Err(Failure::new(ExitCode::Stopped, size).hint(
                "nothing was applied, so that no state is refused at the end of an apply: part the root module, or take out of the state what \
                 makes it big; `rebuild down` goes on",
            )),
        }
    }

    /// Takes the states as they are now for what their changes came to that have begun and whose end is not recorded:
    /// those of the machines that `is_over` says are at work no more. What such a change can't have made stays
    /// unexplained.
    pub(crate) fn settle_writings(
        &self,
        record: &mut Record,
        is_over: impl Fn(Option<&str>) -> bool,
    ) -> Result<(), Failure> {
        for entry in &mut record.standing {
            let Some(writing) = &entry.writing else {
                continue;
            };
            if is_over(writing.host.as_deref()) {
                let found = self.mark(&entry.step)?;
                entry.settle_writing(found);
            }
        }
        Ok(())
    }

    /// Facts of a step's state. An encrypted one is read by OpenTofu, through `session`.
    pub(crate) fn facts(&self, step: &StepId, session: &Session) -> Result<StateFacts, Failure> {
        self.facts_unless(step, session, |_| false)
    }

    /// The addresses that a destroy left in a step's state. OpenTofu is only asked where an encrypted one may hold some.
    pub(crate) fn left_in(&self, step: &StepId, session: &Session) -> Result<Vec<String>, Failure> {
        let facts = self.facts_unless(step, session, |bytes| {
            tofu::is_too_short_for_resources(bytes).unwrap_or_default()
        })?;
        Ok(facts.addresses)
    }

    /// Facts of a step's state; of an encrypted one that `is_enough` says is known well enough, what it says openly.
    fn facts_unless(
        &self,
        step: &StepId,
        session: &Session,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<StateFacts, Failure> {
        let Some(found) = self
            .server
            .backend()
            .read_state(&step.key())
            .map_err(|error| stopped(&error))?
        else {
            return Ok(StateFacts::default());
        };
        let facts = StateFacts::read(&found.bytes).map_err(|error| stopped(&error))?;
        if !facts.is_encrypted || is_enough(&found.bytes) {
            return Ok(facts);
        }
        match session
            .state_pull()
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?
        {
            Some(plain) => StateFacts::read(&plain).map_err(|error| stopped(&error)),
            None => Ok(StateFacts::default()),
        }
    }

    /// The steps that have a state in the store.
    pub(crate) fn stated(&self) -> Result<Vec<StepId>, Failure> {
        named(self.server.backend().list_states())
    }

    /// The steps of a phase that have a state in the store.
    pub(crate) fn stated_of(&self, phase: &PhaseId) -> Result<Vec<StepId>, Failure> {
        named(self.server.backend().list_states_of(phase.as_str()))
    }
}

fn named(keys: Result<Vec<String>, BackendError>) -> Result<Vec<StepId>, Failure> {
    keys.map_err(|error| stopped(&error))?
        .iter()
        .map(|key| {
            key.replacen('/', ".", 1).parse().map_err(|_| {
                Failure::new(
                    ExitCode::Stopped,
                    format!("the store has a state `{key}` that is no step's"),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_needs_room_for_its_state() {
        for (n_bytes, expected) in [
            (0, Room::Enough),
            (500, Room::Enough),
            (501, Room::Little),
            (900, Room::Little),
            (901, Room::None),
            (5000, Room::None),
        ] {
            assert_eq!(room(n_bytes, 1000), expected, "{n_bytes}");
        }
    }
}
