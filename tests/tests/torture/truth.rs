//! What must be true, whatever hurt: looked for in the record, in the cloud and in every file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use fault::{Aim, Way};
use serde_json::Value;
use test_support::Ended;

use crate::cloud;
use crate::scene::{Called, PASSPHRASE, Scene, TOKEN};

/// The record and the cloud at one moment.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// Of the status document: `empty`, `unfinished`, `finished`, `tearing-down`.
    pub(crate) state: String,
    /// Of each step.
    pub(crate) steps: BTreeMap<String, String>,
    /// How long the journal was.
    n_journal: usize,
}

/// What a scene was seen to be, call by call.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) last: Seen,
    /// How long the journal was a look before.
    n_before: usize,
    /// The lineage of each state that stands.
    lineages: BTreeMap<String, String>,
}

/// A step whose verify failed is one that failed.
const ENDED: [&str; 2] = ["succeeded", "verified"];

impl Watch {
    /// Looks at everything after a call; an error is something that must not be.
    /// `aim` is what hurt the call.
    pub(crate) fn look(
        &mut self,
        scene: &mut Scene,
        called: &Called,
        aim: Option<&Aim>,
    ) -> anyhow::Result<()> {
        said_well(called)?;
        self.nothing_that_ended_was_done_again(scene)?;
        self.n_before = self.last.n_journal;
        self.last = seen(scene)?;
        self.the_record_tells_the_truth(scene)?;
        self.states_have_one_lineage(scene)?;
        every_object_is_known(scene, called, aim)?;
        no_secret_is_in_a_file(scene)
    }

    /// Looks at the journal since the last look.
    fn nothing_that_ended_was_done_again(&self, scene: &Scene) -> anyhow::Result<()> {
        let journal = cloud::journal(scene.cloud_dir());
        for (word, name) in journal.iter().skip(self.last.n_journal) {
            let object = scene.objects.iter().find(|object| object.name == *name);
            let Some(object) = object else {
                bail!("the cloud was told to {word} `{name}`, which no step makes");
            };
            let status = self.last.steps.get(&object.step).map(String::as_str);
            let status = status.unwrap_or("pending");
            let had_ended = ENDED.contains(&status);
            if (word == "create" || word == "again") && had_ended {
                bail!(
                    "`{word} {name}`, though step `{}` was `{status}`",
                    object.step
                );
            }
            if word == "again" && status == "started" {
                bail!("`{name}` was made again, though its cut step could have been verified");
            }
        }
        Ok(())
    }

