//! One try of one host.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use process::{CollectError, How, Invocation, Spawner, collect};

use crate::config::Route;
use crate::ladder::{Outcome, Rung};
use crate::remote;

/// What a try needs.
pub(crate) struct Try<'a> {
    pub(crate) spawner: &'a dyn Spawner,
    /// The ssh client.
    pub(crate) ssh: &'a Path,
    /// Where it runs.
    pub(crate) cwd: &'a Path,
    /// Its configuration, as a name in that directory.
    pub(crate) config: &'a str,
    pub(crate) routes: &'a [Route],
    pub(crate) port: u16,
    /// Where the host says that its Python is.
    pub(crate) python: Option<&'a str>,
    /// The most for a connection; the script has three times as long.
    pub(crate) patience: Duration,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// The way that led to the top, and the Python found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Top {
    pub(crate) route: Route,
    pub(crate) python: String,
}

impl Try<'_> {
    /// Tries every way: direct ones all at once by port and banner, and the first that answers by the client.
    pub(crate) fn run(&self) -> Outcome<Top> {
        let direct: Vec<&Route> = self.routes.iter().filter(|route| route.is_direct).collect();
        if !direct.is_empty() {
            return match first_to_answer(&direct, self.port, self.patience, self.stop) {
                Ok(route) => self.by_client(route),
                Err((rung, answer)) => Outcome::NotYet { rung, answer },
            };
        }
        let mut furthest: Option<(Rung, String)> = None;
        for route in self.routes {
            match self.by_client(route) {
                Outcome::NotYet { rung, answer } => {
                    if furthest.as_ref().is_none_or(|(before, _)| *before < rung) {
                        furthest = Some((rung, answer));
                    }
                }
                decided => return decided,
            }
        }
        let (rung, answer) = furthest.unwrap_or((Rung::Port, "there is no way to it".to_owned()));
        Outcome::NotYet { rung, answer }
    }

    fn by_client(&self, route: &Route) -> Outcome<Top> {
        let call = Invocation::new(self.ssh, self.cwd)
            // By its bare name: the client passes it on for a jump host without quotes.
            .arg("-F")
            .arg(self.config)
            .args(["-n", "-T", &route.alias])
            .arg(format!(
                "exec sh -c '{}'",
                remote::script(self.python).replace('\'', r"'\''")
            ))
            // The client finds itself for a jump host by its own path; what it starts needs a shell.
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C");
        let limit = self.patience * 3;
        let ended = collect(self.spawner, &call, &How::reader(), limit, &mut || {
            (self.stop)()
        });
        let outcome = match ended {
            Ok(ended) => remote::read(
                ended.exit,
                &String::from_utf8_lossy(&ended.stdout),
                &String::from_utf8_lossy(&ended.stderr),
            ),
            Err(error) if error.is_missing_program() => Outcome::Never {
                rung: Rung::Login,
                answer: format!(
                    "there is no `{}`; install OpenSSH's client",
                    self.ssh.display()
                ),
            },
            Err(CollectError::TimedOut { .. }) => Outcome::NotYet {
                rung: Rung::Login,
                answer: format!("no answer within {} s", limit.as_secs_f32()),
            },
            Err(error) => Outcome::NotYet {
                rung: Rung::Login,
                answer: error.to_string(),
            },
        };
        match outcome {
            Outcome::Top(python) => Outcome::Top(Top {
                route: route.clone(),
                python,
            }),
            Outcome::NotYet { rung, answer } => Outcome::NotYet { rung, answer },
            Outcome::Never { rung, answer } => Outcome::Never { rung, answer },
        }
    }
}

/// Knocks at every address at once and returns the first that greets as an SSH server does.
fn first_to_answer<'a>(
    routes: &[&'a Route],
    port: u16,
    patience: Duration,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<&'a Route, (Rung, String)> {
    const STEP: Duration = Duration::from_millis(100);
    let (told, hears) = mpsc::channel();
    for (index, route) in routes.iter().enumerate() {
        let told = told.clone();
        let address = route.address.to_string();
        // Left alone when another was faster; it ends by its own patience.
        std::thread::spawn(move || told.send((index, knock(&address, port, patience))));
    }
    drop(told);
    let mut furthest: Option<(Rung, String)> = None;
    loop {
        let (index, answer) = match hears.recv_timeout(STEP) {
            Ok(heard) => heard,
            // Who knocks at a door that swallows everything ends by its own patience, and nobody waits for that.
            Err(RecvTimeoutError::Timeout) if stop() => break,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match answer {
            Ok(()) => return Ok(routes[index]),
            Err((rung, answer)) => {
                let answer = format!("{} port {port}: {answer}", routes[index].address);
                if furthest.as_ref().is_none_or(|(before, _)| *before < rung) {
                    furthest = Some((rung, answer));
                }
            }
        }
    }
    Err(furthest.unwrap_or((Rung::Port, "it has no address".to_owned())))
}

fn knock(address: &str, port: u16, patience: Duration) -> Result<(), (Rung, String)> {
    let end = Instant::now() + patience;
    let plain = |error: std::io::Error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("no answer within {} s", patience.as_secs_f32())
        }
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    };
    let places: Vec<SocketAddr> = (address, port)
        .to_socket_addrs()
        .map_err(|error| (Rung::Port, plain(error)))?
        .collect();
    let mut last = (Rung::Port, "the name has no address".to_owned());
    for place in places {
        let left = end
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&place, left) {
            Err(error) => last = (Rung::Port, plain(error)),
            Ok(stream) => match greeted(stream, end) {
                Ok(()) => return Ok(()),
                Err(error) => last = (Rung::Banner, plain(error)),
            },
        }
    }
    Err(last)
}

/// Reads to the line `SSH-2.0-…`; a server may say other lines before it.
fn greeted(mut stream: TcpStream, end: Instant) -> std::io::Result<()> {
    const MOST: usize = 16 * 1024;
    let mut said = Vec::new();
    let mut piece = [0; 256];
    while said.len() < MOST {
        let left = end
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let n = stream.read(&mut piece)?;
        said.extend_from_slice(&piece[..n]);
        if said
            .split_inclusive(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"SSH-") && line.ends_with(b"\n"))
        {
            return Ok(());
        }
        if n == 0 || Instant::now() >= end {
            break;
        }
    }
    Err(std::io::Error::other(
        "something listens, and does not greet as an SSH server",
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A door that swallows everything, as behind a firewall that drops packets: nobody takes the connections, and no more
    /// are queued.
    #[test]
    fn a_wait_at_a_door_that_swallows_everything_ends_when_it_is_stopped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&place, Duration::from_millis(300)) {
            queued.push(stream);
            assert!(queued.len() < 100_000, "it never swallows");
        }
        let route = Route {
            alias: "web1".to_owned(),
            address: "127.0.0.1".parse().unwrap(),
            is_direct: true,
        };
        let knocked = |patience, stop: &(dyn Fn() -> bool + Sync)| {
            first_to_answer(&[&route], place.port(), patience, stop).map(drop)
        };
        let (rung, answer) = knocked(Duration::from_millis(300), &|| false).unwrap_err();
        assert_eq!(rung, Rung::Port);
        assert!(answer.ends_with("no answer within 0.3 s"), "{answer}");
        // Far longer than a test may take.
        assert!(knocked(Duration::from_secs(36_000), &|| true).is_err());
    }
}
