//! Mutates, reads, and watches.

use crate::allocations::take_largest;
use crate::mutate::{Random, mutate};
use crate::targets::Target;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a target has been through.
#[derive(Debug, Default)]
pub struct Summary {
    pub cases: u64,
    /// Cases that could be read in spite of the change.
    pub read: u64,
    /// The most that was allocated at once beyond the size of the file.
    pub largest: usize,
    pub slowest: Duration,
}

/// Where cases lie: in memory, where there is such a place.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a scratch directory")
}

/// Runs cases until `goes_on` says no; the error names the case.
pub fn drive(target: &Target, seed: u64, mut goes_on: impl FnMut(u64) -> bool) -> Result<Summary, String> {
    let place = scratch();
    let seeds = (target.seeds)(place.path());
    let path = place.path().join(target.path);
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(|error| error.to_string())?;
    let mut random = Random(seed);
    let mut summary = Summary::default();
    for (number, whole) in seeds.iter().enumerate() {
        std::fs::write(&path, whole).map_err(|error| error.to_string())?;
        if !(target.read)(&path, whole) {
            return Err(format!("{}: seed {number} cannot be read", target.name));
        }
    }
    while goes_on(summary.cases) {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut random, &mut bytes);
        if random.below(4) > 0 {
            (target.mend)(&mut bytes);
        }
        std::fs::write(&path, &bytes).map_err(|error| error.to_string())?;
        take_largest();
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (target.read)(&path, &bytes)));
        let (largest, time) = (take_largest(), begun.elapsed());
        let beyond = largest.saturating_sub(bytes.len());
        let wrong = match result {
            Err(_) => Some("a panic".to_string()),
            Ok(_) if beyond > target.allowance => {
                Some(format!("{largest} bytes were allocated at once for a file of {}", bytes.len()))
            }
            Ok(_) => None,
        };
        if let Some(wrong) = wrong {
            let kept = keep(target, summary.cases, &bytes);
            return Err(format!("{}: case {} of seed {seed}: {wrong}; {kept}", target.name, summary.cases));
        }
        summary.cases += 1;
        summary.read += u64::from(result.unwrap_or(false));
        summary.largest = summary.largest.max(beyond);
        summary.slowest = summary.slowest.max(time);
    }
    Ok(summary)
}

fn keep(target: &Target, case: u64, bytes: &[u8]) -> String {
    let path: PathBuf = std::env::temp_dir().join(format!("tenfill-fuzz-{}-{case}", target.name));
    match std::fs::write(&path, bytes) {
        Ok(()) => format!("the file is kept as {}", path.display()),
        Err(error) => format!("the file could not be kept: {error}"),
    }
}
