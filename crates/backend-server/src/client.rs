//! The client of what a served backend offers besides states: lists, earlier versions, going back.

use crate::documents::{StatesDocument, VersionsDocument};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrets::Secret;
use serde::de::DeserializeOwned;
use state_backend::LockInfo;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::state_file::{self, Meta};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take, with bodies of any size.
const REQUEST: Duration = Duration::from_secs(600);
/// The longest document or message that is read, in bytes.
const MAX_DOCUMENT: u64 = 64 * 1024 * 1024;

/// How a client shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// By name and password.
    Basic {
        /// The credential's name.
        username: String,
        /// Its secret.
        password: Secret,
    },
    /// By its secret alone.
    Bearer(Secret),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Where a served backend is.
#[derive(Debug, Clone)]
pub struct Place {
    /// `https://host:port`, with no slash at its end.
    pub address: String,
    /// Who we are there.
    pub login: Login,
    /// A file of PEM certificates to trust, instead of the built-in roots.
    pub ca_file: Option<PathBuf>,
}

/// Why a served backend did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Its address is none.
    #[error("`{address}` is not the address of a served backend")]
    Address {
        /// The address.
        address: String,
    },
    /// The certificates to trust can't be read.
    #[error("cannot read the certificates in `{}`", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It gave no answer.
    #[error("the state backend at {address} gives no answer")]
    Unreachable {
        /// Its address.
        address: String,
        /// Why.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The credential is unknown there, or opens something else.
    #[error("the state backend at {address} refuses this credential: {why}")]
    Denied {
        /// Its address.
        address: String,
        /// What it said.
        why: String,
    },
    /// The state is locked.
    #[error("the state `{path}` is locked by another: {} of {}, since {}, lock `{}`", .lock.operation, .lock.who, .lock.created, .lock.id)]
    Locked {
        /// The state.
        path: String,
        /// The lock.
        lock: Box<LockInfo>,
    },
    /// There is no such state or version.
    #[error("there is no {what}")]
    Absent {
        /// What was asked for.
        what: String,
    },
    /// It refused.
    #[error("the state backend at {address} answered {status}: {why}")]
    Refused {
        /// Its address.
        address: String,
        /// The status.
        status: u16,
        /// What it said.
        why: String,
    },
    /// Its answer can't be understood.
    #[error("the answer of the state backend at {address} can't be read")]
    Answer {
        /// Its address.
        address: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A state could not be kept, or read, on this side.
    #[error("cannot keep the state meanwhile")]
    Local(#[source] io::Error),
    /// What is to be put back is no state.
    #[error("what is to be put back is no state")]
    NotAState(#[source] state_file::StateFileError),
}

/// A client of one served backend.
#[derive(Debug)]
pub struct Client {
    agent: ureq::Agent,
    place: Place,
}

impl Client {
    /// Makes the client; nothing is asked yet.
    ///
    /// # Errors
    /// Where the address is none, or the certificates can't be read.
    pub fn new(mut place: Place) -> Result<Self, ClientError> {
        place.address = place.address.trim_end_matches('/').to_owned();
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| place.address.starts_with(scheme));
        if !is_http || place.address.parse::<http::Uri>().is_err() {
            return Err(ClientError::Address {
                address: place.address,
            });
        }
        let roots = match &place.ca_file {
            Some(path) => RootCerts::Specific(Arc::new(certificates(path)?)),
            None => RootCerts::WebPki,
        };
        let agent = ureq::Agent::config_builder()
            .allow_non_standard_methods(true)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent("rebuild")
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build()
            .new_agent();
        Ok(Self { agent, place })
    }

    /// The address of the state at `path`.
    pub fn address_of(&self, path: &str) -> String {
        format!("{}/state/{path}", self.place.address)
    }

    /// The states that may be read.
    ///
    /// # Errors
    /// Where there is no answer, or a refusal.
    pub fn states(&self) -> Result<StatesDocument, ClientError> {
        self.document("/states", "list of states")
    }

    /// The versions of a state.
    ///
    /// # Errors
    /// Where there is no answer, or a refusal.
    pub fn versions(&self, path: &str) -> Result<VersionsDocument, ClientError> {
        self.document(&format!("/versions/{path}"), "list of versions")
    }

    /// Reads a state, or an earlier version of it, into a file without a name.
    ///
    /// # Errors
    /// [`ClientError::Absent`] where there is none.
    pub fn pull(&self, path: &str, version: Option<&str>) -> Result<File, ClientError> {
        let what = match version {
            Some(version) => format!("version `{version}` of the state `{path}`"),
            None => format!("state at `{path}`"),
        };
        let query = version.map_or(String::new(), |version| {
            format!("?version={}", encoded(version))
        });
        let mut answer = self.sent("GET", &format!("/state/{path}{query}"), ())?;
        if answer.status().as_u16() == 404 {
            return Err(ClientError::Absent { what });
        }
        self.must_be_ok(path, &mut answer)?;
        let mut file = tempfile::tempfile().map_err(ClientError::Local)?;
        io::copy(&mut answer.body_mut().as_reader(), &mut file)
            .map_err(|error| self.unreadable(error))?;
        file.rewind().map_err(ClientError::Local)?;
        Ok(file)
    }

    /// Takes the lock of a state.
    ///
    /// # Errors
    /// [`ClientError::Locked`] where another holds it.
    pub fn lock(&self, path: &str, info: &LockInfo) -> Result<(), ClientError> {
        let info = serde_json::to_vec(info).map_err(|error| self.unreadable(error))?;
        let mut answer = self.sent("LOCK", &format!("/state/{path}"), &info)?;
        self.must_be_ok(path, &mut answer)
    }

    /// Releases the lock of a state.
    ///
    /// # Errors
    /// Where it is not that one, or there is no answer.
    pub fn unlock(&self, path: &str, info: &LockInfo) -> Result<(), ClientError> {
        let info = serde_json::to_vec(info).map_err(|error| self.unreadable(error))?;
        let mut answer = self.sent("UNLOCK", &format!("/state/{path}"), &info)?;
        self.must_be_ok(path, &mut answer)
    }

    /// Puts `state` in the place of the state at `path`, under the lock `info`. It may be older than that, and of the
    /// lineage `lineage`.
    ///
    /// # Errors
    /// Where the lock is not held, or it is of a third lineage.
    pub fn restore(
        &self,
        path: &str,
        state: &File,
        info: &LockInfo,
        lineage: &str,
    ) -> Result<(), ClientError> {
        let (id, lineage) = (encoded(&info.id), encoded(lineage));
        let mut from_start = state;
        from_start.rewind().map_err(ClientError::Local)?;
        let address = format!("/state/{path}?ID={id}&restore={lineage}");
        let mut answer = self.sent("POST", &address, state)?;
        self.must_be_ok(path, &mut answer)
    }

    fn document<T: DeserializeOwned>(&self, path: &str, what: &str) -> Result<T, ClientError> {
        let mut answer = self.sent("GET", path, ())?;
        if answer.status().as_u16() == 404 {
            return Err(ClientError::Absent {
                what: format!("{what} at {}", self.place.address),
            });
        }
        self.must_be_ok(path, &mut answer)?;
        let mut text = Vec::new();
        let mut reader = answer.body_mut().as_reader().take(MAX_DOCUMENT);
        reader
            .read_to_end(&mut text)
            .map_err(|error| self.unreadable(error))?;
        serde_json::from_slice(&text).map_err(|error| self.unreadable(error))
    }

    fn sent(
        &self,
        method: &str,
        path: &str,
        body: impl ureq::AsSendBody,
    ) -> Result<http::Response<ureq::Body>, ClientError> {
        let address = || self.place.address.clone();
        let shown = match &self.place.login {
            Login::Basic { username, password } => {
                let both = Secret::new(format!("{username}:{}", password.expose()));
                format!("Basic {}", STANDARD.encode(both.expose()))
            }
            Login::Bearer(token) => format!("Bearer {}", token.expose()),
        };
        let wrong = || ClientError::Address {
            address: format!("{}{path}", self.place.address),
        };
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).map_err(|_| wrong())?)
            .uri(format!("{}{path}", self.place.address))
            .header(header::AUTHORIZATION, shown)
            .body(body)
            .map_err(|_| wrong())?;
        self.agent
            .run(request)
            .map_err(|source| ClientError::Unreachable {
                address: address(),
                source: Box::new(source),
            })
    }

    fn must_be_ok(
        &self,
        path: &str,
        answer: &mut http::Response<ureq::Body>,
    ) -> Result<(), ClientError> {
        let status = answer.status().as_u16();
        if status == 200 {
            return Ok(());
        }
        let mut body = Vec::new();
        // What it said is an addition; without it the status is told.
        let _ = answer
            .body_mut()
            .as_reader()
            .take(MAX_DOCUMENT)
            .read_to_end(&mut body);
        let (address, why) = (
            self.place.address.clone(),
            String::from_utf8_lossy(&body).trim().to_owned(),
        );
        Err(match status {
            401 | 403 => ClientError::Denied { address, why },
            423 | 409 if LockInfo::parse(&body).is_ok_and(|lock| lock.id != "-") => {
                match LockInfo::parse(&body) {
                    Ok(lock) => ClientError::Locked {
                        path: path.to_owned(),
                        lock: Box::new(lock),
                    },
                    Err(_) => ClientError::Refused {
                        address,
                        status,
                        why,
                    },
                }
            }
            _ => ClientError::Refused {
                address,
                status,
                why,
            },
        })
    }

    fn unreadable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ClientError {
        ClientError::Answer {
            address: self.place.address.clone(),
            source: source.into(),
        }
    }
}

impl Client {
    /// Lineage and serial of a state in a file.
    ///
    /// # Errors
    /// Where it is none.
    pub fn meta_of(state: &File) -> Result<Meta, ClientError> {
        let mut from_start = state;
        from_start.rewind().map_err(ClientError::Local)?;
        state_file::meta_from(state).map_err(ClientError::NotAState)
    }

    /// A file from its beginning.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn copy_start(mut state: &File) -> io::Result<&File> {
        state.rewind()?;
        Ok(state)
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ClientError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| ClientError::CaFile {
        path: path.to_owned(),
        source,
    };
    let pem = std::fs::read(path).map_err(|error| failed(error.into()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| failed(error.into()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(failed("there is no PEM certificate in it".into()));
    }
    Ok(found)
}
