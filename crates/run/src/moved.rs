//! Steps that took the place of others (`moved_from`): what stands, and its state, get the new name.
//!
//! The record says first where a state is going. From then on every call brings the move to its end before
//! anything else, so that a kill at any instant loses nothing: the state is copied, read back and compared, the old
//! one moves to its versions, and only then does the record call the step by its new name.

use std::collections::BTreeMap;

use phase_engine::{ExitCode, Failure, History, StepId};
use platform::Platform;
use record::{Decision, DecisionKind, RecordLedger, StandingEntry};

use crate::bench::Bench;
use crate::error::stopped;
use crate::open::Held;
use crate::world::TargetWorld;

/// The steps that take another one's place: each with the one that stands.
pub(crate) type Moves = BTreeMap<StepId, StepId>;

/// Finds the steps of today's definitions that take the place of one that stands.
///
/// What this run has verified is behind it: a step that is moved there is a difference, and no move.
///
/// # Errors
/// Two steps take the place of the same one.
pub(crate) fn moves(today: &Platform, history: &History) -> Result<Moves, Failure> {
    let mut moves = Moves::new();
    let is_unfinished = history.status.is_some_and(|status| !status.has_ended());
    for def in today.steps() {
        let Some(from) = &def.moved_from else {
            continue;
        };
        let stands = |step| history.standing.contains(step);
        let is_behind = is_unfinished
            && [from, &def.id]
                .iter()
                .any(|step| history.is_verified(&step.phase));
        if !stands(from) || stands(&def.id) || is_behind {
            continue;
        }
        if let Some((other, _)) = moves.iter().find(|(_, taken)| *taken == from) {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "steps `{other}` and `{}` both take the place of `{from}`",
                    def.id
                ),
            )
            .hint("`moved_from` may name a step once; nothing was touched"));
        }
        moves.insert(def.id.clone(), from.clone());
    }
    Ok(moves)
}

/// What stands once the moves are made.
pub(crate) fn after(moves: &Moves, standing: &[StepId]) -> Vec<StepId> {
    let now = |step: &StepId| {
        let moved = moves.iter().find(|(_, from)| *from == step);
        moved.map_or_else(|| step.clone(), |(to, _)| to.clone())
    };
    standing.iter().map(now).collect()
}

impl Held<'_> {
    /// Moves what stands, each with its state, and gives what is to be recorded of it.
    pub(crate) fn make_moves(
        &self,
        ledger: &mut RecordLedger,
        moves: &Moves,
    ) -> Result<Vec<Decision>, Failure> {
        let mut decisions = Vec::new();
        for (to, from) in moves {
            self.may_move(ledger, from, to)?;
            ledger
                .change(|record| record.begin_move(from, to))
                .map_err(|error| stopped(&error))?;
            self.end_move(ledger, from, to)?;
            decisions.push(self.move_decision(from, to));
        }
        Ok(decisions)
    }

    /// Brings the moves to their end that a call before this one began.
    pub(crate) fn settle_moves(&self, ledger: &mut RecordLedger) -> Result<(), Failure> {
        let begun: Vec<(StepId, StepId)> = ledger
            .record()
            .iter()
            .flat_map(|record| &record.standing)
            .filter_map(|entry| Some((entry.step.clone(), entry.moving_to.clone()?)))
            .collect();
        for (from, to) in begun {
            self.end_move(ledger, &from, &to)?;
            let decision = self.move_decision(&from, &to);
            ledger
                .change(|record| record.decisions.push(decision))
                .map_err(|error| stopped(&error))?;
        }
        Ok(())
    }

    fn move_decision(&self, from: &StepId, to: &StepId) -> Decision {
        Decision {
            reason: Some(format!("it took the place of {from}")),
            ..self.decision(DecisionKind::Moved, to.to_string())
        }
    }

    /// The lineage check, before anything is written: the state is the one that the record knows, and there is none
    /// where it goes.
    fn may_move(&self, ledger: &RecordLedger, from: &StepId, to: &StepId) -> Result<(), Failure> {
        let entry = standing(ledger, from)?;
        let kind = self.today.as_ref().ok().and_then(|today| {
            let (_, def) = today.step(to).ok()?;
            Some(def.kind.word())
        });
        if kind.is_none_or(|kind| kind != entry.kind) {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "step `{to}` can't take the place of `{from}`: that is `{}`, and this is `{}`",
                    entry.kind,
                    kind.unwrap_or("not defined")
                ),
            )
            .hint("take `moved_from` out, and let `--prune` tear the former step down"));
        }
        let bench = &self.bench;
        let found = bench.mark(from)?;
        match (&entry.state, &found) {
            (None, _) => {}
            (Some(recorded), Some(found))
                if found.lineage == recorded.lineage && found.serial >= recorded.serial => {}
            (Some(recorded), found) => {
                let is = found.as_ref().map_or_else(
                    || "there is none".to_owned(),
                    |found| format!("it is lineage `{}` serial {}", found.lineage, found.serial),
                );
                return Err(Failure::new(
                    ExitCode::Stopped,
                    format!("the state of step `{from}` is not moved: it is not the recorded one"),
                )
                .because(format!(
                    "recorded is lineage `{}` serial {}; {is}",
                    recorded.lineage, recorded.serial
                ))
                .hint("restore the state from its versions in the store; nothing was changed"));
            }
        }
        if bench.mark(to)?.is_some() {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the state of step `{from}` is not moved: step `{to}` has one already"),
            )
            .hint(format!(
                "nothing was changed; see what state `{}` of the store is, and take it away",
                to.key()
            )));
        }
        Ok(())
    }

    /// Copies the state, proves the copy, retires the old one, and renames what stands.
    fn end_move(
        &self,
        ledger: &mut RecordLedger,
        from: &StepId,
        to: &StepId,
    ) -> Result<(), Failure> {
        let entry = standing(ledger, from)?;
        self.bench.move_state(&entry, from, to)?;
        ledger
            .change(|record| record.end_move(from, to))
            .map_err(|error| stopped(&error))
    }
}

