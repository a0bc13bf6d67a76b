//! Runs one child to its end: drains it, watches for what the caller wants, says when it is silent.

use std::time::{Duration, Instant};

use process::{Exit, How, Invocation, Progress, Signal, Spawner, Stream};

use crate::control::{Control, Wanted};
use crate::error::Cause;

/// How often the caller is asked what it wants.
const STEP: Duration = Duration::from_millis(100);

/// How a child's run ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driven {
    pub(crate) exit: Exit,
    /// The most that was wanted of it.
    pub(crate) sent: Wanted,
}

/// Runs a child to its end. Each line goes to `line`; after `patience` without one, `quiet` is told,
/// and again each time that the silence doubles. The reader is never stopped before the child is.
pub(crate) fn drive(
    spawner: &dyn Spawner,
    call: &Invocation,
    how: &How,
    control: &dyn Control,
    patience: Duration,
    line: &mut dyn FnMut(&[u8], Stream),
    quiet: &mut dyn FnMut(Duration),
) -> Result<Driven, Cause> {
    let mut running = spawner.start(call, how).map_err(Cause::Start)?;
    let mut sent = Wanted::Run;
    let mut heard = Instant::now();
    let mut asked = heard;
    let mut next_word = patience;
    loop {
        match running.next(STEP) {
            Ok(Progress::Line(bytes, stream)) => {
                heard = Instant::now();
                next_word = patience;
                let _ = fault::point("child.event", || brief(call, &bytes));
                line(&bytes, stream);
            }
            Ok(Progress::Quiet) => {
                let silence = heard.elapsed();
                if !patience.is_zero() && silence >= next_word {
                    quiet(silence);
                    next_word = next_word.saturating_mul(2);
                }
            }
            Ok(Progress::Ended(exit)) => {
                let _ = fault::point("child.end", || call.brief());
                return Ok(Driven { exit, sent });
            }
            Err(error) => return Err(Cause::Read(error)),
        }
        if asked.elapsed() < STEP {
            continue;
        }
        asked = Instant::now();
        let wanted = control.wanted();
        if wanted > sent {
            match wanted {
                Wanted::Run => {}
                Wanted::Interrupt => {
                    running
                        .signal_group(Signal::Interrupt)
                        .map_err(|source| Cause::Io {
                            doing: "send an interrupt",
                            source: source.into(),
                        })?
                }
                Wanted::Kill => running.kill_group().map_err(Cause::Kill)?,
            }
            sent = wanted;
        }
    }
}

/// What an event is, and of what, in words that are the same in every run.
fn brief(call: &Invocation, line: &[u8]) -> String {
    let event: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    };
    let address = ["/hook/resource/addr", "/change/resource/addr"].map(text);
    let text = format!("{} {} {}", call.brief(), text("/type"), address.concat());
    fault::steady(text.trim_end())
}
