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
    use test_support::World;

    use super::*;

    /// Set in the child only.
    const CHILD: &str = "__REBUILD_PANIC_CHILD";

    /// What the child does: panics under the hook. Does nothing as an ordinary test.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the switch between parent and child of this test"
    )]
    fn child() {
        if std::env::var_os(CHILD).is_some() {
            install(Look::PLAIN);
            let caught = std::panic::catch_unwind(|| panic!("the {} ran out", "ink"));
            assert!(caught.is_err());
        }
    }

    #[test]
    fn a_panic_is_told_in_three_lines() {
        let world = World::new();
        let outcome = world
            .command(std::env::current_exe().unwrap())
            .args(["--exact", "panic::tests::child", "--nocapture"])
            .env(CHILD, "1")
            .run();
        outcome.expect_code(0);
        let lines: Vec<_> = outcome.stderr.lines().collect();
        let [error, cause, hint] = lines[..] else {
            panic!("{}", outcome.stderr)
        };
        assert!(error.starts_with("error: `rebuild` came upon"), "{error}");
        assert!(
            cause.starts_with("caused by: ") && cause.ends_with(": the ink ran out"),
            "{cause}"
        );
        assert!(
            hint.starts_with("hint: this is a fault of `rebuild` itself"),
            "{hint}"
        );
    }

    #[test]
    fn every_kind_of_payload_has_its_text() {
        assert_eq!(message(&"plain"), "plain");
        assert_eq!(message(&"made".to_owned()), "made");
        assert_eq!(message(&7_u8), "no reason was given");
    }
}
