//! `secrets`: values sealed into the target's envelope, opened on purpose alone, sealed to others, and used.

use age::secrecy::ExposeSecret as _;
use rustix::process::Signal;
use serde_json::json;
use test_support::{Ended, SshLab};

use crate::drill::Drill;
use crate::published::conforms;

/// A key pair of `age`: its public half, and the text of its identity file.
pub(crate) fn age_key() -> (String, String) {
    let identity = age::x25519::Identity::generate();
    let private = identity.to_string().expose_secret().to_owned();
    (identity.to_public().to_string(), private)
}

/// A drill whose target has an envelope.
pub(crate) struct SealedDrill {
    pub(crate) drill: Drill,
    pub(crate) recipient: String,
    /// The identity file, outside the platform.
    pub(crate) identity: std::path::PathBuf,
}

impl SealedDrill {
    /// Makes one; `more` follows in the target file.
    pub(crate) fn new(phases: &str, modules: &[(&str, &str)], more: &str) -> Self {
        let drill = Drill::of(phases, modules);
        let (recipient, private) = age_key();
        let identity = drill.world.write("age.key", &format!("{private}\n"));
        let sealed = Self {
            drill,
            recipient,
            identity,
        };
        sealed.target(&[&sealed.recipient], more);
        sealed
    }

    /// Writes the target file with these recipients.
    pub(crate) fn target(&self, recipients: &[&str], more: &str) {
        self.drill.write(
            "targets/drill.toml",
            &format!(
                "[envelope]\nrecipients = {}\nidentity = {{ file = \"{}\" }}\n{more}",
                json!(recipients),
                self.identity.display()
            ),
        );
    }

    /// Seals a value.
    pub(crate) fn seal(&self, name: &str, value: &[u8]) {
        self.drill
            .rebuild(&["secrets", "seal", name, "--target", "drill"])
            .stdin(value)
            .run()
            .expect_code(0);
    }
}

const PHASE: &str = "[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n";
const NOTHING: &str = "resource \"terraform_data\" \"it\" {}\n";

#[test]
fn a_value_is_sealed_listed_and_opened_on_purpose_alone() {
    let sealed = SealedDrill::new(PHASE, &[("zero", NOTHING)], "");
    let drill = &sealed.drill;
    let empty = drill.json(0, &["secrets", "list", "--target", "drill"]);
    assert_eq!(empty["secrets"], json!([]));
    let said = drill
        .rebuild(&[
            "secrets",
            "seal",
            "api.token",
            "--target",
            "drill",
            "--output",
            "json",
        ])
        .stdin("hunter2-hunter2\n")
        .run();
    said.expect_code(0);
    let document = serde_json::from_str(&said.stdout).expect("a document");
    conforms("secrets-seal", &document);
    assert_eq!(document["file"], "targets/drill.envelope/api.token.age");
    assert_eq!(document["replaced"], false);
    let key = drill.world.write("key.bin", "\u{0}line\n");
    let file = key.display().to_string();
    drill.run(
        0,
        &[
            "secrets", "seal", "key", "--target", "drill", "--file", &file, "--exact",
        ],
    );

    let list = drill.json(0, &["secrets", "list", "--target", "drill"]);
    conforms("secrets-list", &list);
    let names: Vec<_> = list["secrets"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["api.token", "key"]);
    assert_eq!(list["secrets"][0]["recipients"], json!([sealed.recipient]));
    assert_eq!(list["secrets"][0]["current"], true);
    assert!(!list.to_string().contains("hunter2"));

    let refused = drill.run(5, &["secrets", "open", "api.token", "--target", "drill"]);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    let opened = drill.run(
        0,
        &[
            "secrets",
            "open",
            "api.token",
            "--target",
            "drill",
            "--force",
        ],
    );
    assert_eq!(
        opened.stdout, "hunter2-hunter2",
        "without the newline, which is no part of it"
    );
    let exact = drill.run(
        0,
        &["secrets", "open", "key", "--target", "drill", "--force"],
    );
    assert_eq!(exact.stdout, "\u{0}line\n");
    let document = drill.json(
        0,
        &[
            "secrets",
            "open",
            "api.token",
            "--target",
            "drill",
            "--force",
        ],
    );
    conforms("secrets-open", &document);
    assert_eq!(
        (&document["value"], &document["sealed_by"]),
        (&json!("hunter2-hunter2"), &json!("hand"))
    );

    // At a terminal it is shown without `--force`; what is no text is not.
    let mut shown = drill
        .rebuild(&["secrets", "open", "api.token", "--target", "drill"])
        .in_terminal();
    shown.expect("hunter2-hunter2");
    shown.wait().expect_code(0);
    let binary = drill
        .rebuild(&["secrets", "open", "key", "--target", "drill"])
        .in_terminal();
    binary.wait().expect_code(5);

    // The value is on no disk in the clear.
    assert!(
        drill
            .world
            .files_with(drill.world.root(), b"hunter2")
            .is_empty()
    );
    let missing = drill.run(
        2,
        &["secrets", "open", "nothing", "--target", "drill", "--force"],
    );
    assert!(
        missing
            .stderr
            .contains("rebuild secrets seal nothing --target drill"),
        "{}",
        missing.stderr
    );
}

