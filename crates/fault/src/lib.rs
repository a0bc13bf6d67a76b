//! Named points at which a test may hurt the program.
//!
//! `point("store.put.before", …)` does nothing but where [`arm`] was called with [`Orders`]: then the point is counted
//! and written to a file, and where the orders aim at it, this process is killed, signalled, or told that a write failed.
//! Builds without debug assertions, which is what users have, hold none of this: `point` is empty there, and nobody calls
//! [`arm`].

mod orders;
mod place;
mod steady;
mod way;

#[cfg(debug_assertions)]
mod armed;
#[cfg(not(debug_assertions))]
mod calm;

#[cfg(debug_assertions)]
pub use armed::{arm, child_began, child_ended, is_armed, point, skew};
#[cfg(not(debug_assertions))]
pub use calm::{arm, child_began, child_ended, is_armed, point, skew};
pub use orders::{Aim, Orders, OrdersError};
pub use place::{Place, at, place};
pub use steady::steady;
pub use way::Way;

/// The variable that holds the [`Orders`]; no step ever sees it.
pub const VARIABLE: &str = "__REBUILD_FAULT";

/// What a point says to whoever passes it.
#[derive(Debug)]
pub enum Verdict {
    /// Go on.
    Go,
    /// Don't do it: it failed with this.
    Refuse(std::io::Error),
    /// It is done, and the answer is lost: tell this.
    Lose(std::io::Error),
}

impl Verdict {
    /// The error, whether it was done or not.
    ///
    /// # Errors
    /// The one that the verdict holds.
    pub fn ok(self) -> std::io::Result<()> {
        match self {
            Self::Go => Ok(()),
            Self::Refuse(error) | Self::Lose(error) => Err(error),
        }
    }
}
