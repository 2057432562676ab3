//! Work in a thread of its own. The thread that called holds no lock while it waits; it looks for signals,
//! and runs what Python wants to be told: lines of the log, progress.

use crate::errors;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tenfill::LogLine;
use tenfill::cli::Observe;
use tenfill_engine::control::{Control, Progress, Unit};

/// How long a signal may go unnoticed.
const LOOK: Duration = Duration::from_millis(10);
/// How often progress is told.
const TELL_MILLIS: u64 = 100;
/// As much stack as the main thread of the program has.
const STACK: usize = 8 << 20;

/// The process that has started threads; 0 for none.
static WORKED_IN: AtomicU32 = AtomicU32::new(0);

/// An error in a process that was forked from one in which threads were started: it has none of them.
pub fn check_fork() -> PyResult<()> {
    let here = std::process::id();
    match WORKED_IN.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Err(other) if other != here => Err(errors::forked()),
        _ => Ok(()),
    }
}

/// The threads that answer questions; one pool for all models.
pub fn pool() -> Result<&'static rayon::ThreadPool, tenfill::Error> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().build().ok());
    pool.as_ref().ok_or_else(|| tenfill_engine::Error::request("threads cannot be started"))
}

/// What the thread that works tells the one that waits.
enum Event<T> {
    Line(Box<LogLine>, Sender<bool>),
    Stage(String, &'static str, u64),
    Advance(u64, String),
    Say(String),
    Detail(String),
    Done(T),
}

/// What Python hears of the work.
#[derive(Default)]
pub struct Listeners {
    /// Called with each line of the log, as JSON; true stops the run.
    pub line: Option<Py<PyAny>>,
    /// Called with what happens: `stage`, `advance`, `say` or `detail`, and what belongs to it.
    pub progress: Option<Py<PyAny>>,
}

struct Teller<T> {
    events: Sender<Event<T>>,
    begun: Instant,
    /// When progress was told last, in milliseconds.
    told: AtomicU64,
}

impl<T> Teller<T> {
    fn tell(&self, event: Event<T>) {
        // Whoever waited may have left: then there is nobody to be told.
        let _ = self.events.send(event);
    }
}

impl<T: Send> Progress for Teller<T> {
    fn stage(&self, name: &str, unit: Unit, total: u64) {
        let unit = match unit {
            Unit::Bytes => "bytes",
            Unit::Rows => "rows",
            Unit::Iterations => "iterations",
        };
        self.tell(Event::Stage(name.into(), unit, total));
    }

    fn advance(&self, done: u64, note: &dyn fmt::Display) {
        let now = self.begun.elapsed().as_millis() as u64;
        let told = self.told.load(Ordering::Relaxed);
        let swap = |told| self.told.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed);
        if now >= told + TELL_MILLIS && swap(told).is_ok() {
            self.tell(Event::Advance(done, note.to_string()));
        }
    }

    fn say(&self, message: &str) {
        self.tell(Event::Say(message.into()));
    }

    fn detail(&self, message: &str) {
        self.tell(Event::Detail(message.into()));
    }
}

/// Runs `work` and waits for it. A signal that Python makes an exception of asks the work to stop, and is
/// raised when it has ended; a second one is raised at once, and the work ends by itself. The flag that
/// comes with the result says whether there was one; `keep` hands the result back in spite of it.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    listeners: &Listeners,
    keep: bool,
    work: impl FnOnce(Control, Observe) -> T + Send + 'static,
) -> PyResult<T> {
    check_fork()?;
    let (events, heard) = unbounded();
    let stop = Arc::new(AtomicBool::new(false));
    let told = AtomicU64::new(0);
    let teller = Arc::new(Teller { events: events.clone(), begun: Instant::now(), told });
    let control = Control::new(Arc::clone(&stop), Arc::<Teller<_>>::clone(&teller));
    let observe = observer(listeners.line.is_some(), events.clone());
    let body = move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(control, observe)));
        let _ = events.send(Event::Done(done.map_err(|_| errors::last_panic())));
    };
    let thread = std::thread::Builder::new().name("tenfill".into()).stack_size(STACK).spawn(body);
    thread.map_err(|error| errors::panicked(format!("no thread could be started: {error}")))?;
    drop(teller);
    let done = wait(py, listeners, keep, &heard, &stop)?;
    done.map_err(errors::panicked)
}

/// An observer that asks the thread which waits, and waits itself for the answer.
fn observer<T: Send + 'static>(wanted: bool, events: Sender<Event<T>>) -> Observe {
    if !wanted {
        return Box::new(tenfill_engine::run::unobserved);
    }
    Box::new(move |line| {
        let (answer, answered) = bounded(1);
        let asked = events.send(Event::Line(Box::new(line.clone()), answer));
        match asked.ok().and_then(|()| answered.recv().ok()) {
            Some(false) => ControlFlow::Continue(()),
            // Who has left does not want to go on.
            Some(true) | None => ControlFlow::Break(()),
        }
    })
}

fn wait<T: Send>(
    py: Python<'_>,
    listeners: &Listeners,
    keep: bool,
    heard: &Receiver<Event<T>>,
    stop: &AtomicBool,
) -> PyResult<T> {
    let mut error: Option<PyErr> = None;
    loop {
        let event = py.detach(|| heard.recv_timeout(LOOK));
        let told = match event {
            Ok(Event::Done(done)) => {
                return match error {
                    Some(error) if !(keep && error.is_instance_of::<PyKeyboardInterrupt>(py)) => Err(error),
                    _ => Ok(done),
                };
            }
            Ok(event) => tell(py, listeners, event),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(error.unwrap_or_else(|| errors::panicked("the work has vanished".into())));
            }
        };
        for new in [told, py.check_signals()].into_iter().filter_map(Result::err) {
            stop.store(true, Ordering::Relaxed);
            let again = error.is_some() && new.is_instance_of::<PyKeyboardInterrupt>(py);
            if again {
                return Err(new);
            }
            error.get_or_insert(new);
        }
    }
}

/// Tells Python what has happened.
fn tell<T>(py: Python<'_>, listeners: &Listeners, event: Event<T>) -> PyResult<()> {
    if let Event::Line(line, answer) = event {
        let Some(listener) = &listeners.line else { return Ok(()) };
        let text = serde_json::to_string(&line).unwrap_or_default();
        let stop = listener.call1(py, (text,)).and_then(|stop| stop.is_truthy(py));
        // A line that could not be told ends the run, which is answered before the exception goes on.
        let _ = answer.send(*stop.as_ref().unwrap_or(&true));
        return stop.map(|_| ());
    }
    let Some(listener) = &listeners.progress else { return Ok(()) };
    match event {
        Event::Stage(name, unit, total) => listener.call1(py, ("stage", name, unit, total)),
        Event::Advance(done, note) => listener.call1(py, ("advance", note, "", done)),
        Event::Say(text) => listener.call1(py, ("say", text, "", 0)),
        Event::Detail(text) => listener.call1(py, ("detail", text, "", 0)),
        Event::Line(..) | Event::Done(_) => return Ok(()),
    }?;
    Ok(())
}
