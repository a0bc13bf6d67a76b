//! The HTTP state backend on its own: any path, any store, many users; and the client of what it offers besides.
//!
//! The rules of states and locks are in `state-backend`. This crate is what stands around them when others than
//! `rebuild` itself come: TLS, credentials with rights below paths, limits, health, metrics, an access log, an orderly
//! end. It reads no environment and no file but those that it is handed.
//!
//! | address | what it is |
//! | --- | --- |
//! | `/state/<any/path>` | a state, as OpenTofu's `http` backend asks for it; `?version=7` an earlier one |
//! | `/states` | the states and locks that the credential may read, as JSON |
//! | `/versions/<any/path>` | the earlier versions of a state, as JSON |
//! | `/health` | whether the store answers; needs no credential |
//! | `/metrics` | for Prometheus |

mod access;
mod client;
mod config;
mod credential;
mod documents;
mod intake;
mod metrics;
mod route;
mod server;
mod service;
mod tls;

pub use access::AccessRecord;
pub use client::{Client, ClientError, Login, Place};
pub use config::{Config, ConfigError, CredentialConfig, LimitsConfig, SourceConfig, TlsConfig};
pub use credential::{Credential, CredentialError, Keyring, MIN_SECRET, Rights, TOKEN_USER};
pub use documents::{
    LocksDocument, StateEntry, StatesDocument, VersionEntry, VersionsDocument, states, versions,
};
pub use route::{Route, RouteError, route};
pub use server::{Limits, Log, Options, Server, ServerError};
pub use tls::{TlsError, tls_of_files};
