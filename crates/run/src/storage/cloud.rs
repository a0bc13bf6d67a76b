//! From `[store]` to a store: paths become this machine's, and credentials come from the target alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cloud_store::{
    Azure, AzureCredentials, CloudStore, Config, DefaultChain, Gcs, GcsCredentials, Place, S3,
    S3Credentials,
};
use phase_engine::{ExitCode, Failure};
use platform::{
    AzureCredentialsDef, CloudDef, CloudPlace, Expr, GcsCredentialsDef, StoreDef, Target,
};
use secrets::Secret;
use store::{LocalStore, Store};

use crate::api::Machine;
use crate::environment::Environment;
use crate::error::unusable;
use crate::resolve;
use crate::scope::{CallScope, OutputBook};
use crate::secret_book::SecretBook;

/// What is needed to open a store that a target names.
pub(crate) struct Opener<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) target: &'a Target,
    /// The platform's directory.
    pub(crate) root: &'a Path,
    pub(crate) secrets: &'a SecretBook,
}

impl Opener<'_> {
    /// Opens a store; `default` is its directory where it is a local one that names none. Nothing is asked of it yet.
    ///
    /// # Errors
    /// A value is none, a credential has no value or not the cloud's form.
    pub(crate) fn open(&self, def: &StoreDef, default: &Path) -> Result<Arc<dyn Store>, Failure> {
        self.opened(def, default).map(store::watched)
    }

    fn opened(&self, def: &StoreDef, default: &Path) -> Result<Arc<dyn Store>, Failure> {
        match def {
            StoreDef::Local { dir: None } => Ok(Arc::new(LocalStore::open(default))),
            StoreDef::Local { dir: Some(dir) } => Ok(Arc::new(LocalStore::open(self.path(dir)))),
            StoreDef::Cloud(def) => {
                let config = self.config(def)?;
                let store = CloudStore::open(&config).map_err(|error| {
                    unusable(&error).hint(format!(
                        "mend `[store]` of targets/{}.toml; nothing was touched",
                        self.target.name
                    ))
                })?;
                Ok(Arc::new(store))
            }
        }
    }

    fn path(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            Some(rest) => self.machine.home.join(rest),
            None => self.root.join(text),
        }
    }

    fn config(&self, def: &CloudDef) -> Result<Config, Failure> {
        let endpoint = def.endpoint.clone();
        let place = match &def.place {
            CloudPlace::S3 {
                bucket,
                region,
                path_style,
                credentials,
            } => Place::S3(S3 {
                bucket: bucket.clone(),
                region: region.clone(),
                endpoint,
                path_style: *path_style,
                credentials: match credentials {
                    Some(keys) => S3Credentials::Keys {
                        access_key_id: self.text("access_key_id", &keys.access_key_id)?,
                        secret_access_key: self
                            .secret("secret_access_key", &keys.secret_access_key)?,
                        session_token: match &keys.session_token {
                            Some(token) => Some(self.secret("session_token", token)?),
                            None => None,
                        },
                    },
                    None => S3Credentials::DefaultChain(self.chain(&["AWS_"])?),
                },
            }),
            CloudPlace::Gcs {
                bucket,
                credentials,
            } => Place::Gcs(Gcs {
                bucket: bucket.clone(),
                endpoint,
                credentials: match credentials {
                    GcsCredentialsDef::ServiceAccountKey(expr) => {
                        GcsCredentials::ServiceAccountKey(self.secret("service_account_key", expr)?)
                    }
                    GcsCredentialsDef::AccessToken(expr) => {
                        GcsCredentials::AccessToken(self.secret("access_token", expr)?)
                    }
                    GcsCredentialsDef::Anonymous => GcsCredentials::Anonymous,
                    GcsCredentialsDef::Chain => {
                        GcsCredentials::DefaultChain(self.chain(&["GOOGLE_"])?)
                    }
                },
            }),
            CloudPlace::Azure {
                account,
                container,
                credentials,
            } => Place::Azure(Azure {
                account: account.clone(),
                container: container.clone(),
                endpoint,
                credentials: match credentials {
                    AzureCredentialsDef::AccessKey(expr) => {
                        AzureCredentials::AccessKey(self.secret("access_key", expr)?)
                    }
                    AzureCredentialsDef::SasToken(expr) => {
                        AzureCredentials::SasToken(self.secret("sas_token", expr)?)
                    }
                    AzureCredentialsDef::ClientSecret {
                        tenant_id,
                        client_id,
                        client_secret,
                    } => AzureCredentials::ClientSecret {
                        tenant_id: self.text("tenant_id", tenant_id)?,
                        client_id: self.text("client_id", client_id)?,
                        client_secret: self.secret("client_secret", client_secret)?,
                    },
                    AzureCredentialsDef::Chain => {
                        AzureCredentials::DefaultChain(self.chain(&["AZURE_"])?)
                    }
                },
            }),
        };
        let mut config = Config::new(place, def.prefix.clone());
        config.ca_file = def.ca_file.as_deref().map(|file| self.path(file));
        config.proxy.clone_from(&def.proxy);
        config.plain_http = def.plain_http;
        if let Some(timeout) = def.timeout {
            config.patience.request = timeout;
            config.patience.connect = config.patience.connect.min(timeout);
        }
        Ok(config)
    }

    fn text(&self, what: &str, expr: &Expr) -> Result<String, Failure> {
        let outputs = OutputBook::default();
        let scope = self.scope(&outputs);
        expr.resolve(&scope)
            .map(platform::Resolved::into_text)
            .map_err(|error| {
                Failure::new(
                    ExitCode::Unusable,
                    format!(
                        "`{what}` of the store of target `{}` has no value",
                        self.target.name
                    ),
                )
                .because(error.to_string())
            })
    }

    fn secret(&self, what: &str, expr: &Expr) -> Result<Secret, Failure> {
        self.text(what, expr).map(Secret::new)
    }

    /// The cloud's own chain: of variables it sees those that the target's `[env]` names, and no others.
    fn chain(&self, beginnings: &[&str]) -> Result<DefaultChain, Failure> {
        let named: BTreeMap<_, _> = self
            .target
            .env
            .iter()
            .filter(|(name, _)| beginnings.iter().any(|begin| name.starts_with(begin)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let outputs = OutputBook::default();
        let what = format!("the store of target `{}`", self.target.name);
        let env = resolve::env(
            &what,
            &Environment::new(),
            &[&named],
            &self.machine.env,
            &self.scope(&outputs),
        )?;
        let variables = env.into_iter().filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                Secret::new(value.into_string().ok()?),
            ))
        });
        Ok(DefaultChain {
            variables: variables.collect(),
        })
    }

    fn scope<'s>(&'s self, outputs: &'s OutputBook) -> CallScope<'s> {
        CallScope {
            values: &self.target.values,
            secrets: self.secrets,
            outputs,
        }
    }
}

#[cfg(test)]
#[path = "cloud_tests.rs"]
mod tests;
