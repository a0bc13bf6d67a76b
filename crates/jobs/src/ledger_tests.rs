//! Jobs cut anywhere, taken by others, begun again.

use proptest::prelude::*;

use super::*;
use crate::Act;

const STEPS: [(&str, bool); 4] = [
    ("apply", false),
    ("await", true),
    ("onboard", true),
    ("ansible", false),
];
const NOW: &str = "2026-12-01T10:00:00Z";

fn new_job(id: &str, workspace: &str) -> NewJob {
    let steps = STEPS.iter().map(|(name, looks)| NewStep {
        name: (*name).to_owned(),
        looks: *looks,
    });
    NewJob {
        id: JobId(id.to_owned()),
        kind: "provision".to_owned(),
        platform: "homelab".to_owned(),
        target: "live".to_owned(),
        workspace: workspace.to_owned(),
        playbook: "site.yml".to_owned(),
        spec: "{}".to_owned(),
        steps: steps.collect(),
    }
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A process of its own, as far as the file knows.
    fn ledger(&self) -> Ledger {
        Ledger::open(&self.dir.path().join("state/jobs.sqlite")).unwrap()
    }
}

fn id(text: &str) -> JobId {
    JobId(text.to_owned())
}

fn done() -> End {
    End::Succeeded { outputs: None }
}

fn run_to(ledger: &mut Ledger, job: &str, n_steps: usize) {
    ledger.take(&id(job), "me", |_| true).unwrap();
    for (step, _) in &STEPS[..n_steps] {
        ledger.begin(&id(job), "me", step, NOW).unwrap();
        ledger.end(&id(job), "me", step, done(), NOW).unwrap();
    }
}

/// Case A7: a playbook that failed is run again; the apply is not, and hosts are looked at again.
#[test]
fn a_job_goes_on_at_the_step_that_had_not_ended() {
    let place = Place::new();
    let mut ledger = place.ledger();
    assert!(matches!(
        ledger.open_job(new_job("1", "prod"), NOW).unwrap(),
        Opened::New(_)
    ));
    run_to(&mut ledger, "1", 3);
    ledger.begin(&id("1"), "me", "ansible", NOW).unwrap();
    let failed = End::Failed {
        error: "web1: no space left".to_owned(),
    };
    ledger.end(&id("1"), "me", "ansible", failed, NOW).unwrap();
    drop(ledger);

    let mut ledger = place.ledger();
    let Opened::Unfinished(job) = ledger.open_job(new_job("2", "prod"), NOW).unwrap() else {
        panic!("the first job is not over")
    };
    assert_eq!((job.id.clone(), job.status()), (id("1"), JobStatus::Failed));
    let plan: Vec<Act> = job.plan().into_iter().map(|(_, act)| act).collect();
    assert_eq!(plan, [Act::Skip, Act::LookAgain, Act::LookAgain, Act::Do]);
    ledger.take(&id("1"), "you", |_| true).unwrap();
    let again = ledger.begin(&id("1"), "you", "apply", NOW).unwrap_err();
    assert!(
        matches!(again, LedgerError::Transition(TransitionError::Done { .. })),
        "{again}"
    );
    ledger.begin(&id("1"), "you", "ansible", NOW).unwrap();
    let job = ledger.end(&id("1"), "you", "ansible", done(), NOW).unwrap();
    assert_eq!(
        (job.status(), job.steps[3].n_attempts),
        (JobStatus::Succeeded, 2)
    );
    assert!(matches!(
        ledger.open_job(new_job("2", "prod"), NOW).unwrap(),
        Opened::New(_)
    ));
}

#[test]
fn a_job_has_one_holder_and_a_dead_one_is_replaced() {
    let place = Place::new();
    let (mut mine, mut yours) = (place.ledger(), place.ledger());
    mine.open_job(new_job("1", "prod"), NOW).unwrap();
    mine.take(&id("1"), "me", |_| panic!("nobody to ask about"))
        .unwrap();
    mine.begin(&id("1"), "me", "apply", NOW).unwrap();
    assert!(matches!(
        yours.take(&id("1"), "you", |_| false),
        Err(LedgerError::Held { .. })
    ));
    assert!(matches!(
        yours.redrive(&id("1"), None, |_| false),
        Err(LedgerError::Held { .. })
    ));
    let job = yours
        .take(&id("1"), "you", |holder| holder == "me")
        .unwrap();
    assert_eq!(job.plan()[0].1, Act::DoAfterCut);
    // Who lost it may not go on writing.
    assert!(matches!(
        mine.end(&id("1"), "me", "apply", done(), NOW),
        Err(LedgerError::Held { .. })
    ));
    assert_eq!(
        mine.give_back(&id("1"), "me").unwrap().holder.as_deref(),
        Some("you")
    );
    assert_eq!(yours.give_back(&id("1"), "you").unwrap().holder, None);
}

