//! `up --upgrade`: newer versions of providers and modules in the place of those that are recorded. Without it nothing
//! moves by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use phase_engine::{Failure, StepId};
use record::Applied;
use tofu::{DownloadedModule, InitReport, LockFile, ModuleFile};

use crate::library::Extras;
use crate::ui::Notice;
use crate::world::TargetWorld;

/// What the steps of a call take in the place of what is recorded.
#[derive(Debug, Default)]
pub(crate) struct Upgrade(Mutex<BTreeMap<StepId, Taken>>);

/// What one step takes.
#[derive(Clone, Debug)]
struct Taken {
    extras: Arc<Extras>,
    moves: Vec<Move>,
    /// Its committed lock file holds back what is newer.
    is_held_back: bool,
}

/// One provider or module that is another version now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Move {
    kind: &'static str,
    name: String,
    from: Option<String>,
    to: Option<String>,
}

impl Upgrade {
    /// Keeps what an `init -upgrade` of a step came to. A committed lock file is the platform's own word on providers,
    /// and stays in force.
    pub(crate) fn keep(
        &self,
        step: &StepId,
        committed: Option<&[u8]>,
        report: &InitReport,
        modules: Vec<ModuleFile>,
        applied: Option<&Applied>,
        former: Option<&Extras>,
    ) {
        let newest = report.lock_file.clone();
        let lock_file = committed.map(<[u8]>::to_vec).or_else(|| newest.clone());
        let is_held_back =
            committed.is_some() && versions(committed) != versions(newest.as_deref());
        let providers = match committed {
            Some(_) => versions(committed),
            None => report
                .providers
                .iter()
                .map(|package| (package.address.clone(), package.version.clone()))
                .collect(),
        };
        let mut moves: Vec<Move> = applied
            .into_iter()
            .flat_map(|applied| moved_providers(&applied.providers, &providers))
            .collect();
        moves.extend(moved_modules(
            &former
                .map(|former| DownloadedModule::of(&former.modules))
                .unwrap_or_default(),
            &DownloadedModule::of(&modules),
        ));
        let taken = Taken {
            extras: Arc::new(Extras { lock_file, modules }),
            moves,
            is_held_back,
        };
        self.locked().insert(step.clone(), taken);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<StepId, Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The versions that a lock file names.
fn versions(lock_file: Option<&[u8]>) -> BTreeMap<String, String> {
    lock_file
        .and_then(|bytes| LockFile::parse(bytes).ok())
        .map(|lock| {
            let entries = lock.entries.into_iter();
            entries
                .map(|(address, entry)| (address, entry.version))
                .collect()
        })
        .unwrap_or_default()
}

/// Providers of which another version is taken; one that is new or gone has not moved.
fn moved_providers(from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> Vec<Move> {
    from.iter()
        .filter_map(|(address, was)| {
            let is = to.get(address).filter(|is| *is != was)?;
            Some(Move {
                kind: "provider",
                name: address.clone(),
                from: Some(was.clone()),
                to: Some(is.clone()),
            })
        })
        .collect()
}

/// Modules of which something else was downloaded.
fn moved_modules(from: &[DownloadedModule], to: &[DownloadedModule]) -> Vec<Move> {
    from.iter()
        .filter_map(|was| {
            let is = to.iter().find(|is| is.name == was.name)?;
            (is.version != was.version || is.content != was.content).then(|| Move {
                kind: "module",
                name: was.name.clone(),
                from: was.version.clone(),
                to: is.version.clone(),
            })
        })
        .collect()
}

impl TargetWorld<'_, '_> {
    /// What `init` is to find of a step of today's definitions: what was recorded, or what an upgrade took.
    pub(crate) fn extras_today(
        &self,
        step: &StepId,
        applied: Option<&Applied>,
    ) -> Result<Option<Arc<Extras>>, Failure> {
        let taken = self
            .upgrade
            .as_ref()
            .and_then(|upgrade| upgrade.locked().get(step).cloned());
        match (taken, applied) {
            (Some(taken), _) => Ok(Some(taken.extras)),
            (None, Some(applied)) => self.bench.extras(applied),
            (None, None) => Ok(None),
        }
    }

    /// Tells what moves in which steps, before anything is changed.
    pub(crate) fn tell_upgrade(&self) {
        let Some(upgrade) = &self.upgrade else {
            return;
        };
        let taken = upgrade.locked();
        // In the order of the phases.
        let order = self
            .today
            .iter()
            .flat_map(|today| today.platform.steps())
            .filter_map(|def| Some((&def.id, taken.get(&def.id)?)));
        let mut n_moves = 0;
        for (step, taken) in order {
            n_moves += taken.moves.len();
            for moved in &taken.moves {
                self.bench.ui.tell(&Notice::Upgrade {
                    step: step.to_string(),
                    kind: moved.kind.to_owned(),
                    name: moved.name.clone(),
                    from: moved.from.clone(),
                    to: moved.to.clone(),
                });
            }
            if taken.is_held_back {
                self.bench.ui.tell(&Notice::Warning {
                    message: format!(
                        "the lock file of step `{step}` is committed and holds newer providers back"
                    ),
                    hint: Some(
                        "run `tofu init -upgrade` in its root module and commit the lock file"
                            .to_owned(),
                    ),
                });
            }
        }
        if n_moves == 0 {
            self.bench.ui.tell(&Notice::Warning {
                message: "no provider and no module moves: nothing newer is allowed, or to be had"
                    .to_owned(),
                hint: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, version: Option<&str>, content: &str) -> DownloadedModule {
        DownloadedModule {
            name: name.to_owned(),
            version: version.map(str::to_owned),
            content: content.to_owned(),
        }
    }

    #[test]
    fn what_has_another_version_or_content_has_moved() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect()
        };
        let moved = moved_providers(
            &map(&[("a", "1"), ("b", "1"), ("gone", "1")]),
            &map(&[("a", "1"), ("b", "2"), ("new", "1")]),
        );
        assert_eq!(moved.len(), 1);
        assert_eq!(
            (moved[0].name.as_str(), moved[0].to.as_deref()),
            ("b", Some("2"))
        );
        let moved = moved_modules(
            &[
                module("far", Some("1"), "x"),
                module("git", None, "x"),
                module("same", None, "x"),
            ],
            &[
                module("far", Some("2"), "y"),
                module("git", None, "y"),
                module("same", None, "x"),
            ],
        );
        let names: Vec<&str> = moved.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["far", "git"]);
    }
}
