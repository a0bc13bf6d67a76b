//! OpenTofu's states over a store: locks, serials, lineages, versions, and the HTTP in front.
//!
//! [`StateBackend`] keeps the rules and knows no HTTP: a state is written only by the holder of its
//! lock, never by an older serial or another lineage, and each version that is replaced is kept.
//! [`Server`] is those rules as OpenTofu's `http` backend asks for them, on a loopback port, with a
//! credential for each grant that opens one state.
//!
//! Why it answers as it does: OpenTofu's client (`internal/backend/remote-state/http/client.go`)
//! takes 404, 204 and an empty 200 for "there is no state", so none of them is ever the answer for
//! a state that must exist. It repeats what failed with a 5xx, so every request is safe to repeat,
//! and 5xx is only for what a repetition may mend. It shows the *asker* as holder of a lock when
//! the body of a 423 or 409 is not a whole lock info, so those always carry one.

mod answer;
mod backend;
mod error;
mod grant;
mod lock_info;
mod names;
mod server;
mod versions;

pub use answer::{Answer, Asked, Verb, answer};
pub use backend::{Demand, Guard, StateBackend, StateBody, StateFile, Written};
pub use error::BackendError;
pub use grant::{Access, GrantOptions};
pub use lock_info::{LockInfo, LockInfoError, StateLock};
pub use names::Names;
pub use server::{Fault, Refusal, RequestSeen, Server, ServerError, ServerOptions};
pub use versions::{N_VERSIONS, Version};
