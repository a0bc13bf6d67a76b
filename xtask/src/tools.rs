//! Finds or builds the programs that tests and the demo need, into a directory that git ignores.

mod packages;
mod reach;
mod servers;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};

use crate::sh::{Cmd, cargo, demand, note, on_path, print, root, variable, write};

/// The OpenTofu that `tools/tofu` builds, and the oldest that will do.
const TOFU: &str = "1.12.6";
/// What else will do: OpenTofu's messages are read closely, so a newer minor version is not taken untested.
const TOFU_FITS: &str = ">=1.12.6, <1.13";
/// The provider `local` that `tools/provider-local` builds. The last one that is a Go module.
const PROVIDER_LOCAL: &str = "1.4.0";
/// The provider `openstack` that `tools/provider-openstack` builds.
const PROVIDER_OPENSTACK: &str = "3.4.0";
/// The version of the providers that are our own: that of `tools/provider-test` stands in the mirror under it.
const PROVIDER_TEST: &str = "1.0.0";
const CARGO_DENY: &str = "0.20.2";
const INSTALL_GO: &str =
    "install Go 1.26 or newer (Debian: `apt install golang`, macOS: `brew install go`)";

pub(crate) use packages::ensure as ensure_packages;
pub(crate) use reach::{Reach, ensure as ensure_reach};
pub(crate) use servers::{Servers, ensure as ensure_servers};

/// Where the tools are.
pub(crate) struct Tools {
    /// OpenTofu.
    pub(crate) tofu: Tool,
    /// The provider `local`, in a file system mirror.
    pub(crate) provider_local: Tool,
    /// The provider `openstack`, in the same mirror.
    pub(crate) provider_openstack: Tool,
    /// The provider `test` of our own, in the same mirror.
    pub(crate) provider_test: Tool,
    /// The provider of our own that stands in for others.
    pub(crate) provider_stand_in: Tool,
    /// The CLI configuration that names the mirror and nothing else.
    pub(crate) cli_config: PathBuf,
}

/// One program.
pub(crate) struct Tool {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Which one it is.
    pub(crate) version: String,
}

/// Returns `.tools` in the workspace.
pub(crate) fn default_directory() -> PathBuf {
    root().join(".tools")
}

/// Finds or builds everything and prints one JSON line for each.
pub(crate) fn show(into: &Path, dev: bool) -> Result<()> {
    let tools = ensure(into)?;
    let line = |tool: &str, path: &Path, version: &str| {
        print(&serde_json::json!({ "tool": tool, "path": path, "version": version }).to_string())
    };
    line("tofu", &tools.tofu.path, &tools.tofu.version)?;
    line(
        "terraform-provider-local",
        &tools.provider_local.path,
        &tools.provider_local.version,
    )?;
    line(
        "terraform-provider-openstack",
        &tools.provider_openstack.path,
        &tools.provider_openstack.version,
    )?;
    line(
        "terraform-provider-test",
        &tools.provider_test.path,
        &tools.provider_test.version,
    )?;
    line(
        "provider-stand-in",
        &tools.provider_stand_in.path,
        &tools.provider_stand_in.version,
    )?;
    line("cli-config", &tools.cli_config, TOFU)?;
    let servers = ensure_servers(into)?;
    let gateway = &servers.s3_gateway;
    line("versitygw", &gateway.path, &gateway.version)?;
    line("azurite", &servers.azurite.path, &servers.azurite.version)?;
    ensure_packages()?;
    let reach = ensure_reach(into)?;
    let ansible = &reach.ansible;
    line("ansible-core", &ansible.path, &ansible.version)?;
    if dev {
        let deny = match cargo_deny(into) {
            Some(found) => found,
            None => {
                cargo()
                    .args(["install", "--locked", "--root"])
                    .arg(into)
                    .args(["cargo-deny", "--version", CARGO_DENY])
                    .run()?;
                into.join("bin/cargo-deny")
            }
        };
        line("cargo-deny", &deny, CARGO_DENY)?;
        let llvm = crate::coverage::Llvm::find_or_install()?;
        line("llvm-cov", &llvm.cov, &llvm.major)?;
        line("llvm-profdata", &llvm.profdata, &llvm.major)?;
    }
    Ok(())
}

