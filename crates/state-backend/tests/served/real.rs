//! The real OpenTofu against the server. `terraform_data` is of its built-in provider, so nothing
//! is downloaded.

use crate::world::{STEP, World, lock_info, send, state};
use process::{Collected, Exit, How, Invocation, RealSpawner, collect};
use state_backend::{Access, BackendError, Demand, Fault, GrantOptions, Written};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MODULE: &str = r#"
terraform {
  backend "http" {}
}
variable "value" {
  default = "one"
}
resource "terraform_data" "it" {
  input = var.value
}
"#;

const ENCRYPTION: &str = r#"
key_provider "pbkdf2" "it" { passphrase = "a passphrase of the tests" }
method "aes_gcm" "it" { keys = key_provider.pbkdf2.it }
state {
  method   = method.aes_gcm.it
  enforced = true
}
"#;

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn program() -> PathBuf {
    let found = std::env::var_os("REBUILD_TEST_TOFU");
    found
        .expect("REBUILD_TEST_TOFU is not set: run `cargo xtask tools`")
        .into()
}

/// A root module with what OpenTofu needs around it.
struct Module {
    dir: PathBuf,
    env: BTreeMap<OsString, OsString>,
}

impl Module {
    fn new(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        process::files::write_atomically(&dir.join("main.tf"), MODULE.as_bytes(), 0o600).unwrap();
        let env = [
            ("HOME", dir.as_os_str()),
            ("CHECKPOINT_DISABLE", "1".as_ref()),
            ("TF_CLI_ARGS", "-no-color".as_ref()),
            ("TF_IN_AUTOMATION", "1".as_ref()),
        ];
        let env = env
            .map(|(name, value)| (name.into(), value.to_owned()))
            .into();
        Self {
            dir: dir.to_owned(),
            env,
        }
    }

    /// A module whose backend is `access`, initialized.
    fn ready(dir: &Path, access: &Access) -> Self {
        let mut module = Self::new(dir);
        let values = [
            ("TF_HTTP_ADDRESS", &access.address),
            ("TF_HTTP_LOCK_ADDRESS", &access.lock_address),
            ("TF_HTTP_UNLOCK_ADDRESS", &access.unlock_address),
            ("TF_HTTP_USERNAME", &access.username),
            ("TF_HTTP_PASSWORD", &access.password),
        ];
        module
            .env
            .extend(values.map(|(name, value)| (name.into(), value.into())));
        module.succeeds(&["init", "-input=false"]);
        module
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let call = Invocation::new(program(), &self.dir)
            .args(args.iter().copied())
            .envs(self.env.clone());
        let limit = Duration::from_secs(120);
        let Collected {
            stdout,
            stderr,
            exit,
        } = collect(
            &RealSpawner::direct(),
            &call,
            &How::reader(),
            limit,
            &mut || false,
        )
        .unwrap();
        let code = match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        };
        (code, String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    fn succeeds(&self, args: &[&str]) -> String {
        let (code, output) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {output}");
        output
    }

    fn fails(&self, args: &[&str]) -> String {
        let (code, output) = self.run(args);
        assert_eq!(code, Some(1), "{args:?}: {output}");
        output
    }

    fn apply(&self, value: &str) -> String {
        self.succeeds(&[
            "apply",
            "-input=false",
            "-auto-approve",
            &format!("-var=value={value}"),
        ])
    }

    fn apply_fails(&self, value: &str) -> String {
        self.fails(&[
            "apply",
            "-input=false",
            "-auto-approve",
            &format!("-var=value={value}"),
        ])
    }

    fn has_no_changes(&self, value: &str) -> bool {
        let output = self.succeeds(&["plan", "-input=false", &format!("-var=value={value}")]);
        output.contains("No changes.")
    }

    fn errored(&self) -> Vec<u8> {
        std::fs::read(self.dir.join("errored.tfstate")).unwrap()
    }
}

fn ready(world: &World) -> Module {
    Module::ready(&world.dir.path().join("module"), &world.grant())
}

fn is_locked(world: &World) -> bool {
    world.server.backend().lock_of(STEP).unwrap().is_some()
}

#[test]
fn opentofu_applies_plans_and_destroys() {
    let world = World::new();
    let module = ready(&world);
    module.apply("one");
    let first = world.server.backend().read_state(STEP).unwrap().unwrap();
    assert!(!first.header.lineage.is_empty());
    assert!(module.has_no_changes("one"));
    module.apply("two");
    let second = world.server.backend().read_state(STEP).unwrap().unwrap();
    assert_eq!(second.header.lineage, first.header.lineage);
    assert!(second.header.serial > first.header.serial);
    let versions = world.server.backend().versions(STEP).unwrap();
    assert!(versions.iter().any(|version| {
        world
            .server
            .backend()
            .read_version(version)
            .unwrap()
            .unwrap()
            .bytes
            == first.bytes
    }));
    module.succeeds(&["destroy", "-input=false", "-auto-approve"]);
    assert_eq!(module.succeeds(&["state", "list"]), "");
    assert!(!is_locked(&world));
    assert_eq!(world.server.take_refusals(STEP), []);
}

#[test]
fn opentofu_encrypts_and_lineage_and_serial_stay_readable() {
    let world = World::new();
    let mut module = ready(&world);
    module.env.insert("TF_ENCRYPTION".into(), ENCRYPTION.into());
    module.apply("a value to be hidden");
    let first = world.server.backend().read_state(STEP).unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first.bytes).contains("a value to be hidden"));
    assert!(!first.header.lineage.is_empty());
    module.apply("two");
    let second = world.server.backend().read_state(STEP).unwrap().unwrap();
    assert_eq!(second.header.lineage, first.header.lineage);
    assert!(second.header.serial > first.header.serial);
    assert!(module.has_no_changes("two"));
}

