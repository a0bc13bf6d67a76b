//! What `up` would change, phase by phase; what would be lost comes first.

use run::{ChangeShown, PhasePlan, PlanReport, PlanVerdict, StepPlan};

use crate::stream::{Look, Tone, clean};

/// A line a phase, below it what would change in its steps.
pub(crate) fn plan(report: &PlanReport, look: Look) -> String {
    let target = clean(&report.target);
    let mut text = format!("what `rebuild up --target {target}` would change\n");
    for phase in &report.phases {
        text.push_str(&phase_lines(phase, look));
    }
    for moved in &report.moved {
        let word = look.paint(Tone::Strong, "moved");
        text.push_str(&format!(
            "  {word} {}: it takes the place of {}, with its state\n",
            clean(&moved.to),
            clean(&moved.from)
        ));
    }
    for step in &report.removed {
        let word = look.paint(Tone::Bad, "removed");
        text.push_str(&format!(
            "  {word} {}: it stands and is defined no more; `up --prune` tears it down, without it `up` stops\n",
            clean(step)
        ));
    }
    text
}

fn phase_lines(phase: &PhasePlan, look: Look) -> String {
    let waits = waits_for(phase);
    let verdict = match phase.verdict {
        PlanVerdict::Unchanged => look.paint(Tone::Good, "no changes"),
        PlanVerdict::Changes => look.paint(Tone::Strong, "changes"),
        PlanVerdict::Waits => look.paint(Tone::Warn, &waits),
        PlanVerdict::Failed => look.paint(Tone::Bad, "can't be planned"),
    };
    let mut text = format!(
        "  {}: {verdict}\n",
        look.paint(Tone::Strong, &clean(&phase.id))
    );
    for step in &phase.steps {
        if step.verdict != PlanVerdict::Unchanged || !step.drift.is_empty() {
            text.push_str(&step_lines(step, look));
        }
    }
    text
}

fn waits_for(phase: &PhasePlan) -> String {
    if phase.waits_for.is_empty() {
        return "waits for its own steps".to_owned();
    }
    phase
        .waits_for
        .iter()
        .map(|phase| format!("waits for phase {}", clean(phase)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn step_lines(step: &StepPlan, look: Look) -> String {
    let name = clean(&step.step);
    let counted: Vec<String> = step
        .counts
        .iter()
        .map(|(action, n)| format!("{n} to {}", clean(action)))
        .collect();
    let words = match step.verdict {
        PlanVerdict::Failed => {
            clean(step.error.as_deref().unwrap_or("no reason given")).into_owned()
        }
        PlanVerdict::Waits => format!("waits for {}", clean(&step.waits_for.join(", "))),
        _ if step.kind == "exec" => "its program would run".to_owned(),
        _ if step.kind == "ssh" => "its hosts would be awaited".to_owned(),
        _ if step.kind == "ansible" => "its playbook would run".to_owned(),
        _ if step.kind == "talos" => {
            "machines that run another version would be upgraded".to_owned()
        }
        _ if counted.is_empty() && !step.outputs.is_empty() => {
            format!("outputs change: {}", clean(&step.outputs.join(", ")))
        }
        _ => counted.join(", "),
    };
    let mut text = format!("    {name}: {words}\n");
    for change in &step.lost {
        text.push_str(&change_line(change, Some(Tone::Bad), "", look));
    }
    for change in &step.changes {
        text.push_str(&change_line(change, None, "", look));
    }
    for change in &step.drift {
        text.push_str(&change_line(change, Some(Tone::Warn), "drifted, ", look));
    }
    text
}

fn change_line(change: &ChangeShown, tone: Option<Tone>, prefix: &str, look: Look) -> String {
    let action = clean(&change.action);
    let action = tone.map_or_else(
        || action.clone().into_owned(),
        |tone| look.paint(tone, &action).into_owned(),
    );
    let why = if change.reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", clean(&change.reason))
    };
    format!("      {prefix}{action} {}{why}\n", clean(&change.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_come_first_and_nothing_is_mocked() {
        let report: PlanReport = serde_json::from_value(serde_json::json!({
            "schema": 1, "target": "live", "verdict": "failed", "removed": ["2.old"],
            "moved": [{ "from": "1a.tunnel", "to": "1b.tunnel" }],
            "phases": [
                { "id": "0", "title": "state", "verdict": "unchanged", "waits_for": [], "steps": [
                    { "step": "0.ground", "kind": "tofu", "verdict": "unchanged", "waits_for": [], "counts": {},
                      "lost": [], "changes": [], "drift": [], "outputs": [], "error": null } ] },
                { "id": "1a", "title": "edge", "verdict": "changes", "waits_for": [], "steps": [
                    { "step": "1a.edge", "kind": "tofu", "verdict": "changes", "waits_for": [],
                      "counts": { "create": 1, "replace": 1 },
                      "lost": [{ "address": "cloud_vm.a", "action": "replace", "reason": "tainted" }],
                      "changes": [{ "address": "cloud_vm.b", "action": "create", "reason": "" }],
                      "drift": [{ "address": "cloud_vm.c", "action": "update", "reason": "" }],
                      "outputs": [], "error": null } ] },
                { "id": "1b", "title": "tunnel", "verdict": "waits", "waits_for": ["1a"], "steps": [
                    { "step": "1b.tunnel", "kind": "tofu", "verdict": "waits", "waits_for": ["1a.edge"], "counts": {},
                      "lost": [], "changes": [], "drift": [], "outputs": [], "error": null } ] },
                { "id": "4", "title": "canary", "verdict": "failed", "waits_for": [], "steps": [
                    { "step": "4.canary", "kind": "tofu", "verdict": "failed", "waits_for": [], "counts": {},
                      "lost": [], "changes": [], "drift": [], "outputs": [], "error": "bad credentials" } ] }
            ]
        }))
        .unwrap();
        insta::assert_snapshot!(plan(&report, Look::PLAIN));
    }
}
