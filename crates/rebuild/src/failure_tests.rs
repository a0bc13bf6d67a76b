//! What failures look like, to people and to programs.

use std::fmt;

use platform::DirFiles;
use test_support::World;

use super::*;

#[derive(Debug)]
struct Layer(&'static str, Option<Box<Layer>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|layer| layer as &dyn Error)
    }
}

fn layers(of: &[&'static str]) -> Layer {
    let (first, rest) = of.split_first().unwrap();
    Layer(first, (!rest.is_empty()).then(|| Box::new(layers(rest))))
}

#[test]
fn the_chain_of_causes_is_told_once_each() {
    let error = layers(&[
        "preflight stopped `up`",
        "phase `1a`:\n2 objects changed",
        "phase `1a`:\n2 objects changed",
        "x\x1b[2Jy",
    ]);
    let failure = Failure::of(ExitCode::Stopped, &error)
        .hint("`rebuild preflight --target drill` lists them");
    insta::assert_snapshot!(failure.render(Look::PLAIN));
    assert_eq!(failure.causes.len(), 2);
}

#[test]
fn a_failure_of_a_step_names_its_log() {
    let mut failed =
        phase_engine::Failure::new(ExitCode::Failed, "phase `1a`, step `edge`: apply failed");
    failed.causes = vec!["quota exceeded".to_owned()];
    failed.log = Some("/s/log".into());
    insta::assert_snapshot!(Failure::from(failed).render(Look::PLAIN));
}

fn faults() -> Faults {
    let world = World::new();
    world.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\nnam = \"x\"\ntime_budget = \"60m\"\n",
    );
    world.write("targets/drill.toml", "protectd = true\n");
    let target = phase_engine::TargetName::new("drill").unwrap();
    platform::load(&DirFiles::open(&world.work()).unwrap(), None, &target).unwrap_err()
}

#[test]
fn faults_show_the_file_with_the_text_underlined() {
    let failure = Failure::of_faults(&faults(), Look::PLAIN);
    let text = failure.render(Look::PLAIN);
    assert!(text.is_ascii(), "{text}");
    for wanted in [
        "rebuild.toml:3:1",
        "nam = ",
        "targets/drill.toml:1:1",
        "protectd = true",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    let fancy = Failure::of_faults(
        &faults(),
        Look {
            color: true,
            unicode: true,
        },
    )
    .render(Look::PLAIN);
    assert!(fancy.contains('\x1b') && !fancy.is_ascii());
}

#[test]
fn a_document_lists_faults_by_their_place() {
    let document = serde_json::to_value(Failure::of_faults(&faults(), Look::PLAIN)).unwrap();
    assert_eq!(document["exit"], 2);
    let faults = document["faults"].as_array().unwrap();
    let unknown = faults.iter().find(|fault| fault["line"] == 3).unwrap();
    assert_eq!(
        (&unknown["file"], &unknown["column"]),
        (&"rebuild.toml".into(), &1.into())
    );
}

#[test]
fn no_failure_of_a_call_ends_in_nothing_to_do() {
    for exit in [
        ExitCode::Failed,
        ExitCode::Stopped,
        ExitCode::Unusable,
        ExitCode::Interrupted,
    ] {
        let failure = Failure::from(phase_engine::Failure::new(exit, "x"));
        assert!(failure.hint.is_some(), "{exit:?}");
    }
    let known = phase_engine::Failure::new(ExitCode::Failed, "x").hint("this");
    assert_eq!(Failure::from(known).hint.as_deref(), Some("this"));
}
