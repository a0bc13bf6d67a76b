//! Faults of the definitions: what is wrong, where, and what would be right.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity,
};

/// A text of the platform that faults point into.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// Path within the platform, with `/` between its parts.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: Arc<str>,
}

impl TextFile {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Starts a fault at `span` with the text there underlined by `label`.
    pub(crate) fn fault(
        &self,
        span: Range<usize>,
        label: impl Into<String>,
        message: impl Into<String>,
    ) -> Fault {
        Fault {
            file: self.path.clone(),
            span: Some(within(&self.text, span)),
            label: label.into(),
            message: message.into(),
            help: None,
            is_warning: false,
            source: NamedSource::new(&self.path, Arc::clone(&self.text)),
        }
    }

    /// Starts a fault of the file as a whole.
    pub(crate) fn fault_of_whole(&self, message: impl Into<String>) -> Fault {
        Fault {
            source: NamedSource::new(&self.path, Arc::clone(&self.text)),
            ..Fault::of_file(&self.path, message)
        }
    }
}

/// Cuts a span to the text and to whole characters.
fn within(text: &str, span: Range<usize>) -> Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// One thing that is wrong in the definitions.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Path of the file within the platform.
    pub file: String,
    /// Bytes of the offending text; `None` when the file as a whole is at fault.
    pub span: Option<Range<usize>>,
    /// What is said at the underlined text.
    pub label: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// Says that nothing is stopped by it.
    pub is_warning: bool,
    source: NamedSource<Arc<str>>,
}

impl Fault {
    /// Makes a fault of a file that has no text to show.
    pub(crate) fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            span: None,
            label: String::new(),
            message: message.into(),
            help: None,
            is_warning: false,
            source: NamedSource::new(file, Arc::from("")),
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    pub(crate) fn warning(mut self) -> Self {
        self.is_warning = true;
        self
    }

    /// Returns the text of the file that the span points into.
    pub fn source_text(&self) -> &str {
        self.source.inner()
    }

    /// Returns the line and column, both from 1, where the offending text begins.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let before = self.source_text().get(..self.span.as_ref()?.start)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Some((line, column))
    }

    /// Renders the fault with its text underlined, without colour.
    pub fn render_plain(&self) -> String {
        let mut out = String::new();
        let shown = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .with_links(false)
            .with_wrap_lines(false)
            .with_context_lines(1)
            .render_report(&mut out, self);
        if shown.is_err() {
            out = format!("{}: {}\n", self.file, self.message);
        }
        out.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
            .trim_matches('\n')
            .to_owned()
    }

    fn order(&self) -> (u8, &str, usize, &str) {
        let rank = match self.file.as_str() {
            "rebuild.toml" => 0,
            file if file.starts_with("targets/") => 1,
            _ => 2,
        };
        (
            rank,
            &self.file,
            self.span.as_ref().map_or(0, |span| span.start),
            &self.message,
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn severity(&self) -> Option<Severity> {
        Some(if self.is_warning {
            Severity::Warning
        } else {
            Severity::Error
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.span
            .as_ref()
            .map(|_| &self.source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.span.clone()?;
        let label = (!self.label.is_empty()).then(|| self.label.clone());
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(
            label, span,
        ))))
    }
}

/// Every fault that was found, by file and position. Never empty when it is an error.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    faults: Vec<Fault>,
}

impl Faults {
    /// Puts faults in their order: `rebuild.toml`, the target file, root modules; each by position.
    pub(crate) fn sorted(mut faults: Vec<Fault>) -> Self {
        faults.sort_by(|a, b| a.order().cmp(&b.order()));
        faults.dedup_by(|a, b| a.order() == b.order() && a.label == b.label);
        Self { faults }
    }

    /// Puts faults that were told apart from the others in their order.
    pub fn of(faults: Vec<Fault>) -> Self {
        Self::sorted(faults)
    }

    /// Returns the faults in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.faults.iter()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.faults.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the faults as a list.
    pub fn into_vec(self) -> Vec<Fault> {
        self.faults
    }

    /// Renders every fault with its text underlined, without colour.
    pub fn render_plain(&self) -> String {
        let mut out = self
            .faults
            .iter()
            .map(Fault::render_plain)
            .collect::<Vec<_>>()
            .join("\n\n");
        out.push('\n');
        out
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.faults.len() {
            1 => write!(f, "the definitions have 1 fault"),
            n => write!(f, "the definitions have {n} faults"),
        }
    }
}

impl std::error::Error for Faults {}

impl Diagnostic for Faults {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(
            self.faults.iter().map(|fault| fault as &dyn Diagnostic),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_by_file_and_position() {
        let main = TextFile::new("rebuild.toml", "abc\ndef\n");
        let target = TextFile::new("targets/drill.toml", "x\n");
        let faults = Faults::sorted(vec![
            target.fault(0..1, "", "third"),
            main.fault(4..5, "", "second"),
            main.fault(0..1, "", "first"),
        ]);
        let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(said, ["first", "second", "third"]);
        assert_eq!(
            faults.iter().nth(1).unwrap().line_and_column(),
            Some((2, 1))
        );
    }

    #[test]
    fn a_fault_shows_its_text_underlined() {
        let file = TextFile::new("rebuild.toml", "[platform]\nnam = \"x\"\n");
        let shown = file
            .fault(11..14, "unknown key", "`nam` is no key of [platform]")
            .help("did you mean `name`?")
            .render_plain();
        assert!(shown.contains("rebuild.toml:2:1"), "{shown}");
        assert!(
            shown.contains("unknown key") && shown.contains("did you mean"),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn a_span_past_the_end_or_inside_a_character_is_cut() {
        assert_eq!(within("aé", 2..9), 1..3);
        assert_eq!(within("", 4..9), 0..0);
    }
}
