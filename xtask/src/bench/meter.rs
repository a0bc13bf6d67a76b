//! Runs a program and measures it: wall time, its own processor time, its children's, its own memory.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::sh::Cmd;

/// What one run of a program took.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reading {
    /// Seconds by the clock.
    pub(super) wall: f64,
    /// Seconds of processor time, of the program alone.
    pub(super) own: f64,
    /// Seconds of processor time, of its children and theirs, as far as somebody waited for them.
    pub(super) children: f64,
    /// The most memory that the program alone held, in KiB.
    pub(super) peak: u64,
}

impl std::ops::AddAssign for Reading {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.own += other.own;
        self.children += other.children;
        self.peak = self.peak.max(other.peak);
    }
}

/// Runs a program to its end; fails with what it said unless it exits with 0.
///
/// The processor times are read after its end and before anybody waits for it: then `/proc/PID/stat` has
/// its own time and its children's apart, which `getrusage` does not. On a system without `/proc` they
/// are zero.
pub(super) fn measure(call: Cmd) -> Result<Reading> {
    let line = call.line();
    let mut command = call.into_inner();
    let log = tempfile::tempfile().context("no temporary file")?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);

    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let watch = Watch::start(&child);
    let pid = Pid::from_child(&child);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .context("cannot wait")?;
    let wall = started.elapsed().as_secs_f64();
    let (own, children) = processor_times(child.id()).unwrap_or_default();
    let peak = watch.stop();
    let status = child.wait().context("cannot wait")?;
    if !status.success() {
        bail!("`{line}` failed: {status}\n{}", said(log)?);
    }
    Ok(Reading {
        wall,
        own,
        children,
        peak,
    })
}

fn said(mut log: std::fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut text = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads a process's own processor time and that of its children, in seconds. Its own is that of its clock, exact to
/// far below the tick that `/proc/PID/stat` counts in, where most of a short program's time is lost.
fn processor_times(pid: u32) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = Cmd::new("getconf").arg("CLK_TCK").read().ok()?;
    let (own, children) = times_in(&stat, ticks.trim().parse().ok()?)?;
    let exact = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid.try_into().ok()?))
        .and_then(nix::time::clock_gettime)
        .ok()
        .map(|time| std::time::Duration::from(time).as_secs_f64());
    Some((exact.unwrap_or(own), children))
}

/// Reads the fields 14 to 17 of `/proc/PID/stat`; the name before them may hold anything.
fn times_in(stat: &str, ticks: u64) -> Option<(f64, f64)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let seconds = |index: usize| -> Option<f64> {
        Some(fields.get(index)?.parse::<u64>().ok()? as f64 / ticks as f64)
    };
    Some((seconds(11)? + seconds(12)?, seconds(13)? + seconds(14)?))
}

/// Reads the peak of a process's memory again and again; the peak only grows, so the last reading counts.
struct Watch {
    done: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    reader: std::thread::JoinHandle<()>,
}

impl Watch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a sampler waits for time to pass, not for a condition"
    )]
    fn start(child: &Child) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(AtomicU64::new(0));
        let file = format!("/proc/{}/status", child.id());
        let (is_done, seen) = (Arc::clone(&done), Arc::clone(&peak));
        let reader = std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                if let Some(peak) = std::fs::read_to_string(&file)
                    .ok()
                    .as_deref()
                    .and_then(peak_in)
                {
                    seen.fetch_max(peak, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { done, peak, reader }
    }

    fn stop(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        // A reader that panicked has still left what it saw.
        let _ = self.reader.join();
        self.peak.load(Ordering::Relaxed)
    }
}

fn peak_in(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_brackets_and_spaces() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 1000 200 20 0 1 0 9 1 1";
        assert_eq!(times_in(stat, 100), Some((2.0, 12.0)));
    }

    #[test]
    fn a_program_and_its_children_are_told_apart() {
        // The shell waits for the inner one, which does the work.
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let reading = measure(Cmd::new("sh").args(["-c", &format!("sh -c '{work}'; true")]))
            .expect("the shell is there");
        assert!(reading.wall > 0.0);
        if cfg!(target_os = "linux") {
            assert!(reading.children > reading.own, "{reading:?}");
            assert!(reading.peak > 0, "{reading:?}");
        }
    }

    #[test]
    fn a_failure_says_what_the_program_said() {
        let error = measure(Cmd::new("sh").args(["-c", "echo out of milk >&2; exit 3"]))
            .expect_err("it exits with 3");
        assert!(format!("{error:#}").contains("out of milk"), "{error:#}");
    }
}
