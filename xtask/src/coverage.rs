//! Line coverage of each crate, held to a threshold.
//!
//! Built on what the compiler has itself (`-C instrument-coverage`) and on LLVM's two programs, which
//! rustup has as a component and Debian as a package. Lines of tests are not counted, so that a test does
//! not cover itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sh::{Cmd, cargo, executables, note, on_path, print, root};
use crate::tidy::{is_test_path, lines_of_code};
use crate::{test, tools};

/// The least share of lines, in per cent, that tests of a library crate must reach.
const LEAST: f64 = 80.0;
/// Crates that are held to more.
const LEAST_OF: [(&str, f64); 2] = [("phase-engine", 95.0), ("preflight", 95.0)];
/// Crates that are shown and not held to anything: wiring, and what is for tests.
const SHOWN_ONLY: [&str; 2] = ["rebuild", "test-support"];

/// Where programs leave what ran of them: each of them, and each program that whole-program tests start,
/// adds to one of eight files of its binary. One file for each process would be gigabytes.
const POOL: &str = "%8m.profraw";

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run the tests of these crates only, and judge only them; all otherwise
    #[arg(short, long = "package", value_name = "CRATE")]
    packages: Vec<String>,
    /// Hold every crate to this share, in per cent, instead of its own
    #[arg(long, value_name = "PERCENT")]
    least: Option<f64>,
}

/// Runs the tests and prints a table; fails where a crate stays below its threshold.
pub(crate) fn run(options: &Options) -> Result<()> {
    measure(options, false)
}

/// Runs every test there is, as `cargo xtask test` does, and holds each crate to its threshold.
pub(crate) fn test_whole() -> Result<()> {
    let options = Options {
        packages: Vec::new(),
        least: None,
    };
    measure(&options, true)
}

fn measure(options: &Options, whole: bool) -> Result<()> {
    let llvm = Llvm::find_or_install()?;
    test::demand_programs()?;
    let tools = tools::ensure(&tools::default_directory())?;
    let servers = tools::ensure_servers(&tools::default_directory())?;
    tools::ensure_packages()?;
    let reach = tools::ensure_reach(&tools::default_directory())?;
    let directory = root().join("target/coverage");
    let profiles = directory.join("profiles");
    if profiles.exists() {
        std::fs::remove_dir_all(&profiles)
            .context("cannot remove the profiles of the last time")?;
    }
    std::fs::create_dir_all(&profiles).context("cannot make the directory of the profiles")?;
    let compiler = instrumenting_compiler(&directory)?;

    let packages: Vec<String> = match options.packages.as_slice() {
        [] if whole => vec!["--workspace".to_owned()],
        [] => vec![
            "--workspace".to_owned(),
            "--exclude".to_owned(),
            "xtask".to_owned(),
        ],
        names => names
            .iter()
            .flat_map(|name| ["--package".to_owned(), name.clone()])
            .collect(),
    };
    let instrumented = |call: Cmd| {
        let call = call
            .args(&packages)
            .current_dir(&root())
            .env("RUSTC_WORKSPACE_WRAPPER", &compiler)
            .env("LLVM_PROFILE_FILE", profiles.join(POOL));
        test::variables(&tools, &servers, &reach)
            .into_iter()
            .fold(call, |call, (name, value)| call.env(name, value))
    };
    let built = instrumented(cargo().args([
        "test",
        "--tests",
        "--no-run",
        "--locked",
        "--message-format",
        "json-render-diagnostics",
    ]))
    .read_loudly()?;
    let mut tested =
        instrumented(cargo().args(["test", "--tests", "--no-fail-fast", "--locked"])).run();
    if whole {
        tested = tested.and(
            cargo()
                .args(["test", "--doc", "--workspace", "--locked"])
                .current_dir(&root())
                .run(),
        );
    }

    // A program that was killed while it wrote leaves half a profile; that one alone is left out.
    let merged = directory.join("merged.profdata");
    let raw: Vec<PathBuf> = std::fs::read_dir(&profiles)
        .context("the tests left no profiles")?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let list = directory.join("profiles.txt");
    crate::sh::write(
        &list,
        &raw.iter()
            .map(|file| format!("{}\n", file.display()))
            .collect::<String>(),
    )?;
    Cmd::new(&llvm.profdata)
        .args(["merge", "-sparse", "-failure-mode=all", "-o"])
        .arg(&merged)
        .arg("-f")
        .arg(&list)
        .quiet()?;

    let mut export = Cmd::new(&llvm.cov)
        .args(["export", "-format=lcov", "-instr-profile"])
        .arg(&merged);
    for binary in executables(&built) {
        export = export.arg("-object").arg(binary);
    }
    let totals = per_crate(&export.read()?);
    let expected = if options.packages.is_empty() {
        all_crates()?
    } else {
        options.packages.clone()
    };
    // The table is of use where a test failed as well.
    let judged = judge(&totals, &expected, options);
    tested.and(judged)
}

