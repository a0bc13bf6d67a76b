//! Which cases are tried: drawn from a seed, over every point that was passed and every way that fits it.

use std::collections::{BTreeMap, BTreeSet};

use fault::{Aim, Way};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};

use crate::case::{Act, Case, Host, Shape, Verb};

/// The points that whole calls passed, by shape and call: `NAME ABOUT#N`.
pub(crate) type Passed = BTreeMap<(Shape, Verb), Vec<String>>;

/// How cases are drawn.
pub(crate) struct Draw {
    pub(crate) seed: u64,
    /// How many hurts are to come about, at least.
    pub(crate) n_faults: usize,
    /// How much of each shape, in parts.
    pub(crate) parts: Vec<(Shape, u32)>,
    /// Only points whose name has this in it.
    pub(crate) only: Option<String>,
}

/// The name of a point, without what it is about.
pub(crate) fn name_of(point: &str) -> &str {
    point.split([' ', '#']).next().unwrap_or_default()
}

/// A pair of point and way that is yet to be tried, and where it is passed.
type Pair = (String, Way);

/// Draws cases without an end, as long as there is a point to aim at; the same seed and the same points draw the same.
pub(crate) struct Drawer<'a> {
    passed: &'a Passed,
    draw: &'a Draw,
    random: StdRng,
    todo: BTreeMap<(Shape, Verb), Vec<Pair>>,
}

impl<'a> Drawer<'a> {
    pub(crate) fn new(passed: &'a Passed, draw: &'a Draw) -> Self {
        Self {
            passed,
            draw,
            random: StdRng::seed_from_u64(draw.seed),
            todo: BTreeMap::new(),
        }
    }
}

impl Iterator for Drawer<'_> {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        let parts = &self.draw.parts;
        let (shape, _) = parts
            .choose_weighted(&mut self.random, |(_, parts)| *parts)
            .ok()?;
        one(
            *shape,
            self.passed,
            &mut self.todo,
            self.draw,
            &mut self.random,
        )
    }
}

fn one(
    shape: Shape,
    passed: &Passed,
    todo: &mut BTreeMap<(Shape, Verb), Vec<Pair>>,
    draw: &Draw,
    random: &mut StdRng,
) -> Option<Case> {
    let mut aim = |verb: Verb, random: &mut StdRng| -> Option<Aim> {
        let points = passed.get(&(shape, verb))?;
        let todo = todo.entry((shape, verb)).or_default();
        if todo.is_empty() {
            *todo = pairs(points, draw);
            todo.shuffle(random);
        }
        let (name, way) = todo.pop()?;
        let of_name: Vec<&String> = points
            .iter()
            .filter(|point| name_of(point) == name)
            .collect();
        let (point, nth) = of_name.choose(random)?.rsplit_once('#')?;
        Some(Aim {
            way,
            point: point.to_owned(),
            nth: nth.parse().ok()?,
        })
    };
    let mut acts = Vec::new();
    // Two cases of three are hurt in the first call; in the others everything stands before.
    let first = if random.random_ratio(2, 3) {
        aim(Verb::Up, random)
    } else {
        None
    };
    acts.push(Act {
        verb: Verb::Up,
        host: Host::Same,
        aim: first,
    });
    let mut last = acts[0].clone();
    if last.aim.is_some() && random.random_ratio(2, 3) {
        last = Act {
            verb: Verb::Resume,
            host: next_host(&last, random),
            // What a resumed run passes is what a whole one does, from somewhere on.
            aim: if random.random_ratio(1, 2) {
                aim(Verb::Up, random)
            } else {
                None
            },
        };
        acts.push(last.clone());
        gone_on(&last, &mut acts, random);
    }
    if acts.len() == 1 && acts[0].aim.is_none() && random.random_ratio(1, 2) {
        let moved = Act {
            verb: Verb::Move,
            host: next_host(&last, random),
            aim: aim(Verb::Move, random),
        };
        acts.push(moved.clone());
        gone_on(&moved, &mut acts, random);
    }
    let is_hurt = acts.iter().any(|act| act.aim.is_some());
    if !is_hurt || random.random_ratio(1, 2) {
        let down = Act {
            verb: Verb::Down,
            host: next_host(&last, random),
            aim: aim(Verb::Down, random),
        };
        acts.push(down.clone());
        gone_on(&down, &mut acts, random);
    }
    acts.iter()
        .any(|act| act.aim.is_some())
        .then_some(Case { shape, acts })
}

/// Lets another machine, or the same one started anew, go on with what was hurt.
fn gone_on(hurt: &Act, acts: &mut Vec<Act>, random: &mut StdRng) {
    if hurt.aim.is_none() {
        return;
    }
    let host = next_host(hurt, random);
    if host != Host::Same {
        acts.push(Act {
            verb: hurt.verb,
            host,
            aim: None,
        });
    }
}

/// Who calls next: only what left no child at work may be lost.
fn next_host(last: &Act, random: &mut StdRng) -> Host {
    let way = last.aim.as_ref().map(|aim| aim.way);
    let n = match way {
        // Its children live on.
        Some(Way::Kill) => return Host::Same,
        Some(Way::KillAll) => 4,
        _ => 6,
    };
    match random.random_range(0..n) {
        0 | 1 => Host::Other,
        2 => Host::Rebooted,
        _ => Host::Same,
    }
}

fn pairs(points: &[String], draw: &Draw) -> Vec<Pair> {
    let names: BTreeSet<&str> = points
        .iter()
        .filter(|point| {
            let only = draw.only.as_ref();
            only.is_none_or(|only| point.contains(only.as_str()))
        })
        .map(|point| name_of(point))
        .collect();
    let mut pairs = Vec::new();
    for name in names {
        for way in Way::all().filter(|way| *way != Way::Stop && way.fits(name)) {
            pairs.push((name.to_owned(), way));
        }
    }
    pairs
}
