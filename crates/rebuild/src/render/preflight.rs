//! The preflight report: a line a phase, below it what speaks against going on.

use preflight::{Finding, Note, PhaseReport, Reason, Report, ReportVerdict, Verdict};
use serde_json::Value;

use crate::stream::{Look, Tone, clean};
use crate::ui::seconds;

/// How much of a value is shown, in characters.
const MAX_VALUE: usize = 300;

/// The whole report.
pub(crate) fn preflight(report: &Report, look: Look) -> String {
    let tone = if report.verdict == ReportVerdict::Stopped {
        Tone::Bad
    } else {
        Tone::Good
    };
    let verdict = match report.verdict {
        ReportVerdict::FirstBuild => "first build",
        ReportVerdict::Clean => "clean",
        ReportVerdict::Stopped => "stopped",
    };
    let mut text = format!(
        "preflight of {}: {} ({})\n",
        clean(&report.target),
        look.paint(tone, verdict),
        seconds(report.seconds)
    );
    let width = report
        .phases
        .iter()
        .map(|phase| phase.id.chars().count())
        .max()
        .unwrap_or_default();
    let verdicts = report
        .phases
        .iter()
        .map(|phase| phase.verdict.as_str().len());
    let columns = (width, verdicts.max().unwrap_or_default());
    for phase in &report.phases {
        text.push_str(&of_phase(phase, columns, look));
    }
    for note in &report.notes {
        text.push_str(&of_note(note, "  ", look));
    }
    text
}

fn of_phase(phase: &PhaseReport, (id, verdict): (usize, usize), look: Look) -> String {
    let tone = match phase.verdict {
        Verdict::Clean => Tone::Good,
        Verdict::NotRun => Tone::Warn,
        _ => Tone::Bad,
    };
    // Padded before it is painted: colour has no width.
    let word = format!("{:<verdict$}", phase.verdict.as_str());
    let mut text = format!(
        "  {:<id$}  {}  {}\n",
        clean(&phase.id),
        look.paint(tone, &word),
        look.paint(Tone::Quiet, &seconds(phase.seconds))
    );
    let indent = " ".repeat(id + 4);
    for finding in &phase.findings {
        text.push_str(&format!("{indent}{}\n", of_finding(finding, look)));
    }
    for note in &phase.notes {
        text.push_str(&of_note(note, &indent, look));
    }
    text
}

fn of_finding(finding: &Finding, look: Look) -> String {
    let mut place: Vec<_> = [&finding.step, &finding.address]
        .into_iter()
        .flatten()
        .map(|part| clean(part))
        .collect();
    if let Some(attribute) = &finding.attribute {
        place.push(clean(attribute));
    }
    let mut text = place.join(" ");
    let change = match (&finding.was, &finding.is) {
        (Value::Null, Value::Null) => String::new(),
        (Value::String(was), Value::Null) if finding.reason == Reason::StateAbsent => {
            format!("not in the store; recorded is {}", cut(&clean(was)))
        }
        (Value::Null, Value::String(message)) => cut(&clean(message).replace('\n', " ")),
        (Value::Null, is) if finding.attribute.is_none() => shown(is),
        (was, is) => format!("{} {} {}", shown(was), look.arrow(), shown(is)),
    };
    if !change.is_empty() {
        text.push_str(if text.is_empty() { "" } else { ": " });
        text.push_str(&change);
    }
    let reason = serde_json::to_value(finding.reason).ok();
    let reason = reason.as_ref().and_then(Value::as_str).unwrap_or_default();
    let reason = format!("({reason})");
    format!(
        "{}{}{}",
        text,
        if text.is_empty() { "" } else { " " },
        look.paint(Tone::Warn, &reason)
    )
}

fn of_note(note: &Note, indent: &str, look: Look) -> String {
    let step = note
        .step
        .as_deref()
        .map_or_else(String::new, |step| format!("{}: ", clean(step)));
    format!(
        "{indent}{} {step}{}\n",
        look.paint(Tone::Quiet, "note:"),
        clean(&note.text).replace('\n', " ")
    )
}

/// A value as JSON on one line, cut where it is long.
fn shown(value: &Value) -> String {
    cut(&clean(&value.to_string()))
}

fn cut(text: &str) -> String {
    let n_chars = text.chars().count();
    if n_chars <= MAX_VALUE {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_VALUE).collect();
    format!("{kept}... ({n_chars} characters)")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        serde_json::from_value(json!({
            "schema": 1, "target": "drill", "verdict": "stopped", "seconds": 12.34, "notes": [
                { "step": null, "text": "phase 2 has no residue probe" }
            ],
            "phases": [
                { "id": "0", "verdict": "clean", "findings": [], "notes": [], "seconds": 0.4 },
                { "id": "1a", "verdict": "drifted", "seconds": 1.25,
                  "notes": [{ "step": "edge", "text": "1 change of the as-applied bundle does not converge" }],
                  "findings": [
                    { "step": "edge", "address": "local_file.zone", "attribute": "tags.team",
                      "was": "a", "is": { "b": [1, null] }, "reason": "changed-outside" },
                    { "step": "edge", "address": "local_file.key", "attribute": "content",
                      "was": "[sensitive]", "is": "[sensitive]", "reason": "changed-outside" },
                    { "step": "edge", "address": "local_file.port", "attribute": "port",
                      "was": null, "is": 80, "reason": "changed-outside" },
                    { "step": "edge", "address": "local_file.gone", "attribute": null,
                      "was": null, "is": null, "reason": "deleted-outside" },
                    { "step": null, "address": "check.edge answers", "attribute": null,
                      "was": null, "is": "status 503\ninstead of 200", "reason": "phase-check-failed" }
                ] },
                { "id": "1b", "verdict": "not-run", "findings": [], "notes": [], "seconds": 0.0 }
            ]
        }))
        .unwrap()
    }

    #[test]
    fn a_stopped_preflight() {
        insta::assert_snapshot!(preflight(&report(), Look::PLAIN));
    }

    #[test]
    fn colour_moves_nothing() {
        let colored = preflight(
            &report(),
            Look {
                color: true,
                unicode: false,
            },
        );
        assert_ne!(colored, preflight(&report(), Look::PLAIN));
        assert_eq!(clean(&colored), preflight(&report(), Look::PLAIN));
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let long = cut(&"ü".repeat(400));
        assert!(long.ends_with("... (400 characters)"));
        assert_eq!(cut("short"), "short");
    }
}
