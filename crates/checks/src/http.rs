//! The http probe.

use std::io::{self, Read};
use std::net::IpAddr;

use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use crate::deadline::Deadline;
use crate::failure::{Came, chain, readable};
use crate::probe::{HttpMethod, HttpProbe, Proxies};

/// How much of a body is searched.
const BODY_LIMIT: usize = 1024 * 1024;
/// How much of a body is kept for the message.
const KEPT: usize = 1024;
/// Redirects that are followed when they are followed at all.
const REDIRECTS: u32 = 10;

/// Asks once.
pub(crate) fn ask(probe: &HttpProbe, deadline: Deadline) -> Result<(), Came> {
    let uri: Uri = probe.url.parse().map_err(|error| Came::Unaskable {
        reason: format!("the address can't be read: {error}"),
    })?;
    let agent = agent(probe, &uri, deadline)?;
    let mut request = match probe.method {
        HttpMethod::Get => agent.get(&probe.url),
        HttpMethod::Head => agent.head(&probe.url),
    };
    for (name, value) in &probe.headers {
        request = request.header(name.as_str(), value.as_str());
    }
    let mut response = request
        .call()
        .map_err(|error| came(error, &uri, deadline))?;
    let status = response.status().as_u16();
    let wanted: &[u16] = if probe.status.is_empty() {
        &[200]
    } else {
        &probe.status
    };
    let mut reader = response.body_mut().as_reader();
    if !wanted.contains(&status) {
        // The body only serves the message: one that does not come is no second failure.
        let body = read_until(&mut reader, KEPT, |_| false).unwrap_or_else(|(body, _)| body);
        return Err(Came::Status {
            got: status,
            wanted: wanted.to_vec(),
            first_bytes: readable(&body),
        });
    }
    let Some(text) = probe.body_contains.as_deref() else {
        return Ok(());
    };
    match read_until(&mut reader, BODY_LIMIT, |body| holds(body, text)) {
        Ok(body) if holds(&body, text) => Ok(()),
        Ok(body) => Err(Came::Body {
            status,
            wanted: text.to_owned(),
            first_bytes: readable(&body[..body.len().min(KEPT)]),
        }),
        Err((_, error)) => Err(came(unwrapped(error), &uri, deadline)),
    }
}

/// Reads to the end, the limit, or until `enough` is content; what was read comes back either way.
fn read_until(
    reader: &mut impl Read,
    limit: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
    let mut body = Vec::new();
    let mut piece = [0_u8; 8192];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(body),
            Ok(n) => body.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((body, error)),
        }
        if body.len() >= limit || enough(&body) {
            return Ok(body);
        }
    }
}

fn holds(body: &[u8], text: &str) -> bool {
    text.is_empty()
        || body
            .windows(text.len())
            .any(|window| window == text.as_bytes())
}

fn agent(probe: &HttpProbe, uri: &Uri, deadline: Deadline) -> Result<Agent, Came> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(deadline.left().unwrap_or_default()))
        .max_redirects(if probe.follow_redirects { REDIRECTS } else { 0 })
        .user_agent(concat!("rebuild/", env!("CARGO_PKG_VERSION")))
        .proxy(proxy(&probe.proxies, uri)?);
    if !probe.follow_redirects {
        config = config.max_redirects_will_error(false);
    }
    if let Some(path) = &probe.ca_file {
        let unaskable = |reason: String| Came::Unaskable {
            reason: format!("certificate file `{}`: {reason}", path.display()),
        };
        let pem = std::fs::read(path).map_err(|error| unaskable(error.to_string()))?;
        let mut certificates: Vec<Certificate<'static>> = Vec::new();
        for item in parse_pem(&pem) {
            if let PemItem::Certificate(certificate) =
                item.map_err(|error| unaskable(error.to_string()))?
            {
                certificates.push(certificate);
            }
        }
        if certificates.is_empty() {
            return Err(unaskable("holds no certificate".to_owned()));
        }
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&certificates))
            .build();
        config = config.tls_config(tls);
    }
    Ok(config.build().new_agent())
}

