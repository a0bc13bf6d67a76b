//! Where a state went.

use run::{Direction, Migrated};

use crate::stream::{Look, Tone, clean};

/// Which side rules now, and what is left on the other.
pub(crate) fn migrated(migrated: &Migrated, look: Look) -> String {
    let Migrated {
        step, old, serial, ..
    } = migrated;
    let n = match migrated.n_resources {
        1 => "1 resource".to_owned(),
        n => format!("{n} resources"),
    };
    let (word, what, rest) = match (migrated.direction, migrated.already) {
        (Direction::In, false) => (
            "taken over",
            format!("the state of step {step} is in the target's store: {n}, serial {serial}"),
            format!("the old one is left in {old}: nobody may use it any more"),
        ),
        (Direction::In, true) => (
            "taken over before",
            format!("the state of step {step} is in the target's store: serial {serial}"),
            format!("the old one is in {old}: nobody may use it any more"),
        ),
        (Direction::Back, false) => (
            "given back",
            format!("the state of step {step} is in {old}: {n}, serial {serial}"),
            "what the store had is kept among its versions".to_owned(),
        ),
        (Direction::Back, true) => (
            "given back",
            format!("the state of step {step} is in {old} as before: {n}, serial {serial}"),
            "the copy of a migration that was cut is kept among the store's versions".to_owned(),
        ),
    };
    let mut text = format!(
        "{}: {}\n{}\nnext\n",
        look.paint(Tone::Good, word),
        clean(&what),
        clean(&rest)
    );
    for command in &migrated.next {
        text.push_str(&format!("  {}\n", clean(command)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_rules_is_named_and_what_is_left_on_the_other() {
        let mut one = Migrated {
            schema: 1,
            target: "live".to_owned(),
            step: "1a.edge".to_owned(),
            direction: Direction::In,
            old: "s3 (bucket b, key k)".to_owned(),
            lineage: "l".to_owned(),
            serial: 7,
            n_resources: 1,
            already: false,
            next: vec!["rebuild plan --target live".to_owned()],
        };
        assert_eq!(
            migrated(&one, Look::PLAIN),
            "taken over: the state of step 1a.edge is in the target's store: 1 resource, serial 7\n\
             the old one is left in s3 (bucket b, key k): nobody may use it any more\n\
             next\n  rebuild plan --target live\n"
        );
        one.direction = Direction::Back;
        let text = migrated(&one, Look::PLAIN);
        assert!(
            text.starts_with("given back: the state of step 1a.edge is in s3"),
            "{text}"
        );
    }
}
