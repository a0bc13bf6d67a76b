//! Secrets that a play captured, sealed to the keys of those who may open them.
//!
//! An [`Envelope`] is a directory of one target with a file for each secret, in the format of `age`: any
//! program that reads it can open one. Which target, run and key a secret belongs to lies inside, where
//! nobody who can't open it can change it, and is compared when it is opened: a file put in another's place
//! is refused.
//!
//! To whom it is sealed, and when it was, stands beside it in the clear, so that it can be listed without any
//! key; whoever opens it proves that too.
//!
//! A value is in memory only, and wiped there; what goes to disk is sealed.

mod capture;
mod directory;
mod keys;
mod note;
mod seal;

pub use capture::{Capture, CaptureError, Captured};
pub use directory::{Envelope, EnvelopeError, Listed};
pub use keys::{Identities, IdentityError, KeyName, KeyNameError, RecipientError, Recipients};
pub use note::{Note, NoteError};
pub use seal::{Expected, Label, OpenError, Opened, SealError, open, seal};
