//! `state`: lists, earlier versions and going back, at a served backend or in the store of a target.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use backend_server::{
    Client, ClientError, LocksDocument, Login, Place, StateEntry, VersionsDocument,
};
use phase_engine::ExitCode;
use run::stop::StopRequests;
use schemars::JsonSchema;
use secrets::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::state_file::Meta;

use super::state_source::StateSource;
use super::{Context, Told, telling};
use crate::args::{Served, StatePull, StateRestore, StatesOf};
use crate::failure::Failure;
use crate::prompt::{self, Reply};
use crate::render::{self, Listed};
use crate::stream::clean;

/// The line that `backend serve` prints, as a file.
#[derive(Deserialize)]
struct ServerFile {
    address: String,
    username: Option<String>,
    password: Option<String>,
    token: Option<String>,
}

/// What was put back.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Restored {
    /// The version of this format.
    schema: u32,
    /// The state's path.
    path: String,
    /// The serial that is there now.
    serial: u64,
    /// The lineage that is there now.
    lineage: String,
    /// The serial that it replaced; none where there was no state.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_serial: Option<u64>,
    /// The lineage that it replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_lineage: Option<String>,
}

/// The served backend that is meant, and who we are there.
pub(super) fn client(context: &Context, asked: &Served) -> Result<(Client, Place), Box<Failure>> {
    let place = place(context, asked)?;
    match Client::new(place.clone()) {
        Ok(client) => Ok((client, place)),
        Err(error) => Err(Box::new(failure(&error))),
    }
}

