//! Where states are looked at and put back: a served backend, or the own store of a target.

use std::fs::File;
use std::io::{Seek as _, Write as _};

use backend_server::{Client, StatesDocument, VersionsDocument};
use phase_engine::ExitCode;
use run::api::Site;
use state_backend::{BackendError, LockInfo, StateBackend};
use store::Body;

use super::{Context, served};
use crate::args::StatesOf;
use crate::failure::Failure;

/// Where states are.
pub(super) enum StateSource {
    /// A served backend.
    Server(Client),
    /// A target.
    Target {
        /// The target.
        site: Site,
        /// Its states, for reading.
        backend: Box<StateBackend>,
    },
}

impl StateSource {
    /// Opens the one that is meant.
    pub(super) fn open(context: &Context, asked: &StatesOf) -> Result<Self, Box<Failure>> {
        let Some(target) = &asked.target else {
            return served::client(context, &asked.served).map(|(client, _)| Self::Server(client));
        };
        let site = Site {
            platform: context.platform.clone(),
            target: target.clone(),
        };
        match run::target_states(&context.machine, &site) {
            Ok(backend) => Ok(Self::Target {
                site,
                backend: Box::new(backend),
            }),
            Err(error) => Err(Box::new(Failure::of_call(error, context.err))),
        }
    }

    /// The target's name, where it is one.
    pub(super) fn target(&self) -> Option<&str> {
        match self {
            Self::Server(_) => None,
            Self::Target { site, .. } => Some(&site.target),
        }
    }

    /// The name by which the state is known here.
    pub(super) fn path(&self, named: &str) -> Result<String, Box<Failure>> {
        match self {
            Self::Server(_) => Ok(named.to_owned()),
            Self::Target { .. } => {
                run::state_of_step(named).map_err(|failure| Box::new(failure.into()))
            }
        }
    }

    /// Every state, with its lock.
    pub(super) fn states(&self) -> Result<StatesDocument, Box<Failure>> {
        match self {
            Self::Server(client) => client.states().map_err(served::failed),
            Self::Target { backend, .. } => {
                backend_server::states(backend, |_| true).map_err(unreadable)
            }
        }
    }

    /// The versions of a state.
    pub(super) fn versions(&self, path: &str) -> Result<VersionsDocument, Box<Failure>> {
        match self {
            Self::Server(client) => client.versions(path).map_err(served::failed),
            Self::Target { backend, .. } => {
                backend_server::versions(backend, path).map_err(unreadable)
            }
        }
    }

    /// A state as it is kept, or an earlier version of it.
    pub(super) fn pull(&self, path: &str, version: Option<&str>) -> Result<File, Box<Failure>> {
        let (backend, target) = match self {
            Self::Server(client) => return client.pull(path, version).map_err(served::failed),
            Self::Target { backend, site } => (backend, &site.target),
        };
        let found = match version {
            None => backend.read_body(path),
            Some(name) => backend.version_named(path, name).and_then(|version| {
                let version = version.map(|version| backend.read_version_body(&version));
                version.transpose().map(Option::flatten)
            }),
        };
        let Some(found) = found.map_err(unreadable)? else {
            let what = match version {
                Some(version) => format!("there is no version `{version}` of the state `{path}`"),
                None => format!("there is no state `{path}`"),
            };
            return Err(Box::new(Failure::new(ExitCode::Failed, what).hint(format!(
                "`rebuild state list --target {target}` and `rebuild state versions {path} --target {target}` say what there is"
            ))));
        };
        let copied = tempfile::tempfile().and_then(|mut file| {
            found.bytes.each_chunk(|chunk| file.write_all(chunk))?;
            file.rewind()?;
            Ok(file)
        });
        copied.map_err(|error| Box::new(Failure::of(ExitCode::Failed, &error)))
    }

    /// Puts a state in the place of the one that is there.
    pub(super) fn restore(
        &self,
        context: &Context,
        path: &str,
        state: File,
        serial: u64,
        lineage: &str,
    ) -> Result<(), Box<Failure>> {
        match self {
            Self::Server(client) => {
                let info = LockInfo::new(
                    "rebuild state restore",
                    &format!("puts serial {serial} back"),
                    &format!("{}@{}", context.machine.user, context.machine.host),
                    (context.machine.now)(),
                );
                client.lock(path, &info).map_err(served::failed)?;
                let done = client.restore(path, &state, &info, lineage);
                let unlocked = client.unlock(path, &info);
                done.map_err(served::failed)?;
                unlocked.map_err(served::failed)
            }
            Self::Target { site, .. } => {
                let bytes = Body::of_file(state)
                    .map_err(|error| Box::new(Failure::of(ExitCode::Failed, &error)))?;
                let mut done = Ok(());
                context.told_about(|ui| {
                    done = run::restore_target_state(
                        &context.machine,
                        site,
                        path,
                        &bytes,
                        lineage,
                        ui,
                    );
                    super::Told::told_already()
                });
                done.map_err(|error| Box::new(Failure::of_call(error, context.err)))
            }
        }
    }
}

fn unreadable(error: BackendError) -> Box<Failure> {
    let exit = match error {
        BackendError::Key(_) => ExitCode::Unusable,
        BackendError::Damaged { .. } | BackendError::DamagedLock { .. } => ExitCode::Failed,
        _ => ExitCode::Stopped,
    };
    Box::new(Failure::of(exit, &error).hint("nothing was changed"))
}
