//! How requests reach a cloud: the HTTP service that `object_store` is given, over `ureq`.
//!
//! `object_store` would bring a second HTTP client and a second TLS with it. This one reads nothing
//! from the environment (no proxy, no certificates), follows no redirect and unpacks no body.
//!
//! A request blocks the thread that asks. That is wanted: every operation of a store has a thread
//! and a small runtime of its own, see [`wait_for`]. So what became of an operation's requests can be
//! left in a variable of the thread, the [`Trail`], which says more than `object_store`'s errors do.

use crate::config::Config;
use crate::error::{Fault, OpenError};
use http_body_util::BodyExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// The largest body that is read. A state is some megabytes; a wrong server may send without end.
pub(crate) const MAX_BODY: u64 = 2 << 30;
/// The longest part of a server's message that is kept.
const MAX_MESSAGE: usize = 300;
/// The time for a metadata service, which is on this machine or nowhere.
const METADATA: Duration = Duration::from_secs(3);

/// What became of the requests of one operation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trail {
    /// How the last request ended; `None` is well, or that there was none.
    pub(crate) last: Option<Outcome>,
    /// Whether a request before the last may have landed, although it failed.
    pub(crate) was_unsure: bool,
}

/// How a request ended that did not end well.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// An answer that is not 2xx.
    Answered(Answer),
    /// No answer.
    Failed {
        /// Who was asked.
        host: String,
        /// What happened.
        fault: Fault,
    },
}

/// An answer that is not 2xx.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Who answered.
    pub(crate) host: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The cloud's word for it, such as `NoSuchKey`; empty where there is none.
    pub(crate) code: String,
    /// The cloud's sentence for it.
    pub(crate) message: String,
}

impl Answer {
    /// Status, code and message in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.status.to_string();
        for part in [&self.code, &self.message] {
            if !part.is_empty() {
                line = format!("{line} {part}");
            }
        }
        line
    }
}

thread_local! {
    static TRAIL: RefCell<Trail> = RefCell::default();
}

/// Runs an operation to its end on this thread; gives what became of its requests beside it.
pub(crate) fn wait_for<T>(operation: impl Future<Output = T>) -> Result<(T, Trail), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Fault::Unexpected {
            answer: format!("no runtime: {error}"),
        })?;
    TRAIL.take();
    let result = runtime.block_on(operation);
    Ok((result, TRAIL.take()))
}

fn note(outcome: Option<Outcome>) {
    TRAIL.with_borrow_mut(|trail| {
        let unsure = match &trail.last {
            Some(Outcome::Answered(answer)) => answer.status >= 500,
            Some(Outcome::Failed { fault, .. }) => {
                matches!(fault, Fault::TimedOut { .. } | Fault::BrokenOff { .. })
            }
            None => false,
        };
        trail.was_unsure |= unsure;
        trail.last = outcome;
    });
}

/// Makes the clients of one store.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    agents: Agents,
    /// Whether the store itself is reached by `http://`.
    plain_http: bool,
    request: Duration,
}

#[derive(Debug, Clone)]
struct Agents {
    store: Agent,
    metadata: Agent,
}

impl Connector {
    /// Prepares TLS, proxy and time-outs.
    pub(crate) fn new(config: &Config, plain_http: bool) -> Result<Self, OpenError> {
        let roots = match &config.ca_file {
            Some(file) => RootCerts::Specific(Arc::new(certificates(file)?)),
            None => RootCerts::WebPki,
        };
        let proxy = match &config.proxy {
            Some(address) => Some(ureq::Proxy::new(address).map_err(|_| OpenError::Illegal {
                what: "proxy",
                value: address.clone(),
                why: "it must be `http://host:port`".to_owned(),
            })?),
            None => None,
        };
        let base = || {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent("rebuild")
                .accept_encoding("identity")
                .max_idle_age(Duration::from_secs(5))
                .tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
        };
        let store = base()
            .https_only(!plain_http)
            .proxy(proxy)
            .timeout_resolve(Some(config.patience.connect))
            .timeout_connect(Some(config.patience.connect))
            .timeout_global(Some(config.patience.request))
            .build();
        let metadata = base().proxy(None).timeout_global(Some(METADATA)).build();
        Ok(Self {
            agents: Agents {
                store: store.new_agent(),
                metadata: metadata.new_agent(),
            },
            plain_http,
            request: config.patience.request,
        })
    }

