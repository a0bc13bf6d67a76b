//! Taking a lock: from nobody, from the dead, or by a person's word.

use super::lease::{Lease, clock_ms};
use super::{Holder, HowTo, LockBody, LockError, TargetLock, fencing};
use crate::{ReadError, Store, Tag, layout, settle};
use process::Liveness;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a lock that changes hands is looked at again.
const MAX_ROUNDS: usize = 20;

/// What a caller may want to tell its user while a lock is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockNotice {
    /// One lease is waited, to see whether the holder shows life.
    Waiting {
        /// Who holds the lock; `None` where `lock.json` can't be read.
        holder: Option<Holder>,
        /// How long.
        lease: Duration,
    },
    /// The lock is taken from a holder that is dead or showed no life.
    TakingOver {
        /// From whom; `None` where `lock.json` can't be read.
        holder: Option<Holder>,
    },
}

/// Whose lock [`unlock`] removed.
///
/// The store is fenced from it. Calls that it or its children still make elsewhere are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The holder; `None` where `lock.json` could not be read.
    pub holder: Option<Holder>,
}

/// Who holds the target's lock, for `status`; `None` where nobody does.
///
/// # Errors
/// Where the store or `lock.json` can't be read.
pub fn inspect(store: &dyn Store) -> Result<Option<LockBody>, LockError> {
    match store.get(&layout::lock_json())? {
        None => Ok(None),
        Some(value) => LockBody::decode(&value.bytes, &store.describe()).map(Some),
    }
}

pub(super) fn acquire(
    store: Arc<dyn Store>,
    holder: Holder,
    lease: Duration,
    notify: &mut dyn FnMut(LockNotice),
) -> Result<TargetLock, LockError> {
    for _ in 0..MAX_ROUNDS {
        let Some(found) = store.get(&layout::lock_json())? else {
            match create(&store, &holder, lease)? {
                Some(lock) => return Ok(lock),
                None => continue,
            }
        };
        let body = LockBody::decode(&found.bytes, &store.describe())?;
        let held = |how_to| LockError::Held {
            holder: Box::new(body.holder.clone()),
            how_to,
        };
        match body.holder.identity.liveness() {
            Liveness::Dead => {}
            Liveness::Alive => {
                return Err(held(HowTo::WaitFor {
                    pid: body.holder.identity.pid,
                }));
            }
            Liveness::OtherMachine => return Err(held(HowTo::Unlock)),
            Liveness::OtherBoot => {
                notify(LockNotice::Waiting {
                    holder: Some(body.holder.clone()),
                    lease: body.lease(),
                });
                match watch(&*store, &found.tag, body.lease())? {
                    Sign::None => {}
                    Sign::Beat => return Err(held(HowTo::Unlock)),
                    Sign::Gone => continue,
                }
            }
        }
        notify(LockNotice::TakingOver {
            holder: Some(body.holder.clone()),
        });
        if let Some(lock) = take_over(&store, Some(&body), &found.tag, &holder, lease)? {
            return Ok(lock);
        }
    }
    Err(LockError::Contended {
        store: store.describe(),
    })
}

/// Removes the lock of a holder that a person knows to be dead.
///
/// Waits one lease (the longer of `lease` and the lock's own) by this machine's clock and refuses
/// if the holder showed life in it; a holder proven dead is not waited for. Then takes the lock
/// over, so that the stale holder's writes fail, and gives it up.
///
/// # Errors
/// [`LockError::NotLocked`] where nobody holds it, [`LockError::Beating`] where the holder lives.
pub fn unlock(
    store: Arc<dyn Store>,
    holder: Holder,
    lease: Duration,
    notify: &mut dyn FnMut(LockNotice),
) -> Result<Removed, LockError> {
    unlock_and(store, holder, lease, notify, &mut |_, _| {})
}

