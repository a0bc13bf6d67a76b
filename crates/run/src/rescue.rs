//! States that a killed or failed apply could not write are brought to the store; the locks of the dead released.

use std::path::Path;
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId};
use platform::StepKind;
use process::{Identity, Liveness};
use record::StateMark;
use serde_json::Value;
use state_backend::{GrantOptions, Server, ServerOptions, StateBackend};
use store::lock::Hold;
use store::{MemoryStore, Writer};
use tofu::{ERRORED_STATE, Session, Slot, StateFacts, with_lineage};

use crate::bench::Bench;
use crate::error::stopped;
use crate::in_state::InState;
use crate::leftovers::Found;
use crate::standing::Standing;
use crate::tofu_work::{Wanted, tofu_failure};
use crate::ui::Notice;

impl Bench<'_> {
    /// Brings the states that a dead child of a step left to the store; says what the store has of it then.
    pub(crate) fn rescue(
        &self,
        found: &Found,
        standing: &Standing,
    ) -> Result<Option<StateMark>, Failure> {
        let Found {
            dir, step, errored, ..
        } = found;
        for path in errored {
            let bytes = std::fs::read(path).map_err(|error| stopped(&error))?;
            self.bring(step, standing, &bytes, path)?;
            std::fs::remove_file(path).map_err(|error| stopped(&error))?;
            self.tell_rescued(step);
        }
        if errored.is_empty()
            && let Some(emergency) = found
                .outcome()
                .and_then(|outcome| outcome.emergency_state.as_ref())
        {
            let from = dir.path().join(ERRORED_STATE);
            self.bring(step, standing, &emergency.0, &from)?;
            self.tell_rescued(step);
        }
        self.mark(step)
    }

    fn tell_rescued(&self, step: &StepId) {
        self.ui.tell(&Notice::Warning {
            message: format!(
                "the state that an apply of step `{step}` could not write was brought to the store"
            ),
            hint: None,
        });
    }

    /// The objects in a step's state as a record has them, whatever it takes to read them.
    pub(crate) fn objects_now(
        &self,
        step: &StepId,
        standing: &Standing,
    ) -> Result<InState, Failure> {
        if self.mark(step)?.is_none() {
            return Ok(InState::default());
        }
        let session = self.rescue_session(step, standing, false)?;
        let facts = self.facts(step, &session)?;
        Ok(InState::of(&facts, &self.masker))
    }

    /// A state lock whose holder is proven dead is released; any other is not.
    ///
    /// We hold the target's lock: a holder of an earlier boot of this machine was watched for a lease before that.
    pub(crate) fn release_locks_of_dead(&self) -> Result<(), Failure> {
        self.server
            .backend()
            .release_locks_of_dead(&|writer| {
                matches!(
                    writer.identity.liveness(),
                    Liveness::Dead | Liveness::OtherBoot
                )
            })
            .map_err(|error| stopped(&error))?;
        Ok(())
    }

    /// Brings one state to the store, byte for byte; one without a lineage is given one.
    fn bring(
        &self,
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
        let written = self.server.backend().write_rescued(&step.key(), bytes);
        if let Err(error) = written {
            return match self.is_stored(step, standing, bytes) {
                Ok(true) => Ok(()),
                Ok(false) => Err(cannot(stopped(&error))),
                Err(unread) => Err(cannot(stopped(&error).because(unread.what))),
            };
        }
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

    /// Whether the store has a state already, encrypted anew or under the lineage that it was given: its write had
    /// come through and the answer was lost, or a call was killed in the middle of its rescue.
    fn is_stored(&self, step: &StepId, standing: &Standing, bytes: &[u8]) -> Result<bool, Failure> {
        let key = step.key();
        let found = self.server.backend().read_state(&key);
        let Some(found) = found.map_err(|error| stopped(&error))? else {
            return Ok(false);
        };
        let stored = self.plain(&self.server, step, standing, &found.bytes)?;
        // Only OpenTofu reads an encrypted one, and only from a backend: it gets one that is in memory and ends here.
        let writer = Writer {
            identity: Identity::of_self().map_err(|error| stopped(&error))?,
            user: self.machine.user.clone(),
            host: self.machine.host.clone(),
            run: None,
        };
        let scratch = StateBackend::new(
            Arc::new(MemoryStore::new()),
            1,
            writer,
            Arc::new(|| Hold::Held),
        );
        scratch
            .write_rescued(&key, bytes)
            .map_err(|error| stopped(&error))?;
        let scratch = Server::start(Arc::new(scratch), ServerOptions::default())
            .map_err(|error| stopped(&error))?;
        let rescued = self.plain(&scratch, step, standing, bytes);
        scratch.stop();
        says_the_same(&stored, &rescued?).map_err(|error| stopped(&error))
    }

    /// A step's state in clear.
    fn plain(
        &self,
        server: &Server,
        step: &StepId,
        standing: &Standing,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        if !StateFacts::read(bytes)
            .map_err(|error| stopped(&error))?
            .is_encrypted
        {
            return Ok(bytes.to_vec());
        }
        let session = self.rescue_session_on(server, step, standing, false)?;
        let plain = session
            .state_pull()
            .map_err(|error| tofu_failure(&error, ExitCode::Stopped))?;
        Ok(plain.unwrap_or_default())
    }

    /// A session that can read, and where asked write, the state of a step as it was last attempted.
    pub(crate) fn rescue_session(
        &self,
        step: &StepId,
        standing: &Standing,
        writes: bool,
    ) -> Result<Session, Failure> {
        self.rescue_session_on(&self.server, step, standing, writes)
    }

    fn rescue_session_on(
        &self,
        server: &Server,
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
        let (_, def) = source.applied_step(step, &entry.applied)?;
        let StepKind::Tofu(tofu) = &def.kind else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("step `{step}` has no state"),
            ));
        };
        let source = Arc::clone(&source);
        let wanted = Wanted {
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
            state_of: None,
        };
        self.session_on(server, wanted)
    }
}