    /// The service that speaks to the store.
    pub(crate) fn service(&self) -> Service {
        Service {
            agent: self.agents.store.clone(),
            within: self.request,
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // `object_store` asks for HTTP where the store does not only for metadata services.
        let http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let metadata = !self.plain_http && http.as_deref() == Some("true");
        Ok(HttpClient::new(if metadata {
            Service {
                agent: self.agents.metadata.clone(),
                within: METADATA,
            }
        } else {
            self.service()
        }))
    }
}

fn certificates(file: &std::path::Path) -> Result<Vec<Certificate<'static>>, OpenError> {
    let fault = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::CaFile {
        file: file.display().to_string(),
        source,
    };
    let pem = std::fs::read(file).map_err(|error| fault(error.into()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| fault(error.into()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(fault("there is no PEM certificate in it".into()));
    }
    Ok(found)
}

/// The HTTP service.
#[derive(Debug)]
pub(crate) struct Service {
    agent: Agent,
    within: Duration,
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let host = parts.uri.host().unwrap_or_default().to_owned();
        let place = place_of(&parts.uri);
        let body = body.collect().await?.to_bytes();
        let sends_nothing = body.is_empty()
            && matches!(
                parts.method,
                http::Method::GET | http::Method::HEAD | http::Method::DELETE
            );
        let answered = if sends_nothing {
            self.agent.run(http::Request::from_parts(parts, ()))
        } else {
            self.agent
                .run(http::Request::from_parts(parts, body.as_ref()))
        };
        let read = answered.and_then(|response| {
            let (parts, mut body) = response.into_parts();
            let bytes = body.with_config().limit(MAX_BODY).read_to_vec()?;
            Ok((parts, bytes))
        });
        match read {
            Ok((parts, bytes)) => {
                let answer = (!parts.status.is_success()).then(|| answer(&host, &parts, &bytes));
                note(answer.map(Outcome::Answered));
                Ok(HttpResponse::from_parts(parts, bytes.into()))
            }
            Err(error) => {
                let (kind, fault) = self.judged(&place, &error);
                note(Some(Outcome::Failed { host, fault }));
                Err(HttpError::new(kind, error))
            }
        }
    }
}

impl Service {
    /// What a failure means, and whether a write may be tried again after it.
    fn judged(&self, host: &str, error: &ureq::Error) -> (HttpErrorKind, Fault) {
        let host = host.to_owned();
        let name = host.split(':').next().unwrap_or_default().to_owned();
        let why = error.to_string();
        // What rustls says of bytes that are no TLS record.
        let is_plain = why.contains("InvalidContentType");
        let why = if is_plain {
            "it does not speak TLS; an endpoint without it begins with `http://`".to_owned()
        } else {
            why
        };
        match error {
            ureq::Error::HostNotFound => {
                (HttpErrorKind::Connect, Fault::UnknownHost { host: name })
            }
            ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
                (HttpErrorKind::Connect, Fault::NoConnection { host, why })
            }
            ureq::Error::Timeout(_) => {
                let within = self.within;
                (HttpErrorKind::Timeout, Fault::TimedOut { host, within })
            }
            ureq::Error::ConnectionFailed | ureq::Error::ConnectProxyFailed(_) => {
                (HttpErrorKind::Connect, Fault::NoConnection { host, why })
            }
            ureq::Error::Io(io) if why.contains("lookup address") || is_lookup(io) => {
                (HttpErrorKind::Connect, Fault::UnknownHost { host: name })
            }
            _ if is_plain => (HttpErrorKind::Unknown, Fault::NoConnection { host, why }),
            ureq::Error::Io(io) => match io.kind() {
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::AddrNotAvailable => {
                    (HttpErrorKind::Connect, Fault::NoConnection { host, why })
                }
                ErrorKind::TimedOut => {
                    let within = self.within;
                    (HttpErrorKind::Timeout, Fault::TimedOut { host, within })
                }
                // What TLS has against the other side is the same at the next try.
                ErrorKind::InvalidData => {
                    (HttpErrorKind::Unknown, Fault::NoConnection { host, why })
                }
                _ => (HttpErrorKind::Interrupted, Fault::BrokenOff { host, why }),
            },
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::RequireHttpsOnly(_) => {
                (HttpErrorKind::Unknown, Fault::NoConnection { host, why })
            }
            _ => (HttpErrorKind::Interrupted, Fault::BrokenOff { host, why }),
        }
    }
}

/// The host of an address, with its port where one is said.
fn place_of(uri: &http::Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether an error is the resolver's.
fn is_lookup(error: &std::io::Error) -> bool {
    error.to_string().contains("name resolution")
}

/// Reads the error document, whose form the three clouds share.
fn answer(host: &str, parts: &http::response::Parts, body: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(body);
    let header = parts.headers.get("x-ms-error-code");
    let code = element(&text, "Code").or_else(|| {
        let value = header?.to_str().ok()?;
        Some(value.to_owned())
    });
    Answer {
        host: host.to_owned(),
        status: parts.status.as_u16(),
        code: code.unwrap_or_default(),
        message: element(&text, "Message").unwrap_or_default(),
    }
}

/// The text of the first `<name>` in `xml`, on one line and not too long.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().take(MAX_MESSAGE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_with_its_port() {
        let place = |uri: &'static str| place_of(&http::Uri::from_static(uri));
        assert_eq!(place("https://127.0.0.1:9000/states/a"), "127.0.0.1:9000");
        assert_eq!(place("http://[::1]:9000/"), "[::1]:9000");
        assert_eq!(place("https://s3.eu-1.example/"), "s3.eu-1.example");
    }

    #[test]
    fn code_and_message_are_read_from_every_clouds_error_document() {
        let s3 = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The key\ndoes not exist.</Message></Error>";
        assert_eq!(element(s3, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(
            element(s3, "Message").as_deref(),
            Some("The key does not exist.")
        );
        assert_eq!(element("<html>404</html>", "Code"), None);
        assert_eq!(element("<Code>never ended", "Code"), None);
        let long = format!("<Message>{}</Message>", "x".repeat(5000));
        assert_eq!(element(&long, "Message").map(|text| text.len()), Some(300));
    }
}
