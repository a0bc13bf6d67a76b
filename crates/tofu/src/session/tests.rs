//! Tests of sessions: which commands run, with what, and what is made of their answers.

use super::*;
use crate::control::{Uncontrolled, Unobserved};
use crate::{ApplyWhat, InitFailure, LockPolicy, PlanMode, PlanOptions};
use process::fake::{FakeSpawner, Script};
use process::{Ending, Exit, Output, Signal};
use std::sync::atomic::AtomicUsize;

struct World {
    _dir: tempfile::TempDir,
    workshop: Workshop,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(&dir.path().join("work"), None).unwrap();
        Self {
            _dir: dir,
            workshop,
        }
    }

    fn settings(&self, spawner: Arc<dyn Spawner>) -> SessionSettings {
        let step = self.workshop.step(&"1a/edge".parse().unwrap());
        step.place(
            Slot::Tree,
            "d",
            &["root"],
            [("root/main.tf", 0o600, b"".as_slice())],
        )
        .unwrap();
        SessionSettings {
            workshop: self.workshop.clone(),
            step,
            slot: Slot::Tree,
            root_module: "root".into(),
            program: Program {
                command: vec!["/opt/tofu".into(), "wrapped".into()],
                path: "/opt/tofu".into(),
                version: semver::Version::new(1, 12, 6),
                digest: "d".into(),
            },
            env: BTreeMap::from([("PATH".into(), "/bin".into())]),
            backend: None,
            encryption: None,
            variables: BTreeMap::from([("x".to_owned(), Value::from("hunter2hunter2"))]),
            init_inputs: InitInputs::default(),
            lock_file: LockPolicy::Fresh,
            parallelism: Some(1),
            masker: Masker::new(),
            spawner,
            control: Arc::new(Uncontrolled),
            observer: Arc::new(Unobserved),
            patience: Duration::ZERO,
        }
    }

    fn session(&self, spawner: Arc<dyn Spawner>) -> Session {
        Session::open(self.settings(spawner))
            .unwrap()
            .with_init_pauses(vec![Duration::ZERO; 2])
    }
}

fn error_line(summary: &str) -> String {
    serde_json::json!({"@message": format!("Error: {summary}"), "type": "diagnostic",
        "diagnostic": {"severity": "error", "summary": summary, "detail": ""}})
    .to_string()
}

fn words(call: &Invocation) -> Vec<&str> {
    call.args.iter().map(|arg| arg.to_str().unwrap()).collect()
}

/// A spawner whose n-th call of a command gets the n-th script, the last one for ever.
fn scripted(scripts: Vec<(&'static str, Vec<Script>)>) -> Arc<FakeSpawner> {
    let counts: Vec<AtomicUsize> = scripts.iter().map(|_| AtomicUsize::new(0)).collect();
    Arc::new(FakeSpawner::new(move |call| {
        let command = call.args.get(1)?.to_str()?;
        let at = scripts.iter().position(|(name, _)| *name == command)?;
        let n = counts[at].fetch_add(1, Ordering::SeqCst);
        let all = &scripts[at].1;
        Some(all[n.min(all.len() - 1)].clone())
    }))
}

fn commands(spawner: &FakeSpawner) -> Vec<String> {
    spawner
        .calls()
        .iter()
        .map(|call| words(call)[1].to_owned())
        .collect()
}

#[test]
fn nothing_secret_is_in_the_arguments_or_the_environment() {
    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![Script::exits(0)]),
    ]);
    let session = world.session(spawner.clone());
    session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    for call in spawner.calls() {
        let all = format!("{:?} {:?}", call.args, call.env);
        assert!(!all.contains("hunter2"), "{all}");
        assert_eq!(call.stdin, None);
        assert_eq!(call.cwd, session.directory());
        assert_eq!(words(&call)[0], "wrapped");
    }
    let plan = &spawner.calls()[1];
    assert!(words(plan).contains(&"-parallelism=1"));
    let var_file = words(plan)
        .into_iter()
        .find_map(|word| word.strip_prefix("-var-file="))
        .unwrap();
    assert_eq!(
        std::fs::read_to_string(var_file).unwrap(),
        r#"{"x":"hunter2hunter2"}"#
    );
    assert!(var_file.ends_with(".tfvars.json"));
}

