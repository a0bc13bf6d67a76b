//! Elsewhere (macOS): the system's own `ps`, `sysctl` and `ioreg` tell.

use super::*;

/// Runs a program of the system and gives its stdout.
#[expect(clippy::disallowed_methods, reason = "this crate alone spawns")]
fn ask(program: &str, args: &[&str]) -> io::Result<String> {
    let answer = std::process::Command::new(program)
        .args(args)
        .env_clear()
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .stdin(std::process::Stdio::null())
        .output()?;
    String::from_utf8(answer.stdout).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

pub(crate) fn machine_id() -> String {
    ask("/usr/sbin/ioreg", &["-rd1", "-c", "IOPlatformExpertDevice"])
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.contains("IOPlatformUUID"))?;
            line.rsplit('"').nth(1).map(str::to_owned)
        })
        .unwrap_or_else(machine_id_by_hostname)
}

pub(crate) fn boot_id() -> Result<String, IdentityError> {
    ask("/usr/sbin/sysctl", &["-n", "kern.bootsessionuuid"])
        .map(|text| text.trim().to_owned())
        .map_err(|source| IdentityError::Fact {
            what: "the boot id",
            source,
        })
}

pub(crate) fn pid_namespace() -> Result<String, IdentityError> {
    Ok("none".to_owned())
}

pub(crate) fn stat(pid: u32) -> Result<Option<Stat>, IdentityError> {
    let pid = pid.to_string();
    let text =
        ask("/bin/ps", &["-o", "pid=,pgid=,stat=,lstart=", "-p", &pid]).map_err(|source| {
            IdentityError::Fact {
                what: "the state of a process",
                source,
            }
        })?;
    Ok(text.lines().find_map(parse_line).map(|(_, stat)| stat))
}

/// Every process that we can see.
pub(crate) fn all() -> io::Result<Vec<(u32, Stat)>> {
    let text = ask("/bin/ps", &["-axo", "pid=,pgid=,stat=,lstart="])?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// Reads `  812   812 S    Tue Mar  3 09:15:02 2026`.
fn parse_line(line: &str) -> Option<(u32, Stat)> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut fields = line.split_ascii_whitespace();
    let pid = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let is_dead = fields.next()?.starts_with('Z');
    let month = MONTHS.find(fields.nth(1)?)? as u64 / 3;
    let day: u64 = fields.next()?.parse().ok()?;
    let time = fields.next()?;
    let year: u64 = fields.next()?.parse().ok()?;
    let mut start_time = (year * 12 + month) * 31 + day;
    for part in time.split(':') {
        start_time = start_time * 60 + part.parse::<u64>().ok()?;
    }
    // Not seconds since anything: a number that is the same for the same date, and only for it.
    Some((
        pid,
        Stat {
            is_dead,
            group,
            start_time,
        },
    ))
}

/// There are no pidfds here: looks again and again.
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn on(_: &Identity) -> Self {
        Self
    }

    pub(crate) fn pause(&self, time: Duration, mut is_over: impl FnMut() -> bool) {
        wait::until(Instant::now() + time, Duration::from_millis(50), || {
            is_over().then_some(())
        });
    }
}
