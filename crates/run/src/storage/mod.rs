//! Where a target's states are: in the store that `[store]` names, or, until phase 0 has made that one, in the spool
//! on this machine.

mod cloud;
mod home;
mod locks;
mod switch;
pub(crate) mod transfer;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phase_engine::{ExitCode, Failure, PhaseId, TargetName};
use platform::{Platform, StoreDef};
use record::{MovedTo, RecordError, RecordStore, TargetJson};
use store::lock::{Holder, TargetLock};
use store::{LocalStore, Store};

pub(crate) use cloud::Opener;
pub(crate) use home::Home;
pub(crate) use locks::CallLocks;
use switch::Switch;
use transfer::TransferError;

use crate::error::stopped;
use crate::open::locked;
use crate::paths::TargetPaths;

/// How long a bucket that phase 0 has made is waited for: some clouds tell of it a moment later.
const BUCKET_PATIENCE: Duration = Duration::from_secs(10);

/// Where the states of one target are.
pub(crate) struct Storage {
    switch: Arc<Switch>,
    /// What `[store]` names.
    named: Arc<dyn Store>,
    /// What stands in until phase 0 has made it; a local store needs none.
    spool: Option<Spool>,
    name: TargetName,
    platform: String,
    host: String,
    /// Whether the state of the phase that makes the store is being taken over: then a bucket that holds no target is one
    /// that was made before, and the spool begins the build.
    adopts: bool,
}

struct Spool {
    store: Arc<dyn Store>,
    dir: PathBuf,
    /// Whether a phase of today's definitions makes the store that is named.
    provided: bool,
}

/// The phase that makes the store, by these definitions.
pub(crate) fn providing_phase(platform: &Platform) -> Option<&PhaseId> {
    let first = platform.phases.first()?;
    first.provides_state.then_some(&first.id)
}

/// Whether an error says, definitely, that the bucket does not exist.
fn says_missing(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(cloud_store::Fault::BucketMissing { .. }) = error.downcast_ref() {
            return true;
        }
        next = error.source();
    }
    false
}

fn target_of(store: &Arc<dyn Store>) -> Result<Option<TargetJson>, RecordError> {
    let found = RecordStore::new(Arc::clone(store)).target()?;
    Ok(found.map(|loaded| loaded.value))
}

impl Storage {
    /// Names the stores of a target. Nothing is asked of them yet.
    ///
    /// # Errors
    /// What `[store]` says can't be used.
    pub(crate) fn open(
        opener: &Opener<'_>,
        paths: &TargetPaths,
        platform_name: &str,
        platform: Option<&Platform>,
    ) -> Result<Self, Failure> {
        let def = &opener.target.store;
        let named = opener.open(def, &paths.store())?;
        let spool = match def {
            StoreDef::Local { .. } => None,
            StoreDef::Cloud(_) => Some(Spool {
                store: store::watched(Arc::new(LocalStore::open(paths.spool()))),
                dir: paths.spool(),
                provided: platform.is_some_and(|platform| providing_phase(platform).is_some()),
            }),
        };
        Ok(Self {
            switch: Arc::new(Switch::new(Arc::clone(&named))),
            named,
            spool,
            name: opener.target.name.clone(),
            platform: platform_name.to_owned(),
            host: opener.machine.host.clone(),
            adopts: false,
        })
    }

    /// Lets the spool begin the build though the bucket is there: its maker's state is being taken over.
    pub(crate) fn adopting(self, adopts: bool) -> Self {
        Self { adopts, ..self }
    }

