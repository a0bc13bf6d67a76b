//! The three clouds behind one face: conditional writes, reads, pages of a listing, deletes.

use crate::config::{
    Azure, AzureCredentials, Config, DefaultChain, Gcs, GcsCredentials, Patience, Place, S3,
    S3Credentials,
};
use crate::error::OpenError;
use crate::transport::{Connector, Service};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::azure::{AzureAuthorizer, AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::client::{HttpRequest, HttpRequestBody, HttpService as _};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    PutPayload, RetryConfig, UpdateVersion,
};
use std::time::Duration;
use store::Tag;

/// A client of one bucket or container.
pub(crate) struct Client {
    cloud: Cloud,
    service: Service,
    /// The address of the bucket, without a slash at its end.
    address: String,
    /// The host of it.
    pub(crate) host: String,
}

enum Cloud {
    S3 {
        store: AmazonS3,
        region: String,
    },
    Gcs {
        store: GoogleCloudStorage,
    },
    Azure {
        store: MicrosoftAzure,
        account: String,
    },
}

/// What a conditional write is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// The key is absent.
    Absent,
    /// The key is in this version.
    Version(&'a Tag),
}

impl Condition<'_> {
    /// Whether it holds for a value with this tag.
    pub(crate) fn holds_for(self, there: &Tag) -> bool {
        match self {
            Self::Absent => false,
            Self::Version(tag) => tag == there,
        }
    }
}

impl Client {
    /// Makes the client. Nothing is sent.
    pub(crate) fn open(config: &Config, describe: &str) -> Result<Self, OpenError> {
        let address = address(&config.place)?;
        let uri: http::Uri = address.parse().map_err(|error: http::uri::InvalidUri| {
            illegal("address of a store", &address, error.to_string())
        })?;
        let host = uri.host().unwrap_or_default().to_owned();
        let plain_http = match uri.scheme_str() {
            Some("https") => false,
            Some("http") if config.plain_http || is_this_machine(&host) => true,
            Some("http") => {
                let why = "states would be sent in the clear; `plain_http` must be set for that";
                return Err(illegal("endpoint", &address, why.to_owned()));
            }
            _ => {
                let why = "it must begin with `https://` or `http://`";
                return Err(illegal("endpoint", &address, why.to_owned()));
            }
        };
        let connector = Connector::new(config, plain_http)?;
        let service = connector.service();
        let shared = Shared {
            connector,
            retry: retry(&config.patience),
            options: ClientOptions::new().with_allow_http(plain_http),
        };
        let cloud = match &config.place {
            Place::S3(place) => s3(place, &address, shared),
            Place::Gcs(place) => gcs(place, &address, shared),
            Place::Azure(place) => azure(place, &address, shared),
        };
        let cloud = cloud.map_err(|error| OpenError::Credentials {
            store: describe.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Self {
            cloud,
            service,
            address,
            host,
        })
    }

    fn objects(&self) -> &dyn ObjectStore {
        match &self.cloud {
            Cloud::S3 { store, .. } => store,
            Cloud::Gcs { store } => store,
            Cloud::Azure { store, .. } => store,
        }
    }

    /// Whether a text can be a tag of this cloud. One that can't is of no version.
    pub(crate) fn is_tag(&self, tag: &Tag) -> bool {
        let text = tag.as_str();
        match self.cloud {
            Cloud::Gcs { .. } => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
            Cloud::S3 { .. } | Cloud::Azure { .. } => {
                let inner = text
                    .strip_prefix("W/")
                    .unwrap_or(text)
                    .strip_prefix('"')
                    .and_then(|rest| rest.strip_suffix('"'));
                inner.is_some_and(|inner| inner.bytes().all(|byte| byte.is_ascii_graphic()))
            }
        }
    }

    /// The version of a value: a generation in Google's cloud, an ETag in the others.
    fn tag(&self, e_tag: Option<String>, version: Option<String>) -> object_store::Result<Tag> {
        let found = match self.cloud {
            Cloud::Gcs { .. } => version,
            Cloud::S3 { .. } | Cloud::Azure { .. } => e_tag,
        };
        found.map(Tag::new).ok_or(object_store::Error::Generic {
            store: "cloud",
            source: "the answer names no version".into(),
        })
    }

    /// Writes a value under a condition.
    pub(crate) async fn put(
        &self,
        path: &Path,
        body: Vec<u8>,
        condition: Condition<'_>,
    ) -> object_store::Result<Tag> {
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::Version(tag) => {
                let text = Some(tag.as_str().to_owned());
                PutMode::Update(UpdateVersion {
                    e_tag: text.clone(),
                    version: text,
                })
            }
        };
        let options = PutOptions::from(mode);
        let done = self
            .objects()
            .put_opts(path, PutPayload::from(body), options)
            .await?;
        self.tag(done.e_tag, done.version)
    }

    /// Reads a value.
    pub(crate) async fn get(&self, path: &Path) -> object_store::Result<(Vec<u8>, Tag)> {
        let found = self.objects().get(path).await?;
        let tag = self.tag(found.meta.e_tag.clone(), found.meta.version.clone())?;
        Ok((found.bytes().await?.into(), tag))
    }

