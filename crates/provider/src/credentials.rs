//! Which variables of the environment a provider takes its credentials from.

use crate::ProviderName;

/// One thing that a provider must know, by one of several variables (or sets of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// What it is, for people.
    pub what: &'static str,
    /// Sets of variables, each enough.
    pub any_of: &'static [&'static [&'static str]],
}

/// A thing that a provider must know and that the environment does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which provider.
    pub provider: ProviderName,
    /// What it must know.
    pub credential: Credential,
    /// The variables of the set that lacks the fewest.
    pub variables: Vec<&'static str>,
}

const OCI: [Credential; 5] = [
    one("the tenancy", &[&["OCI_TENANCY_OCID"]]),
    one("the user", &[&["OCI_USER_OCID"]]),
    one("the key's fingerprint", &[&["OCI_FINGERPRINT"]]),
    one(
        "the private key",
        &[&["OCI_PRIVATE_KEY"], &["OCI_PRIVATE_KEY_PATH"]],
    ),
    one("the region", &[&["OCI_REGION"]]),
];
const OPENSTACK: [Credential; 1] = [one(
    "the cloud and who calls it",
    &[
        &["OS_CLOUD"],
        &[
            "OS_AUTH_URL",
            "OS_APPLICATION_CREDENTIAL_ID",
            "OS_APPLICATION_CREDENTIAL_SECRET",
        ],
        &["OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD"],
        &["OS_AUTH_URL", "OS_TOKEN"],
    ],
)];
const BITWARDEN: [Credential; 1] = [one(
    "who opens the vault",
    &[
        &["BWS_ACCESS_TOKEN"],
        &["BW_SESSION"],
        &["BW_CLIENTID", "BW_CLIENTSECRET", "BW_PASSWORD"],
    ],
)];
const GITLAB: [Credential; 1] = [one("who calls it", &[&["GITLAB_TOKEN"]])];

const fn one(what: &'static str, any_of: &'static [&'static [&'static str]]) -> Credential {
    Credential { what, any_of }
}

impl ProviderName {
    /// Returns what the provider must know. Talos' needs nothing: what opens a cluster is in its state.
    #[must_use]
    pub fn credentials(self) -> &'static [Credential] {
        match self {
            Self::Bitwarden => &BITWARDEN,
            Self::Gitlab => &GITLAB,
            Self::Oci => &OCI,
            Self::Openstack => &OPENSTACK,
            Self::Talos => &[],
        }
    }

    /// Returns every variable that the provider reads its credentials from, needed or not.
    #[must_use]
    pub fn variables(self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = self
            .credentials()
            .iter()
            .flat_map(|credential| credential.any_of.iter().copied().flatten().copied())
            .collect();
        if self == Self::Gitlab {
            all.push("GITLAB_BASE_URL");
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns what the environment lacks. Takes whether a variable is set, and not empty.
    pub fn missing(self, is_set: impl Fn(&str) -> bool) -> Vec<Missing> {
        let mut missing = Vec::new();
        for credential in self.credentials() {
            let lacking = credential.any_of.iter().map(|set| {
                let lacking = set.iter().copied().filter(|variable| !is_set(variable));
                lacking.collect::<Vec<_>>()
            });
            // Of sets that lack as much, the first is the one to recommend.
            let fewest = lacking.min_by_key(Vec::len).unwrap_or_default();
            if !fewest.is_empty() {
                missing.push(Missing {
                    provider: self,
                    credential: *credential,
                    variables: fewest,
                });
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_another_way_in_is_taken() {
        let missing = |provider: ProviderName, set: &[&str]| -> Vec<&str> {
            let missing = provider.missing(|variable| set.contains(&variable));
            missing
                .into_iter()
                .flat_map(|missing| missing.variables)
                .collect()
        };
        let oci = [
            "OCI_TENANCY_OCID",
            "OCI_USER_OCID",
            "OCI_FINGERPRINT",
            "OCI_REGION",
        ];
        assert_eq!(missing(ProviderName::Oci, &oci), ["OCI_PRIVATE_KEY"]);
        let with_path = [&oci[..], &["OCI_PRIVATE_KEY_PATH"]].concat();
        assert!(missing(ProviderName::Oci, &with_path).is_empty());
        // The provider does not read the variables of Oracle's own command line.
        assert_eq!(
            missing(ProviderName::Oci, &["OCI_CLI_USER", "OCI_CLI_REGION"]).len(),
            5
        );
        assert_eq!(missing(ProviderName::Openstack, &[]), ["OS_CLOUD"]);
        assert_eq!(missing(ProviderName::Openstack, &["OS_CLOUD"]), [""; 0]);
        assert!(
            missing(
                ProviderName::Openstack,
                &["OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD"]
            )
            .is_empty()
        );
        assert!(missing(ProviderName::Bitwarden, &["BWS_ACCESS_TOKEN"]).is_empty());
        assert_eq!(missing(ProviderName::Gitlab, &[]), ["GITLAB_TOKEN"]);
        assert!(missing(ProviderName::Talos, &[]).is_empty());
        assert_eq!(
            ProviderName::Gitlab.variables(),
            ["GITLAB_BASE_URL", "GITLAB_TOKEN"]
        );
    }
}