/// Writes what cargo runs instead of the compiler for crates of ours (a shell drops variables with a hyphen in their
/// name, so no program of ours that tests start may have one): only they are instrumented, so that
/// everything else is what `cargo xtask test` has built already.
fn instrumenting_compiler(directory: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("instrumenting-rustc");
    let script = "#!/bin/sh\nexec \"$@\" -C instrument-coverage\n";
    // Written anew it would look like another compiler, and everything be built again.
    if std::fs::read_to_string(&path).is_ok_and(|found| found == script) {
        return Ok(path);
    }
    crate::sh::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
        .context("cannot make the compiler's wrapper a program")?;
    Ok(path)
}

/// Returns the name of every crate below `crates/`.
fn all_crates() -> Result<Vec<String>> {
    let crates = std::fs::read_dir(root().join("crates")).context("cannot read `crates`")?;
    crates
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// Covered lines and all lines of one crate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    covered: usize,
    all: usize,
}

impl Lines {
    fn percent(self) -> f64 {
        if self.all == 0 {
            0.0
        } else {
            self.covered as f64 * 100.0 / self.all as f64
        }
    }
}

/// Adds up an lcov report by crate, without lines of tests.
fn per_crate(report: &str) -> BTreeMap<String, Lines> {
    let crates = root().join("crates");
    let mut totals: BTreeMap<String, Lines> = BTreeMap::new();
    let mut current: Option<(String, usize)> = None;
    for line in report.lines() {
        if let Some(file) = line.strip_prefix("SF:") {
            current = crate_of(Path::new(file), &crates).map(|name| {
                let code =
                    std::fs::read_to_string(file).map_or(usize::MAX, |text| lines_of_code(&text));
                (name, code)
            });
        } else if let (Some(found), Some((name, code))) = (line.strip_prefix("DA:"), &current) {
            let mut numbers = found.split(',');
            let number = numbers
                .next()
                .and_then(|number| number.parse::<usize>().ok());
            let count = numbers.next().and_then(|count| count.parse::<u64>().ok());
            if let (Some(number), Some(count)) = (number, count)
                && number <= *code
            {
                let lines = totals.entry(name.clone()).or_default();
                lines.all += 1;
                lines.covered += usize::from(count > 0);
            }
        }
    }
    totals
}

/// Returns the crate whose source a file is, unless it holds tests.
fn crate_of(file: &Path, crates: &Path) -> Option<String> {
    let within = file.strip_prefix(crates).ok()?;
    if is_test_path(&within.to_string_lossy()) {
        return None;
    }
    Some(
        within
            .components()
            .next()?
            .as_os_str()
            .to_string_lossy()
            .into_owned(),
    )
}

fn least_of(name: &str, options: &Options) -> Option<f64> {
    if SHOWN_ONLY.contains(&name)
        || (!options.packages.is_empty() && !options.packages.iter().any(|p| p == name))
    {
        return None;
    }
    let own = LEAST_OF
        .iter()
        .find(|(held, _)| *held == name)
        .map_or(LEAST, |(_, least)| *least);
    Some(options.least.unwrap_or(own))
}

fn judge(totals: &BTreeMap<String, Lines>, expected: &[String], options: &Options) -> Result<()> {
    let mut below = Vec::new();
    print(&format!(
        "{:<16} {:>8} {:>8} {:>8} {:>8}",
        "crate", "lines", "covered", "share", "least"
    ))?;
    for (name, lines) in totals {
        let least = least_of(name, options);
        let shown = least.map_or("-".to_owned(), |least| format!("{least:.0} %"));
        print(&format!(
            "{name:<16} {:>8} {:>8} {:>6.1} % {shown:>8}",
            lines.all,
            lines.covered,
            lines.percent()
        ))?;
        if least.is_some_and(|least| lines.percent() < least) {
            below.push(name.as_str());
        }
    }
    let missing: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .filter(|name| least_of(name, options).is_some() && !totals.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        bail!("nothing was measured of {}", missing.join(", "));
    }
    if !below.is_empty() {
        bail!("below the least: {}", below.join(", "));
    }
    Ok(())
}

