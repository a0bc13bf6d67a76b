//! `suspects`: objects that may exist in no state. They are named, and settled one by one: taken into their state by
//! OpenTofu, or told to be gone by somebody who looked.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, ResourceAddress, StepId};
use platform::StepKind;
use record::{
    CallCommand, Decision, DecisionKind, Record, RecordLedger, StateMark, Suspect, Time, Writing,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Machine, Site, SuspectsOptions};
use crate::error::{CallError, stopped};
use crate::open::{Held, OnFaults, Opened};
use crate::standing::Standing;
use crate::stop::{StopLevel, StopRequests};
use crate::tofu_work::tofu_failure;
use crate::ui::Ui;

/// What may exist in no state, and what this call settled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SuspectsReport {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// What is not settled.
    pub suspects: Vec<SuspectShown>,
    /// What this call settled.
    pub settled: Vec<SettledShown>,
    /// The commands that go on from here.
    pub next: Vec<String>,
}

/// One object that may exist in no state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SuspectShown {
    /// The step.
    pub step: String,
    /// The resource; where it is not known, any of the step's may exist.
    pub address: Option<String>,
    /// Its provider.
    pub provider: Option<String>,
    /// Its id, where one was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the object that it was made in the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// The machine on which it may have been made.
    pub host: Option<String>,
    /// Since when.
    pub since: String,
    /// The run that may have made it.
    pub run: String,
}

/// One that was settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettledShown {
    /// The step.
    pub step: String,
    /// The resource.
    pub address: Option<String>,
    /// How.
    pub how: SettledHow,
}

/// How a suspect was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettledHow {
    /// It is in its step's state now.
    Imported,
    /// It does not exist.
    Gone,
}

impl From<&Suspect> for SuspectShown {
    fn from(suspect: &Suspect) -> Self {
        Self {
            step: suspect.step.to_string(),
            address: suspect.address.as_ref().map(|a| a.as_str().to_owned()),
            provider: suspect.provider.clone(),
            id: suspect.id.clone(),
            was: suspect.was.clone(),
            host: suspect.host.clone(),
            since: suspect.since.to_string(),
            run: suspect.run.to_string(),
        }
    }
}

