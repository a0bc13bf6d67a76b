//! What tests of SSH and Ansible need: an SSH server of the system, Ansible in a virtual environment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Tool;
use crate::sh::{Cmd, demand, note, on_path, root, write};

/// The Ansible that `tools/ansible/requirements.txt` names.
const ANSIBLE: &str = "2.19.14";
/// Where systems keep a server that is not on a user's PATH.
const SERVERS: [&str; 3] = [
    "/usr/sbin/sshd",
    "/usr/local/sbin/sshd",
    "/usr/lib/ssh/sshd",
];
const INSTALL_SSHD: &str =
    "install OpenSSH's server (Debian: `apt install openssh-server`; macOS has it)";
const INSTALL_STRACE: &str = "install strace (Debian: `apt install strace`)";
const INSTALL_CLIENT: &str = "install OpenSSH's client (Debian: `apt install openssh-client`)";
const INSTALL_PYTHON: &str =
    "install Python 3.11 or newer with its `venv` (Debian: `apt install python3-venv`)";

/// Where they are.
pub(crate) struct Reach {
    /// `ansible-playbook`, with the other programs of Ansible beside it.
    pub(crate) ansible: Tool,
    /// The SSH server, which tests start on loopback ports as whoever runs them.
    pub(crate) sshd: PathBuf,
    /// What shows each write of a program and its children, and kills it at one: Linux alone.
    pub(crate) strace: Option<PathBuf>,
}

impl Reach {
    /// Returns the variables by which tests find them.
    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let strace = self.strace.clone();
        let strace = strace.map(|strace| ("REBUILD_TEST_STRACE", strace));
        [
            ("REBUILD_TEST_ANSIBLE", self.ansible.path.clone()),
            ("REBUILD_TEST_SSHD", self.sshd.clone()),
        ]
        .into_iter()
        .chain(strace)
        .collect()
    }
}

/// Finds the SSH server and installs Ansible.
///
/// # Errors
///
/// Fails with what to install where something is missing that it can't install.
pub(crate) fn ensure(into: &Path) -> Result<Reach> {
    std::fs::create_dir_all(into).with_context(|| format!("cannot make `{}`", into.display()))?;
    let into = into
        .canonicalize()
        .with_context(|| format!("cannot find `{}`", into.display()))?;
    for client in ["ssh", "ssh-keygen"] {
        demand(client, "hosts are reached by it", INSTALL_CLIENT)?;
    }
    let server = SERVERS
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file());
    let sshd = server.or_else(|| on_path("sshd")).with_context(|| {
        format!("there is no `sshd`, which tests start on loopback ports: {INSTALL_SSHD}")
    })?;
    let strace = match cfg!(target_os = "linux") {
        true => Some(on_path("strace").with_context(|| {
            format!("there is no `strace`, which shows where secrets are written: {INSTALL_STRACE}")
        })?),
        false => None,
    };
    let ansible = ansible(&into)?;
    Ok(Reach {
        ansible,
        sshd,
        strace,
    })
}

fn ansible(into: &Path) -> Result<Tool> {
    let home = into.join("ansible");
    let path = home.join("bin/ansible-playbook");
    let requirements = root().join("tools/ansible/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read `{}`", requirements.display()))?;
    let marker = into.join("ansible.version");
    // A virtual environment holds its own path, so one that was moved is made anew.
    let wanted = format!("{}\n{wanted}", home.display());
    let is_made = std::fs::read_to_string(&marker).is_ok_and(|said| said == wanted);
    if !is_made || !path.is_file() {
        let python = demand("python3", "Ansible runs on it", INSTALL_PYTHON)?;
        note(&format!("installing ansible-core {ANSIBLE}"));
        if home.exists() {
            std::fs::remove_dir_all(&home)
                .with_context(|| format!("cannot remove `{}`", home.display()))?;
        }
        Cmd::new(python)
            .shown_as("python3")
            .args(["-m", "venv"])
            .arg(&home)
            .run()
            .context(INSTALL_PYTHON)?;
        Cmd::new(home.join("bin/pip"))
            .shown_as("pip")
            .args([
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
                "--requirement",
            ])
            .arg(&requirements)
            .run()?;
        if !path.is_file() {
            bail!("ansible-core {ANSIBLE} has no `ansible-playbook`");
        }
        write(&marker, &wanted)?;
    }
    Ok(Tool {
        path,
        version: ANSIBLE.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pin_is_what_is_installed() {
        let file = root().join("tools/ansible/requirements.txt");
        let text = std::fs::read_to_string(file).expect("part of the tree");
        assert!(
            text.contains(&format!("ansible-core=={ANSIBLE}\n")),
            "{text}"
        );
    }
}
