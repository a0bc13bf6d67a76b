//! Where a target is, on one page.

use record::TargetState;
use run::{Explanation, StepShown};

use super::run::moment;
use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// The whole page.
pub(crate) fn explain(explained: &Explanation, look: Look) -> String {
    let Explanation { target, .. } = explained;
    let (sentence, tone) = match explained.state {
        TargetState::Empty => ("nothing stands", Tone::Quiet),
        TargetState::Unfinished => ("a run is unfinished", Tone::Warn),
        TargetState::Finished => ("it stands", Tone::Good),
        TargetState::TearingDown => ("it is being torn down", Tone::Warn),
    };
    let protected = if explained.protected {
        ", protected"
    } else {
        ""
    };
    let mut text = format!("{target}{protected}: {}\n", look.paint(tone, sentence));
    let mut line = |text_of: String| text.push_str(&format!("{}\n", clean(&text_of)));
    if let Some(lock) = &explained.lock {
        line(format!(
            "locked by {} on {} for `{}` since {}",
            lock.user, lock.host, lock.command, lock.since
        ));
    }
    if let Some(unfinished) = &explained.unfinished {
        line(unfinished.clone());
    }
    match (&explained.commit, explained.dirty) {
        (Some(commit), false) => line(format!("today's definitions: commit {}", short(commit))),
        (Some(commit), true) => line(format!(
            "today's definitions: commit {} with changes",
            short(commit)
        )),
        (None, _) => {}
    }
    match explained.n_faults {
        0 => {}
        1 => line("today's definitions have a fault".to_owned()),
        n => line(format!("today's definitions have {n} faults")),
    }
    if let Some(run) = &explained.last_known_good {
        line(format!("last known good: run {run}"));
    }
    match explained.seen {
        Some(seen) => line(format!("drift as the preflight of {} saw it", moment(seen))),
        None if explained.phases.iter().any(|phase| !phase.steps.is_empty())
            && explained.state != TargetState::Empty =>
        {
            line("no preflight has looked at this run's target yet".to_owned());
        }
        None => {}
    }
    for phase in &explained.phases {
        let verdict = match phase.verdict.as_deref() {
            Some("clean") => format!(": {}", look.paint(Tone::Good, "clean")),
            Some(verdict) => format!(": {}", look.paint(Tone::Bad, verdict)),
            None => String::new(),
        };
        text.push_str(&format!(
            "{} {}{verdict}\n",
            look.paint(Tone::Strong, &format!("phase {}", phase.id)),
            clean(&phase.title)
        ));
        let rows: Vec<Vec<Cell>> = phase.steps.iter().map(row).collect();
        text.push_str(&table(&rows, "  ", look));
        for finding in &phase.findings {
            text.push_str(&format!("    {}\n", clean(finding)));
        }
    }
    for suspect in &explained.suspects {
        let what = suspect.address.as_deref().unwrap_or("anything");
        text.push_str(&format!(
            "{}: {} of step {} may exist in no state, since {}\n",
            look.paint(Tone::Bad, "suspect"),
            clean(what),
            suspect.step,
            suspect.since
        ));
    }
    text.push_str("next\n");
    let rows: Vec<Vec<Cell>> = explained
        .next
        .iter()
        .map(|next| {
            vec![
                clean(&next.command).into_owned().into(),
                next.why.clone().into(),
            ]
        })
        .collect();
    text.push_str(&table(&rows, "  ", look));
    text
}

fn row(step: &StepShown) -> Vec<Cell> {
    let name = step.step.clone();
    if !step.stands {
        let unfinished = step.unfinished.as_deref().unwrap_or("does not stand");
        return vec![
            name.into(),
            Cell(clean(unfinished).into_owned(), Some(Tone::Quiet)),
        ];
    }
    let from = match (&step.commit, &step.bundle) {
        (Some(commit), _) => format!("commit {}", short(commit)),
        (None, Some(bundle)) => format!("bundle {}", short(bundle)),
        (None, None) => String::new(),
    };
    let mut state = Vec::new();
    if !step.defined {
        state.push("defined no more".to_owned());
    }
    state.extend(step.unfinished.clone());
    state.extend(
        step.adopted_from
            .as_ref()
            .map(|from| format!("taken over from {from}")),
    );
    let tone = (!step.defined || step.unfinished.is_some()).then_some(Tone::Bad);
    vec![
        name.into(),
        from.into(),
        step.since
            .map(|since| format!("since {}", moment(since)))
            .unwrap_or_default()
            .into(),
        Cell(clean(&state.join("; ")).into_owned(), tone),
    ]
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
