//! From a request to an answer: the one place that knows status codes.

use crate::grant::Grant;
use crate::lock_info::id_of;
use crate::{BackendError, LockInfo, StateBackend, Written};
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

/// The methods that OpenTofu's client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
    Lock,
    Unlock,
}

impl Verb {
    pub(crate) fn of(method: &Method) -> Option<Self> {
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
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) grant: Grant,
    /// `?ID=`.
    pub(crate) id: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// What is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
    pub(crate) content_md5: Option<String>,
}

impl Answer {
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            body: text.into().into_bytes(),
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
            body: serde_json::to_vec(info).unwrap_or_default(),
            content_md5: None,
        }
    }
}

/// Does what is asked. Blocks on the store.
pub(crate) fn answer(backend: &StateBackend, asked: &Asked) -> Answer {
    let step_key = &asked.grant.step_key;
    if asked.grant.options.read_only && asked.verb != Verb::Get {
        return Answer::text(StatusCode::FORBIDDEN, "this credential only reads");
    }
    if let Err(why) = check_md5(&asked.headers, &asked.body) {
        return Answer::text(StatusCode::BAD_REQUEST, why);
    }
    let done = match asked.verb {
        Verb::Get => get(backend, asked),
        Verb::Post => backend
            .write_state(step_key, &asked.body, asked.id.as_deref())
            .map(|(Written::New | Written::Already)| Answer::ok()),
        Verb::Delete => backend
            .delete_state(step_key, asked.id.as_deref())
            .map(|()| Answer::ok()),
        Verb::Lock => match LockInfo::parse(&asked.body) {
            Ok(info) => backend.lock(step_key, &info).map(|()| Answer::ok()),
            Err(error) => return Answer::text(StatusCode::BAD_REQUEST, told(&error)),
        },
        Verb::Unlock => match (id_of(&asked.body), &asked.id) {
            (Ok(id), _) => backend.unlock(step_key, &id).map(|()| Answer::ok()),
            (Err(_), Some(id)) if asked.body.is_empty() => {
                backend.unlock(step_key, id).map(|()| Answer::ok())
            }
            (Err(error), _) => return Answer::text(StatusCode::BAD_REQUEST, told(&error)),
        },
    };
    done.unwrap_or_else(|error| refusal(asked.verb, &error))
}

fn get(backend: &StateBackend, asked: &Asked) -> Result<Answer, BackendError> {
    let step_key = &asked.grant.step_key;
    let file = match &asked.grant.options.must_exist {
        Some(demand) => Some(backend.read_demanded(step_key, demand)?),
        None => backend.read_state(step_key)?,
    };
    Ok(match file {
        None => Answer::text(StatusCode::NOT_FOUND, ""),
        Some(file) => {
            let content_md5 = Some(STANDARD.encode(Md5::digest(&file.bytes)));
            Answer {
                status: StatusCode::OK,
                body: file.bytes,
                content_md5,
            }
        }
    })
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

fn check_md5(headers: &HeaderMap, body: &[u8]) -> Result<(), &'static str> {
    let Some(header) = headers.get("content-md5") else {
        return Ok(());
    };
    let sent = STANDARD
        .decode(header.as_bytes())
        .map_err(|_| "`Content-MD5` is no base64")?;
    if sent == Md5::digest(body)[..] {
        Ok(())
    } else {
        Err("the body is not the one that `Content-MD5` is of")
    }
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
