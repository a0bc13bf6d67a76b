//! Secrets appear nowhere: not on a disk, not in an argument list, not in what is printed or recorded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;
use test_support::Outcome;

use crate::drill::{Drill, tool};
use crate::published::{conforms, events};

const PASSPHRASE: &str = "a passphrase of the tests \"1\"";

/// A value with characters that JSON, URLs and shells write in other ways.
fn secret(of: &str) -> String {
    // Tests run beside each other, and each looks for its own.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!(
        "{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    format!("s3cret-{of}-{id}\"q\\b/+%-{of}")
}

/// Everything that must not be found: each line of the value, and the forms that other formats give it.
fn needles(value: &str) -> BTreeSet<String> {
    let mut needles = BTreeSet::new();
    for text in std::iter::once(value).chain(value.lines()) {
        needles.insert(text.to_owned());
        needles.insert(
            serde_json::to_string(text)
                .expect("text is JSON")
                .trim_matches('"')
                .to_owned(),
        );
        needles.insert(text.split('"').next().unwrap_or(text).to_owned());
    }
    needles
}

/// Argument lists of every process of the machine that hold a needle, looked at all the time until dropped.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<BTreeSet<String>>>,
}

impl Watch {
    pub(crate) fn for_needles(needles: BTreeSet<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !asked.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                    let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
                        continue;
                    };
                    let text = String::from_utf8_lossy(&line).replace('\0', " ");
                    if needles.iter().any(|needle| text.contains(needle)) {
                        seen.insert(text);
                    }
                }
                std::thread::yield_now();
            }
            seen
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn seen(mut self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .expect("it is asked once")
            .join()
            .expect("the watcher")
    }
}

/// A `tofu` that notes its arguments and becomes the real one.
fn noting_tofu(drill: &Drill) -> (PathBuf, PathBuf) {
    let calls = drill.world.root().join("calls");
    let fake = drill.world.fake_program("tofu-noting").runs(
        &[],
        &format!(
            "echo \"$@\" >> '{}'\nexec '{}' \"$@\"",
            calls.display(),
            tool("REBUILD_TEST_TOFU").display()
        ),
    );
    (fake.path().to_owned(), calls)
}

