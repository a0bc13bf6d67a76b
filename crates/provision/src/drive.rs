//! The walk over the steps of one job.

use std::time::Instant;

use jobs::{Act, End, Job, JobId};
use phase_engine::{ExitCode, Failure};
use serde_json::Value;

use crate::book::{Book, told};

/// How a step was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was not begun, or it failed.
    First,
    /// It was begun and cut.
    AfterCut,
    /// It ended well, and only looks: what it saw may have changed.
    Again,
}

/// What a step left behind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// One line for people.
    pub summary: String,
    /// What those after it, and people, may want to know. Never anything sensitive.
    pub outputs: Option<Value>,
}

/// What the steps of a job do.
pub trait Acts {
    /// Does one step.
    ///
    /// # Errors
    /// It failed; [`ExitCode::Interrupted`] where a signal ended it.
    fn act(&mut self, step: &str, how: How) -> Result<Done, Failure>;

    /// Tells that a step begins, or ended, which took so many seconds.
    fn tell(&self, step: &str, ended: Option<(&Result<Done, Failure>, f64)>);

    /// Whether no new step may begin.
    fn is_stopped(&self) -> bool;

    /// The time as the ledger keeps it.
    fn now(&self) -> String;
}

/// Who walks, and what.
pub struct Driver<'a> {
    /// The ledger.
    pub book: &'a mut Book,
    /// The job, which this call has taken.
    pub job: JobId,
}

/// How a walk ended.
#[derive(Debug)]
pub struct Driven {
    /// The job as it is now; none where the ledger could not be read any more.
    pub job: Option<Job>,
    /// Why it did not come to its end.
    pub failure: Option<Failure>,
}

/// Walks the steps of a job from where it stands: what ended well is not done again, what only looks is.
pub fn drive(driver: Driver<'_>, acts: &mut dyn Acts) -> Driven {
    let Driver { book, job } = driver;
    let failure = walk(book, &job, acts).err();
    Driven {
        job: book.ledger.show(&job).ok(),
        failure,
    }
}

fn walk(book: &mut Book, id: &JobId, acts: &mut dyn Acts) -> Result<(), Failure> {
    let lost = |error: &jobs::LedgerError| {
        let mut failure = told(error);
        if failure.exit == ExitCode::Stopped {
            failure.exit = ExitCode::Failed;
        }
        failure.hint(
            "nothing more was begun; once the ledger can be written, the same command goes on",
        )
    };
    let job = book.ledger.show(id).map_err(|error| told(&error))?;
    let plan: Vec<(String, Act)> = job
        .plan()
        .into_iter()
        .map(|(step, act)| (step.name.clone(), act))
        .collect();
    for (step, act) in plan {
        let how = match act {
            Act::Skip => continue,
            Act::LookAgain => How::Again,
            Act::Do => How::First,
            Act::DoAfterCut => How::AfterCut,
        };
        if acts.is_stopped() {
            return Err(Failure::new(
                ExitCode::Interrupted,
                format!("interrupted before step `{step}` of job `{id}` began"),
            ));
        }
        if how != How::Again {
            book.ledger
                .begin(id, &book.holder, &step, &acts.now())
                .map_err(|error| lost(&error))?;
            let _ = fault::point("job.begun", || step.clone());
        }
        acts.tell(&step, None);
        let began = Instant::now();
        let result = acts.act(&step, how);
        acts.tell(&step, Some((&result, began.elapsed().as_secs_f64())));
        if how == How::Again {
            result?;
            continue;
        }
        let end = match &result {
            Ok(done) => End::Succeeded {
                outputs: done.outputs.as_ref().map(Value::to_string),
            },
            Err(failure) if failure.is_interrupt() => End::Interrupted,
            Err(failure) => End::Failed {
                error: in_one_line(failure),
            },
        };
        let _ = fault::point("job.done", || step.clone());
        let ended = book.ledger.end(id, &book.holder, &step, end, &acts.now());
        let _ = fault::point("job.ended", || step.clone());
        result?;
        ended.map_err(|error| lost(&error))?;
    }
    Ok(())
}