/// LLVM's programs for coverage, of the same major version as the compiler's.
pub(crate) struct Llvm {
    /// Reads profiles and shows lines.
    pub(crate) cov: PathBuf,
    /// Merges profiles.
    pub(crate) profdata: PathBuf,
    /// The major version.
    pub(crate) major: String,
}

impl Llvm {
    /// Finds them beside the compiler or on PATH; asks rustup for them otherwise.
    pub(crate) fn find_or_install() -> Result<Self> {
        if let Some(found) = Self::find()? {
            return Ok(found);
        }
        note("LLVM's coverage programs are missing; asking rustup for them");
        // Whatever it answers, what counts is whether they are there afterwards.
        if let Err(error) = Cmd::new("rustup")
            .args(["component", "add", "llvm-tools"])
            .current_dir(&root())
            .run()
        {
            note(&format!("{error:#}"));
        }
        let major = Self::major()?;
        Self::find()?.with_context(|| {
            format!("no llvm-cov of version {major}: `rustup component add llvm-tools`, or on Debian `apt install llvm-{major}`")
        })
    }

    fn find() -> Result<Option<Self>> {
        let major = Self::major()?;
        let libraries = Cmd::new("rustc")
            .args(["--print", "target-libdir"])
            .current_dir(&root())
            .read()?;
        let beside = Path::new(libraries.trim())
            .parent()
            .map(|dir| dir.join("bin"));
        let find = |name: &str| {
            let own = beside
                .as_ref()
                .map(|dir| dir.join(name))
                .filter(|file| file.is_file());
            own.or_else(|| on_path(&format!("{name}-{major}")))
        };
        Ok(find("llvm-cov")
            .zip(find("llvm-profdata"))
            .map(|(cov, profdata)| Self {
                cov,
                profdata,
                major,
            }))
    }

    fn major() -> Result<String> {
        let said = Cmd::new("rustc").arg("-vV").current_dir(&root()).read()?;
        let version = said
            .lines()
            .find_map(|line| line.strip_prefix("LLVM version: "));
        let major = version.and_then(|version| version.split('.').next());
        Ok(major
            .context("`rustc -vV` names no LLVM version")?
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(least: Option<f64>) -> Options {
        Options {
            packages: Vec::new(),
            least,
        }
    }

    #[test]
    fn lines_are_added_up_by_crate_and_tests_are_left_out() {
        let crates = root().join("crates");
        let at = |path: &str| crates.join(path).display().to_string();
        let report = format!(
            "SF:{}\nDA:1,5\nDA:2,0\nend_of_record\nSF:{}\nDA:1,1\nend_of_record\nSF:/elsewhere/x.rs\nDA:1,1\n",
            at("store/src/none.rs"),
            at("store/src/lock/tests.rs"),
        );
        let totals = per_crate(&report);
        assert_eq!(
            totals.into_iter().collect::<Vec<_>>(),
            [("store".to_owned(), Lines { covered: 1, all: 2 })]
        );
    }

    #[test]
    fn a_crate_below_its_threshold_fails_and_each_has_its_own() {
        let good = |name: &str, least: Option<f64>| {
            let totals = BTreeMap::from([(
                name.to_owned(),
                Lines {
                    covered: 90,
                    all: 100,
                },
            )]);
            judge(&totals, &[name.to_owned()], &options(least)).is_ok()
        };
        assert!(good("store", None));
        assert!(!good("phase-engine", None));
        assert!(good("phase-engine", Some(90.0)));
        assert!(good("rebuild", Some(99.0)));
    }

    #[test]
    fn a_crate_of_which_nothing_was_measured_fails() {
        let expected = ["store".to_owned()];
        assert!(judge(&BTreeMap::new(), &expected, &options(None)).is_err());
        assert!(judge(&BTreeMap::new(), &[], &options(None)).is_ok());
    }
}
