//! The whole check: what is there, which tools judge it, and every module in parallel.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use platform::{Bundle, Fault, Git, PLATFORM_FILE, ToolDef};
use process::wait;
use tofu::Program;

use crate::copy::{Copy, Stopping};
use crate::error::CheckError;
use crate::lint::Tflint;
use crate::module;
use crate::report::{CheckReport, DefinitionFault, LeftBehind, ModuleReport, Tests, Tool};
use crate::request::{CheckNotice, CheckRequest};
use crate::scope::{Subject, subjects};

/// Version of the report's shape.
const SCHEMA: u32 = 1;
/// How often the caller is asked whether to stop.
const STEP: Duration = Duration::from_millis(25);
/// Longer than any check: the wait ends with the last module, not with this.
const FOREVER: Duration = Duration::from_secs(30 * 24 * 3600);

/// What every module is checked with.
pub(crate) struct Context<'a> {
    pub(crate) request: &'a CheckRequest<'a>,
    pub(crate) bundle: &'a Bundle,
    pub(crate) program: Program,
    pub(crate) tflint: Option<Tflint>,
    pub(crate) copy: Copy,
    pub(crate) stopping: Arc<Stopping>,
}

/// Checks every root module and module of a platform.
///
/// # Errors
/// When nothing can be said: no platform, no OpenTofu that fits, no room for the copy, or interrupted.
/// What is wrong with the definitions is in the report.
pub fn check(request: &CheckRequest<'_>) -> Result<CheckReport, CheckError> {
    if !request.platform_dir.join(PLATFORM_FILE).is_file() {
        return Err(CheckError::NoPlatform {
            directory: request.platform_dir.to_owned(),
        });
    }
    let git = Git::find(request.spawner.as_ref(), request.caller_env);
    let bundle = Bundle::pack(request.platform_dir, &git).map_err(|source| CheckError::Gather {
        directory: request.platform_dir.to_owned(),
        source,
    })?;
    let survey = platform::survey(&bundle);
    // Root modules that are rendered from specs are checked as all others are.
    let bundle = match &survey.platform {
        Some(platform) => bundle.with_rendered(&platform.rendered),
        None => Ok(bundle),
    }
    .map_err(|source| CheckError::Gather {
        directory: request.platform_dir.to_owned(),
        source,
    })?;
    let demanded = |name: &str| {
        survey
            .platform
            .as_ref()
            .and_then(|platform| platform.tools.get(name))
    };
    let program = find_tofu(request, demanded(tofu::PROGRAM))?;
    let cli_config = demanded(tofu::PROGRAM)
        .and_then(|tool| tool.cli_config.as_ref())
        .map(|path| request.platform_dir.join(path));
    let copy = Copy::make(request.temp_dir, cli_config.as_deref())?;
    let env = copy.environment(request.base_env, &copy.workshop.tmp());
    let tflint = Tflint::find(request, demanded("tflint"), env)?;
    let subjects = subjects(&bundle, &survey);
    (request.notify)(&CheckNotice::Started {
        n_modules: subjects.len(),
    });
    let context = Context {
        request,
        bundle: &bundle,
        program,
        tflint,
        copy,
        stopping: Arc::default(),
    };
    let modules = check_all(&context, &subjects)?;
    let mut notes = Vec::new();
    if context.tflint.is_none() {
        notes.push("TFLint is not installed, so nothing was linted".to_owned());
    }
    Ok(CheckReport {
        schema: SCHEMA,
        good: survey.faults.is_empty() && modules.iter().all(|module| module.good),
        tofu: tool(context.program.path, context.program.version.to_string()),
        tflint: context
            .tflint
            .map(|tflint| tool(tflint.path, tflint.version)),
        faults: survey.faults.iter().map(definition_fault).collect(),
        warnings: survey.warnings.iter().map(definition_fault).collect(),
        modules,
        notes,
    })
}

fn find_tofu(
    request: &CheckRequest<'_>,
    demanded: Option<&ToolDef>,
) -> Result<Program, CheckError> {
    let program = Program::find(
        demanded.and_then(|tool| tool.command.as_deref()),
        request.path_env,
        demanded.and_then(|tool| tool.version.as_ref()),
        request.program_cache,
        request.spawner.as_ref(),
    )?;
    match demanded.and_then(|tool| tool.sha256.as_ref()) {
        Some(wanted) if *wanted != program.digest => Err(CheckError::Digest {
            path: program.path,
            found: program.digest,
            wanted: wanted.clone(),
        }),
        _ => Ok(program),
    }
}

