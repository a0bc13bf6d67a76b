//! The last places that a secret could leave by: what is told, why something failed, what the record keeps.

use std::sync::Arc;

use phase_engine::{
    Failure, Preparation, ResidueResult, ResourceAddress, StepResult, TeardownResult,
};
use record::{Detail, PlannedChange, Suspected};
use secrets::Masker;
use serde_json::Value;

use crate::bench::Bench;
use crate::ui::{Answer, Checkpoint, Notice, Ui};

/// An operator's end that hears no secret.
pub(crate) struct MaskedUi {
    /// Who is told.
    pub(crate) inner: Arc<dyn Ui>,
    /// Hides what this call knows.
    pub(crate) masker: Masker,
}

impl MaskedUi {
    fn mask(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(masked) = self.masker.mask(text) {
            *text = masked;
        }
    }
}

impl Ui for MaskedUi {
    fn tell(&self, notice: &Notice) {
        let mut notice = notice.clone();
        match &mut notice {
            Notice::Resource { address, .. } => self.mask(address),
            Notice::Quiet { address, .. } => address.iter_mut().for_each(|text| self.mask(text)),
            Notice::StepEnded { summary, .. } | Notice::JobStepEnded { summary, .. } => {
                self.mask(summary);
            }
            Notice::Check { failure, .. } => failure.iter_mut().for_each(|text| self.mask(text)),
            Notice::Waiting { what } | Notice::Host { what, .. } => self.mask(what),
            Notice::Told { message } => self.mask(message),
            Notice::Task { task, .. } => self.mask(task),
            Notice::TaskEnded { task, message, .. }
            | Notice::Difference {
                task,
                text: message,
                ..
            } => {
                self.mask(task);
                self.mask(message);
            }
            Notice::Warning { message, hint } => {
                self.mask(message);
                hint.iter_mut().for_each(|text| self.mask(text));
            }
            // Masked where it is made, before it is recorded.
            Notice::Preflight { .. } => {}
            // Names and numbers of the platform's own.
            Notice::Bundle { .. }
            | Notice::Tool { .. }
            | Notice::EnvironmentDropped { .. }
            | Notice::Unmaskable { .. }
            | Notice::Locked { .. }
            | Notice::Checking { .. }
            | Notice::StoreMoved { .. }
            | Notice::Init { .. }
            | Notice::Upgrade { .. }
            | Notice::Run { .. }
            | Notice::Phase { .. }
            | Notice::Step { .. }
            | Notice::Verified { .. }
            | Notice::TornDown { .. }
            | Notice::Job { .. }
            | Notice::JobStep { .. }
            | Notice::NothingLeft { .. } => {}
        }
        self.inner.tell(&notice);
    }

    fn interactive(&self) -> bool {
        self.inner.interactive()
    }

    fn at_checkpoint(&self, summary: &Checkpoint) -> Answer {
        self.inner.at_checkpoint(summary)
    }

    fn tear_down_after_failure(&self, target: &str, protected: bool) -> bool {
        self.inner.tear_down_after_failure(target, protected)
    }

    fn confirm_by_name(&self, target: &str, what: &str) -> bool {
        self.inner.confirm_by_name(target, what)
    }

    fn agree_to_destroy(&self, step: &str, addresses: &[String]) -> bool {
        let addresses: Vec<String> = addresses
            .iter()
            .map(|address| self.masker.mask(address).into_owned())
            .collect();
        self.inner.agree_to_destroy(step, &addresses)
    }
}

/// Hides secrets in all words of a failure.
pub(crate) fn failure(masker: &Masker, failure: Failure) -> Failure {
    let mask = |text: String| masker.mask(&text).into_owned();
    Failure {
        what: mask(failure.what),
        causes: failure.causes.into_iter().map(mask).collect(),
        hint: failure.hint.map(mask),
        ..failure
    }
}

/// Hides secrets in a resource's address: a key of `for_each` may be one.
pub(crate) fn address(masker: &Masker, address: ResourceAddress) -> ResourceAddress {
    match masker.mask(address.as_str()) {
        std::borrow::Cow::Borrowed(_) => address,
        std::borrow::Cow::Owned(masked) => ResourceAddress::new(masked).unwrap_or(address),
    }
}

fn planned(masker: &Masker, change: PlannedChange) -> PlannedChange {
    PlannedChange {
        address: address(masker, change.address),
        was: change.was.map(|id| masker.mask(&id).into_owned()),
        ..change
    }
}

/// What may exist in no state, as the record has it.
pub(crate) fn suspected(masker: &Masker, found: Suspected) -> Suspected {
    let masked = |id: Option<String>| id.map(|id| masker.mask(&id).into_owned());
    Suspected {
        address: found.address.map(|it| address(masker, it)),
        provider: found.provider,
        id: masked(found.id),
        was: masked(found.was),
    }
}

/// Whether a value holds a known secret: then it is one, whatever OpenTofu calls it.
pub(crate) fn holds_secret(masker: &Masker, value: &Value) -> bool {
    matches!(masker.mask(&value.to_string()), std::borrow::Cow::Owned(_))
}

