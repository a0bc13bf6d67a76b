//! What each notice looks like to people; pure, so that every line has a test.

use run::ui::{Checkpoint, Doing, Notice, Stage};

use super::Verbosity;
use crate::render;
use crate::stream::{Look, Tone, clean};

/// The lines of one notice, each ended; `None` where it is not told at this verbosity.
pub(super) fn of(notice: &Notice, look: Look, verbosity: Verbosity) -> Option<String> {
    let wanted = match notice {
        Notice::Warning { .. } | Notice::Unmaskable { .. } => Verbosity::Quiet,
        Notice::Tool { .. }
        | Notice::Init { .. }
        | Notice::Locked { .. }
        | Notice::Resource {
            stage: Stage::Started,
            ..
        }
        | Notice::Task { .. }
        | Notice::Checking { good: None, .. }
        | Notice::Check { failure: None, .. } => Verbosity::Verbose,
        Notice::TaskEnded { status, .. } if status == "ok" || status == "skipped" => {
            Verbosity::Verbose
        }
        _ => Verbosity::Normal,
    };
    if verbosity < wanted {
        return None;
    }
    let mut text = text(notice, look);
    text.push('\n');
    Some(text)
}

fn text(notice: &Notice, look: Look) -> String {
    match notice {
        Notice::Bundle {
            digest,
            commit,
            dirty,
        } => bundle(digest, commit.as_deref(), *dirty),
        Notice::Tool {
            name,
            path,
            version,
        } => format!("{} {} at {}", clean(name), clean(version), clean(path)),
        Notice::EnvironmentDropped { names } => {
            format!(
                "not passed on from this environment: {}",
                clean(&names.join(", "))
            )
        }
        Notice::Unmaskable { names } => warning(
            look,
            &format!("too short to be masked in output: {}", names.join(", ")),
            Some("secrets of 6 characters or more are masked"),
        ),
        Notice::Locked { fence } => format!("target locked for this call (fence {fence})"),
        Notice::Checking { what, good } => {
            let word = match good {
                None => "",
                Some(true) => ": good",
                Some(false) => ": not good",
            };
            format!("  {}{word}", clean(what))
        }
        Notice::Waiting { what } => format!("waiting for {}", clean(what)),
        Notice::StoreMoved { from, to } => {
            format!("  states moved from {} to {}", clean(from), clean(to))
        }
        Notice::Init { step, warm } => {
            format!(
                "  {step}: {}",
                if *warm {
                    "data directory is warm"
                } else {
                    "init"
                }
            )
        }
        Notice::Upgrade {
            step,
            kind,
            name,
            from,
            to,
        } => match (from, to) {
            (Some(from), Some(to)) => {
                format!("upgrade {step}: {kind} {} {from} -> {to}", clean(name))
            }
            _ => format!("upgrade {step}: {kind} {} has changed", clean(name)),
        },
        Notice::Preflight { report } => preflight(report, look),
        Notice::Run { id, resumed } => {
            format!("run {id} {}", if *resumed { "goes on" } else { "begins" })
        }
        Notice::Phase {
            phase,
            title,
            doing,
        } => {
            let heading = format!("phase {phase}: {}", clean(title));
            format!(
                "{} ({})",
                look.paint(Tone::Strong, &heading),
                doing_word(*doing)
            )
        }
        Notice::Step { step, doing } => format!("  {step}: {}", doing_word(*doing)),
        Notice::Resource {
            step,
            address,
            action,
            stage,
            seconds: time,
        } => {
            let said = resource(address, action, *stage, *time, look);
            format!("  {step}: {said}")
        }
        Notice::Host { step, host, what } => {
            format!("  {step}: {}: {}", clean(host), clean(what))
        }
        Notice::Task { step, task } => format!("  {step}: task {}", clean(task)),
        Notice::TaskEnded {
            step,
            host,
            task,
            status,
            message,
        } => {
            let tone = match status.as_str() {
                "failed" | "unreachable" => Tone::Bad,
                "changed" | "ignored" => Tone::Warn,
                _ => Tone::Quiet,
            };
            // What a task that went well has to say is in the log.
            let said = match status.as_str() {
                "failed" | "unreachable" | "ignored" if !message.is_empty() => {
                    format!(": {}", clean(message.trim_end()))
                }
                _ => String::new(),
            };
            format!(
                "  {step}: {}: {}: {}{said}",
                clean(host),
                clean(task),
                look.paint(tone, status)
            )
        }
        Notice::Difference {
            step,
            host,
            task,
            text,
        } => {
            let mut lines = format!("  {step}: {}: {}: difference", clean(host), clean(task));
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                lines.push_str(&format!("\n    {}", clean(line)));
            }
            lines
        }
        Notice::Quiet {
            step,
            address,
            seconds: time,
        } => {
            let last = address
                .as_deref()
                .map_or_else(String::new, |at| format!(", last at {}", clean(at)));
            format!(
                "  {step}: nothing said for {}{last}; still running",
                whole(*time)
            )
        }
        Notice::StepEnded {
            step,
            doing,
            ok,
            summary,
            seconds: time,
        } => {
            let (tone, word) = ended(*doing, *ok);
            let said = if summary.is_empty() {
                String::new()
            } else {
                format!(": {}", clean(summary))
            };
            format!(
                "  {step}: {}{said} ({})",
                look.paint(tone, word),
                seconds(*time)
            )
        }
        Notice::Check { check, failure, .. } => match failure {
            None => format!("  check {}: {}", clean(check), look.paint(Tone::Good, "ok")),
            Some(why) => {
                format!(
                    "  check {}: {}: {}",
                    clean(check),
                    look.paint(Tone::Warn, "not yet"),
                    clean(why)
                )
            }
        },
        Notice::Verified { summary } => checkpoint(summary, look),
        Notice::TornDown { phase, n_probes } => gone(phase, *n_probes, look),
        Notice::Job {
            id,
            workspace,
            resumed,
        } => {
            let word = if *resumed { "goes on" } else { "begins" };
            format!("job {id} of workspace {} {word}", clean(workspace))
        }
        Notice::JobStep { step } => look.paint(Tone::Strong, &clean(step)).to_string(),
        Notice::JobStepEnded {
            step,
            ok,
            summary,
            seconds: time,
        } => {
            let (tone, word) = if *ok {
                (Tone::Good, "done")
            } else {
                (Tone::Bad, "failed")
            };
            let said = if summary.is_empty() {
                String::new()
            } else {
                format!(": {}", clean(summary))
            };
            format!(
                "{}: {}{said} ({})",
                clean(step),
                look.paint(tone, word),
                seconds(*time)
            )
        }
        Notice::NothingLeft { target } => {
            format!("nothing is left of {target}: there is nothing to tear down")
        }
        Notice::Told { message } => clean(message).into_owned(),
        Notice::Warning { message, hint } => warning(look, message, hint.as_deref()),
    }
}