/// A platform that does with its secrets all that a careless author does: prints them in provisioners and in
/// diagnostics, makes them keys of resources and plain outputs.
struct Careless {
    drill: Drill,
    calls: PathBuf,
    values: [String; 3],
    env: Vec<(&'static str, String)>,
    /// While this file exists, the first step fails.
    first_fails: PathBuf,
    /// While this file exists, the second step fails.
    second_fails: PathBuf,
    /// While this file exists, teardown fails.
    down_fails: PathBuf,
}

impl Careless {
    fn new() -> Self {
        let drill = Drill::empty();
        let root = drill.world.root().to_owned();
        let (first_fails, second_fails, down_fails) = (
            root.join("fail-1"),
            root.join("fail-2"),
            root.join("fail-3"),
        );
        let (tofu, calls) = noting_tofu(&drill);
        let values = [
            secret("env"),
            format!("{}\n{}", secret("file-a"), secret("file-b")),
            secret("command"),
        ];
        // The sources themselves lie outside what is searched.
        let outside = tempfile_outside(&drill);
        write(&outside.join("file"), &format!("{}\n", values[1]));
        write(&outside.join("command"), &values[2]);
        drill.write(
            "targets/drill.toml",
            &format!(
                "[encryption]\npassphrase = {{ env = \"PASS\" }}\n[secrets]\n\
                 from_env = {{ env = \"TOKEN\" }}\nfrom_file = {{ file = \"{0}/file\" }}\n\
                 from_command = {{ command = [\"cat\", \"{0}/command\"] }}\n\
                 [env]\nGIVEN = \"${{secret.from_env}}\"\n",
                outside.display()
            ),
        );
        drill.write(
            "rebuild.toml",
            &format!(
                r#"[platform]
name = "lab"
[tools]
tofu = {{ command = ["{tofu}"] }}
[[phase]]
id = "0"
title = "zero"
[[phase.step]]
name = "careless"
tofu = "zero"
vars = {{ from_env = "${{secret.from_env}}", from_file = "${{secret.from_file}}", from_command = "${{secret.from_command}}" }}
[[phase.step]]
name = "program"
exec = {{ apply = ["./tell", "{second_fails}"], verify = ["./tell", "/nowhere"], teardown = ["./tell", "{down_fails}"], stdin = "${{secret.from_command}}" }}
env = {{ OWN = "${{secret.from_file}}" }}
[[phase.check]]
name = "told"
exec = ["./tell", "/nowhere"]
"#,
                tofu = tofu.display(),
                second_fails = second_fails.display(),
                down_fails = down_fails.display(),
            ),
        );
        let tell = drill.write(
            "tell",
            "#!/bin/sh\nenv\nenv >&2\ncat\nprintf '%s\\n' \"$OWN\"\n[ ! -e \"$1\" ]\n",
        );
        make_executable(&tell);
        drill.write(
            "zero/main.tf",
            &format!(
                r#"variable "from_env" {{}}
variable "from_file" {{ sensitive = true }}
variable "from_command" {{}}
resource "terraform_data" "printed" {{
  input = {{ env = var.from_env, file = nonsensitive(var.from_file), command = var.from_command }}
  provisioner "local-exec" {{
    command     = "env; printf '%s\n' \"$A\" \"$B\" \"$C\"; printf %s \"$B\" >&2; test ! -e {first}"
    environment = {{ A = var.from_env, B = nonsensitive(var.from_file), C = var.from_command }}
  }}
  provisioner "local-exec" {{
    when        = destroy
    command     = "env; printf '%s\n' \"$A\" \"$B\"; printf %s \"$B\" >&2; test ! -e {down}"
    environment = {{ A = self.input.env, B = self.input.file }}
  }}
}}
resource "terraform_data" "keyed" {{
  for_each = toset([var.from_env, var.from_command, nonsensitive(var.from_file)])
  input    = each.key
  lifecycle {{
    postcondition {{
      condition     = !fileexists("{first}") && self.id != ""
      error_message = "it is ${{self.input}} and ${{var.from_env}}"
    }}
  }}
}}
check "told" {{
  assert {{
    condition     = var.from_env != ""
    error_message = "it was ${{var.from_env}}"
  }}
}}
output "plain" {{ value = "is ${{var.from_env}}" }}
output "object" {{ value = {{ inner = [var.from_command] }} }}
output "hidden" {{
  value     = var.from_file
  sensitive = true
}}
"#,
                first = first_fails.display(),
                down = down_fails.display(),
            ),
        );
        let env = vec![
            ("TOKEN", values[0].clone()),
            ("PASS", PASSPHRASE.to_owned()),
        ];
        Self {
            drill,
            calls,
            values,
            env,
            first_fails,
            second_fails,
            down_fails,
        }
    }

    fn run(&self, code: i32, words: &[&str]) -> Outcome {
        let mut command = self.drill.rebuild(words);
        for (name, value) in &self.env {
            command = command.env(*name, value);
        }
        let outcome = command.run();
        for text in [&outcome.stdout, &outcome.stderr] {
            self.nothing_in(&format!("what `{}` printed", words.join(" ")), text);
        }
        outcome.expect_code(code);
        outcome
    }

    fn needles(&self) -> BTreeSet<String> {
        let mut needles: BTreeSet<String> = self
            .values
            .iter()
            .flat_map(|value| needles(value))
            .collect();
        needles.extend(needles_of_passphrase());
        needles
    }

    fn nothing_in(&self, what: &str, text: &str) {
        for needle in self.needles() {
            assert!(!text.contains(&needle), "`{needle}` is in {what}:\n{text}");
        }
    }