impl TargetWorld<'_, '_> {
    /// Sees what stands by its new names.
    pub(crate) fn settle_after_moves(&mut self, held: &Held<'_>) -> Result<(), Failure> {
        self.phase_sources = held.phase_sources(&self.standing)?;
        for entry in self.standing.all() {
            self.bench.recall_outputs(&entry, &self.standing)?;
        }
        Ok(())
    }
}

impl Bench<'_> {
    /// Gets a state to its new place. Safe to repeat wherever it was cut.
    fn move_state(&self, entry: &StandingEntry, from: &StepId, to: &StepId) -> Result<(), Failure> {
        let backend = self.server.backend();
        let read = |step: &StepId| {
            backend
                .read_state(&step.key())
                .map_err(|error| stopped(&error))
        };
        let Some(old) = read(from)? else {
            // Moved by a call that was cut right after that, or there never was one.
            return match (&entry.state, read(to)?) {
                (Some(recorded), Some(new)) if new.header.lineage == recorded.lineage => Ok(()),
                (None, _) => Ok(()),
                (Some(recorded), _) => Err(Failure::new(
                    ExitCode::Stopped,
                    format!(
                        "the state of step `{from}`, on its way to `{to}`, is in neither place: lineage `{}`",
                        recorded.lineage
                    ),
                )
                .hint("restore the state from its versions in the store before anything else")),
            };
        };
        if read(to)?.is_none() {
            // Byte for byte: what is encrypted stays as it is.
            backend
                .write_rescued(&to.key(), &old.bytes)
                .map_err(|error| stopped(&error))?;
        }
        let is_whole = read(to)?.is_some_and(|new| {
            new.bytes == old.bytes
                && new.header.lineage == old.header.lineage
                && new.header.serial == old.header.serial
        });
        if !is_whole {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the states of steps `{from}` and `{to}` differ, and one was to take the other's place"),
            )
            .hint(format!(
                "see which of the states `{}` and `{}` of the store is the right one, and take the other away",
                from.key(),
                to.key()
            )));
        }
        backend
            .retire(&from.key())
            .map(|_| ())
            .map_err(|error| stopped(&error))
    }
}

fn standing(ledger: &RecordLedger, step: &StepId) -> Result<StandingEntry, Failure> {
    ledger
        .record()
        .and_then(|record| record.standing_of(step))
        .cloned()
        .ok_or_else(|| Failure::failed(format!("nothing stands of step `{step}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str) -> StepId {
        id.parse().unwrap()
    }

    fn platform(text: &str) -> Platform {
        let text = format!("[platform]\nname = \"lab\"\n{text}");
        let files = platform::MemoryFiles::default()
            .with("rebuild.toml", text)
            .with("root/main.tf", "");
        platform::load_platform(&files).unwrap()
    }

    fn phase(id: &str, steps: &[(&str, &str)]) -> String {
        let mut text = format!("[[phase]]\nid = \"{id}\"\n");
        for (name, more) in steps {
            text.push_str(&format!(
                "[[phase.step]]\nname = \"{name}\"\ntofu = \"root\"\n{more}\n"
            ));
        }
        text
    }

    #[test]
    fn a_step_takes_the_place_of_one_that_stands_and_of_no_other() {
        let today = platform(&phase("1", &[("new", "moved_from = \"1.old\"")]));
        let mut history = History::of_new_run(vec![step("0.a"), step("1.old"), step("2.z")]);
        let found = moves(&today, &history).unwrap();
        assert_eq!(found, Moves::from([(step("1.new"), step("1.old"))]));
        assert_eq!(
            after(&found, &history.standing),
            [step("0.a"), step("1.new"), step("2.z")]
        );
        // Done already, or never there: the line may stay where it is.
        history.standing = vec![step("1.new")];
        assert_eq!(moves(&today, &history).unwrap(), Moves::new());
        history.standing = vec![step("1.old"), step("1.new")];
        assert_eq!(moves(&today, &history).unwrap(), Moves::new());
    }

    #[test]
    fn what_the_run_has_verified_is_not_moved() {
        let today = platform(&phase("1", &[("new", "moved_from = \"1.old\"")]));
        let mut history = History::of_new_run(vec![step("1.old")]);
        history.verified.push(phase_engine::VerifiedPhase {
            phase: "1".parse().unwrap(),
            steps: vec![step("1.old")],
        });
        history.status = Some(phase_engine::RunStatus::Failed);
        assert_eq!(moves(&today, &history).unwrap(), Moves::new());
        // A new run has nothing behind it.
        history.status = Some(phase_engine::RunStatus::Finished);
        assert_eq!(moves(&today, &history).unwrap().len(), 1);
    }

    #[test]
    fn two_steps_can_not_take_the_same_place() {
        let today = platform(&phase(
            "1",
            &[
                ("b", "moved_from = \"1.old\""),
                ("c", "moved_from = \"1.old\""),
            ],
        ));
        let history = History::of_new_run(vec![step("1.old")]);
        let failure = moves(&today, &history).unwrap_err();
        assert_eq!(failure.exit, ExitCode::Unusable);
        assert!(failure.what.contains("`1.b` and `1.c`"), "{failure}");
    }
}
