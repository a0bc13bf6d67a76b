//! A laptop that falls asleep in the middle of a call, whose lock is taken meanwhile, and that wakes up.
//!
//! `rebuild` and all that it started are stopped (SIGSTOP), another machine does what its hints say until everything stands,
//! then all of them go on (SIGCONT). The fencing number is refused: not a byte of the store changes, no object is made or
//! removed, and the call ends with an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fault::{Aim, Way};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use test_support::Ended;

use crate::case::{Shape, Verb};
use crate::cloud::{self, Cloud};
use crate::scene::Scene;
use crate::trial::{DOWN, Trial, UP};
use crate::truth::values;

/// Where it falls asleep, and whether in an `up` or in a `down`: before anything is begun, with a `tofu` that has done its
/// work and waits for the backend's answer, between two commands, and in the middle of the ledger's writes.
const POINTS: &[(Verb, &str)] = &[
    (Verb::Up, "spawn.before tofu apply#1"),
    (Verb::Up, "answer.before POST 0/ground#1"),
    (Verb::Up, "answer.before UNLOCK 0/ground#1"),
    (Verb::Up, "store.put.before run/*.json#3"),
    (Verb::Up, "store.put.before run/*.json#9"),
    (Verb::Up, "store.put.before run/head.json#1"),
    (Verb::Down, "spawn.before tofu apply#1"),
    (Verb::Down, "answer.before POST 0/ground#1"),
    (Verb::Down, "store.put.before run/*.json#2"),
];
/// How many of them the short form tries.
pub(crate) const SHORT: usize = 2;
/// How often a laptop is let fall asleep anew that did so at a moment that proves nothing.
const MOST_TRIES: usize = 40;
/// How long anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a line begins with that tries one of them again.
pub(crate) const CASE: &str = "asleep; ";

/// The lines that try each of them.
pub(crate) fn cases() -> impl Iterator<Item = String> {
    POINTS
        .iter()
        .map(|(verb, point)| format!("{CASE}{verb}; {point}"))
}

/// Tries one, as its line says.
pub(crate) fn tried(line: &str, cloud: &Cloud, place: &str) -> (Vec<String>, anyhow::Result<()>) {
    let mut told = Vec::new();
    for n in 0..MOST_TRIES {
        let scene = Scene::new(Shape::Pair, cloud, &format!("{place}-{n}"));
        let mut trial = Trial::new(scene);
        let done = asleep(line, &mut trial);
        let _ = std::fs::remove_dir_all(trial.scene.cloud_dir());
        told.append(&mut trial.tried.told);
        match done {
            Ok(Slept::Well) => return (told, Ok(())),
            Ok(Slept::InTheDoor) => {}
            Err(error) => return (told, Err(error)),
        }
    }
    let why = format!("{MOST_TRIES} times it slept while it held the store's directory");
    (told, Err(anyhow::anyhow!(why)))
}

enum Slept {
    Well,
    /// Another of its threads held the directory of the store for an operation. That stops for everybody who shares the
    /// directory, on this one machine, which is none that sleeps.
    InTheDoor,
}

