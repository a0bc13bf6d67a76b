//! One root module or module, checked from its form to its tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrets::Masker;
use tofu::events::Severity as TofuSeverity;
use tofu::{
    Cause, CheckError as CommandError, Checker, Diagnostic, InitFailure, InitInputs,
    LOCK_FILE_NAME, LockPolicy, RunError, Session, SessionSettings, Slot, StepDir, StepKey,
    StepKeyError, Unobserved,
};

use crate::check::Context;
use crate::error::CheckError;
use crate::fix::{Fixed, fix};
use crate::format::{self, FormatError, Formatting};
use crate::report::{Finding, Lint, ModuleReport, Severity, Tests, Unformatted};
use crate::request::CheckNotice;
use crate::scope::Subject;
use crate::test;

/// Checks one directory of configuration files.
pub(crate) fn check(
    context: &Context<'_>,
    number: usize,
    subject: &Subject,
) -> Result<ModuleReport, CheckError> {
    let mut report = ModuleReport {
        path: subject.path.clone(),
        kind: subject.kind,
        good: false,
        format: Vec::new(),
        validate: Vec::new(),
        lint: Lint::NotInstalled,
        tests: Tests::None,
        notes: Vec::new(),
    };
    let failed = |source: std::io::Error| CheckError::Copy {
        path: context.request.temp_dir.to_owned(),
        source,
    };
    let name = format!("module-{number}");
    let room = context.copy.room(&name).map_err(failed)?;

    let formatting = judge_form(context, subject, &room)?;
    report_form(context, &formatting, &mut report)?;

    let key: StepKey = name
        .parse()
        .map_err(|error: StepKeyError| failed(std::io::Error::other(error)))?;
    let step = context.copy.workshop.step(&key);
    let tree = step.tree(Slot::Tree);
    let data_dir = validate(context, subject, &step, &mut report)?;
    if !report.validate.iter().any(Finding::is_error) {
        report.validate.extend(formatting.unreadable);
    }
    if let Some(tflint) = &context.tflint {
        report.lint = tflint.run(
            context.bundle,
            subject,
            &tree,
            data_dir.as_deref(),
            context.request.spawner.as_ref(),
            &mut || context.stopping.is_wanted(),
        )?;
    }
    report.tests = run_tests(context, subject, &tree, data_dir.as_deref(), &report)?;
    report.good = report.passes();
    // What stays behind goes with the whole copy at the end.
    let _ = std::fs::remove_dir_all(step.path());
    let _ = std::fs::remove_dir_all(room);
    Ok(report)
}

fn checker(context: &Context<'_>, data_dir: &Path) -> Checker {
    Checker {
        program: context.program.clone(),
        env: context.copy.environment(context.request.base_env, data_dir),
        spawner: Arc::clone(&context.request.spawner),
        control: context.stopping.clone(),
    }
}

fn command_failed(context: &Context<'_>, subject: &Subject, source: CommandError) -> CheckError {
    if context.stopping.is_wanted() {
        return CheckError::interrupted();
    }
    CheckError::Command {
        module: subject.path.clone(),
        source: Box::new(source),
    }
}

fn judge_form(
    context: &Context<'_>,
    subject: &Subject,
    room: &Path,
) -> Result<Formatting, CheckError> {
    let checker = checker(context, &room.join("data"));
    format::judge(context.bundle, subject, &checker, room).map_err(|error| match error {
        FormatError::Copy(source) => CheckError::Copy {
            path: context.request.temp_dir.to_owned(),
            source,
        },
        FormatError::Command(source) => command_failed(context, subject, source),
    })
}

/// Reports files that are not in their canonical form, and brings them into it where that is wanted.
fn report_form(
    context: &Context<'_>,
    formatting: &Formatting,
    report: &mut ModuleReport,
) -> Result<(), CheckError> {
    let request = context.request;
    for change in &formatting.changes {
        let mut fixed = false;
        if request.fix {
            if context.stopping.is_wanted() {
                return Err(CheckError::interrupted());
            }
            match fix(request.platform_dir, change) {
                Ok(Fixed::Written) => {
                    fixed = true;
                    (request.notify)(&CheckNotice::Fixed {
                        file: change.file.clone(),
                    });
                }
                Ok(Fixed::Overtaken) => report.notes.push(format!(
                    "`{}` was changed by somebody else meanwhile and is left alone",
                    change.file
                )),
                Err(source) => {
                    return Err(CheckError::Fix {
                        file: change.file.clone(),
                        source,
                    });
                }
            }
        }
        report.format.push(Unformatted {
            file: change.file.clone(),
            diff: change.diff(),
            fixed,
        });
    }
    Ok(())
}

