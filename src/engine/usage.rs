//! What this process has used and may use: processor time, memory and open files, as the operating system counts them.

mod memory;
mod open_files;

pub use memory::System;
pub use open_files::{allow_many_files, most_open_files};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Processor time of the whole process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A field of /proc/self/status in bytes; 0 where the system has no such file.
fn status_bytes(field: &str) -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number =
        line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Anonymous memory held now: what counts against a budget, since file pages can be dropped.
pub fn anonymous_bytes() -> u64 {
    status_bytes("RssAnon")
}

/// The largest resident size so far, mapped files included.
pub fn peak_resident_bytes() -> u64 {
    status_bytes("VmHWM")
}

/// The most threads that are ever started: four for each core that this process may use. More would only
/// wait for each other, and starting thousands takes longer than most runs.
pub fn most_threads() -> usize {
    4 * thread::available_parallelism().map_or(1, usize::from)
}

/// Whether this process was started with its hangup signal ignored, as `nohup` does.
pub fn ignores_hangup() -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first bit is that of signal 1, which is the hangup.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The machine's cores, whoever may use them, where the system tells.
pub fn machine_cores() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    Some(text.lines().filter(|line| line.starts_with("processor")).count()).filter(|&count| count > 0)
}

/// What kind of processor this is: two of one kind round alike.
pub fn processor_kind() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(':').nth(1));
    let model = model.map_or(std::env::consts::ARCH, str::trim);
    #[cfg(target_arch = "x86_64")]
    let vectors = match (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2")) {
        (true, _) => ", AVX-512",
        (_, true) => ", AVX2",
        _ => "",
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = "";
    format!("{model}{vectors}")
}

/// Time and memory of one command, from its start.
///
/// Linux keeps a high-water mark of the resident size but not of its anonymous part, so a thread
/// looks every ten milliseconds.
#[derive(Debug)]
pub struct Usage {
    started: Instant,
    cpu_at_start: f64,
    peak: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    watcher: Option<thread::JoinHandle<()>>,
}

impl Usage {
    /// Starts the clock.
    pub fn start() -> Self {
        let peak = Arc::new(AtomicU64::new(anonymous_bytes()));
        let done = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&peak), Arc::clone(&done));
        let watcher = thread::Builder::new().name("usage".into()).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                seen.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                thread::park_timeout(Duration::from_millis(10));
            }
        });
        Usage { started: Instant::now(), cpu_at_start: cpu_seconds(), peak, done, watcher: watcher.ok() }
    }

    /// Wall time since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Processor time since the start, all threads.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds() - self.cpu_at_start
    }

    /// The most anonymous memory that was seen.
    pub fn peak_anon_bytes(&self) -> u64 {
        self.peak.fetch_max(anonymous_bytes(), Ordering::Relaxed).max(anonymous_bytes())
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // A watcher that panicked has nothing left to tell.
            let _ = watcher.join();
        }
    }
}
