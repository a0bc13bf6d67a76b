//! The providers there are modules for: names, sources, versions, credentials.

use std::fmt;

/// A provider that there is a module for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderName {
    /// Secrets.
    Bitwarden,
    /// Projects.
    Gitlab,
    /// Oracle's cloud.
    Oci,
    /// OpenStack clouds.
    Openstack,
    /// Clusters.
    Talos,
}

impl ProviderName {
    /// Every one, in the order of their names.
    pub const ALL: [Self; 5] = [
        Self::Bitwarden,
        Self::Gitlab,
        Self::Oci,
        Self::Openstack,
        Self::Talos,
    ];

    /// Returns its local name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bitwarden => "bitwarden",
            Self::Gitlab => "gitlab",
            Self::Oci => "oci",
            Self::Openstack => "openstack",
            Self::Talos => "talos",
        }
    }

    /// Returns its address.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Bitwarden => "maxlaverse/bitwarden",
            Self::Gitlab => "gitlabhq/gitlab",
            Self::Oci => "oracle/oci",
            Self::Openstack => "terraform-provider-openstack/openstack",
            Self::Talos => "siderolabs/talos",
        }
    }

    /// Returns the range of versions that the module renders for. A range never picks a pre-release.
    #[must_use]
    pub const fn range(self) -> &'static str {
        match self {
            // Before 1.0 a minor version may change anything.
            Self::Bitwarden => "~> 0.18.0",
            // 19 dropped resources.
            Self::Gitlab => ">= 18.6.1, < 19.0.0",
            Self::Oci => "~> 8.28",
            Self::Openstack => "~> 3.4",
            Self::Talos => "~> 0.11.0",
        }
    }

    /// Returns the argument that the cloud adds to by itself, which is no drift, and why.
    #[must_use]
    pub const fn adds_by_itself(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Oci => Some(("defined_tags", "Oracle adds tags of its own")),
            Self::Bitwarden | Self::Gitlab | Self::Openstack | Self::Talos => None,
        }
    }

    /// Returns the kinds of specs that its module renders.
    #[must_use]
    pub const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Bitwarden => &["Secret"],
            Self::Gitlab => &["Project"],
            Self::Oci | Self::Openstack => &["NodeGroup", "Network", "Bucket"],
            Self::Talos => &["Cluster", "NodeGroup"],
        }
    }

    /// Returns the provider of this local name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
