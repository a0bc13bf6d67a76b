//! What can be asked, with every value in it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use process::Invocation;

/// One resolved, read-only question to the world.
#[derive(Debug, Clone)]
pub enum Probe {
    /// An HTTP request.
    Http(HttpProbe),
    /// A TCP connection.
    Tcp(TcpProbe),
    /// A DNS query.
    Dns(DnsProbe),
    /// A program that must exit with 0.
    Exec(Invocation),
}

impl Probe {
    /// The question in one line, fit for a terminal and a log: no header, password or argument's
    /// environment is in it.
    pub fn asked(&self) -> String {
        match self {
            Self::Http(probe) => format!("{} {}", probe.method, without_password(&probe.url)),
            Self::Tcp(probe) => format!("tcp {}", probe.address),
            Self::Dns(probe) => match probe.server {
                Some(server) => format!("dns {} {} at {server}", probe.kind, probe.name),
                None => format!("dns {} {}", probe.kind, probe.name),
            },
            Self::Exec(call) => {
                let mut words = vec![call.program.display().to_string()];
                words.extend(
                    call.args
                        .iter()
                        .map(|argument| argument.to_string_lossy().into_owned()),
                );
                format!("exec {}", words.join(" "))
            }
        }
    }
}

/// An address without the `user:password@` that it may hold.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// An HTTP request and the answer that is right.
#[derive(Clone)]
pub struct HttpProbe {
    /// The address, `http://` or `https://`.
    pub url: String,
    /// The method; both read only.
    pub method: HttpMethod,
    /// Headers to send; their values never show in a message.
    pub headers: Vec<(String, String)>,
    /// The statuses that are right; none named means 200 alone.
    pub status: Vec<u16>,
    /// What the first MiB of the body must hold.
    pub body_contains: Option<String>,
    /// Whether to follow redirects (10 at most). If not, the redirect is the answer.
    pub follow_redirects: bool,
    /// A PEM file whose certificates are trusted instead of the built-in (Mozilla) ones.
    pub ca_file: Option<PathBuf>,
    /// Proxies; a loopback address never goes through one.
    pub proxies: Proxies,
}

impl HttpProbe {
    /// A GET that wants 200, with nothing else asked.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            method: HttpMethod::Get,
            headers: Vec::new(),
            status: Vec::new(),
            body_contains: None,
            follow_redirects: false,
            ca_file: None,
            proxies: Proxies::default(),
        }
    }
}

impl fmt::Debug for HttpProbe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("HttpProbe")
            .field("url", &without_password(&self.url))
            .field("method", &self.method)
            .field("headers", &names)
            .field("status", &self.status)
            .field("body_contains", &self.body_contains)
            .field("follow_redirects", &self.follow_redirects)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

/// The methods that a probe may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
}

impl fmt::Display for HttpMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        })
    }
}

/// Proxies as the caller's `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` would name them; passed as
/// values.
#[derive(Clone, Default)]
pub struct Proxies {
    /// For `http://` addresses.
    pub http: Option<String>,
    /// For `https://` addresses.
    pub https: Option<String>,
    /// Hosts that are asked directly: `*`, a name (its subdomains too), or `.name`.
    pub no_proxy: Vec<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Proxies")
            .field("http", &self.http.as_deref().map(without_password))
            .field("https", &self.https.as_deref().map(without_password))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// A TCP connection that must be accepted.
#[derive(Debug, Clone)]
pub struct TcpProbe {
    /// `host:port`, `1.2.3.4:port` or `[v6]:port`.
    pub address: String,
}

/// A DNS query and the answer that is right.
#[derive(Debug, Clone)]
pub struct DnsProbe {
    /// The name; always taken as a full one, no search domain is tried.
    pub name: String,
    /// The record type.
    pub kind: RecordKind,
    /// Values that must all be among the answers; none named means that any answer is right.
    pub expect: Vec<String>,
    /// The server to ask; the system's when none is named.
    pub server: Option<SocketAddr>,
}

/// The DNS record types that a probe may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// Who may issue certificates.
    Caa,
    /// An alias.
    Cname,
    /// A mail server: `10 mail.example.org`.
    Mx,
    /// A name server.
    Ns,
    /// The name of an address.
    Ptr,
    /// A service: `priority weight port target`.
    Srv,
    /// Text; the strings of one record are joined.
    Txt,
}

impl RecordKind {
    /// Every type, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::A,
        Self::Aaaa,
        Self::Caa,
        Self::Cname,
        Self::Mx,
        Self::Ns,
        Self::Ptr,
        Self::Srv,
        Self::Txt,
    ];

    /// Its name as DNS writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Caa => "CAA",
            Self::Cname => "CNAME",
            Self::Mx => "MX",
            Self::Ns => "NS",
            Self::Ptr => "PTR",
            Self::Srv => "SRV",
            Self::Txt => "TXT",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A record type that no probe can ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no record type that can be asked for: A, AAAA, CAA, CNAME, MX, NS, PTR, SRV or TXT"
)]
pub struct UnknownRecordKind(pub String);

impl FromStr for RecordKind {
    type Err = UnknownRecordKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownRecordKind(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_never_shows_a_password() {
        for (url, shown) in [
            ("https://u:p@host:8443/x?y=1", "GET https://host:8443/x?y=1"),
            ("https://host/a@b", "GET https://host/a@b"),
            ("https://host?mail=a@b", "GET https://host?mail=a@b"),
            ("https://a@b@host", "GET https://host"),
            ("host", "GET host"),
        ] {
            assert_eq!(Probe::Http(HttpProbe::get(url)).asked(), shown);
        }
    }

    #[test]
    fn debug_shows_no_header_value_and_no_proxy_password() {
        let mut probe = HttpProbe::get("https://u:hunter2@host");
        probe.headers = vec![("authorization".into(), "Bearer hunter2".into())];
        probe.proxies.https = Some("http://p:hunter2@proxy:3128".into());
        let shown = format!("{probe:?} {:?}", probe.proxies);
        assert!(
            shown.contains("authorization") && shown.contains("proxy:3128"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_record_type_reads_in_any_case_and_an_unknown_one_is_named() {
        for kind in RecordKind::ALL {
            assert_eq!(kind.as_str().to_lowercase().parse(), Ok(kind));
        }
        let error = "AAA".parse::<RecordKind>().unwrap_err();
        assert!(error.to_string().contains("`AAA`"));
    }
}