/// Returns cargo-deny, where it is installed.
pub(crate) fn cargo_deny(into: &Path) -> Option<PathBuf> {
    let ours = into.join("bin/cargo-deny");
    if ours.is_file() {
        Some(ours)
    } else {
        on_path("cargo-deny")
    }
}

/// Finds or builds what tests and the demo need.
///
/// # Errors
///
/// Fails with what to install where something is missing that it can't build.
pub(crate) fn ensure(into: &Path) -> Result<Tools> {
    std::fs::create_dir_all(into).with_context(|| format!("cannot make `{}`", into.display()))?;
    let into = into
        .canonicalize()
        .with_context(|| format!("cannot find `{}`", into.display()))?;
    let tofu = tofu(&into)?;
    let provider_local = provider_local(&into)?;
    let provider_openstack = provider_openstack(&into)?;
    let provider_test = provider_test(&into)?;
    let provider_stand_in = provider_stand_in(&into)?;
    let cli_config = into.join("mirror.tofurc");
    let mirror = into.join("mirror");
    write(
        &cli_config,
        &format!(
            "# Providers come from the mirror and from nowhere else.\n\
             provider_installation {{\n  filesystem_mirror {{\n    path = {}\n  }}\n}}\n",
            serde_json::to_string(&mirror.to_string_lossy())?
        ),
    )?;
    Ok(Tools {
        tofu,
        provider_local,
        provider_openstack,
        provider_test,
        provider_stand_in,
        cli_config,
    })
}

fn tofu(into: &Path) -> Result<Tool> {
    let ours = into.join("bin/tofu");
    for path in on_path("tofu")
        .into_iter()
        .chain([ours.clone()])
        .filter(|path| path.is_file())
    {
        match tofu_version(&path) {
            Ok(version) if fits(&version) => {
                note(&format!("tofu {version}: {}", path.display()));
                return Ok(Tool { path, version });
            }
            Ok(version) => note(&format!(
                "tofu {version} at {} does not fit {TOFU_FITS}",
                path.display()
            )),
            Err(error) => note(&format!("{error:#}")),
        }
    }
    note(&format!(
        "building tofu {TOFU} (about four minutes on two cores, once)"
    ));
    go_build(
        into,
        "tools/tofu",
        "github.com/opentofu/opentofu/cmd/tofu",
        "-s -w -X github.com/opentofu/opentofu/version.dev=no",
        &ours,
    )?;
    let version = tofu_version(&ours)?;
    if !fits(&version) {
        bail!("`tools/tofu` built version {version}, which does not fit {TOFU_FITS}");
    }
    Ok(Tool {
        path: ours,
        version,
    })
}

/// Asks a tofu for its version.
fn tofu_version(path: &Path) -> Result<String> {
    let answer = Cmd::new(path)
        .args(["version", "-json"])
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_CLI_CONFIG_FILE", "/dev/null")
        .read()?;
    let answer: serde_json::Value = serde_json::from_str(&answer)
        .with_context(|| format!("`{} version -json` printed no JSON", path.display()))?;
    let version = answer["terraform_version"].as_str();
    Ok(version
        .with_context(|| format!("`{} version -json` names no version", path.display()))?
        .to_owned())
}

fn fits(version: &str) -> bool {
    let Ok(fitting) = VersionReq::parse(TOFU_FITS) else {
        return false;
    };
    Version::parse(version).is_ok_and(|version| fitting.matches(&version))
}

fn provider_local(into: &Path) -> Result<Tool> {
    let path = in_mirror(into, "hashicorp", "local", PROVIDER_LOCAL);
    if !path.is_file() {
        note(&format!("building the provider local {PROVIDER_LOCAL}"));
        go_build(
            into,
            "tools/provider-local",
            "github.com/terraform-providers/terraform-provider-local",
            "-s -w",
            &path,
        )?;
    }
    Ok(Tool {
        path,
        version: PROVIDER_LOCAL.to_owned(),
    })
}

fn provider_openstack(into: &Path) -> Result<Tool> {
    let namespace = "terraform-provider-openstack";
    let path = in_mirror(into, namespace, "openstack", PROVIDER_OPENSTACK);
    if !path.is_file() {
        note(&format!(
            "building the provider openstack {PROVIDER_OPENSTACK}"
        ));
        go_build(
            into,
            "tools/provider-openstack",
            "github.com/terraform-provider-openstack/terraform-provider-openstack/v3",
            "-s -w",
            &path,
        )?;
    }
    Ok(Tool {
        path,
        version: PROVIDER_OPENSTACK.to_owned(),
    })
}