/// L1
#[test]
fn a_lock_whose_answer_was_lost_locks_nobody_out() {
    let world = World::new();
    let module = ready(&world);
    world.once("LOCK", Fault::After(502));
    module.apply("one");
    assert!(world.n_seen("LOCK") >= 2);
    assert!(!is_locked(&world));
}

/// L5
#[test]
fn an_unlock_whose_answer_was_lost_is_no_failure() {
    let world = World::new();
    let module = ready(&world);
    world.once("UNLOCK", Fault::After(502));
    module.apply("one");
    assert!(world.n_seen("UNLOCK") >= 2);
    assert!(!is_locked(&world));
}

#[test]
fn a_write_whose_answer_was_lost_is_no_failure() {
    let world = World::new();
    let module = ready(&world);
    world.once("POST", Fault::After(500));
    module.apply("one");
    assert!(!module.dir.join("errored.tfstate").exists());
    world.heal();
    assert!(module.has_no_changes("one"));
}

/// L2, L3
#[test]
fn opentofu_shows_the_holder_and_not_the_asker() {
    let world = World::new();
    let module = ready(&world);
    assert_eq!(
        send(&world.grant(), "LOCK", "", &lock_info("the-holder")).0,
        200
    );
    let output = module.apply_fails("one");
    for shown in [
        "the-holder@lab",
        "OperationTypeApply",
        "2026-01-02 03:04:05.678",
    ] {
        assert!(output.contains(shown), "{shown}: {output}");
    }
    assert!(!output.contains("unmarshal"), "{output}");
    assert!(is_locked(&world));
}

#[test]
fn opentofu_shows_that_the_targets_lock_was_lost() {
    let world = World::new();
    let module = ready(&world);
    *world.hold.lock().unwrap() = store::lock::Hold::Lost;
    let output = module.apply_fails("one");
    assert!(output.contains("taken by another"), "{output}");
}

#[test]
fn force_unlock_needs_the_holders_id() {
    let world = World::new();
    let module = ready(&world);
    let id = "0a6c1f2e-0000-0000-0000-000000000001";
    assert_eq!(send(&world.grant(), "LOCK", "", &lock_info(id)).0, 200);
    module.fails(&[
        "force-unlock",
        "-force",
        "0a6c1f2e-0000-0000-0000-000000000002",
    ]);
    assert!(is_locked(&world));
    module.succeeds(&["force-unlock", "-force", id]);
    assert!(!is_locked(&world));
    module.apply("one");
}

/// L7
#[test]
fn what_opentofu_could_not_write_is_rescued() {
    let world = World::new();
    let module = ready(&world);
    module.apply("one");
    world.script(|request| {
        if request.method == "POST" {
            Fault::Instead(500)
        } else {
            Fault::None
        }
    });
    module.apply_fails("two");
    world.heal();
    let refusals = world.server.take_refusals(STEP);
    assert!(refusals.iter().all(|refusal| refusal.status == 500) && !refusals.is_empty());
    let rescued = module.errored();
    let backend = world.server.backend();
    assert_eq!(backend.write_rescued(STEP, &rescued).unwrap(), Written::New);
    assert_eq!(
        backend.write_rescued(STEP, &rescued).unwrap(),
        Written::Already
    );
    assert!(module.has_no_changes("two"));
}

/// L7 with an encrypted state, which `tofu state push` can't read.
#[test]
fn what_opentofu_could_not_write_is_rescued_encrypted() {
    let world = World::new();
    let mut module = ready(&world);
    module.env.insert("TF_ENCRYPTION".into(), ENCRYPTION.into());
    module.apply("one");
    world.script(|request| {
        if request.method == "POST" {
            Fault::Instead(500)
        } else {
            Fault::None
        }
    });
    module.apply_fails("two");
    world.heal();
    world
        .server
        .backend()
        .write_rescued(STEP, &module.errored())
        .unwrap();
    assert!(module.has_no_changes("two"));
}

