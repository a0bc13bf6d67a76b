//! The JSON plan (`tofu show -json PLAN`): old and new values, which the event stream does not carry.
//!
//! A plan document holds secrets. It is never written, and its `Debug` shows no value.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::events::Action;

/// The only major of `format_version` that is understood.
const MAJOR: u64 = 1;

/// Why a plan document gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlanDocumentError {
    /// It is not the JSON that is expected.
    #[error("cannot read the JSON plan")]
    Unreadable(#[source] serde_json::Error),
    /// Its format is newer than this program.
    #[error("the JSON plan has format version `{0}`, and only major version {MAJOR} is understood")]
    UnknownFormat(String),
}

/// A plan, with values.
#[derive(Clone, Default, Deserialize)]
pub struct PlanDocument {
    /// `major.minor`
    #[serde(default)]
    pub format_version: String,
    /// The version that made the plan.
    #[serde(default)]
    pub terraform_version: String,
    /// What would become of every resource instance, `no-op` included.
    #[serde(default)]
    pub resource_changes: Vec<ResourceChange>,
    /// Differences between the state and the world.
    #[serde(default)]
    pub resource_drift: Vec<ResourceChange>,
    /// What would become of every output.
    #[serde(default)]
    pub output_changes: BTreeMap<String, ValueChange>,
    /// `check` blocks and conditions.
    #[serde(default)]
    pub checks: Vec<CheckResult>,
    /// The configuration as OpenTofu read it: which expression sets what.
    #[serde(default)]
    pub configuration: Value,
    /// Whether planning failed half-way.
    #[serde(default)]
    pub errored: bool,
}

impl fmt::Debug for PlanDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanDocument")
            .field("format_version", &self.format_version)
            .field("resource_changes", &self.resource_changes.len())
            .field("resource_drift", &self.resource_drift.len())
            .field("output_changes", &self.output_changes.len())
            .finish_non_exhaustive()
    }
}

/// One resource instance in a plan.
#[derive(Clone, Default, Deserialize)]
pub struct ResourceChange {
    /// The whole address.
    #[serde(default)]
    pub address: String,
    /// The address before a move.
    #[serde(default)]
    pub previous_address: Option<String>,
    /// `managed` or `data`.
    #[serde(default)]
    pub mode: String,
    /// The resource's type.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// The provider's source address.
    #[serde(default)]
    pub provider_name: String,
    /// The key of a deposed object.
    #[serde(default)]
    pub deposed: Option<String>,
    /// Old and new values.
    #[serde(default)]
    pub change: ValueChange,
    /// Why: `replace_because_tainted`, `delete_because_no_resource_config`, …
    #[serde(default)]
    pub action_reason: Option<String>,
}

/// Old and new values of a resource instance or an output.
#[derive(Clone, Default, Deserialize)]
pub struct ValueChange {
    /// `no-op`, `create`, `read`, `update`, `delete`, `forget`; two words for a replacement.
    #[serde(default)]
    pub actions: Vec<String>,
    /// The old value.
    #[serde(default)]
    pub before: Value,
    /// The new value as far as it is known.
    #[serde(default)]
    pub after: Value,
    /// `true` leaves where the new value is not known yet.
    #[serde(default)]
    pub after_unknown: Value,
    /// `true` leaves where the old value is sensitive.
    #[serde(default)]
    pub before_sensitive: Value,
    /// `true` leaves where the new value is sensitive.
    #[serde(default)]
    pub after_sensitive: Value,
    /// Paths of the attributes that make a replacement necessary.
    #[serde(default)]
    pub replace_paths: Vec<Vec<Value>>,
}

/// One checkable object of the configuration.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CheckResult {
    /// Which one.
    #[serde(default)]
    pub address: CheckAddress,
    /// `pass`, `fail`, `error` or `unknown`.
    #[serde(default)]
    pub status: String,
}

/// Which checkable object.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CheckAddress {
    /// `check`, `resource`, `output_value` or `input_variable`.
    #[serde(default)]
    pub kind: String,
    /// The whole address.
    #[serde(default)]
    pub to_display: String,
    /// The block's name.
    #[serde(default)]
    pub name: String,
}

