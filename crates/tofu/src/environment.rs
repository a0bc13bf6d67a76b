//! The environment of a `tofu` process: exactly what is named, nothing of the caller's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use secrets::Secret;

/// Where a step's state is, and the credential that opens it alone.
#[derive(Debug, Clone)]
pub struct Backend {
    /// URL of the state.
    pub address: String,
    /// URL of its lock.
    pub lock_address: String,
    /// URL that frees the lock.
    pub unlock_address: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: Secret,
}

/// Lets `tofu` and its plugins speak over their socket without TLS (read by OpenTofu's
/// `internal/command/meta_providers.go`).
pub const PLUGIN_TLS_OFF: &str = "TF_DISABLE_PLUGIN_TLS";

/// Everything that goes into the environment.
pub(crate) struct Parts<'a> {
    pub(crate) base: &'a BTreeMap<OsString, OsString>,
    pub(crate) home: &'a Path,
    pub(crate) tmp: &'a Path,
    pub(crate) cli_config: &'a Path,
    pub(crate) data_dir: &'a Path,
    pub(crate) backend: Option<&'a Backend>,
    pub(crate) encryption: Option<&'a Secret>,
}

/// Variables that would change what a command does; dropped from the base whatever it says.
fn forbidden(name: &str) -> bool {
    name.starts_with("TF_CLI_ARGS")
        || matches!(
            name,
            "TF_WORKSPACE"
                | "TF_DATA_DIR"
                | "TF_CLI_CONFIG_FILE"
                | "TERRAFORM_CONFIG"
                | "TF_INPUT"
                | "TF_ENCRYPTION"
                | "TF_PLUGIN_CACHE_DIR"
                | "TF_REATTACH_PROVIDERS"
        )
        || name.starts_with("TF_HTTP_")
}

/// The whole environment.
pub(crate) fn environment(parts: &Parts<'_>) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = parts
        .base
        .iter()
        .filter(|(name, _)| !name.to_str().is_some_and(forbidden))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // The garbage collector of a process that lives for seconds costs a quarter of its time.
    env.entry("GOGC".into()).or_insert_with(|| "400".into());
    let mut set = |name: &str, value: OsString| env.insert(name.into(), value);
    set("HOME", parts.home.into());
    set("TMPDIR", parts.tmp.into());
    set("TF_IN_AUTOMATION", "1".into());
    set("TF_INPUT", "0".into());
    set("CHECKPOINT_DISABLE", "1".into());
    // With TLS a plugin makes a key at every start, which is half of a short command's time. Its socket lies in
    // TMPDIR, which nobody but us can enter.
    set(PLUGIN_TLS_OFF, "1".into());
    set("TF_CLI_CONFIG_FILE", parts.cli_config.into());
    set("TF_DATA_DIR", parts.data_dir.into());
    if let Some(backend) = parts.backend {
        set("TF_HTTP_ADDRESS", backend.address.clone().into());
        set("TF_HTTP_LOCK_ADDRESS", backend.lock_address.clone().into());
        set(
            "TF_HTTP_UNLOCK_ADDRESS",
            backend.unlock_address.clone().into(),
        );
        set("TF_HTTP_USERNAME", backend.username.clone().into());
        set("TF_HTTP_PASSWORD", backend.password.expose().into());
    }
    if let Some(encryption) = parts.encryption {
        set("TF_ENCRYPTION", encryption.expose().into());
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(
        base: &'a BTreeMap<OsString, OsString>,
        backend: Option<&'a Backend>,
    ) -> Parts<'a> {
        Parts {
            base,
            home: Path::new("/w/home"),
            tmp: Path::new("/w/tmp"),
            cli_config: Path::new("/w/cli.tofurc"),
            data_dir: Path::new("/w/data"),
            backend,
            encryption: None,
        }
    }

    fn names(env: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        env.keys().map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn at_defaults_it_holds_what_is_named_and_no_more() {
        let base = BTreeMap::from([("PATH".into(), "/bin".into())]);
        assert_eq!(
            names(&environment(&parts(&base, None))),
            [
                "CHECKPOINT_DISABLE",
                "GOGC",
                "HOME",
                "PATH",
                "TF_CLI_CONFIG_FILE",
                "TF_DATA_DIR",
                "TF_DISABLE_PLUGIN_TLS",
                "TF_INPUT",
                "TF_IN_AUTOMATION",
                "TMPDIR"
            ]
        );
    }

    #[test]
    fn what_would_change_the_command_is_dropped_even_from_the_base() {
        let base: BTreeMap<OsString, OsString> = [
            "TF_CLI_ARGS",
            "TF_CLI_ARGS_plan",
            "TF_WORKSPACE",
            "TF_HTTP_ADDRESS",
            "TF_ENCRYPTION",
            "HOME",
            "TF_LOG",
        ]
        .into_iter()
        .map(|name| (name.into(), "x".into()))
        .collect();
        let env = environment(&parts(&base, None));
        assert_eq!(env.get(&OsString::from("HOME")).unwrap(), "/w/home");
        for name in [
            "TF_CLI_ARGS",
            "TF_CLI_ARGS_plan",
            "TF_WORKSPACE",
            "TF_HTTP_ADDRESS",
            "TF_ENCRYPTION",
        ] {
            assert!(!env.contains_key(&OsString::from(name)), "{name}");
        }
        assert!(
            env.contains_key(&OsString::from("TF_LOG")),
            "what the target's [env] names is kept"
        );
    }

    #[test]
    fn the_targets_gogc_wins_and_the_backend_is_named_whole() {
        let base = BTreeMap::from([("GOGC".into(), "50".into())]);
        let backend = Backend {
            address: "http://127.0.0.1:1/s".into(),
            lock_address: "http://127.0.0.1:1/l".into(),
            unlock_address: "http://127.0.0.1:1/u".into(),
            username: "u".into(),
            password: Secret::new("pass word".to_owned()),
        };
        let env = environment(&parts(&base, Some(&backend)));
        assert_eq!(env.get(&OsString::from("GOGC")).unwrap(), "50");
        assert_eq!(
            env.get(&OsString::from("TF_HTTP_PASSWORD")).unwrap(),
            "pass word"
        );
        assert_eq!(
            names(&env)
                .iter()
                .filter(|name| name.starts_with("TF_HTTP_"))
                .count(),
            5
        );
    }
}
