//! Which outputs a changed secret explains.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What each local value of one module refers to, as `var.a` or `data.kind.name`.
pub type Locals = BTreeMap<String, Vec<String>>;

/// The outputs of the root module that are made from one of the `changed` variables: directly, by a
/// local value, through a module or by a data resource.
///
/// `configuration` is that of the JSON plan. It does not have local values, so `locals` gives those of the
/// module at a path of calls (`[]` is the root module); what it lacks explains nothing. Managed resources explain nothing
/// either: where one changes with a secret the plan has a change.
pub fn explained_outputs<'l>(
    configuration: &Value,
    changed: &BTreeSet<String>,
    locals: &dyn Fn(&[String]) -> Option<&'l Locals>,
) -> BTreeSet<String> {
    let Some(root) = configuration.get("root_module") else {
        return BTreeSet::new();
    };
    let module = Module {
        body: root,
        path: Vec::new(),
        changed,
        locals,
    };
    let outputs = root.get("outputs").and_then(Value::as_object);
    outputs
        .into_iter()
        .flatten()
        .filter(|(_, output)| module.depends(output.get("expression"), &mut BTreeSet::new()))
        .map(|(name, _)| name.clone())
        .collect()
}

struct Module<'a, 'l> {
    body: &'a Value,
    path: Vec<String>,
    changed: &'a BTreeSet<String>,
    locals: &'a dyn Fn(&[String]) -> Option<&'l Locals>,
}

impl Module<'_, '_> {
    /// Whether anything below refers to a changed variable. `seen` ends circles.
    fn depends(&self, expression: Option<&Value>, seen: &mut BTreeSet<String>) -> bool {
        match expression {
            Some(Value::Object(map)) => map.iter().any(|(key, below)| match below {
                Value::Array(references) if key == "references" => references
                    .iter()
                    .filter_map(Value::as_str)
                    .any(|reference| self.reaches(reference, seen)),
                below => self.depends(Some(below), seen),
            }),
            Some(Value::Array(items)) => items.iter().any(|item| self.depends(Some(item), seen)),
            _ => false,
        }
    }

    fn reaches(&self, reference: &str, seen: &mut BTreeSet<String>) -> bool {
        if !seen.insert(reference.to_owned()) {
            return false;
        }
        let mut parts = reference.split(['.', '[']);
        let (Some(kind), Some(name)) = (parts.next(), parts.next()) else {
            return false;
        };
        match kind {
            "var" => self.changed.contains(name),
            "local" => (self.locals)(&self.path)
                .and_then(|locals| locals.get(name))
                .is_some_and(|references| {
                    references
                        .iter()
                        .any(|reference| self.reaches(reference, seen))
                }),
            "module" => self.module_reaches(name, reference),
            "data" => {
                let address = parts.next().map(|last| format!("data.{name}.{last}"));
                self.body
                    .get("resources")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter(|resource| {
                        resource.get("address").and_then(Value::as_str) == address.as_deref()
                    })
                    .any(|resource| self.depends(Some(resource), seen))
            }
            _ => false,
        }
    }

    /// Follows an output of a module: its changed variables are those whose argument depends on ours.
    fn module_reaches(&self, name: &str, reference: &str) -> bool {
        let Some(call) = self
            .body
            .get("module_calls")
            .and_then(|calls| calls.get(name))
        else {
            return false;
        };
        let Some(body) = call.get("module") else {
            return false;
        };
        let arguments = call.get("expressions").and_then(Value::as_object);
        let changed: BTreeSet<String> = arguments
            .into_iter()
            .flatten()
            .filter(|(_, expression)| self.depends(Some(expression), &mut BTreeSet::new()))
            .map(|(argument, _)| argument.clone())
            .collect();
        let Some(output) = reference
            .rsplit('.')
            .next()
            .and_then(|last| body.get("outputs")?.get(last))
        else {
            return false;
        };
        let mut path = self.path.clone();
        path.push(name.to_owned());
        let inner = Module {
            body,
            path,
            changed: &changed,
            locals: self.locals,
        };
        inner.depends(output.get("expression"), &mut BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_output_is_explained_by_what_it_is_made_from() {
        let configuration = json!({"root_module": {
            "variables": {"password": {}, "size": {}},
            "outputs": {
                "direct": {"expression": {"references": ["var.password"]}},
                "nested": {"expression": {"references": ["var.password.user", "var.password"]}},
                "other": {"expression": {"references": ["var.size"]}},
                "by_local": {"expression": {"references": ["local.login"]}},
                "by_unknown_local": {"expression": {"references": ["local.nobody"]}},
                "by_data": {"expression": {"references": ["data.box.a.token", "data.box.a"]}},
                "by_other_data": {"expression": {"references": ["data.box.b.token", "data.box.b"]}},
                "by_module": {"expression": {"references": ["module.m.token", "module.m"]}},
                "by_module_local": {"expression": {"references": ["module.m.local", "module.m"]}},
                "by_module_else": {"expression": {"references": ["module.m.fixed", "module.m"]}},
                "by_resource": {"expression": {"references": ["box.a.password", "box.a"]}},
                "constant": {"expression": {"constant_value": 1}},
                "bare": {},
            },
            "resources": [
                {"address": "data.box.a", "expressions": {"auth": [{"key": {"references": ["var.password"]}}]}},
                {"address": "data.box.b", "expressions": {"path": {"constant_value": "x"}}},
                {"address": "box.a", "expressions": {"password": {"references": ["var.password"]}}},
            ],
            "module_calls": {"m": {
                "expressions": {"secret": {"references": ["var.password"]}, "size": {"references": ["var.size"]}},
                "module": {"outputs": {
                    "token": {"expression": {"references": ["var.secret"]}},
                    "fixed": {"expression": {"references": ["var.size"]}},
                    "local": {"expression": {"references": ["local.inner"]}},
                }},
            }},
        }});
        let changed = BTreeSet::from(["password".to_owned()]);
        let locals = BTreeMap::from([
            ("login".to_owned(), vec!["local.again".to_owned()]),
            (
                "again".to_owned(),
                vec!["local.login".to_owned(), "var.password".to_owned()],
            ),
        ]);
        let below = BTreeMap::from([("inner".to_owned(), vec!["var.secret".to_owned()])]);
        let locals = |path: &[String]| match path {
            [] => Some(&locals),
            [only] if only == "m" => Some(&below),
            _ => None,
        };
        let explained = explained_outputs(&configuration, &changed, &locals);
        assert_eq!(
            explained.iter().map(String::as_str).collect::<Vec<_>>(),
            [
                "by_data",
                "by_local",
                "by_module",
                "by_module_local",
                "direct",
                "nested"
            ]
        );
        assert_eq!(
            explained_outputs(&configuration, &BTreeSet::new(), &locals),
            BTreeSet::new()
        );
        assert_eq!(
            explained_outputs(&json!({}), &changed, &locals),
            BTreeSet::new()
        );
    }

    #[test]
    fn a_broken_reference_explains_nothing() {
        let configuration = json!({"root_module": {"outputs": {
            "a": {"expression": {"references": ["path", "module.gone.x", "data.box", 7]}},
            "b": {"expression": {"references": ["module.empty.x"]}},
            "c": {"expression": {"references": ["module.bare"]}},
        }, "module_calls": {"empty": {}, "bare": {"module": {}}}}});
        let changed = BTreeSet::from(["password".to_owned()]);
        assert_eq!(
            explained_outputs(&configuration, &changed, &|_| None),
            BTreeSet::new()
        );
    }
}
