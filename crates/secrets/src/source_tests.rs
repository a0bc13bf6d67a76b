//! Tests of where secrets come from.

use process::fake::{FakeSpawner, NoSpawn, Script};
use process::files::write_atomically;

use super::*;

fn env(variables: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn fetch_without_commands(source: &Source, dir: &Path) -> Result<Secret, FetchError> {
    let variables = env(&[("TOKEN", "from the environment\n"), ("NOTHING", "")]);
    source.fetch(&variables, &dir.join("home"), dir, &NoSpawn)
}

#[test]
fn a_variable_is_taken_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let fetch = |name: &str| fetch_without_commands(&Source::Env(name.into()), dir.path());
    assert_eq!(fetch("TOKEN").unwrap().expose(), "from the environment\n");
    assert!(matches!(fetch("OTHER"), Err(FetchError::Unset { name }) if name == "OTHER"));
    let empty = fetch("NOTHING").unwrap_err().to_string();
    assert_eq!(empty, "the environment variable `NOTHING` is empty");
}

#[test]
fn a_file_loses_one_newline_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let fetch = |bytes: &[u8]| {
        write_atomically(&dir.path().join("file"), bytes, 0o600).unwrap();
        fetch_without_commands(&Source::File("file".into()), dir.path())
    };
    assert_eq!(fetch(b"key\n").unwrap().expose(), "key");
    assert_eq!(fetch(b"key\r\n").unwrap().expose(), "key");
    assert_eq!(fetch(b" key ").unwrap().expose(), " key ");
    assert_eq!(fetch(b"a\nb\n\n").unwrap().expose(), "a\nb\n");
    assert!(matches!(fetch(b"\n"), Err(FetchError::Empty { .. })));
    assert!(matches!(
        fetch(b"\xff\xfe"),
        Err(FetchError::NotText { .. })
    ));
    let long = vec![b'x'; usize::try_from(LONGEST).unwrap() + 1];
    assert!(matches!(fetch(&long), Err(FetchError::TooLong { .. })));
}

#[test]
fn a_file_is_looked_for_at_home_or_from_the_platform_on() {
    let dir = tempfile::tempdir().unwrap();
    process::files::create_private_dir(&dir.path().join("home/.config")).unwrap();
    write_atomically(&dir.path().join("home/.config/key"), b"at home", 0o600).unwrap();
    let file = |path: &str| Source::File(path.into());
    let at_home = fetch_without_commands(&file("~/.config/key"), dir.path()).unwrap();
    assert_eq!(at_home.expose(), "at home");
    let absolute = dir.path().join("home/.config/key");
    assert!(fetch_without_commands(&Source::File(absolute), dir.path()).is_ok());

    let missing = fetch_without_commands(&file("none"), dir.path()).unwrap_err();
    let path = dir.path().join("none");
    assert_eq!(
        missing.to_string(),
        format!("cannot read the file `{}`", path.display())
    );
    let homeless = file("~/x").fetch(&env(&[]), Path::new(""), dir.path(), &NoSpawn);
    assert!(matches!(homeless, Err(FetchError::NoHome { .. })));
}

#[test]
fn a_command_runs_in_the_callers_environment_and_gives_its_stdout() {
    let spawner = FakeSpawner::new(|call| {
        (call.args == ["read", "op://x"]).then(|| Script::exits(0).stderr("hint").stdout("key\n"))
    });
    let source = Source::Command(vec!["op".into(), "read".into(), "op://x".into()]);
    let variables = env(&[("PATH", "/bin"), ("OP_SESSION", "abc")]);
    let secret = source.fetch(
        &variables,
        Path::new("/home"),
        Path::new("/platform"),
        &spawner,
    );
    assert_eq!(secret.unwrap().expose(), "key");
    let call = spawner.calls().remove(0);
    assert_eq!(
        (call.env, call.cwd),
        (variables, PathBuf::from("/platform"))
    );
    assert_eq!((call.program, call.stdin), (PathBuf::from("op"), None));
}

#[test]
fn a_command_that_fails_tells_its_stderr_and_never_its_stdout() {
    let long = format!("{}\nnot signed in\n", "word ".repeat(500));
    let spawner =
        FakeSpawner::new(move |_| Some(Script::exits(6).stdout("half a s3cret").stderr(&long)));
    let fetch = |argv: &[&str]| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        Source::Command(argv).fetch(&env(&[]), Path::new("/"), Path::new("/"), &spawner)
    };
    let error = fetch(&["op", "read", "x"]).unwrap_err().to_string();
    assert!(
        error.starts_with("the command `op` failed with exit code 6: …"),
        "{error}"
    );
    assert!(error.ends_with("word not signed in"), "{error}");
    assert!(!error.contains("s3cret") && error.len() < 600, "{error}");
    assert!(matches!(fetch(&[]), Err(FetchError::NoProgram)));

    let quiet = FakeSpawner::new(|_| Some(Script::exits(0)));
    let source = Source::Command(vec!["true".into()]);
    let empty = source
        .fetch(&env(&[]), Path::new("/"), Path::new("/"), &quiet)
        .unwrap_err();
    assert_eq!(
        empty.to_string(),
        "the output of the command `true` is empty"
    );
}

#[test]
fn an_envelope_is_opened_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let error = fetch_without_commands(&Source::Envelope("fleet-key".into()), dir.path());
    assert!(
        matches!(&error, Err(FetchError::NoEnvelope { name }) if name == "fleet-key"),
        "{error:?}"
    );
}
