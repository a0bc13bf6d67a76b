//! A real agent that holds a lab's key.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::ssh_server::{SshLab, program};

/// An agent; ended when dropped.
#[derive(Debug)]
pub struct SshAgent {
    socket: PathBuf,
    child: Child,
}

impl SshAgent {
    /// Starts an agent and gives it the lab's key, whose file is gone afterwards: nothing but the agent opens the
    /// lab's servers from then on.
    ///
    /// # Panics
    /// When `ssh-agent` or `ssh-add` is missing or fails.
    #[must_use]
    pub fn with_key_of(lab: &SshLab) -> Self {
        let socket = lab.dir().join("agent");
        let mut child = program("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`ssh-agent` is missing: install OpenSSH's client (Debian: `apt install openssh-client`)");
        // It says where it listens once it does.
        let mut said = String::new();
        let stdout = child.stdout.take().expect("a piped stdout");
        let _ = BufReader::new(stdout).read_line(&mut said);
        let agent = Self { socket, child };
        assert!(
            agent.add(&lab.identity()),
            "`ssh-add` can't give the agent its key; it said {said:?}"
        );
        std::fs::remove_file(lab.identity()).expect("the key's file");
        agent
    }

    fn add(&self, key: &Path) -> bool {
        let ended = program("ssh-add")
            .arg("-q")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("`ssh-add`");
        ended.success()
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
