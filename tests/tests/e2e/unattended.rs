//! Without a person: nothing waits, nothing is coloured, `--pause` ends a call.

use serde_json::Value;

use crate::drill::Drill;

fn three_phases() -> Drill {
    let mut phases = String::new();
    for id in ["0", "1", "2"] {
        phases.push_str(&format!(
            "[[phase]]\nid = \"{id}\"\ntitle = \"t{id}\"\n[[phase.step]]\nname = \"s\"\nexec = {{ apply = [\"true\"], verify = [\"true\"], teardown = [] }}\n"
        ));
    }
    let drill = Drill::empty();
    drill.write(
        "rebuild.toml",
        &format!("[platform]\nname = \"lab\"\n{phases}"),
    );
    drill
}

/// Case S12: without a terminal `up` never asks and never waits on a standard input that stays open; `down` of an
/// unprotected target neither.
#[test]
fn nothing_waits_on_an_input_that_is_no_terminal() {
    let drill = three_phases();
    let rebuild = env!("CARGO_BIN_EXE_rebuild_dup");
    let program = |words: &str| {
        // A pipe that is open at both ends gives nothing and never ends.
        drill
            .rebuild(&[])
            .into_shell(&format!(
                "mkfifo ../fifo 2>/dev/null; exec {rebuild} {words} 0<>../fifo"
            ))
            .run()
    };
    let up = program("up --target drill");
    up.expect_code(0);
    assert_eq!(drill.status()["state"], "finished");
    program("down --target drill").expect_code(0);
    assert_eq!(drill.status()["state"], "empty");
}

/// Case S12: `--pause` ends the call at the next checkpoint, exit 0; `--through` at its phase; the run is unfinished
/// and `--resume` goes on.
#[test]
fn a_pause_ends_the_call_at_the_next_checkpoint() {
    let drill = three_phases();
    let verified = |record: &Value| {
        record["phases"]
            .as_array()
            .expect("phases")
            .iter()
            .filter(|phase| phase["status"] == "verified")
            .count()
    };
    let paused = drill.json(0, &["up", "--target", "drill", "--pause"]);
    assert_eq!(
        (&paused["status"], verified(&paused)),
        (&"paused".into(), 1)
    );
    let again = drill.run(3, &["up", "--target", "drill"]);
    for wanted in ["--resume", "rebuild down"] {
        assert!(again.stderr.contains(wanted), "{again:?}");
    }
    let more = drill.json(
        0,
        &["up", "--target", "drill", "--resume", "--through", "1"],
    );
    assert_eq!((&more["status"], verified(&more)), (&"paused".into(), 2));
    let rest = drill.json(0, &["up", "--target", "drill", "--resume", "--no-pause"]);
    assert_eq!((&rest["status"], verified(&rest)), (&"finished".into(), 3));
    let none = drill.run(3, &["up", "--target", "drill", "--resume"]);
    assert!(none.stderr.contains("unfinished"), "{none:?}");
}

/// Finds colour codes (`ESC [ … m`).
fn is_coloured(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
            .starts_with('m')
    })
}

/// Case J9: no colour codes where standard error is no terminal, in no file at all, and on no terminal under
/// `NO_COLOR`; a tool that colours its output all the same is stripped.
#[test]
fn no_colour_where_nobody_sees_it() {
    let coloured = "printf '\\\\033[31mred\\\\033[0m\\\\n'";
    let module = format!(
        "resource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{\n    command = \"{coloured}; exit 1\"\n  }}\n}}\n"
    );
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n",
        &[("zero", &module)],
    );
    let up = ["up", "--target", "drill", "--no-pause"];
    let piped = drill.run(1, &up);
    assert!(piped.stderr.contains("red"), "{piped:?}");
    for text in [&piped.stdout, &piped.stderr] {
        assert!(!text.contains('\x1b'), "{text:?}");
    }
    for place in [drill.work().join("logs"), drill.store().join("run")] {
        for code in [b"\x1b".as_slice(), b"\\u001b"] {
            let files = drill.world.files_with(&place, code);
            assert!(files.is_empty(), "{files:?}");
        }
    }

    let resume = ["up", "--target", "drill", "--resume", "--no-pause"];
    let plain = drill
        .rebuild(&resume)
        .env("NO_COLOR", "1")
        .in_terminal()
        .wait();
    plain.expect_code(1);
    assert!(!is_coloured(&plain.stdout), "{:?}", plain.stdout);
    let painted = drill.rebuild(&resume).in_terminal().wait();
    painted.expect_code(1);
    assert!(is_coloured(&painted.stdout), "{:?}", painted.stdout);
    assert!(
        !painted.stdout.contains("\x1b[31mred"),
        "the tool's own colour: {:?}",
        painted.stdout
    );
}

/// Case J10: on a terminal a failing apply is told for people: no raw events; the whole log is named and holds them.
#[test]
fn a_failing_apply_is_told_for_people_and_its_events_are_kept() {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n",
        &[(
            "zero",
            "resource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" {\n    command = \"echo the reason; exit 7\"\n  }\n}\n",
        )],
    );
    let outcome = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .env("NO_COLOR", "1")
        .in_terminal()
        .wait();
    outcome.expect_code(1);
    for wanted in ["error:", "terraform_data.it", "the reason", "hint:", "log:"] {
        assert!(outcome.stdout.contains(wanted), "`{wanted}`: {outcome:?}");
    }
    assert!(!outcome.stdout.contains("\"@level\""), "{outcome:?}");
    let status = drill.status();
    let error = &status["run"]["error"];
    assert_eq!(error["step"], "0.it", "{error:#}");
    let log = error["log"].as_str().expect("the log is named");
    let text = std::fs::read_to_string(log).expect("the log is there");
    assert!(
        text.contains("\"@level\"") && text.contains("the reason"),
        "{text}"
    );
}
