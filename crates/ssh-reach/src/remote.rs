//! What is run on a host, and what its answer says.

use fleet::Host;
use process::Exit;

use crate::ladder::{Outcome, Rung};

/// Says how far the machine is. Plain `sh`: nothing is known of the machine yet.
///
/// `cloud-init` tells whether the first boot is over, where it is there; else systemd does. Both are asked
/// without waiting: the wait is ours, with an end.
const SCRIPT: &str = r#"echo rebuild-login
if command -v cloud-init >/dev/null 2>&1; then
  echo "rebuild-boot cloud-init $(cloud-init status 2>/dev/null | sed -n 's/^status: *//p')"
elif [ -d /run/systemd/system ]; then
  echo "rebuild-boot systemd $(systemctl is-system-running 2>/dev/null)"
else
  echo "rebuild-boot none"
fi
for python in @own@ /usr/bin/python3 python3 /usr/local/bin/python3 /usr/libexec/platform-python; do
  found=$(command -v "$python" 2>/dev/null) && "$found" -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && echo "rebuild-python $found" && break
done
echo rebuild-end"#;

/// The script, for a host that may say itself where its Python is.
pub(crate) fn script(python: Option<&str>) -> String {
    SCRIPT.replace("@own@", python.unwrap_or_default())
}

/// The Python that a host's variable names, where that is a plain path; a template is Ansible's to run.
pub(crate) fn own_python(host: &Host) -> Option<&str> {
    let named = host.variables.get("ansible_python_interpreter")?.as_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    (named.starts_with('/') && named.chars().all(is_plain)).then_some(named)
}

/// Reads one call of the ssh client that ran the script. The top is the Python's path.
pub(crate) fn read(exit: Exit, stdout: &str, stderr: &str) -> Outcome<String> {
    let answers = |word: &str| {
        let prefix = format!("{word} ");
        stdout
            .lines()
            .find_map(move |line| line.trim_end().strip_prefix(&prefix).map(str::trim))
    };
    if !stdout
        .lines()
        .any(|line| line.trim_end() == "rebuild-login")
    {
        return not_logged_in(exit, stdout, stderr);
    }
    if !stdout.lines().any(|line| line.trim_end() == "rebuild-end") {
        return Outcome::NotYet {
            rung: Rung::Login,
            answer: format!("the connection ended early: {}", last_line(stderr, exit)),
        };
    }
    let boot = answers("rebuild-boot").unwrap_or("none");
    let answer = boot.to_owned();
    match boot.split_once(' ').unwrap_or((boot, "")) {
        ("cloud-init", status) if status.starts_with("error") => {
            return Outcome::Never {
                rung: Rung::Boot,
                answer: format!(
                    "{answer}: the machine's first boot failed; `cloud-init status --long` there says why"
                ),
            };
        }
        // Measured words of its versions; one that is off, or that never runs, has nothing to finish.
        ("cloud-init", status)
            if ["done", "degraded", "disabled"]
                .iter()
                .any(|word| status.starts_with(word)) => {}
        // A unit that failed does not hold the boot up; a machine that goes down, or into rescue, will not do.
        ("systemd", "running" | "degraded") | ("none", _) => {}
        _ => {
            return Outcome::NotYet {
                rung: Rung::Boot,
                answer,
            };
        }
    }
    match answers("rebuild-python") {
        Some(python) => Outcome::Top(python.to_owned()),
        None => Outcome::NotYet {
            rung: Rung::Python,
            answer: "no Python 3.7 or newer was found, which Ansible needs there: let the machine's image or first boot bring \
                     `python3`, or name its path by `ansible_python_interpreter` of the host"
                .to_owned(),
        },
    }
}

/// The client's own words decide: its exit code is 255 for all of them.
fn not_logged_in(exit: Exit, stdout: &str, stderr: &str) -> Outcome<String> {
    if stderr.contains("Host key verification failed")
        || stderr.contains("REMOTE HOST IDENTIFICATION HAS CHANGED")
    {
        return Outcome::Never {
            rung: Rung::HostKey,
            answer: wrong_key(stderr),
        };
    }
    let rung = if stderr.contains("Connection refused")
        || stderr.contains("timed out")
        || stderr.contains("No route to host")
        || stderr.contains("Network is unreachable")
        || stderr.contains("Could not resolve hostname")
        || stderr.contains("stdio forwarding failed")
        || stderr.contains("open failed")
    {
        Rung::Port
    } else if stderr.contains("banner exchange") || stderr.contains("kex_exchange_identification") {
        Rung::Banner
    } else if stderr.contains("Connection closed by") || stderr.contains("Connection reset by") {
        // While keys are exchanged: the server was there, and went.
        Rung::HostKey
    } else {
        Rung::Login
    };
    let said = if stderr.trim().is_empty() {
        stdout
    } else {
        stderr
    };
    Outcome::NotYet {
        rung,
        answer: last_line(said, exit),
    }
}

