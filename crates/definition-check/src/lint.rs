//! TFLint: what it finds, told apart from why it could not look.
//!
//! It is never asked to download anything. A plugin that is not installed, and a download that
//! somebody's wrapper tried and GitHub refused, are faults of the tool, not of the definitions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::{Bundle, ToolDef};
use process::{CollectError, Exit, How, Invocation, Spawner, collect, find_program};
use semver::Version;
use serde::Deserialize;

use crate::error::CheckError;
use crate::report::{Finding, Lint, Severity};
use crate::request::CheckRequest;
use crate::scope::Subject;

const PROGRAM: &str = "tflint";
const CONFIG_FILE: &str = ".tflint.hcl";
/// Where TFLint's plugins are, below a home or a platform.
const PLUGINS: &str = ".tflint.d/plugins";
const VERSION_PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(300);
/// The most characters of what TFLint said when it failed.
const MOST_SAID: usize = 2_000;

/// A TFLint that is installed.
#[derive(Debug)]
pub(crate) struct Tflint {
    pub(crate) path: PathBuf,
    /// Its version, as it says it; empty when it does not.
    pub(crate) version: String,
    env: BTreeMap<OsString, OsString>,
}

impl Tflint {
    /// Looks for TFLint on the PATH, or where rebuild.toml says. `env` is what it runs with.
    pub(crate) fn find(
        request: &CheckRequest<'_>,
        demanded: Option<&ToolDef>,
        mut env: BTreeMap<OsString, OsString>,
    ) -> Result<Option<Self>, CheckError> {
        let command = demanded.and_then(|tool| tool.command.as_ref());
        let name = command
            .and_then(|words| words.first())
            .map_or(PROGRAM, String::as_str);
        let Ok(path) = find_program(Path::new(name), request.path_env, Path::new("/")) else {
            return if request.require_tflint {
                Err(CheckError::NoTflint)
            } else {
                Ok(None)
            };
        };
        env.insert("TFLINT_DISABLE_VERSION_CHECK".into(), "1".into());
        let plugins = request.platform_dir.join(PLUGINS);
        if let Some(plugins) = [Some(plugins.as_path()), request.tflint_plugins]
            .into_iter()
            .flatten()
            .find(|directory| directory.is_dir())
        {
            env.entry("TFLINT_PLUGIN_DIR".into())
                .or_insert_with(|| plugins.into());
        }
        let version = ask_version(&path, &env, request)?;
        if let Some(wanted) = demanded.and_then(|tool| tool.version.as_ref())
            && !Version::parse(&version).is_ok_and(|version| wanted.matches(&version))
        {
            return Err(CheckError::TflintVersion {
                path,
                found: if version.is_empty() {
                    "that it does not say".to_owned()
                } else {
                    version
                },
                wanted: wanted.to_string(),
            });
        }
        Ok(Some(Self { path, version, env }))
    }

