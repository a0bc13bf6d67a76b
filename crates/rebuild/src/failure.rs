//! The one place that tells what went wrong: `error:`, `caused by:`, `hint:`.

use std::error::Error;
use std::path::PathBuf;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, ThemeCharacters};
use phase_engine::ExitCode;
use platform::{Fault, Faults};
use run::CallError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stream::{Look, Tone, clean};

/// Why a command did not do what it was asked for, ready to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// What was tried and on what.
    pub(crate) message: String,
    /// Why, the nearest first.
    pub(crate) causes: Vec<String>,
    /// What to type or do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Where the whole log is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    /// Faults of the definitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<FaultLine>,
    /// The exit code that it leads to.
    #[serde(serialize_with = "as_number")]
    #[schemars(with = "u8")]
    pub(crate) exit: ExitCode,
    /// The faults as people read them, with the text underlined.
    #[serde(skip)]
    pub(crate) underlined: Option<String>,
}

/// One fault of the definitions, as a document holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct FaultLine {
    /// Path within the platform.
    pub(crate) file: String,
    /// From 1, where the fault has a place.
    pub(crate) line: Option<usize>,
    /// From 1, where the fault has a place.
    pub(crate) column: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: Option<String>,
}

impl From<&Fault> for FaultLine {
    fn from(fault: &Fault) -> Self {
        let (line, column) = fault.line_and_column().unzip();
        Self {
            file: fault.file.clone(),
            line,
            column,
            message: fault.message.clone(),
            help: fault.help.clone(),
        }
    }
}

impl From<phase_engine::Failure> for Failure {
    fn from(failure: phase_engine::Failure) -> Self {
        let phase_engine::Failure {
            exit,
            what,
            causes,
            hint,
            log,
        } = failure;
        Self {
            message: what,
            causes,
            hint: hint.or_else(|| way_on(exit)),
            log,
            ..Self::new(exit, "")
        }
    }
}

/// What to do where nobody who knew more has said it: an error never ends in nothing.
fn way_on(exit: ExitCode) -> Option<String> {
    let text = match exit {
        ExitCode::Failed => {
            "mend what is named last; then `rebuild up --resume` goes on with a run that is unfinished, and `rebuild \
             down` tears down"
        }
        ExitCode::Stopped => "mend what is named last, and type the same command again",
        ExitCode::Unusable => {
            "mend what is named last, and type the same command again; nothing was touched"
        }
        ExitCode::Interrupted => "type the same command again",
        _ => return None,
    };
    Some(text.to_owned())
}

fn as_number<S: serde::Serializer>(exit: &ExitCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(exit.code())
}

impl Failure {
    /// A failure that has no cause but itself.
    pub(crate) fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            log: None,
            faults: Vec::new(),
            exit,
            underlined: None,
        }
    }

    /// A failure told by an error and the chain of its sources.
    pub(crate) fn of(exit: ExitCode, error: &dyn Error) -> Self {
        let mut failure = Self::new(exit, error.to_string());
        let mut last = failure.message.clone();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // A wrapper that only repeats what it wraps says nothing.
            if text != last {
                failure.causes.push(text.clone());
                last = text;
            }
            source = cause.source();
        }
        failure
    }

    /// A failure of a call.
    pub(crate) fn of_call(error: CallError, look: Look) -> Self {
        match error {
            CallError::Definitions { faults } => Self::of_faults(&faults, look),
            CallError::Failure(failure) => failure.into(),
        }
    }

    /// A failure told by faults of the definitions, each drawn with its text underlined.
    pub(crate) fn of_faults(faults: &Faults, look: Look) -> Self {
        let mut failure = Self::new(ExitCode::Unusable, faults.to_string());
        failure.underlined = Some(underline(
            faults.iter().map(|fault| fault as &dyn Diagnostic),
            look,
        ));
        failure.faults = faults.iter().map(FaultLine::from).collect();
        failure
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells it for people, each line ended.
    pub(crate) fn render(&self, look: Look) -> String {
        let mut text = line(look, Tone::Bad, "error", &self.message);
        text.push_str(self.underlined.as_deref().unwrap_or_default());
        for cause in &self.causes {
            text.push_str(&line(look, Tone::Bad, "caused by", cause));
        }
        if let Some(log) = &self.log {
            text.push_str(&line(look, Tone::Strong, "log", &log.display().to_string()));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&line(look, Tone::Strong, "hint", hint));
        }
        text
    }
}

/// One labelled message; the lines after its first are set below it.
fn line(look: Look, tone: Tone, label: &str, message: &str) -> String {
    let message = clean(message.trim_end()).replace('\n', "\n  ");
    format!("{}: {message}\n", look.paint(tone, label))
}

/// Draws faults of the definitions with the text underlined.
fn underline<'a>(
    faults: impl IntoIterator<Item = &'a (dyn Diagnostic + 'a)>,
    look: Look,
) -> String {
    let mut theme = if look.color {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    if !look.unicode {
        theme.characters = ThemeCharacters::ascii();
    }
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_links(false)
        .with_width(100);
    let mut text = String::new();
    for fault in faults {
        // Writing to a string can't fail; a fault that can't be drawn is told in words.
        if handler.render_report(&mut text, fault).is_err() {
            text.push_str(&format!("{fault}\n"));
        }
    }
    text
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
