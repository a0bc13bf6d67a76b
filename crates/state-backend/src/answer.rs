//! From a request to an answer: the one place that knows status codes.

use crate::lock_info::id_of;
use crate::{BackendError, Demand, LockInfo, StateBackend, Written};
use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use std::io;
use store::Body;

/// The longest description of a lock that is taken, in bytes.
const MAX_LOCK: u64 = 64 * 1024;

/// The methods that OpenTofu's client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads a state.
    Get,
    /// Writes a state.
    Post,
    /// Moves a state to its versions.
    Delete,
    /// Takes a state's lock.
    Lock,
    /// Releases a state's lock.
    Unlock,
}

impl Verb {
    /// The verb of a method; `None` for one that OpenTofu does not use.
    pub fn of(method: &Method) -> Option<Self> {
        Some(match method.as_str() {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            "LOCK" => Self::Lock,
            "UNLOCK" => Self::Unlock,
            _ => return None,
        })
    }
}

/// A request whose credential was found.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What is to be done.
    pub verb: Verb,
    /// The state's path.
    pub path: String,
    /// Whether the credential only reads.
    pub read_only: bool,
    /// What GET must find.
    pub must_exist: Option<Demand>,
    /// `?ID=`: the lock under which is written.
    pub id: Option<String>,
    /// GET: the earlier version that is asked for.
    pub version: Option<String>,
    /// POST: this goes back, and may bring this lineage along.
    pub restores: Option<String>,
    /// `Content-MD5` of the body.
    pub content_md5: Option<String>,
    /// The body.
    pub body: Body,
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Body,
    /// `Content-MD5` of the body, where it is a state.
    pub content_md5: Option<String>,
}

impl Answer {
    /// A status with a text for people.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            body: Body::from(text.into().into_bytes()),
            content_md5: None,
        }
    }

    fn ok() -> Self {
        Self::text(StatusCode::OK, "")
    }

    fn info(status: StatusCode, info: &LockInfo) -> Self {
        // Strings and JSON values can always be written.
        Self {
            status,
            body: Body::from(serde_json::to_vec(info).unwrap_or_default()),
            content_md5: None,
        }
    }
}

/// Does what is asked. Blocks on the store.
pub fn answer(backend: &StateBackend, asked: &Asked) -> Answer {
    let path = &asked.path;
    if asked.read_only && asked.verb != Verb::Get {
        return Answer::text(StatusCode::FORBIDDEN, "this credential only reads");
    }
    match is_of_md5(asked) {
        Ok(None) => {}
        Ok(Some(why)) => return Answer::text(StatusCode::BAD_REQUEST, why),
        Err(error) => return Answer::text(StatusCode::SERVICE_UNAVAILABLE, told(&error)),
    }
    let done = match asked.verb {
        Verb::Get => get(backend, asked),
        Verb::Post => match &asked.restores {
            None => backend.write_body(path, &asked.body, asked.id.as_deref()),
            Some(lineage) => backend.restore(path, &asked.body, asked.id.as_deref(), lineage),
        }
        .map(|(Written::New | Written::Already)| Answer::ok()),
        Verb::Delete => backend
            .delete_state(path, asked.id.as_deref())
            .map(|()| Answer::ok()),
        Verb::Lock => match small(&asked.body)
            .and_then(|body| LockInfo::parse(&body).map_err(|error| told(&error)))
        {
            Ok(info) => backend.lock(path, &info).map(|()| Answer::ok()),
            Err(why) => return Answer::text(StatusCode::BAD_REQUEST, why),
        },
        Verb::Unlock => match (
            small(&asked.body).and_then(|body| id_of(&body).map_err(|error| told(&error))),
            &asked.id,
        ) {
            (Ok(id), _) => backend.unlock(path, &id).map(|()| Answer::ok()),
            (Err(_), Some(id)) if asked.body.is_empty() => {
                backend.unlock(path, id).map(|()| Answer::ok())
            }
            (Err(why), _) => return Answer::text(StatusCode::BAD_REQUEST, why),
        },
    };
    done.unwrap_or_else(|error| refusal(asked.verb, &error))
}

/// The description of a lock, which is never long.
fn small(body: &Body) -> Result<Vec<u8>, String> {
    if body.len() > MAX_LOCK {
        return Err("the description of a lock is longer than 64 KiB".to_owned());
    }
    body.to_vec().map_err(|error| told(&error))
}

fn get(backend: &StateBackend, asked: &Asked) -> Result<Answer, BackendError> {
    let path = &asked.path;
    let found = match (&asked.version, &asked.must_exist) {
        (Some(name), _) => match backend.version_named(path, name)? {
            Some(version) => backend.read_version_body(&version)?,
            None => None,
        },
        (None, Some(demand)) => Some(backend.read_demanded(path, demand)?),
        (None, None) => backend.read_body(path)?,
    };
    let Some(state) = found else {
        return Ok(Answer::text(StatusCode::NOT_FOUND, ""));
    };
    match md5_of(&state.bytes) {
        Ok(digest) => Ok(Answer {
            status: StatusCode::OK,
            content_md5: Some(STANDARD.encode(digest)),
            body: state.bytes,
        }),
        Err(error) => Ok(Answer::text(StatusCode::SERVICE_UNAVAILABLE, told(&error))),
    }
}

fn refusal(verb: Verb, error: &BackendError) -> Answer {
    let status = match error {
        BackendError::Locked { lock, .. } => {
            // UNLOCK: the lock is there, but not the one that was named.
            let status = if verb == Verb::Unlock {
                StatusCode::CONFLICT
            } else {
                StatusCode::LOCKED
            };
            return Answer::info(status, &lock.info);
        }
        // OpenTofu reads a lock info out of a 409 to LOCK, and shows it.
        BackendError::LockLost if verb == Verb::Lock => {
            return Answer::info(StatusCode::CONFLICT, &LockInfo::telling(told(error)));
        }
        BackendError::NotAState { .. } | BackendError::Key(_) => StatusCode::BAD_REQUEST,
        BackendError::NotLocked { .. }
        | BackendError::UnknownLock { .. }
        | BackendError::Lineage { .. }
        | BackendError::OlderSerial { .. }
        | BackendError::SameSerial { .. }
        | BackendError::Lost { .. }
        | BackendError::NotTheRecorded { .. }
        | BackendError::LockLost => StatusCode::CONFLICT,
        // Not 5xx, which OpenTofu would only repeat; not 409, which it would take for a lock.
        BackendError::Damaged { .. } | BackendError::DamagedLock { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        BackendError::LockUnsure
        | BackendError::Contended { .. }
        | BackendError::Read(_)
        | BackendError::Write(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Answer::text(status, told(error))
}

/// Says what is wrong with the body's `Content-MD5`, if anything is.
fn is_of_md5(asked: &Asked) -> io::Result<Option<&'static str>> {
    let Some(header) = &asked.content_md5 else {
        return Ok(None);
    };
    let Ok(sent) = STANDARD.decode(header) else {
        return Ok(Some("`Content-MD5` is no base64"));
    };
    let is_right = sent == md5_of(&asked.body)?;
    Ok((!is_right).then_some("the body is not the one that `Content-MD5` is of"))
}

fn md5_of(body: &Body) -> io::Result<Vec<u8>> {
    let mut hasher = Md5::new();
    body.each_chunk(|chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hasher.finalize().to_vec())
}

/// A message with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
