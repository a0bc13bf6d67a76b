//! The dns probe.

use std::net::{IpAddr, SocketAddr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

use crate::deadline::Deadline;
use crate::failure::{Came, chain};
use crate::probe::{DnsProbe, RecordKind};

/// Asks once.
pub(crate) fn ask(probe: &DnsProbe, deadline: Deadline) -> Result<(), Came> {
    let mut name = Name::from_utf8(&probe.name).map_err(|error| Came::Unaskable {
        reason: format!("`{}` is no DNS name: {error}", probe.name),
    })?;
    name.set_fqdn(true);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Came::Broken {
            reason: error.to_string(),
        })?;
    let answer = runtime.block_on(async {
        let resolver = resolver(probe.server, deadline)?;
        let left = deadline.left().unwrap_or_default();
        tokio::time::timeout(left, resolver.lookup(name, record_type(probe.kind)))
            .await
            .map_err(|_| Came::TimedOut {
                after: deadline.allowed(),
            })?
            .map_err(|error| came(&error, deadline))
    });
    // A query that is still under way must not hold the caller.
    runtime.shutdown_background();
    let got: Vec<String> = answer?
        .answers()
        .iter()
        .filter(|record| record.record_type() == record_type(probe.kind))
        .map(|record| value_of(&record.data))
        .collect();
    judge(probe, got)
}

fn judge(probe: &DnsProbe, got: Vec<String>) -> Result<(), Came> {
    if got.is_empty() {
        return Err(Came::NoRecord);
    }
    let known: Vec<String> = got.iter().map(|value| normal(probe.kind, value)).collect();
    let missing: Vec<String> = probe
        .expect
        .iter()
        .filter(|value| !known.contains(&normal(probe.kind, value)))
        .cloned()
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Came::Records { got, missing })
    }
}

/// A value in the one form in which two of them are compared.
fn normal(kind: RecordKind, value: &str) -> String {
    match kind {
        RecordKind::Txt => value.to_owned(),
        RecordKind::A | RecordKind::Aaaa => match value.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => value.to_owned(),
        },
        _ => value
            .split_whitespace()
            .map(|word| word.trim_end_matches('.').to_ascii_lowercase())
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn value_of(data: &RData) -> String {
    match data {
        RData::TXT(text) => text
            .txt_data
            .iter()
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect(),
        other => other.to_string(),
    }
}

fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Caa => RecordType::CAA,
        RecordKind::Cname => RecordType::CNAME,
        RecordKind::Mx => RecordType::MX,
        RecordKind::Ns => RecordType::NS,
        RecordKind::Ptr => RecordType::PTR,
        RecordKind::Srv => RecordType::SRV,
        RecordKind::Txt => RecordType::TXT,
    }
}

fn resolver(server: Option<SocketAddr>, deadline: Deadline) -> Result<TokioResolver, Came> {
    let unreadable = |error: NetError| Came::Broken {
        reason: format!("the system's resolver settings: {}", chain(&error)),
    };
    let mut builder = match server {
        None => TokioResolver::builder_tokio().map_err(unreadable)?,
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()]
                .into_iter()
                .map(|mut connection| {
                    connection.port = server.port();
                    connection
                })
                .collect();
            let named = NameServerConfig::new(server.ip(), true, connections);
            TokioResolver::builder_with_config(
                ResolverConfig::from_name_servers(vec![named]),
                TokioRuntimeProvider::default(),
            )
        }
    };
    let options = builder.options_mut();
    options.cache_size = 0;
    options.timeout = deadline.left().unwrap_or_default();
    if server.is_some() {
        options.use_hosts_file = ResolveHosts::Never;
        options.attempts = 1;
    }
    builder.build().map_err(unreadable)
}

fn came(error: &NetError, deadline: Deadline) -> Came {
    match error {
        NetError::Timeout => Came::TimedOut {
            after: deadline.allowed(),
        },
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => Came::NoSuchName,
            ResponseCode::NoError => Came::NoRecord,
            code => Came::DnsError {
                code: code.to_string(),
            },
        },
        NetError::Dns(DnsError::ResponseCode(code)) => Came::DnsError {
            code: code.to_string(),
        },
        NetError::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Came::Refused
        }
        error => Came::Broken {
            reason: chain(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: RecordKind, expect: &[&str], got: &[&str]) -> Result<(), Came> {
        let probe = DnsProbe {
            name: "x".into(),
            kind,
            expect: expect.iter().map(|value| (*value).to_owned()).collect(),
            server: None,
        };
        judge(
            &probe,
            got.iter().map(|value| (*value).to_owned()).collect(),
        )
    }

    #[test]
    fn every_expected_value_must_be_among_the_answers() {
        use RecordKind as K;
        for (kind, expect, got) in [
            (K::A, &[][..], &["1.2.3.4"][..]),
            (K::A, &["1.2.3.4"], &["9.9.9.9", "1.2.3.4"]),
            (K::Aaaa, &["2001:DB8:0:0::1"], &["2001:db8::1"]),
            (K::Cname, &["Edge.Example.org"], &["edge.example.org."]),
            (K::Mx, &["10 mail.example.org"], &["10 mail.example.org."]),
            (K::Txt, &["v=Spf1 -all"], &["v=Spf1 -all"]),
        ] {
            assert_eq!(judged(kind, expect, got), Ok(()), "{kind} {expect:?}");
        }
        assert_eq!(judged(K::A, &[], &[]), Err(Came::NoRecord));
        assert_eq!(
            judged(K::A, &["1.2.3.4", "5.6.7.8"], &["1.2.3.4"]),
            Err(Came::Records {
                got: vec!["1.2.3.4".into()],
                missing: vec!["5.6.7.8".into()]
            })
        );
        assert!(
            judged(K::Txt, &["V=spf1"], &["v=spf1"]).is_err(),
            "text keeps its case"
        );
    }
}