fn in_one_line(failure: &Failure) -> String {
    let parts = std::iter::once(&failure.what).chain(&failure.causes);
    parts.map(String::as_str).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use jobs::{Ledger, NewJob, NewStep, StepStatus};
    use proptest::prelude::*;

    use super::*;

    const STEPS: [(&str, bool); 4] = crate::STEPS;

    /// A call that is killed after so many acts, or in the midst of one.
    struct Cut<'a> {
        acted: &'a mut Vec<(String, How)>,
        left: usize,
        fails_at: Option<&'static str>,
    }

    impl Acts for Cut<'_> {
        fn act(&mut self, step: &str, how: How) -> Result<Done, Failure> {
            self.acted.push((step.to_owned(), how));
            if self.fails_at == Some(step) {
                return Err(Failure::failed("no").because("because"));
            }
            self.left = self.left.saturating_sub(1);
            Ok(Done::default())
        }

        fn tell(&self, _: &str, _: Option<(&Result<Done, Failure>, f64)>) {}

        fn is_stopped(&self) -> bool {
            self.left == 0
        }

        fn now(&self) -> String {
            "2026-12-01T10:00:00Z".to_owned()
        }
    }

    fn book(dir: &std::path::Path) -> Book {
        Book {
            ledger: Ledger::open(&dir.join("jobs.sqlite")).unwrap(),
            holder: "me".to_owned(),
        }
    }

    fn begun(book: &mut Book) -> JobId {
        let id = JobId("01".to_owned());
        let steps = STEPS.iter().map(|(name, looks)| NewStep {
            name: (*name).to_owned(),
            looks: *looks,
        });
        let new = NewJob {
            id: id.clone(),
            kind: "provision".to_owned(),
            platform: "lab".to_owned(),
            target: "drill".to_owned(),
            workspace: "prod".to_owned(),
            playbook: "site.yml".to_owned(),
            spec: "{}".to_owned(),
            steps: steps.collect(),
        };
        book.ledger.open_job(new, "2026-12-01T10:00:00Z").unwrap();
        book.ledger.take(&id, "me", |_| true).unwrap();
        id
    }

    fn drive_for(
        book: &mut Book,
        id: &JobId,
        acted: &mut Vec<(String, How)>,
        left: usize,
        fails_at: Option<&'static str>,
    ) -> Driven {
        let mut acts = Cut {
            acted,
            left,
            fails_at,
        };
        let job = id.clone();
        drive(Driver { book, job }, &mut acts)
    }

    #[test]
    fn a_failed_playbook_is_run_again_and_nothing_is_applied_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut book = book(dir.path());
        let id = begun(&mut book);
        let mut acted = Vec::new();
        let driven = drive_for(&mut book, &id, &mut acted, 9, Some("ansible"));
        assert_eq!(driven.failure.unwrap().what, "no");
        let steps = driven.job.unwrap().steps;
        assert_eq!(steps[3].error.as_deref(), Some("no: because"));
        acted.clear();
        assert!(
            drive_for(&mut book, &id, &mut acted, 9, None)
                .failure
                .is_none()
        );
        let expected = [
            ("await", How::Again),
            ("onboard", How::Again),
            ("ansible", How::First),
        ];
        assert_eq!(acted, expected.map(|(step, how)| (step.to_owned(), how)));
    }

    #[test]
    fn of_a_step_that_was_cut_the_next_call_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut book = book(dir.path());
        let id = begun(&mut book);
        book.ledger.begin(&id, "me", "apply", "now").unwrap();
        let mut acted = Vec::new();
        drive_for(&mut book, &id, &mut acted, 9, None);
        assert_eq!(acted[0], ("apply".to_owned(), How::AfterCut));
    }

    #[test]
    fn another_holder_writes_nothing_and_ends_the_walk() {
        let dir = tempfile::tempdir().unwrap();
        let mut book = book(dir.path());
        let id = begun(&mut book);
        book.ledger.take(&id, "other", |_| true).unwrap();
        let mut acted = Vec::new();
        let failure = drive_for(&mut book, &id, &mut acted, 9, None)
            .failure
            .unwrap();
        assert_eq!(failure.exit, ExitCode::Locked);
        assert!(acted.is_empty());
    }

    proptest! {
        /// Whatever number of calls it takes, each cut after some acts: each step that changes is done once.
        #[test]
        fn a_job_ends_and_repeats_no_change(cuts in proptest::collection::vec(1_usize..4, 0..8)) {
            let dir = tempfile::tempdir().unwrap();
            let mut book = book(dir.path());
            let id = begun(&mut book);
            let mut acted = Vec::new();
            for left in cuts.into_iter().chain([9]) {
                drive_for(&mut book, &id, &mut acted, left, None);
            }
            let job = book.show("01").unwrap();
            prop_assert!(job.steps.iter().all(|step| step.status == StepStatus::Succeeded));
            for (name, looks) in STEPS {
                let n = acted.iter().filter(|(step, _)| step == name).count();
                prop_assert!(if looks { n >= 1 } else { n == 1 }, "{name}: {n}");
            }
        }
    }
}
