//! One target, within bounds of time, number and memory.

use crate::mutate::changed;
use crate::targets::Target;
use anyhow::{Context as _, Result};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No input may keep the processor busy for longer: whoever else wants it at the same time is no fault of the input.
const BUSIEST: Duration = Duration::from_secs(10);
/// No input may take longer, whatever it waits for.
const LONGEST: Duration = Duration::from_secs(300);
/// How much bigger the process may become, in KiB.
const MOST_GROWTH: u64 = 512 * 1024;
/// How often memory is looked at.
const LOOK: u64 = 256;

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// After this time.
    pub time: Duration,
    /// After so many inputs.
    pub n_inputs: u64,
    /// From what the changes are drawn.
    pub seed: u64,
}

/// What a run has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Inputs of the corpus.
    pub n_corpus: u64,
    /// Inputs that were tried, the corpus included.
    pub n_inputs: u64,
    /// The most memory that the process held, in KiB; `None` where the system does not tell.
    pub peak_kib: Option<u64>,
}

/// An input that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{target}: {what} (seed {seed}, {} bytes: {:?})", input.len(), String::from_utf8_lossy(&input[..input.len().min(300)]))]
pub struct Fault {
    /// The target.
    pub target: String,
    /// What was wrong.
    pub what: String,
    /// The seed of the run.
    pub seed: u64,
    /// The input.
    pub input: Vec<u8>,
}

/// Tries the target's corpus, then changes of it.
///
/// # Errors
/// [`Fault`] for the first input that fails; where the corpus can't be read, or is empty.
pub fn run(target: &Target, corpus: &Path, bounds: Bounds) -> Result<Report> {
    let corpus = inputs(&corpus.join(target.name))?;
    let mut random = StdRng::seed_from_u64(bounds.seed);
    let (began, size) = (Instant::now(), resident_kib());
    let mut n_inputs = 0;
    for input in &corpus {
        tried(target, input, bounds.seed)?;
        n_inputs += 1;
    }
    while n_inputs < bounds.n_inputs && began.elapsed() < bounds.time {
        let input = changed(&corpus, &mut random);
        tried(target, &input, bounds.seed)?;
        n_inputs += 1;
        if n_inputs % LOOK == 0
            && let (Some(before), Some(now)) = (size, resident_kib())
            && now.saturating_sub(before) > MOST_GROWTH
        {
            return Err(fault(
                target,
                format!("the process grew from {before} to {now} KiB"),
                &input,
                bounds.seed,
            )
            .into());
        }
    }
    Ok(Report {
        n_corpus: corpus.len() as u64,
        n_inputs,
        peak_kib: kib("VmHWM:"),
    })
}

fn tried(target: &Target, input: &[u8], seed: u64) -> Result<(), Fault> {
    let (began, busy) = (Instant::now(), busy());
    let done = catch_unwind(AssertUnwindSafe(|| (target.call)(input)));
    let (took, busy) = (began.elapsed(), self::busy().saturating_sub(busy));
    match done {
        Ok(()) if took <= LONGEST && busy <= BUSIEST => Ok(()),
        Ok(()) => Err(fault(
            target,
            format!("it took {took:?}, and {busy:?} of the processor"),
            input,
            seed,
        )),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let text = text.unwrap_or_else(|| "a panic".to_owned());
            Err(fault(target, text, input, seed))
        }
    }
}

/// How long this thread has kept the processor busy.
fn busy() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

fn fault(target: &Target, what: String, input: &[u8], seed: u64) -> Fault {
    Fault {
        target: target.name.to_owned(),
        what,
        seed,
        input: input.to_vec(),
    }
}

fn inputs(directory: &Path) -> Result<Vec<Vec<u8>>> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(directory)?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let paths = list().with_context(|| format!("cannot list `{}`", directory.display()))?;
    anyhow::ensure!(
        !paths.is_empty(),
        "there is no input in `{}`",
        directory.display()
    );
    paths
        .iter()
        .map(|path| {
            std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
        })
        .collect()
}

/// What the process holds in memory; `None` where the system does not tell.
fn resident_kib() -> Option<u64> {
    kib("VmRSS:")
}

fn kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
