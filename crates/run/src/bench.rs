//! What every step of a call works with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use phase_engine::{Failure, StepId};
use platform::{EnvValue, Target};
use record::{Decision, DecisionKind, Time};
use secrets::{Masker, MemoryDir, Secret, TargetKey};
use serde_json::Value;
use state_backend::Server;
use store::lock::Holder;
use tofu::{Control, Program, Wanted, Workshop};

use crate::api::Machine;
use crate::apply_step::Hearer;
use crate::environment::Environment;
use crate::library::Library;
use crate::paths::TargetPaths;
use crate::resolve;
use crate::scope::{CallScope, OutputBook};
use crate::secret_book::SecretBook;
use crate::stop::{StopLevel, StopRequests};
use crate::storage::{CallLocks, Storage};
use crate::ui::Ui;

/// The shared context of a call.
pub(crate) struct Bench<'m> {
    /// The machine.
    pub(crate) machine: &'m Machine,
    /// The operator's end.
    pub(crate) ui: Arc<dyn Ui>,
    /// What the operator's signals ask.
    pub(crate) stop: Arc<StopRequests>,
    /// The target.
    pub(crate) target: Target,
    /// Its secrets.
    pub(crate) secrets: SecretBook,
    /// Hides them.
    pub(crate) masker: Masker,
    /// Its key.
    pub(crate) key: Arc<TargetKey>,
    /// The `tofu` to run.
    pub(crate) program: Program,
    /// The target's working directory.
    pub(crate) workshop: Workshop,
    /// Memory-backed files of this call.
    pub(crate) memory: MemoryDir,
    /// The value of `TF_ENCRYPTION`.
    pub(crate) encryption: Option<Secret>,
    /// The state backend.
    pub(crate) server: Server,
    /// Definitions by bundle.
    pub(crate) library: Library,
    /// Outputs as they are now.
    pub(crate) outputs: OutputBook,
    /// Masked logs of this call.
    pub(crate) logs: PathBuf,
    /// What every step's environment begins with.
    pub(crate) env: Environment,
    /// Numbers memory-backed files.
    pub(crate) n_files: AtomicU64,
    /// Who hears the events of each step's commands.
    pub(crate) hearers: Mutex<BTreeMap<String, Arc<Hearer>>>,
    /// Held while a tree gets its files.
    pub(crate) placing: Mutex<()>,
    /// What a person agreed to at the terminal and is not in the record yet.
    pub(crate) consents: Consents,
    /// Where the states are.
    pub(crate) storage: Arc<Storage>,
    /// What this call holds.
    pub(crate) locks: Arc<CallLocks>,
    /// Who holds it.
    pub(crate) holder: Holder,
    /// The workspace of a handoff that this call works on, in place of the target's steps.
    pub(crate) workspace: Option<StepId>,
    /// Variables of that workspace that come from memory only, as sensitive ones.
    pub(crate) captured: Mutex<BTreeMap<String, Secret>>,
    /// Whether it is torn down without what it captured: the values are lost, and a person said so.
    pub(crate) without_captured: AtomicBool,
    /// Where this machine keeps what belongs to the target.
    pub(crate) paths: TargetPaths,
    /// How the target's hosts are reached, once that is known.
    pub(crate) ssh: Mutex<Option<handoff::SshSettings>>,
}

/// What a person agreed to, for whoever writes the record next.
pub(crate) type Consents = Arc<Mutex<Vec<Decision>>>;

impl Bench<'_> {
    /// Asks the person at the terminal, where there is one, whether these may be lost; a yes is recorded.
    pub(crate) fn agree_to_destroy(&self, step: &StepId, addresses: &[String]) -> bool {
        let agreed =
            self.ui.interactive() && self.ui.agree_to_destroy(&step.to_string(), addresses);
        if agreed {
            let decision = Decision {
                kind: DecisionKind::AllowDestroy,
                at: Time::from((self.machine.now)()),
                user: self.machine.user.clone(),
                about: Some(step.to_string()),
                reason: Some(
                    self.masked(&format!("agreed at the terminal: {}", addresses.join(", "))),
                ),
            };
            self.consents
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(decision);
        }
        agreed
    }

    /// The scope of today: the target's values, its secrets, outputs as they are now.
    pub(crate) fn scope<'a>(&'a self, values: &'a BTreeMap<String, Value>) -> CallScope<'a> {
        CallScope {
            values,
            secrets: &self.secrets,
            outputs: &self.outputs,
        }
    }

    /// The environment of a step or probe: the base, the target's `[env]`, then its own.
    pub(crate) fn env_of(
        &self,
        what: &str,
        own: &BTreeMap<String, EnvValue>,
        scope: &CallScope<'_>,
    ) -> Result<Environment, Failure> {
        resolve::env(
            what,
            &self.env,
            &[&self.target.env, own],
            &self.machine.env,
            scope,
        )
    }

    /// The control of one command, which has `timeout` at most.
    pub(crate) fn control(&self, timeout: Option<Duration>) -> Arc<StepControl> {
        Arc::new(StepControl {
            stop: Arc::clone(&self.stop),
            deadline: timeout.map(|timeout| Instant::now() + timeout),
        })
    }

    /// Makes who hears the events of a step's commands from now on.
    pub(crate) fn new_hearer(&self, key: &str) -> Arc<Hearer> {
        let hearer = Arc::new(Hearer::new(
            key.replacen('/', ".", 1),
            Arc::clone(&self.ui),
            self.masker.clone(),
        ));
        self.hearers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), Arc::clone(&hearer));
        hearer
    }

    /// Who hears the events of a step's commands.
    pub(crate) fn hearer_of(&self, key: &str) -> Option<Arc<Hearer>> {
        self.hearers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// The masked log of one act on a step.
    pub(crate) fn log(&self, step: &StepId, act: &str) -> PathBuf {
        self.logs.join(format!("{step}-{act}.log"))
    }
}

/// Passes the operator's signals, and a step's timeout, on to a running command.
pub(crate) struct StepControl {
    stop: Arc<StopRequests>,
    deadline: Option<Instant>,
}

impl Control for StepControl {
    fn wanted(&self) -> Wanted {
        match self.stop.level() {
            StopLevel::Kill => Wanted::Kill,
            StopLevel::Interrupt => Wanted::Interrupt,
            _ if self.is_over() => Wanted::Interrupt,
            _ => Wanted::Run,
        }
    }

    fn is_timeout(&self) -> bool {
        self.is_over() && self.stop.level() < StopLevel::Interrupt
    }
}

impl StepControl {
    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_timeout_interrupts_and_is_no_persons_wish() {
        let stop = Arc::new(StopRequests::new(None));
        let control = StepControl {
            stop: Arc::clone(&stop),
            deadline: Some(Instant::now()),
        };
        assert!(control.wanted() == Wanted::Interrupt && control.is_timeout());
        stop.ask();
        assert!(control.is_timeout(), "the first signal interrupts nothing");
        stop.ask();
        assert!(control.wanted() == Wanted::Interrupt && !control.is_timeout());
        stop.ask();
        assert_eq!(control.wanted(), Wanted::Kill);
    }
}
