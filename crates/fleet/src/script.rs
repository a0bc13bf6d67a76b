//! Ansible's protocol for inventory scripts: `--list` and `--host NAME`.

use serde_json::{Map, Value, json};

use crate::host::HostName;
use crate::workspace::Fleet;

impl Fleet {
    /// The answer to `--list`: groups, and every host's variables under `_meta`, so that `--host` is not asked.
    #[must_use]
    pub fn list(&self) -> Value {
        let mut list = Map::new();
        let variables = self
            .hosts()
            .map(|host| (host.name.to_string(), self.unsafe_variables(host)));
        list.insert(
            "_meta".to_owned(),
            json!({ "hostvars": Value::Object(variables.collect()) }),
        );
        let groups = self.groups();
        let mut names: Vec<&str> = groups.keys().copied().collect();
        names.push("ungrouped");
        list.insert("all".to_owned(), json!({ "children": names }));
        for (group, hosts) in groups {
            list.insert(group.to_owned(), json!({ "hosts": hosts }));
        }
        Value::Object(list)
    }

    /// The answer to `--host NAME`; `None` for a host that no workspace has.
    #[must_use]
    pub fn host(&self, name: &HostName) -> Option<Value> {
        let host = self.hosts().find(|host| host.name == *name)?;
        Some(self.unsafe_variables(host))
    }

    fn unsafe_variables(&self, host: &crate::Host) -> Value {
        let variables = self.variables(host).into_iter();
        Value::Object(
            variables
                .map(|(key, value)| (key, as_it_is(value)))
                .collect(),
        )
    }
}

/// Marks texts so that Ansible runs no template in them. Measured with ansible-core 2.17 and 2.19: from a
/// script it takes them so, and a text stays a text.
fn as_it_is(value: Value) -> Value {
    match value {
        Value::String(text) => json!({ "__ansible_unsafe": text }),
        Value::Array(items) => items.into_iter().map(as_it_is).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, as_it_is(value)))
                .collect(),
        ),
        other => other,
    }
}
