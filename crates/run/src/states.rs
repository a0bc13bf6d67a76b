//! The states in the store, as the steps of a call see them.

use phase_engine::{ExitCode, Failure, StepId};
use record::StateMark;
use tofu::{Session, StateFacts};

use crate::bench::Bench;
use crate::error::stopped;
use crate::tofu_work::tofu_failure;

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

    /// Facts of a step's state. An encrypted one is read by OpenTofu, through `session`.
    pub(crate) fn facts(&self, step: &StepId, session: &Session) -> Result<StateFacts, Failure> {
        let Some(found) = self
            .server
            .backend()
            .read_state(&step.key())
            .map_err(|error| stopped(&error))?
        else {
            return Ok(StateFacts::default());
        };
        let facts = StateFacts::read(&found.bytes).map_err(|error| stopped(&error))?;
        if !facts.is_encrypted {
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
        let keys = self
            .server
            .backend()
            .list_states()
            .map_err(|error| stopped(&error))?;
        keys.iter()
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
}
