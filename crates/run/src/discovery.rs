//! `discover`: one bounded scan for machines that wait for their configuration, and what they say of themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use phase_engine::{ExitCode, Failure};
use process::files::write_atomically;
use process::{How, Invocation, collect};
use provider::spec::{FoundMachine, with_machines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use talos::Maintenance;
use talos::scan;

use crate::api::{DiscoverOptions, Machine};
use crate::environment;
use crate::error::{CallError, unusable};
use crate::stop::{StopLevel, StopRequests};
use crate::ui::{Notice, Ui};

/// The longest that one question to one machine may take.
const QUESTION: Duration = Duration::from_secs(10);
/// The program that asks.
const PROGRAM: &str = "talosctl";

/// What a scan found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiscoverReport {
    /// The version of this format.
    pub schema: u32,
    /// How many addresses were tried.
    pub n_addresses: usize,
    /// Machines that answer on Talos' port.
    pub machines: Vec<DiscoveredMachine>,
    /// The file that machines were added to.
    pub written: Option<String>,
    /// Addresses that were added.
    pub added: Vec<String>,
    /// What kept the program from seeing more.
    pub notes: Vec<String>,
}

/// One machine that answers on Talos' port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiscoveredMachine {
    /// Where.
    pub address: String,
    /// Whether it waits for its configuration: it answers without credentials.
    pub waits: bool,
    /// The version of Talos that it was started with.
    pub version: Option<String>,
    /// Disks that Talos can be installed on.
    pub disks: Vec<String>,
    /// Network interfaces that are up.
    pub links: Vec<String>,
    /// Why nothing is known of it.
    pub note: Option<String>,
}

/// Scans networks once, and adds to a group what a person confirms.
///
/// # Errors
/// No networks, too many addresses, nobody who confirms, or a file that can't be written.
pub fn discover(
    machine: &Machine,
    options: &DiscoverOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    confirm: &dyn Fn(&DiscoveredMachine) -> Option<bool>,
) -> Result<DiscoverReport, CallError> {
    let addresses = scan::addresses(&options.networks)
        .map_err(|error| unusable(&error).hint("nothing was scanned"))?;
    ui.tell(&Notice::Waiting {
        what: format!(
            "one try of port {} at {} addresses",
            scan::PORT,
            addresses.len()
        ),
    });
    let goes_on = || stop.level() < StopLevel::Gentle;
    let found = scan::scan(&addresses, scan::PORT, &scan::connects, &goes_on);
    if !goes_on() {
        return Err(Failure::new(ExitCode::Interrupted, "interrupted; nothing was written").into());
    }
    let mut report = DiscoverReport {
        schema: 1,
        n_addresses: addresses.len(),
        machines: Vec::new(),
        written: None,
        added: Vec::new(),
        notes: Vec::new(),
    };
    let home = tempfile::tempdir().map_err(|error| unusable(&error))?;
    let asker = Asker {
        machine,
        env: environment::base(&machine.env, home.path(), home.path()),
        cwd: home.path(),
        stop,
    };
    for address in found {
        report
            .machines
            .push(asker.ask(&address.to_string(), &mut report.notes));
    }
    if let Some((file, group)) = &options.write {
        write(machine, file, group, options, &mut report, confirm)?;
    }
    Ok(report)
}

/// Asks machines what they say without credentials.
struct Asker<'a> {
    machine: &'a Machine,
    env: environment::Environment,
    cwd: &'a Path,
    stop: &'a StopRequests,
}

