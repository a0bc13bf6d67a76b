//! One case, tried: hurt calls first, then what a person would type, until everything stands and then until nothing does.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use fault::{Aim, Way};
use serde_json::Value;
use test_support::Ended;

use crate::case::{Act, Case, Host, Verb};
use crate::cloud::{self, Cloud};
use crate::scene::{Called, Scene};
use crate::truth::{Watch, said_well};

/// How many calls a person may need until one ends well.
const MOST_CALLS: usize = 10;

pub(crate) const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];
const RESUME: [&str; 5] = ["up", "--target", "drill", "--no-pause", "--resume"];
pub(crate) const DOWN: [&str; 3] = ["down", "--target", "drill"];

/// What one hurt did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hurt {
    pub(crate) aim: Aim,
    pub(crate) verb: Verb,
    /// Who went on.
    pub(crate) next: Host,
    /// How the call ended.
    pub(crate) ended: Ended,
    /// How it was gone on with, in the end.
    pub(crate) then: String,
}

/// What a case came to.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) hurts: Vec<Hurt>,
    /// Every call, in words.
    pub(crate) told: Vec<String>,
}

/// A scene, the calls made in it, and what must be true of it.
pub(crate) struct Trial {
    pub(crate) scene: Scene,
    pub(crate) watch: Watch,
    pub(crate) tried: Tried,
    /// Processes of this machine since it was started.
    pids: Vec<u32>,
    /// Objects that were named as suspects.
    suspected: BTreeSet<String>,
    /// What a person had to do beside the two commands.
    beside: BTreeSet<&'static str>,
}

/// Tries a case; gives what it came to, and what was wrong.
pub(crate) fn tried(case: &Case, cloud: &Cloud, place: &str) -> (Tried, anyhow::Result<()>) {
    let mut trial = Trial::new(Scene::new(case.shape, cloud, place));
    let done = trial.all(case);
    let _ = std::fs::remove_dir_all(trial.scene.cloud_dir());
    (trial.tried, done)
}

impl Trial {
    pub(crate) fn new(scene: Scene) -> Self {
        Self {
            scene,
            watch: Watch::default(),
            tried: Tried::default(),
            pids: Vec::new(),
            suspected: BTreeSet::new(),
            beside: BTreeSet::new(),
        }
    }

    fn all(&mut self, case: &Case) -> anyhow::Result<()> {
        let mut goal = Verb::Up;
        for (index, act) in case.acts.iter().enumerate() {
            self.arrive(act.host);
            if act.verb == Verb::Move {
                let next = case.acts.get(index + 1);
                let next = next.filter(|next| next.verb == Verb::Move);
                self.move_store(act, next.map(|next| next.host))?;
                continue;
            }
            goal = act.verb;
            let words: &[&str] = match act.verb {
                Verb::Up => &UP,
                Verb::Resume => &RESUME,
                Verb::Down | Verb::Move => &DOWN,
            };
            let called = self.call(words, act.aim.as_ref())?;
            if let Some(aim) = &act.aim {
                let next = case.acts.get(index + 1).map_or(Host::Same, |act| act.host);
                self.hurt(aim, act, next, &called)?;
            } else if act.verb == Verb::Up && index == 0 {
                called.outcome.expect_code(0);
            }
        }
        if goal != Verb::Down {
            self.go_on(goal)
                .context("on the way to a platform that stands")?;
            // It takes over the lock of a call that could not let it go.
            let look = ["preflight", "--target", "drill"];
            let mut clean = self.call(&look, None)?;
            if clean.outcome.code() == Some(4) {
                self.unlock()?;
                clean = self.call(&look, None)?;
            }
            self.watch.expect_built(&self.scene)?;
            ensure!(
                clean.outcome.code() == Some(0),
                "preflight of what stands: {}{}",
                clean.outcome.stdout,
                clean.outcome.stderr
            );
            self.then("stood");
        }
        self.go_on(Verb::Down)
            .context("on the way to a platform that is gone")?;
        self.watch.expect_gone(&self.scene)?;
        self.then("gone");
        let left = self.scene.memory_dirs_of(&self.pids);
        ensure!(left.is_empty(), "memory is left behind: {left:?}");
        Ok(())
    }

    fn arrive(&mut self, host: Host) {
        match host {
            Host::Same => {}
            Host::Other => {
                self.scene.go_elsewhere();
                // What the lost machine has in memory is lost with it.
                self.scene.reboot(&std::mem::take(&mut self.pids));
            }
            Host::Rebooted => self.scene.reboot(&std::mem::take(&mut self.pids)),
        }
    }

    pub(crate) fn call(&mut self, words: &[&str], aim: Option<&Aim>) -> anyhow::Result<Called> {
        let called = self.scene.call(words, aim);
        self.pids.push(called.pid);
        self.tried.told.push(format!(
            "{}{}: {:?}\n{}",
            words.join(" "),
            aim.map(|aim| format!(" [{aim}]")).unwrap_or_default(),
            called.outcome.ended,
            indented(&called.outcome.stderr)
        ));
        for object in &self.scene.objects {
            let name = object.address.as_ref();
            let is_named = name.is_some_and(|address| {
                let text = format!("`{address}` of step `{}`", object.step);
                called.outcome.stderr.contains(&text)
            });
            if is_named {
                self.suspected.insert(object.name.clone());
            }
        }
        self.watch.look(&mut self.scene, &called, aim)?;
        Ok(called)
    }

