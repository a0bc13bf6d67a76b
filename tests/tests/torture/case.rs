//! One case of the torture: which platform, which calls, what hurts each of them. Written as one line, and read again.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use fault::Aim;

/// A platform that is built and torn down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Shape {
    /// Three phases of one program each.
    Programs,
    /// Two phases with root modules and a program, encrypted.
    Pair,
    /// Seven phases, encrypted.
    Seven,
    /// As `Pair`, not encrypted: what its states hold is compared with the cloud after each call.
    Plain,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    /// `up`
    Up,
    /// `up --resume`
    Resume,
    /// `down`
    Down,
    /// `store move`
    Move,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Host {
    /// The machine that called before.
    Same,
    /// Another one; the one before is lost.
    Other,
    /// The machine that called before, started anew.
    Rebooted,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) verb: Verb,
    pub(crate) host: Host,
    pub(crate) aim: Option<Aim>,
}

/// All of it: the calls that may be hurt, in order. Whole ones follow until everything stands, and until it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) acts: Vec<Act>,
}

const SHAPES: &[(&str, Shape)] = &[
    ("programs", Shape::Programs),
    ("pair", Shape::Pair),
    ("seven", Shape::Seven),
    ("plain", Shape::Plain),
];
const VERBS: &[(&str, Verb)] = &[
    ("up", Verb::Up),
    ("resume", Verb::Resume),
    ("down", Verb::Down),
    ("move", Verb::Move),
];
const HOSTS: &[(&str, Host)] = &[
    ("same", Host::Same),
    ("other", Host::Other),
    ("rebooted", Host::Rebooted),
];

fn named<T: Copy>(names: &[(&str, T)], text: &str) -> anyhow::Result<T> {
    let found = names.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, value)| *value)
        .with_context(|| format!("`{text}` is none of the words for it"))
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let found = names.iter().find(|(_, one)| one == value);
    found.map_or("", |(name, _)| name)
}

impl Shape {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        SHAPES.iter().map(|(_, shape)| *shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(SHAPES, self))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(VERBS, self))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(HOSTS, self))
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.verb, self.host)?;
        match &self.aim {
            Some(aim) => write!(f, ", {aim}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        for act in &self.acts {
            write!(f, "; {act}")?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.split("; ");
        let shape = named(SHAPES, parts.next().unwrap_or_default())?;
        let acts: Vec<Act> = parts.map(act).collect::<anyhow::Result<_>>()?;
        if acts.is_empty() {
            bail!("`{text}` has no call");
        }
        Ok(Self { shape, acts })
    }
}

fn act(text: &str) -> anyhow::Result<Act> {
    let mut parts = text.splitn(3, ", ");
    let mut next = || parts.next().unwrap_or_default();
    let verb = named(VERBS, next())?;
    let host = named(HOSTS, next())?;
    let aim = parts.next().map(str::parse).transpose()?;
    Ok(Act { verb, host, aim })
}

/// A case reads as it is written, whatever the point is called.
pub(crate) fn reads_as_it_is_written() {
    let text = "pair; up, same, kill@child.event tofu apply apply_start a.b[\"x, y\"]#2; resume, other; down, rebooted, int@store.put.after run/head.json#1";
    let case: Case = text.parse().expect("a case");
    assert_eq!(case.to_string(), text);
    assert!("pair".parse::<Case>().is_err());
    assert!("pair; up, elsewhere".parse::<Case>().is_err());
}