/// Whether two plain states name the same objects with the same values, and the same outputs.
pub(crate) fn says_the_same(one: &[u8], other: &[u8]) -> Result<bool, serde_json::Error> {
    let read = |bytes: &[u8]| -> Result<[Value; 3], serde_json::Error> {
        let mut state: Value = serde_json::from_slice(bytes)?;
        let mut parts = ["resources", "outputs", "check_results"].map(|part| state[part].take());
        in_order(&mut parts[2]);
        Ok(parts)
    };
    Ok(read(one)? == read(other)?)
}

/// Brings the results of checks into one order: OpenTofu gives them in another one each time (measured).
fn in_order(results: &mut Value) {
    if let Value::Array(results) = results {
        for result in results.iter_mut() {
            in_order(&mut result["objects"]);
        }
        results.sort_by_key(Value::to_string);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_compared_by_what_they_say() {
        let one = br#"{"serial":1,"lineage":"","resources":[{"name":"a"}],"outputs":{},"check_results":null}"#;
        let same = br#"{"lineage":"x","outputs":{},"serial":2,"resources":[{"name":"a"}],"check_results":null}"#;
        let other = br#"{"lineage":"","outputs":{},"serial":1,"resources":[{"name":"b"}],"check_results":null}"#;
        assert!(says_the_same(one, same).unwrap());
        assert!(!says_the_same(one, other).unwrap());
        assert!(says_the_same(one, b"").is_err());
    }

    #[test]
    fn checks_are_compared_in_whatever_order_they_are_told() {
        let one = br#"{"check_results":[{"config_addr":"a","objects":[{"object_addr":"a[0]"},{"object_addr":"a[1]"}]},{"config_addr":"b","objects":null}]}"#;
        let same = br#"{"check_results":[{"config_addr":"b","objects":null},{"config_addr":"a","objects":[{"object_addr":"a[1]"},{"object_addr":"a[0]"}]}]}"#;
        let other = br#"{"check_results":[{"config_addr":"b","objects":null}]}"#;
        assert!(says_the_same(one, same).unwrap());
        assert!(!says_the_same(one, other).unwrap());
    }

    #[test]
    fn a_new_lineage_is_a_random_uuid() {
        let lineage = new_lineage();
        let parts: Vec<usize> = lineage.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(lineage[14..].starts_with('4'), "{lineage}");
        assert_ne!(lineage, new_lineage());
    }
}
