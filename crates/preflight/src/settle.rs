//! Whether a step's verify may settle drift that its own apply left behind.
//!
//! A later resource can fill in an attribute of an earlier one (an attachment shows up on the
//! machine). The state has the earlier value, so the next plan shows `update` drift and nothing to do.
//! Applying that plan once stores the refreshed values. Preflight never does this.

use serde_json::Value;

use crate::facts::PlanFacts;
use crate::ignore::without_indices;

/// What a verify may do about drift right after its own apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// There is no drift.
    NotNeeded,
    /// The saved plan may be applied, once; what a plan shows afterwards counts.
    ApplyOnce,
    /// It counts as it is.
    Fail(NotSettled),
}

/// Why drift right after an apply is not settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSettled {
    /// The plan is no answer.
    #[error("the plan is not whole")]
    NoAnswer,
    /// The plan would change something.
    #[error("the plan would {action} `{address}`")]
    Change {
        /// The resource instance.
        address: String,
        /// OpenTofu's word.
        action: String,
    },
    /// An object was not updated but deleted, for one.
    #[error("`{address}` shows `{action}` drift")]
    Action {
        /// The resource instance.
        address: String,
        /// OpenTofu's word.
        action: String,
    },
    /// What differs is not known.
    #[error("what differs in `{address}` is not known")]
    NoValues {
        /// The resource instance.
        address: String,
    },
    /// The configuration sets the attribute.
    #[error("the configuration sets `{attribute}` of `{address}`")]
    Set {
        /// The resource instance.
        address: String,
        /// The attribute's path.
        attribute: String,
    },
    /// The configuration does not have the resource.
    #[error("the configuration does not have `{address}`")]
    NoResource {
        /// The resource instance.
        address: String,
    },
}

/// Decides by a plan made right after the step's own apply, and its JSON form's `configuration`.
pub fn settle(facts: &PlanFacts, configuration: &Value) -> Settle {
    match unsettled(facts, configuration) {
        Some(why) => Settle::Fail(why),
        None if facts.drift.is_empty() => Settle::NotNeeded,
        None => Settle::ApplyOnce,
    }
}

fn unsettled(facts: &PlanFacts, configuration: &Value) -> Option<NotSettled> {
    if !facts.complete || !facts.errors.is_empty() {
        return Some(NotSettled::NoAnswer);
    }
    if facts.drift.is_empty() {
        return None;
    }
    if let Some(change) = facts.real_changes().next() {
        return Some(NotSettled::Change {
            address: change.address.clone(),
            action: change.action.clone(),
        });
    }
    facts.drift.iter().find_map(|object| {
        let address = || object.address.clone();
        if object.action != "update" {
            return Some(NotSettled::Action {
                address: address(),
                action: object.action.clone(),
            });
        }
        if object.attributes.is_empty() {
            return Some(NotSettled::NoValues { address: address() });
        }
        let Some(resource) = resource_of(configuration, &object.address) else {
            return Some(NotSettled::NoResource { address: address() });
        };
        object
            .attributes
            .iter()
            .find(|attribute| is_set(resource.get("expressions"), &attribute.path))
            .map(|attribute| NotSettled::Set {
                address: address(),
                attribute: attribute.path.clone(),
            })
    })
}

/// The resource's entry in the configuration.
fn resource_of<'a>(configuration: &'a Value, address: &str) -> Option<&'a Value> {
    let bare = without_indices(address);
    let mut rest = bare.as_str();
    let mut module = configuration.get("root_module")?;
    while let Some(after) = rest.strip_prefix("module.") {
        let (name, below) = after.split_once('.')?;
        module = module.get("module_calls")?.get(name)?.get("module")?;
        rest = below;
    }
    module
        .get("resources")?
        .as_array()?
        .iter()
        .find(|resource| resource.get("address").and_then(Value::as_str) == Some(rest))
}

/// Whether the expressions of a block set the attribute at this path. What can't be told apart counts
/// as set.
fn is_set(expressions: Option<&Value>, path: &str) -> bool {
    let Some(mut here) = expressions else {
        return false;
    };
    for part in parts(path) {
        match (part, here) {
            (Part::Name(name), Value::Object(map)) => match map.get(name) {
                None => return false,
                Some(next) if is_expression(next) => return true,
                Some(next) => here = next,
            },
            // One entry for each block; blocks of a set have no order, so any of them counts.
            (Part::Index(index), Value::Array(blocks)) => match blocks.get(index) {
                Some(next) => here = next,
                None => return false,
            },
            _ => return true,
        }
    }
    true
}

/// An expression, as against nested blocks.
fn is_expression(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.is_empty() || map.contains_key("references") || map.contains_key("constant_value")
        }
        Value::Array(_) => false,
        _ => true,
    }
}

enum Part<'a> {
    Name(&'a str),
    Index(usize),
}

fn parts(path: &str) -> impl Iterator<Item = Part<'_>> {
    path.split(['.', '['])
        .filter(|piece| !piece.is_empty())
        .map(|piece| match piece.strip_suffix(']').map(str::parse) {
            Some(Ok(index)) => Part::Index(index),
            _ => Part::Name(piece),
        })
}

#[cfg(test)]
mod tests;
