//! An OpenTofu that misbehaves: what it says is never lost, what it can't say is never guessed.

use serde_json::Value;

use crate::drill::{Drill, tool};
use crate::published::conforms;

const ONE_STEP: &str =
    "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n";
const MODULE: &str = "resource \"terraform_data\" \"it\" { input = \"a\" }\noutput \"it\" { value = terraform_data.it.output }\n";

/// A platform whose `tofu` is the real one but for what `shell` does first; `$REAL` is the real one, `$1` the command.
fn with_tofu(shell: &str, module: &str) -> Drill {
    let drill = Drill::empty();
    let fake = drill.world.fake_program("tofu-fake").runs(
        &[],
        &format!(
            "REAL='{}'\nHERE='{}'\n{shell}\nexec \"$REAL\" \"$@\"",
            tool("REBUILD_TEST_TOFU").display(),
            drill.world.root().display()
        ),
    );
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[tools]\ntofu = {{ command = [\"{}\"] }}\n{ONE_STEP}",
            fake.path().display()
        ),
    );
    drill.write("zero/main.tf", module);
    drill
}

const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];

/// Cases J1, J7: text lines, unknown events, a newer event format, very long lines and a last line without an end
/// stop nothing, and the text is kept in the log.
#[test]
fn what_is_no_known_event_is_kept_and_stops_nothing() {
    let drill = with_tofu(
        r#"if [ "$1" = apply ]; then
  echo 'plain words in the middle'
  echo '{"@level":"info","@message":"it is 2099","@module":"tofu.ui","type":"future_thing","future":{"a":[1]}}'
  echo '{"@level":"info","@message":"newer","type":"version","ui":"9.7","tofu":"1.12.6"}'
  echo '{"@level":"info","@message":"odd","type":"apply_start","hook":"not an object"}'
  echo '{"half":'
  head -c 3000000 /dev/zero | tr '\0' x; echo
  "$REAL" "$@"; code=$?
  printf 'the last words'
  exit $code
fi"#,
        MODULE,
    );
    let record = drill.json(0, &UP);
    assert_eq!(record["phases"][0]["outputs"]["it"]["it"], "a");
    for words in ["plain words in the middle", "it is 2099", "the last words"] {
        let found = drill.world.files_with(&drill.work(), words.as_bytes());
        assert!(
            found
                .iter()
                .any(|path| path.to_string_lossy().contains("logs")),
            "`{words}` is kept in a log: {found:?}"
        );
    }
    assert_eq!(
        drill.json(0, &["preflight", "--target", "drill"])["verdict"],
        "clean"
    );
}

/// Case J2: a crash before any JSON: the exit code and the raw tail are the error, and no step counts as applied.
#[test]
fn a_crash_is_told_by_its_last_words() {
    let drill = with_tofu(
        r#"if [ "$1" = apply ]; then
  echo 'panic: runtime error: index out of range [3]' >&2
  echo 'goroutine 1 [running]:' >&2
  exit 2
fi"#,
        MODULE,
    );
    let failed = drill.run(1, &UP);
    for wanted in ["panic: runtime error", "exit code 2", "0.it", "--resume"] {
        assert!(failed.stderr.contains(wanted), "`{wanted}`: {failed:?}");
    }
    assert_eq!(drill.status()["state"], "unfinished");
    assert!(drill.states().is_empty());
}

