//! The `terraform` block.

use std::collections::BTreeMap;

use crate::{Body, Identifier, Reference};

/// The settings of a root module. OpenTofu evaluates neither versions nor sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Which versions of OpenTofu will do.
    pub required_version: Option<String>,
    /// The providers by local name: one object, as OpenTofu allows only one.
    pub required_providers: BTreeMap<Identifier, RequiredProvider>,
    /// The kind of backend, and its arguments.
    pub backend: Option<(Identifier, Body)>,
    /// How state and plan are encrypted.
    pub encryption: Option<Encryption>,
}

/// Where a provider comes from, and which versions of it will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredProvider {
    /// The address, such as `siderolabs/talos`.
    pub source: String,
    /// The range of versions.
    pub version: Option<String>,
}

/// The `encryption` block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Key providers by kind and name. The name is part of the stored state and is never changed.
    pub key_providers: BTreeMap<(Identifier, Identifier), Body>,
    /// Methods by kind and name.
    pub methods: BTreeMap<(Identifier, Identifier), Body>,
    /// How the state is encrypted.
    pub state: Option<EncryptionTarget>,
    /// How plans are encrypted.
    pub plan: Option<EncryptionTarget>,
}

/// How one of the two is encrypted. Methods are written bare: OpenTofu takes no expression there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionTarget {
    /// The method that writes.
    pub method: Reference,
    /// The method that may still read.
    pub fallback: Option<Reference>,
    /// Whether an unencrypted method is refused.
    pub enforced: bool,
}