/// L8: once the state was forked, the other fork is refused and not mixed in.
#[test]
fn the_rescue_of_a_first_apply_is_refused_after_the_state_was_forked() {
    let world = World::new();
    let module = ready(&world);
    world.script(|request| {
        if request.method == "POST" {
            Fault::Instead(500)
        } else {
            Fault::None
        }
    });
    module.apply_fails("one");
    world.heal();
    let rescued = module.errored();
    module.apply("two");
    let before = world.state_bytes();
    assert!(matches!(
        world.server.backend().write_rescued(STEP, &rescued),
        Err(BackendError::Lineage { .. })
    ));
    assert_eq!(world.state_bytes(), before);
}

#[test]
fn the_rescue_of_a_first_apply_has_no_lineage_and_is_given_one() {
    let world = World::new();
    let module = ready(&world);
    // The store goes away in mid-apply: OpenTofu gives a lineage only when it writes, after it has
    // looked once more that there is no state.
    let (mut is_locked, mut n_reads) = (false, 0);
    world.script(move |request| {
        is_locked |= request.method == "LOCK";
        n_reads += usize::from(is_locked && request.method == "GET");
        if n_reads > 1 {
            Fault::Instead(503)
        } else {
            Fault::None
        }
    });
    module.apply_fails("one");
    world.heal();
    let backend = world.server.backend();
    if let Some(lock) = backend.lock_of(STEP).unwrap() {
        backend.unlock(STEP, &lock.info.id).unwrap();
    }
    backend.write_rescued(STEP, &module.errored()).unwrap();
    assert_eq!(
        backend.read_state(STEP).unwrap().unwrap().header.lineage,
        ""
    );
    let mut pulled: serde_json::Value =
        serde_json::from_str(&module.succeeds(&["state", "pull"])).unwrap();
    pulled["lineage"] = "a-lineage-of-its-own".into();
    let file = module.dir.join("given.tfstate");
    process::files::write_atomically(&file, pulled.to_string().as_bytes(), 0o600).unwrap();
    module.succeeds(&["state", "push", "-force", "given.tfstate"]);
    assert_eq!(
        backend.read_state(STEP).unwrap().unwrap().header.lineage,
        "a-lineage-of-its-own"
    );
    assert!(module.has_no_changes("one"));
}

/// L9
#[test]
fn opentofu_without_locking_writes_nothing() {
    let world = World::new();
    let module = ready(&world);
    module.fails(&["apply", "-input=false", "-auto-approve", "-lock=false"]);
    assert_eq!(world.state_bytes(), None);
    let refusals = world.server.take_refusals(STEP);
    assert!(
        refusals
            .iter()
            .any(|refusal| refusal.why.contains("not locked")),
        "{refusals:?}"
    );
}

/// L10, L11: not even `-force` writes an older serial or another lineage.
#[test]
fn a_forced_push_of_what_does_not_follow_is_refused() {
    let world = World::new();
    let module = ready(&world);
    module.apply("one");
    let older = world.server.backend().read_state(STEP).unwrap().unwrap();
    module.apply("two");
    let before = world.state_bytes();
    let lineage = &older.header.lineage;
    let other = String::from_utf8(older.bytes.clone())
        .unwrap()
        .replace(lineage, "another");
    for (name, bytes) in [
        ("older.tfstate", older.bytes.clone()),
        ("other.tfstate", other.into_bytes()),
    ] {
        process::files::write_atomically(&module.dir.join(name), &bytes, 0o600).unwrap();
        module.fails(&["state", "push", "-force", name]);
        assert_eq!(world.state_bytes(), before, "{name}");
    }
    assert!(!is_locked(&world));
}

#[test]
fn a_state_that_is_lost_is_no_first_apply() {
    let world = World::new();
    let must_exist = Some(Demand {
        lineage: "l".into(),
        serial: 2,
    });
    let access = world.server.grant(
        STEP,
        GrantOptions {
            must_exist,
            read_only: false,
        },
    );
    let mut module = ready(&world);
    module
        .env
        .insert("TF_HTTP_USERNAME".into(), access.username.clone().into());
    module
        .env
        .insert("TF_HTTP_PASSWORD".into(), access.password.clone().into());
    let output = module.fails(&["plan", "-input=false"]);
    assert!(!output.contains("will be created"), "{output}");
    let refusals = world.server.take_refusals(STEP);
    assert!(refusals[0].why.contains("is lost"), "{refusals:?}");
}

#[test]
fn a_reader_plans_without_a_lock() {
    let world = World::new();
    let module = ready(&world);
    module.apply("one");
    let access = world.server.grant(
        STEP,
        GrantOptions {
            must_exist: None,
            read_only: true,
        },
    );
    let reader = Module::ready(&world.dir.path().join("reader"), &access);
    assert!(
        reader
            .succeeds(&["plan", "-input=false", "-lock=false"])
            .contains("No changes.")
    );
    reader.fails(&["plan", "-input=false"]);
    assert!(world.state_bytes().is_some());
    assert_eq!(send(&access, "POST", "?ID=x", &state("l", 1, "a")).0, 403);
}