/// The proxy for this address, if it goes through one. Always set, so that none is taken from the
/// environment.
fn proxy(proxies: &Proxies, uri: &Uri) -> Result<Option<Proxy>, Came> {
    let named = match uri.scheme_str() {
        Some("https") => &proxies.https,
        _ => &proxies.http,
    };
    let host = bare_host(uri);
    let Some(address) = named.as_deref().filter(|address| !address.is_empty()) else {
        return Ok(None);
    };
    if is_loopback(&host) || proxies.no_proxy.iter().any(|entry| exempts(entry, &host)) {
        return Ok(None);
    }
    // The address may hold a password, so it is not in the message.
    Proxy::new(address).map(Some).map_err(|_| Came::Unaskable {
        reason: "the proxy's address can't be read".to_owned(),
    })
}

fn bare_host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase()
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Whether an entry of `NO_PROXY` names this host, as curl reads it.
fn exempts(entry: &str, host: &str) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    let entry = entry.strip_prefix("*.").unwrap_or(&entry);
    let entry = entry.trim_start_matches('.');
    match entry {
        "" => false,
        "*" => true,
        name => {
            host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.'))
        }
    }
}

/// An error of a body's reader, as the client's own error where it is one.
fn unwrapped(error: io::Error) -> ureq::Error {
    match error.downcast::<ureq::Error>() {
        Ok(inner) => inner,
        Err(error) => ureq::Error::Io(error),
    }
}

fn came(error: ureq::Error, uri: &Uri, deadline: Deadline) -> Came {
    use ureq::Error as E;
    match error {
        E::Timeout(_) => Came::TimedOut {
            after: deadline.allowed(),
        },
        E::HostNotFound => Came::Unresolved {
            host: bare_host(uri),
            reason: "not found".to_owned(),
        },
        E::Io(error) => came_of_io(&error, uri, deadline),
        E::Rustls(error) => Came::Tls {
            reason: error.to_string(),
        },
        E::Tls(reason) => Came::Tls {
            reason: reason.to_owned(),
        },
        E::BadUri(_) | E::Http(_) | E::InvalidProxyUrl | E::Pem(_) => Came::Unaskable {
            reason: error.to_string(),
        },
        error => Came::Broken {
            reason: chain(&error),
        },
    }
}

fn came_of_io(error: &io::Error, uri: &Uri, deadline: Deadline) -> Came {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Came::Refused,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Came::TimedOut {
            after: deadline.allowed(),
        },
        // What getaddrinfo says has no system error number.
        _ if error.raw_os_error().is_none() && error.to_string().contains("lookup address") => {
            Came::Unresolved {
                host: bare_host(uri),
                reason: error.to_string(),
            }
        }
        // The TLS library's errors come as invalid data.
        io::ErrorKind::InvalidData if uri.scheme_str() == Some("https") => Came::Tls {
            reason: error.to_string(),
        },
        _ => Came::Broken {
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_exempt_from_the_proxy_as_curl_reads_it() {
        for (entry, host, exempt) in [
            ("*", "anything", true),
            ("example.org", "example.org", true),
            ("example.org", "a.example.org", true),
            (".example.org", "a.example.org", true),
            ("*.example.org", "a.example.org", true),
            ("example.org", "badexample.org", false),
            (" EXAMPLE.org ", "example.org", true),
            ("", "example.org", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.11", false),
        ] {
            assert_eq!(exempts(entry, host), exempt, "{entry} for {host}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_and_never_for_loopback() {
        let proxies = Proxies {
            http: Some("http://plain:1".into()),
            https: Some("http://secure:2".into()),
            no_proxy: vec!["inside.example".into()],
        };
        for (url, host) in [
            ("http://example.org/", Some("plain")),
            ("https://example.org/", Some("secure")),
            ("https://a.inside.example/", None),
            ("http://127.0.0.1:8080/", None),
            ("http://[::1]:8080/", None),
            ("http://LOCALHOST/", None),
        ] {
            let uri: Uri = url.parse().unwrap();
            let chosen = proxy(&proxies, &uri).unwrap();
            assert_eq!(chosen.as_ref().map(Proxy::host), host, "{url}");
        }
    }

    #[test]
    fn a_wrong_proxy_is_refused_without_showing_it() {
        let proxies = Proxies {
            http: Some("ftp://u:hunter2@x y".into()),
            ..Proxies::default()
        };
        let came = proxy(&proxies, &"http://example.org/".parse().unwrap()).unwrap_err();
        assert!(!came.to_string().contains("hunter2"), "{came}");
        assert!(!came.may_pass_later());
    }
}
