//! Waits for futures, and hears a request to stop meanwhile.

use crate::error::Error;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Says whether somebody asked to stop.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// How long a request to stop may go unheard.
const LOOK: Duration = Duration::from_millis(50);

/// Two threads move bytes; whoever needs them waits in a thread of its own.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        // Only the first provider of a process counts, whoever installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Builder::new_multi_thread().worker_threads(2).thread_name("tenfill-store").enable_all().build().ok()
    });
    made.as_ref().ok_or_else(|| Error::failed("no thread could be started to talk to the store"))
}

/// Starts a future.
pub(crate) fn start<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<JoinHandle<Result<T, Error>>, Error> {
    Ok(runtime()?.spawn(work))
}

/// Waits for what was started.
pub(crate) fn finish<T>(mut task: JoinHandle<Result<T, Error>>, stop: &Stop) -> Result<T, Error> {
    let runtime = runtime()?;
    loop {
        if stop() {
            task.abort();
            return Err(Error::stopped());
        }
        let looked = runtime.block_on(async { tokio::time::timeout(LOOK, &mut task).await });
        if let Ok(joined) = looked {
            return joined.unwrap_or_else(|_| Err(Error::failed("the work on the store has failed")));
        }
    }
}

/// Is done when somebody asks to stop.
pub(crate) async fn stopped(stop: Stop) {
    while !stop() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Starts a future and waits for it.
pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
    stop: &Stop,
) -> Result<T, Error> {
    finish(start(work)?, stop)
}
