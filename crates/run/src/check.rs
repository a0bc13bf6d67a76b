//! `check`: definitions alone, in a throw-away copy; no target, no credentials.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use definition_check::{CheckError, CheckNotice, CheckReport, CheckRequest};
use phase_engine::{ExitCode, Failure};

use crate::api::{CheckOptions, Machine};
use crate::environment;
use crate::error::{CallError, unusable};
use crate::stop::{StopLevel, StopRequests};
use crate::ui::{Notice, Ui};

/// Checks every root module and module of a platform.
///
/// # Errors
/// Something could not be looked at; what is wrong with the definitions is in the report.
pub fn check(
    machine: &Machine,
    platform: Option<PathBuf>,
    options: &CheckOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<CheckReport, CallError> {
    let start = platform.map_or_else(|| machine.cwd.clone(), |dir| machine.cwd.join(dir));
    let root = platform::find_root(&start).map_err(|error| unusable(&error))?;
    let named = |name: &str| machine.env.get(OsStr::new(name)).cloned();
    let temp_dir = named("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let plugins = named("TFLINT_PLUGIN_DIR")
        .map_or_else(|| machine.home.join(".tflint.d/plugins"), PathBuf::from);
    // Each module's own home and temporary directory are set where it is checked.
    let base_env: BTreeMap<_, _> = environment::base(&machine.env, &temp_dir, &temp_dir);
    let request = CheckRequest {
        platform_dir: &root,
        fix: options.fix,
        require_tflint: options.require_tflint,
        path_env: machine
            .env
            .get(OsStr::new("PATH"))
            .map(std::ffi::OsString::as_os_str),
        base_env: &base_env,
        caller_env: &machine.env,
        temp_dir: &temp_dir,
        tflint_plugins: Some(&plugins),
        program_cache: Some(&machine.state_home.join("tools.json")),
        spawner: Arc::clone(&machine.spawner),
        stop: &|| stop.level() >= StopLevel::Gentle,
        notify: &|notice| ui.tell(&told(notice)),
    };
    definition_check::check(&request).map_err(|error| {
        let exit = match &error {
            CheckError::Interrupted { .. } => ExitCode::Interrupted,
            _ => ExitCode::Unusable,
        };
        Failure::of(exit, &error).into()
    })
}

fn told(notice: &CheckNotice) -> Notice {
    match notice {
        CheckNotice::Started { n_modules } => Notice::Checking {
            what: format!("{n_modules} modules"),
            good: None,
        },
        CheckNotice::Checking { module } => Notice::Checking {
            what: module.clone(),
            good: None,
        },
        CheckNotice::Checked { module, good } => Notice::Checking {
            what: module.clone(),
            good: Some(*good),
        },
        CheckNotice::Fixed { file } => Notice::Checking {
            what: format!("{file} (formatted)"),
            good: Some(true),
        },
    }
}