fn place(context: &Context, asked: &Served) -> Result<Place, Box<Failure>> {
    let machine = &context.machine;
    let var = |name: &str| {
        let value = machine.env.get(std::ffi::OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let ca_file = asked
        .ca_file
        .clone()
        .or_else(|| var("REBUILD_BACKEND_CA_FILE").map(Into::into))
        .map(|file| machine.cwd.join(file));
    let unknown = |what: &str| {
        Box::new(Failure::new(ExitCode::Unusable, what).hint(
            "nothing was asked; name it with `--server` or `REBUILD_BACKEND`, and the credential with \
             `REBUILD_BACKEND_USERNAME` and `REBUILD_BACKEND_PASSWORD`, or `REBUILD_BACKEND_TOKEN`",
        ))
    };
    let named = asked.server.clone().or_else(|| var("REBUILD_BACKEND"));
    let from_tofu = || {
        let address = var("TF_HTTP_ADDRESS")?;
        address
            .split_once("/state/")
            .map(|(server, _)| server.to_owned())
    };
    let named = named.or_else(from_tofu);
    let named = named.ok_or_else(|| unknown("it is not said which state backend is meant"))?;
    let is_address = named.starts_with("http://") || named.starts_with("https://");
    let file = if is_address {
        ServerFile {
            address: named,
            username: None,
            password: None,
            token: None,
        }
    } else {
        server_file(&machine.cwd.join(&named)).map_err(|error| {
            Box::new(error.hint("`--server` takes an address, or a file with the line that `rebuild backend serve` printed"))
        })?
    };
    let basic = |username: Option<String>, password: Option<String>| {
        username
            .zip(password)
            .map(|(username, password)| Login::Basic {
                username,
                password: Secret::new(password),
            })
    };
    let login = basic(file.username, file.password)
        .or_else(|| file.token.map(|token| Login::Bearer(Secret::new(token))))
        .or_else(|| var("REBUILD_BACKEND_TOKEN").map(|token| Login::Bearer(Secret::new(token))))
        .or_else(|| {
            basic(
                var("REBUILD_BACKEND_USERNAME"),
                var("REBUILD_BACKEND_PASSWORD"),
            )
        })
        .or_else(|| basic(var("TF_HTTP_USERNAME"), var("TF_HTTP_PASSWORD")));
    Ok(Place {
        address: file.address.trim_end_matches('/').to_owned(),
        login: login.ok_or_else(|| unknown("there is no credential for the state backend"))?,
        ca_file,
    })
}

fn server_file(path: &Path) -> Result<ServerFile, Box<Failure>> {
    let failed = |error: &dyn std::error::Error| {
        let mut failure = Failure::of(ExitCode::Unusable, error);
        failure
            .causes
            .insert(0, std::mem::take(&mut failure.message));
        failure.message = format!(
            "cannot read the state backend's address from `{}`",
            path.display()
        );
        Box::new(failure)
    };
    let text = std::fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

/// Name and password, as OpenTofu can send them; a bearer's token goes with any name that it has none of.
pub(super) fn basic(login: &Login) -> (String, Secret) {
    match login {
        Login::Basic { username, password } => (username.clone(), password.clone()),
        Login::Bearer(token) => (backend_server::TOKEN_USER.to_owned(), token.clone()),
    }
}

fn failure(error: &ClientError) -> Failure {
    let (exit, hint) = match error {
        ClientError::Address { .. } | ClientError::CaFile { .. } => {
            (ExitCode::Unusable, "nothing was asked")
        }
        ClientError::Denied { .. } => (
            ExitCode::Unusable,
            "nothing was changed; see which paths this credential opens in the backend's configuration",
        ),
        ClientError::Locked { .. } => (
            ExitCode::Locked,
            "wait for it; if whoever holds it is gone for good, `tofu force-unlock` with that id in the root module",
        ),
        ClientError::Absent { .. } => (
            ExitCode::Failed,
            "`rebuild state list` and `rebuild state versions` say what there is",
        ),
        ClientError::Unreachable { .. } => (
            ExitCode::Stopped,
            "nothing was changed; see that the backend runs and that its address is right",
        ),
        ClientError::Refused { .. }
        | ClientError::Answer { .. }
        | ClientError::Local(_)
        | ClientError::NotAState(_) => (
            ExitCode::Failed,
            "the backend's access log says what it was asked",
        ),
    };
    Failure::of(exit, error).hint(hint)
}

fn told(done: Result<Told, Box<Failure>>) -> Told {
    done.unwrap_or_else(|failure| Told::failed(*failure))
}

pub(super) fn failed(error: ClientError) -> Box<Failure> {
    Box::new(failure(&error))
}

fn listed(context: &Context, entries: &[StateEntry], none: &str) -> String {
    render::states(
        &entries.iter().map(Listed::of).collect::<Vec<_>>(),
        none,
        context.out,
    )
}

/// Lists the states below a path.
pub(super) fn list(context: &Context, asked: &StatesOf, under: Option<&str>) -> Told {
    told((|| {
        let mut states = StateSource::open(context, asked)?.states()?;
        if let Some(under) = under {
            let under = under.trim_matches('/');
            states.states.retain(|entry| {
                let rest = entry.path.strip_prefix(under);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
        }
        let text = listed(context, &states.states, "no state is there\n");
        Ok(Told::done(telling::document(&states), text))
    })())
}

/// Lists the states that are locked, and by whom.
pub(super) fn locks(context: &Context, asked: &StatesOf) -> Told {
    told((|| {
        let locks = LocksDocument::from(StateSource::open(context, asked)?.states()?);
        let text = listed(context, &locks.locks, "no state is locked\n");
        Ok(Told::done(telling::document(&locks), text))
    })())
}

/// Lists the versions of a state.
pub(super) fn versions(context: &Context, asked: &StatesOf, path: &str) -> Told {
    told((|| {
        let source = StateSource::open(context, asked)?;
        let versions = source.versions(&source.path(path)?)?;
        let text = versions_text(context, &versions);
        Ok(Told::done(telling::document(&versions), text))
    })())
}

fn versions_text(context: &Context, versions: &VersionsDocument) -> String {
    let rows: Vec<_> = versions
        .versions
        .iter()
        .map(|version| {
            (
                version.version.as_str(),
                version.lineage.as_str(),
                version.fault.as_deref(),
            )
        })
        .collect();
    let now = versions
        .serial
        .map(|serial| (serial, versions.lineage.as_deref().unwrap_or_default()));
    render::versions(now, &rows, context.out)
}

/// Prints a state, or writes it into a file.
pub(super) fn pull(context: &Context, asked: &StatePull) -> Told {
    told((|| {
        let source = StateSource::open(context, &asked.of)?;
        let state = source.pull(&source.path(&asked.path)?, asked.version.as_deref())?;
        let Some(into) = &asked.into else {
            let mut text = String::new();
            let read =
                Client::copy_start(&state).and_then(|mut state| state.read_to_string(&mut text));
            read.map_err(|error| failed(ClientError::Local(error)))?;
            let document =
                serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text.clone()));
            return Ok(Told::done(document, text));
        };
        let path = context.machine.cwd.join(into);
        let written = process::files::write_atomically_with(&path, 0o600, |file| {
            let mut from_start = Client::copy_start(&state)?;
            std::io::copy(&mut from_start, file).map(drop)
        });
        written.map_err(|error| Box::new(Failure::of(ExitCode::Failed, &error)))?;
        let Meta { lineage, serial } = Client::meta_of(&state).map_err(failed)?;
        let text = format!(
            "serial {serial} of lineage {} is in {}\n",
            clean(&lineage),
            clean(&path.display().to_string())
        );
        let document = serde_json::json!({ "schema": 1, "path": asked.path, "serial": serial, "lineage": lineage, "file": path });
        Ok(Told::done(document, text))
    })())
}

/// Puts an earlier state back.
pub(super) fn restore(context: &Context, asked: &StateRestore) -> Told {
    told(try_restore(context, asked))
}

fn try_restore(context: &Context, asked: &StateRestore) -> Result<Told, Box<Failure>> {
    let source = StateSource::open(context, &asked.of)?;
    let path = &source.path(&asked.path)?;
    let now = source.versions(path)?;
    let state = match (&asked.version, &asked.file) {
        (Some(version), _) => source.pull(path, Some(version))?,
        (None, Some(file)) => open(&context.machine.cwd.join(file))?,
        (None, None) => {
            return Err(Box::new(
                Failure::new(ExitCode::Unusable, "it is not said what is to be put back")
                    .hint("add `--version` with one of those that `rebuild state versions` lists, or `--file`"),
            ));
        }
    };
    let Meta { lineage, serial } = Client::meta_of(&state).map_err(failed)?;
    let other = now.lineage.as_ref().filter(|there| **there != lineage);
    if let Some(there) = other
        && asked.lineage.as_ref() != Some(&lineage)
    {
        return Err(Box::new(
            Failure::new(
                ExitCode::Declined,
                format!("what is to be put back at `{path}` is of another lineage than the state there: it knows other objects"),
            )
            .hint(format!(
                "nothing was changed; there is lineage {there} (serial {}), offered is lineage {lineage} (serial {serial}): if that is meant, add `--lineage {lineage}`",
                now.serial.unwrap_or_default()
            )),
        ));
    }
    let typed = source.target().unwrap_or(path);
    confirm(context, asked, typed, &now, serial, &lineage)?;
    source.restore(context, path, state, serial, &lineage)?;
    let mut text = format!(
        "serial {serial} of lineage {} is the state at {path} now\n",
        clean(&lineage)
    );
    if let Some(replaced) = now.serial {
        let of = source.target();
        let of = of.map_or_else(String::new, |target| format!(" --target {target}"));
        text.push_str(&format!(
            "what it replaced is kept: `rebuild state versions {path}{of}` lists serial {replaced}\n"
        ));
    }
    if let (Some(target), Some((phase, _))) = (source.target(), path.split_once('/')) {
        text.push_str(&format!(
            "the record knows the one that it replaced: `rebuild accept {phase} --target {target} --reason TEXT` takes this one into what stands\n"
        ));
    }
    Ok(Told::done(
        telling::document(&Restored {
            schema: 1,
            path: path.clone(),
            serial,
            lineage,
            replaced_serial: now.serial,
            replaced_lineage: now.lineage,
        }),
        text,
    ))
}

/// A state that is gone back to forgets what was made since, so its path is typed, or the name of its target.
fn confirm(
    context: &Context,
    asked: &StateRestore,
    typed: &str,
    now: &VersionsDocument,
    serial: u64,
    lineage: &str,
) -> Result<(), Box<Failure>> {
    let path = &now.path;
    let declined = |message: String| {
        Err(Box::new(Failure::new(ExitCode::Declined, message).hint(
            format!("nothing was changed; where nobody can be asked, add `--confirm {typed}`"),
        )))
    };
    match &asked.confirm {
        Some(confirm) if confirm == typed => return Ok(()),
        Some(confirm) => {
            return declined(format!("`--confirm {confirm}` does not match `{typed}`"));
        }
        None => {}
    }
    let can_ask = context.terminals.stdin && context.terminals.stderr && !context.is_ci;
    if !can_ask || !prompt::is_in_foreground() {
        return declined(format!(
            "putting a state back at `{path}` must be confirmed"
        ));
    }
    let there = match now.serial {
        Some(there) => format!("serial {there} is there"),
        None => "no state is there".to_owned(),
    };
    let question = format!(
        "serial {serial} of lineage {} goes to {path}; {there}, and objects that only it knows are forgotten.\nType `{typed}` to go on: ",
        clean(lineage)
    );
    match prompt::ask(&question, &StopRequests::new(None)) {
        Reply::Line(line) if line == typed => Ok(()),
        Reply::Line(_) | Reply::Declined => {
            declined(format!("nobody agreed to put a state back at `{path}`"))
        }
    }
}

fn open(path: &Path) -> Result<File, Box<Failure>> {
    File::open(path).map_err(|error| {
        let mut failure = Failure::new(
            ExitCode::Unusable,
            format!("cannot read `{}`", path.display()),
        );
        failure.causes.push(error.to_string());
        Box::new(failure)
    })
}
