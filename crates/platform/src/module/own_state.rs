//! A state that a root module keeps by itself, and what of its files opens that state.

use std::collections::BTreeMap;

use hcl_edit::Span;
use hcl_edit::structure::{Block, Body};
use serde_json::{Map, Value};

use super::DeclaredBackend;
use crate::fault::{Fault, TextFile};

/// Where OpenTofu keeps the state of a root module without a backend.
pub(super) const LOCAL_STATE: &str = "terraform.tfstate";

/// Blocks of `terraform` that say where a state is and how it is encrypted.
const OF_STATE: [&str; 3] = ["backend", "cloud", "encryption"];

/// Blocks that those may refer to.
const REFERRED_TO: [&str; 2] = ["variable", "locals"];

const HELP: &str = "`rebuild state migrate PHASE.STEP --target TARGET` takes it over: states are kept by `rebuild`. \
     Of a root module that was never applied only remove";

/// A state that a root module keeps by itself.
#[derive(Debug, Clone)]
pub struct OwnState {
    /// `backend "s3"`, `cloud`, or the file of a local state.
    pub what: String,
    /// The settings of a `backend` block by name; `None` for one that is no plain text.
    pub settings: BTreeMap<String, Option<String>>,
    /// The fault that it is until it was taken over.
    pub fault: Fault,
}

impl OwnState {
    pub(super) fn declared(root: &str, backend: &DeclaredBackend, file: &TextFile) -> Self {
        let what = backend.what.clone();
        let message = format!("root module `{root}` has a state of its own: `{what}`");
        let fault = file
            .fault(
                backend.span.clone(),
                "not the backend of this target",
                message,
            )
            .help(format!("{HELP} this block"));
        Self {
            what,
            settings: backend.settings.clone(),
            fault,
        }
    }

    pub(super) fn beside(root: &str) -> Self {
        let message = format!("root module `{root}` has a state of its own: `{LOCAL_STATE}`");
        let fault =
            Fault::of_file(&inside(root, LOCAL_STATE), message).help(format!("{HELP} this file"));
        Self {
            what: LOCAL_STATE.to_owned(),
            settings: BTreeMap::new(),
            fault,
        }
    }
}

/// A file's path in a root module, which may be the platform itself.
pub(super) fn inside(root: &str, name: &str) -> String {
    if root.is_empty() {
        name.to_owned()
    } else {
        format!("{root}/{name}")
    }
}

/// Leaves of a configuration file what opens the state: where it is, how it is encrypted, and what that may refer to.
/// No provider and no module is needed to read such a module's state.
///
/// `None` for a file that can't be parsed.
pub fn backend_alone(path: &str, text: &str) -> Option<String> {
    if path.ends_with(".json") {
        let Value::Object(root) = serde_json::from_str(text).ok()? else {
            return None;
        };
        return Some(Value::Object(of_json(root)).to_string());
    }
    let body = hcl_edit::parser::parse_body(text).ok()?;
    Some(of_hcl(&body, text))
}

fn of_hcl(body: &Body, text: &str) -> String {
    let slice = |block: &Block| block.span().and_then(|span| text.get(span));
    let mut kept = String::new();
    for block in body.blocks() {
        match block.ident.as_str() {
            "terraform" => {
                let inner = block.body.blocks();
                let inner: Vec<&str> = inner
                    .filter(|block| OF_STATE.contains(&block.ident.as_str()))
                    .filter_map(slice)
                    .collect();
                if !inner.is_empty() {
                    kept.push_str(&format!("terraform {{\n{}\n}}\n", inner.join("\n")));
                }
            }
            word if REFERRED_TO.contains(&word) => {
                kept.push_str(slice(block).unwrap_or_default());
                kept.push('\n');
            }
            _ => {}
        }
    }
    kept
}

fn of_json(root: Map<String, Value>) -> Map<String, Value> {
    let of_terraform = |value: Value| match value {
        Value::Object(mut members) => {
            members.retain(|name, _| OF_STATE.contains(&name.as_str()));
            Value::Object(members)
        }
        other => other,
    };
    root.into_iter()
        .filter_map(|(name, value)| match (name.as_str(), value) {
            ("terraform", Value::Array(items)) => {
                let items = items.into_iter().map(of_terraform).collect();
                Some((name, Value::Array(items)))
            }
            ("terraform", value) => Some((name, of_terraform(value))),
            (word, value) => REFERRED_TO.contains(&word).then_some((name, value)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_a_state_is_left_and_nothing_else() {
        let text = r#"terraform {
  required_version = ">= 1.5"
  required_providers {
    test = { source = "rebuild/test" }
  }
  backend "s3" {
    bucket = "${var.name}-states" # kept as it is written
    key    = local.key
  }
}
variable "name" {
  type = string
}
locals {
  key = "edge"
}
provider "test" {}
module "far" {
  source = "ns/far/test"
}
resource "test_object" "a" {
  name = "a"
}
output "x" {
  value = 1
}
"#;
        let kept = backend_alone("root/main.tf", text).unwrap();
        assert_eq!(
            kept,
            "terraform {\nbackend \"s3\" {\n    bucket = \"${var.name}-states\" # kept as it is written\n    \
             key    = local.key\n  }\n}\nvariable \"name\" {\n  type = string\n}\nlocals {\n  key = \"edge\"\n}\n"
        );
        assert_eq!(
            backend_alone("root/main.tf", "resource \"a\" \"b\" {}\n").unwrap(),
            ""
        );
        assert!(backend_alone("root/main.tf", "terraform {").is_none());
    }

    #[test]
    fn the_same_of_json() {
        let text = r#"{"terraform": [{"backend": {"pg": {}}, "required_providers": {}}], "locals": {"a": 1},
                       "resource": {"x": {}}}"#;
        let kept: Value = serde_json::from_str(&backend_alone("a.tf.json", text).unwrap()).unwrap();
        assert_eq!(
            kept,
            serde_json::json!({ "terraform": [{ "backend": { "pg": {} } }], "locals": { "a": 1 } })
        );
        assert!(backend_alone("a.tf.json", "[]").is_none());
    }
}