#[test]
fn only_what_changes_something_outlives_us_and_is_marked() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let spawner = Arc::new(FakeSpawner::with_how(move |call, how| {
        noted
            .lock()
            .unwrap()
            .push((call.args[1].clone(), how.clone()));
        Some(Script::exits(0))
    }));
    let session = world.session(spawner);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    session.apply(ApplyWhat::Saved(&plan)).unwrap();
    for (command, how) in seen.lock().unwrap().iter() {
        let outlives = command == "apply";
        assert_eq!(how.ending == Ending::OnItsOwn, outlives, "{command:?}");
        assert_eq!(matches!(how.output, Output::Followed { .. }), outlives);
        assert_eq!(
            how.marker.as_ref(),
            outlives.then(|| session.settings().step.marker()).as_ref()
        );
    }
}

#[test]
fn a_text_line_in_the_midst_and_an_unknown_event_harm_nothing() {
    let world = World::new();
    let stream = "Acquiring state lock. This may take a few moments...\n{\"@message\":\"new\",\"type\":\"future_thing\"}\n{\"@message\":\"Plan: 1\",\"type\":\"change_summary\",\"changes\":{\"add\":1,\"operation\":\"plan\"}}";
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![Script::exits(0).stdout(stream)]),
    ]);
    let plan = world
        .session(spawner)
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.plan_summary.unwrap().add, 1);
    assert_eq!(plan.outcome.tail.len(), 1);
}

#[test]
fn a_stale_data_directory_is_initialized_once_and_the_command_repeated() {
    let world = World::new();
    let stale = Script::exits(1).stdout(error_line("Module not installed"));
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![stale.clone(), Script::exits(0)]),
    ]);
    world
        .session(spawner.clone())
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(commands(&spawner), ["init", "plan", "init", "plan"]);

    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![stale]),
    ]);
    world
        .session(spawner.clone())
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap_err();
    assert_eq!(
        commands(&spawner),
        ["init", "plan", "init", "plan"],
        "once more, not for ever"
    );
}

#[test]
fn a_warm_data_directory_costs_no_init() {
    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![Script::exits(0)]),
    ]);
    for _ in 0..2 {
        world
            .session(spawner.clone())
            .plan(PlanMode::Normal, &PlanOptions::default())
            .unwrap();
    }
    assert_eq!(commands(&spawner), ["init", "plan", "plan"]);
}

#[test]
fn only_network_faults_of_init_are_tried_again() {
    let fault = || {
        Script::exits(1).stdout(error_line(
            "Failed to query available provider packages: 429 Too Many Requests",
        ))
    };
    let world = World::new();
    let spawner = scripted(vec![("init", vec![fault(), fault(), Script::exits(0)])]);
    world.session(spawner.clone()).init(false).unwrap();
    assert_eq!(spawner.calls().len(), 3);

    let world = World::new();
    let spawner = scripted(vec![("init", vec![fault()])]);
    let error = world.session(spawner.clone()).init(false).unwrap_err();
    assert_eq!(error.init_failure(), Some(&InitFailure::Network));
    assert_eq!(spawner.calls().len(), 3, "bounded");

    let world = World::new();
    let wrong = Script::exits(1).stdout(error_line("Unsupported OpenTofu Core version"));
    let spawner = scripted(vec![("init", vec![wrong])]);
    let error = world.session(spawner.clone()).init(false).unwrap_err();
    assert_eq!(error.init_failure(), Some(&InitFailure::Other));
    assert_eq!(spawner.calls().len(), 1);

    let world = World::new();
    let timeout = Script::exits(1).stdout(error_line("timeout while waiting for the API"));
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("apply", vec![timeout]),
    ]);
    world
        .session(spawner.clone())
        .apply(ApplyWhat::Direct)
        .unwrap_err();
    assert_eq!(
        commands(&spawner),
        ["init", "apply"],
        "an apply is never repeated"
    );
}