impl Asker<'_> {
    fn ask(&self, address: &str, notes: &mut Vec<String>) -> DiscoveredMachine {
        let mut found = DiscoveredMachine {
            address: address.to_owned(),
            waits: false,
            version: None,
            disks: Vec::new(),
            links: Vec::new(),
            note: None,
        };
        let maintenance = Maintenance {
            address: address.to_owned(),
        };
        match self.said(&maintenance.disks()) {
            Ok(said) => {
                found.waits = true;
                found.disks = talos::disks(&said);
            }
            Err(Unsaid::NoProgram) => {
                let note = format!(
                    "`{PROGRAM}` is not installed, so what the machines say of themselves is not known"
                );
                if !notes.contains(&note) {
                    notes.push(note);
                }
                return found;
            }
            Err(Unsaid::Refused(why)) => {
                found.note = Some(why);
                return found;
            }
        }
        if let Ok(said) = self.said(&maintenance.version()) {
            found.version = talos::server_version(&said)
                .ok()
                .map(|version| version.to_string());
        }
        if let Ok(said) = self.said(&maintenance.links()) {
            found.links = talos::links(&said);
        }
        found
    }

    fn said(&self, args: &[std::ffi::OsString]) -> Result<String, Unsaid> {
        let mut invocation = Invocation::new(PROGRAM, self.cwd).args(args);
        invocation.env.clone_from(&self.env);
        let mut stopped = || self.stop.level() >= StopLevel::Gentle;
        let spawner = self.machine.spawner.as_ref();
        let ran = collect(spawner, &invocation, &How::reader(), QUESTION, &mut stopped);
        let collected = match ran {
            Ok(collected) => collected,
            Err(error) if error.is_missing_program() => return Err(Unsaid::NoProgram),
            Err(error) => return Err(Unsaid::Refused(error.to_string())),
        };
        if collected.exit.is_success() {
            return Ok(String::from_utf8_lossy(&collected.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&collected.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        Err(Unsaid::Refused(
            last.unwrap_or("it answers to nobody without credentials")
                .trim()
                .to_owned(),
        ))
    }
}

/// Why a machine said nothing.
enum Unsaid {
    NoProgram,
    Refused(String),
}

/// Adds to a group what is confirmed.
fn write(
    machine: &Machine,
    file: &Path,
    group: &str,
    options: &DiscoverOptions,
    report: &mut DiscoverReport,
    confirm: &dyn Fn(&DiscoveredMachine) -> Option<bool>,
) -> Result<(), Failure> {
    for address in &options.accept {
        let is_found = |found: &DiscoveredMachine| found.address == *address && found.waits;
        if !report.machines.iter().any(is_found) {
            return Err(Failure::failed(format!(
                "no machine at `{address}` waits for its configuration"
            ))
            .hint("nothing was written"));
        }
    }
    let mut chosen = Vec::new();
    for found in report.machines.iter().filter(|found| found.waits) {
        let is_wanted = if options.accept.is_empty() {
            confirm(found).ok_or_else(|| {
                Failure::new(
                    ExitCode::Declined,
                    "nobody can be asked which machines to add",
                )
                .hint(format!(
                    "nothing was written; name each: `--accept {}`",
                    found.address
                ))
            })?
        } else {
            options.accept.contains(&found.address)
        };
        if is_wanted {
            chosen.push(FoundMachine {
                address: found.address.clone(),
                install_disk: only(&found.disks),
                network_interface: only(&found.links),
            });
        }
    }
    if chosen.is_empty() {
        return Ok(());
    }
    let path: PathBuf = machine.cwd.join(file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(Failure::failed(format!("cannot read `{}`", path.display()))
                .because(error.to_string()));
        }
    };
    let name = file.to_string_lossy();
    let edited = with_machines(&name, text.as_deref(), group, &chosen).map_err(|error| {
        unusable(&error).hint(
            "nothing was written; name a file of specs with that group, or one that is not there yet",
        )
    })?;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| unusable(&error))?;
    }
    write_atomically(&path, edited.as_bytes(), 0o644).map_err(|error| unusable(&error))?;
    report.written = Some(path.display().to_string());
    report.added = chosen.into_iter().map(|machine| machine.address).collect();
    Ok(())
}

/// The one of a list, where there is no choice.
fn only(all: &[String]) -> Option<String> {
    match all {
        [one] => Some(one.clone()),
        _ => None,
    }
}
