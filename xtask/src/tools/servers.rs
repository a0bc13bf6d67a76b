//! The object stores that tests start: an S3 gateway, built, and Azure's emulator, installed by npm.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Tool, go_build};
use crate::sh::{Cmd, demand, note, root, write};

/// The S3 gateway that `tools/versitygw` builds.
const S3_GATEWAY: &str = "1.8.0";
/// The emulator that `tools/azurite` names.
const AZURITE: &str = "3.35.0";
const INSTALL_NODE: &str = "install Node.js 20 or newer with npm (Debian: `apt install nodejs npm`, macOS: `brew install node`)";

/// Where the servers are.
pub(crate) struct Servers {
    /// `versitygw`: S3 over a directory.
    pub(crate) s3_gateway: Tool,
    /// The script of `azurite` that serves blobs.
    pub(crate) azurite: Tool,
    /// What runs it.
    pub(crate) node: PathBuf,
}

impl Servers {
    /// Returns the variables by which tests find them.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("REBUILD_TEST_S3_GATEWAY", self.s3_gateway.path.clone()),
            ("REBUILD_TEST_AZURITE", self.azurite.path.clone()),
            ("REBUILD_TEST_NODE", self.node.clone()),
        ]
    }
}

/// Builds and installs them.
///
/// # Errors
///
/// Fails with what to install where something is missing that it can't build.
pub(crate) fn ensure(into: &Path) -> Result<Servers> {
    std::fs::create_dir_all(into).with_context(|| format!("cannot make `{}`", into.display()))?;
    let into = into
        .canonicalize()
        .with_context(|| format!("cannot find `{}`", into.display()))?;
    let s3_gateway = s3_gateway(&into)?;
    let why = "the tests of the Azure store need its emulator";
    let node = demand("node", why, INSTALL_NODE)?;
    let azurite = azurite(&into)?;
    Ok(Servers {
        s3_gateway,
        azurite,
        node,
    })
}

fn s3_gateway(into: &Path) -> Result<Tool> {
    let path = into.join("bin/versitygw");
    if !made(into, "versitygw", S3_GATEWAY) || !path.is_file() {
        note(&format!("building the S3 gateway {S3_GATEWAY}"));
        go_build(
            into,
            "tools/versitygw",
            "github.com/versity/versitygw/cmd/versitygw",
            "-s -w",
            &path,
        )?;
        remember(into, "versitygw", S3_GATEWAY)?;
    }
    Ok(Tool {
        path,
        version: S3_GATEWAY.to_owned(),
    })
}

fn azurite(into: &Path) -> Result<Tool> {
    let home = into.join("azurite");
    let path = home.join("node_modules/azurite/dist/src/blob/main.js");
    if !made(into, "azurite", AZURITE) || !path.is_file() {
        let why = "the tests of the Azure store need `azurite`";
        let npm = demand("npm", why, INSTALL_NODE)?;
        note(&format!("installing azurite {AZURITE}"));
        std::fs::create_dir_all(&home)
            .with_context(|| format!("cannot make `{}`", home.display()))?;
        for file in ["package.json", "package-lock.json"] {
            let from = root().join("tools/azurite").join(file);
            std::fs::copy(&from, home.join(file))
                .with_context(|| format!("cannot copy `{}`", from.display()))?;
        }
        // No script of any package is run.
        Cmd::new(npm)
            .shown_as("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&home)
            .run()?;
        if !path.is_file() {
            bail!("azurite {AZURITE} has no `dist/src/blob/main.js`");
        }
        remember(into, "azurite", AZURITE)?;
    }
    Ok(Tool {
        path,
        version: AZURITE.to_owned(),
    })
}

/// Whether the directory holds this version, whole.
fn made(into: &Path, name: &str, version: &str) -> bool {
    let said = std::fs::read_to_string(into.join(format!("{name}.version")));
    said.is_ok_and(|said| said == version)
}

/// Says so, after it was made: a cut build is made again.
fn remember(into: &Path, name: &str, version: &str) -> Result<()> {
    write(&into.join(format!("{name}.version")), version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_are_what_is_built_and_installed() {
        for (file, line) in [
            (
                "tools/versitygw/go.mod",
                format!("github.com/versity/versitygw v{S3_GATEWAY}"),
            ),
            (
                "tools/azurite/package.json",
                format!("\"azurite\": \"{AZURITE}\""),
            ),
            (
                "tools/azurite/package-lock.json",
                format!("\"azurite\": \"{AZURITE}\""),
            ),
        ] {
            let text = std::fs::read_to_string(root().join(file)).expect("part of the tree");
            assert!(text.contains(&line), "{file} does not say `{line}`");
        }
    }
}
