//! Real SSH servers on loopback addresses, as whoever runs the tests.

use std::net::{IpAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::world::write_file;

/// The directory of some servers, with the key that opens them.
#[derive(Debug)]
pub struct SshLab {
    dir: tempfile::TempDir,
}

impl SshLab {
    /// Makes the key.
    ///
    /// # Panics
    /// When `ssh-keygen` is missing or fails.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("rebuild-ssh-")
            .tempdir()
            .expect("a temporary directory");
        let lab = Self { dir };
        lab.make_key("client");
        lab
    }

    /// The lab's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The private key that opens the servers.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.dir().join("client")
    }

    /// Makes a key pair of this name and returns the public half.
    ///
    /// # Panics
    /// When `ssh-keygen` is missing or fails.
    pub fn make_key(&self, name: &str) -> String {
        let path = self.dir().join(name);
        let path_text = path.to_str().expect("a plain path");
        self.ssh_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path_text]);
        let public = std::fs::read_to_string(path.with_extension("pub")).expect("a public key");
        public.trim().to_owned()
    }

    /// Signs a server's key for its address, as a host authority does.
    ///
    /// # Panics
    /// When `ssh-keygen` fails.
    pub fn sign_host_key(&self, authority: &str, server: &SshServer) {
        let authority = self.dir().join(authority);
        let key = server.dir.join("host_key.pub");
        let principal = server.address.to_string();
        let [authority, key] = [&authority, &key].map(|path| path.to_str().expect("a plain path"));
        self.ssh_keygen(&[
            "-q", "-s", authority, "-I", "host", "-h", "-n", &principal, key,
        ]);
    }

    fn ssh_keygen(&self, args: &[&str]) {
        let ended = program("ssh-keygen")
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("`ssh-keygen` is missing: install OpenSSH's client (Debian: `apt install openssh-client`)");
        assert!(
            ended.status.success(),
            "ssh-keygen {args:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }

    /// Makes a server that is not started yet, at a free port of this loopback address. It lets the lab's key in.
    ///
    /// # Panics
    /// When its files can't be made.
    #[must_use]
    pub fn server(&self, name: &str, address: &str) -> SshServer {
        let address: IpAddr = address.parse().expect("an address");
        let dir = self.dir().join(name);
        std::fs::create_dir_all(dir.join("bin")).expect("a server's directory");
        self.make_key(&format!("{name}/host_key"));
        let listener = TcpListener::bind((address, 0)).expect("a free port of a loopback address");
        let port = listener.local_addr().expect("its own address").port();
        drop(listener);
        self.server_on(name, address, port, None)
    }

    /// Makes a server that is not started yet, at port 22 of an address of a network namespace.
    ///
    /// # Panics
    /// When its files can't be made.
    #[must_use]
    pub fn server_in(&self, name: &str, namespace: &str, address: IpAddr) -> SshServer {
        let dir = self.dir().join(name);
        std::fs::create_dir_all(dir.join("bin")).expect("a server's directory");
        self.make_key(&format!("{name}/host_key"));
        self.server_on(name, address, 22, Some(namespace.to_owned()))
    }

    fn server_on(
        &self,
        name: &str,
        address: IpAddr,
        port: u16,
        namespace: Option<String>,
    ) -> SshServer {
        let server = SshServer {
            address,
            port,
            dir: self.dir().join(name),
            namespace,
            child: None,
        };
        server.admit(true, self);
        server
    }
}

impl Default for SshLab {
    fn default() -> Self {
        Self::new()
    }
}

/// One server; ended when dropped.
#[derive(Debug)]
pub struct SshServer {
    /// Where it listens.
    pub address: IpAddr,
    /// On which port.
    pub port: u16,
    dir: PathBuf,
    namespace: Option<String>,
    child: Option<Child>,
}

impl SshServer {
    /// The public half of its host key.
    ///
    /// # Panics
    /// When it can't be read.
    #[must_use]
    pub fn host_key(&self) -> String {
        let text = std::fs::read_to_string(self.dir.join("host_key.pub")).expect("a host key");
        text.trim().to_owned()
    }

    /// The first directory on the PATH of whoever logs in.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// Puts a program there that everyone who logs in finds first.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn program(&self, name: &str, shell: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        // Renamed into place: nobody ever finds half of it, or one that is still open.
        let path = self.bin().join(name);
        let new = self.dir.join(format!("{name}.new"));
        write_file(&new, &format!("#!/bin/sh\n{shell}\n"));
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        std::fs::rename(&new, &path).expect("a program in its place");
    }

    /// Lets the lab's key in, or nobody.
    pub fn admit(&self, is_admitted: bool, lab: &SshLab) {
        let public = lab.identity().with_extension("pub");
        let keys = if is_admitted {
            std::fs::read_to_string(public).expect("the lab's key")
        } else {
            String::new()
        };
        write_file(&self.dir.join("authorized_keys"), &keys);
    }

    /// Gives it another host key, as a machine that was made anew has.
    ///
    /// # Panics
    /// When the key can't be made.
    pub fn new_host_key(&self, lab: &SshLab) {
        for name in ["host_key", "host_key.pub"] {
            std::fs::remove_file(self.dir.join(name)).expect("the old key");
        }
        let name = self
            .dir
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        lab.make_key(&format!("{name}/host_key"));
    }

    /// Makes the key that it is to have next, as a machine that will be made anew, and returns the public half.
    ///
    /// # Panics
    /// When the key can't be made.
    #[must_use]
    pub fn next_host_key(&self, lab: &SshLab) -> String {
        let name = self.dir.file_name().expect("a name").to_string_lossy();
        lab.make_key(&format!("{name}/next_key"))
    }

    /// Takes that key from now on: a server reads its keys anew for each connection.
    ///
    /// # Panics
    /// When there is none.
    pub fn take_next_host_key(&self) {
        for end in ["", ".pub"] {
            let [from, to] =
                ["next_key", "host_key"].map(|name| self.dir.join(format!("{name}{end}")));
            std::fs::rename(from, to).expect("the next key in its place");
        }
    }

    /// Starts it and waits until it listens.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&mut self) {
        use std::io::{BufRead as _, BufReader};
        assert!(self.child.is_none(), "it runs already");
        let config = self.write_config();
        // The system's service makes it where it runs; a server that root starts does not do without.
        if rustix::process::geteuid().is_root() {
            let _ = std::fs::create_dir_all("/run/sshd");
        }
        let mut sshd_there = match &self.namespace {
            None => program(sshd()),
            Some(namespace) => {
                let mut entered = program("ip");
                entered.args(["netns", "exec", namespace]).arg(sshd());
                entered
            }
        };
        let mut child = sshd_there
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("an SSH server");
        let mut lines = BufReader::new(child.stderr.take().expect("a piped stderr")).lines();
        let mut said = Vec::new();
        let is_up = loop {
            match lines.next() {
                Some(Ok(line)) if line.contains("Server listening on") => break true,
                Some(Ok(line)) => said.push(line),
                _ => break false,
            }
        };
        self.child = Some(child);
        assert!(is_up, "sshd did not start:\n{}", said.join("\n"));
        // Whoever fills the pipe would stop there.
        std::thread::spawn(move || lines.for_each(drop));
    }

    fn write_config(&self) -> PathBuf {
        let dir = self.dir.display();
        let certificate = self.dir.join("host_key-cert.pub");
        let signed = if certificate.exists() {
            format!("HostCertificate {}\n", certificate.display())
        } else {
            String::new()
        };
        let config = self.dir.join("sshd_config");
        write_file(
            &config,
            &format!(
                "Port {port}\nListenAddress {address}\nHostKey {dir}/host_key\n{signed}PidFile none\n\
                 AuthorizedKeysFile {dir}/authorized_keys\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
                 PrintMotd no\nPrintLastLog no\nMaxStartups 200\nAllowTcpForwarding yes\n\
                 SetEnv PATH={dir}/bin:/usr/local/bin:/usr/bin:/bin\nLogLevel INFO\n",
                port = self.port,
                address = self.address,
            ),
        );
        config
    }

    /// Ends it, and whoever is logged in.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let group = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The name of the user who runs the tests, and logs in.