#[test]
fn a_redrive_begins_where_it_is_told_and_skips_nothing() {
    let place = Place::new();
    let mut ledger = place.ledger();
    ledger.open_job(new_job("1", "prod"), NOW).unwrap();
    run_to(&mut ledger, "1", 2);
    ledger.give_back(&id("1"), "me").unwrap();
    let too_far = ledger
        .redrive(&id("1"), Some("ansible"), |_| true)
        .unwrap_err();
    assert!(
        matches!(
            too_far,
            LedgerError::Transition(TransitionError::TooEarly { .. })
        ),
        "{too_far}"
    );
    let unknown = ledger
        .redrive(&id("1"), Some("nope"), |_| true)
        .unwrap_err();
    assert!(
        unknown.to_string().contains("`apply`, `await`"),
        "{unknown}"
    );
    let job = ledger.redrive(&id("1"), Some("await"), |_| true).unwrap();
    assert_eq!(job.resume_point().unwrap().name, "await");

    ledger.take(&id("1"), "me", |_| true).unwrap();
    for (step, _) in &STEPS[1..] {
        ledger.begin(&id("1"), "me", step, NOW).unwrap();
        ledger.end(&id("1"), "me", step, done(), NOW).unwrap();
    }
    ledger.give_back(&id("1"), "me").unwrap();
    assert!(matches!(
        ledger.redrive(&id("1"), None, |_| true),
        Err(LedgerError::Transition(TransitionError::NothingLeft { .. }))
    ));
    // A job that is over is not opened again beside one that is not.
    ledger.open_job(new_job("2", "prod"), NOW).unwrap();
    assert!(matches!(
        ledger.redrive(&id("1"), Some("ansible"), |_| true),
        Err(LedgerError::AnotherOpen { .. })
    ));
    assert_eq!(
        ledger.show(&id("1")).unwrap().status(),
        JobStatus::Succeeded,
        "nothing changed"
    );
    ledger.abandon(&id("2"), "not needed", |_| true).unwrap();
    ledger.redrive(&id("1"), Some("ansible"), |_| true).unwrap();
    assert!(matches!(
        ledger.redrive(&id("2"), None, |_| true),
        Err(LedgerError::Transition(TransitionError::Abandoned { .. }))
    ));
}

#[test]
fn jobs_are_listed_newest_first_and_the_file_is_the_users_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    let mut ledger = place.ledger();
    assert!(ledger.list().unwrap().is_empty());
    ledger
        .open_job(new_job("1", "prod"), "2026-12-01T10:00:00Z")
        .unwrap();
    ledger
        .open_job(new_job("2", "stage"), "2026-12-01T11:00:00Z")
        .unwrap();
    let ids: Vec<String> = ledger
        .list()
        .unwrap()
        .iter()
        .map(|job| job.id.to_string())
        .collect();
    assert_eq!(ids, ["2", "1"]);
    assert!(matches!(
        ledger.show(&id("3")),
        Err(LedgerError::NoSuchJob(_))
    ));
    let mode = std::fs::metadata(&ledger.path).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn a_newer_format_is_refused() {
    let place = Place::new();
    let ledger = place.ledger();
    ledger
        .db
        .pragma_update(None, "user_version", schema::VERSION + 1)
        .unwrap();
    let path = ledger.path.clone();
    drop(ledger);
    assert!(matches!(
        Ledger::open(&path),
        Err(LedgerError::Newer { .. })
    ));
}

/// Where a driver is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    BeforeBegin,
    AfterBegin,
    AfterAct,
    InWriteOfEnd,
    AfterEnd,
}

fn a_cut() -> impl Strategy<Value = (usize, Cut)> {
    let cuts = vec![
        Cut::BeforeBegin,
        Cut::AfterBegin,
        Cut::AfterAct,
        Cut::InWriteOfEnd,
        Cut::AfterEnd,
    ];
    (0..STEPS.len(), prop::sample::select(cuts))
}