/// Lists what may exist in no state, after what `options` settle is settled.
///
/// # Errors
/// A name fits no suspect, or several; an import fails. What was settled before it stays settled.
pub fn suspects(
    machine: &Machine,
    site: &Site,
    options: &SuspectsOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<SuspectsReport, CallError> {
    // What stands is settled with what it was applied from: faults of today's definitions don't matter.
    let workspace = match &options.workspace {
        None => None,
        Some(name) => {
            let platform = site.platform.as_deref();
            let found = crate::workspace::find(machine, platform, name, Some(&site.target))?;
            Some(found.workspace())
        }
    };
    let opened = Opened::open_on(machine, site, workspace, stop, ui, OnFaults::GoOn)?;
    let held = opened.hold("suspects", None)?;
    let report = settled(&held, options);
    held.release();
    report.map_err(CallError::from)
}

fn settled(held: &Held<'_>, options: &SuspectsOptions) -> Result<SuspectsReport, Failure> {
    let mut ledger = held.ledger(CallCommand::Up)?;
    held.settle_leftovers(&mut ledger)?;
    held.settle_lost_hosts(&mut ledger, options.lost_host.as_deref())?;
    let known = ledger
        .record()
        .map(|record| record.suspects.clone())
        .unwrap_or_default();
    // All of them are understood before the first is settled.
    let imports = options
        .imports
        .iter()
        .map(|text| held.to_import(&ledger, text, &known))
        .collect::<Result<Vec<_>, _>>()?;
    let gone = options
        .gone
        .iter()
        .map(|text| gone_of(text, &known))
        .collect::<Result<Vec<_>, _>>()?;
    if imports.iter().any(|import| !import.is_there) {
        // Brings up what steps refer to.
        let _world = held.world(Standing(ledger.view()), held.run.clone(), 1)?;
    }
    for import in &imports {
        if import.is_there {
            held.note_imported(&mut ledger, import)?;
        } else {
            held.import(&mut ledger, import)?;
        }
    }
    for (step, address) in &gone {
        let about = match address {
            Some(address) => format!("{step}:{}", address.as_str()),
            None => step.to_string(),
        };
        let decision = held.decision(DecisionKind::Gone, about);
        ledger
            .change(|record| {
                record
                    .suspects
                    .retain(|known| known.step != *step || known.address != *address);
                record.decisions.push(decision);
            })
            .map_err(|error| stopped(&error))?;
    }
    let imported = imports.iter().map(|import| SettledShown {
        step: import.step.to_string(),
        address: Some(import.address.as_str().to_owned()),
        how: SettledHow::Imported,
    });
    let gone = gone.iter().map(|(step, address)| SettledShown {
        step: step.to_string(),
        address: address.as_ref().map(|a| a.as_str().to_owned()),
        how: SettledHow::Gone,
    });
    let settled = imported.chain(gone).collect();
    let mut report = report_of(ledger.record(), held.bench.target.name.as_str(), settled);
    if let Some(step) = &held.bench.workspace {
        report.next = next_of_workspace(&report, step.step.as_str());
    }
    Ok(report)
}

/// The same commands for the workspace of a handoff.
fn next_of_workspace(report: &SuspectsReport, name: &str) -> Vec<String> {
    let target = format!("--target {}", report.target);
    if report.suspects.is_empty() {
        return vec![format!("rebuild provision status {name} {target}")];
    }
    let of_workspace = format!("{target} --workspace {name}");
    let next = report.next.iter();
    next.map(|command| command.replacen(&target, &of_workspace, 1))
        .collect()
}

fn report_of(record: Option<&Record>, target: &str, settled: Vec<SettledShown>) -> SuspectsReport {
    let suspects: Vec<SuspectShown> = record
        .map(|record| record.suspects.iter().map(SuspectShown::from).collect())
        .unwrap_or_default();
    let next = next_of(record, target);
    SuspectsReport {
        schema: 1,
        target: target.to_owned(),
        suspects,
        settled,
        next,
    }
}

/// The commands that settle what is not settled, or go on.
pub(crate) fn next_of(record: Option<&Record>, target: &str) -> Vec<String> {
    let Some(record) = record else {
        return Vec::new();
    };
    let mut next: Vec<String> = Vec::new();
    for suspect in &record.suspects {
        let command = format!("rebuild suspects --target {target}");
        match &suspect.address {
            Some(address) => {
                let address = quoted(address.as_str());
                // Where its state has another one under the address, OpenTofu imports none.
                if suspect.was.is_none() {
                    let id = suspect
                        .id
                        .as_deref()
                        .map_or_else(|| "ID".to_owned(), quoted);
                    next.push(format!("{command} --import {address}={id}"));
                }
                next.push(format!("{command} --gone {address}"));
            }
            None => next.push(format!("{command} --gone {}", suspect.step)),
        }
    }
    if next.is_empty() && !record.status.has_ended() {
        next.push(if record.teardown_began.is_some() {
            format!("rebuild down --target {target}")
        } else {
            format!("rebuild up --target {target} --resume")
        });
    }
    next
}

/// An address as a shell takes it.
fn quoted(address: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if address.chars().all(plain) {
        address.to_owned()
    } else {
        format!("'{}'", address.replace('\'', "'\\''"))
    }
}

/// What may exist in no state stops a call until it is settled.
///
/// # Errors
/// Something is not settled.
pub(crate) fn none_unsettled(record: Option<&Record>, target: &str) -> Result<(), Failure> {
    let suspects = record
        .map(|record| record.suspects.as_slice())
        .unwrap_or_default();
    if suspects.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::new(ExitCode::Stopped, "objects may exist that are in no state");
    for suspect in suspects {
        failure = failure.because(told(suspect));
    }
    let replaced = if suspects.iter().any(|suspect| suspect.was.is_some()) {
        "; one whose state has the former object under its address is first removed by hand"
    } else {
        ""
    };
    Err(failure.hint(format!(
        "look for them where they would be, then `rebuild suspects --target {target}` settles them: \
         `--import ADDRESS=ID` takes one that exists into its state, `--gone ADDRESS` says that there is none{replaced}"
    )))
}

/// A suspect in words.
pub(crate) fn told(suspect: &Suspect) -> String {
    let Suspect {
        step, since, host, ..
    } = suspect;
    let host = host
        .as_ref()
        .map_or_else(String::new, |host| format!(", made on host `{host}`"));
    match &suspect.address {
        Some(address) => {
            let id = suspect.id.as_ref();
            let id = id.map_or_else(String::new, |id| format!(" (id `{id}`)"));
            let was = suspect.was.as_ref().map_or_else(String::new, |was| {
                format!(", in the place of `{was}`, which its state has under that address")
            });
            format!(
                "`{}` of step `{step}`{id} may exist in no state, since {since}{host}{was}",
                address.as_str()
            )
        }
        None => {
            format!(
                "anything of step `{step}` may exist in no state, since {since}{host}: what it was to make was not known yet"
            )
        }
    }
}

/// An object that exists, and the resource that it is.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    step: StepId,
    address: ResourceAddress,
    id: String,
    /// Its state has it already.
    is_there: bool,
}

