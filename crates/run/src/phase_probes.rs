//! A phase's checks and residue probes: from definitions to questions, asked from the unpacked bundle.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use checks::{DnsProbe, HttpProbe, Probe, Proxies, Residue, TcpProbe};
use phase_engine::{ExitCode, Failure, PhaseId};
use platform::{CheckDef, CheckKind, Expr, PhaseDef, ResidueDef};
use process::Invocation;
use serde_json::Value;
use tofu::{Slot, StepKey};

use crate::bench::Bench;
use crate::library::Source;
use crate::resolve;
use crate::scope::CallScope;
use crate::stop::StopLevel;

/// How long preflight and a re-verify try a check; `within` is for after an apply.
const STANDING_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries of a residue probe.
const RESIDUE_EVERY: Duration = Duration::from_secs(1);

impl Bench<'_> {
    /// Asks one check of a phase until it passes, or its time is over. `just_applied` gives it all of `within`.
    pub(crate) fn ask(
        &self,
        source: &Source,
        phase: &PhaseDef,
        check: &CheckDef,
        values: &BTreeMap<String, Value>,
        just_applied: bool,
    ) -> Result<(), Failure> {
        let scope = self.scope(values);
        let what = format!("check `{}` of phase `{}`", check.name, phase.id);
        let probe = self.probe(source, &phase.id, &what, check, &scope)?;
        let within = if just_applied {
            check.within
        } else {
            check.within.min(STANDING_WITHIN)
        };
        let stop = || self.stop.level() >= StopLevel::Gentle;
        checks::await_ok(
            &probe,
            within,
            check.every,
            &stop,
            self.machine.spawner.as_ref(),
        )
        .map(|_| ())
        .map_err(|failed| {
            let exit = if stop() {
                ExitCode::Interrupted
            } else {
                ExitCode::Failed
            };
            let mut failure = Failure::new(exit, format!("{what} {}", failed))
                .because(self.masked(&failed.last.to_string()));
            let mut cause = std::error::Error::source(&failed.last);
            while let Some(error) = cause {
                failure = failure.because(self.masked(&error.to_string()));
                cause = error.source();
            }
            failure
        })
    }

    /// Asks one residue probe whether anything is left of a phase.
    pub(crate) fn ask_residue(
        &self,
        source: &Source,
        phase: &PhaseId,
        probe: &ResidueDef,
        values: &BTreeMap<String, Value>,
        within: Duration,
    ) -> Result<Residue, Failure> {
        let scope = self.scope(values);
        let what = format!("residue probe `{}` of phase `{phase}`", probe.name);
        let argv = resolve::argv(&what, &probe.argv, &scope)?;
        let env = self.env_of(&what, &probe.env, &scope)?;
        let call = self.program(source, phase, &what, &argv, env)?;
        let stop = || self.stop.level() >= StopLevel::Gentle;
        Ok(checks::residue(
            &call,
            within,
            RESIDUE_EVERY,
            &stop,
            self.machine.spawner.as_ref(),
        ))
    }

    /// Hides secrets in a text that goes to a person, a log or a record.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.masker.mask(text).into_owned()
    }

    fn probe(
        &self,
        source: &Source,
        phase: &PhaseId,
        what: &str,
        check: &CheckDef,
        scope: &CallScope<'_>,
    ) -> Result<Probe, Failure> {
        let text = |expr: &Expr| {
            expr.resolve(scope)
                .map(platform::Resolved::into_text)
                .map_err(|error| {
                    Failure::failed(format!("{what} has no value to ask for"))
                        .because(error.to_string())
                })
        };
        let bad = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("{what} can't be asked")).because(error.to_string())
        };
        Ok(match &check.kind {
            CheckKind::Http {
                url,
                status,
                body_contains,
            } => {
                let mut probe = HttpProbe::get(text(url)?);
                probe.status = vec![*status];
                probe.body_contains = body_contains.as_ref().map(&text).transpose()?;
                probe.ca_file = self.env.get(OsStr::new("SSL_CERT_FILE")).map(PathBuf::from);
                probe.proxies = self.proxies();
                Probe::Http(probe)
            }
            CheckKind::Tcp { address } => Probe::Tcp(TcpProbe {
                address: text(address)?,
            }),
            CheckKind::Dns {
                name,
                record,
                expect,
                server,
            } => Probe::Dns(DnsProbe {
                name: text(name)?,
                kind: record.parse().map_err(|error| bad(&error))?,
                expect: expect.iter().map(&text).collect::<Result<_, _>>()?,
                server: match server {
                    Some(server) => Some(name_server(&text(server)?).map_err(|error| bad(&error))?),
                    None => None,
                },
            }),
            CheckKind::Exec { argv, env } => {
                let argv = resolve::argv(what, argv, scope)?;
                let env = self.env_of(what, env, scope)?;
                Probe::Exec(self.program(source, phase, what, &argv, env)?)
            }
        })
    }

    /// A program of the platform, in a tree of the unpacked bundle that belongs to the phase's probes.
    fn program(
        &self,
        source: &Source,
        phase: &PhaseId,
        what: &str,
        argv: &[String],
        env: crate::environment::Environment,
    ) -> Result<Invocation, Failure> {
        let failed =
            |error: &(dyn std::error::Error + 'static)| Failure::of(ExitCode::Failed, error);
        let Some((program, args)) = argv.split_first() else {
            return Err(Failure::failed(format!("{what} names no program")));
        };
        let key: StepKey = format!("{phase}/_probes")
            .parse()
            .map_err(|error| failed(&error))?;
        let dir = self.workshop.step(&key);
        self.place(&dir, Slot::Tree, source, &[])?;
        let mut call = Invocation::new(program, dir.tree(Slot::Tree)).args(args);
        call.env = env;
        Ok(call)
    }

    fn proxies(&self) -> Proxies {
        let find = |upper: &str, lower: &str| {
            [lower, upper]
                .iter()
                .find_map(|name| self.env.get(OsStr::new(name)))
                .and_then(|value| value.to_str())
                .map(str::to_owned)
        };
        Proxies {
            http: find("HTTP_PROXY", "http_proxy"),
            https: find("HTTPS_PROXY", "https_proxy"),
            no_proxy: find("NO_PROXY", "no_proxy")
                .map(|list| {
                    list.split(',')
                        .map(|host| host.trim().to_owned())
                        .filter(|host| !host.is_empty())
                        .collect()
                })
                .unwrap_or_default(),
        }
    }
}

/// `ADDRESS` or `ADDRESS:PORT`; without a port it is 53.
fn name_server(text: &str) -> Result<std::net::SocketAddr, std::net::AddrParseError> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => text
            .trim_matches(['[', ']'])
            .parse()
            .map(|address| std::net::SocketAddr::new(address, 53)),
    }
}

#[cfg(test)]
mod tests {
    use super::name_server;

    #[test]
    fn a_name_server_may_leave_its_port_out() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5353", "127.0.0.1:5353"),
            ("::1", "[::1]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(name_server(text).unwrap().to_string(), expected);
        }
        assert!(name_server("resolver.example").is_err());
    }
}
