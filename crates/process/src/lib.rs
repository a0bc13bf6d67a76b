//! Child programs: spawn, follow, interrupt, kill; who a process is.
//!
//! This crate alone starts programs, and alone sleeps. Two promises shape it:
//!
//! - *An apply outlives us.* The output of a program that changes things goes to a file which we
//!   follow ([`Output::Followed`]), so that our end is not its end. A launcher ([`launch`]) writes
//!   the program's [`Identity`] to disk before it becomes that program, so that the next call finds
//!   it, alive or dead.
//! - *A reader dies with us* ([`Ending::WithUs`]), and nothing that it left behind can hold us.
//!
//! ```
//! use std::time::Duration;
//! use process::{Collected, How, Invocation, RealSpawner, collect};
//!
//! # fn main() -> Result<(), process::CollectError> {
//! let call = Invocation::new("/bin/echo", "/").arg("hello");
//! let spawner = RealSpawner::direct();
//! let Collected { stdout, .. } =
//!     collect(&spawner, &call, &How::reader(), Duration::from_secs(10), &mut || false)?;
//! assert_eq!(stdout, b"hello");
//! # Ok(())
//! # }
//! ```

mod captured;
mod child;
mod collected;
pub mod fake;
pub mod files;
mod followed;
mod group;
mod identity;
mod invocation;
pub mod launch;
mod lines;
mod programs;
mod real;
mod spawn;
pub mod wait;

pub use collected::{CollectError, Collected, collect};
pub use group::KillError;
pub use identity::{Identity, IdentityError, Liveness, Waited, wait_until_dead};
pub use invocation::Invocation;
pub use programs::find_program;
pub use real::RealSpawner;
pub use spawn::{
    Ending, Exit, How, Output, Progress, ReadError, Running, Signal, SpawnError, Spawner, Stream,
};