    /// Notes what a hurt did, and whether the call may end so.
    fn hurt(&mut self, aim: &Aim, act: &Act, next: Host, called: &Called) -> anyhow::Result<()> {
        let point = format!("{}#{}", aim.point, aim.nth);
        if !called.passed.contains(&point) {
            return Ok(());
        }
        let ended = called.outcome.ended;
        let allowed: &[Ended] = match aim.way {
            Way::Kill | Way::KillAll => &[Ended::Signal(9)],
            Way::Int | Way::Term | Way::Hup | Way::Int2 | Way::Int3 => {
                &[Ended::Code(130), Ended::Code(0), Ended::Code(1)]
            }
            Way::Ahead | Way::Back => &[Ended::Code(0)],
            _ => &[Ended::Code(0), Ended::Code(1), Ended::Code(3)],
        };
        self.tried.hurts.push(Hurt {
            aim: aim.clone(),
            verb: act.verb,
            next,
            ended,
            then: String::new(),
        });
        // A resume may be stopped by what came before; a lost machine's lock is no other's to take.
        let is_stopped = act.verb != Verb::Up && ended == Ended::Code(3);
        // So may a call that has not touched anything.
        let is_unusable = ended == Ended::Code(2) && self.watch.is_untouched();
        // A move asks nobody and is whole or not at all: a signal simply ends it.
        let is_ended = act.verb == Verb::Move && matches!(ended, Ended::Signal(1 | 2 | 15));
        let is_locked = act.host == Host::Other && ended == Ended::Code(4);
        ensure!(
            allowed.contains(&ended) || is_stopped || is_unusable || is_locked || is_ended,
            "after `{aim}` the call ended with {ended:?}: {}",
            called.outcome.stderr
        );
        Ok(())
    }

    /// Moves the store: hurt once, then again until it is moved, unless somebody else goes on.
    fn move_store(&mut self, act: &Act, next: Option<Host>) -> anyhow::Result<()> {
        let to = self.scene.next_store();
        let words = ["store", "move", "--target", "drill", "--to", &to];
        let mut aim = act.aim.as_ref();
        for _ in 0..MOST_CALLS {
            let called = self.scene.call(&words, aim);
            self.pids.push(called.pid);
            self.tried.told.push(format!(
                "{}: {:?}\n{}",
                words.join(" "),
                called.outcome.ended,
                indented(&called.outcome.stderr)
            ));
            said_well(&called)?;
            if let Some(aim) = aim.take() {
                self.hurt(aim, act, next.unwrap_or(Host::Same), &called)?;
                if next.is_some() {
                    return Ok(());
                }
            } else if called.outcome.code() == Some(4) {
                // It holds the locks of both.
                let of_dest = called.outcome.stderr.contains("--to '");
                self.unlock_at(of_dest.then_some(to.as_str()))?;
            } else {
                ensure!(
                    called.outcome.code() == Some(0),
                    "the store does not move: {}",
                    called.outcome.stderr
                );
                self.scene.has_moved();
                self.call(&["status", "--target", "drill"], None)?;
                return Ok(());
            }
        }
        bail!("{MOST_CALLS} calls did not move the store")
    }

    fn then(&mut self, word: &str) {
        let beside: Vec<&str> = std::mem::take(&mut self.beside).into_iter().collect();
        let text = if beside.is_empty() {
            word.to_owned()
        } else {
            format!("{word}, {}", beside.join(", "))
        };
        for hurt in &mut self.tried.hurts {
            if hurt.then.is_empty() {
                hurt.then.clone_from(&text);
            }
        }
    }

    /// What a person would type until the goal is reached.
    pub(crate) fn go_on(&mut self, goal: Verb) -> anyhow::Result<()> {
        let mut more: Vec<String> = Vec::new();
        let mut up = UP.as_slice();
        if goal == Verb::Resume || self.watch.last.state == "unfinished" {
            up = RESUME.as_slice();
        }
        for _ in 0..MOST_CALLS {
            let base = if goal == Verb::Down { &DOWN } else { up };
            if goal != Verb::Down && self.watch.last.state == "finished" {
                return Ok(());
            }
            let mut words = base.to_vec();
            words.extend(more.iter().map(String::as_str));
            let called = self.call(&words, None)?;
            let said = &called.outcome.stderr;
            match called.outcome.ended {
                Ended::Code(0) => return Ok(()),
                Ended::Code(4) if said.contains("rebuild unlock") => self.unlock()?,
                Ended::Code(3) if said.contains("--lost-host") => self.lost_host(said)?,
                Ended::Code(3) if said.contains("rebuild suspects") => self.settle()?,
                Ended::Code(3) if said.contains("--resume") && up == UP.as_slice() => {
                    up = RESUME.as_slice()
                }
                Ended::Code(3)
                    if up == RESUME.as_slice() && said.contains("no run is unfinished") =>
                {
                    up = UP.as_slice();
                }
                Ended::Code(5) if said.contains("--keep") => {
                    self.beside.insert("kept what was tainted");
                    more.extend(tainted(said));
                }
                Ended::Code(1) if goal == Verb::Down && self.forget_suspects(said) => {}
                ended => bail!(
                    "`rebuild {}` ended with {ended:?} and no way on: {said}",
                    words.join(" ")
                ),
            }
        }
        bail!("{MOST_CALLS} calls did not do")
    }

