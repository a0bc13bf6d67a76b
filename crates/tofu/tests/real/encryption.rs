//! State and plan encryption through an external key provider: this very program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use secrets::Secret;
use tofu::encryption::{
    Ask, Fallback, KeySource, Keys, answer, answer_of, dropping_environment, environment,
};
use tofu::{ApplyWhat, PlanMode, PlanOptions, Session, StateFacts, with_next_serial};

use crate::world::*;

crate::tests![
    state_and_plan_are_encrypted_and_read_back,
    a_wrong_key_and_a_plain_state_are_refused,
    a_key_is_changed_added_and_dropped,
    pbkdf2_works_without_us,
];

/// The subcommand under which this program is a key provider.
pub(crate) const KEY: &str = "be-a-key-provider";

pub(crate) fn be_a_key_provider(args: Vec<OsString>) -> ExitCode {
    let key = std::fs::read(PathBuf::from(&args[0])).unwrap();
    match args.get(1) {
        None => answer(std::io::stdin(), std::io::stdout(), &key).unwrap(),
        Some(former) => {
            let former = std::fs::read(PathBuf::from(former)).unwrap();
            let keys = Keys {
                today: &key,
                name: Some("second"),
                former: Some(&former),
            };
            answer_of(std::io::stdin(), std::io::stdout(), Ask::Key, keys).unwrap();
        }
    }
    ExitCode::SUCCESS
}

pub(crate) fn key(dir: &Path, byte: u8) -> KeySource {
    let file = dir.join(format!("key ${{1+1}} %{{x}} \"{byte}\""));
    process::files::write_atomically(&file, &[byte; 32], 0o600).unwrap();
    let words = [me(), KEY.into(), file.into()];
    KeySource::External {
        program: words.map(|word| word.into_string().unwrap()).to_vec(),
    }
}

const MAIN: &str = r#"
resource "terraform_data" "a" { input = "hunter2hunter2" }
output "o" { value = terraform_data.a.output }
"#;

fn with(world: &World, encryption: Secret) -> Session {
    world.encrypted(MAIN, world.backend.access(), encryption)
}

fn state_of(world: &World) -> String {
    String::from_utf8(world.backend.held().state.clone().unwrap()).unwrap()
}

fn state_and_plan_are_encrypted_and_read_back() {
    let world = World::new();
    let session = with(
        &world,
        environment(&key(world.dir.path(), 1), &Fallback::None),
    );
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    let bytes = std::fs::read(plan.file()).unwrap();
    assert!(bytes.starts_with(b"{") && !bytes.windows(7).any(|window| window == b"hunter2"));
    session.show(&plan).unwrap();
    session.apply(ApplyWhat::Saved(&plan)).unwrap();
    let state = state_of(&world);
    assert!(state.contains("encrypted_data") && !state.contains("hunter2"));
    assert!(
        state.contains("key_provider.external.rebuild"),
        "the name that must never change"
    );
    let facts = StateFacts::read(state.as_bytes()).unwrap();
    assert!(facts.is_encrypted && !facts.lineage.is_empty());
    // Another session with the same key reads it: `meta` was stored.
    let session = with(
        &world,
        environment(&key(world.dir.path(), 1), &Fallback::None),
    );
    let pulled = session.state_pull().unwrap().unwrap();
    assert_eq!(
        StateFacts::read(&pulled).unwrap().addresses,
        ["terraform_data.a"]
    );
    session.state_push(&pulled).unwrap();
    assert!(state_of(&world).contains("encrypted_data"));
}

fn a_wrong_key_and_a_plain_state_are_refused() {
    let world = World::new();
    with(
        &world,
        environment(&key(world.dir.path(), 1), &Fallback::None),
    )
    .apply(ApplyWhat::Direct)
    .unwrap();
    let before = state_of(&world);
    let error = with(
        &world,
        environment(&key(world.dir.path(), 2), &Fallback::None),
    )
    .plan(PlanMode::Normal, &PlanOptions::default())
    .unwrap_err();
    assert!(error.to_string().contains("decrypt"), "{error}");
    world.backend.held().lock = None;
    world.session(MAIN).apply(ApplyWhat::Direct).unwrap_err();
    assert_eq!(state_of(&world), before);

    let plain = World::new();
    plain.session(MAIN).apply(ApplyWhat::Direct).unwrap();
    let before = state_of(&plain);
    with(
        &plain,
        environment(&key(plain.dir.path(), 1), &Fallback::None),
    )
    .apply(ApplyWhat::Direct)
    .unwrap_err();
    assert_eq!(state_of(&plain), before);
}

fn a_key_is_changed_added_and_dropped() {
    let world = World::new();
    world.session(MAIN).apply(ApplyWhat::Direct).unwrap();
    let (first, second) = (key(world.dir.path(), 1), key(world.dir.path(), 2));
    let rewrite = |encryption: Secret| {
        let session = with(&world, encryption);
        let pulled = session.state_pull().unwrap().unwrap();
        session.state_push(&pulled).unwrap();
    };
    let reads = |encryption: Secret| with(&world, encryption).state_pull().is_ok();
    rewrite(environment(&first, &Fallback::Plain));
    assert!(state_of(&world).contains("encrypted_data"), "added");
    assert!(reads(environment(&first, &Fallback::None)));
    let pulled = with(&world, environment(&first, &Fallback::None))
        .state_pull()
        .unwrap()
        .unwrap();
    let (
        KeySource::External {
            program: mut changing,
        },
        KeySource::External { program },
    ) = (second.clone(), &first)
    else {
        unreachable!()
    };
    changing.push(program[2].clone());
    let changing = KeySource::External { program: changing };
    with(&world, environment(&changing, &Fallback::None))
        .state_push(&with_next_serial(&pulled).unwrap())
        .unwrap();
    assert!(reads(environment(&second, &Fallback::None)), "changed");
    let other_kind = KeySource::Pbkdf2 {
        passphrase: Secret::new("0123456789abcdef"),
        iterations: Some(200_000),
    };
    rewrite(environment(&other_kind, &Fallback::Key(second.clone())));
    assert!(
        !reads(environment(&second, &Fallback::None)),
        "now of the other kind"
    );
    rewrite(environment(&second, &Fallback::Key(other_kind)));
    assert!(
        !reads(environment(&first, &Fallback::None)),
        "the former key opens nothing"
    );
    rewrite(dropping_environment(&second));
    assert!(state_of(&world).contains("hunter2"), "dropped");
}

fn pbkdf2_works_without_us() {
    let world = World::new();
    let source = KeySource::Pbkdf2 {
        passphrase: Secret::new("a passphrase with \"${quotes}\" and %{percent} \\ signs"),
        iterations: Some(200_000),
    };
    with(&world, environment(&source, &Fallback::None))
        .apply(ApplyWhat::Direct)
        .unwrap();
    assert!(state_of(&world).contains("encrypted_data"));
}
