//! What was found, in the shape that `--output json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to be said of the definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// Version of this shape.
    pub schema: u32,
    /// Whether there is nothing against the definitions; what could not be checked is not good.
    pub good: bool,
    /// The OpenTofu that judged.
    pub tofu: Tool,
    /// The TFLint that judged; absent where none is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tflint: Option<Tool>,
    /// What is wrong in rebuild.toml and in what it names.
    pub faults: Vec<DefinitionFault>,
    /// What is legal there and yet likely to hurt.
    pub warnings: Vec<DefinitionFault>,
    /// Each root module and module, by path.
    pub modules: Vec<ModuleReport>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// A program that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// The file.
    pub path: String,
    /// Its version; empty where it does not say it.
    pub version: String,
}

/// One fault of the definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionFault {
    /// Path of the file within the platform.
    pub file: String,
    /// Line, from 1; absent when the file as a whole is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The same for people, with the text underlined.
    pub rendered: String,
}

/// What a directory of configuration files is to the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleKind {
    /// A step names it.
    RootModule,
    /// Other modules may call it.
    Module,
}

/// What is to be said of one root module or module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleReport {
    /// Its path within the platform.
    pub path: String,
    /// What it is.
    pub kind: ModuleKind,
    /// Whether there is nothing against it.
    pub good: bool,
    /// Files that are, or were, not in their canonical form.
    pub format: Vec<Unformatted>,
    /// What `init` and `validate` found.
    pub validate: Vec<Finding>,
    /// What TFLint found.
    pub lint: Lint,
    /// What `tofu test` came to.
    pub tests: Tests,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl ModuleReport {
    /// Whether what was found lets the module pass.
    pub(crate) fn passes(&self) -> bool {
        self.format.iter().all(|file| file.fixed)
            && !self.validate.iter().any(Finding::is_error)
            && self.lint.passes()
            && self.tests.passes()
    }
}

/// A file that is not in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unformatted {
    /// Its path within the platform.
    pub file: String,
    /// What would change, or was changed, as a unified diff; shortened where it is very long.
    pub diff: String,
    /// Whether it is now in its canonical form.
    pub fixed: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It can't stay.
    Error,
    /// It is likely to hurt.
    Warning,
    /// It could be better.
    Notice,
}

/// One thing that a tool found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How bad it is, as the tool says.
    pub severity: Severity,
    /// One line.
    pub summary: String,
    /// The rest, often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Path of the file within the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The text at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The rule that it breaks, where the tool has rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Finding {
    /// An error with no place.
    pub(crate) fn error(summary: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            summary: summary.into(),
            detail: detail.into(),
            file: None,
            line: None,
            column: None,
            code: None,
            rule: None,
        }
    }

    /// Whether it is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// What TFLint came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Lint {
    /// It is not installed.
    NotInstalled,
    /// It judged. Every finding counts, whatever its severity: which rules hold is for `.tflint.hcl` to say.
    Ran {
        /// What it found.
        findings: Vec<Finding>,
    },
    /// It is installed and could not judge: no finding, and not good either.
    NotRun {
        /// What it said.
        why: String,
        /// What to do.
        hint: String,
    },
}

impl Lint {
    fn passes(&self) -> bool {
        match self {
            Self::NotInstalled => true,
            Self::Ran { findings } => findings.is_empty(),
            Self::NotRun { .. } => false,
        }
    }
}

/// What `tofu test` came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Tests {
    /// There are no test files.
    None,
    /// They ran.
    Ran {
        /// Runs that passed.
        passed: u64,
        /// Runs that did not: `file: run`.
        failed: Vec<String>,
        /// Objects that a test made and could not destroy. Nobody but their maker knows of them.
        left_behind: Vec<LeftBehind>,
        /// What was said on the way.
        findings: Vec<Finding>,
    },
    /// They could not run, since the module can't be initialized or is not valid.
    NotRun {
        /// Why.
        why: String,
    },
}

impl Tests {
    fn passes(&self) -> bool {
        match self {
            Self::None => true,
            Self::Ran {
                failed,
                left_behind,
                findings,
                ..
            } => {
                failed.is_empty()
                    && left_behind.is_empty()
                    && !findings.iter().any(Finding::is_error)
            }
            Self::NotRun { .. } => false,
        }
    }
}

/// An object that a test left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// Its address in the test.
    pub address: String,
    /// Its id, where the state that OpenTofu left tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}