    fn the_record_tells_the_truth(&self, scene: &Scene) -> anyhow::Result<()> {
        let there = cloud::objects(scene.cloud_dir());
        for object in &scene.objects {
            let status = self.last.steps.get(&object.step).map(String::as_str);
            let is_there = there.contains(&object.name);
            match status {
                Some("succeeded" | "verified") if !is_there => {
                    bail!(
                        "step `{}` is applied and `{}` is not there",
                        object.step,
                        object.name
                    )
                }
                Some("torn-down") | None if is_there && self.last.state == "empty" => {
                    bail!("nothing stands, and `{}` is there", object.name)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// As long as a step stands, its state and the earlier versions of it have one lineage.
    fn states_have_one_lineage(&mut self, scene: &Scene) -> anyhow::Result<()> {
        let mut found = BTreeMap::new();
        let root = scene.store().join("state");
        for phase in std::fs::read_dir(&root).into_iter().flatten().flatten() {
            for state in std::fs::read_dir(phase.path())
                .into_iter()
                .flatten()
                .flatten()
            {
                let name = state.file_name().to_string_lossy().into_owned();
                if name.contains('@') || name.starts_with('.') {
                    continue;
                }
                let text = std::fs::read_to_string(state.path())?;
                let (_, body) = text.split_once('\n').unwrap_or_default();
                let body: Value = serde_json::from_str(body)?;
                let lineage = body["lineage"].as_str().unwrap_or_default().to_owned();
                found.insert(
                    format!("{}.{name}", phase.file_name().to_string_lossy()),
                    lineage,
                );
            }
        }
        for (step, lineage) in &found {
            let before = self.lineages.get(step).filter(|before| !before.is_empty());
            if let Some(before) = before {
                ensure!(
                    before == lineage,
                    "the state of `{step}` was of lineage {before} and is of {lineage}"
                );
            }
        }
        self.lineages = found;
        Ok(())
    }

    /// Whether the last call changed nothing in the cloud.
    pub(crate) fn is_untouched(&self) -> bool {
        self.last.n_journal == self.n_before
    }

    /// Everything stands, once.
    pub(crate) fn expect_built(&self, scene: &Scene) -> anyhow::Result<()> {
        ensure!(self.last.state == "finished", "it is `{}`", self.last.state);
        let mut wanted: Vec<&String> = scene.objects.iter().map(|object| &object.name).collect();
        wanted.sort();
        let there = cloud::objects(scene.cloud_dir());
        ensure!(
            there.iter().eq(wanted.iter().copied()),
            "the cloud has {there:?}"
        );
        for object in &scene.objects {
            let status = self.last.steps.get(&object.step);
            ensure!(
                status.is_some_and(|status| status == "verified"),
                "step `{}` is {status:?}",
                object.step
            );
        }
        nothing_is_left_of_a_call(scene)
    }

    /// Nothing is left.
    pub(crate) fn expect_gone(&self, scene: &Scene) -> anyhow::Result<()> {
        ensure!(self.last.state == "empty", "it is `{}`", self.last.state);
        let there = cloud::objects(scene.cloud_dir());
        ensure!(there.is_empty(), "the cloud still has {there:?}");
        ensure!(self.lineages.is_empty(), "states: {:?}", self.lineages);
        nothing_is_left_of_a_call(scene)
    }
}

/// No panic, nothing made twice, and no error without something to do.
pub(crate) fn said_well(called: &Called) -> anyhow::Result<()> {
    for text in [&called.outcome.stdout, &called.outcome.stderr] {
        ensure!(!text.contains("panicked at"), "a panic: {text}");
        ensure!(
            !text.contains("exists already"),
            "something was to be made twice: {text}"
        );
    }
    if !matches!(called.outcome.ended, Ended::Code(0) | Ended::Signal(_)) {
        ensure!(
            called.outcome.stderr.contains("hint: "),
            "an error with nothing to do: {}",
            called.outcome.stderr
        );
    }
    Ok(())
}

fn seen(scene: &mut Scene) -> anyhow::Result<Seen> {
    // What the cloud was told until the record is read is what the record can know.
    let n_journal = cloud::journal(scene.cloud_dir()).len();
    let called = scene.call(&["status", "--target", "drill", "--output", "json"], None);
    ensure!(
        called.outcome.code() == Some(0),
        "the status can't be told: {:?} {}",
        called.outcome.ended,
        called.outcome.stderr
    );
    let status: Value = serde_json::from_str(&called.outcome.stdout)?;
    let mut steps = BTreeMap::new();
    for step in status["run"]["steps"].as_array().into_iter().flatten() {
        if let (Some(name), Some(word)) = (step["step"].as_str(), step["status"].as_str()) {
            steps.insert(name.to_owned(), word.to_owned());
        }
    }
    Ok(Seen {
        state: status["state"].as_str().unwrap_or_default().to_owned(),
        steps,
        n_journal,
    })
}

/// Each object of the cloud is in a state, or named as a suspect; where a call has come to its end, could write its record, and
/// waits for no word about another machine.
fn every_object_is_known(
    scene: &mut Scene,
    called: &Called,
    aim: Option<&Aim>,
) -> anyhow::Result<()> {
    let could_write = aim.is_none_or(|aim| {
        use Way::{Away, Full, Hang, Lose, ReadOnly, Refuse};
        ![Away, Full, Hang, Lose, ReadOnly, Refuse].contains(&aim.way)
    });
    let has_ended = matches!(called.outcome.ended, Ended::Code(code) if code != 4);
    let said = &called.outcome.stderr;
    let waits = said.contains("--lost-host") || said.contains("rebuild unlock");
    if !scene.is_plain() || !could_write || !has_ended || waits {
        return Ok(());
    }
    let there = cloud::objects(scene.cloud_dir());
    let held = objects_in_states(scene)?;
    let unheld: Vec<_> = scene
        .objects
        .iter()
        .filter(|object| object.address.is_some())
        .filter(|object| there.contains(&object.name) && !held.contains(&object.name))
        .cloned()
        .collect();
    if unheld.is_empty() {
        return Ok(());
    }
    let words = ["suspects", "--target", "drill", "--output", "json"];
    let listed = scene.call(&words, None).outcome;
    if listed.code() == Some(3) && listed.stdout.contains("--lost-host") {
        // What a machine was at that nobody hears of is asked of a person first.
        return Ok(());
    }
    listed.expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout)?;
    for object in unheld {
        let is_named = listed["suspects"].as_array().is_some_and(|suspects| {
            suspects.iter().any(|suspect| {
                let address = suspect["address"].as_str();
                suspect["step"] == object.step.as_str()
                    && (address.is_none() || address == object.address.as_deref())
            })
        });
        ensure!(
            is_named,
            "`{}` is in the cloud, in no state, and no suspect",
            object.name
        );
    }
    Ok(())
}

/// The names of the objects that plain states hold.
fn objects_in_states(scene: &Scene) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (path, bytes) in values(&scene.store().join("state")) {
        if path.to_string_lossy().contains('@') {
            continue;
        }
        let text = String::from_utf8(bytes)?;
        let (_, body) = text.split_once('\n').unwrap_or_default();
        let state: Value = serde_json::from_str(body)?;
        for resource in state["resources"].as_array().into_iter().flatten() {
            for instance in resource["instances"].as_array().into_iter().flatten() {
                let name = instance["attributes"]["name"].as_str();
                names.extend(name.map(str::to_owned));
            }
        }
    }
    Ok(names)
}

/// No lock that nobody may release, no half value, no child that is noted.
fn nothing_is_left_of_a_call(scene: &Scene) -> anyhow::Result<()> {
    let store = scene.store();
    for path in values(&store).keys() {
        let key = path.strip_prefix(&store)?;
        ensure!(
            !key.starts_with("lock.json") && !key.starts_with("lock"),
            "`{}` is still in the store",
            key.display()
        );
    }
    let home = scene.state_home();
    for needle in ["start_time", "\"serial\""] {
        if !home.exists() {
            break;
        }
        let names = ["child.json", "errored.tfstate"];
        let left = scene.world.files_with(&home, needle.as_bytes());
        let left: Vec<_> = left
            .iter()
            .filter(|path| names.iter().any(|name| path.ends_with(name)))
            .collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
    }
    Ok(())
}

fn no_secret_is_in_a_file(scene: &Scene) -> anyhow::Result<()> {
    let mut waiting = vec![scene.world.root().to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir)?.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() && !is_a_program(&entry) {
                let text = std::fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                for needle in [TOKEN, PASSPHRASE] {
                    ensure!(
                        !text.contains(needle),
                        "`{needle}` is in {}",
                        entry.path().display()
                    );
                }
            }
        }
    }
    Ok(())
}

/// A provider in the plugin cache, of which every case has a copy.
fn is_a_program(entry: &std::fs::DirEntry) -> bool {
    let is_big = entry.metadata().is_ok_and(|found| found.len() > 4 << 20);
    is_big
        && entry
            .file_name()
            .to_string_lossy()
            .starts_with("terraform-provider-")
}

/// Every value of a store with its bytes.
pub(crate) fn values(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![store.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if !entry.file_name().to_string_lossy().starts_with('.') {
                found.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}
