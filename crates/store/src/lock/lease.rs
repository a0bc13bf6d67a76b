//! Keeping a lock: renewal, and what a writer asks before each write.

use super::{LockBody, LockError};
use crate::{Store, Tag, layout};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest pause between two renewals, however short the lease.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// What is known of a lock that this process took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It was ours less than a lease ago.
    Held,
    /// Another has taken it: never write again.
    Lost,
    /// It was not renewed for a lease, and the store can't be reached to tell.
    Unsure,
}

/// Asks about a lock without owning it; cheap to clone.
#[derive(Clone, Debug)]
pub struct LockHandle(Arc<Lease>);

impl LockHandle {
    pub(super) fn new(lease: Arc<Lease>) -> Self {
        Self(lease)
    }

    /// Whether this process may write now.
    ///
    /// Costs nothing while renewals go through. After a lease without one (the process was stopped,
    /// the machine slept, the store was away) the lock is renewed here and now, and the answer is
    /// what came of it.
    pub fn hold(&self) -> Hold {
        self.0.hold()
    }

    /// Whether another has taken the lock, as far as the last renewal could tell.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
}

struct State {
    body: LockBody,
    tag: Tag,
    stop: bool,
}

/// A lock that is held.
pub(super) struct Lease {
    store: Arc<dyn Store>,
    length: Duration,
    fence: u64,
    state: Mutex<State>,
    wake: Condvar,
    lost: AtomicBool,
    /// When the last successful renewal was begun, in milliseconds of [`clock_ms`].
    renewed_ms: AtomicU64,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("fence", &self.fence)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// The lease of a body that was written, begun at `begun_ms`.
    pub(super) fn new(store: Arc<dyn Store>, body: LockBody, tag: Tag, begun_ms: u64) -> Self {
        Self {
            store,
            length: body.lease(),
            fence: body.fence,
            state: Mutex::new(State {
                body,
                tag,
                stop: false,
            }),
            wake: Condvar::new(),
            lost: AtomicBool::new(false),
            renewed_ms: AtomicU64::new(begun_ms),
        }
    }

    pub(super) fn fence(&self) -> u64 {
        self.fence
    }

    pub(super) fn store(&self) -> String {
        self.store.describe()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Ends [`keep`](Self::keep).
    pub(super) fn stop(&self) {
        self.locked().stop = true;
        self.wake.notify_all();
    }

    /// Renews until stopped or lost.
    pub(super) fn keep(&self) {
        let mut pause = self.length / 3;
        let mut state = self.locked();
        loop {
            state = self
                .wake
                .wait_timeout_while(state, pause.max(MIN_PAUSE), |state| !state.stop)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if state.stop {
                return;
            }
            pause = match self.renew(&mut state) {
                Hold::Held => self.length / 3,
                Hold::Unsure => self.length / 9,
                Hold::Lost => return,
            };
        }
    }

    pub(super) fn hold(&self) -> Hold {
        if self.is_lost() {
            return Hold::Lost;
        }
        if self.is_fresh() {
            return Hold::Held;
        }
        let mut state = self.locked();
        if self.is_fresh() {
            return Hold::Held;
        }
        self.renew(&mut state)
    }

    pub(super) fn set_run(&self, run: &str) -> Hold {
        let mut state = self.locked();
        state.body.holder.run = Some(run.to_owned());
        self.renew(&mut state)
    }

    /// Deletes the lock if it is still ours.
    pub(super) fn delete(&self) -> Result<(), LockError> {
        let lost = || LockError::Lost {
            store: self.store.describe(),
        };
        if self.is_lost() {
            return Err(lost());
        }
        let key = layout::lock_json();
        let mut state = self.locked();
        let mut n_tries = 0;
        loop {
            let Err(error) = self.store.delete_if_match(&key, &state.tag) else {
                return Ok(());
            };
            n_tries += 1;
            let Some(found) = self.store.get(&key)? else {
                // Ours went with a try whose answer was lost; another's release looks the same.
                return Ok(());
            };
            if !self.is_ours(&found.bytes, &state) {
                self.lost.store(true, Ordering::Release);
                return Err(lost());
            }
            if n_tries > 3 {
                return Err(error.into());
            }
            // A renewal had landed whose answer was lost.
            state.tag = found.tag;
        }
    }

    fn is_fresh(&self) -> bool {
        let age = clock_ms().saturating_sub(self.renewed_ms.load(Ordering::Acquire));
        Duration::from_millis(age) < self.length
    }

    fn is_ours(&self, bytes: &[u8], state: &State) -> bool {
        LockBody::decode(bytes, "").is_ok_and(|found| found.nonce == state.body.nonce)
    }

    /// Writes the next beat. What is found is judged by the nonce, since answers get lost.
    fn renew(&self, state: &mut State) -> Hold {
        if self.is_lost() {
            return Hold::Lost;
        }
        let key = layout::lock_json();
        for _ in 0..3 {
            let begun = clock_ms();
            state.body.beat += 1;
            let Ok(body) = state.body.encode() else {
                return Hold::Unsure;
            };
            let is_conflict = match self.store.put_if_match(&key, &body, &state.tag) {
                Ok(tag) => {
                    state.tag = tag;
                    self.renewed_ms.store(begun, Ordering::Release);
                    return Hold::Held;
                }
                Err(error) => error.is_conflict(),
            };
            match self.store.get(&key) {
                Ok(Some(found)) if self.is_ours(&found.bytes, state) => {
                    state.tag = found.tag;
                    if found.bytes == body {
                        self.renewed_ms.store(begun, Ordering::Release);
                        return Hold::Held;
                    }
                    if !is_conflict {
                        return Hold::Unsure;
                    }
                    // An earlier beat had landed unseen; the next try has its tag.
                }
                Ok(_) => {
                    self.lost.store(true, Ordering::Release);
                    return Hold::Lost;
                }
                Err(_) => return Hold::Unsure,
            }
        }
        Hold::Unsure
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that only goes forward, sleep of the machine included where the system has such a one.
pub(super) fn clock_ms() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}
