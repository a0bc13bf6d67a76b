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
    /// How many hurts there are to be, at least.
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

/// Draws cases; the same seed and the same points draw the same.
pub(crate) fn drawn(passed: &Passed, draw: &Draw) -> Vec<Case> {
    let mut random = StdRng::seed_from_u64(draw.seed);
    let mut cases = Vec::new();
    let mut n_aims = 0;
    let mut todo: BTreeMap<(Shape, Verb), Vec<Pair>> = BTreeMap::new();
    while n_aims < draw.n_faults {
        let Ok((shape, _)) = draw.parts.choose_weighted(&mut random, |(_, parts)| *parts) else {
            break;
        };
        let Some(case) = one(*shape, passed, &mut todo, draw, &mut random) else {
            break;
        };
        n_aims += case.acts.iter().filter(|act| act.aim.is_some()).count();
        cases.push(case);
    }
    cases
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
    }
    if acts.len() == 1 && acts[0].aim.is_none() && random.random_ratio(1, 2) {
        acts.push(Act {
            verb: Verb::Move,
            host: Host::Same,
            aim: aim(Verb::Move, random),
        });
    }
    let is_hurt = acts.iter().any(|act| act.aim.is_some());
    if !is_hurt || random.random_ratio(1, 2) {
        let down = Act {
            verb: Verb::Down,
            host: next_host(&last, random),
            aim: aim(Verb::Down, random),
        };
        acts.push(down);
    }
    acts.iter()
        .any(|act| act.aim.is_some())
        .then_some(Case { shape, acts })
}

/// Who calls next: only what is wholly dead may be lost.
fn next_host(last: &Act, random: &mut StdRng) -> Host {
    let is_dead = last.aim.as_ref().is_some_and(|aim| aim.way == Way::KillAll);
    match random.random_range(0..4) {
        0 | 1 if is_dead => Host::Other,
        2 if is_dead => Host::Rebooted,
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
