//! What may differ between one start of a run and the next, without changing its result.

use crate::error::Result;
use crate::team::Team;
use std::time::Duration;

/// How often a checkpoint is written: after so many iterations or so much time, whichever comes
/// first; at the end in any case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Every {
    /// Iterations; 0 for never.
    pub iterations: usize,
    /// Time. Where it is 0, they are written wherever there may be one, within sweeps and epochs too, and waited for.
    pub time: Duration,
}

impl Default for Every {
    fn default() -> Self {
        Every { iterations: 10, time: Duration::from_secs(300) }
    }
}

impl Every {
    /// From `10`, `5m` or `10,5m`; `0` for at the end only, `0s` for wherever there may be one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut every = Every::default();
        for part in text.split(',') {
            if part.trim() == "0s" {
                every.time = Duration::ZERO;
            } else if let Some(seconds) = crate::units::parse_seconds(part) {
                every.time = Duration::from_secs_f64(seconds.min(1e9));
            } else {
                every.iterations = part
                    .trim()
                    .parse()
                    .map_err(|_| format!("'{part}' is neither iterations (10) nor a time (5m)"))?;
            }
        }
        if every.iterations == 0 {
            every.time = Duration::MAX;
        }
        Ok(every)
    }
}

/// What may differ between one start of a run and the next, without changing its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Memory to keep to.
    pub memory: u64,
    /// Threads.
    pub threads: usize,
    /// Checkpoints.
    pub every: Every,
    /// The processes that do it together.
    pub team: Team,
}

impl Limits {
    /// What is usual for a team: each process gets as many threads as cores were set aside for it, or its
    /// share of the machine's where none were.
    pub fn of(team: Team) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let bound = crate::usage::machine_cores().is_some_and(|all| cores < all);
        let threads = if bound { cores } else { (cores / team.on_this_host()).max(1) };
        let memory = crate::budget::Budget::default_bytes();
        Limits { memory, threads, every: Every::default(), team }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::of(Team::alone())
    }
}