fn bundle(digest: &str, commit: Option<&str>, dirty: bool) -> String {
    let from = match (commit, dirty) {
        (Some(commit), false) => format!(" (commit {})", short(commit)),
        (Some(commit), true) => format!(
            " (commit {} and changes that are not committed)",
            short(commit)
        ),
        (None, _) => " (no commit)".to_owned(),
    };
    format!("definitions {}{from}", short(digest))
}

/// Enough of a digest to tell it from others.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// A stop shows the whole report, anything else its verdict.
fn preflight(report: &serde_json::Value, look: Look) -> String {
    match serde_json::from_value::<preflight::Report>(report.clone()) {
        Ok(report) if report.passes() => {
            format!(
                "preflight: {} ({})",
                look.paint(Tone::Good, &report.verdict.to_string()),
                seconds(report.seconds)
            )
        }
        Ok(report) => render::preflight(&report, look).trim_end().to_owned(),
        Err(_) => "preflight: its report can't be read".to_owned(),
    }
}

fn resource(address: &str, action: &str, stage: Stage, time: u64, look: Look) -> String {
    let (tone, word) = match stage {
        Stage::Started => (Tone::Quiet, "…"),
        Stage::Completed => (Tone::Good, "done"),
        Stage::Errored => (Tone::Bad, "failed"),
    };
    let word = if stage == Stage::Started && !look.unicode {
        "..."
    } else {
        word
    };
    let after = if time == 0 {
        String::new()
    } else {
        format!(" after {}", whole(time))
    };
    format!(
        "{action} {}: {}{after}",
        clean(address),
        look.paint(tone, word)
    )
}

