//! Why a probe did not pass: what was asked, what came.

use std::time::Duration;

/// A probe that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{asked}`: {came}")]
pub struct ProbeFailure {
    /// The question, as [`crate::Probe::asked`] gives it.
    pub asked: String,
    /// What came instead of the right answer.
    pub came: Came,
}

/// What came instead of the right answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Came {
    /// An HTTP answer with another status.
    #[error("answered {got}, not {}{}", one_of(wanted), begins(first_bytes))]
    Status {
        /// The status that came.
        got: u16,
        /// The statuses that are right.
        wanted: Vec<u16>,
        /// The start of the body, readable.
        first_bytes: String,
    },
    /// An HTTP answer whose body lacks the text.
    #[error(
        "answered {status}, but the body does not hold `{wanted}`{}",
        begins(first_bytes)
    )]
    Body {
        /// The status that came.
        status: u16,
        /// The text that the body should hold.
        wanted: String,
        /// The start of the body, readable.
        first_bytes: String,
    },
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The host's name has no address.
    #[error("the name `{host}` has no address ({reason})")]
    Unresolved {
        /// The host as it was asked for.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer within {:.1} s", after.as_secs_f64())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection came about but was not trusted.
    #[error("TLS failed: {reason}")]
    Tls {
        /// The TLS library's words.
        reason: String,
    },
    /// The connection broke, or what came is not the protocol.
    #[error("{reason}")]
    Broken {
        /// The system's or the protocol's words.
        reason: String,
    },
    /// The DNS server knows no such name.
    #[error("NXDOMAIN: no such name")]
    NoSuchName,
    /// The DNS name exists, without a record of that type.
    #[error("no such record")]
    NoRecord,
    /// The DNS server answered with an error.
    #[error("the server answered {code}")]
    DnsError {
        /// The response code in words.
        code: String,
    },
    /// The DNS records are not the expected ones.
    #[error("answered {}, without {}", list(got), list(missing))]
    Records {
        /// The values that came.
        got: Vec<String>,
        /// The expected values that did not.
        missing: Vec<String>,
    },
    /// The program ended with another exit code than 0.
    #[error("exit code {code}{}", ends(last_lines))]
    Exited {
        /// The exit code.
        code: i32,
        /// The end of its output.
        last_lines: Vec<String>,
    },
    /// The program died of a signal.
    #[error("killed by signal {signal}{}", ends(last_lines))]
    Signalled {
        /// The signal's number.
        signal: i32,
        /// The end of its output.
        last_lines: Vec<String>,
    },
    /// The program did not end in time and was killed, with its whole group.
    #[error("still running after {:.1} s, and killed{}", after.as_secs_f64(), ends(last_lines))]
    Hung {
        /// How long it was waited for.
        after: Duration,
        /// The end of its output.
        last_lines: Vec<String>,
    },
    /// The program could not be started or followed.
    #[error("cannot run it: {reason}")]
    NotRun {
        /// The whole chain of causes.
        reason: String,
    },
    /// The probe itself is wrong (an address, a certificate file): asking again can't help.
    #[error("cannot be asked: {reason}")]
    Unaskable {
        /// What is wrong with it.
        reason: String,
    },
    /// The call is stopping, so the probe was not asked, or not to its end.
    #[error("not asked to the end: the call is stopping")]
    Stopped,
}

impl Came {
    /// Whether asking again may end otherwise.
    pub fn may_pass_later(&self) -> bool {
        !matches!(self, Self::Unaskable { .. } | Self::Stopped)
    }
}

fn one_of(wanted: &[u16]) -> String {
    let words: Vec<String> = wanted.iter().map(u16::to_string).collect();
    words.join(" or ")
}

fn list(values: &[String]) -> String {
    let words: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    words.join(", ")
}

fn begins(first_bytes: &str) -> String {
    if first_bytes.is_empty() {
        " (empty body)".to_owned()
    } else {
        format!(" (body begins `{first_bytes}`)")
    }
}

fn ends(last_lines: &[String]) -> String {
    match last_lines.last() {
        None => " (no output)".to_owned(),
        Some(last) => format!(" (last line `{last}`)"),
    }
}

/// The start of what came, in one readable line.
pub(crate) fn readable(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let mut line: String = text
        .trim()
        .chars()
        .take(SHOWN)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if text.trim().chars().count() > SHOWN {
        line.push('…');
    }
    line
}

/// An error and all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_said_in_words() {
        for (came, words) in [
            (
                Came::Status {
                    got: 503,
                    wanted: vec![200, 204],
                    first_bytes: "down".into(),
                },
                "answered 503, not 200 or 204 (body begins `down`)",
            ),
            (
                Came::Body {
                    status: 200,
                    wanted: "ok".into(),
                    first_bytes: String::new(),
                },
                "answered 200, but the body does not hold `ok` (empty body)",
            ),
            (
                Came::Records {
                    got: vec!["1.2.3.4".into()],
                    missing: vec!["1.1.1.1".into()],
                },
                "answered `1.2.3.4`, without `1.1.1.1`",
            ),
            (
                Came::Exited {
                    code: 3,
                    last_lines: vec!["a".into(), "b".into()],
                },
                "exit code 3 (last line `b`)",
            ),
            (
                Came::Signalled {
                    signal: 9,
                    last_lines: vec![],
                },
                "killed by signal 9 (no output)",
            ),
            (
                Came::TimedOut {
                    after: Duration::from_millis(1500),
                },
                "no answer within 1.5 s",
            ),
        ] {
            assert_eq!(came.to_string(), words);
        }
    }

    #[test]
    fn the_start_of_a_body_is_one_short_line() {
        assert_eq!(readable(b"  <html>\r\n\x1b[31mred  "), "<html>   [31mred");
        let long = readable(&[b'x'; 500]);
        assert_eq!(long.chars().count(), 201);
        assert!(long.ends_with('…'));
    }
}