/// As [`unlock`]; `while_held` is called with the lock, while it is held, and with its former holder: whatever else
/// that one held can be given up too.
///
/// # Errors
/// As [`unlock`].
pub fn unlock_and(
    store: Arc<dyn Store>,
    holder: Holder,
    lease: Duration,
    notify: &mut dyn FnMut(LockNotice),
    while_held: &mut dyn FnMut(&TargetLock, Option<&Holder>),
) -> Result<Removed, LockError> {
    let not_locked = || LockError::NotLocked {
        store: store.describe(),
    };
    let found = store.get(&layout::lock_json())?.ok_or_else(not_locked)?;
    // A lock that can't be read can be removed all the same.
    let body = LockBody::decode(&found.bytes, &store.describe()).ok();
    let former = body.as_ref().map(|body| body.holder.clone());
    let is_dead = former
        .as_ref()
        .is_some_and(|former| former.identity.liveness() == Liveness::Dead);
    if !is_dead {
        let lease = body.as_ref().map_or(lease, |body| body.lease().max(lease));
        notify(LockNotice::Waiting {
            holder: former.clone(),
            lease,
        });
        match watch(&*store, &found.tag, lease)? {
            Sign::None => {}
            Sign::Gone => return Err(not_locked()),
            Sign::Beat => return Err(beating(&*store, former)),
        }
    }
    notify(LockNotice::TakingOver {
        holder: former.clone(),
    });
    match take_over(&store, body.as_ref(), &found.tag, &holder, lease)? {
        Some(lock) => {
            while_held(&lock, former.as_ref());
            lock.release()?;
        }
        None => return Err(beating(&*store, former)),
    }
    Ok(Removed { holder: former })
}

/// Names whoever holds the lock now; it need not be the one that was found first.
fn beating(store: &dyn Store, former: Option<Holder>) -> LockError {
    let now = inspect(store).ok().flatten().map(|body| body.holder);
    match now.or(former) {
        Some(holder) => LockError::Beating {
            holder: Box::new(holder),
        },
        None => LockError::Contended {
            store: store.describe(),
        },
    }
}

/// Takes a lock that nobody holds; `None` where someone was faster.
fn create(
    store: &Arc<dyn Store>,
    holder: &Holder,
    lease: Duration,
) -> Result<Option<TargetLock>, LockError> {
    let fence = fencing::of_head(&**store)? + 1;
    let body = LockBody::new(holder.clone(), fence, lease);
    let begun = clock_ms();
    match settle::put_if_absent(&**store, &layout::lock_json(), &body.encode()?) {
        Ok(tag) => {
            TargetLock::start(Lease::new(Arc::clone(store), body, tag, begun), true).map(Some)
        }
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes the version `tag` of a lock and shuts its holder out; `None` where it is another by now.
fn take_over(
    store: &Arc<dyn Store>,
    former: Option<&LockBody>,
    tag: &Tag,
    holder: &Holder,
    lease: Duration,
) -> Result<Option<TargetLock>, LockError> {
    let fence = former
        .map_or(0, |body| body.fence)
        .max(fencing::highest(&**store)?)
        + 1;
    let body = LockBody::new(holder.clone(), fence, lease);
    let begun = clock_ms();
    let tag = match settle::put_if_match(&**store, &layout::lock_json(), &body.encode()?, tag) {
        Ok(tag) => tag,
        Err(error) if error.is_conflict() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Renewal runs while the rewriting does, which may take longer than a lease.
    let mut lock = TargetLock::start(Lease::new(Arc::clone(store), body, tag, begun), false)?;
    fencing::rewrite_all(&**store, fence)?;
    lock.is_fenced = true;
    Ok(Some(lock))
}

/// What was seen of a holder in the time that it was watched.
enum Sign {
    None,
    Beat,
    Gone,
}

/// Watches the lock for one lease of this machine's own clock.
fn watch(store: &dyn Store, tag: &Tag, lease: Duration) -> Result<Sign, ReadError> {
    let key = layout::lock_json();
    let look = || {
        Ok(match store.get(&key)? {
            None => Sign::Gone,
            Some(found) if found.tag != *tag => Sign::Beat,
            Some(_) => Sign::None,
        })
    };
    let deadline = Instant::now() + lease;
    let interval = (lease / 20).clamp(Duration::from_millis(5), Duration::from_secs(1));
    // A store that can't be reached in between is no sign; it must answer at the end.
    let early = process::wait::until(deadline, interval, || match look() {
        Ok(sign @ (Sign::Beat | Sign::Gone)) => Some(sign),
        Ok(Sign::None) | Err(_) => None,
    });
    early.map_or_else(look, Ok)
}