/// The summary after a verified phase.
fn checkpoint(summary: &Checkpoint, look: Look) -> String {
    // Only OpenTofu says what it made; of a program's apply nobody knows.
    let made = if summary.made.is_empty() {
        String::new()
    } else {
        format!(": {}", clean(&summary.made.join(", ")))
    };
    let done = format!("phase {} is verified", summary.phase);
    let mut text = format!("{}{made}\n", look.paint(Tone::Good, &done));
    text.push_str(&format!(
        "  {} in this phase, {} in this run{}",
        seconds(summary.phase_seconds),
        seconds(summary.run_seconds),
        summary
            .budget_left_seconds
            .map_or_else(String::new, |left| budget(left, look))
    ));
    if let Some(next) = &summary.next {
        text.push_str(&format!("; next is phase {next}"));
    }
    text
}

/// What proves a phase gone.
fn gone(phase: &str, n_probes: usize, look: Look) -> String {
    let probes = match n_probes {
        0 => "it has no state left".to_owned(),
        1 => "it has no state left, and its residue probe found nothing".to_owned(),
        n => format!("it has no state left, and its {n} residue probes found nothing"),
    };
    let gone = format!("phase {phase} is gone");
    format!("{}: {probes}", look.paint(Tone::Good, &gone))
}

fn budget(left: f64, look: Look) -> String {
    if left >= 0.0 {
        return format!(", {} of the budget left", seconds(left));
    }
    let over = format!("{} over the budget", seconds(-left));
    format!(", {}", look.paint(Tone::Warn, &over))
}

fn warning(look: Look, message: &str, hint: Option<&str>) -> String {
    let mut text = format!(
        "{}: {}",
        look.paint(Tone::Warn, "warning"),
        clean(message.trim_end())
    );
    if let Some(hint) = hint {
        text.push_str(&format!(
            "\n{}: {}",
            look.paint(Tone::Strong, "hint"),
            clean(hint)
        ));
    }
    text
}

/// What is being done, as a noun that fits after a name.
pub(super) const fn doing_word(doing: Doing) -> &'static str {
    match doing {
        Doing::Apply => "apply",
        Doing::Verify => "verify",
        Doing::Teardown => "teardown",
    }
}

const fn ended(doing: Doing, ok: bool) -> (Tone, &'static str) {
    match (doing, ok) {
        (Doing::Apply, true) => (Tone::Good, "applied"),
        (Doing::Verify, true) => (Tone::Good, "verified"),
        (Doing::Teardown, true) => (Tone::Good, "torn down"),
        (Doing::Apply, false) => (Tone::Bad, "apply failed"),
        (Doing::Verify, false) => (Tone::Bad, "verify failed"),
        (Doing::Teardown, false) => (Tone::Bad, "teardown failed"),
    }
}

/// A length of time as people read it: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`.
pub(crate) fn seconds(time: f64) -> String {
    if time < 9.95 {
        return format!("{time:.1} s");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded, and not negative here"
    )]
    whole(time.round() as u64)
}

/// The same for whole seconds.
pub(super) fn whole(time: u64) -> String {
    match time {
        0..60 => format!("{time} s"),
        60..3600 => format!("{} min {:02} s", time / 60, time % 60),
        _ => format!("{} h {:02} min", time / 3600, time % 3600 / 60),
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