/// One attribute that differs. `None` stands for a value that is sensitive.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeChange {
    /// Dotted path, `tags.team` or `rules[0].port`; empty for the value itself.
    pub path: String,
    /// The old value.
    pub was: Option<Value>,
    /// The new value; `Shown::Unknown` where it is not known yet.
    pub is: Shown,
}

/// A new value, as far as it can be shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The value.
    Value(Value),
    /// It is sensitive.
    Sensitive,
    /// It is known after the apply only.
    Unknown,
}

impl PlanDocument {
    /// Reads the output of `show -json`.
    ///
    /// # Errors
    /// When it is not a plan, or of an unknown major format.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanDocumentError> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            format_version: String,
        }
        let version: Version =
            serde_json::from_slice(bytes).map_err(PlanDocumentError::Unreadable)?;
        let major = version
            .format_version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u64>().ok());
        if major != Some(MAJOR) {
            return Err(PlanDocumentError::UnknownFormat(version.format_version));
        }
        serde_json::from_slice(bytes).map_err(PlanDocumentError::Unreadable)
    }
}

impl ValueChange {
    /// The actions as one.
    #[must_use]
    pub fn action(&self) -> Action {
        match self.actions.as_slice() {
            [one] => Action::from_word(one),
            [first, second] if [first.as_str(), second.as_str()].contains(&"create") => {
                Action::Replace
            }
            [] => Action::Noop,
            many => Action::Other(many.join(" and ")),
        }
    }

    /// Whether no part of the new value waits for the apply.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !crate::events::has_true(&self.after_unknown)
    }

    /// Whether any part of either side is sensitive.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        crate::events::has_true(&self.before_sensitive)
            || crate::events::has_true(&self.after_sensitive)
    }

    /// Every attribute that differs, in order of path, with sensitive values left out.
    #[must_use]
    pub fn attributes(&self) -> Vec<AttributeChange> {
        let mut found = Vec::new();
        compare(
            String::new(),
            &self.before,
            &self.after,
            &Marks {
                unknown: &self.after_unknown,
                before: &self.before_sensitive,
                after: &self.after_sensitive,
            },
            0,
            &mut found,
        );
        found
    }
}

struct Marks<'a> {
    unknown: &'a Value,
    before: &'a Value,
    after: &'a Value,
}

/// Deeper differences are shown whole.
const MAX_DEPTH: usize = 32;

fn compare(
    path: String,
    was: &Value,
    is: &Value,
    marks: &Marks<'_>,
    depth: usize,
    found: &mut Vec<AttributeChange>,
) {
    let whole = |value: &Value| *value == Value::Bool(true);
    if was == is && !crate::events::has_true(marks.unknown) {
        return;
    }
    if depth < MAX_DEPTH && !whole(marks.unknown) && !whole(marks.before) && !whole(marks.after) {
        match (was, is) {
            (Value::Object(_), Value::Object(_)) => {
                let mut names: Vec<&String> = was
                    .as_object()
                    .into_iter()
                    .flat_map(|map| map.keys())
                    .collect();
                names.extend(is.as_object().into_iter().flat_map(|map| map.keys()));
                names.extend(
                    marks
                        .unknown
                        .as_object()
                        .into_iter()
                        .flat_map(|map| map.keys()),
                );
                names.sort();
                names.dedup();
                for name in names {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    descend(
                        path,
                        was.get(name),
                        is.get(name),
                        |side| side.get(name),
                        marks,
                        depth,
                        found,
                    );
                }
                return;
            }
            (Value::Array(left), Value::Array(right)) => {
                for index in 0..left.len().max(right.len()) {
                    let path = format!("{path}[{index}]");
                    descend(
                        path,
                        left.get(index),
                        right.get(index),
                        |side| side.get(index),
                        marks,
                        depth,
                        found,
                    );
                }
                return;
            }
            _ => {}
        }
    }
    let was_shown = (!crate::events::has_true(marks.before)).then(|| was.clone());
    let is_shown = if crate::events::has_true(marks.after) {
        Shown::Sensitive
    } else if crate::events::has_true(marks.unknown) {
        Shown::Unknown
    } else {
        Shown::Value(is.clone())
    };
    found.push(AttributeChange {
        path,
        was: was_shown,
        is: is_shown,
    });
}