/// Initializes and validates; gives the data directory where `init` went well.
fn validate(
    context: &Context<'_>,
    subject: &Subject,
    step: &StepDir,
    report: &mut ModuleReport,
) -> Result<Option<PathBuf>, CheckError> {
    let run_failed = |source: RunError| {
        if context.stopping.is_wanted() || source.is_interrupted() {
            return CheckError::interrupted();
        }
        CheckError::Run {
            module: subject.path.clone(),
            source: Box::new(source),
        }
    };
    let files = context
        .bundle
        .files()
        .iter()
        .map(|file| (file.path.as_str(), file.mode, file.bytes.as_slice()));
    step.place(Slot::Tree, context.bundle.digest(), &[], files)
        .map_err(|error| CheckError::Copy {
            path: context.request.temp_dir.to_owned(),
            source: std::io::Error::other(error),
        })?;
    let lock = context.bundle.file(&subject.join(LOCK_FILE_NAME));
    let session = Session::open(SessionSettings {
        workshop: context.copy.workshop.clone(),
        step: step.clone(),
        slot: Slot::Tree,
        root_module: subject.path.clone(),
        program: context.program.clone(),
        env: context.request.base_env.clone(),
        backend: None,
        encryption: None,
        variables: Default::default(),
        // The data directory serves this one check.
        init_inputs: InitInputs::default(),
        lock_file: lock.map_or(LockPolicy::Fresh, |file| {
            LockPolicy::Exactly(file.bytes.clone())
        }),
        parallelism: None,
        masker: Masker::default(),
        spawner: Arc::clone(&context.request.spawner),
        control: context.stopping.clone(),
        observer: Arc::new(Unobserved),
        patience: Duration::ZERO,
    })
    .map_err(run_failed)?;
    let data_dir = match session.init(false) {
        Ok(init) => init.data_dir,
        Err(error) => match &*error.cause {
            Cause::Ended(_) | Cause::Init(_) if !context.stopping.is_wanted() => {
                report.validate = init_findings(&subject.path, &error);
                return Ok(None);
            }
            _ => return Err(run_failed(error)),
        },
    };
    match session.validate() {
        Ok(diagnostics) => {
            report.validate = diagnostics
                .iter()
                .map(|diagnostic| finding(&subject.path, diagnostic))
                .collect();
        }
        Err(error) => match &*error.cause {
            Cause::Ended(_) if !context.stopping.is_wanted() => {
                report.validate = told(&subject.path, &error, "`tofu validate` failed");
            }
            _ => return Err(run_failed(error)),
        },
    }
    Ok(Some(data_dir))
}

/// What a failed `init` says of the module.
fn init_findings(module: &str, error: &RunError) -> Vec<Finding> {
    match error.init_failure() {
        Some(InitFailure::LockFile { surplus, missing }) => {
            let mut detail = Vec::new();
            for (what, names) in [("not needed", surplus), ("missing", missing)] {
                if !names.is_empty() {
                    detail.push(format!("{what}: {}", names.join(", ")));
                }
            }
            vec![Finding {
                file: platform::join(module, LOCK_FILE_NAME),
                ..Finding::error(
                    "the dependency lock file does not fit the configuration",
                    detail.join("; "),
                )
            }]
        }
        Some(InitFailure::Network) => {
            let said = told(module, error, "");
            let detail: Vec<String> = said.into_iter().map(|finding| finding.detail).collect();
            vec![Finding::error(
                "providers or modules can't be fetched: the network or the registry fails",
                detail.join("\n"),
            )]
        }
        _ => told(module, error, "`tofu init` failed"),
    }
}

/// The errors that a command told; where it told none, what else it said.
fn told(module: &str, error: &RunError, summary: &str) -> Vec<Finding> {
    let findings: Vec<Finding> = error
        .diagnostics()
        .into_iter()
        .map(|diagnostic| finding(module, diagnostic))
        .collect();
    if findings.is_empty() {
        vec![Finding::error(summary, error.tail())]
    } else {
        findings
    }
}

/// A diagnostic of OpenTofu as a finding, its place as a path within the platform.
pub(crate) fn finding(module: &str, diagnostic: &Diagnostic) -> Finding {
    let range = diagnostic
        .range
        .as_ref()
        .filter(|range| !range.filename.is_empty());
    let mut summary = diagnostic.summary.trim().to_owned();
    if let Some(address) = diagnostic.address.as_deref().filter(|it| !it.is_empty()) {
        summary.push_str(&format!(" ({address})"));
    }
    Finding {
        severity: if diagnostic.severity == TofuSeverity::Warning {
            Severity::Warning
        } else {
            Severity::Error
        },
        summary,
        detail: diagnostic.detail.trim().to_owned(),
        file: range.map(|range| {
            platform::join(module, &range.filename).unwrap_or_else(|| range.filename.clone())
        }),
        line: range.map(|range| range.start.line),
        column: range.map(|range| range.start.column),
        code: diagnostic
            .snippet
            .as_ref()
            .map(|snippet| snippet.code.trim_end().to_owned())
            .filter(|code| !code.is_empty()),
        rule: None,
    }
}

fn run_tests(
    context: &Context<'_>,
    subject: &Subject,
    tree: &Path,
    data_dir: Option<&Path>,
    report: &ModuleReport,
) -> Result<Tests, CheckError> {
    if !subject.has_tests {
        return Ok(Tests::None);
    }
    let Some(data_dir) = data_dir else {
        return Ok(Tests::NotRun {
            why: "the module can't be initialized".to_owned(),
        });
    };
    if report.validate.iter().any(Finding::is_error) {
        return Ok(Tests::NotRun {
            why: "the module is not valid".to_owned(),
        });
    }
    let directory = tree.join(&subject.path);
    let tested = checker(context, data_dir)
        .test_json(&directory)
        .map_err(|error| command_failed(context, subject, error))?;
    let outcome = test::outcome(&subject.path, &directory, tested);
    if context.stopping.is_wanted() {
        // What an interrupted test left behind must be heard of.
        if let Tests::Ran { left_behind, .. } = &outcome
            && !left_behind.is_empty()
        {
            return Ok(outcome);
        }
        return Err(CheckError::interrupted());
    }
    Ok(outcome)
}