impl Bench<'_> {
    /// Hides secrets in all words of a failure.
    pub(crate) fn masked_failure(&self, why: Failure) -> Failure {
        failure(&self.masker, why)
    }

    /// Hides secrets in the addresses that the record would keep. Outputs and inputs are sorted out where they
    /// are made.
    pub(crate) fn masked_detail(&self, mut detail: Detail) -> Detail {
        let masker = &self.masker;
        let all = |changes: Vec<PlannedChange>| {
            changes
                .into_iter()
                .map(|change| planned(masker, change))
                .collect()
        };
        detail.planned = all(detail.planned);
        if let Some(starting) = &mut detail.starting {
            starting.planned.changes = all(std::mem::take(&mut starting.planned.changes));
        }
        detail.suspects = detail
            .suspects
            .into_iter()
            .map(|found| suspected(masker, found))
            .collect();
        detail.forgotten = detail
            .forgotten
            .iter()
            .map(|address| self.masked(address))
            .collect();
        detail
    }

    pub(crate) fn masked_result(&self, result: StepResult<Detail>) -> StepResult<Detail> {
        StepResult {
            end: result.end.map_err(|why| self.masked_failure(why)),
            detail: result.detail.map(|detail| self.masked_detail(detail)),
        }
    }

    pub(crate) fn masked_preparation<P>(
        &self,
        preparation: Preparation<P, Detail>,
    ) -> Preparation<P, Detail> {
        match preparation {
            Preparation::Ready { plan, detail } => Preparation::Ready {
                plan,
                detail: self.masked_detail(detail),
            },
            Preparation::AlreadyDone { detail } => Preparation::AlreadyDone {
                detail: self.masked_detail(detail),
            },
            Preparation::NotReady(why) => Preparation::NotReady(self.masked_failure(why)),
        }
    }

    pub(crate) fn masked_teardown(&self, result: TeardownResult<Detail>) -> TeardownResult<Detail> {
        match result {
            TeardownResult::Gone { detail } => TeardownResult::Gone {
                detail: detail.map(|detail| self.masked_detail(detail)),
            },
            TeardownResult::Empty => TeardownResult::Empty,
            TeardownResult::Failed {
                failure: why,
                detail,
            } => TeardownResult::Failed {
                failure: self.masked_failure(why),
                detail: detail.map(|detail| self.masked_detail(detail)),
            },
        }
    }

    pub(crate) fn masked_residue(&self, result: ResidueResult) -> ResidueResult {
        match result {
            ResidueResult::Clean => ResidueResult::Clean,
            ResidueResult::Left(why) => ResidueResult::Left(self.masked_failure(why)),
            ResidueResult::Unprovable(why) => ResidueResult::Unprovable(self.masked_failure(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use phase_engine::ExitCode;

    use super::*;

    const SECRET: &str = "hunter2\"hunter2";

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Ui for Heard {
        fn tell(&self, notice: &Notice) {
            self.0
                .lock()
                .unwrap()
                .push(serde_json::to_string(notice).unwrap());
        }
        fn interactive(&self) -> bool {
            true
        }
        fn at_checkpoint(&self, _: &Checkpoint) -> Answer {
            Answer::Continue
        }
        fn tear_down_after_failure(&self, _: &str, _: bool) -> bool {
            false
        }
        fn confirm_by_name(&self, _: &str, _: &str) -> bool {
            false
        }
        fn agree_to_destroy(&self, _: &str, addresses: &[String]) -> bool {
            self.0.lock().unwrap().extend_from_slice(addresses);
            false
        }
    }

    fn masker() -> Masker {
        let masker = Masker::new();
        masker.add_text("it", SECRET);
        masker
    }

    #[test]
    fn what_is_told_and_asked_holds_no_secret() {
        let heard = Arc::new(Heard::default());
        let ui = MaskedUi {
            inner: Arc::clone(&heard) as Arc<dyn Ui>,
            masker: masker(),
        };
        let address = format!("a.b[{SECRET:?}]");
        ui.tell(&Notice::Resource {
            step: "0.it".into(),
            address: address.clone(),
            action: "create".into(),
            stage: crate::ui::Stage::Started,
            seconds: 0,
        });
        ui.tell(&Notice::Quiet {
            step: "0.it".into(),
            address: Some(address.clone()),
            seconds: 0,
        });
        ui.tell(&Notice::Warning {
            message: SECRET.into(),
            hint: Some(SECRET.into()),
        });
        ui.agree_to_destroy("0.it", &[address]);
        let heard = heard.0.lock().unwrap().join("\n");
        assert!(!heard.contains("hunter2"), "{heard}");
        assert_eq!(heard.matches("[secret]").count(), 5, "{heard}");
    }

    #[test]
    fn a_failure_tells_no_secret() {
        let why = Failure::new(ExitCode::Failed, SECRET)
            .because(SECRET)
            .hint(SECRET);
        let told = format!("{:?}", failure(&masker(), why));
        assert!(!told.contains("hunter2"), "{told}");
    }

    #[test]
    fn a_value_that_holds_a_secret_is_known_by_its_content() {
        let masker = masker();
        assert!(holds_secret(
            &masker,
            &serde_json::json!({ "a": [format!("x {SECRET} y")] })
        ));
        assert!(!holds_secret(&masker, &serde_json::json!({ "a": ["x"] })));
    }
}
