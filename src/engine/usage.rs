//! What this process has used: processor time and memory, as the operating system counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Processor time of the whole process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Processor time of the calling thread so far, in seconds.
pub fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
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

/// The machine's memory, where the system tells.
pub fn machine_bytes() -> Option<u64> {
    meminfo("MemTotal:")
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

/// Memory that could be used without swapping, where the system tells: of the machine, and of the
/// control group (a container, a batch job) that this process is in.
pub fn available_bytes() -> Option<u64> {
    match (meminfo("MemAvailable:"), group_limit_bytes()) {
        (Some(free), Some(limit)) => Some(free.min(limit)),
        (free, limit) => free.or(limit),
    }
}

/// The limit of this process's control group, of either version; none where there is no limit.
fn group_limit_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let limit = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // Inside a container the group's own folder may be what is mounted.
        [group.trim_end_matches('/'), ""].iter().find_map(|group| {
            std::fs::read_to_string(format!("{mount}{group}/{file}")).ok()?.trim().parse::<u64>().ok()
        })
    };
    groups.lines().filter_map(limit).min()
}

fn meminfo(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