    /// Lints one module in the throw-away copy at `tree`.
    pub(crate) fn run(
        &self,
        bundle: &Bundle,
        subject: &Subject,
        tree: &Path,
        data_dir: Option<&Path>,
        spawner: &dyn Spawner,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Lint, CheckError> {
        let mut call = Invocation::new(&self.path, tree.join(&subject.path))
            .args(["--format=json", "--no-color"]);
        if let Some(config) = config_of(bundle, &subject.path) {
            let mut argument = OsString::from("--config=");
            argument.push(tree.join(config));
            call = call.arg(argument);
        }
        call.env = self.env.clone();
        if let Some(data_dir) = data_dir {
            call.env.insert("TF_DATA_DIR".into(), data_dir.into());
        }
        match collect(spawner, &call, &How::reader(), PATIENCE, stop) {
            Ok(collected) => Ok(judge(
                &subject.path,
                collected.exit,
                &collected.stdout,
                &collected.stderr,
            )),
            Err(CollectError::Stopped { .. }) => Err(CheckError::interrupted()),
            Err(error) => Ok(not_run(&chain(&error))),
        }
    }
}

/// The first of the configuration files that TFLint would be given by hand: the module's own, else
/// the nearest above it.
fn config_of(bundle: &Bundle, module: &str) -> Option<String> {
    let mut directory = module;
    loop {
        let config = if directory.is_empty() {
            CONFIG_FILE.to_owned()
        } else {
            format!("{directory}/{CONFIG_FILE}")
        };
        if bundle.file(&config).is_some() {
            return Some(config);
        }
        if directory.is_empty() {
            return None;
        }
        directory = directory.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

fn ask_version(
    path: &Path,
    env: &BTreeMap<OsString, OsString>,
    request: &CheckRequest<'_>,
) -> Result<String, CheckError> {
    let mut call = Invocation::new(path, "/").arg("--version");
    call.env = env.clone();
    let mut stop = || (request.stop)();
    let said = match collect(
        request.spawner.as_ref(),
        &call,
        &How::reader(),
        VERSION_PATIENCE,
        &mut stop,
    ) {
        Ok(collected) => collected.stdout,
        Err(CollectError::Stopped { .. }) => return Err(CheckError::interrupted()),
        Err(_) => Vec::new(),
    };
    let said = String::from_utf8_lossy(&said);
    let word = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("TFLint version "));
    Ok(word.unwrap_or_default().trim().to_owned())
}

#[derive(Deserialize)]
struct Answer {
    issues: Vec<Issue>,
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Issue {
    rule: Rule,
    #[serde(default)]
    message: String,
    #[serde(default)]
    range: Option<Range>,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(default)]
    name: String,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    link: String,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    filename: String,
    #[serde(default)]
    start: Position,
}

#[derive(Default, Deserialize)]
struct Position {
    #[serde(default)]
    line: u64,
    #[serde(default)]
    column: u64,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    summary: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    range: Option<Range>,
}

/// Reads what TFLint said. It ends with 0 (nothing), 2 (issues) or 1 (it could not look).
fn judge(module: &str, exit: Exit, stdout: &[u8], stderr: &[u8]) -> Lint {
    let answer = serde_json::from_slice::<Answer>(stdout).ok();
    match answer {
        Some(answer) if answer.errors.is_empty() && matches!(exit, Exit::Code(0 | 2)) => {
            Lint::Ran {
                findings: answer
                    .issues
                    .into_iter()
                    .map(|issue| finding(module, issue))
                    .collect(),
            }
        }
        answer => {
            let errors = answer.map(|answer| answer.errors).unwrap_or_default();
            let is_of_text = errors.iter().any(|fault| fault.range.is_some());
            let mut said: Vec<String> = errors.iter().map(Fault::text).collect();
            if said.is_empty() {
                said.extend(
                    [stderr, stdout]
                        .map(|text| String::from_utf8_lossy(text).trim().to_owned())
                        .into_iter()
                        .filter(|text| !text.is_empty())
                        .take(1),
                );
            }
            if said.is_empty() {
                said.push(format!("it ended with {exit} and said nothing"));
            }
            let said = said.join("\n");
            if is_of_text {
                not_run_because(
                    &said,
                    "TFLint can't read the configuration: put that right first",
                )
            } else {
                not_run(&said)
            }
        }
    }
}

impl Fault {
    fn text(&self) -> String {
        let mut text = match (self.summary.trim(), self.message.trim()) {
            ("", message) => message.to_owned(),
            (summary, "") => summary.to_owned(),
            (summary, message) if message.starts_with(summary) => message.to_owned(),
            (summary, message) => format!("{summary}: {message}"),
        };
        if let Some(range) = self.range.as_ref().filter(|it| !it.filename.is_empty()) {
            text.push_str(&format!(" ({}:{})", range.filename, range.start.line));
        }
        text
    }
}

fn finding(module: &str, issue: Issue) -> Finding {
    let severity = match issue.rule.severity.as_str() {
        "warning" => Severity::Warning,
        "notice" | "info" => Severity::Notice,
        _ => Severity::Error,
    };
    let range = issue.range.filter(|range| !range.filename.is_empty());
    Finding {
        severity,
        file: range.as_ref().map(|range| {
            platform::join(module, &range.filename).unwrap_or_else(|| range.filename.clone())
        }),
        line: range.as_ref().map(|range| range.start.line),
        column: range.as_ref().map(|range| range.start.column),
        rule: (!issue.rule.name.is_empty()).then_some(issue.rule.name),
        ..Finding::error(issue.message, issue.rule.link)
    }
}

fn not_run(said: &str) -> Lint {
    let lower = said.to_lowercase();
    let any = |needles: &[&str]| needles.iter().any(|needle| lower.contains(needle));
    let hint = if any(&["rate limit", "403", "429", "too many requests"]) {
        "GitHub refused the download of a TFLint plugin, which says nothing of the definitions: wait, or set \
         GITHUB_TOKEN, run `tflint --init` once by hand, and check again"
    } else if any(&["tflint --init", "plugin"]) {
        "a TFLint plugin is not installed here; `check` downloads nothing: run `tflint --init` once by hand, \
         and check again"
    } else {
        "this is TFLint's own failure, not a finding; run it by hand to see more, or take it off the PATH"
    };
    not_run_because(said, hint)
}

fn not_run_because(said: &str, hint: &str) -> Lint {
    let mut why: String = said.trim().chars().take(MOST_SAID).collect();
    if why.len() < said.trim().len() {
        why.push('…');
    }
    Lint::NotRun {
        why,
        hint: hint.to_owned(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::BundleFile;

    const ISSUES: &str = r#"{"issues":[{"rule":{"name":"terraform_unused_declarations","severity":"warning","link":"https://example.org/rule"},"message":"variable \"x\" is declared but not used","range":{"filename":"main.tf","start":{"line":1,"column":1},"end":{"line":1,"column":13}},"callers":[]}],"errors":[]}"#;

    #[test]
    fn issues_are_findings_with_rule_and_place() {
        let Lint::Ran { findings } = judge("phases/0", Exit::Code(2), ISSUES.as_bytes(), b"")
        else {
            panic!("it ran");
        };
        let finding = &findings[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            (
                finding.file.as_deref(),
                finding.line,
                finding.rule.as_deref()
            ),
            (
                Some("phases/0/main.tf"),
                Some(1),
                Some("terraform_unused_declarations")
            )
        );
        assert_eq!(
            judge("", Exit::Code(0), br#"{"issues":[],"errors":[]}"#, b""),
            Lint::Ran {
                findings: Vec::new()
            }
        );
    }

    #[test]
    fn a_refused_download_is_a_fault_of_the_tool() {
        // C3
        let said = b"Failed to install a plugin; Failed to fetch GitHub releases: GET https://api.github.com/repos/x: 403 API rate limit exceeded for 192.0.2.1. [rate reset in 12m]";
        for exit in [0, 1, 2] {
            let Lint::NotRun { why, hint } = judge("m", Exit::Code(exit), b"", said) else {
                panic!("no finding");
            };
            assert!(why.contains("rate limit exceeded"), "{why}");
            assert!(hint.contains("GITHUB_TOKEN"), "{hint}");
        }
    }

    #[test]
    fn errors_in_its_answer_are_no_findings_even_beside_issues() {
        let said = ISSUES.replace(
            "\"errors\":[]",
            r#""errors":[{"summary":"Failed to initialize plugins","message":"Plugin \"aws\" not found. Did you run \"tflint --init\"?","severity":"error"}]"#,
        );
        let Lint::NotRun { why, hint } = judge("m", Exit::Code(1), said.as_bytes(), b"") else {
            panic!("no finding");
        };
        assert!(
            why.starts_with("Failed to initialize plugins: Plugin"),
            "{why}"
        );
        assert!(hint.contains("downloads nothing"), "{hint}");
    }

    #[test]
    fn what_dies_without_a_word_did_not_run() {
        let Lint::NotRun { why, .. } = judge("m", Exit::Signal(11), b"", b"") else {
            panic!("no finding");
        };
        assert_eq!(why, "it ended with signal 11 and said nothing");
    }

    #[test]
    fn the_nearest_configuration_counts() {
        let file = |path: &str| BundleFile {
            path: path.to_owned(),
            mode: 0o644,
            bytes: Vec::new(),
        };
        let bundle =
            Bundle::from_files(vec![file(".tflint.hcl"), file("modules/a/.tflint.hcl")]).unwrap();
        assert_eq!(
            config_of(&bundle, "modules/a").as_deref(),
            Some("modules/a/.tflint.hcl")
        );
        assert_eq!(
            config_of(&bundle, "modules/b").as_deref(),
            Some(".tflint.hcl")
        );
    }
}
