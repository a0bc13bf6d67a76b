//! The required drill: what `up` of one target wants to have seen on another; and the archive that outlives a store.

use std::sync::Arc;
use std::time::Duration;

use phase_engine::{ExitCode, Failure, TargetName};
use platform::{DirFiles, DrillDef, StoreDef};
use record::{Decision, DecisionKind, Record, RecordStore, Time};
use secrets::Masker;

use crate::api::Machine;
use crate::error::{CallError, stopped};
use crate::library::short;
use crate::open::Held;
use crate::paths::TargetPaths;
use crate::secret_book::{self, SecretBook};
use crate::storage::Opener;
use crate::ui::{Nobody, Notice, Ui};

/// A drill that is required, and where its records are.
pub(crate) struct RequiredDrill {
    target: TargetName,
    max_age: Duration,
    places: Vec<Place>,
}

/// One place that keeps records of the drill.
enum Place {
    /// The drill's own store, with a head.
    Store(RecordStore),
    /// Its archive, which other targets may share.
    Archive(RecordStore),
}

/// Finds where the records of a required drill are.
///
/// # Errors
/// The drill's target file has faults, or nothing keeps its records once it is torn down.
pub(crate) fn required_drill(
    machine: &Machine,
    root: &std::path::Path,
    platform_name: &str,
    provides_state: bool,
    def: &DrillDef,
) -> Result<RequiredDrill, CallError> {
    let files = DirFiles::open(root).map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
    let drill = platform::load_target(&files, None, &def.target)?.target;
    if provides_state && !outlives_phase_0(&drill.store) && drill.archive.is_none() {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "`[require] drill` can't be met: the store of target `{}` goes with its phase 0, and with it every record",
                def.target
            ),
        )
        .hint(format!(
            "give `targets/{}.toml` an `[archive]`; nothing was touched",
            def.target
        ))
        .into());
    }
    let paths = TargetPaths::new(&machine.state_home, platform_name, &drill.name);
    let nobody: Arc<dyn Ui> = Arc::new(Nobody);
    let used = secret_book::used_by_store(&drill);
    let secrets = SecretBook::fetch(&used, &drill, machine, root, &Masker::new(), &nobody)
        .map_err(|error| Failure::of(ExitCode::Unusable, &error).hint(error.hint()))?;
    let opener = Opener {
        machine,
        target: &drill,
        root,
        secrets: &secrets,
    };
    let mut places = Vec::new();
    // One that phase 0 makes is gone after a drill; its archive has every record that has ended.
    if !provides_state || outlives_phase_0(&drill.store) {
        let store = opener.open(&drill.store, &paths.store())?;
        places.push(Place::Store(RecordStore::new(store)));
    }
    places.extend(archive(&opener, &paths)?.map(Place::Archive));
    Ok(RequiredDrill {
        target: drill.name,
        max_age: def.max_age,
        places,
    })
}

/// A store that phase 0 does not make keeps its records when everything is torn down.
fn outlives_phase_0(store: &StoreDef) -> bool {
    match store {
        StoreDef::Local { .. } => true,
        StoreDef::Cloud(_) => false,
    }
}

/// The target's archive, where it names one.
///
/// # Errors
/// What `[archive]` says can't be used.
pub(crate) fn archive(
    opener: &Opener<'_>,
    paths: &TargetPaths,
) -> Result<Option<RecordStore>, Failure> {
    let Some(def) = &opener.target.archive else {
        return Ok(None);
    };
    let store = opener.open(def, &paths.archive())?;
    Ok(Some(RecordStore::new(store)))
}

impl RequiredDrill {
    /// Says why no drill counts; nothing where one does.
    ///
    /// # Errors
    /// The records can't be read.
    fn missing(&self, platform: &str, bundle: &str, now: Time) -> Result<Option<String>, Failure> {
        let mut finished: Vec<Record> = Vec::new();
        for place in &self.places {
            let listed = match place {
                Place::Store(records) => records.list(),
                Place::Archive(records) => records.archived(),
            };
            let listed = listed.map_err(|error| stopped(&error))?;
            // A damaged record proves nothing and harms no other.
            finished.extend(listed.into_iter().filter_map(|listed| listed.record.ok()));
        }
        finished.retain(|record| {
            record.platform == platform && record.target == self.target && record.finished.is_some()
        });
        let age = |record: &Record| record.finished.map(|at| now.seconds_since(at));
        let target = &self.target;
        let of_these = finished
            .iter()
            .filter(|record| record.proves(bundle))
            .filter_map(|record| Some((age(record)?, record)))
            .min_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((seconds, record)) = of_these {
            if seconds <= self.max_age.as_secs_f64() {
                return Ok(None);
            }
            return Ok(Some(format!(
                "the last drill of these definitions, run `{}` of target `{target}`, is {} old, and {} is allowed",
                record.run,
                span(seconds),
                span(self.max_age.as_secs_f64())
            )));
        }
        let latest = finished.iter().max_by_key(|record| record.finished);
        Ok(Some(match latest {
            None => format!("target `{target}` has no finished run"),
            Some(record) => {
                let of = record
                    .phases
                    .iter()
                    .rev()
                    .find_map(|phase| phase.bundle.as_deref())
                    .map_or("nothing", short);
                format!(
                    "no finished run of target `{target}` applied every phase from the definitions `{}`; its last one, \
                     `{}`, was of `{of}`",
                    short(bundle),
                    record.run
                )
            }
        }))
    }
}