fn descend<'v>(
    path: String,
    was: Option<&'v Value>,
    is: Option<&'v Value>,
    part: impl Fn(&'v Value) -> Option<&'v Value>,
    marks: &Marks<'v>,
    depth: usize,
    found: &mut Vec<AttributeChange>,
) {
    let below = Marks {
        unknown: part(marks.unknown).unwrap_or(&Value::Null),
        before: part(marks.before).unwrap_or(&Value::Null),
        after: part(marks.after).unwrap_or(&Value::Null),
    };
    compare(
        path,
        was.unwrap_or(&Value::Null),
        is.unwrap_or(&Value::Null),
        &below,
        depth + 1,
        found,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn change(value: Value) -> ValueChange {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_major_1_is_understood() {
        assert!(PlanDocument::parse(br#"{"format_version":"1.9","future":1}"#).is_ok());
        for (text, named) in [
            (r#"{"format_version":"2.0","resource_changes":7}"#, "`2.0`"),
            ("{}", "``"),
        ] {
            let error = PlanDocument::parse(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn attributes_that_differ_are_named_with_both_values() {
        let change = change(json!({
            "actions": ["update"],
            "before": {"same": 1, "size": "small", "tags": {"a": "1", "b": "2"}, "rules": [{"port": 1}], "secret": "old", "id": "i"},
            "after": {"same": 1, "size": "large", "tags": {"a": "1"}, "rules": [{"port": 2}, {"port": 3}], "secret": "new", "id": "i"},
            "after_unknown": {"address": true},
            "before_sensitive": {"secret": true, "rules": [{}]},
            "after_sensitive": {"secret": true, "rules": [{}, {}]},
        }));
        let shown: Vec<_> = change
            .attributes()
            .into_iter()
            .map(|it| (it.path, it.was, it.is))
            .collect();
        assert_eq!(
            shown,
            [
                ("address".into(), Some(Value::Null), Shown::Unknown),
                (
                    "rules[0].port".into(),
                    Some(json!(1)),
                    Shown::Value(json!(2))
                ),
                (
                    "rules[1]".into(),
                    Some(Value::Null),
                    Shown::Value(json!({"port": 3}))
                ),
                ("secret".into(), None, Shown::Sensitive),
                (
                    "size".into(),
                    Some(json!("small")),
                    Shown::Value(json!("large"))
                ),
                ("tags.b".into(), Some(json!("2")), Shown::Value(Value::Null)),
            ]
        );
        assert_eq!(change.action(), Action::Update);
        assert!(!change.is_known() && change.is_sensitive());
    }

    #[test]
    fn actions_in_pairs_are_replacements() {
        for actions in [json!(["delete", "create"]), json!(["create", "delete"])] {
            assert_eq!(
                change(json!({"actions": actions})).action(),
                Action::Replace
            );
        }
        assert_eq!(
            change(json!({"actions": ["forget"]})).action(),
            Action::Forget
        );
        assert!(
            change(json!({"actions": ["x", "y"]})).action().destroys(),
            "unknown counts as the worst"
        );
    }

    fn value() -> impl Strategy<Value = Value> {
        // A null attribute and one that is not there are the same to OpenTofu.
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_values_are_compared_and_only_equal_ones_show_nothing(
            before in value(), after in value(), unknown in value(), marks in value()
        ) {
            let change = ValueChange {
                before: before.clone(),
                after: after.clone(),
                after_unknown: unknown,
                before_sensitive: marks.clone(),
                after_sensitive: marks,
                ..ValueChange::default()
            };
            let shown = change.attributes();
            prop_assert!(before == after || !shown.is_empty());
        }

        #[test]
        fn a_value_marked_whole_is_never_shown(before in "[a-z]{6,9}", after in "[a-z]{6,9}") {
            let change = change(json!({
                "before": {"x": before}, "after": {"x": after}, "before_sensitive": {"x": true}, "after_sensitive": {"x": true}
            }));
            for it in change.attributes() {
                prop_assert_eq!((it.was, it.is), (None, Shown::Sensitive));
            }
        }
    }
}
