//! The two streams that the program writes to, and how text on them looks.
//!
//! A stream whose reader is gone (`rebuild up | head -1`) is no reason to stop: what can't be written is
//! dropped, and the call goes on.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use crate::args::Color;
use crate::machine::Surroundings;

/// How text looks on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether colour is used.
    pub(crate) color: bool,
    /// Whether more than ASCII is used.
    pub(crate) unicode: bool,
}

/// What a piece of text is; the look gives it a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Strong,
    Quiet,
}

impl Look {
    /// No colour and nothing but ASCII.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self {
        color: false,
        unicode: false,
    };

    /// Decides for one stream.
    pub(crate) fn decide(when: Color, is_terminal: bool, surroundings: &Surroundings) -> Self {
        let dumb = surroundings.var("TERM").is_some_and(|term| term == "dumb");
        let color = match when {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !dumb && surroundings.var("NO_COLOR").is_none(),
        };
        Self {
            color,
            unicode: surroundings.is_utf8(),
        }
    }

    /// Gives text its colour.
    pub(crate) fn paint<'a>(self, tone: Tone, text: &'a str) -> Cow<'a, str> {
        if !self.color {
            return Cow::Borrowed(text);
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Warn => 33,
            Tone::Strong => 1,
            Tone::Quiet => 2,
        };
        Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
    }

    /// The arrow between an old and a new value.
    pub(crate) fn arrow(self) -> &'static str {
        if self.unicode { "→" } else { "->" }
    }
}

/// Whether the streams of this process are terminals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminals {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

impl Terminals {
    /// Looks.
    pub(crate) fn of_this_process() -> Self {
        Self {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
        }
    }
}

/// Writes to standard output; false when nobody reads it any more.
pub(crate) fn out(text: &str) -> bool {
    out_bytes(text.as_bytes())
}

/// The same for what may be no text.
pub(crate) fn out_bytes(bytes: &[u8]) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .is_ok()
}

/// Writes to standard error; false when nobody reads it any more.
pub(crate) fn err(text: &str) -> bool {
    let mut stderr = std::io::stderr().lock();
    stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush())
        .is_ok()
}

/// Takes out what would steer a terminal: text of tools and providers is shown, never obeyed.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' && chars.peek() == Some(&'[') {
            chars.next();
            // A control sequence ends with its first byte from `@` to `~`.
            while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else if !steers(c) {
            cleaned.push(c);
        }
    }
    Cow::Owned(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            env: vars
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: "/".into(),
            exe: "/x".into(),
        }
    }

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let color = |when, terminal, vars: &[_]| Look::decide(when, terminal, &with(vars)).color;
        assert!(color(Color::Auto, true, &[]));
        assert!(!color(Color::Auto, false, &[]));
        assert!(!color(Color::Auto, true, &[("NO_COLOR", "1")]));
        assert!(
            color(Color::Auto, true, &[("NO_COLOR", "")]),
            "an empty NO_COLOR says nothing"
        );
        assert!(!color(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(
            color(Color::Always, false, &[("NO_COLOR", "1")]),
            "what is typed wins"
        );
        assert!(!color(Color::Never, true, &[]));
    }

    #[test]
    fn text_of_others_can_not_steer_the_terminal() {
        assert_eq!(clean("a\x1b[31mred\x1b[0m\r\n\tb\x07"), "ared\n\tb");
        assert_eq!(clean("plain ü"), "plain ü");
        assert_eq!(clean("cut \x1b["), "cut ");
    }

    proptest::proptest! {
        #[test]
        fn cleaned_text_holds_no_control_and_stays_as_it_is(text in "(\\PC|\x1b\\[|\x1b|[\0-\x1f]|\u{9b})*") {
            let cleaned = clean(&text).into_owned();
            proptest::prop_assert!(!cleaned.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            proptest::prop_assert_eq!(&clean(&cleaned), &cleaned);
        }
    }
}