#[test]
fn a_crash_before_any_json_gives_exit_and_tail() {
    let world = World::new();
    let crash = Script::exits(2)
        .stderr("panic: runtime error: index out of range\n\ngoroutine 1 [running]:");
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![crash]),
    ]);
    let error = world
        .session(spawner)
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap_err();
    assert_eq!(error.exit(), Some(Exit::Code(2)));
    let text = error.to_string();
    assert!(
        text.contains("exit code 2") && text.contains("index out of range"),
        "{text}"
    );
}

#[test]
fn an_exit_code_of_0_with_an_error_is_no_success() {
    let world = World::new();
    let odd = Script::exits(0).stdout(error_line("something"));
    let spawner = scripted(vec![("init", vec![Script::exits(0)]), ("plan", vec![odd])]);
    assert!(
        world
            .session(spawner)
            .plan(PlanMode::Normal, &PlanOptions::default())
            .is_err()
    );
}

#[test]
fn an_unknown_major_of_the_plan_document_is_refused() {
    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("plan", vec![Script::exits(0)]),
        (
            "show",
            vec![Script::exits(0).stdout(r#"{"format_version":"2.0","resource_changes":7}"#)],
        ),
    ]);
    let session = world.session(spawner);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    let error = session.show(&plan).unwrap_err();
    assert!(error.to_string().contains("`2.0`"), "{error}");
}

/// Says that an interrupt is wanted from the n-th question on, and a kill some questions later.
struct Countdown(AtomicUsize);

impl Control for Countdown {
    fn wanted(&self) -> Wanted {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            // Each command asks once before it begins.
            0..=3 => Wanted::Run,
            4..=8 => Wanted::Interrupt,
            _ => Wanted::Kill,
        }
    }
}

#[test]
fn one_interrupt_is_sent_however_often_it_is_wanted_and_then_the_kill() {
    let world = World::new();
    let hangs = Script::exits(1).hangs_until(Signal::Kill);
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("apply", vec![hangs]),
    ]);
    let mut settings = world.settings(spawner.clone());
    settings.control = Arc::new(Countdown(AtomicUsize::new(0)));
    let error = Session::open(settings)
        .unwrap()
        .apply(ApplyWhat::Direct)
        .unwrap_err();
    assert!(error.is_interrupted() && error.outcome.killed);
    assert_eq!(spawner.signals(), [Signal::Interrupt, Signal::Kill]);
}

#[test]
fn what_is_to_end_before_it_began_is_not_begun() {
    struct Stop;
    impl Control for Stop {
        fn wanted(&self) -> Wanted {
            Wanted::Interrupt
        }
    }
    let world = World::new();
    let mut settings = world.settings(Arc::new(process::fake::NoSpawn));
    settings.control = Arc::new(Stop);
    assert!(
        Session::open(settings)
            .unwrap()
            .apply(ApplyWhat::Direct)
            .unwrap_err()
            .is_interrupted()
    );
}

#[test]
fn what_an_interrupt_left_is_read_all_the_same() {
    struct Stop;
    impl Control for Stop {
        fn wanted(&self) -> Wanted {
            Wanted::Kill
        }
    }
    let world = World::new();
    let plain = r#"{"version":4,"serial":1,"lineage":"x","resources":[]}"#;
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("state", vec![Script::exits(0).stdout(plain)]),
    ]);
    let mut settings = world.settings(spawner.clone());
    settings.control = Arc::new(Stop);
    let session = Session::open(settings).unwrap();
    assert!(session.state_pull().unwrap_err().is_interrupted());
    session.leave_undisturbed();
    assert!(session.state_pull().unwrap().is_some());
    assert_eq!(spawner.signals(), []);
}