/// Runs what is left of the job, and stops dead at the cut. Notes each act.
fn drive(place: &Place, holder: &str, cut: Option<(usize, Cut)>, acts: &mut Vec<usize>) {
    let mut ledger = place.ledger();
    let job = ledger.take(&id("1"), holder, |_| true).unwrap();
    let plan: Vec<Act> = job.plan().into_iter().map(|(_, act)| act).collect();
    for (at, act) in plan.into_iter().enumerate() {
        if matches!(act, Act::Skip | Act::LookAgain) {
            continue;
        }
        let is_cut = |kind| cut == Some((at, kind));
        let step = STEPS[at].0;
        if is_cut(Cut::BeforeBegin) {
            return;
        }
        ledger.begin(&id("1"), holder, step, NOW).unwrap();
        if is_cut(Cut::AfterBegin) {
            return;
        }
        acts.push(at);
        if is_cut(Cut::AfterAct) {
            return;
        }
        if is_cut(Cut::InWriteOfEnd) {
            // Written and not committed: the process is gone in the middle.
            let transaction = ledger
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .unwrap();
            let mut job = read(&transaction, &id("1")).unwrap().unwrap();
            job.end(step, done(), NOW).unwrap();
            write(&transaction, &job).unwrap();
            return;
        }
        ledger.end(&id("1"), holder, step, done(), NOW).unwrap();
        if is_cut(Cut::AfterEnd) {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Cut anywhere any number of times, the job ends; what ended well is not done again, and nothing before
    /// what comes before it.
    #[test]
    fn a_job_that_is_cut_anywhere_ends_and_repeats_nothing_that_ended(cuts in prop::collection::vec(a_cut(), 0..5)) {
        let place = Place::new();
        place.ledger().open_job(new_job("1", "prod"), NOW).unwrap();
        let mut acts = Vec::new();
        for (number, cut) in cuts.iter().enumerate() {
            let ended_before: Vec<usize> = ended(&place);
            let n_before = acts.len();
            drive(&place, &format!("process {number}"), Some(*cut), &mut acts);
            prop_assert!(acts[n_before..].iter().all(|act| !ended_before.contains(act)));
        }
        drive(&place, "the last", None, &mut acts);
        let job = place.ledger().show(&id("1")).unwrap();
        prop_assert_eq!(job.status(), JobStatus::Succeeded);
        prop_assert!(acts.is_sorted(), "{:?}", acts);
        for at in 0..STEPS.len() {
            let n_acts = u32::try_from(acts.iter().filter(|act| **act == at).count()).unwrap();
            prop_assert!(n_acts >= 1 && n_acts <= job.steps[at].n_attempts);
        }
    }
}

fn ended(place: &Place) -> Vec<usize> {
    let job = place.ledger().show(&id("1")).unwrap();
    let steps = job.steps.iter().enumerate();
    steps
        .filter(|(_, step)| step.status == StepStatus::Succeeded)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn targets_of_one_name_of_two_platforms_have_a_job_each() {
    let place = Place::new();
    let mut ledger = place.ledger();
    let other = NewJob {
        platform: "elsewhere".to_owned(),
        ..new_job("b", "prod")
    };
    assert!(matches!(
        ledger.open_job(new_job("a", "prod"), NOW),
        Ok(Opened::New(_))
    ));
    assert!(matches!(ledger.open_job(other, NOW), Ok(Opened::New(_))));
    let own = ledger.of_workspace("elsewhere", "live", "prod").unwrap();
    assert_eq!(
        own.iter().map(|job| &job.id).collect::<Vec<_>>(),
        [&id("b")]
    );
}

#[test]
fn what_a_job_goes_on_with_is_changed_by_its_holder_alone() {
    let place = Place::new();
    let mut ledger = place.ledger();
    ledger.open_job(new_job("a", "prod"), NOW).unwrap();
    assert!(
        ledger
            .respecify(&id("a"), "me", "{\"limit\":\"x\"}")
            .is_err()
    );
    ledger.take(&id("a"), "me", |_| true).unwrap();
    ledger
        .respecify(&id("a"), "me", "{\"limit\":\"x\"}")
        .unwrap();
    assert_eq!(
        place.ledger().show(&id("a")).unwrap().spec,
        "{\"limit\":\"x\"}"
    );
}

/// Of a workspace the newest jobs that are over stay; one that is not over, and those of other workspaces, always do.
#[test]
fn the_oldest_that_are_over_are_forgotten() {
    let place = Place::new();
    let mut ledger = place.ledger();
    ledger.open_job(new_job("other", "stage"), NOW).unwrap();
    let kept = usize::try_from(KEPT).unwrap();
    let n_jobs = kept + 3;
    for n in 0..n_jobs {
        let name = format!("{n:03}");
        let opened = ledger.open_job(new_job(&name, "prod"), NOW).unwrap();
        assert!(matches!(opened, Opened::New(_)));
        match n % 2 {
            0 => run_to(&mut ledger, &name, STEPS.len()),
            _ => drop(ledger.abandon(&id(&name), "enough", |_| true).unwrap()),
        }
    }
    let newest = ledger.open_job(new_job("999", "prod"), NOW).unwrap();
    assert!(matches!(newest, Opened::New(_)));
    let of_prod = ledger.of_workspace("homelab", "live", "prod").unwrap();
    assert_eq!(of_prod.len(), kept + 1);
    assert_eq!(of_prod[0].id, id("999"));
    assert_eq!(of_prod[kept].id, id("003"), "the oldest three are gone");
    assert_eq!(ledger.list().unwrap().len(), kept + 2);
    let n_steps: i64 = ledger
        .db
        .query_row("SELECT count(*) FROM step", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        usize::try_from(n_steps).unwrap(),
        (kept + 2) * STEPS.len(),
        "steps go with their job"
    );
}