    /// Looks at every file that is left, and at what lies in memory.
    fn nothing_left(&self) {
        for needle in self.needles() {
            for place in [self.drill.world.root(), Path::new("/dev/shm")] {
                let found = files_with(place, needle.as_bytes());
                assert!(found.is_empty(), "`{needle}` is in {found:?}");
            }
        }
    }
}

fn needles_of_passphrase() -> BTreeSet<String> {
    needles(PASSPHRASE)
        .into_iter()
        .filter(|needle| needle.len() > 20)
        .collect()
}

/// As [`test_support::World::files_with`], of a place in which others make and remove files meanwhile.
fn files_with(place: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![place.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(path),
                Ok(kind) if kind.is_file() => {
                    let holds = std::fs::read(&path)
                        .is_ok_and(|bytes| bytes.windows(needle.len()).any(|part| part == needle));
                    if holds {
                        found.push(path);
                    }
                }
                _ => {}
            }
            if String::from_utf8_lossy(entry.file_name().as_encoded_bytes())
                .contains(&*String::from_utf8_lossy(needle))
            {
                found.push(entry.path());
            }
        }
    }
    found
}

/// A directory beside the world, removed with it by the system's own means: it is named after it.
fn tempfile_outside(drill: &Drill) -> PathBuf {
    let mut name = drill.world.root().as_os_str().to_owned();
    name.push("-sources");
    PathBuf::from(name)
}

impl Drop for Careless {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(tempfile_outside(&self.drill));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a file has a parent")).expect("its directory");
    std::fs::write(path, text).expect("a file of the test");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a program");
}

/// Cases K6, K7, K8: a secret of each source (env, file, command) is nowhere: on a failing apply that echoes it,
/// on a resume, a preflight, a failing and a good teardown; in no file, no argument list, no output of any format.
#[test]
fn a_secret_of_any_source_appears_nowhere() {
    let it = Careless::new();
    let watch = Watch::for_needles(it.needles());
    let touch = |path: &Path| drop(std::fs::File::create(path).expect("a switch"));
    let untouch = |path: &Path| std::fs::remove_file(path).expect("a switch");

    touch(&it.first_fails);
    let failed = it.run(1, &["up", "--target", "drill", "--no-pause", "-v"]);
    assert!(failed.stderr.contains("[secret]"), "{failed:?}");
    it.nothing_left();
    untouch(&it.first_fails);
    touch(&it.second_fails);
    let failed = it.run(
        1,
        &[
            "up", "--target", "drill", "--resume", "--output", "ndjson", "-v",
        ],
    );
    events(&failed.stdout);
    it.nothing_left();
    untouch(&it.second_fails);
    let up = it.run(
        0,
        &[
            "up", "--target", "drill", "--resume", "--output", "json", "-v",
        ],
    );
    let record: Value = serde_json::from_str(&up.stdout).expect("the record");
    conforms("record", &record);
    it.nothing_left();

    it.run(0, &["preflight", "--target", "drill", "-v"]);
    it.run(0, &["preflight", "--target", "drill", "--output", "ndjson"]);
    for words in [
        &["status", "--target", "drill", "-v"][..],
        &["status", "--target", "drill", "--output", "json"],
        &["runs", "list", "--target", "drill", "--output", "json"],
        &[
            "runs",
            "show",
            record["run"].as_str().expect("an id"),
            "--target",
            "drill",
        ],
        &["down", "--target", "drill", "--dry-run"],
        &["down", "--target", "drill", "--dry-run", "--output", "json"],
    ] {
        it.run(0, words);
    }
    touch(&it.down_fails);
    it.run(1, &["down", "--target", "drill", "-v"]);
    it.nothing_left();
    untouch(&it.down_fails);
    it.run(
        0,
        &["down", "--target", "drill", "-v", "--output", "ndjson"],
    );
    it.nothing_left();

    let seen = watch.seen();
    assert!(seen.is_empty(), "in argument lists: {seen:?}");
    let calls = std::fs::read_to_string(&it.calls).expect("the calls of tofu");
    assert!(calls.contains("apply"), "{calls}");
    it.nothing_in("the arguments of tofu", &calls);
}

