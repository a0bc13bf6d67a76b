//! TLS: a certificate chain and its key from two PEM files.

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why TLS can't be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or isn't PEM.
    #[error("cannot read the {what} in `{}`", path.display())]
    Pem {
        /// `certificate` or `key`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("there is no certificate in `{}`", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key can't be used, or not with one another.
    #[error("the certificate in `{}` and the key in `{}` can't be used", certificate.display(), key.display())]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// TLS with the certificate chain of one PEM file and the key of another.
///
/// # Errors
/// Where they can't be read, or don't fit.
pub fn tls_of_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { what, path, source }
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(failed("certificate", certificate))?;
    if chain.is_empty() {
        return Err(TlsError::Empty {
            path: certificate.to_owned(),
        });
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(failed("key", key))?;
    let unusable = |source| TlsError::Unusable {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