/// Reads `[PHASE.STEP:]ADDRESS=ID`.
fn import_of(text: &str, known: &[Suspect]) -> Result<Import, Failure> {
    let wrong = |what: &str| {
        Failure::new(ExitCode::Unusable, format!("`--import {text}`: {what}"))
            .hint("it takes `ADDRESS=ID`, or `PHASE.STEP:ADDRESS=ID`; nothing was changed")
    };
    let (name, id) = split_id(text).ok_or_else(|| wrong("there is no `=ID`"))?;
    if id.is_empty() {
        return Err(wrong("the id is empty"));
    }
    let (step, address) = split_step(name);
    let address = ResourceAddress::new(address).map_err(|error| wrong(&error.to_string()))?;
    let of_step = |suspect: &&Suspect| step.as_ref().is_none_or(|step| suspect.step == *step);
    let mut steps: Vec<&StepId> = known
        .iter()
        .filter(of_step)
        .filter(|suspect| suspect.address.as_ref() == Some(&address))
        .map(|suspect| &suspect.step)
        .collect();
    if steps.is_empty() {
        // Of a step of which nothing is known any resource may exist.
        steps = known
            .iter()
            .filter(of_step)
            .filter(|suspect| suspect.address.is_none())
            .map(|suspect| &suspect.step)
            .collect();
    }
    match steps.as_slice() {
        [step] => Ok(Import {
            step: (*step).clone(),
            address,
            id: id.to_owned(),
            is_there: false,
        }),
        [] => Err(wrong("nothing of that name is suspected")),
        several => Err(wrong(&format!(
            "it may be of {}: name the step",
            listed(several)
        ))),
    }
}

/// Reads `[PHASE.STEP:]ADDRESS` or `PHASE.STEP`.
fn gone_of(text: &str, known: &[Suspect]) -> Result<(StepId, Option<ResourceAddress>), Failure> {
    let (step, address) = split_step(text);
    let named: Vec<&Suspect> = known
        .iter()
        .filter(|suspect| {
            step.as_ref().is_none_or(|step| suspect.step == *step)
                && suspect
                    .address
                    .as_ref()
                    .is_some_and(|known| known.as_str() == address)
        })
        .collect();
    let wrong = |what: String| {
        Failure::new(ExitCode::Unusable, format!("`--gone {text}`: {what}"))
            .hint("it takes `ADDRESS`, `PHASE.STEP:ADDRESS`, or `PHASE.STEP` of a step that is suspected as a whole; nothing was changed")
    };
    match named.as_slice() {
        [suspect] => Ok((suspect.step.clone(), suspect.address.clone())),
        [] => known
            .iter()
            .find(|suspect| suspect.address.is_none() && suspect.step.to_string() == text)
            .map(|suspect| (suspect.step.clone(), None))
            .ok_or_else(|| wrong("nothing of that name is suspected".to_owned())),
        several => {
            let steps: Vec<&StepId> = several.iter().map(|suspect| &suspect.step).collect();
            Err(wrong(format!(
                "it may be of {}: name the step",
                listed(&steps)
            )))
        }
    }
}