/// A length of time as people read it.
fn span(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")];
    let (n, unit) = UNITS
        .iter()
        .find(|(length, _)| seconds >= *length)
        .map_or((seconds, "second"), |(length, unit)| {
            (seconds / length, *unit)
        });
    let n = n.floor();
    format!("{n} {unit}{}", if n == 1.0 { "" } else { "s" })
}

impl Held<'_> {
    /// Says why the required drill is missing; nothing where none is required, or one counts.
    pub(crate) fn drill_missing(&self) -> Result<Option<Failure>, Failure> {
        let (Some(required), Ok(today)) = (&self.drill, &self.today) else {
            return Ok(None);
        };
        let now = Time::from((self.bench.machine.now)());
        let why = required.missing(&self.platform_name, today.bundle.digest(), now)?;
        let (drill, target) = (&required.target, &self.bench.target.name);
        Ok(why.map(|why| {
            Failure::new(
                ExitCode::Stopped,
                format!("target `{target}` wants a green drill of these definitions"),
            )
            .because(why)
            .hint(format!(
                "nothing was changed: `rebuild up --target {drill} --no-pause`, then this command again; \
                 `--without-drill REASON` goes on without one, and is recorded"
            ))
        }))
    }

    /// Stops where the required drill is missing, unless a person goes on without it: that is then the decision.
    ///
    /// # Errors
    /// No drill counts, the reason is empty, or the drill's records can't be read.
    pub(crate) fn demand_drill(
        &self,
        without: Option<&str>,
        record: Option<&Record>,
    ) -> Result<Option<Decision>, Failure> {
        if self.drill.is_none() {
            return Ok(None);
        }
        if let Some(reason) = without {
            reasoned(reason)?;
            return Ok(Some(Decision {
                kind: DecisionKind::WithoutDrill,
                at: Time::from((self.bench.machine.now)()),
                user: self.bench.machine.user.clone(),
                about: self.drill.as_ref().map(|drill| drill.target.to_string()),
                reason: Some(self.bench.masked(reason)),
            }));
        }
        // A run that was begun without one goes on without one.
        let was_waived = record.is_some_and(|record| {
            record
                .decisions
                .iter()
                .any(|decision| decision.kind == DecisionKind::WithoutDrill)
        });
        match self.drill_missing()? {
            Some(failure) if !was_waived => Err(failure),
            _ => Ok(None),
        }
    }

    /// Copies the record of a run that has ended to the archive, where the target names one. What fails is told: the
    /// next call tries again.
    pub(crate) fn archive_ended(&self, record: Option<&Record>) {
        let (Some(archive), Some(record)) = (&self.archive, record) else {
            return;
        };
        if !record.status.has_ended() {
            return;
        }
        if let Err(error) = self.records.archive(&record.run, archive) {
            self.bench.ui.tell(&Notice::Warning {
                message: format!(
                    "the record of run `{}` is not in the archive: {}",
                    record.run,
                    stopped(&error).one_line()
                ),
                hint: Some(format!(
                    "the archive is {}; the next `up` or `down` of the target tries again",
                    archive.describe()
                )),
            });
        }
    }
}

/// A waiver says why.
fn reasoned(reason: &str) -> Result<(), Failure> {
    if reason.trim().is_empty() {
        return Err(Failure::new(
            ExitCode::Unusable,
            "`--without-drill` needs a reason, which is recorded",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_length_of_time_is_told_in_its_largest_unit() {
        for (seconds, expected) in [
            (0.5, "0 seconds"),
            (61.0, "1 minute"),
            (7200.0, "2 hours"),
            (700_000.0, "8 days"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
