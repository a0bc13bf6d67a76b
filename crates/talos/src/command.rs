//! `talosctl`'s command line, as of Talos 1.11 to 1.13.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::time::Duration;

use crate::machine::{Machine, Role};

/// Whom `talosctl` speaks for, and through whom.
#[derive(Debug, Clone)]
pub struct Client {
    /// The client configuration.
    pub talosconfig: PathBuf,
    /// The machines that calls go through: the control plane.
    pub endpoints: Vec<String>,
}

impl Client {
    /// Makes a client that goes through the control plane of these machines; through all where there is none.
    #[must_use]
    pub fn of(talosconfig: PathBuf, machines: &[Machine]) -> Self {
        let control: Vec<String> = addresses(machines, Role::ControlPlane);
        let endpoints = if control.is_empty() {
            machines
                .iter()
                .map(|machine| machine.address.clone())
                .collect()
        } else {
            control
        };
        Self {
            talosconfig,
            endpoints,
        }
    }

    fn call(&self, nodes: &[String], rest: &[&str]) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec!["--talosconfig".into(), self.talosconfig.clone().into()];
        argv.extend(["--endpoints".into(), self.endpoints.join(",").into()]);
        argv.extend(["--nodes".into(), nodes.join(",").into()]);
        argv.extend(rest.iter().map(OsString::from));
        argv
    }

    /// Asks a machine for its version.
    #[must_use]
    pub fn version(&self, machine: &Machine) -> Vec<OsString> {
        self.call(from_ref(&machine.address), &["version"])
    }

    /// Asks a machine for what tells one start of it from another. The path is the kernel's.
    #[must_use]
    pub fn boot_id(&self, machine: &Machine) -> Vec<OsString> {
        let file = "/proc/sys/kernel/random/boot_id";
        self.call(from_ref(&machine.address), &["read", file])
    }

    /// Asks whether the cluster is healthy, for at most this long.
    #[must_use]
    pub fn health(&self, machines: &[Machine], wait: Duration) -> Vec<OsString> {
        let control = addresses(machines, Role::ControlPlane);
        let workers = addresses(machines, Role::Worker).join(",");
        // The check runs on one control plane machine, and is told of all.
        let first: Vec<String> = control.first().cloned().into_iter().collect();
        let wait = format!("{}s", wait.as_secs().max(1));
        let control = control.join(",");
        let mut rest = vec!["health", "--wait-timeout", &wait];
        rest.extend(["--control-plane-nodes", &control]);
        if !workers.is_empty() {
            rest.extend(["--worker-nodes", &workers]);
        }
        self.call(&first, &rest)
    }

    /// Asks every member of etcd how it is.
    #[must_use]
    pub fn etcd_status(&self, machines: &[Machine]) -> Vec<OsString> {
        let control = addresses(machines, Role::ControlPlane);
        self.call(&control, &["etcd", "status"])
    }

    /// Upgrades a machine. It is drained and taken back by `talosctl` and by Talos itself, and by nobody else.
    #[must_use]
    pub fn upgrade(&self, machine: &Machine, image: &str, limit: Duration) -> Vec<OsString> {
        let limit = format!("{}s", limit.as_secs().max(1));
        let rest = ["upgrade", "--image", image, "--wait", "--timeout", &limit];
        self.call(from_ref(&machine.address), &rest)
    }

    /// Patches a machine's configuration.
    #[must_use]
    pub fn patch(&self, machine: &Machine, patch: &Path) -> Vec<OsString> {
        let patch = format!("@{}", patch.display());
        let rest = ["patch", "machineconfig", "--patch", &patch];
        self.call(from_ref(&machine.address), &rest)
    }
}

/// A machine without a configuration: it answers anybody.
#[derive(Debug, Clone)]
pub struct Maintenance {
    /// Where it answers.
    pub address: String,
}

impl Maintenance {
    fn call(&self, rest: &[&str]) -> Vec<OsString> {
        let mut argv: Vec<OsString> = rest.iter().map(OsString::from).collect();
        argv.extend(["--insecure".into(), "--nodes".into()]);
        argv.push(self.address.clone().into());
        argv
    }

    /// Asks for its version.
    #[must_use]
    pub fn version(&self) -> Vec<OsString> {
        self.call(&["version"])
    }

    /// Asks for its disks.
    #[must_use]
    pub fn disks(&self) -> Vec<OsString> {
        self.call(&["get", "disks", "--output", "json"])
    }

    /// Asks for its network interfaces.
    #[must_use]
    pub fn links(&self) -> Vec<OsString> {
        self.call(&["get", "links", "--output", "json"])
    }
}

fn addresses(machines: &[Machine], role: Role) -> Vec<String> {
    machines
        .iter()
        .filter(|machine| machine.role == role)
        .map(|machine| machine.address.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_names_its_configuration_its_way_in_and_its_machines() {
        let machine = |name: &str, address: &str, role| Machine {
            role,
            name: name.to_owned(),
            address: address.to_owned(),
        };
        let all = [
            machine("a", "10.0.0.1", Role::ControlPlane),
            machine("b", "10.0.0.2", Role::ControlPlane),
            machine("w", "10.0.0.3", Role::Worker),
        ];
        let client = Client::of("/m/config".into(), &all);
        let text = |argv: Vec<OsString>| {
            let words: Vec<String> = argv
                .iter()
                .map(|word| word.to_string_lossy().into())
                .collect();
            words.join(" ")
        };
        let start = "--talosconfig /m/config --endpoints 10.0.0.1,10.0.0.2 --nodes";
        let limit = Duration::from_secs(900);
        for (argv, expected) in [
            (client.version(&all[2]), "10.0.0.3 version"),
            (
                client.boot_id(&all[0]),
                "10.0.0.1 read /proc/sys/kernel/random/boot_id",
            ),
            (
                client.health(&all, Duration::from_secs(60)),
                "10.0.0.1 health --wait-timeout 60s --control-plane-nodes 10.0.0.1,10.0.0.2 --worker-nodes 10.0.0.3",
            ),
            (client.etcd_status(&all), "10.0.0.1,10.0.0.2 etcd status"),
            (
                client.upgrade(&all[2], "i:v1", limit),
                "10.0.0.3 upgrade --image i:v1 --wait --timeout 900s",
            ),
            (
                client.patch(&all[0], Path::new("/t/p.yaml")),
                "10.0.0.1 patch machineconfig --patch @/t/p.yaml",
            ),
        ] {
            assert_eq!(text(argv), format!("{start} {expected}"));
        }
        let new = Maintenance {
            address: "10.0.0.9".to_owned(),
        };
        assert_eq!(
            text(new.disks()),
            "get disks --output json --insecure --nodes 10.0.0.9"
        );
    }
}