    fn unlock(&mut self) -> anyhow::Result<()> {
        self.unlock_at(None)
    }

    fn unlock_at(&mut self, dest: Option<&str>) -> anyhow::Result<()> {
        self.beside.insert("unlocked");
        let mut words = vec!["unlock", "--target", "drill"];
        words.extend(dest.map(|_| "--to"));
        words.extend(dest);
        let called = self.call(&words, None)?;
        ensure!(
            called.outcome.code() == Some(0),
            "unlock: {}",
            called.outcome.stderr
        );
        Ok(())
    }

    /// Says that a machine is lost, as the stop has named it.
    fn lost_host(&mut self, said: &str) -> anyhow::Result<()> {
        self.beside.insert("said that the machine is lost");
        let host = said
            .split("--lost-host ")
            .nth(1)
            .and_then(|rest| rest.split(['`', ' ']).next())
            .context("no host is named")?
            .to_owned();
        let words = ["suspects", "--target", "drill", "--lost-host", &host];
        let called = self.call(&words, None)?;
        ensure!(
            called.outcome.code() == Some(0),
            "suspects: {}",
            called.outcome.stderr
        );
        // A program that was cut there is judged by its verify, and leaves no suspect.
        let listed = self.scene.document(&["suspects", "--target", "drill"]);
        if listed["suspects"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        self.settle()
    }

    /// Settles every suspect by what the cloud has.
    fn settle(&mut self) -> anyhow::Result<()> {
        let listed = self.scene.document(&["suspects", "--target", "drill"]);
        let suspects: Vec<Value> = listed["suspects"].as_array().cloned().unwrap_or_default();
        ensure!(!suspects.is_empty(), "there is nothing to settle");
        for suspect in &suspects {
            let step = suspect["step"].as_str().unwrap_or_default().to_owned();
            let there = cloud::objects(self.scene.cloud_dir());
            let of_step: Vec<_> = self
                .scene
                .objects
                .iter()
                .filter(|object| object.step == step)
                .cloned()
                .collect();
            match suspect["address"].as_str() {
                Some(address) => {
                    let object = of_step
                        .iter()
                        .find(|object| object.address.as_deref() == Some(address))
                        .with_context(|| format!("nothing is `{address}` of `{step}`"))?;
                    self.suspected.insert(object.name.clone());
                    if there.contains(&object.name) {
                        self.beside.insert("imported");
                        let what = format!("{step}:{address}={}", object.name);
                        self.settled("--import", &what)?;
                    } else {
                        self.beside.insert("said that it is gone");
                        self.settled("--gone", &format!("{step}:{address}"))?;
                    }
                }
                None => {
                    self.beside.insert("looked through a step");
                    for object in of_step.iter().filter(|object| there.contains(&object.name)) {
                        self.suspected.insert(object.name.clone());
                        let Some(address) = &object.address else {
                            continue;
                        };
                        // What its state has already is refused, and is no suspect.
                        let what = format!("{step}:{address}={}", object.name);
                        self.call(&["suspects", "--target", "drill", "--import", &what], None)?;
                    }
                    self.settled("--gone", &step)?;
                }
            }
        }
        Ok(())
    }

    fn settled(&mut self, how: &str, what: &str) -> anyhow::Result<()> {
        let called = self.call(&["suspects", "--target", "drill", how, what], None)?;
        ensure!(
            called.outcome.code() == Some(0),
            "suspects {how} {what}: {}",
            called.outcome.stderr
        );
        Ok(())
    }

    /// A teardown that finds what no state knows names it; where it was a suspect, a person removes it.
    fn forget_suspects(&mut self, said: &str) -> bool {
        let there = cloud::objects(self.scene.cloud_dir());
        let named: Vec<&String> = there
            .iter()
            .filter(|name| said.contains(name.as_str()) && self.suspected.contains(*name))
            .collect();
        for name in &named {
            let _ = std::fs::remove_file(self.scene.cloud_dir().join(format!("{name}.json")));
        }
        if !named.is_empty() {
            self.beside.insert("removed what a residue probe found");
        }
        !named.is_empty()
    }
}

/// `--keep ADDRESS` for each address that a stop names.
fn tainted(said: &str) -> Vec<String> {
    let mut options = BTreeSet::new();
    for piece in said.split("--keep ").skip(1) {
        if let Some(address) = piece.split(['`', ' ', ',', ';', '\n']).next() {
            options.insert(address.to_owned());
        }
    }
    options
        .into_iter()
        .flat_map(|address| ["--keep".to_owned(), address])
        .collect()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}