#[test]
fn what_is_typed_is_asked_for_twice_and_never_shown() {
    let sealed = SealedDrill::new(PHASE, &[("zero", NOTHING)], "");
    let seal = || {
        sealed
            .drill
            .rebuild(&["secrets", "seal", "a", "--target", "drill"])
            .in_terminal()
    };
    let mut terminal = seal();
    terminal
        .expect("value of `a` (not shown): ")
        .send("hunter2 two\n");
    terminal.expect("the same again: ").send("hunter2 two\n");
    terminal.expect("a is sealed in targets/drill.envelope/a.age, for 1 recipient");
    let outcome = terminal.wait();
    outcome.expect_code(0);
    assert!(!outcome.stdout.contains("hunter2"), "{}", outcome.stdout);
    let opened = sealed
        .drill
        .run(0, &["secrets", "open", "a", "--target", "drill", "--force"]);
    assert_eq!(opened.stdout, "hunter2 two");

    let mut terminal = seal();
    terminal.expect("value of").send("one\n");
    terminal.expect("the same again: ").send("other\n");
    terminal.expect("two different values were typed");
    terminal.wait().expect_code(5);
    let mut terminal = seal();
    terminal.expect("value of").send("\x03");
    terminal.expect("no value was typed");
    assert!(terminal.is_sane());
    terminal.wait().expect_code(5);
    let opened = sealed
        .drill
        .run(0, &["secrets", "open", "a", "--target", "drill", "--force"]);
    assert_eq!(opened.stdout, "hunter2 two", "what was there stays");
}

/// A rekey goes to the recipients of the target file, X25519 and SSH alike, and names all that it can't open.
#[test]
fn a_rekey_follows_the_target_file_and_names_what_it_can_not_open() {
    let sealed = SealedDrill::new(PHASE, &[("zero", NOTHING)], "");
    let drill = &sealed.drill;
    sealed.seal("a", b"value a");
    sealed.seal("b", b"value b");
    let lab = SshLab::new();
    let ssh = lab.make_key("fleet");
    let former = std::fs::read_to_string(&sealed.identity).expect("the former key");
    sealed.target(&[&ssh], "");
    let stale = drill.json(0, &["secrets", "list", "--target", "drill"]);
    assert_eq!(stale["secrets"][0]["current"], false);
    let rekeyed = drill.json(0, &["secrets", "rekey", "--target", "drill"]);
    conforms("secrets-rekey", &rekeyed);
    assert_eq!(rekeyed["names"], json!(["a", "b"]));
    let refused = drill.run(2, &["secrets", "rekey", "--target", "drill"]);
    for word in [
        "2 secrets could not be opened",
        "`a`",
        "`b`",
        "the keys of the old recipients and of the new ones",
    ] {
        assert!(
            refused.stderr.contains(word),
            "no {word:?} in {}",
            refused.stderr
        );
    }
    std::fs::copy(lab.dir().join("fleet"), &sealed.identity).expect("the new key");
    let opened = drill.run(0, &["secrets", "open", "a", "--target", "drill", "--force"]);
    assert_eq!(opened.stdout, "value a");
    let fresh = drill.json(0, &["secrets", "list", "--target", "drill"]);
    assert_eq!(fresh["secrets"][1]["current"], true);
    std::fs::write(&sealed.identity, former).expect("the former key again");
    let refused = drill.run(2, &["secrets", "open", "a", "--target", "drill", "--force"]);
    assert!(
        refused.stderr.contains("sealed to other keys"),
        "{}",
        refused.stderr
    );
}

