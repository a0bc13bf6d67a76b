//! The configuration file of a served backend.

use crate::credential::Rights;
use crate::server::Limits;
use secrets::Source;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The configuration file, as it is written in TOML. It holds no secret: only where each comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// The store: a directory, or a bucket's address.
    pub store: Option<String>,
    /// Whether to listen beyond this machine without TLS, behind a proxy that has it.
    pub plain_http: bool,
    /// Whether `/metrics` needs no credential.
    pub open_metrics: bool,
    /// TLS.
    pub tls: Option<TlsConfig>,
    /// What one client may cost.
    pub limits: LimitsConfig,
    /// Who may come.
    #[serde(rename = "credential")]
    pub credentials: Vec<CredentialConfig>,
}

/// The two files of TLS; a relative path counts from the configuration's directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate with those that it is signed by, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

/// What one client may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// The biggest state, in MiB.
    pub state_mib: Option<u32>,
    /// Connections at once.
    pub connections: Option<u16>,
    /// For the head of a request, and for an idle connection, in seconds.
    pub head_seconds: Option<u16>,
    /// For a body that stands still, in seconds.
    pub idle_seconds: Option<u16>,
    /// For requests under way when the server is to end, in seconds.
    pub grace_seconds: Option<u16>,
}

/// A credential.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// The user's name of basic credentials.
    pub name: String,
    /// Where its password, or token, comes from.
    pub secret: Option<SourceConfig>,
    /// Or the SHA-256 of it.
    pub sha256: Option<String>,
    /// Paths below which it may read; `/` is everything.
    #[serde(default)]
    pub read: Vec<String>,
    /// Paths below which it may read and write.
    #[serde(default)]
    pub write: Vec<String>,
    /// Whether it may read `/metrics`.
    #[serde(default)]
    pub metrics: bool,
}

/// Where a secret comes from: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceConfig {
    /// A variable of the environment.
    Env(String),
    /// A file; a relative path counts from the configuration's directory.
    File(PathBuf),
    /// What a command prints.
    Command(Vec<String>),
}

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not what a configuration looks like.
    #[error("the configuration can't be read")]
    Toml(#[source] toml::de::Error),
    /// It opens the store to nobody.
    #[error("the configuration names no `[[credential]]`, so nobody could come")]
    NoCredential,
    /// A credential opens nothing.
    #[error("the credential `{name}` has neither `read` nor `write` nor `metrics`")]
    NoRights {
        /// Its name.
        name: String,
    },
    /// A credential has no secret, or two.
    #[error("the credential `{name}` needs `secret` or `sha256`, and not both")]
    Secret {
        /// Its name.
        name: String,
    },
    /// It would be spoken in the clear over a network.
    #[error(
        "`{listen}` is not this machine alone, and there is no `[tls]`: passwords and states would go over the network in the clear"
    )]
    InTheClear {
        /// The address.
        listen: SocketAddr,
    },
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Where it can't be read, or opens nothing.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(ConfigError::Toml)?;
        if config.credentials.is_empty() {
            return Err(ConfigError::NoCredential);
        }
        for credential in &config.credentials {
            let name = || credential.name.clone();
            if credential.secret.is_some() == credential.sha256.is_some() {
                return Err(ConfigError::Secret { name: name() });
            }
            if credential.rights() == Rights::default() {
                return Err(ConfigError::NoRights { name: name() });
            }
        }
        Ok(config)
    }

    /// Refuses to listen beyond this machine in the clear.
    ///
    /// # Errors
    /// [`ConfigError::InTheClear`].
    pub fn may_listen(&self, listen: SocketAddr) -> Result<(), ConfigError> {
        if listen.ip().is_loopback() || self.tls.is_some() || self.plain_http {
            Ok(())
        } else {
            Err(ConfigError::InTheClear { listen })
        }
    }
}

impl CredentialConfig {
    /// What it opens.
    pub fn rights(&self) -> Rights {
        Rights {
            read: self.read.clone(),
            write: self.write.clone(),
            metrics: self.metrics,
        }
    }
}

impl From<SourceConfig> for Source {
    fn from(source: SourceConfig) -> Self {
        match source {
            SourceConfig::Env(name) => Self::Env(name),
            SourceConfig::File(path) => Self::File(path),
            SourceConfig::Command(words) => Self::Command(words),
        }
    }
}

impl From<LimitsConfig> for Limits {
    fn from(config: LimitsConfig) -> Self {
        let default = Self::default();
        let seconds = |given: Option<u16>, default: Duration| {
            given.map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        Self {
            max_body: config
                .state_mib
                .map_or(default.max_body, |mib| u64::from(mib) * 1024 * 1024),
            max_connections: config
                .connections
                .map_or(default.max_connections, |n| usize::from(n.max(1))),
            head: seconds(config.head_seconds, default.head),
            idle: seconds(config.idle_seconds, default.idle),
            grace: seconds(config.grace_seconds, default.grace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_who_may_do_what() {
        let config = Config::parse(
            r#"
            listen = "0.0.0.0:8443"
            store = "/var/lib/states"
            [tls]
            certificate = "server.pem"
            key = "server-key.pem"
            [limits]
            state_mib = 64
            grace_seconds = 5
            [[credential]]
            name = "ci"
            secret = { env = "CI_TOKEN" }
            write = ["teams/a"]
            [[credential]]
            name = "prometheus"
            sha256 = "00"
            metrics = true
            "#,
        )
        .unwrap();
        assert_eq!(
            config.credentials[0].secret,
            Some(SourceConfig::Env("CI_TOKEN".into()))
        );
        assert!(config.credentials[0].rights().may_write("teams/a/x"));
        let limits = Limits::from(config.limits);
        assert_eq!(
            (limits.max_body, limits.grace),
            (64 << 20, Duration::from_secs(5))
        );
        assert_eq!(limits.max_connections, Limits::default().max_connections);
        assert!(config.may_listen("0.0.0.0:1".parse().unwrap()).is_ok());
    }

    #[test]
    fn what_opens_nothing_or_too_much_is_refused() {
        let credential =
            |more: &str| Config::parse(&format!("[[credential]]\nname = \"a\"\n{more}"));
        assert!(matches!(Config::parse(""), Err(ConfigError::NoCredential)));
        assert!(matches!(
            Config::parse("lisen = 1"),
            Err(ConfigError::Toml(_))
        ));
        assert!(matches!(
            credential("write = ['/']"),
            Err(ConfigError::Secret { .. })
        ));
        assert!(matches!(
            credential("write = ['/']\nsha256 = 'x'\nsecret = { env = 'X' }"),
            Err(ConfigError::Secret { .. })
        ));
        assert!(matches!(
            credential("sha256 = 'x'"),
            Err(ConfigError::NoRights { .. })
        ));
        let plain = credential("sha256 = 'x'\nread = ['/']").unwrap();
        assert!(plain.may_listen("127.0.0.1:1".parse().unwrap()).is_ok());
        assert!(plain.may_listen("[::1]:1".parse().unwrap()).is_ok());
        assert!(matches!(
            plain.may_listen("0.0.0.0:1".parse().unwrap()),
            Err(ConfigError::InTheClear { .. })
        ));
    }
}