#[test]
fn an_emergency_state_is_held_and_never_logged() {
    let world = World::new();
    let dump = r#"{"@message":"Emergency state dump","type":"log","state":{"serial":1,"outputs":{"x":"precious-value"}}}"#;
    let fails = Script::exits(1)
        .stdout(dump)
        .stdout(error_line("Failed to persist state to backend"));
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("apply", vec![fails]),
    ]);
    let error = world.session(spawner).apply(ApplyWhat::Direct).unwrap_err();
    let state = error.outcome.emergency_state.as_ref().unwrap();
    assert!(String::from_utf8_lossy(&state.0).contains("precious-value"));
    let transcript = std::fs::read_to_string(error.transcript().unwrap()).unwrap();
    assert!(!transcript.contains("precious-value") && transcript.contains("Emergency state dump"));
    assert!(!format!("{error:?} {error}").contains("precious-value"));
}

#[test]
fn a_plugin_socket_gets_a_short_directory_where_the_path_is_long() {
    let dir = tempfile::tempdir().unwrap();
    for (name, is_long) in [("x".repeat(90), true), ("x".to_owned(), false)] {
        let workshop = Workshop::open(&dir.path().join(name), None).unwrap();
        let world = World {
            _dir: tempfile::tempdir().unwrap(),
            workshop,
        };
        let spawner = scripted(vec![("init", vec![Script::exits(0)])]);
        let session = world.session(spawner.clone());
        session.init(false).unwrap();
        let tmp = PathBuf::from(&spawner.calls()[0].env[&OsString::from("TMPDIR")]);
        assert!(
            tmp.is_dir() && tmp.as_os_str().len() <= SOCKET_ROOM,
            "{tmp:?}"
        );
        assert_eq!(tmp != world.workshop.tmp(), is_long);
    }
}

#[test]
fn never_two_at_once_and_never_past_a_state_that_waits() {
    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("apply", vec![Script::exits(0)]),
    ]);
    let session = world.session(spawner.clone());
    let step = &session.settings().step;
    process::Identity::of_self()
        .unwrap()
        .write_marker(&step.marker())
        .unwrap();
    let error = session.apply(ApplyWhat::Direct).unwrap_err();
    assert!(
        matches!(*error.cause, Cause::StillRunning { pid } if pid == std::process::id()),
        "{error}"
    );
    assert!(
        step.running_child().unwrap().is_some(),
        "its marker is still there"
    );
    step.clear_marker().unwrap();
    process::files::write_atomically(&session.directory().join(ERRORED_STATE), b"{}", 0o600)
        .unwrap();
    let error = session.apply(ApplyWhat::Direct).unwrap_err();
    assert!(error.to_string().contains("not rescued yet"), "{error}");
    step.remove_errored_state("root").unwrap();
    session.apply(ApplyWhat::Direct).unwrap();
    assert_eq!(commands(&spawner), ["init", "apply"]);
}

#[test]
fn another_tool_makes_an_aliased_directory_cold() {
    let world = World::new();
    let spawner = scripted(vec![("init", vec![Script::exits(0)])]);
    let lock = b"provider \"h/n/a\" {\n  version = \"1.0.0\"\n}\n".to_vec();
    let fresh = world.session(spawner.clone());
    let path = fresh.directory().join(crate::LOCK_FILE_NAME);
    // A fake init writes no lock file; a recorded one that stays in place stands for its result.
    let mut settings = world.settings(spawner.clone());
    settings.lock_file = LockPolicy::Recorded(lock.clone());
    let first = Session::open(settings.clone())
        .unwrap()
        .init(false)
        .unwrap();
    assert_eq!(std::fs::read(path).unwrap(), lock);
    settings
        .step
        .alias_data_dir(
            first.data_dir.file_name().unwrap().to_str().unwrap(),
            "alias",
        )
        .unwrap();
    assert!(
        Session::open(settings.clone())
            .unwrap()
            .init(false)
            .unwrap()
            .was_warm
    );
    settings.program.digest = "another".into();
    let report = Session::open(settings).unwrap().init(false).unwrap();
    assert!(!report.was_warm);
    assert_eq!(spawner.calls().len(), 2);
}