fn asleep(line: &str, trial: &mut Trial) -> anyhow::Result<Slept> {
    let rest = line.strip_prefix(CASE).context("a sleeping laptop")?;
    let (verb, point) = rest.split_once("; ").context("a call and a point")?;
    let (point, nth) = point.rsplit_once('#').context("a point has a number")?;
    let aim = Aim {
        way: Way::Stop,
        point: point.to_owned(),
        nth: nth.parse()?,
    };
    let (words, goal) = match verb {
        "up" => (&UP[..], Verb::Up),
        "down" => {
            trial.call(&UP, None)?.outcome.expect_code(0);
            (&DOWN[..], Verb::Down)
        }
        _ => anyhow::bail!("`{verb}` is not called on a laptop"),
    };
    let (laptop, _) = trial.scene.start(words, Some(&aim));
    let mut sleeping = Sleeping::at(laptop.pid())?;
    if is_held(&trial.scene.store())? {
        return Ok(Slept::InTheDoor);
    }
    // Another machine takes over, as a person would on it.
    trial.scene.go_elsewhere();
    trial.go_on(goal).context("another machine takes over")?;
    match goal {
        Verb::Down => trial.watch.expect_gone(&trial.scene)?,
        _ => trial.watch.expect_built(&trial.scene)?,
    }
    let (store, objects) = (
        values(&trial.scene.store()),
        cloud::objects(trial.scene.cloud_dir()),
    );
    sleeping.wake()?;
    let woken = laptop.wait();
    trial
        .tried
        .told
        .push(format!("woken up: {:?}\n{}", woken.ended, woken.stderr));
    ensure!(
        matches!(woken.ended, Ended::Code(1 | 3)),
        "it ended with {:?}: {}",
        woken.ended,
        woken.stderr
    );
    ensure!(
        woken.stderr.contains("error: ") && !woken.stderr.contains("panicked at"),
        "it said nothing of it: {}",
        woken.stderr
    );
    let now = values(&trial.scene.store());
    let changed: BTreeSet<&PathBuf> = store
        .keys()
        .chain(now.keys())
        .filter(|path| store.get(*path) != now.get(*path))
        .collect();
    ensure!(
        changed.is_empty(),
        "it wrote {changed:?} after its lock was taken: {}",
        woken.stderr
    );
    ensure!(
        cloud::objects(trial.scene.cloud_dir()) == objects,
        "the cloud has other objects"
    );
    if goal == Verb::Up {
        trial
            .go_on(Verb::Down)
            .context("the other machine tears down")?;
        trial.watch.expect_gone(&trial.scene)?;
    }
    Ok(Slept::Well)
}

/// Whether somebody is in an operation on a store in a directory.
fn is_held(store: &Path) -> anyhow::Result<bool> {
    let Ok(lock) = std::fs::File::open(store.join(".lock")) else {
        return Ok(false);
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A stopped program and all that it started. What is not woken up is killed.
struct Sleeping {
    pids: BTreeSet<i32>,
    is_awake: bool,
}

impl Sleeping {
    /// Waits until a program has stopped itself, then stops its descendants.
    fn at(pid: u32) -> anyhow::Result<Self> {
        let first = i32::try_from(pid)?;
        let mut sleeping = Self {
            pids: BTreeSet::from([first]),
            is_awake: false,
        };
        wait_for("the laptop to fall asleep", || {
            processes()
                .get(&first)
                .is_none_or(|process| "TZ".contains(process.state))
        })?;
        ensure!(
            processes()
                .get(&first)
                .is_some_and(|process| process.state == 'T'),
            "it did not pass the point at which it falls asleep"
        );
        // Until none was started by one that was not yet stopped.
        loop {
            let all = processes();
            let fresh: Vec<i32> = all
                .iter()
                .filter(|(pid, process)| {
                    sleeping.pids.contains(&process.parent) && !sleeping.pids.contains(pid)
                })
                .map(|(pid, _)| *pid)
                .collect();
            if fresh.is_empty() {
                return Ok(sleeping);
            }
            for pid in fresh {
                send(pid, Signal::STOP);
                sleeping.pids.insert(pid);
            }
        }
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        self.is_awake = true;
        for pid in &self.pids {
            send(*pid, Signal::CONT);
        }
        Ok(())
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        if !self.is_awake {
            for pid in &self.pids {
                send(*pid, Signal::KILL);
            }
        }
    }
}

/// One that is gone already is let be.
fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

struct Process {
    parent: i32,
    state: char,
}

/// Every process, by its number (proc_pid_stat(5)).
fn processes() -> BTreeMap<i32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some((pid, Process { parent, state }))
    });
    found.collect()
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) -> anyhow::Result<()> {
    let found = process::wait::until(Instant::now() + PATIENCE, Duration::from_millis(10), || {
        condition().then_some(())
    });
    found.with_context(|| format!("did not come about in time: {what}"))
}