    /// Reads one page of the keys that begin with `prefix`.
    pub(crate) async fn page(
        &self,
        prefix: &str,
        page_token: Option<String>,
        max_keys: Option<usize>,
    ) -> object_store::Result<PaginatedListResult> {
        let options = PaginatedListOptions {
            page_token,
            max_keys,
            ..PaginatedListOptions::default()
        };
        let prefix = (!prefix.is_empty()).then_some(prefix);
        match &self.cloud {
            Cloud::S3 { store, .. } => store.list_paginated(prefix, options).await,
            Cloud::Gcs { store } => store.list_paginated(prefix, options).await,
            Cloud::Azure { store, .. } => store.list_paginated(prefix, options).await,
        }
    }

    /// Deletes the version `tag`, where the server can: `object_store` has no such request. `None`
    /// deletes whatever is there, which is only for keys that nobody else uses.
    ///
    /// It is sent once. An answer of 2xx alone is success.
    pub(crate) async fn delete(&self, path: &Path, tag: Option<&Tag>) -> object_store::Result<()> {
        // The characters of keys need no encoding in an address, but for this one.
        let path = path.as_ref().replace('@', "%40");
        let condition = match self.cloud {
            Cloud::Gcs { .. } => "x-goog-if-generation-match",
            Cloud::S3 { .. } | Cloud::Azure { .. } => "if-match",
        };
        let mut request = http::Request::delete(format!("{}/{path}", self.address));
        if let Some(tag) = tag {
            request = request.header(condition, tag.as_str());
        }
        let mut request = request
            .body(HttpRequestBody::empty())
            .map_err(|error| generic(error.into()))?;
        self.authorize(&mut request).await?;
        let response = self
            .service
            .call(request)
            .await
            .map_err(|error| generic(error.into()))?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(generic(format!("status {}", response.status()).into()))
    }

    async fn authorize(&self, request: &mut HttpRequest) -> object_store::Result<()> {
        match &self.cloud {
            Cloud::S3 { store, region } => {
                let credential = store.credentials().get_credential().await?;
                AwsAuthorizer::new(&credential, "s3", region).try_authorize(request, None)
            }
            Cloud::Gcs { store } => {
                let credential = store.credentials().get_credential().await?;
                if !credential.bearer.is_empty() {
                    let text = format!("Bearer {}", credential.bearer);
                    let mut value = http::HeaderValue::from_str(&text)
                        .map_err(|error| generic(error.into()))?;
                    value.set_sensitive(true);
                    request
                        .headers_mut()
                        .insert(http::header::AUTHORIZATION, value);
                }
                Ok(())
            }
            Cloud::Azure { store, account } => {
                let credential = store.credentials().get_credential().await?;
                AzureAuthorizer::new(&credential, account).try_authorize(request)
            }
        }
    }
}

struct Shared {
    connector: Connector,
    retry: RetryConfig,
    options: ClientOptions,
}

fn retry(patience: &Patience) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: patience.n_retries,
        retry_timeout: patience.total,
    }
}

fn s3(place: &S3, address: &str, shared: Shared) -> object_store::Result<Cloud> {
    let mut builder = AmazonS3Builder::new();
    match &place.credentials {
        S3Credentials::Keys {
            access_key_id,
            secret_access_key,
            session_token,
        } => {
            builder = builder
                .with_access_key_id(access_key_id)
                .with_secret_access_key(secret_access_key.expose());
            if let Some(token) = session_token {
                builder = builder.with_token(token.expose());
            }
        }
        S3Credentials::DefaultChain(chain) => {
            for (key, value) in settings::<AmazonS3ConfigKey>(chain, "aws_", is_credential) {
                builder = builder.with_config(key, value);
            }
        }
    }
    let store = builder
        .with_region(&place.region)
        .with_bucket_name(&place.bucket)
        // The address names the bucket already, whichever style it has.
        .with_endpoint(address)
        .with_virtual_hosted_style_request(true)
        .with_disable_bulk_delete(true)
        .with_client_options(shared.options)
        .with_retry(shared.retry)
        .with_http_connector(shared.connector)
        .build()?;
    Ok(Cloud::S3 {
        store,
        region: place.region.clone(),
    })
}

fn gcs(place: &Gcs, address: &str, shared: Shared) -> object_store::Result<Cloud> {
    let mut builder = GoogleCloudStorageBuilder::new();
    match &place.credentials {
        GcsCredentials::ServiceAccountKey(json) => {
            builder = builder.with_service_account_key(json.expose());
        }
        GcsCredentials::AccessToken(token) => builder = builder.with_bearer_token(token.expose()),
        GcsCredentials::Anonymous => {
            builder = builder.with_bearer_token("").with_skip_signature(true);
        }
        GcsCredentials::DefaultChain(chain) => {
            if let Some(file) = chain.variables.get("GOOGLE_APPLICATION_CREDENTIALS") {
                builder = builder.with_application_credentials(file.expose());
            }
        }
    }
    let bucket = format!("/{}", place.bucket);
    let store = builder
        .with_base_url(address.strip_suffix(&bucket).unwrap_or(address))
        .with_bucket_name(&place.bucket)
        .with_client_options(shared.options)
        .with_retry(shared.retry)
        .with_http_connector(shared.connector)
        .build()?;
    Ok(Cloud::Gcs { store })
}

