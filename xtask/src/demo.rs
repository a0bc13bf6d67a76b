//! The main job, shown: the example platform is built from nothing, looked at, and torn down.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::sh::{Cmd, build, copy_tree, note, path_with, root, write};
use crate::{test, tools};

/// The commands of the demo, in order.
const CALLS: [&[&str]; 4] = [
    &["up", "--target", "drill", "--no-pause"],
    &["status", "--target", "drill"],
    &["preflight", "--target", "drill"],
    &["down", "--target", "drill"],
];

/// The servers of the lab, with the values of the target that say where they listen.
const SERVERS: [(&str, &str); 4] = [
    ("edge", "edge_port"),
    ("tunnel", "tunnel_port"),
    ("core", "core_port"),
    ("metrics", "metrics_port"),
];

/// Runs it; fails at the first command that does.
pub(crate) fn run() -> Result<()> {
    test::demand_programs()?;
    let tools = tools::ensure(&tools::default_directory())?;
    let rebuild = build("rebuild", "rebuild", false)?;
    let lab = Lab::set_up()?;
    let tofu = tools
        .tofu
        .path
        .parent()
        .context("tofu has a directory")?
        .to_path_buf();

    let begun = Instant::now();
    for args in CALLS {
        let started = Instant::now();
        let call = Cmd::new(&rebuild)
            .shown_as("rebuild")
            .args(args)
            .current_dir(&lab.platform)
            .env("PATH", path_with(&tofu)?)
            .env("HOME", lab.directory.path().join("home"))
            .env("XDG_STATE_HOME", lab.directory.path().join("state"))
            .without_env("XDG_CONFIG_HOME")
            .without_env("TF_CLI_CONFIG_FILE");
        note("");
        if let Err(error) = call.run() {
            let kept = lab.give_up();
            return Err(error.context(format!(
                "the demo failed; what it left is in `{}`",
                kept.display()
            )));
        }
        note(&format!("({:.1} s)", started.elapsed().as_secs_f64()));
    }
    if lab.path().exists() {
        let kept = lab.give_up();
        bail!(
            "`down` said that all is gone, and the lab is still there, in `{}`",
            kept.display()
        );
    }
    note(&format!(
        "\nbuilt, proven and torn down in {:.1} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// A copy of the example platform that is nobody else's.
struct Lab {
    directory: TempDir,
    platform: PathBuf,
    ports: Vec<u16>,
}

impl Lab {
    /// Copies the example, gives it a directory and ports of its own, and commits it.
    fn set_up() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("rebuild-demo-")
            .tempdir()
            .context("no temporary directory")?;
        // On macOS the temporary directory is a link, and OpenTofu shows where it leads.
        let here = directory
            .path()
            .canonicalize()
            .context("no temporary directory")?;
        let platform = here.join("homelab");
        copy_tree(&root().join("examples/homelab"), &platform)?;
        std::fs::create_dir(here.join("home")).context("cannot make a home directory")?;

        let target = platform.join("targets/drill.toml");
        let text = std::fs::read_to_string(&target).context("the example has no target `drill`")?;
        let lab = toml::Value::String(here.join("lab").to_string_lossy().into_owned()).to_string();
        let mut text = with_value(&text, "lab", &lab)?;
        let ports = free_ports(SERVERS.len())?;
        for ((_, value), port) in SERVERS.iter().zip(&ports) {
            text = with_value(&text, value, &port.to_string())?;
        }
        write(&target, &text)?;

        let git = |args: &[&str]| {
            Cmd::new("git")
                .args([
                    "-c",
                    "user.name=demo",
                    "-c",
                    "user.email=demo@example.org",
                    "-c",
                    "commit.gpgsign=false",
                ])
                .args(args)
                .current_dir(&platform)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .quiet()
        };
        git(&["init", "--quiet"])?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message", "The lab"])?;
        note(&format!(
            "platform: a copy of examples/homelab in {}",
            platform.display()
        ));
        Ok(Self {
            directory,
            platform,
            ports,
        })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("lab")
    }

    /// Stops the servers that a failed demo left, and keeps the files for whoever looks for the reason.
    fn give_up(self) -> PathBuf {
        let program = self.platform.join("modules/service/service.py");
        for ((name, _), port) in SERVERS.iter().zip(&self.ports) {
            let stopped = Cmd::new("python3")
                .arg(&program)
                .args(["stop", "--lab"])
                .arg(self.path())
                .args(["--name", name, "--port", &port.to_string()])
                .quiet();
            if let Err(error) = stopped {
                note(&format!("{error:#}"));
            }
        }
        self.directory.keep()
    }
}

/// Returns the target file with another value for a name that it sets.
fn with_value(text: &str, name: &str, value: &str) -> Result<String> {
    let mut found = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once('=') {
            Some((key, _)) if key.trim() == name => {
                found = true;
                format!("{name} = {value}")
            }
            _ => line.to_owned(),
        })
        .collect();
    if !found {
        bail!("targets/drill.toml sets no `{name}`");
    }
    Ok(lines.join("\n") + "\n")
}

/// Returns ports that nobody listens on, all of them different, and none that the system gives to a
/// connection by itself.
fn free_ports(n_ports: usize) -> Result<Vec<u16>> {
    let first = (std::process::id() % 1000) as u16 * 10;
    let ports: Vec<u16> = (0..10_000u16)
        .map(|offset| 20_000 + (first + offset) % 10_000)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .take(n_ports)
        .collect();
    if ports.len() < n_ports {
        bail!("no free port on the loopback address between 20000 and 29999");
    }
    Ok(ports)
}

/// Returns the example's directory, for the tests of this crate.
#[cfg(test)]
fn example() -> PathBuf {
    root().join("examples/homelab")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_drill_sets_every_value_that_the_demo_gives_it() {
        let text = std::fs::read_to_string(example().join("targets/drill.toml"))
            .expect("the example has a drill");
        for name in SERVERS.map(|(_, value)| value).into_iter().chain(["lab"]) {
            let changed = with_value(&text, name, "1").expect("the drill sets it");
            assert!(changed.contains(&format!("\n{name} = 1\n")), "{changed}");
        }
    }

    #[test]
    fn a_lab_is_a_committed_copy_with_places_of_its_own() {
        let lab = Lab::set_up().expect("git is there");
        let git = |args: &[&str]| {
            Cmd::new("git")
                .args(args)
                .current_dir(&lab.platform)
                .read()
                .expect("it is a repository")
        };
        assert_eq!(git(&["rev-list", "--count", "HEAD"]).trim(), "1");
        assert_eq!(git(&["status", "--porcelain"]), "");
        // The programs of the platform are still programs, in the commit as well.
        assert!(git(&["ls-files", "--stage", "bin/left-over"]).starts_with("100755 "));
        let target = std::fs::read_to_string(lab.platform.join("targets/drill.toml"))
            .expect("the drill is there");
        let table: toml::Table = target.parse().expect("a target is TOML");
        let place = table["values"]["lab"].as_str().expect("the lab is a path");
        assert!(
            Path::new(place).starts_with(lab.platform.parent().expect("it has a directory")),
            "{place}"
        );
        assert_eq!(
            table["values"]["edge_port"].as_integer(),
            Some(i64::from(lab.ports[0]))
        );
    }

    #[test]
    fn a_value_that_the_target_does_not_set_is_an_error() {
        assert!(with_value("[values]\nlab = \"/x\"\n", "edge_port", "1").is_err());
    }

    #[test]
    fn both_targets_of_the_example_set_the_same_values() {
        let names = |target: &str| -> Vec<String> {
            let text = std::fs::read_to_string(example().join("targets").join(target))
                .expect("the target exists");
            let table: toml::Table = text.parse().expect("a target is TOML");
            table["values"]
                .as_table()
                .expect("values is a table")
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(names("drill.toml"), names("live.toml"));
    }

    #[test]
    fn free_ports_differ() {
        let mut ports = free_ports(4).expect("the loopback address has four ports");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 4);
    }
}