///
/// # Panics
/// When the system does not know it.
#[must_use]
pub fn login_name() -> String {
    let ended = program("id").arg("-un").output().expect("`id`");
    String::from_utf8(ended.stdout)
        .expect("a name")
        .trim()
        .to_owned()
}

/// The ssh client.
///
/// # Panics
/// When it is missing.
#[must_use]
pub fn ssh_client() -> PathBuf {
    [
        "/usr/bin/ssh",
        "/usr/local/bin/ssh",
        "/opt/homebrew/bin/ssh",
    ]
    .into_iter()
    .map(PathBuf::from)
    .find(|path| path.exists())
    .expect("`ssh` is missing: install OpenSSH's client (Debian: `apt install openssh-client`)")
}

#[expect(clippy::disallowed_methods, reason = "a test finds its tools by it")]
fn sshd() -> PathBuf {
    std::env::var_os("REBUILD_TEST_SSHD").map(PathBuf::from).expect(
        "REBUILD_TEST_SSHD names no SSH server: run the tests by `cargo xtask test`, or name `/usr/sbin/sshd` (Debian: `apt install openssh-server`)",
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests must not lean on the crate that they test"
)]
pub(crate) fn program(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env_clear().env(
        "PATH",
        "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/opt/homebrew/bin",
    );
    command
}