fn azure(place: &Azure, address: &str, shared: Shared) -> object_store::Result<Cloud> {
    let mut builder = MicrosoftAzureBuilder::new();
    match &place.credentials {
        AzureCredentials::AccessKey(key) => builder = builder.with_access_key(key.expose()),
        AzureCredentials::SasToken(token) => {
            builder = builder.with_config(AzureConfigKey::SasKey, token.expose());
        }
        AzureCredentials::ClientSecret {
            tenant_id,
            client_id,
            client_secret,
        } => {
            builder = builder.with_client_secret_authorization(
                client_id,
                client_secret.expose(),
                tenant_id,
            );
        }
        AzureCredentials::DefaultChain(chain) => {
            for (key, value) in settings::<AzureConfigKey>(chain, "azure_", is_credential) {
                builder = builder.with_config(key, value);
            }
        }
    }
    let container = format!("/{}", place.container);
    let store = builder
        .with_account(&place.account)
        .with_container_name(&place.container)
        .with_endpoint(
            address
                .strip_suffix(&container)
                .unwrap_or(address)
                .to_owned(),
        )
        .with_client_options(shared.options)
        .with_retry(shared.retry)
        .with_http_connector(shared.connector)
        .build()?;
    Ok(Cloud::Azure {
        store,
        account: place.account.clone(),
    })
}

/// The chain's variables that `object_store` knows and that are about credentials.
fn settings<K: std::str::FromStr>(
    chain: &DefaultChain,
    begin: &str,
    wanted: fn(&str) -> bool,
) -> Vec<(K, String)> {
    let mut found = Vec::new();
    for (name, value) in &chain.variables {
        let name = name.to_ascii_lowercase();
        if name.starts_with(begin)
            && wanted(&name)
            && let Ok(key) = name.parse()
        {
            found.push((key, value.expose().to_owned()));
        }
    }
    found
}

/// Whether a variable is about who we are; where the store is comes from the definitions alone.
fn is_credential(name: &str) -> bool {
    const NAMES: [&str; 18] = [
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_web_identity_token_file",
        "aws_role_arn",
        "aws_role_session_name",
        "aws_endpoint_url_sts",
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
        "aws_container_authorization_token_file",
        "azure_client_id",
        "azure_client_secret",
        "azure_tenant_id",
        "azure_federated_token_file",
        "azure_authority_host",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "azure_msi_endpoint",
    ];
    NAMES.contains(&name)
}

/// The address of the bucket or container, without a slash at its end.
fn address(place: &Place) -> Result<String, OpenError> {
    let trimmed = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
    Ok(match place {
        Place::S3(place) => {
            let bucket = named("bucket", &place.bucket)?;
            let region = named("region", &place.region)?;
            let endpoint = match &place.endpoint {
                Some(endpoint) => trimmed(endpoint),
                None if region.starts_with("cn-") => {
                    format!("https://s3.{region}.amazonaws.com.cn")
                }
                None => format!("https://s3.{region}.amazonaws.com"),
            };
            match endpoint.split_once("://") {
                // A dot in the name would not fit the certificate.
                Some((scheme, rest)) if !place.path_style && !bucket.contains('.') => {
                    format!("{scheme}://{bucket}.{rest}")
                }
                _ => format!("{endpoint}/{bucket}"),
            }
        }
        Place::Gcs(place) => {
            let endpoint = place.endpoint.as_deref();
            let endpoint = trimmed(endpoint.unwrap_or("https://storage.googleapis.com"));
            format!("{endpoint}/{}", named("bucket", &place.bucket)?)
        }
        Place::Azure(place) => {
            let account = named("account", &place.account)?;
            let endpoint = match &place.endpoint {
                Some(endpoint) => trimmed(endpoint),
                None => format!("https://{account}.blob.core.windows.net"),
            };
            format!("{endpoint}/{}", named("container", &place.container)?)
        }
    })
}

/// Refuses a name that would change the address that it stands in.
fn named<'a>(what: &'static str, name: &'a str) -> Result<&'a str, OpenError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if begins_well && name.bytes().all(legal) {
        return Ok(name);
    }
    let why = "only letters, digits, `.`, `_` and `-` may be in it, a letter or digit first";
    Err(illegal(what, name, why.to_owned()))
}

fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn illegal(what: &'static str, value: &str, why: String) -> OpenError {
    OpenError::Illegal {
        what,
        value: value.to_owned(),
        why,
    }
}

fn generic(source: Box<dyn std::error::Error + Send + Sync>) -> object_store::Error {
    object_store::Error::Generic {
        store: "cloud",
        source,
    }
}
