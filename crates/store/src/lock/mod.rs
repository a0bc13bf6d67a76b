//! The target's lock: a lease that is renewed, with a fencing number.
//!
//! `lock.json` says who holds the target. Its holder rewrites it, with a higher `beat`, three times
//! a lease. Whether a holder is dead is judged without comparing two clocks:
//!
//! | the holder is | then |
//! |---|---|
//! | of this machine, boot and process namespace, and proven dead | its lock is taken over at once |
//! | of this machine's id, before another boot | one lease is waited; taken over if it did not beat (clones share an id) |
//! | anyone else | [`LockError::Held`] at once; [`unlock`] is for a person |
//!
//! Taking over first rewrites every mutable key of the target with a higher fencing number, and
//! only then reads. Version tags change with the number, so each conditional write that a stale
//! holder still has in hand fails.

mod acquire;
mod body;
mod error;
mod fencing;
mod lease;

pub use acquire::{LockNotice, Removed, inspect, unlock, unlock_and};
pub use body::{Holder, LockBody};
pub use error::{HowTo, LockError};
pub use lease::{Hold, LockHandle};

use crate::Store;
use lease::Lease;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a lock is held without a sign of life, unless the caller says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The target's lock, held until [`release`](Self::release) or drop.
#[derive(Debug)]
pub struct TargetLock {
    lease: Arc<Lease>,
    renewal: Option<JoinHandle<()>>,
    fence: u64,
    /// False while a take-over has not rewritten everything: such a lock must not be released, or
    /// the next holder would not know that the former one is still unfenced.
    is_fenced: bool,
}

impl TargetLock {
    /// Takes the lock, or says who holds it.
    ///
    /// Waits only where the holder is of this machine's id before another boot; `notify` is told
    /// so first.
    ///
    /// # Errors
    /// [`LockError::Held`] where someone else holds it or must be taken to.
    pub fn acquire(
        store: Arc<dyn Store>,
        holder: Holder,
        lease: Duration,
        notify: &mut dyn FnMut(LockNotice),
    ) -> Result<Self, LockError> {
        acquire::acquire(store, holder, lease, notify)
    }

    /// The fencing number: higher than that of every holder before.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether another has taken the lock, as far as the last renewal could tell.
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// What writers hold to ask before each write.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(&self.lease))
    }

    /// Names the run in the lock, once there is one.
    ///
    /// # Errors
    /// [`LockError::Lost`] where another has taken the lock. A store that can't be reached is no
    /// error: the name goes out with the next renewal.
    pub fn set_run(&self, run: &str) -> Result<(), LockError> {
        match self.lease.set_run(run) {
            Hold::Lost => Err(LockError::Lost {
                store: self.lease.store(),
            }),
            Hold::Held | Hold::Unsure => Ok(()),
        }
    }

    /// Gives the lock up.
    ///
    /// # Errors
    /// [`LockError::Lost`] where another has taken it; what the store said where it can't be
    /// reached (the lock then stays, and its holder will be found dead).
    pub fn release(mut self) -> Result<(), LockError> {
        self.stop();
        self.is_fenced = false; // Nothing left for drop to do.
        self.lease.delete()
    }

    fn start(lease: Lease, is_fenced: bool) -> Result<Self, LockError> {
        let fence = lease.fence();
        let lease = Arc::new(lease);
        let mut lock = Self {
            lease: Arc::clone(&lease),
            renewal: None,
            fence,
            is_fenced,
        };
        let renewal = std::thread::Builder::new()
            .name("lock renewal".to_owned())
            .spawn(move || lease.keep())
            .map_err(LockError::Thread)?;
        lock.renewal = Some(renewal);
        Ok(lock)
    }

    fn stop(&mut self) {
        self.lease.stop();
        if let Some(renewal) = self.renewal.take() {
            // A panic there has been printed; the lease is over either way.
            let _ = renewal.join();
        }
    }
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        self.stop();
        if self.is_fenced {
            // Best effort: a lock that stays is found to be a dead process's.
            let _ = self.lease.delete();
        }
    }
}

#[cfg(test)]
mod tests;
