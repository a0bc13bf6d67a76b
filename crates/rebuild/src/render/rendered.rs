//! What nodes steps are rendered into.

use run::{RenderAction, RenderReport};

use crate::stream::{Look, Tone, clean};

/// The files themselves; or, where a directory was named, what was or would be changed there.
pub(crate) fn rendered(report: &RenderReport, look: Look) -> String {
    if report.steps.is_empty() {
        return "the platform has no `nodes` steps: nothing is rendered\n".to_owned();
    }
    let mut text = String::new();
    let Some(out) = &report.out else {
        for step in &report.steps {
            for file in &step.files {
                let head = format!("# {} from {}: {}", step.step, step.specs, file.name);
                text.push_str(&format!("{}\n", look.paint(Tone::Strong, &clean(&head))));
                // Tabs and line breaks are the file's own.
                for line in file.text.lines() {
                    text.push_str(&format!("{}\n", clean(line)));
                }
            }
        }
        return text;
    };
    for change in &report.changes {
        let word = match (change.action, report.good) {
            (RenderAction::Write, true) => "written",
            (RenderAction::Remove, true) => "removed",
            (RenderAction::Write, false) => "differs",
            (RenderAction::Remove, false) => "is no longer rendered",
        };
        text.push_str(&format!("{}: {word}\n", clean(&change.path)));
    }
    let n = report
        .steps
        .iter()
        .map(|step| step.files.len())
        .sum::<usize>();
    let verdict = match (report.changes.is_empty(), report.good) {
        (true, _) => format!("all {n} files are as they are rendered"),
        (false, true) => format!("{} of {n} files changed", report.changes.len()),
        (false, false) => {
            let options = format!("--out {}", clean(out));
            format!("they differ; `rebuild render {options}` writes them")
        }
    };
    text.push_str(&format!("{}: {verdict}\n", clean(out)));
    text
}
