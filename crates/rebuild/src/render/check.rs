//! What `check` found, module by module.

use run::{CheckReport, DefinitionFault, Finding, Lint, ModuleReport, Severity, Tests};

use crate::stream::{Look, Tone, clean};

/// A line for each module, below it what is wrong with it; then what holds for all of them.
pub(crate) fn check(report: &CheckReport, look: Look) -> String {
    let mut text = String::new();
    for (faults, tone) in [(&report.faults, Tone::Bad), (&report.warnings, Tone::Warn)] {
        for fault in faults {
            text.push_str(&fault_line(fault, tone, look));
        }
    }
    for module in &report.modules {
        text.push_str(&module_lines(module, look));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {}\n", clean(note)));
    }
    let bad = report.modules.iter().filter(|module| !module.good).count();
    let n_modules = report.modules.len();
    let verdict = if report.good {
        look.paint(Tone::Good, "good")
    } else {
        look.paint(Tone::Bad, "not good")
    };
    let counted = match (report.faults.len(), bad) {
        (0, 0) => format!("{n_modules} modules"),
        (0, bad) => format!("{bad} of {n_modules} modules"),
        (faults, bad) => {
            format!("{faults} faults in the definitions, {bad} of {n_modules} modules")
        }
    };
    text.push_str(&format!("check: {verdict} ({counted})\n"));
    text
}

fn fault_line(fault: &DefinitionFault, tone: Tone, look: Look) -> String {
    let place = place(Some(&fault.file), fault.line, fault.column);
    let mut text = format!("{} {}\n", look.paint(tone, &place), clean(&fault.message));
    if let Some(help) = &fault.help {
        text.push_str(&format!("  help: {}\n", clean(help)));
    }
    text
}

fn module_lines(module: &ModuleReport, look: Look) -> String {
    let path = if module.path.is_empty() {
        "."
    } else {
        &module.path
    };
    let word = if module.good {
        look.paint(Tone::Good, "good")
    } else {
        look.paint(Tone::Bad, "not good")
    };
    let mut text = format!("{}: {word}\n", look.paint(Tone::Strong, &clean(path)));
    for file in &module.format {
        let what = if file.fixed {
            "was formatted"
        } else {
            "is not formatted; `rebuild check --fix` formats it"
        };
        text.push_str(&format!("  {} {what}\n", clean(&file.file)));
        if !file.fixed {
            for line in file.diff.lines() {
                text.push_str(&format!("    {}\n", clean(line)));
            }
        }
    }
    findings(&mut text, &module.validate, look);
    match &module.lint {
        Lint::NotInstalled => {}
        Lint::Ran { findings: found } => findings(&mut text, found, look),
        Lint::NotRun { why, hint } => {
            text.push_str(&format!(
                "  not linted: {}\n    hint: {}\n",
                clean(why),
                clean(hint)
            ));
        }
    }
    match &module.tests {
        Tests::None => {}
        Tests::NotRun { why } => text.push_str(&format!("  not tested: {}\n", clean(why))),
        Tests::Ran {
            passed,
            failed,
            left_behind,
            findings: found,
        } => {
            text.push_str(&format!(
                "  tests: {passed} passed, {} failed\n",
                failed.len()
            ));
            for name in failed {
                text.push_str(&format!("    failed: {}\n", clean(name)));
            }
            for object in left_behind {
                let id = object
                    .id
                    .as_deref()
                    .map(|id| format!(" ({id})"))
                    .unwrap_or_default();
                text.push_str(&format!(
                    "    left behind: {}{}\n",
                    clean(&object.address),
                    clean(&id)
                ));
            }
            findings(&mut text, found, look);
        }
    }
    for note in &module.notes {
        text.push_str(&format!("  note: {}\n", clean(note)));
    }
    text
}

fn findings(text: &mut String, found: &[Finding], look: Look) {
    for finding in found {
        let (tone, word) = match finding.severity {
            Severity::Error => (Tone::Bad, "error"),
            Severity::Warning => (Tone::Warn, "warning"),
            Severity::Notice => (Tone::Quiet, "notice"),
        };
        let place = place(finding.file.as_deref(), finding.line, finding.column);
        text.push_str(&format!(
            "  {}: {place} {}",
            look.paint(tone, word),
            clean(&finding.summary)
        ));
        if let Some(rule) = &finding.rule {
            text.push_str(&format!(" [{}]", clean(rule)));
        }
        text.push('\n');
        for line in finding.detail.lines() {
            text.push_str(&format!("    {}\n", clean(line)));
        }
    }
}

fn place(file: Option<&str>, line: Option<u64>, column: Option<u64>) -> String {
    let mut place = clean(file.unwrap_or_default()).into_owned();
    for number in [line, column].into_iter().flatten() {
        place.push_str(&format!(":{number}"));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_stands_below_its_module() {
        let report: CheckReport = serde_json::from_value(serde_json::json!({
            "schema": 1, "good": false, "tofu": { "path": "/bin/tofu", "version": "1.12.6" },
            "faults": [], "warnings": [], "notes": ["TFLint is not installed"],
            "modules": [
                { "path": "phases/0", "kind": "root-module", "good": true, "format": [], "validate": [],
                  "lint": { "status": "not-installed" },
                  "tests": { "status": "ran", "passed": 2, "failed": [], "left_behind": [], "findings": [] }, "notes": [] },
                { "path": "modules/server", "kind": "module", "good": false,
                  "format": [{ "file": "modules/server/main.tf", "diff": "-a  = 1\n+a = 1", "fixed": false }],
                  "validate": [{ "severity": "error", "summary": "Unsupported argument", "detail": "No such thing.",
                                 "file": "modules/server/main.tf", "line": 3, "column": 5 }],
                  "lint": { "status": "not-run", "why": "rate limit", "hint": "set a token" },
                  "tests": { "status": "not-run", "why": "it is not valid" }, "notes": [] }
            ]
        }))
        .unwrap();
        insta::assert_snapshot!(check(&report, Look::PLAIN));
    }
}
