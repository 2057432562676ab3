//! How long a store is waited for, and how often it is asked again.

use object_store::client::ClientConfigKey;
use object_store::{BackoffConfig, RetryConfig};
use std::time::Duration;

/// Nothing from the server for so long ends a request.
const SILENCE: u64 = 30;
/// A whole request may take this many times as long.
const WHOLE: u64 = 20;
/// How often a request is made again.
const RETRIES: usize = 6;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Seconds without a byte after which a request is given up: `TENFILL_STORE_TIMEOUT`.
fn silence() -> u64 {
    number("TENFILL_STORE_TIMEOUT").filter(|&seconds| seconds > 0).unwrap_or(SILENCE)
}

/// How often a request is made again: `TENFILL_STORE_RETRIES`.
pub(crate) fn retries() -> usize {
    number("TENFILL_STORE_RETRIES").map_or(RETRIES, |retries| retries.min(100) as usize)
}

/// The pause before the attempt that follows `attempt`, from 0.
pub(crate) fn pause(attempt: usize) -> Duration {
    Duration::from_millis(100 << attempt.min(7))
}

pub(crate) fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: pause(0),
            max_backoff: Duration::from_secs(13),
            ..BackoffConfig::default()
        },
        max_retries: retries(),
        retry_timeout: Duration::from_secs(180),
    }
}

/// Settings of the client, for every kind of store.
pub(crate) fn client() -> [(ClientConfigKey, String); 3] {
    let silence = silence();
    [
        (ClientConfigKey::ReadTimeout, format!("{silence} seconds")),
        (ClientConfigKey::ConnectTimeout, format!("{} seconds", silence.min(10))),
        (ClientConfigKey::Timeout, format!("{} seconds", silence * WHOLE)),
    ]
}