/// Checks the modules, as many at once as there are cores.
fn check_all(context: &Context<'_>, subjects: &[Subject]) -> Result<Vec<ModuleReport>, CheckError> {
    let n_threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(subjects.len());
    let next = AtomicUsize::new(0);
    let n_done = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<ModuleReport, CheckError>)>> = Mutex::default();
    let work = || {
        let _done = Done(&n_done);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(subject) = subjects.get(number) else {
                return;
            };
            if context.stopping.is_wanted() {
                return;
            }
            let result = check_one(context, number, subject);
            if result.is_err() {
                // The others are of no use any more.
                context.stopping.stop();
            }
            results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((number, result));
        }
    };
    let mut was_stopped = false;
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(work);
        }
        wait::until(Instant::now() + FOREVER, STEP, || {
            if !was_stopped && (context.request.stop)() {
                was_stopped = true;
                context.stopping.stop();
            }
            (n_done.load(Ordering::Acquire) == n_threads).then_some(())
        });
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    settle(results, was_stopped)
}

/// Takes the reports, or the error that made the others end.
fn settle(
    results: Vec<(usize, Result<ModuleReport, CheckError>)>,
    was_stopped: bool,
) -> Result<Vec<ModuleReport>, CheckError> {
    let mut reports = Vec::new();
    let mut first = None;
    for (_, result) in results {
        match result {
            Ok(report) => reports.push(report),
            // The cause, rather than what it interrupted.
            Err(CheckError::Interrupted { .. }) => {}
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if !was_stopped => Err(error),
        None if !was_stopped => Ok(reports),
        _ => Err(CheckError::Interrupted {
            left_behind: reports.iter().flat_map(left_behind).collect(),
        }),
    }
}

fn left_behind(report: &ModuleReport) -> Vec<String> {
    let Tests::Ran { left_behind, .. } = &report.tests else {
        return Vec::new();
    };
    let object = |object: &LeftBehind| match &object.id {
        Some(id) => format!("{}: {} (id `{id}`)", report.path, object.address),
        None => format!("{}: {}", report.path, object.address),
    };
    left_behind.iter().map(object).collect()
}

/// Counts a thread as done, whatever ended it.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

fn check_one(
    context: &Context<'_>,
    number: usize,
    subject: &Subject,
) -> Result<ModuleReport, CheckError> {
    (context.request.notify)(&CheckNotice::Checking {
        module: subject.path.clone(),
    });
    let report = module::check(context, number, subject)?;
    (context.request.notify)(&CheckNotice::Checked {
        module: report.path.clone(),
        good: report.good,
    });
    Ok(report)
}

fn tool(path: PathBuf, version: String) -> Tool {
    Tool {
        path: path.to_string_lossy().into_owned(),
        version,
    }
}

fn definition_fault(fault: &Fault) -> DefinitionFault {
    let place = fault.line_and_column();
    DefinitionFault {
        file: fault.file.clone(),
        line: place.map(|(line, _)| line as u64),
        column: place.map(|(_, column)| column as u64),
        message: fault.message.clone(),
        help: fault.help.clone(),
        rendered: fault.render_plain(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Lint, ModuleKind};

    fn report(path: &str, tests: Tests) -> ModuleReport {
        ModuleReport {
            path: path.to_owned(),
            kind: ModuleKind::Module,
            good: false,
            format: Vec::new(),
            validate: Vec::new(),
            lint: Lint::NotInstalled,
            tests,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_interrupted_tests_left_behind_is_told() {
        let object = |address: &str, id: Option<&str>| LeftBehind {
            address: address.to_owned(),
            id: id.map(str::to_owned),
        };
        let tests = Tests::Ran {
            passed: 0,
            failed: Vec::new(),
            left_behind: vec![object("a.b", Some("i-1")), object("c.d", None)],
            findings: Vec::new(),
        };
        let results = vec![
            (0, Ok(report("modules/x", tests))),
            (1, Err(CheckError::interrupted())),
        ];
        assert_eq!(
            settle(results, true).unwrap_err().to_string(),
            "the check was interrupted; its tests left behind modules/x: a.b (id `i-1`), modules/x: c.d"
        );
    }

    #[test]
    fn the_error_that_made_the_others_end_is_the_one_that_is_told() {
        let results = vec![
            (0, Ok(report("a", Tests::None))),
            (1, Err(CheckError::interrupted())),
            (2, Err(CheckError::NoTflint)),
        ];
        assert!(matches!(settle(results, false), Err(CheckError::NoTflint)));
    }
}
