//! Another machine, or another boot of this one, as a process may be told to say.

use std::sync::OnceLock;

/// What a process says of where it runs; `None`: the truth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The id of the machine, which is also the name of the host.
    pub machine: Option<String>,
    /// The id of the boot.
    pub boot: Option<String>,
}

static PLACE: OnceLock<Place> = OnceLock::new();

/// Lets this process say from now on that it runs there; the first word counts.
pub fn at(place: Place) {
    if cfg!(debug_assertions) {
        let _ = PLACE.set(place);
    }
}

/// Where this process says that it runs.
#[must_use]
pub fn place() -> Option<&'static Place> {
    if cfg!(debug_assertions) {
        PLACE.get()
    } else {
        None
    }
}