/// Case J8: every diagnostic is told, the first cause on top; a warning is none of them.
#[test]
fn every_diagnostic_is_told_and_the_first_cause_is_on_top() {
    let module = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"echo reason one; exit 3\"\n  }\n}\n\
                  resource \"terraform_data\" \"b\" {\n  provisioner \"local-exec\" {\n    command = \"echo reason two; exit 4\"\n  }\n}\n";
    let drill = with_tofu("", module);
    let failed = drill.run(1, &UP);
    let place = |what: &str| {
        failed
            .stderr
            .find(what)
            .unwrap_or_else(|| panic!("`{what}`: {failed:?}"))
    };
    let (one, two) = (place("reason one"), place("reason two"));
    let first = one.min(two);
    assert!(
        place("error:") < first && first < place("hint:"),
        "{failed:?}"
    );
    assert!(!failed.stderr.contains("exit status 1\n"), "{failed:?}");

    let drill = with_tofu(
        r#"if [ "$1" = apply ]; then
  echo '{"@level":"warn","@message":"Warning: w","type":"diagnostic","diagnostic":{"severity":"warning","summary":"only a warning","detail":""}}'
  echo '{"@level":"error","@message":"Error: 1","type":"diagnostic","diagnostic":{"severity":"error","summary":"the first cause","detail":"of it all"}}'
  echo '{"@level":"error","@message":"Error: 2","type":"diagnostic","diagnostic":{"severity":"error","summary":"a consequence","detail":""}}'
  exit 1
fi"#,
        MODULE,
    );
    let document = drill.json(1, &UP);
    conforms("record", &document);
    let causes: Vec<&str> = document["error"]["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(causes, ["the first cause: of it all", "a consequence"]);
}

/// Case J4: a diagnostic of hundreds of names is an error with words, found before anything is applied.
#[test]
fn a_cycle_of_hundreds_of_nodes_is_told_in_words() {
    let mut module = String::new();
    for n in 0..300 {
        module.push_str(&format!(
            "resource \"terraform_data\" \"a_rather_long_name_of_a_node_{n}\" {{ input = terraform_data.a_rather_long_name_of_a_node_{}.id }}\n",
            (n + 1) % 300
        ));
    }
    let drill = with_tofu("", &module);
    let failed = drill.run(2, &UP);
    for wanted in [
        "Cycle",
        "a_rather_long_name_of_a_node_7",
        "nothing was applied",
    ] {
        assert!(failed.stderr.contains(wanted), "`{wanted}`: {failed:?}");
    }
    assert!(drill.states().is_empty());
}

/// Case J7: a plan document of an unknown major format is refused by its number, and nothing counts as clean.
#[test]
fn a_plan_document_of_a_newer_major_format_is_refused() {
    let drill = with_tofu(
        r#"if [ "$1" = show ] && [ -e "$HERE/newer" ]; then
  echo '{"format_version":"2.0","terraform_version":"9.9.9","resource_changes":[]}'
  exit 0
fi"#,
        "variable \"x\" { default = \"a\" }\nresource \"terraform_data\" \"it\" { input = fileexists(\"/nowhere\") ? \"b\" : var.x }\noutput \"now\" { value = timestamp() }\n",
    );
    drill.run(0, &UP);
    std::fs::File::create(drill.world.root().join("newer")).expect("a switch");
    let stopped = drill.run(3, &["preflight", "--target", "drill"]);
    let said = format!("{}{}", stopped.stdout, stopped.stderr);
    assert!(
        said.contains("2.0") && !said.contains("verdict: clean"),
        "{stopped:?}"
    );
}

/// Cases E5, E6: an `init` that fails for the network (a busy registry, a time-out, a busy cache) is tried again; an
/// apply that fails with the same words is not.
#[test]
fn only_init_is_tried_again_and_only_for_the_network() {
    let drill = with_tofu(
        r#"echo "$1" >> "$HERE/calls"
n=$(grep -c "^$1$" "$HERE/calls")
if [ "$1" = init ]; then
  case $n in
    1) echo '{"@level":"error","@message":"Error: Failed to query","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to query available provider packages","detail":"the registry answered: 429 Too Many Requests"}}'; exit 1;;
    2) echo '{"@level":"error","@message":"Error: cache","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to install provider","detail":"cannot lock: resource temporarily unavailable"}}'; exit 1;;
  esac
fi
if [ "$1" = apply ] && [ $n = 1 ]; then
  echo '{"@level":"error","@message":"Error: net","type":"diagnostic","diagnostic":{"severity":"error","summary":"creating it","detail":"dial tcp: i/o timeout"}}'
  exit 1
fi"#,
        MODULE,
    );
    let failed = drill.run(1, &UP);
    assert!(failed.stderr.contains("i/o timeout"), "{failed:?}");
    let calls = std::fs::read_to_string(drill.world.root().join("calls")).expect("the calls");
    let count = |what: &str| calls.lines().filter(|line| *line == what).count();
    assert_eq!((count("init"), count("apply")), (3, 1), "{calls}");
    drill.run(0, &["up", "--target", "drill", "--resume"]);
}

/// Case E6: an `init` that fails for another reason is not tried again, and says what it is.
#[test]
fn an_init_that_fails_for_good_is_not_tried_again() {
    let drill = with_tofu(
        r#"echo "$1" >> "$HERE/calls"
if [ "$1" = init ]; then
  echo '{"@level":"error","@message":"Error: x","type":"diagnostic","diagnostic":{"severity":"error","summary":"Unsupported OpenTofu Core version","detail":"it needs 99.0.0"}}'
  exit 1
fi"#,
        MODULE,
    );
    let failed = drill.run(2, &UP);
    assert!(
        failed.stderr.contains("99.0.0") && failed.stderr.contains("nothing was applied"),
        "{failed:?}"
    );
    let calls = std::fs::read_to_string(drill.world.root().join("calls")).expect("the calls");
    assert_eq!(
        calls.lines().filter(|line| *line == "init").count(),
        1,
        "{calls}"
    );
}
