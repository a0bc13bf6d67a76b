//! Whose credentials open a store: those of the target, and nobody else's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use cloud_store::Place;
use platform::{MemoryFiles, TargetFile};
use secrets::Masker;

use super::*;
use crate::secret_book;
use crate::ui::{Nobody, Ui};

fn machine(env: &[(&str, &str)]) -> Machine {
    Machine {
        env: env
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect(),
        cwd: "/w".into(),
        home: "/h".into(),
        state_home: "/s".into(),
        user: "ada".to_owned(),
        host: "here".to_owned(),
        ci_job: None,
        exe: "/bin/rebuild".into(),
        version: "0".to_owned(),
        spawner: Arc::new(process::fake::NoSpawn),
        now: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
        lease: Duration::from_secs(60),
        patience: Duration::from_secs(60),
        rounds: None,
    }
}

/// The configuration that a target file comes to, on a machine with this environment.
fn config(text: &str, env: &[(&str, &str)]) -> Result<Config, Failure> {
    let name = phase_engine::TargetName::new("live").unwrap();
    let file = TargetFile {
        path: "targets/live.toml".to_owned(),
        text: text.to_owned(),
    };
    let target = platform::load_target(&MemoryFiles::default(), Some(&file), &name)
        .unwrap_or_else(|faults| panic!("{}", faults.render_plain()))
        .target;
    let machine = machine(env);
    let nobody: Arc<dyn Ui> = Arc::new(Nobody);
    let root = Path::new("/lab");
    let used = secret_book::used_by_store(&target);
    let secrets =
        SecretBook::fetch(&used, &target, &machine, root, &Masker::new(), &nobody).unwrap();
    let opener = Opener {
        machine: &machine,
        target: &target,
        root,
        secrets: &secrets,
    };
    let StoreDef::Cloud(def) = &target.store else {
        panic!("no cloud")
    };
    opener.config(def)
}

const S3: &str =
    "s3 = { bucket = \"b\", region = \"eu-1\", ca_file = \"ca.pem\", timeout = \"3s\" }";

#[test]
fn the_chain_sees_what_env_names_and_nothing_of_the_caller() {
    let caller = [
        ("AWS_ACCESS_KEY_ID", "callers"),
        ("AWS_SESSION_TOKEN", "callers"),
        ("ROLE", "arn"),
        ("KEY", "k"),
    ];
    let text = format!(
        "[store]\n{S3}\n[env]\nAWS_ACCESS_KEY_ID = \"ours\"\nAWS_SECRET_ACCESS_KEY = \"${{secret.key}}\"\n\
         AWS_ROLE_ARN = {{ from = \"ROLE\" }}\nOS_CLOUD = \"live\"\n[secrets]\nkey = {{ env = \"KEY\" }}\n"
    );
    let config = config(&text, &caller).unwrap();
    assert_eq!(config.ca_file.as_deref(), Some(Path::new("/lab/ca.pem")));
    assert_eq!(config.patience.request, Duration::from_secs(3));
    let Place::S3(S3 {
        credentials: S3Credentials::DefaultChain(chain),
        ..
    }) = &config.place
    else {
        panic!("{config:?}")
    };
    let seen: BTreeMap<&str, &str> = chain
        .variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    let expected = [
        ("AWS_ACCESS_KEY_ID", "ours"),
        ("AWS_ROLE_ARN", "arn"),
        ("AWS_SECRET_ACCESS_KEY", "k"),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
}

#[test]
fn keys_of_the_store_come_from_the_targets_secrets() {
    let text = "[store]\nazure = { account = \"a\", container = \"c\", prefix = \"live\", tenant_id = \"${target.tenant}\", \
                client_id = \"i\", client_secret = \"${secret.key}\" }\n[values]\ntenant = \"t\"\n[secrets]\nkey = { env = \"KEY\" }\n";
    let config = config(text, &[("KEY", "k"), ("AZURE_CLIENT_ID", "callers")]).unwrap();
    assert_eq!(config.prefix, "live");
    let Place::Azure(place) = &config.place else {
        panic!("{config:?}")
    };
    assert!(matches!(
        &place.credentials,
        AzureCredentials::ClientSecret { tenant_id, client_id, client_secret }
            if tenant_id == "t" && client_id == "i" && client_secret.expose() == "k"
    ));
}

#[test]
fn a_variable_that_the_caller_does_not_have_is_named() {
    let text = format!("[store]\n{S3}\n[env]\nAWS_ROLE_ARN = {{ from = \"ROLE\" }}\n");
    let failure = config(&text, &[]).unwrap_err();
    assert_eq!(failure.exit, ExitCode::Unusable);
    assert!(failure.one_line().contains("`ROLE`"), "{failure:?}");
}
