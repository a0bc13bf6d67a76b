//! Points that are counted, told, and may hurt.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use crate::orders::Orders;
use crate::way::Way;
use crate::{Verdict, place};

/// Between two signals: as short as a person can press a key twice, and long enough that the first was heard.
const BETWEEN: Duration = Duration::from_millis(150);
const DAY: i64 = 24 * 60 * 60;

static ARMED: OnceLock<Mutex<Armed>> = OnceLock::new();
static IS_ARMED: AtomicBool = AtomicBool::new(false);
static SKEW: AtomicI64 = AtomicI64::new(0);

struct Armed {
    orders: Orders,
    log: Option<File>,
    passed: HashMap<String, usize>,
    children: BTreeSet<u32>,
    /// Writes fail from now on, with this.
    disk: Option<ErrorKind>,
    /// The store answers nothing any more.
    away: bool,
    /// Until then the store answers nothing.
    hangs: Option<Instant>,
}

fn locked() -> Option<MutexGuard<'static, Armed>> {
    if !IS_ARMED.load(Ordering::Acquire) {
        return None;
    }
    let armed = ARMED.get()?;
    Some(armed.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Lets this process follow orders from now on; the first ones count.
pub fn arm(orders: Orders) {
    place::at(orders.place.clone());
    let log = orders.log.as_ref().and_then(|path| {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.open(path).ok()
    });
    let _ = ARMED.set(Mutex::new(Armed {
        orders,
        log,
        passed: HashMap::new(),
        children: BTreeSet::new(),
        disk: None,
        away: false,
        hangs: None,
    }));
    IS_ARMED.store(true, Ordering::Release);
}

/// Whether this process follows orders.
#[must_use]
pub fn is_armed() -> bool {
    IS_ARMED.load(Ordering::Acquire)
}

/// Passes a point; `about` says what it is about, in words that are the same in every run.
pub fn point(name: &'static str, about: impl FnOnce() -> String) -> Verdict {
    let Some(mut armed) = locked() else {
        return Verdict::Go;
    };
    let about = about();
    let text = if about.is_empty() {
        name.to_owned()
    } else {
        format!("{name} {about}")
    };
    let nth = armed.pass(&text);
    let aims = armed.orders.aims.iter();
    let ways: Vec<Way> = aims
        .filter(|aim| aim.point == text && aim.nth == nth)
        .map(|aim| aim.way)
        .collect();
    let mut verdict = Verdict::Go;
    for way in ways {
        verdict = armed.hurt(way, name);
        if let Way::Int2 | Way::Int3 = way {
            drop(armed);
            for _ in 1..if way == Way::Int2 { 2 } else { 3 } {
                pause(BETWEEN);
                signal_self(Signal::INT);
            }
            let Some(again) = locked() else {
                return Verdict::Go;
            };
            armed = again;
        }
    }
    if let Verdict::Go = verdict {
        verdict = armed.standing(name);
    }
    let hangs = armed.hangs.filter(|_| name.starts_with("store."));
    drop(armed);
    if let Some(until) = hangs {
        pause(until.saturating_duration_since(Instant::now()));
    }
    verdict
}

impl Armed {
    fn pass(&mut self, text: &str) -> usize {
        let nth = self.passed.entry(text.to_owned()).or_default();
        *nth += 1;
        let nth = *nth;
        if let Some(log) = &mut self.log {
            // One write: what a kill cuts is a whole line or none.
            let _ = log.write_all(format!("{text}#{nth}\n").as_bytes());
        }
        nth
    }

    fn hurt(&mut self, way: Way, name: &str) -> Verdict {
        match way {
            Way::Kill => end_self(),
            Way::KillAll => {
                for group in &self.children {
                    if let Some(group) = pid(*group) {
                        let _ = kill_process_group(group, Signal::KILL);
                    }
                }
                end_self();
            }
            Way::KillChild => {
                for child in &self.children {
                    if let Some(child) = pid(*child) {
                        let _ = kill_process(child, Signal::KILL);
                    }
                }
            }
            Way::Int | Way::Int2 | Way::Int3 => signal_self(Signal::INT),
            Way::Term => signal_self(Signal::TERM),
            Way::Hup => signal_self(Signal::HUP),
            Way::Stop => signal_self(Signal::STOP),
            Way::Refuse => return Verdict::Refuse(told("it was told to fail")),
            Way::Lose => return Verdict::Lose(told("its answer was lost")),
            Way::Away => self.away = true,
            Way::Hang => self.hangs = Some(Instant::now() + self.orders.hang),
            Way::Full => self.disk = Some(ErrorKind::StorageFull),
            Way::ReadOnly => self.disk = Some(ErrorKind::ReadOnlyFilesystem),
            Way::Ahead => {
                SKEW.fetch_add(DAY, Ordering::Relaxed);
            }
            Way::Back => {
                SKEW.fetch_sub(DAY, Ordering::Relaxed);
            }
        }
        self.standing(name)
    }

    /// What an earlier hurt does to every later point.
    fn standing(&self, name: &str) -> Verdict {
        let is_store = name.starts_with("store.");
        if !name.ends_with(".before") {
            return Verdict::Go;
        }
        if is_store && self.away {
            return Verdict::Refuse(told("the store is away"));
        }
        let writes = name.starts_with("file.") || (is_store && !name.contains(".get"));
        match self.disk {
            Some(kind) if writes => Verdict::Refuse(Error::new(kind, "as it was told")),
            _ => Verdict::Go,
        }
    }
}

/// Notes a child, which leads its own process group.
pub fn child_began(child: u32) {
    if let Some(mut armed) = locked() {
        armed.children.insert(child);
    }
}

/// Forgets a child, whose number may be another's from now on.
pub fn child_ended(child: u32) {
    if let Some(mut armed) = locked() {
        armed.children.remove(&child);
    }
}

/// By how many seconds the clock is off.
pub fn skew() -> i64 {
    SKEW.load(Ordering::Relaxed)
}

fn told(what: &'static str) -> Error {
    Error::other(what)
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

fn signal_self(signal: Signal) {
    let _ = kill_process(getpid(), signal);
}

fn end_self() -> ! {
    signal_self(Signal::KILL);
    loop {
        // The signal is on its way.
        pause(Duration::from_secs(1));
    }
}

/// A wait that nothing ends early: the one thing here that may take time.
fn pause(time: Duration) {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = never.wait_timeout_while(guard, time, |()| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: orders are a process's own, and the first count.
    #[test]
    fn points_are_counted_told_and_hurt_where_they_are_aimed_at() {
        assert!(matches!(
            point("store.put.before", || unreachable!()),
            Verdict::Go
        ));
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let text = format!(
            "log={};hurt=refuse@store.put.before a#2;hurt=lose@store.put.after a#1;hurt=full@file.write.before b#1;hurt=ahead@x#1",
            log.display()
        );
        arm(text.parse().unwrap());
        let pass = |name, about: &str| point(name, || about.to_owned());
        assert!(matches!(pass("store.put.before", "a"), Verdict::Go));
        assert!(matches!(pass("store.put.after", "a"), Verdict::Lose(_)));
        assert!(matches!(pass("store.put.before", "a"), Verdict::Refuse(_)));
        assert!(matches!(pass("store.put.before", "a"), Verdict::Go));
        assert_eq!(skew(), 0);
        assert!(matches!(pass("x", ""), Verdict::Go));
        assert_eq!(skew(), DAY);
        for (name, about) in [
            ("file.write.before", "b"),
            ("file.write.before", "c"),
            ("store.put.before", "z"),
        ] {
            let Verdict::Refuse(error) = pass(name, about) else {
                panic!("{name} {about}");
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull);
        }
        assert!(matches!(pass("store.get.before", "z"), Verdict::Go));
        let told = std::fs::read_to_string(log).unwrap();
        assert!(
            told.starts_with("store.put.before a#1\nstore.put.after a#1\nstore.put.before a#2\n"),
            "{told}"
        );
    }
}
