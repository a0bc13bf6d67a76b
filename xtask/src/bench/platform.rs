//! The platform that both sides build, and `rebuild` on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::meter::{Reading, measure};
use crate::sh::{Cmd, path_with, write};
use crate::tools::Tools;

/// The phases; each has one root module, and each but the first reads an output of the one before.
pub(super) const PHASES: [&str; 7] = ["0", "1a", "1b", "1c", "2", "3", "4"];
/// What encrypts the states of both sides.
pub(super) const PASSPHRASE: &str = "a passphrase for the bench";

/// Returns the directory of a phase's root module within the platform.
pub(super) fn root_module(phase: &str) -> String {
    format!("phases/{phase}")
}

/// Writes the root modules of all phases below a directory.
pub(super) fn write_root_modules(platform: &Path, n_objects: usize) -> Result<()> {
    for phase in PHASES {
        let directory = platform.join(root_module(phase));
        std::fs::create_dir_all(&directory).context("cannot make a root module")?;
        write(
            &directory.join("main.tf"),
            &format!(
                r#"terraform {{
  required_version = "~> 1.12"

  required_providers {{
    local = {{
      source  = "hashicorp/local"
      version = "1.4.0"
    }}
  }}
}}

variable "lab" {{
  type = string
}}

variable "before" {{
  type    = string
  default = "nothing"
}}

resource "local_file" "object" {{
  count    = {n_objects}
  filename = "${{var.lab}}/{phase}-${{count.index}}"
  content  = "phase {phase} after ${{var.before}}"
}}

output "made" {{
  value = local_file.object[0].filename
}}
"#
            ),
        )?;
    }
    Ok(())
}

/// `rebuild` on a platform of its own.
pub(super) struct Rebuild {
    program: PathBuf,
    directory: PathBuf,
    path: OsString,
    encrypted: bool,
}

impl Rebuild {
    /// Writes the platform and commits it.
    pub(super) fn set_up(
        here: &Path,
        tools: &Tools,
        program: &Path,
        n_objects: usize,
        encrypted: bool,
    ) -> Result<Self> {
        let platform = here.join("platform");
        for directory in [
            platform.join("targets"),
            here.join("lab"),
            here.join("home"),
        ] {
            std::fs::create_dir_all(&directory).context("cannot make the platform")?;
        }
        write_root_modules(&platform, n_objects)?;
        // The CLI configuration is a file of the platform.
        std::fs::copy(&tools.cli_config, platform.join("tofu.tfrc"))
            .context("cannot copy the CLI configuration")?;
        write(&platform.join("rebuild.toml"), &definitions())?;
        let encryption = if encrypted {
            "[encryption]\npassphrase = { env = \"BENCH_PASSPHRASE\" }\n\n"
        } else {
            ""
        };
        let lab = toml::Value::String(here.join("lab").to_string_lossy().into_owned());
        write(
            &platform.join("targets/drill.toml"),
            &format!("{encryption}[values]\nlab = {lab}\n"),
        )?;
        for args in [
            &["init", "--quiet"][..],
            &["add", "--all"],
            &[
                "-c",
                "user.name=bench",
                "-c",
                "user.email=bench@example.org",
                "commit",
                "--quiet",
                "--message",
                "Bench",
            ],
        ] {
            Cmd::new("git")
                .args(args)
                .current_dir(&platform)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .quiet()?;
        }
        let tofu = tools.tofu.path.parent().context("tofu has a directory")?;
        Ok(Self {
            program: program.to_path_buf(),
            directory: here.to_path_buf(),
            path: path_with(tofu)?,
            encrypted,
        })
    }

    /// Runs one of the measured parts.
    pub(super) fn part(&self, part: usize) -> Result<Reading> {
        match part {
            0 | 2 => self.call(&["up", "--no-pause"]),
            1 => self.call(&["preflight"]),
            _ => self.call(&["down"]),
        }
    }

    /// Checks the definitions, which touches no target.
    pub(super) fn check(&self) -> Result<Reading> {
        self.measured(&["check"])
    }

    /// Runs `rebuild` on the target.
    fn call(&self, args: &[&str]) -> Result<Reading> {
        self.measured(&[args, &["--target", "drill"]].concat())
    }

    fn measured(&self, args: &[&str]) -> Result<Reading> {
        let mut call = Cmd::new(&self.program)
            .shown_as("rebuild")
            .args(args)
            .arg("--platform")
            .arg(self.directory.join("platform"))
            .current_dir(&self.directory)
            .env("PATH", &self.path)
            .env("HOME", self.directory.join("home"))
            .env("XDG_STATE_HOME", self.directory.join("state"))
            .without_env("TF_CLI_CONFIG_FILE");
        if self.encrypted {
            call = call.env("BENCH_PASSPHRASE", PASSPHRASE);
        }
        measure(call)
    }
}

fn definitions() -> String {
    let mut text = String::from(
        "[platform]\nname = \"bench\"\n\n[tools]\ntofu = { version = \"~1.12\", cli_config = \"tofu.tfrc\" }\n",
    );
    for (index, phase) in PHASES.iter().enumerate() {
        let canary = if index + 1 == PHASES.len() {
            "canary = true\n"
        } else {
            ""
        };
        let vars = match index.checked_sub(1) {
            Some(before) => format!(
                "vars = {{ before = \"${{step.{}.files.made}}\" }}\n",
                PHASES[before]
            ),
            None => String::new(),
        };
        text.push_str(&format!(
            "\n[[phase]]\nid = \"{phase}\"\ntitle = \"phase {phase}\"\n{canary}\
             [[phase.step]]\nname = \"files\"\ntofu = \"{}\"\n{vars}",
            root_module(phase)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_definitions_are_toml_and_have_every_phase() {
        let table: toml::Table = definitions().parse().expect("it is TOML");
        let phases = table["phase"].as_array().expect("phases are a list");
        assert_eq!(phases.len(), PHASES.len());
        assert_eq!(phases[6]["canary"].as_bool(), Some(true));
        assert_eq!(
            phases[6]["step"][0]["vars"]["before"].as_str(),
            Some("${step.3.files.made}")
        );
    }
}