/// A secret that is another one now: neither the old nor the new value is shown.
#[test]
fn preflight_with_another_secret_shows_neither_value() {
    let it = Careless::new();
    it.run(0, &["up", "--target", "drill", "--no-pause"]);
    let other = secret("rotated");
    let outcome = it
        .drill
        .rebuild(&["preflight", "--target", "drill", "-v"])
        .env("TOKEN", &other)
        .env("PASS", PASSPHRASE)
        .run();
    for text in [&outcome.stdout, &outcome.stderr] {
        // What the former value was nobody knows any more: only as a key of a resource is it seen at all.
        let without_keys: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains("terraform_data.keyed["))
            .collect();
        it.nothing_in("preflight", &without_keys.join("\n"));
        for needle in needles(&other) {
            assert!(!text.contains(&needle), "{text}");
        }
    }
    for needle in needles(&other) {
        let found = files_with(it.drill.world.root(), needle.as_bytes());
        assert!(found.is_empty(), "`{needle}` is in {found:?}");
    }
}

const TWO_STEPS: &str = r#"[[phase]]
id = "0"
title = "zero"
[[phase.step]]
name = "maker"
tofu = "zero"
[[phase.step]]
name = "taker"
tofu = "one"
vars = { token = "${step.0.maker.keys.inner}", shown = "${step.0.maker.shown}" }
"#;

/// A step that makes a sensitive output out of an input, and one that gets it and hands it to `consumed`.
fn maker_and_taker() -> (Drill, PathBuf) {
    let maker = r#"variable "seed" { sensitive = true }
resource "terraform_data" "it" { input = "a" }
output "keys" {
  value     = { inner = sha256("${var.seed}-${terraform_data.it.id}") }
  sensitive = true
}
output "shown" { value = "shown" }
"#;
    let drill = Drill::of(TWO_STEPS, &[("zero", maker)]);
    let consumed = {
        let mut path = drill.world.root().as_os_str().to_owned();
        path.push("-consumed");
        PathBuf::from(path)
    };
    drill.write(
        "one/main.tf",
        &format!(
            r#"variable "token" {{}}
variable "shown" {{}}
resource "terraform_data" "taker" {{
  input = sha256(var.token)
  provisioner "local-exec" {{
    command     = "printf %s \"$T\" > '{}'; echo \"got $T\""
    environment = {{ T = var.token }}
  }}
}}
output "again" {{ value = "it was ${{var.token}}" }}
"#,
            consumed.display()
        ),
    );
    drill.write(
        "targets/drill.toml",
        "[store.local]\ndir = \"~/store\"\n[encryption]\npassphrase = { env = \"PASS\" }\n\
         [secrets]\nseed = { env = \"SEED\" }\n",
    );
    let toml = std::fs::read_to_string(drill.dir().join("rebuild.toml")).expect("the platform");
    drill.write(
        "rebuild.toml",
        &toml.replacen(
            "tofu = \"zero\"\n",
            "tofu = \"zero\"\nvars = { seed = \"${secret.seed}\" }\n",
            1,
        ),
    );
    (drill, consumed)
}

