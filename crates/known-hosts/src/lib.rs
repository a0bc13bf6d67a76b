//! OpenSSH's `known_hosts`: lines are read, matched, pinned and replaced as the ssh client would.
//!
//! A [`KnownHosts`] is a file in memory. Whatever is not touched stays byte for byte as it was: comments,
//! lines of other hosts, lines that nobody can read. A [`KnownHostsFile`] is the one way to change it on a
//! disk: under a lock, and as a whole.
//!
//! ```
//! use known_hosts::{HostPort, KnownHosts, PublicKey, Verdict};
//!
//! # fn main() -> Result<(), known_hosts::KeyError> {
//! let key: PublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti".parse()?;
//! let host = HostPort::new("web1.example.org", 2222);
//! let mut known = KnownHosts::parse(b"# ours\n");
//! assert_eq!(known.verdict(&host, &key), Verdict::Unknown);
//! known.pin(&host, &[key.clone()]);
//! assert_eq!(known.verdict(&host, &key), Verdict::Known);
//! # Ok(())
//! # }
//! ```

mod file;
mod host;
mod key;
mod line;
mod lines;

pub use file::{KnownHostsError, KnownHostsFile};
pub use host::HostPort;
pub use key::{KeyError, PublicKey};
pub use lines::{Found, KnownHosts, Shared, Verdict};
