//! States become status: which machines stand, and what is known of them.

mod conditions;
mod state;

pub use conditions::{Condition, ConditionKind, Conditions, Truth};
pub use state::{ClientConfiguration, Machine, Observed, Other, ReadStateError};

#[cfg(test)]
mod tests;