    /// The store that counts, also once it has changed.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.switch) as Arc<dyn Store>
    }

    /// The store that counts now, itself.
    pub(crate) fn current(&self) -> Arc<dyn Store> {
        self.switch.current()
    }

    /// What `[store]` names, whether it counts or not.
    pub(crate) fn named(&self) -> Arc<dyn Store> {
        Arc::clone(&self.named)
    }

    /// Between the look for the store that counts and its lock, a call may have moved everything.
    ///
    /// # Errors
    /// One has.
    pub(crate) fn still_counts(&self, counted: &Arc<dyn Store>) -> Result<(), Failure> {
        self.locate()?;
        if Arc::ptr_eq(&self.current(), counted) {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::Locked,
            format!(
                "another call has just moved the states of target `{}` to {}",
                self.name,
                self.current().describe()
            ),
        )
        .hint("type the same command again; nothing was touched"))
    }

    /// Finds out which store counts.
    ///
    /// Only a definite "the bucket does not exist" means "not yet".
    ///
    /// # Errors
    /// The store can't be read, or what it holds went to where this machine can't follow.
    pub(crate) fn locate(&self) -> Result<(), Failure> {
        let counts = self.counts()?;
        self.switch.set(counts);
        Ok(())
    }

    fn counts(&self) -> Result<Arc<dyn Store>, Failure> {
        let name = &self.name;
        let found = target_of(&self.named);
        let Some(spool) = &self.spool else {
            return match found.map_err(|error| self.unreadable(&error))? {
                Some(TargetJson {
                    moved_to: Some(to), ..
                }) => Err(self.gone_to(&to)),
                _ => Ok(Arc::clone(&self.named)),
            };
        };
        let spooled = || target_of(&spool.store).map_err(|error| stopped(&error));
        match found {
            Ok(Some(found)) => {
                let is_ours = found.platform == self.platform && found.target == *name;
                match &found.moved_to {
                    Some(to) if is_ours => match spooled()? {
                        Some(here) if here.id == found.id && here.moved_to.is_none() => {
                            Ok(Arc::clone(&spool.store))
                        }
                        _ => Err(self.gone_to(to)),
                    },
                    // Whose it is, is for the caller to judge.
                    _ => Ok(Arc::clone(&self.named)),
                }
            }
            Ok(None) if spooled()?.is_some() || (spool.provided && self.adopts) => {
                Ok(Arc::clone(&spool.store))
            }
            Ok(None) if spool.provided => Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "{} is there and holds no target, and this machine has no spool of target `{name}`",
                    self.named.describe()
                ),
            )
            .because(
                "phase 0 is to make the store, so its states are on the machine that made it, or nobody has them",
            )
            .hint(format!(
                "type the command again on the machine that began the build. If the bucket was made before, by plain \
                 OpenTofu: `rebuild state migrate` takes over the state of the step that made it. If it is made \
                 elsewhere for good, take `provides_state` out of the phase. Nothing was touched; target `{name}`"
            ))),
            Ok(None) => Ok(Arc::clone(&self.named)),
            Err(error) if says_missing(&error) => {
                if spool.provided || spooled()?.is_some() {
                    return Ok(Arc::clone(&spool.store));
                }
                Err(stopped(&error).hint(format!(
                    "make it, or mend `[store]` of targets/{name}.toml; where the first phase makes it, say \
                     `provides_state = true` there. Nothing was touched"
                )))
            }
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    fn unreadable(&self, error: &RecordError) -> Failure {
        stopped(error).hint(format!(
            "nothing was touched: whether target `{}` stands is not known until its store can be read. Mend the \
             network, the credentials or `[store]`, and type the command again",
            self.name
        ))
    }

    fn gone_to(&self, to: &MovedTo) -> Failure {
        let name = &self.name;
        Failure::new(
            ExitCode::Stopped,
            format!("the states of target `{name}` are not in {} any more", self.named.describe()),
        )
        .because(format!("they went to {}, by host `{}`", to.path, to.host))
        .hint(format!(
            "go on there: on host `{}`, or with a `[store]` in targets/{name}.toml that names it. Nothing was touched",
            to.host
        ))
    }

    /// Whether the store that counts is the one that `[store]` names.
    fn is_named(&self) -> bool {
        Arc::ptr_eq(&self.current(), &self.named)
    }

    /// Sweeps what a cut move left in the spool, once the named store counts and is locked.
    pub(crate) fn sweep(&self) -> Result<(), Failure> {
        let Some(spool) = self.spool.as_ref().filter(|_| self.is_named()) else {
            return Ok(());
        };
        let ours = target_of(&self.named).map_err(|error| stopped(&error))?;
        let stale = target_of(&spool.store).map_err(|error| stopped(&error))?;
        match (ours, stale) {
            // A build of its own: whoever made it has to say what becomes of it.
            (Some(ours), Some(stale)) if ours.id != stale.id => Ok(()),
            (None, Some(_)) => Ok(()),
            _ => transfer::empty(spool.store.as_ref()).map_err(|error| stopped(&error)),
        }
    }

    /// Takes the lock of the other store of a move; both are held from here on.
    fn lock_other(
        &self,
        store: &Arc<dyn Store>,
        locks: &CallLocks,
        holder: Holder,
    ) -> Result<(), Failure> {
        // Where everything moves there and back in one call, it is ours already.
        if locks.is_of(store) {
            return Ok(());
        }
        let lock = TargetLock::acquire(Arc::clone(store), holder, locks.lease(), &mut |_| {})
            .map_err(|error| locked(&error, &self.name))?;
        locks.add(Arc::clone(store), lock);
        Ok(())
    }

    /// Phase 0 has made the store: everything moves there from the spool. May be repeated.
    ///
    /// Returns the two stores, for people, where anything moved.
    pub(crate) fn made(
        &self,
        locks: &CallLocks,
        holder: Holder,
    ) -> Result<Option<(String, String)>, Failure> {
        let Some(spool) = self.spool.as_ref().filter(|_| !self.is_named()) else {
            return Ok(None);
        };
        let target = self.target_that_counts()?;
        self.await_bucket()?;
        transfer::may_take(&self.named, &target).map_err(|error| self.not_moved(&error))?;
        self.lock_other(&self.named, locks, holder)?;
        transfer::fill(&spool.store, &self.named, &target)
            .map_err(|error| self.not_moved(&error))?;
        self.switch.set(Arc::clone(&self.named));
        // What is left of the spool after this can't count any more; the next call sweeps it.
        transfer::empty(spool.store.as_ref()).map_err(|error| self.not_moved(&error))?;
        Ok(Some((spool.store.describe(), self.named.describe())))
    }

    /// The store is about to go with phase 0: everything moves back into the spool. May be repeated.
    ///
    /// Returns the two stores, for people, where anything moved.
    pub(crate) fn going(
        &self,
        locks: &CallLocks,
        holder: Holder,
    ) -> Result<Option<(String, String)>, Failure> {
        let Some(spool) = self.spool.as_ref().filter(|_| self.is_named()) else {
            return Ok(None);
        };
        let target = self.target_that_counts()?;
        self.lock_other(&spool.store, locks, holder)?;
        let to = MovedTo {
            host: self.host.clone(),
            path: format!("the directory `{}`", spool.dir.display()),
        };
        transfer::fill(&self.named, &spool.store, &target)
            .and_then(|_| transfer::point_to(&self.named, to))
            .map_err(|error| self.not_moved(&error))?;
        self.switch.set(Arc::clone(&spool.store));
        // Its lock must not be renewed into a bucket that is being emptied.
        locks.release_of(&self.named);
        Ok(Some((self.named.describe(), spool.store.describe())))
    }

    fn target_that_counts(&self) -> Result<TargetJson, Failure> {
        target_of(&self.current())
            .map_err(|error| stopped(&error))?
            .ok_or_else(|| {
                Failure::failed(format!(
                    "{} holds no `target.json`",
                    self.current().describe()
                ))
            })
    }

    /// Waits until the bucket is there.
    fn await_bucket(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + BUCKET_PATIENCE;
        let mut last = None;
        let found =
            process::wait::until(deadline, Duration::from_millis(500), || {
                match target_of(&self.named) {
                    Err(error) if says_missing(&error) => {
                        last = Some(error);
                        None
                    }
                    other => Some(other),
                }
            });
        match (found, last) {
            (Some(Ok(_)), _) => Ok(()),
            (Some(Err(error)), _) => Err(self.not_moved(&error.into())),
            (None, Some(error)) => Err(crate::error::failed(&error).hint(format!(
                "the phase is applied and did not make the bucket that `[store]` of targets/{}.toml names: mend one \
                 of the two, then `rebuild up --target {0} --resume`; until then the states are in the spool",
                self.name
            ))),
            (None, None) => Ok(()),
        }
    }

    fn not_moved(&self, error: &TransferError) -> Failure {
        let mut failure = crate::error::failed(error);
        failure.causes.insert(0, std::mem::take(&mut failure.what));
        failure.what = format!(
            "the states of target `{}` can't move; {} counts",
            self.name,
            self.current().describe()
        );
        failure
    }
}

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod tests;
