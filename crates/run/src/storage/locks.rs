//! The locks of a call: one, or two while its states move from one store to another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::Store;
use store::lock::{Hold, LockError, TargetLock};

/// What a call holds; its writes go on only while it holds all of it.
pub(crate) struct CallLocks {
    fence: u64,
    lease: Duration,
    held: Mutex<Vec<Held>>,
}

/// The lock of one store.
type Held = (Arc<dyn Store>, TargetLock);

impl CallLocks {
    /// Begins with the lock of the store that counts.
    pub(crate) fn new(store: Arc<dyn Store>, lock: TargetLock, lease: Duration) -> Self {
        Self {
            fence: lock.fence(),
            lease,
            held: Mutex::new(vec![(store, lock)]),
        }
    }

    /// The fencing number of the call. It goes with the values into another store, where nobody has a higher one.
    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    /// How long each lock is good for without a renewal.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// The worst that is known of any of them.
    pub(crate) fn hold(&self) -> Hold {
        let held = self.held();
        let mut worst = if held.is_empty() {
            Hold::Lost
        } else {
            Hold::Held
        };
        for (_, lock) in held.iter() {
            match lock.handle().hold() {
                Hold::Lost => return Hold::Lost,
                Hold::Unsure => worst = Hold::Unsure,
                Hold::Held => {}
            }
        }
        worst
    }

    /// Names the run in each.
    pub(crate) fn set_run(&self, run: &str) -> Result<(), LockError> {
        self.held()
            .iter()
            .try_for_each(|(_, lock)| lock.set_run(run))
    }

    /// Whether it holds the lock of this store.
    pub(crate) fn is_of(&self, store: &Arc<dyn Store>) -> bool {
        self.held().iter().any(|(of, _)| Arc::ptr_eq(of, store))
    }

    /// Holds one more.
    pub(crate) fn add(&self, store: Arc<dyn Store>, lock: TargetLock) {
        self.held().push((store, lock));
    }

    /// Gives up the lock of a store that does not count any more.
    pub(crate) fn release_of(&self, store: &Arc<dyn Store>) {
        let found = {
            let mut held = self.held();
            let at = held.iter().position(|(of, _)| Arc::ptr_eq(of, store));
            at.map(|at| held.remove(at))
        };
        if let Some((_, lock)) = found {
            // Nobody waits for it: its store says where everything went.
            let _ = lock.release();
        }
    }

    /// Gives all of them back.
    pub(crate) fn release(&self) -> Result<(), LockError> {
        let held = std::mem::take(&mut *self.held());
        let mut result = Ok(());
        for (_, lock) in held {
            result = result.and(lock.release());
        }
        result
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
