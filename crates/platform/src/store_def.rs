//! Where a target's states and records are kept, as `[store]` names it.

use std::time::Duration;

use crate::expr::Expr;

/// Where a target's states and records are kept.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreDef {
    /// A directory of this machine.
    Local {
        /// The directory, absolute or beginning with `~/`; under the user's state home otherwise.
        dir: Option<String>,
    },
    /// A bucket or container of a cloud.
    Cloud(Box<CloudDef>),
}

impl StoreDef {
    /// Returns every value with references in it: the credentials.
    pub fn exprs(&self) -> Vec<&Expr> {
        let Self::Cloud(cloud) = self else {
            return Vec::new();
        };
        match &cloud.place {
            CloudPlace::S3 {
                credentials: Some(keys),
                ..
            } => [&keys.access_key_id, &keys.secret_access_key]
                .into_iter()
                .chain(&keys.session_token)
                .collect(),
            CloudPlace::S3 { .. } => Vec::new(),
            CloudPlace::Gcs { credentials, .. } => match credentials {
                GcsCredentialsDef::ServiceAccountKey(expr)
                | GcsCredentialsDef::AccessToken(expr) => vec![expr],
                GcsCredentialsDef::Anonymous | GcsCredentialsDef::Chain => Vec::new(),
            },
            CloudPlace::Azure { credentials, .. } => match credentials {
                AzureCredentialsDef::AccessKey(expr) | AzureCredentialsDef::SasToken(expr) => {
                    vec![expr]
                }
                AzureCredentialsDef::ClientSecret {
                    tenant_id,
                    client_id,
                    client_secret,
                } => vec![tenant_id, client_id, client_secret],
                AzureCredentialsDef::Chain => Vec::new(),
            },
        }
    }
}

/// A bucket or container, how it is reached, and who we are there.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudDef {
    /// Which one, and who we are.
    pub place: CloudPlace,
    /// What stands in front of every key, without a slash at either end; empty for none.
    pub prefix: String,
    /// The server's address; the cloud's own where there is none.
    pub endpoint: Option<String>,
    /// A file of PEM certificates to trust: absolute, in the home (`~/`), or within the platform.
    pub ca_file: Option<String>,
    /// A proxy, as `http://host:port`.
    pub proxy: Option<String>,
    /// Whether `http://` may be spoken to another machine.
    pub plain_http: bool,
    /// The longest that one try of one request may take.
    pub timeout: Option<Duration>,
}

/// A bucket or container, and who we are there.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudPlace {
    /// A bucket of Amazon S3, or of a server with its interface.
    S3 {
        /// The bucket.
        bucket: String,
        /// The region, which is part of every signature.
        region: String,
        /// Whether the bucket stands in the path of an address rather than in its host.
        path_style: bool,
        /// A key pair; the cloud's own chain without one.
        credentials: Option<S3KeysDef>,
    },
    /// A bucket of Google Cloud Storage.
    Gcs {
        /// The bucket.
        bucket: String,
        /// Who we are.
        credentials: GcsCredentialsDef,
    },
    /// A container of Azure Blob Storage.
    Azure {
        /// The storage account.
        account: String,
        /// The container.
        container: String,
        /// Who we are.
        credentials: AzureCredentialsDef,
    },
}

/// A key pair of S3.
#[derive(Debug, Clone, PartialEq)]
pub struct S3KeysDef {
    /// The access key's id.
    pub access_key_id: Expr,
    /// The secret access key.
    pub secret_access_key: Expr,
    /// The session token of temporary keys.
    pub session_token: Option<Expr>,
}

/// Who we are to Google Cloud Storage.
#[derive(Debug, Clone, PartialEq)]
pub enum GcsCredentialsDef {
    /// The JSON text of a service account's key.
    ServiceAccountKey(Expr),
    /// An access token.
    AccessToken(Expr),
    /// Nobody: for emulators.
    Anonymous,
    /// Google's own chain.
    Chain,
}

/// Who we are to Azure Blob Storage.
#[derive(Debug, Clone, PartialEq)]
pub enum AzureCredentialsDef {
    /// The account's access key.
    AccessKey(Expr),
    /// A shared access signature.
    SasToken(Expr),
    /// A service principal.
    ClientSecret {
        /// The directory.
        tenant_id: Expr,
        /// The application.
        client_id: Expr,
        /// Its secret.
        client_secret: Expr,
    },
    /// Azure's own chain.
    Chain,
}
