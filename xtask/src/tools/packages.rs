//! Servers of the system that tests start on loopback ports: installed where that is possible without a question.

use std::path::Path;

use anyhow::Result;

use crate::sh::{Cmd, note, on_path};

/// A package of Debian's, and whether what is wanted of it is there, from wherever it came.
type Package = (&'static str, fn() -> bool);

const PACKAGES: [Package; 4] = [
    ("openssh-client", || on_path("ssh-keygen").is_some()),
    ("openssh-server", || {
        on_path("sshd").is_some() || Path::new("/usr/sbin/sshd").is_file()
    }),
    ("strace", || on_path("strace").is_some()),
    ("postgresql", || {
        on_path("postgres").is_some()
            || std::fs::read_dir("/usr/lib/postgresql")
                .into_iter()
                .flatten()
                .flatten()
                .any(|version| version.path().join("bin/postgres").is_file())
    }),
];

/// Installs what is missing, as root on a system with `apt-get`. Elsewhere what needs it says how to install it.
///
/// # Errors
///
/// Fails where `apt-get` does.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, is_there)| !is_there())
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some(apt) = on_path("apt-get") else {
        return Ok(());
    };
    note(&format!("installing {}", missing.join(", ")));
    let call = |args: &[&str]| {
        Cmd::new(&apt)
            .shown_as("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .run()
    };
    call(&["update", "-qq"])?;
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    call(&[&install, missing.as_slice()].concat())
}
