//! Plain lines on standard error; on a terminal, one moving line below them.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use run::ui::{Notice, Stage};

use super::lines;
use super::{Teller, Verbosity};
use crate::stream::{self, Look, clean};

/// Tells people.
pub(crate) struct Human {
    look: Look,
    verbosity: Verbosity,
    moving: Option<ProgressBar>,
    /// Whether the preflight report is the command's result, which standard output gets anyway.
    is_preflight: bool,
}

impl Human {
    /// Makes one; `moves` says that standard error is a terminal on which a line may move.
    pub(crate) fn new(look: Look, verbosity: Verbosity, moves: bool, is_preflight: bool) -> Self {
        let moving = (moves && verbosity > Verbosity::Quiet).then(|| moving_line(look));
        Self {
            look,
            verbosity,
            moving,
            is_preflight,
        }
    }

    fn moves_on(&self, notice: &Notice) {
        let Some(bar) = &self.moving else { return };
        match notice {
            Notice::Step { step, doing } => {
                bar.set_message(format!("{step}: {}", lines::doing_word(*doing)))
            }
            Notice::Init { step, .. } => bar.set_message(format!("{step}: init")),
            Notice::Resource {
                step,
                address,
                action,
                stage: Stage::Started,
                seconds: so_far,
            } => {
                let time = if *so_far == 0 {
                    String::new()
                } else {
                    format!(", {}", lines::whole(*so_far))
                };
                bar.set_message(clean(&format!("{step}: {action} {address}{time}")).into_owned());
            }
            Notice::Host { step, host, what } => {
                bar.set_message(clean(&format!("{step}: {host}: {what}")).into_owned());
            }
            Notice::Task { step, task } => {
                bar.set_message(clean(&format!("{step}: {task}")).into_owned());
            }
            Notice::Waiting { what } => bar.set_message(clean(what).into_owned()),
            Notice::Check { phase, check, .. } => {
                bar.set_message(clean(&format!("phase {phase}: check {check}")).into_owned());
            }
            Notice::Verified { .. } | Notice::TornDown { .. } | Notice::StepEnded { .. } => {
                bar.set_message("")
            }
            _ => {}
        }
    }
}

impl Teller for Human {
    fn tell(&self, notice: &Notice) {
        if self.is_preflight && matches!(notice, Notice::Preflight { .. }) {
            return;
        }
        if let Some(text) = lines::of(notice, self.look, self.verbosity) {
            self.say(&text);
        }
        self.moves_on(notice);
    }

    fn say(&self, text: &str) {
        let print = || {
            stream::err(text);
        };
        match &self.moving {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        match &self.moving {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.moving {
            bar.finish_and_clear();
        }
    }
}

fn moving_line(look: Look) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let ticks = if look.unicode {
        "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "
    } else {
        "-\\|/ "
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style.tick_chars(ticks));
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