/// Builds the provider that tests use.
fn provider_test(into: &Path) -> Result<Tool> {
    let path = in_mirror(into, "rebuild", "test", PROVIDER_TEST);
    own_program(into, "provider-test", &path)?;
    Ok(Tool {
        path,
        version: PROVIDER_TEST.to_owned(),
    })
}

/// Builds the provider that stands in for those that can't be had; tests put it into mirrors of their own.
fn provider_stand_in(into: &Path) -> Result<Tool> {
    let path = into.join("bin/provider_stand_in");
    own_program(into, "provider-stand-in", &path)?;
    Ok(Tool {
        path,
        version: PROVIDER_TEST.to_owned(),
    })
}

/// Builds a program whose source is ours, again whenever that changed.
fn own_program(into: &Path, name: &str, path: &Path) -> Result<()> {
    let module = format!("tools/{name}");
    let stamp = into.join(format!("{name}.source"));
    let mut source = String::new();
    for file in ["go.mod", "go.sum", "main.go"] {
        let file = root().join(&module).join(file);
        source += &std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
    }
    let built_from = std::fs::read_to_string(&stamp).unwrap_or_default();
    if !path.is_file() || built_from != source {
        note(&format!("building `{module}`"));
        go_build(into, &module, ".", "-s -w", path)?;
        // After the build: a cut one is made again.
        write(&stamp, &source)?;
    }
    Ok(())
}

/// Returns the place of a provider's program in the mirror.
fn in_mirror(into: &Path, namespace: &str, name: &str, version: &str) -> PathBuf {
    into.join("mirror/registry.opentofu.org")
        .join(namespace)
        .join(name)
        .join(version)
        .join(platform())
        .join(format!("terraform-provider-{name}_v{version}"))
}

/// Returns the platform as OpenTofu and Go name it.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}_{machine}")
}

/// Builds a program of a Go module and puts it in its place in one go, so that a cut build leaves nothing.
fn go_build(into: &Path, module: &str, package: &str, ldflags: &str, to: &Path) -> Result<()> {
    let why = format!("`{module}` has to be built");
    let go = demand("go", &why, INSTALL_GO)?;
    let directory = to.parent().context("a program has a directory")?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))?;
    // Not beside its place: all that lies in a provider's directory counts into its checksum.
    let half = tempfile::Builder::new()
        .prefix("half-built-")
        .tempdir_in(into)
        .context("no temporary directory")?;
    let built = half.path().join("program");
    let mut call = Cmd::new(go)
        .shown_as("go")
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            ldflags,
            "-o",
        ])
        .arg(&built)
        .arg(package)
        .current_dir(&root().join(module))
        .env("CGO_ENABLED", "0");
    // A workspace of the caller's would hide the module.
    if variable("GOWORK").is_none() {
        call = call.env("GOWORK", "off");
    }
    call.run()
        .with_context(|| format!("cannot build `{module}`; if Go is too old, {INSTALL_GO}"))?;
    std::fs::rename(&built, to)
        .with_context(|| format!("cannot put `{}` in its place", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_minor_version_fits_and_nothing_older_than_the_pin() {
        for (version, fit) in [
            ("1.12.6", true),
            ("1.12.9", true),
            ("1.12.5", false),
            ("1.13.0", false),
            ("1.12.6-dev", false),
            ("", false),
        ] {
            assert_eq!(fits(version), fit, "{version}");
        }
    }

    #[test]
    fn the_pin_is_what_the_go_modules_build() {
        for (module, line) in [
            (
                "tools/tofu",
                format!("github.com/opentofu/opentofu v{TOFU}"),
            ),
            (
                "tools/provider-local",
                format!(
                    "github.com/terraform-providers/terraform-provider-local v{PROVIDER_LOCAL}"
                ),
            ),
            (
                "tools/provider-openstack",
                format!(
                    "github.com/terraform-provider-openstack/terraform-provider-openstack/v3 v{PROVIDER_OPENSTACK}"
                ),
            ),
        ] {
            let file = root().join(module).join("go.mod");
            let text = std::fs::read_to_string(&file).expect("the module is part of the tree");
            assert!(
                text.contains(&line),
                "{} does not require `{line}`",
                file.display()
            );
        }
    }
}