/// Killed in the middle of a rekey each secret is sealed to the old or the new recipients, and both keys open all.
#[test]
fn a_rekey_that_is_killed_leaves_every_secret_readable() {
    const N: usize = 120;
    let sealed = SealedDrill::new(PHASE, &[("zero", NOTHING)], "");
    let drill = &sealed.drill;
    sealed.seal("s0", b"the value");
    let envelope = drill.dir().join("targets/drill.envelope");
    // The label of each names its key, so copies are no secrets: the first is sealed again under each name.
    for n in 1..N {
        sealed.seal(&format!("s{n}"), b"the value");
    }
    let (new, private) = age_key();
    let former = std::fs::read_to_string(&sealed.identity).expect("the former key");
    std::fs::write(&sealed.identity, format!("{former}{private}\n")).expect("both keys");
    sealed.target(&[&new], "");
    let list = || drill.json(0, &["secrets", "list", "--target", "drill"]);
    let n_current = || {
        let list = list();
        let all = list["secrets"].as_array().expect("a list").clone();
        assert_eq!(all.len(), N);
        all.iter().filter(|it| it["current"] == true).count()
    };
    assert_eq!(n_current(), 0);
    let first = std::fs::read(envelope.join("s0.age")).expect("the first");
    let started = drill
        .rebuild(&["secrets", "rekey", "--target", "drill"])
        .start();
    while std::fs::read(envelope.join("s0.age")).expect("it is always whole") == first {
        std::thread::yield_now();
    }
    started.signal(Signal::KILL);
    assert_eq!(started.wait().ended, Ended::Signal(9));
    let n = n_current();
    assert!(n > 0 && n < N, "{n} were sealed anew before the kill");
    for name in ["s0".to_owned(), format!("s{}", N - 1)] {
        let opened = drill.run(
            0,
            &["secrets", "open", &name, "--target", "drill", "--force"],
        );
        assert_eq!(opened.stdout, "the value");
    }
    drill.run(0, &["secrets", "rekey", "--target", "drill"]);
    assert_eq!(n_current(), N);
    std::fs::write(&sealed.identity, private).expect("the new key alone");
    drill.run(
        0,
        &["secrets", "open", "s7", "--target", "drill", "--force"],
    );
}

const TAKES: &str = "variable \"token\" {\n  sensitive = true\n}\n\
    resource \"terraform_data\" \"it\" {\n  input = nonsensitive(strrev(var.token))\n}\n\
    output \"reversed\" { value = terraform_data.it.output }\n";
const USE: &str = "[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\nvars = { token = \"${secret.token}\" }\n";

/// Cases K7, K8, K11: a secret of the envelope reaches OpenTofu in memory alone; another target's file in its place is refused.
#[test]
fn a_step_is_given_what_the_envelope_holds() {
    let more = "[encryption]\npassphrase = { env = \"PASS\" }\n[secrets]\ntoken = { envelope = \"cloud-token\" }\n";
    let sealed = SealedDrill::new(USE, &[("zero", TAKES)], more);
    let drill = &sealed.drill;
    let up = || {
        drill
            .rebuild(&["up", "--target", "drill", "--no-pause"])
            .env("PASS", "a passphrase of the tests")
            .run()
    };
    let missing = up();
    missing.expect_code(2);
    assert!(
        missing
            .stderr
            .contains("rebuild secrets seal cloud-token --target drill"),
        "{}",
        missing.stderr
    );
    sealed.seal("cloud-token", b"hunter2-of-the-cloud");
    up().expect_code(0);
    let status = drill.status();
    let made = status.to_string();
    assert!(made.contains("duolc-eht-fo-2retnuh"), "{made}");
    let found = drill.world.files_with(drill.world.root(), b"hunter2-of");
    assert!(found.is_empty(), "{found:?}");

    // What was sealed for another target is refused, though the same key opens it.
    let target =
        std::fs::read_to_string(drill.dir().join("targets/drill.toml")).expect("the target");
    drill.write("targets/other.toml", &target);
    drill
        .rebuild(&["secrets", "seal", "cloud-token", "--target", "other"])
        .stdin("another")
        .run()
        .expect_code(0);
    let of = |target: &str| {
        drill
            .dir()
            .join(format!("targets/{target}.envelope/cloud-token.age"))
    };
    std::fs::copy(of("other"), of("drill")).expect("put in its place");
    let refused = up();
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("was sealed as the target `other`"),
        "{}",
        refused.stderr
    );
}

/// What a dead call left in memory is swept by any look at an envelope, and what a living one has there is not.
#[test]
#[cfg(target_os = "linux")]
fn what_a_dead_call_left_in_memory_is_swept() {
    let sealed = SealedDrill::new(PHASE, &[("zero", NOTHING)], "");
    let me = process::Identity::of_self().expect("who this is");
    let mut dead = me.clone();
    dead.start_time -= 1;
    let of = |owner: &process::Identity, name: &str| {
        let name = format!("rebuild-capture-{}-{name}", std::process::id());
        let dir = std::path::Path::new("/dev/shm").join(name);
        std::fs::create_dir_all(dir.join("files")).expect("a directory in memory");
        owner
            .write_marker(&dir.join(".owner.json"))
            .expect("its owner");
        std::fs::write(dir.join("files/token"), "hunter2").expect("a captured file");
        dir
    };
    let (left, used) = (of(&dead, "left"), of(&me, "used"));
    sealed
        .drill
        .run(0, &["secrets", "list", "--target", "drill"]);
    assert!(!left.exists());
    assert!(used.join("files/token").exists());
    std::fs::remove_dir_all(used).expect("it is this test's");
}
