//! Single mistakes planted into good documents: each is found, at its place.

use proptest::test_runner::{RngAlgorithm, TestRng};
use rand_like::Picks;
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::render::tests::{PLATFORM, rendered};

/// Picks by a fixed seed, so that the same mistakes are planted each time.
mod rand_like {
    use super::TestRng;
    use proptest::prelude::Rng;

    pub(super) struct Picks(pub(super) TestRng);

    impl Picks {
        pub(super) fn below(&mut self, n: usize) -> usize {
            usize::try_from(self.0.next_u64() % n as u64).expect("it is below a `usize`")
        }
    }
}

/// A mistake that people make.
#[derive(Debug, Clone, Copy)]
enum Mistake {
    Misspelt,
    Missing,
    WrongType,
    ArgumentAsBlock,
    BlockAsArgument,
    TooManyBlocks,
    ReadOnly,
    WrongKind,
}

const MISTAKES: [Mistake; 8] = [
    Mistake::Misspelt,
    Mistake::Missing,
    Mistake::WrongType,
    Mistake::ArgumentAsBlock,
    Mistake::BlockAsArgument,
    Mistake::TooManyBlocks,
    Mistake::ReadOnly,
    Mistake::WrongKind,
];
const META: [&str; 6] = [
    "count",
    "for_each",
    "depends_on",
    "lifecycle",
    "provider",
    "//",
];

/// One block of a document: where, and by which schema.
struct Spot {
    pointer: String,
    kind: String,
    schema: Block,
}

fn spots(document: &Json) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (top, is_data) in [("resource", false), ("data", true)] {
        for (kind, names) in document[top].as_object().into_iter().flatten() {
            let prefix = kind.split('_').next().expect("a kind has a prefix");
            let schema = Schemas::shipped().pinned(prefix).expect("it ships");
            let blocks = if is_data {
                &schema.data_sources
            } else {
                &schema.resources
            };
            for (name, body) in names.as_object().into_iter().flatten() {
                let pointer = format!("/{top}/{kind}/{name}");
                within(pointer, kind, body, &blocks[kind], &mut spots);
            }
        }
    }
    spots
}

fn within(pointer: String, kind: &str, body: &Json, block: &Block, spots: &mut Vec<Spot>) {
    for (name, nested) in &block.blocks {
        for (index, body) in body[name].as_array().into_iter().flatten().enumerate() {
            let pointer = format!("{pointer}/{name}/{index}");
            within(pointer, kind, body, &nested.block, spots);
        }
    }
    spots.push(Spot {
        pointer,
        kind: kind.to_owned(),
        schema: block.clone(),
    });
}

