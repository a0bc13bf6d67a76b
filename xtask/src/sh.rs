//! Runs other programs, and says what it runs.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Returns the directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Says something to the person, on standard error.
pub(crate) fn note(text: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints one line of a result on standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}").context("cannot write to standard output")
}

/// Returns a variable of the caller's environment.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask has no `rebuild` to read the environment for it"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the cargo that runs this command, so that the toolchain is the same.
///
/// What cargo tells a program that it runs is taken out: some build scripts look at it, and what they make
/// would be made anew for whoever calls cargo without `xtask`.
pub(crate) fn cargo() -> Cmd {
    let program = variable("CARGO").unwrap_or_else(|| "cargo".into());
    let names = all_variables();
    names
        .iter()
        .filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        .fold(Cmd::new(program).shown_as("cargo"), |call, name| {
            call.without_env(name)
        })
}

/// Returns the names of the caller's variables.
fn all_variables() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .collect()
}

/// Returns the first program of this name on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = variable("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

/// Returns PATH with a directory in front of it.
pub(crate) fn path_with(first: &Path) -> Result<OsString> {
    let rest = variable("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_path_buf()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).context("a directory of PATH holds a `:`")
}

/// Fails with the way to get a program, where it is missing.
pub(crate) fn demand(name: &str, why: &str, how: &str) -> Result<PathBuf> {
    on_path(name).with_context(|| format!("`{name}` is not on PATH, and {why}: {how}"))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// One call of another program.
pub(crate) struct Cmd {
    inner: Command,
    shown: Vec<String>,
}

impl Cmd {
    /// Prepares a call.
    #[expect(
        clippy::disallowed_methods,
        reason = "the crate `process` is for what the product runs"
    )]
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let shown = vec![program.as_ref().to_string_lossy().into_owned()];
        Self {
            inner: Command::new(program),
            shown,
        }
    }

    /// Shows the program by another name.
    pub(crate) fn shown_as(mut self, name: &str) -> Self {
        self.shown[0] = name.to_owned();
        self
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.shown.push(arg.as_ref().to_string_lossy().into_owned());
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    /// Takes a variable out of its environment.
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.inner.env_remove(name);
        self
    }

    /// Sets the directory that it runs in.
    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// Returns the call as a person would type it.
    pub(crate) fn line(&self) -> String {
        self.shown.join(" ")
    }

    /// Runs it with our own output; fails unless it exits with 0.
    pub(crate) fn run(mut self) -> Result<()> {
        let line = self.line();
        note(&format!("$ {line}"));
        let status = self
            .inner
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("cannot start `{line}`"))?;
        if !status.success() {
            bail!("`{line}` failed: {status}");
        }
        Ok(())
    }

    /// Runs it without a word; fails with what it said unless it exits with 0.
    pub(crate) fn quiet(self) -> Result<()> {
        self.read().map(drop)
    }

    /// Returns what it prints on standard output; fails unless it exits with 0.
    pub(crate) fn read(mut self) -> Result<String> {
        let line = self.line();
        let output = self
            .inner
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start `{line}`"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "`{line}` failed: {}\n{}\n{}",
                output.status,
                text.trim_end(),
                said.trim_end()
            );
        }
        Ok(text)
    }

    /// Returns what it prints on standard output, its standard error being ours.
    pub(crate) fn read_loudly(mut self) -> Result<String> {
        let line = self.line();
        note(&format!("$ {line}"));
        let output = self
            .inner
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start `{line}`"))?;
        if !output.status.success() {
            bail!("`{line}` failed: {}", output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Hands the prepared call over to somebody who wants to run it in another way.
    pub(crate) fn into_inner(self) -> Command {
        self.inner
    }
}

/// Builds a binary of the workspace and returns where it is.
pub(crate) fn build(package: &str, binary: &str, release: bool) -> Result<PathBuf> {
    let mut call = cargo().args([
        "build",
        "--locked",
        "--package",
        package,
        "--bin",
        binary,
        "--message-format",
        "json-render-diagnostics",
    ]);
    if release {
        call = call.arg("--release");
    }
    let messages = call.current_dir(&root()).read_loudly()?;
    executables(&messages)
        .into_iter()
        .find(|file| file.file_name().is_some_and(|name| name == binary))
        .with_context(|| format!("cargo does not say where it put `{binary}`"))
}

/// Returns every executable that cargo's JSON messages name.
pub(crate) fn executables(messages: &str) -> Vec<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}

/// Copies a directory and all that is in it, permissions included.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make `{}`", to.display()))?;
    for entry in
        std::fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))?
    {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)
                .with_context(|| format!("cannot copy `{}`", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Writes a file that nobody else reads yet.
#[expect(
    clippy::disallowed_methods,
    reason = "files of a temporary directory or of the tools directory"
)]
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}
