//! The questions, and what counts as which answer. Nothing but a clear yes is a yes.

use std::sync::Arc;

use run::stop::StopRequests;
use run::ui::{Answer, Checkpoint};

use crate::prompt::{self, Reply};
use crate::stream::{self, Look, Tone, clean};

/// How many addresses a question lists before it counts the rest.
const MAX_LISTED: usize = 50;

/// Asks a person, where there is one.
pub(crate) struct Questions {
    /// Whether there is somebody to ask: a terminal on both ends, no CI, no `--no-pause`.
    pub(crate) allowed: bool,
    pub(crate) stop: Arc<StopRequests>,
    pub(crate) look: Look,
}

impl Questions {
    pub(super) fn can_ask(&self) -> bool {
        self.allowed && prompt::is_in_foreground()
    }

    fn ask(&self, question: &str) -> Reply {
        if !self.can_ask() {
            return Reply::Declined;
        }
        prompt::ask(&self.look.paint(Tone::Strong, question), &self.stop)
    }

    pub(super) fn at_checkpoint(&self, summary: &Checkpoint) -> Answer {
        let next = summary
            .next
            .as_deref()
            .map_or_else(String::new, |next| format!(" with phase {next}"));
        let question = format!("continue{next}, pause, or tear down? [c/p/t] ");
        loop {
            match choice(&self.ask(&question)) {
                Some(answer) => return answer,
                None => stream::err("type c, p or t\n"),
            };
        }
    }

    pub(super) fn tear_down_after_failure(&self, target: &str, protected: bool) -> bool {
        if protected {
            return self.confirm_by_name(
                target,
                &format!("tear down everything that stands in `{target}`?"),
            );
        }
        let target = clean(target);
        is_yes(&self.ask(&format!(
            "tear down everything that stands in `{target}`? type yes to do it: "
        )))
    }

    pub(super) fn confirm_by_name(&self, target: &str, what: &str) -> bool {
        let what = clean(what.trim_end());
        self.ask(&format!("{what}\ntype the target's name to go on: "))
            == Reply::Line(target.to_owned())
    }

    /// Whether a machine is to be added; none where nobody can be asked.
    pub(crate) fn add_machine(&self, machine: &run::DiscoveredMachine) -> Option<bool> {
        if !self.can_ask() {
            return None;
        }
        let mut known = vec![machine.version.clone().unwrap_or_default()];
        known.extend(machine.disks.iter().cloned());
        known.extend(machine.links.iter().cloned());
        known.retain(|text| !text.is_empty());
        let question = format!(
            "add {} ({})? type yes to do it: ",
            clean(&machine.address),
            clean(&known.join(", "))
        );
        Some(is_yes(&self.ask(&question)))
    }

    pub(super) fn agree_to_destroy(&self, step: &str, addresses: &[String]) -> bool {
        is_yes(&self.ask(&destroys(step, addresses)))
    }
}

fn destroys(step: &str, addresses: &[String]) -> String {
    let mut question = format!("the plan of {step} destroys or replaces:\n");
    for address in addresses.iter().take(MAX_LISTED) {
        question.push_str(&format!("  {}\n", clean(address)));
    }
    if let Some(more @ 1..) = addresses.len().checked_sub(MAX_LISTED) {
        question.push_str(&format!("  and {more} more\n"));
    }
    question.push_str("type yes to apply it: ");
    question
}

/// What a reply at a checkpoint means; `None` asks again.
fn choice(reply: &Reply) -> Option<Answer> {
    let Reply::Line(line) = reply else {
        return Some(Answer::Pause);
    };
    match &*line.to_ascii_lowercase() {
        "c" | "continue" => Some(Answer::Continue),
        "p" | "pause" => Some(Answer::Pause),
        "t" | "tear down" | "teardown" => Some(Answer::TearDown),
        _ => None,
    }
}

fn is_yes(reply: &Reply) -> bool {
    matches!(reply, Reply::Line(line) if line.eq_ignore_ascii_case("yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Reply {
        Reply::Line(text.to_owned())
    }

    #[test]
    fn what_is_no_answer_is_asked_again_and_a_declined_question_pauses() {
        assert_eq!(choice(&line("C")), Some(Answer::Continue));
        assert_eq!(choice(&line("pause")), Some(Answer::Pause));
        assert_eq!(choice(&line("Tear down")), Some(Answer::TearDown));
        assert_eq!(choice(&line("")), None);
        assert_eq!(choice(&line("yes")), None);
        assert_eq!(choice(&Reply::Declined), Some(Answer::Pause));
    }

    #[test]
    fn nothing_but_the_whole_word_is_a_yes() {
        assert!(is_yes(&line("yes")) && is_yes(&line("YES")));
        for no in ["", "y", "no", "yess"] {
            assert!(!is_yes(&line(no)), "{no}");
        }
        assert!(!is_yes(&Reply::Declined));
    }

    #[test]
    fn nobody_to_ask_is_never_a_yes() {
        let nobody = Questions {
            allowed: false,
            stop: Arc::new(StopRequests::new(None)),
            look: Look::PLAIN,
        };
        assert_eq!(nobody.at_checkpoint(&Checkpoint::default()), Answer::Pause);
        assert!(!nobody.tear_down_after_failure("live", true));
        assert!(!nobody.tear_down_after_failure("drill", false));
        assert!(!nobody.confirm_by_name("", "what"));
        assert!(!nobody.agree_to_destroy("1a.edge", &[]));
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let addresses: Vec<_> = (0..52).map(|n| format!("local_file.a[{n}]")).collect();
        let question = destroys("1a.edge", &addresses);
        assert!(
            question.contains("local_file.a[49]\n  and 2 more\n"),
            "{question}"
        );
        assert!(!destroys("1a.edge", &addresses[..50]).contains("more"));
    }
}