/// Plants the mistake, where the spot has room for it.
fn plant(document: &mut Json, spot: &Spot, mistake: Mistake, picks: &mut Picks) -> Option<String> {
    if let Mistake::WrongKind = mistake {
        let parts: Vec<&str> = spot.pointer.split('/').collect();
        let kinds = document[parts[1]].as_object_mut()?;
        let taken = kinds.remove(&spot.kind)?;
        let wrong = format!("{}x", spot.kind);
        kinds.insert(wrong.clone(), taken);
        return Some(wrong);
    }
    let body = document.pointer_mut(&spot.pointer)?.as_object_mut()?;
    let is_set = |body: &Map<String, Json>, name: &String| body.contains_key(name);
    let choose = |names: Vec<String>, picks: &mut Picks| -> Option<String> {
        (!names.is_empty()).then(|| names[picks.below(names.len())].clone())
    };
    let attributes = |body: &Map<String, Json>, fits: &dyn Fn(&Attribute) -> bool| -> Vec<String> {
        let all = spot.schema.attributes.iter();
        all.filter(|(name, attribute)| is_set(body, name) && fits(attribute))
            .map(|(name, _)| name.clone())
            .collect()
    };
    match mistake {
        Mistake::Misspelt => {
            let names: Vec<String> = body
                .keys()
                .filter(|key| !META.contains(&key.as_str()))
                .cloned()
                .collect();
            let name = choose(names, picks)?;
            let value = body.remove(&name)?;
            let at = picks.below(name.len());
            let mut wrong = name.clone();
            wrong.insert(at, 'z');
            body.insert(wrong.clone(), value);
            Some(wrong)
        }
        Mistake::Missing => {
            let name = choose(attributes(body, &|attribute| attribute.required), picks)?;
            body.remove(&name);
            Some(name)
        }
        Mistake::WrongType => {
            let name = choose(attributes(body, &|_| true), picks)?;
            let wrong = match &spot.schema.attributes[&name].kind {
                Kind::Type(Type::String) => json!(["a", "list"]),
                Kind::Type(Type::Number | Type::Bool) => json!("neither"),
                Kind::Type(Type::List(_)) => json!({ "an": "object" }),
                Kind::Type(Type::Any) => return None,
                Kind::Type(_) | Kind::Nested(..) => json!("a text"),
            };
            body.insert(name.clone(), wrong);
            Some(name)
        }
        Mistake::ArgumentAsBlock => {
            let name = choose(
                attributes(body, &|attribute| attribute.kind.is_primitive()),
                picks,
            )?;
            body.insert(name.clone(), json!([{ "value": 1 }]));
            Some(name)
        }
        Mistake::BlockAsArgument => {
            let names = spot.schema.blocks.keys().filter(|name| is_set(body, name));
            let name = choose(names.cloned().collect(), picks)?;
            body.insert(name.clone(), json!("a text"));
            Some(name)
        }
        Mistake::TooManyBlocks => {
            let names = spot.schema.blocks.iter();
            let names =
                names.filter(|(name, nested)| nested.max_items == Some(1) && is_set(body, name));
            let name = choose(names.map(|(name, _)| name.clone()).collect(), picks)?;
            let blocks = body[&name].as_array_mut()?;
            blocks.push(blocks[0].clone());
            Some(name)
        }
        Mistake::ReadOnly => {
            let names = spot.schema.attributes.iter();
            let names =
                names.filter(|(name, attribute)| !attribute.is_settable() && !is_set(body, name));
            let name = choose(names.map(|(name, _)| name.clone()).collect(), picks)?;
            body.insert(name.clone(), json!("mine"));
            Some(name)
        }
        Mistake::WrongKind => None,
    }
}

#[test]
fn two_hundred_single_mistakes_in_good_documents_are_each_found() {
    let documents: Vec<Json> = rendered(PLATFORM)
        .files
        .values()
        .map(|bytes| serde_json::from_slice(bytes).expect("it is JSON"))
        .filter(|document: &Json| !spots(document).is_empty())
        .collect();
    assert_eq!(documents.len(), 5, "each provider has one");
    let mut picks = Picks(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut planted = [0_usize; MISTAKES.len()];
    let mut n_tries = 0;
    while planted.iter().sum::<usize>() < 200 || planted.contains(&0) {
        n_tries += 1;
        assert!(n_tries < 20_000, "{planted:?}");
        let mut document = documents[picks.below(documents.len())].clone();
        let all = spots(&document);
        let spot = &all[picks.below(all.len())];
        let which = picks.below(MISTAKES.len());
        let Some(name) = plant(&mut document, spot, MISTAKES[which], &mut picks) else {
            continue;
        };
        planted[which] += 1;
        let faults = Schemas::shipped().check(&document);
        let place = spot
            .pointer
            .trim_start_matches('/')
            .split('/')
            .nth(2)
            .unwrap_or_default();
        let is_found = faults.iter().any(|fault| {
            let text = fault.to_string();
            !fault.is_warning()
                && text.contains(&name)
                && (text.contains(place) || matches!(MISTAKES[which], Mistake::WrongKind))
        });
        assert!(
            is_found,
            "{:?} of `{name}` at {}: {faults:?}",
            MISTAKES[which], spot.pointer
        );
    }
}
