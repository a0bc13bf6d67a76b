//! One document: everything that one `.tf.json` file says.

use std::collections::BTreeMap;

use crate::{
    Body, BuildError, Check, Identifier, Import, Module, Moved, Output, Removed, Resource,
    Settings, Value, Variable,
};

/// What one `.tf.json` file says. Nothing in it can be defined twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The `terraform` block.
    pub settings: Settings,
    pub(crate) providers: BTreeMap<(Identifier, Option<Identifier>), Body>,
    pub(crate) variables: BTreeMap<Identifier, Variable>,
    pub(crate) locals: BTreeMap<Identifier, Value>,
    pub(crate) outputs: BTreeMap<Identifier, Output>,
    pub(crate) resources: BTreeMap<(Identifier, Identifier), Resource>,
    pub(crate) data: BTreeMap<(Identifier, Identifier), Resource>,
    pub(crate) modules: BTreeMap<Identifier, Module>,
    pub(crate) checks: BTreeMap<Identifier, Check>,
    pub(crate) moved: Vec<Moved>,
    pub(crate) imports: Vec<Import>,
    pub(crate) removed: Vec<Removed>,
}

/// What OpenTofu itself reads in a resource or data source.
const OF_RESOURCES: [&str; 8] = [
    "count",
    "for_each",
    "depends_on",
    "provider",
    "lifecycle",
    "connection",
    "provisioner",
    "enabled",
];
/// What OpenTofu itself reads in a module.
const OF_MODULES: [&str; 8] = [
    "source",
    "version",
    "providers",
    "count",
    "for_each",
    "depends_on",
    "lifecycle",
    "enabled",
];

impl Document {
    /// Returns a document that says nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider's configuration.
    ///
    /// # Errors
    /// When there is one of this name and alias, or it sets the alias as an argument.
    pub fn add_provider(
        &mut self,
        name: impl Into<Identifier>,
        alias: Option<Identifier>,
        body: Body,
    ) -> Result<(), BuildError> {
        let key = (name.into(), alias);
        let address = match &key.1 {
            Some(alias) => format!("provider.{}.{alias}", key.0),
            None => format!("provider.{}", key.0),
        };
        free(&address, &body, &["alias"])?;
        put(&mut self.providers, key, body, address)
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn add_variable(
        &mut self,
        name: impl Into<Identifier>,
        variable: Variable,
    ) -> Result<(), BuildError> {
        let name = name.into();
        let address = format!("var.{name}");
        put(&mut self.variables, name, variable, address)
    }

    /// Adds a local value.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn add_local(
        &mut self,
        name: impl Into<Identifier>,
        value: impl Into<Value>,
    ) -> Result<(), BuildError> {
        let name = name.into();
        let address = format!("local.{name}");
        put(&mut self.locals, name, value.into(), address)
    }

    /// Adds an output.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn add_output(
        &mut self,
        name: impl Into<Identifier>,
        output: Output,
    ) -> Result<(), BuildError> {
        let name = name.into();
        let address = format!("output.{name}");
        put(&mut self.outputs, name, output, address)
    }

    /// Adds a resource.
    ///
    /// # Errors
    /// When there is one of this kind and name, or it sets a meta-argument as an argument.
    pub fn add_resource(
        &mut self,
        kind: impl Into<Identifier>,
        name: impl Into<Identifier>,
        resource: Resource,
    ) -> Result<(), BuildError> {
        let key = (kind.into(), name.into());
        let address = format!("{}.{}", key.0, key.1);
        free(&address, &resource.body, &OF_RESOURCES)?;
        put(&mut self.resources, key, resource, address)
    }

    /// Adds a data source.
    ///
    /// # Errors
    /// When there is one of this kind and name, or it sets a meta-argument as an argument.
    pub fn add_data(
        &mut self,
        kind: impl Into<Identifier>,
        name: impl Into<Identifier>,
        data: Resource,
    ) -> Result<(), BuildError> {
        let key = (kind.into(), name.into());
        let address = format!("data.{}.{}", key.0, key.1);
        free(&address, &data.body, &OF_RESOURCES)?;
        put(&mut self.data, key, data, address)
    }

    /// Adds a module.
    ///
    /// # Errors
    /// When there is one of this name, or it sets a meta-argument as an argument.
    pub fn add_module(
        &mut self,
        name: impl Into<Identifier>,
        module: Module,
    ) -> Result<(), BuildError> {
        let name = name.into();
        let address = format!("module.{name}");
        free(&address, &module.arguments, &OF_MODULES)?;
        put(&mut self.modules, name, module, address)
    }

    /// Adds a check.
    ///
    /// # Errors
    /// When there is one of this name, or its data source sets a meta-argument as an argument.
    pub fn add_check(
        &mut self,
        name: impl Into<Identifier>,
        check: Check,
    ) -> Result<(), BuildError> {
        let name = name.into();
        let address = format!("check.{name}");
        if let Some((_, _, data)) = &check.data {
            free(&address, &data.body, &OF_RESOURCES)?;
        }
        put(&mut self.checks, name, check, address)
    }

    /// Says that an object has a new address.
    pub fn add_moved(&mut self, moved: Moved) {
        self.moved.push(moved);
    }

    /// Says that an object comes under this address.
    pub fn add_import(&mut self, import: Import) {
        self.imports.push(import);
    }

    /// Says that an object is no longer looked after.
    pub fn add_removed(&mut self, removed: Removed) {
        self.removed.push(removed);
    }

    /// Returns whether the document says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns kinds and names of the resources.
    pub fn resources(&self) -> impl Iterator<Item = (&Identifier, &Identifier, &Resource)> {
        self.resources
            .iter()
            .map(|((kind, name), resource)| (kind, name, resource))
    }
}

fn free(address: &str, body: &Body, reserved: &[&str]) -> Result<(), BuildError> {
    match reserved.iter().find(|name| body.get(name).is_some()) {
        None => Ok(()),
        Some(name) => Err(BuildError::Reserved {
            address: address.to_owned(),
            name: (*name).to_owned(),
        }),
    }
}

fn put<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    address: String,
) -> Result<(), BuildError> {
    match map.entry(key) {
        std::collections::btree_map::Entry::Occupied(_) => Err(BuildError::Twice { address }),
        std::collections::btree_map::Entry::Vacant(place) => {
            place.insert(value);
            Ok(())
        }
    }
}