fn wrong_key(stderr: &str) -> String {
    let fingerprint = stderr
        .split_ascii_whitespace()
        .find(|word| word.starts_with("SHA256:"))
        .map(|word| word.trim_end_matches('.'));
    let unknown = stderr
        .lines()
        .find(|line| line.contains("host key is known for"));
    match (fingerprint, unknown) {
        (Some(fingerprint), _) => {
            format!("another key than the pinned one was shown: {fingerprint}")
        }
        (None, Some(line)) => format!(
            "a key of a kind that is not pinned was shown: {}",
            line.trim()
        ),
        (None, None) => "the key that was shown is not the one that the host must have".to_owned(),
    }
}

fn last_line(text: &str, exit: Exit) -> String {
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .map_or_else(|| exit.to_string(), |line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Exit = Exit::Code(255);

    #[test]
    fn a_host_may_say_itself_where_its_python_is() {
        let own = |python: &str| {
            let hosts = serde_json::json!({ "web1": { "address": "192.0.2.1", "ansible_python_interpreter": python } });
            let workspace = fleet::Workspace::parse("prod".parse().unwrap(), &hosts).unwrap();
            own_python(&workspace.hosts[0]).map(str::to_owned)
        };
        assert_eq!(
            own("/opt/py-3.12/bin/python3").as_deref(),
            Some("/opt/py-3.12/bin/python3")
        );
        for not_a_path in ["auto", "{{ x }}", "/a b", "/a;b", "/a$(b)"] {
            assert_eq!(own(not_a_path), None, "{not_a_path}");
        }
        assert!(script(Some("/opt/p")).contains("in /opt/p /usr/bin/python3 "));
        assert!(!script(None).contains('@'));
    }

    fn rung(stdout: &str, stderr: &str) -> (Rung, bool) {
        match read(FAILED, stdout, stderr) {
            Outcome::NotYet { rung, .. } => (rung, false),
            Outcome::Never { rung, .. } => (rung, true),
            Outcome::Top(python) => panic!("top with {python}"),
        }
    }

    fn booted(boot: &str) -> Outcome<String> {
        let stdout = format!(
            "motd\nrebuild-login\nrebuild-boot {boot}\nrebuild-python /usr/bin/python3\nrebuild-end\n"
        );
        read(Exit::Code(0), &stdout, "")
    }

    #[test]
    fn the_clients_words_name_the_rung() {
        for (stderr, expected) in [
            (
                "ssh: connect to host 192.0.2.1 port 22: Connection refused",
                Rung::Port,
            ),
            (
                "ssh: connect to host 192.0.2.1 port 22: Connection timed out",
                Rung::Port,
            ),
            (
                "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed",
                Rung::Port,
            ),
            (
                "kex_exchange_identification: Connection closed by remote host",
                Rung::Banner,
            ),
            (
                "root@192.0.2.1: Permission denied (publickey).",
                Rung::Login,
            ),
            ("", Rung::Login),
        ] {
            assert_eq!(rung("", stderr), (expected, false), "{stderr}");
        }
        assert_eq!(
            rung("This account is currently not available.\n", ""),
            (Rung::Login, false)
        );
        assert_eq!(
            rung("rebuild-login\n", "Connection reset"),
            (Rung::Login, false),
            "cut in the middle"
        );
    }

    /// Case H12.
    #[test]
    fn a_wrong_key_is_final() {
        let changed = "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nThe fingerprint for the ED25519 key sent by the remote host is\nSHA256:abc.\nHost key verification failed.\n";
        assert_eq!(rung("", changed), (Rung::HostKey, true));
        let Outcome::Never { answer, .. } = read(FAILED, "", changed) else {
            panic!()
        };
        assert!(answer.ends_with("SHA256:abc"), "{answer}");
        let unknown = "No ECDSA host key is known for [127.0.0.1]:1 and you have requested strict checking.\nHost key verification failed.\n";
        assert_eq!(rung("", unknown), (Rung::HostKey, true));
    }

    /// Case H10: a boot that goes on is waited for, one that failed is not.
    #[test]
    fn the_boot_is_over_running_or_failed() {
        for over in [
            "cloud-init done",
            "cloud-init degraded done",
            "cloud-init disabled",
            "systemd running",
            "systemd degraded",
            "none",
        ] {
            assert_eq!(
                booted(over),
                Outcome::Top("/usr/bin/python3".to_owned()),
                "{over}"
            );
        }
        for going_on in [
            "cloud-init running",
            "cloud-init not started",
            "cloud-init",
            "systemd starting",
            "systemd initializing",
            "systemd",
        ] {
            assert!(
                matches!(
                    booted(going_on),
                    Outcome::NotYet {
                        rung: Rung::Boot,
                        ..
                    }
                ),
                "{going_on}"
            );
        }
        assert!(matches!(
            booted("cloud-init error"),
            Outcome::Never {
                rung: Rung::Boot,
                ..
            }
        ));
    }

    #[test]
    fn a_machine_without_python_is_waited_for() {
        let outcome = read(
            Exit::Code(0),
            "rebuild-login\r\nrebuild-boot none\r\nrebuild-end\r\n",
            "",
        );
        assert!(matches!(
            outcome,
            Outcome::NotYet {
                rung: Rung::Python,
                ..
            }
        ));
    }
}
