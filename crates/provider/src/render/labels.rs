//! Names of specs as names of resources: legal, and no two alike.

use std::collections::BTreeMap;

use tf_json::Identifier;

use super::context::fault;
use crate::spec::{Spec, SpecFault, Specs};

/// Labels by kind and name of the spec.
pub(crate) type Labels = BTreeMap<(&'static str, String), Identifier>;

/// Returns the label of a name: what OpenTofu does not take becomes `_`.
pub(crate) fn label(name: &str) -> Option<Identifier> {
    let mut label: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if label.starts_with(|c: char| c.is_ascii_digit()) {
        label.insert(0, '_');
    }
    // A name of nothing but signs says nothing.
    if label.chars().all(|c| c == '_') {
        return None;
    }
    Identifier::new(label).ok()
}

/// Labels every spec.
pub(crate) fn labels(specs: &Specs) -> Result<Labels, Vec<SpecFault>> {
    let mut labels = Labels::new();
    let mut taken: BTreeMap<(&'static str, Identifier), &Spec> = BTreeMap::new();
    let mut faults = Vec::new();
    for spec in specs.all() {
        let kind = spec.wanted.kind();
        let Some(label) = label(&spec.name) else {
            let help = Some("use letters and digits".to_owned());
            faults.push(fault(spec, "the name makes no name of a resource", help));
            continue;
        };
        if let Some(other) = taken.insert((kind, label.clone()), spec) {
            let message = format!(
                "the name becomes `{label}` in OpenTofu, as that of `{}` does",
                other.name
            );
            faults.push(fault(spec, message, Some("rename one of them".to_owned())));
        }
        labels.insert((kind, spec.name.clone()), label);
    }
    if faults.is_empty() {
        Ok(labels)
    } else {
        Err(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn labels_are_legal() {
        for (name, expected) in [
            ("a-b", Some("a_b")),
            ("a_b", Some("a_b")),
            ("1a", Some("_1a")),
            ("ä.b", Some("__b")),
            ("", None),
            ("--", None),
        ] {
            assert_eq!(
                label(name).as_ref().map(tf_json::Identifier::as_str),
                expected
            );
        }
    }
}