fn listed(steps: &[&StepId]) -> String {
    let steps: Vec<String> = steps.iter().map(|step| format!("step `{step}`")).collect();
    steps.join(" or ")
}

/// Splits at the first `=` that is not part of a key in brackets.
fn split_id(text: &str) -> Option<(&str, &str)> {
    let at = outside_of_keys(text, '=')?;
    Some((&text[..at], &text[at + 1..]))
}

/// Splits a step off the front of an address.
fn split_step(text: &str) -> (Option<StepId>, &str) {
    let step = outside_of_keys(text, ':').and_then(|at| {
        let step = text[..at].parse::<StepId>().ok()?;
        Some((step, &text[at + 1..]))
    });
    match step {
        Some((step, rest)) => (Some(step), rest),
        None => (None, text),
    }
}

/// Where a character first stands outside of `["…"]`.
fn outside_of_keys(text: &str, wanted: char) -> Option<usize> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_u32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' if depth > 0 => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => depth = depth.saturating_sub(1),
            _ if c == wanted && depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

impl Held<'_> {
    /// Something that a person decided by this call.
    pub(crate) fn decision(&self, kind: DecisionKind, about: String) -> Decision {
        Decision {
            kind,
            at: Time::from((self.bench.machine.now)()),
            user: self.bench.machine.user.clone(),
            about: Some(self.bench.masked(&about)),
            reason: None,
        }
    }

    /// Understands an import. One that is in its step's state already, since an earlier call was killed behind it or because
    /// it was never out of it, is none to do; another object under its address is in the way.
    fn to_import(
        &self,
        ledger: &RecordLedger,
        text: &str,
        known: &[Suspect],
    ) -> Result<Import, Failure> {
        let read = import_of(text, known);
        let Some((name, id)) = split_id(text) else {
            return read;
        };
        let (named, address) = split_step(name);
        let Ok(address) = ResourceAddress::new(address) else {
            return read;
        };
        let wanted = read
            .as_ref()
            .ok()
            .map(|import| import.step.clone())
            .or(named);
        let standing = Standing(ledger.view());
        for entry in standing.all() {
            let is_it = wanted.as_ref().is_none_or(|step| entry.step == *step);
            if !is_it || !entry.has_state() {
                continue;
            }
            let step = entry.step;
            let objects = self.bench.objects_now(&step, &standing)?;
            let Some(found) = objects.ids(&self.bench.masked(address.as_str())) else {
                continue;
            };
            if found.is_empty() {
                // Of objects without ids only OpenTofu can tell.
                return read;
            }
            if found.contains(&self.bench.masked(id).as_str()) {
                return Ok(Import {
                    step,
                    address,
                    id: id.to_owned(),
                    is_there: true,
                });
            }
            let found: Vec<String> = found.iter().map(|id| format!("`{id}`")).collect();
            return Err(Failure::new(
                ExitCode::Unusable,
                format!("`--import {text}`: the state of step `{step}` has another object under that address"),
            )
            .because(format!("its id is {}", found.join(" and ")))
            .hint(format!(
                "what is in no state is removed by hand, then `rebuild suspects --target {} --gone {}`; nothing was changed",
                self.bench.target.name,
                quoted(address.as_str())
            )));
        }
        read
    }

    /// Notes that an object is in its step's state, and who wanted it there.
    fn note_imported(&self, ledger: &mut RecordLedger, import: &Import) -> Result<(), Failure> {
        let Import {
            step, address, id, ..
        } = import;
        let decision = self.decision(
            DecisionKind::Import,
            format!("{step}:{}={id}", address.as_str()),
        );
        let is_noted = ledger.record().is_none_or(|record| {
            let mut decisions = record.decisions.iter();
            decisions.any(|known| known.kind == decision.kind && known.about == decision.about)
        });
        let is_suspected = ledger.record().is_some_and(|record| {
            let mut suspects = record.suspects.iter();
            suspects.any(|known| known.step == *step && known.address.as_ref() == Some(address))
        });
        if is_noted && !is_suspected {
            return Ok(());
        }
        ledger
            .change(|record| {
                imported(record, step, address, None);
                if !is_noted {
                    record.decisions.push(decision);
                }
            })
            .map_err(|error| stopped(&error))
    }

    /// Lets OpenTofu take an object into the state of its step.
    ///
    /// A kill at any instant of it loses nothing: the next call waits for OpenTofu, takes the state that it left, and
    /// what is in that state is suspected no more.
    fn import(&self, ledger: &mut RecordLedger, import: &Import) -> Result<(), Failure> {
        let Import {
            step, address, id, ..
        } = import;
        let bench = &self.bench;
        if bench.stop.level() >= StopLevel::Gentle {
            return Err(Failure::new(
                ExitCode::Interrupted,
                format!("interrupted before `{}` was imported", address.as_str()),
            ));
        }
        let standing = Standing(ledger.view());
        let entry = standing.get(step).ok_or_else(|| {
            Failure::new(
                ExitCode::Stopped,
                format!("nothing stands of step `{step}`, so there is no state to import into"),
            )
        })?;
        if entry.state.is_some() && bench.mark(step)?.is_none() {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "the state of step `{step}` is gone, and the record knows that it was there"
                ),
            )
            .hint("restore the state from its versions in the store before anything else"));
        }
        let source = bench.library.get(&entry.applied.bundle)?;
        let (_, def) = source.applied_step(step, &entry.applied)?;
        let StepKind::Tofu(tofu) = &def.kind else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("step `{step}` has no state"),
            ));
        };
        let session = bench
            .applied_session(&entry, &entry.applied, &source, def, tofu, &standing)?
            .session;
        let since = Time::from((bench.machine.now)());
        let host = bench.machine.host.clone();
        ledger
            .change(|record| writes(record, step, host, since))
            .map_err(|error| stopped(&error))?;
        session.import(address.as_str(), id).map_err(|error| {
            // Where that can't be told now, the next call sees what it came to.
            let _ = self.import_failed(ledger);
            let failure = tofu_failure(&error, ExitCode::Failed);
            failure.hint(format!(
                "it is suspected as before; `rebuild suspects --target {}` lists what is left",
                bench.target.name
            ))
        })?;
        let facts = bench.facts(step, &session)?;
        if !facts
            .addresses
            .iter()
            .any(|known| known == address.as_str())
        {
            return Err(Failure::failed(format!(
                "`{}` was imported into step `{step}` and is not in its state",
                address.as_str()
            )));
        }
        let mark = bench.mark(step)?;
        let about = format!("{step}:{}={id}", address.as_str());
        let decision = self.decision(DecisionKind::Import, about);
        ledger
            .change(|record| {
                imported(record, step, address, mark);
                record.decisions.push(decision);
            })
            .map_err(|error| stopped(&error))
    }
}