/// An apply that made one object and was killed before it wrote its state.
fn cut_apply() -> Script {
    let hook = |stage: &str| {
        serde_json::json!({"@message": "x", "type": stage, "hook": {"action": "create",
            "resource": {"addr": "a.b[\"hunter2hunter2\"]", "implied_provider": "a"}}})
        .to_string()
    };
    let planned = serde_json::json!({"@message": "x", "type": "planned_change", "change": {"action": "create",
        "resource": {"addr": "a.b[\"hunter2hunter2\"]", "implied_provider": "a"}}});
    Script::dies_by(9)
        .stdout(planned.to_string())
        .stdout(hook("apply_start"))
        .stdout(hook("apply_complete"))
}

#[test]
fn what_a_child_may_have_made_stays_noted_until_it_is_recorded() {
    let world = World::new();
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        (
            "apply",
            vec![cut_apply(), Script::exits(1), Script::exits(0)],
        ),
    ]);
    let settings = world.settings(spawner);
    settings.masker.add_text("x", "hunter2hunter2");
    let masker = settings.masker.clone();
    let session = Session::open(settings).unwrap();
    let step = session.settings().step.clone();
    session.apply(ApplyWhat::Direct).unwrap_err();
    // Its caller dies here: the next call finds what it may have made, and no secret on the disk.
    let text = std::fs::read_to_string(step.output_note()).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let left = step.leftover(&masker).unwrap().unwrap();
    assert_eq!(left.suspects.len(), 1);
    assert!(left.suspects[0].address.starts_with("a.b["));
    assert_eq!(left.suspects[0].provider.as_deref(), Some("a"));
    assert!(left.outcome.is_none() && left.output.is_none());
    // Once the record has it, it goes.
    step.forget_ended().unwrap();
    assert!(step.leftover(&masker).unwrap().is_none());
    // Nothing is kept of an apply that left nothing open.
    session.apply(ApplyWhat::Direct).unwrap_err();
    assert!(step.leftover(&masker).unwrap().is_none());
    session.apply(ApplyWhat::Direct).unwrap();
    assert!(step.leftover(&masker).unwrap().is_none());
}

#[test]
fn what_is_left_of_a_child_that_was_not_seen_to_its_end_is_not_forgotten_as_if_it_were() {
    let world = World::new();
    let session = world.session(scripted(vec![]));
    let step = &session.settings().step;
    step.note_output("apply", Path::new("/dev/shm/none/output"))
        .unwrap();
    step.forget_ended().unwrap();
    assert!(step.leftover(&Masker::new()).unwrap().is_some());
}

#[test]
fn a_state_that_could_only_be_printed_outlives_its_caller() {
    let world = World::new();
    let dump = r#"{"@message":"Emergency state dump","type":"log","state":{"serial":1}}"#;
    let fails = Script::exits(1).stdout(dump);
    let spawner = scripted(vec![
        ("init", vec![Script::exits(0)]),
        ("apply", vec![fails]),
    ]);
    let session = world.session(spawner);
    let step = session.settings().step.clone();
    session.apply(ApplyWhat::Direct).unwrap_err();
    let output = step.leftover(&Masker::new()).unwrap().unwrap().output;
    let output = output.expect("its output is noted");
    drop(session);
    let dir = output.parent().unwrap();
    assert!(dir.is_dir(), "the memory that holds it stays");
    std::fs::remove_dir_all(dir).unwrap();
}
