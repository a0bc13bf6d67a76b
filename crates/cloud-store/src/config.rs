//! Where a cloud store is and how it is reached. Every value is handed in.

use secrets::Secret;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A cloud store: the place, the credentials for it, and how patient to be with it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The bucket or container, and who we are there.
    pub place: Place,
    /// What stands in front of every key: parts joined by `/`, no slash at either end; `""` is none.
    pub prefix: String,
    /// A file of PEM certificates to trust, instead of the built-in roots.
    pub ca_file: Option<PathBuf>,
    /// A proxy, as `http://host:port`; without one the connection is direct.
    pub proxy: Option<String>,
    /// Whether `http://` may be spoken to an endpoint that is not on this machine.
    pub plain_http: bool,
    /// Time-outs and retries.
    pub patience: Patience,
}

impl Config {
    /// A store at `place`, below `prefix`, with the built-in roots, no proxy, and default patience.
    pub fn new(place: Place, prefix: impl Into<String>) -> Self {
        Self {
            place,
            prefix: prefix.into(),
            ca_file: None,
            proxy: None,
            plain_http: false,
            patience: Patience::default(),
        }
    }
}

/// A bucket of S3 or something that speaks like it, a bucket of Google's, a container of Azure's.
#[derive(Debug, Clone)]
pub enum Place {
    /// Amazon S3, or a server with its interface.
    S3(S3),
    /// Google Cloud Storage.
    Gcs(Gcs),
    /// Azure Blob Storage.
    Azure(Azure),
}

/// A bucket of Amazon S3, or of a server with its interface.
#[derive(Debug, Clone)]
pub struct S3 {
    /// The bucket.
    pub bucket: String,
    /// The region, which is part of every signature.
    pub region: String,
    /// The server, as `https://host:port`, without the bucket; `None` is Amazon's.
    pub endpoint: Option<String>,
    /// Whether the bucket stands in the path of an address rather than in its host.
    pub path_style: bool,
    /// Who we are.
    pub credentials: S3Credentials,
}

/// Who we are to S3.
#[derive(Debug, Clone)]
pub enum S3Credentials {
    /// A key pair, with the token that temporary ones have.
    Keys {
        /// The access key's id.
        access_key_id: String,
        /// The secret access key.
        secret_access_key: Secret,
        /// The session token of temporary keys.
        session_token: Option<Secret>,
    },
    /// Amazon's own chain, see [`DefaultChain`].
    DefaultChain(DefaultChain),
}

/// A bucket of Google Cloud Storage.
#[derive(Debug, Clone)]
pub struct Gcs {
    /// The bucket.
    pub bucket: String,
    /// The server, as `https://host:port`; `None` is Google's.
    pub endpoint: Option<String>,
    /// Who we are.
    pub credentials: GcsCredentials,
}

/// Who we are to Google Cloud Storage.
#[derive(Debug, Clone)]
pub enum GcsCredentials {
    /// The JSON text of a service account's key.
    ServiceAccountKey(Secret),
    /// An access token, used until it expires.
    AccessToken(Secret),
    /// Nobody: for emulators.
    Anonymous,
    /// Google's own chain, see [`DefaultChain`].
    DefaultChain(DefaultChain),
}

/// A container of Azure Blob Storage.
#[derive(Debug, Clone)]
pub struct Azure {
    /// The storage account.
    pub account: String,
    /// The container.
    pub container: String,
    /// The account's address, as `https://host:port[/path]`; `None` is Azure's public cloud.
    pub endpoint: Option<String>,
    /// Who we are.
    pub credentials: AzureCredentials,
}

/// Who we are to Azure Blob Storage.
#[derive(Debug, Clone)]
pub enum AzureCredentials {
    /// The account's access key, in base64.
    AccessKey(Secret),
    /// A shared access signature: the text behind the `?` of its address.
    SasToken(Secret),
    /// A service principal.
    ClientSecret {
        /// The directory.
        tenant_id: String,
        /// The application.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
    },
    /// Azure's own chain, see [`DefaultChain`].
    DefaultChain(DefaultChain),
}

/// The cloud's own way to find credentials, which the definitions have asked for by name.
///
/// It looks into `variables` (by the cloud's own names, such as `AWS_ACCESS_KEY_ID`,
/// `AWS_WEB_IDENTITY_TOKEN_FILE`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_CLIENT_ID`), then
/// into what the machine that it runs on offers (a metadata service). Profiles in a home directory
/// (`~/.aws`) and the clouds' command line programs are not part of it; Google's application
/// default credentials below `HOME` are.
#[derive(Debug, Clone, Default)]
pub struct DefaultChain {
    /// The variables that the chain may look into, and no others.
    pub variables: BTreeMap<String, Secret>,
}

/// Time-outs and retries of one store.
#[derive(Debug, Clone)]
pub struct Patience {
    /// For a connection, name resolution apart.
    pub connect: Duration,
    /// For one try of one request, its body and its answer included.
    pub request: Duration,
    /// How often a request is tried again: after an answer of 5xx or 429, where no connection came
    /// about, and reads after any failure of the network.
    pub n_retries: usize,
    /// After this no further try is begun.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(120),
            n_retries: 4,
            total: Duration::from_secs(60),
        }
    }
}