impl Held<'_> {
    /// A failed import is at work no more, and may have written all the same.
    fn import_failed(&self, ledger: &mut RecordLedger) -> Result<(), Failure> {
        let Some(mut settled) = ledger.record().cloned() else {
            return Ok(());
        };
        let here = self.bench.machine.host.as_str();
        self.bench
            .settle_writings(&mut settled, |host| host == Some(here))?;
        ledger
            .change(|record| *record = settled)
            .map_err(|error| stopped(&error))
    }
}

/// What the record says before an object is taken into its step's state.
fn writes(record: &mut Record, step: &StepId, host: String, since: Time) {
    let entries = &mut record.standing;
    if let Some(entry) = entries.iter_mut().find(|entry| entry.step == *step) {
        entry.writing = Some(Writing {
            host: Some(host),
            since,
        });
    }
}

/// What the record says once an object is in its step's state.
fn imported(
    record: &mut Record,
    step: &StepId,
    address: &ResourceAddress,
    mark: Option<StateMark>,
) {
    record
        .suspects
        .retain(|suspect| suspect.step != *step || suspect.address.as_ref() != Some(address));
    let entries = &mut record.standing;
    if let (Some(mark), Some(entry)) = (mark, entries.iter_mut().find(|entry| entry.step == *step))
    {
        entry.state = Some(mark);
        entry.writing = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn suspect(step: &str, address: Option<&str>) -> Suspect {
        Suspect {
            step: step.parse().unwrap(),
            address: address.map(|address| ResourceAddress::new(address).unwrap()),
            provider: None,
            id: None,
            was: None,
            host: Some("bench".to_owned()),
            since: Time::from(jiff::Timestamp::UNIX_EPOCH),
            run: phase_engine::RunId::new("01JQ0000000000000000000001").unwrap(),
        }
    }

    #[test]
    fn an_import_is_read_with_keys_and_ids_that_hold_anything() {
        let known = [
            suspect("1a.edge", Some(r#"x.y["a=b:c"]"#)),
            suspect("1a.edge", Some("x.z")),
            suspect("1a.dns", Some("x.z")),
            suspect("2.late", None),
        ];
        let import = |text: &str| import_of(text, &known).map_err(|failure| failure.what);
        let found = import(r#"x.y["a=b:c"]=id=with=signs"#).unwrap();
        assert_eq!(
            (found.step.to_string().as_str(), found.id.as_str()),
            ("1a.edge", "id=with=signs")
        );
        assert!(import("x.z=1").unwrap_err().contains("name the step"));
        assert_eq!(import("1a.dns:x.z=a:b").unwrap().step.to_string(), "1a.dns");
        // Nothing is known of what that step made.
        assert_eq!(import("x.other=1").unwrap().step.to_string(), "2.late");
        for (text, why) in [
            ("x.z", "there is no `=ID`"),
            ("1a.dns:x.z=", "the id is empty"),
            ("1a.dns:x.q=1", "nothing of that name is suspected"),
        ] {
            assert!(import(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn what_is_gone_is_named_by_its_address_or_its_step() {
        let known = [
            suspect("1a.edge", Some("x.z")),
            suspect("1a.dns", Some("x.z")),
            suspect("2.late", None),
        ];
        let gone = |text: &str| gone_of(text, &known).map_err(|failure| failure.what);
        assert!(gone("x.z").unwrap_err().contains("name the step"));
        assert_eq!(gone("1a.dns:x.z").unwrap().0.to_string(), "1a.dns");
        let (step, address) = gone("2.late").unwrap();
        assert_eq!((step.to_string().as_str(), address), ("2.late", None));
        // A step of which one object alone is suspected is not settled as a whole.
        assert!(gone("1a.edge").is_err());
        assert!(gone("x.q").is_err());
    }

    #[test]
    fn an_address_with_a_key_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("module.a.x.y"), "module.a.x.y");
        assert_eq!(quoted(r#"x.y["it's"]"#), r#"'x.y["it'\''s"]'"#);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let known = [suspect("1a.edge", Some("x.z")), suspect("2.late", None)];
            let _ = import_of(&text, &known);
            let _ = gone_of(&text, &known);
        }

        #[test]
        fn any_key_and_id_come_back(key in "[ -~]{0,12}", id in "[ -~]{1,12}") {
            let key = serde_json::Value::String(key).to_string();
            let address = format!("x.y[{key}]");
            let text = format!("{address}={id}");
            prop_assert_eq!(split_id(&text), Some((address.as_str(), id.as_str())));
        }
    }
}
