//! The environment of a step: built from nothing, by an allow-list and what the target names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variables of a child process, by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// What a step may see of the caller: where programs are, who and which language, proxies, CA files.
const PASSED: &[&str] = &[
    "PATH",
    "USER",
    "LANG",
    "TERM",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
];

/// Prefixes of variables that steer a tool or open a cloud; dropping one of these is worth a word.
const STEERING: &[&str] = &[
    "TF_",
    "TOFU_",
    "ANSIBLE_",
    "AWS_",
    "ARM_",
    "AZURE_",
    "GOOGLE_",
    "GCP_",
    "CLOUDSDK_",
    "OCI_",
    "OS_",
    "GITLAB_",
    "BW_",
    "BWS_",
    "TALOS",
    "KUBE",
    "VAULT_",
    "CLOUDFLARE_",
    "DIGITALOCEAN_",
    "HCLOUD_",
    "TAILSCALE_",
    "PROXMOX_",
    "SSH_AUTH_SOCK",
];

/// Builds the base of every step's environment: the allow-list, and a private HOME and TMPDIR.
#[must_use]
pub fn base(caller: &Environment, home: &Path, tmp: &Path) -> Environment {
    let mut env: Environment = caller
        .iter()
        .filter(|(name, _)| {
            PASSED
                .iter()
                .any(|passed| name.as_os_str() == OsStr::new(passed))
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    env.insert("HOME".into(), home.into());
    env.insert("TMPDIR".into(), tmp.into());
    env
}

/// Names the caller's variables that steer a tool and were dropped; values never.
#[must_use]
pub fn dropped(caller: &Environment, named: &BTreeSet<String>) -> Vec<String> {
    caller
        .keys()
        .filter_map(|name| name.to_str())
        .filter(|name| !PASSED.contains(name) && !named.contains(*name))
        .filter(|name| STEERING.iter().any(|prefix| name.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(names: &[&str]) -> Environment {
        names
            .iter()
            .map(|name| (OsString::from(name), OsString::from("x")))
            .collect()
    }

    #[test]
    fn only_the_allow_list_reaches_a_step() {
        let env = base(
            &caller(&[
                "PATH",
                "HOME",
                "TF_CLI_ARGS_plan",
                "AWS_PROFILE",
                "EDITOR",
                "https_proxy",
            ]),
            Path::new("/h"),
            Path::new("/t"),
        );
        let names: Vec<_> = env
            .keys()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["HOME", "PATH", "TMPDIR", "https_proxy"]);
        assert_eq!(env[OsStr::new("HOME")], "/h");
    }

    #[test]
    fn dropped_names_are_those_that_steer_a_tool_and_that_nobody_named() {
        let named = BTreeSet::from(["OS_CLOUD".to_owned()]);
        let dropped = dropped(
            &caller(&[
                "TF_WORKSPACE",
                "OS_CLOUD",
                "EDITOR",
                "AWS_CA_BUNDLE",
                "ANSIBLE_CONFIG",
            ]),
            &named,
        );
        assert_eq!(dropped, ["ANSIBLE_CONFIG", "TF_WORKSPACE"]);
    }
}
