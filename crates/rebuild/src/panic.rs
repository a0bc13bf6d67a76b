//! A fault of this program itself: told in three lines, never as a raw trace.

use std::panic::PanicHookInfo;

use phase_engine::ExitCode;

use crate::failure::Failure;
use crate::stream::{self, Look};

/// Replaces the trace that Rust prints by a short report.
pub(crate) fn install(look: Look) {
    std::panic::set_hook(Box::new(move |info| {
        stream::err(&report(info).render(look));
    }));
}

/// What a panic is told as.
fn report(info: &PanicHookInfo<'_>) -> Failure {
    let place = info
        .location()
        .map_or_else(String::new, |at| format!("{}:{}: ", at.file(), at.line()));
    let mut failure = unexpected();
    failure
        .causes
        .push(format!("{place}{}", message(info.payload())));
    failure
}

/// The failure that a caught panic leads to.
pub(crate) fn unexpected() -> Failure {
    Failure::new(ExitCode::Failed, "`rebuild` came upon something that it did not expect and stopped").hint(
        "this is a fault of `rebuild` itself: please report these lines with the command that you typed and \
         the output of `rebuild --version`; what was applied stays applied, and `rebuild status` tells what stands",
    )
}

fn message(payload: &dyn std::any::Any) -> &str {
    match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        (None, None) => "no reason was given",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_payload_has_its_text() {
        assert_eq!(message(&"plain"), "plain");
        assert_eq!(message(&"made".to_owned()), "made");
        assert_eq!(message(&7_u8), "no reason was given");
    }
}