/// Case K4, R5: a sensitive output reaches a later step; the record keeps its digest alone, and another machine,
/// which has nothing but the store and the definitions, proves the target clean with the values from the states.
#[test]
fn a_sensitive_output_reaches_a_later_step_and_leaves_a_digest_alone() {
    let (drill, consumed) = maker_and_taker();
    let run = |code: i32, words: &[&str], seed: &str| {
        let outcome = drill
            .rebuild(words)
            .env("SEED", seed)
            .env("PASS", PASSPHRASE)
            .run();
        outcome.expect_code(code);
        outcome
    };
    let up = run(
        0,
        &[
            "up",
            "--target",
            "drill",
            "--no-pause",
            "-v",
            "--output",
            "json",
        ],
        "first seed of it",
    );
    let token = std::fs::read_to_string(&consumed).expect("the step got it");
    assert_eq!(token.len(), 64, "a digest: {token}");
    for text in [&up.stdout, &up.stderr] {
        assert!(!text.contains(&token), "{text}");
    }
    let record: Value = serde_json::from_str(&up.stdout).expect("the record");
    let taker = &record["standing"][1];
    assert_eq!(taker["step"], "0.taker");
    assert!(taker["values"]["token"]["digest"].is_string(), "{taker:#}");
    assert_eq!(taker["values"]["shown"]["value"], "shown");
    for needle in [token.as_str(), "first seed of it"] {
        for place in [drill.world.root(), Path::new("/dev/shm")] {
            let found = files_with(place, needle.as_bytes());
            assert!(found.is_empty(), "`{needle}` is in {found:?}");
        }
    }

    // Another machine: the same store and definitions, nothing else.
    let elsewhere = drill.world.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("another state home");
    let outcome = drill
        .rebuild(&["preflight", "--target", "drill"])
        .env("SEED", "first seed of it")
        .env("PASS", PASSPHRASE)
        .env("XDG_STATE_HOME", &elsewhere)
        .run();
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("clean"), "{outcome:?}");

    // What nothing changed in applies nothing; a rotated secret has another digest, and is applied.
    let again = run(
        0,
        &["up", "--target", "drill", "--no-pause", "--output", "json"],
        "first seed of it",
    );
    let again: Value = serde_json::from_str(&again.stdout).expect("the record");
    let definition = |record: &Value, n: usize| {
        record["standing"][n]["definition"]
            .as_str()
            .expect("a digest")
            .to_owned()
    };
    assert_eq!(definition(&again, 0), definition(&record, 0));
    assert_eq!(definition(&again, 1), definition(&record, 1));
    assert_eq!(
        std::fs::read_to_string(&consumed).expect("the step got it"),
        token
    );
    let rotated = run(
        0,
        &["up", "--target", "drill", "--no-pause", "--output", "json"],
        "second seed of it",
    );
    let rotated: Value = serde_json::from_str(&rotated.stdout).expect("the record");
    assert_ne!(definition(&rotated, 0), definition(&record, 0));
    assert_ne!(definition(&rotated, 1), definition(&record, 1));
    assert_eq!(rotated["status"], "finished");
    let clean = run(0, &["preflight", "--target", "drill"], "second seed of it");
    assert!(clean.stdout.contains("clean"), "{clean:?}");
    run(0, &["down", "--target", "drill"], "second seed of it");
    let _ = std::fs::remove_file(&consumed);
}

/// A secret's file that is named by a relative path lies in the platform's directory, wherever one calls from; a
/// source that gives nothing is named before anything is touched, and its command runs once a call.
#[test]
fn a_source_is_read_from_the_platform_and_named_when_it_fails() {
    let module = "variable \"token\" { sensitive = true }\nvariable \"other\" { sensitive = true }\n\
                  resource \"terraform_data\" \"it\" { input = \"a\" }\n";
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n\
         vars = { token = \"${secret.token}\", other = \"${secret.other}\" }\n",
        &[("zero", module)],
    );
    drill.write("private/token", "from a file\n");
    let asked = drill.world.root().join("asked");
    let command = |end: &str| {
        format!(
            "[encryption]\npassphrase = {{ command = [\"echo\", \"a passphrase of sixteen\"] }}\n\
             [secrets]\ntoken = {{ file = \"private/token\" }}\n\
             other = {{ command = [\"sh\", \"-c\", \"echo asked >> {}; echo why it failed >&2; {end}\"] }}\n",
            asked.display()
        )
    };
    drill.write("targets/drill.toml", &command("exit 3"));
    let failed = drill.run(2, &["up", "--target", "drill", "--no-pause"]);
    for wanted in ["other", "drill", "why it failed"] {
        assert!(failed.stderr.contains(wanted), "{failed:?}");
    }
    assert!(!drill.store().exists(), "nothing was touched");
    std::fs::remove_file(&asked).expect("it was asked");
    drill.write("targets/drill.toml", &command("echo of a command"));
    let outcome = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .cwd(drill.dir().join("zero"))
        .run();
    outcome.expect_code(0);
    assert_eq!(
        std::fs::read_to_string(&asked).expect("it was asked"),
        "asked\n"
    );
}
