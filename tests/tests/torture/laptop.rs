//! A laptop that falls asleep in the middle of a call, whose lock is taken meanwhile, and that wakes up.
//!
//! Its fencing number is refused: not a byte of the store changes, and the call ends with an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fault::{Aim, Way};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use test_support::Ended;

use crate::case::{Shape, Verb};
use crate::cloud::{self, Cloud};
use crate::scene::Scene;
use crate::trial::{Trial, UP};

/// Where it falls asleep.
const POINTS: [&str; 6] = [
    "spawn.before tofu apply#1",
    "child.event tofu apply apply_start test_object.one#1",
    "answer.before POST 0/ground#1",
    "answer.before UNLOCK 0/ground#1",
    "store.put.before run/*.json#5",
    "store.put.before run/head.json#2",
];
/// How long anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tries all of them; gives those that ended badly, in words.
pub(crate) fn tried(cloud: &Cloud, only: Option<&str>) -> (usize, Vec<String>) {
    let chosen = POINTS
        .iter()
        .filter(|point| only.is_none_or(|only| point.contains(only)));
    let mut n_tried = 0;
    let mut bad = Vec::new();
    for point in chosen {
        n_tried += 1;
        let done =
            std::panic::catch_unwind(|| asleep_at(point, cloud, &format!("sleeps-{n_tried}")));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => bad.push(format!("a laptop asleep at `{point}`: {error:#}")),
            Err(panic) => bad.push(format!(
                "a laptop asleep at `{point}`: {}",
                panic.downcast_ref::<String>().cloned().unwrap_or_default()
            )),
        }
    }
    (n_tried, bad)
}

fn asleep_at(point: &str, cloud: &Cloud, place: &str) -> anyhow::Result<()> {
    let mut trial = Trial::new(Scene::new(Shape::Pair, cloud, place));
    let (point, nth) = point.rsplit_once('#').context("a point has a number")?;
    let aim = Aim {
        way: Way::Stop,
        point: point.to_owned(),
        nth: nth.parse()?,
    };
    let (laptop, _) = trial.scene.start(&UP, Some(&aim));
    let pid = pid(laptop.pid())?;
    wait_for("the laptop to fall asleep", || state_of(pid) == Some('T'))?;
    // What it started sleeps with it.
    let groups = noted_groups(&trial.scene.state_home());
    for group in &groups {
        let _ = kill_process_group(*group, Signal::STOP);
    }
    // Another machine takes over, as a person would on it.
    trial.scene.go_elsewhere();
    trial
        .go_on(Verb::Up)
        .context("another machine takes over")?;
    let (store, objects) = (
        snapshot(&trial.scene.store()),
        cloud::objects(trial.scene.cloud_dir()),
    );
    for group in &groups {
        let _ = kill_process_group(*group, Signal::CONT);
    }
    kill_process(pid, Signal::CONT)?;
    let woken = laptop.wait();
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
    let now = snapshot(&trial.scene.store());
    let changed: Vec<&PathBuf> = store
        .iter()
        .filter(|(path, bytes)| now.get(*path) != Some(bytes))
        .map(|(path, _)| path)
        .chain(now.keys().filter(|path| !store.contains_key(*path)))
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
    trial.watch.expect_built(&trial.scene)?;
    trial
        .go_on(Verb::Down)
        .context("the other machine tears down")?;
    trial.watch.expect_gone(&trial.scene)
}

fn pid(number: u32) -> anyhow::Result<Pid> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    pid.context("a pid that fits")
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) -> anyhow::Result<()> {
    let found = process::wait::until(Instant::now() + PATIENCE, Duration::from_millis(10), || {
        condition().then_some(())
    });
    found.with_context(|| format!("did not come about in time: {what}"))
}

/// `T` while a process is stopped.
fn state_of(pid: Pid) -> Option<char> {
    let listed = test_support::World::new()
        .command("/bin/ps")
        .args(["-o", "stat=", "-p", &pid.as_raw_pid().to_string()])
        .run();
    listed.stdout.trim().chars().next()
}

/// The process groups of children that a machine has noted.
fn noted_groups(home: &Path) -> Vec<Pid> {
    let world = test_support::World::new();
    let noted = world.files_with(&home.join("rebuild/targets"), b"start_time");
    let groups = noted
        .iter()
        .filter(|path| path.ends_with("child.json"))
        .filter_map(|path| {
            let noted: serde_json::Value =
                serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            pid(u32::try_from(noted["pid"].as_u64()?).ok()?).ok()
        });
    groups.collect()
}

/// Every value of a store with its bytes.
fn snapshot(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![store.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if !entry.file_name().to_string_lossy().starts_with('.') {
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.insert(path, bytes);
            }
        }
    }
    found
}
