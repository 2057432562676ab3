//! The processes of an MPI job. The only file that knows MPI.
#![allow(unsafe_code)]

use super::transport::{Combine, Expected, Kind, Transport};
use mpi::ffi;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Words of one collective call: its count is a C int.
const MOST_WORDS: usize = 1 << 24;

/// All processes of the job.
pub(super) struct World {
    process: usize,
    size: usize,
    host: String,
    /// Every call of MPI is made with this locked: one thread at a time, as was asked for at the start.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sent: VecDeque<Message>,
    expected: HashMap<u64, Message>,
    next: u64,
}

/// A message under way. Its words are MPI's until the request is complete.
struct Message {
    words: Vec<u64>,
    request: ffi::MPI_Request,
}

// SAFETY: a request is a handle that any thread may wait for; calls are one at a time by the lock.
unsafe impl Send for Message {}

impl World {
    /// Joins the job that this process was started in.
    pub(super) fn join() -> Result<Self, String> {
        let Some((universe, threading)) = mpi::initialize_with_threading(mpi::Threading::Serialized) else {
            return Err("MPI is initialised already".into());
        };
        if threading < mpi::Threading::Serialized {
            return Err(
                "this MPI allows calls from the first thread only: use one that was built with threads"
                    .into(),
            );
        }
        use mpi::traits::Communicator;
        let world = universe.world();
        let (process, size) = (world.rank() as usize, world.size() as usize);
        // `finish` ends MPI, on the way out of the program and not where this goes out of scope.
        std::mem::forget(universe);
        let host = mpi::environment::processor_name().unwrap_or_else(|_| "an unknown host".into());
        Ok(World { process, size, host, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reduce(&self, words: &mut [u64], kind: ffi::MPI_Datatype, operation: ffi::MPI_Op) {
        let _calls = self.state();
        for to in words.chunks_mut(MOST_WORDS) {
            let from = to.to_vec();
            // SAFETY: both are borrowed for the call, of the same length, and their words are eight
            // bytes as those of `kind` are.
            check(unsafe {
                ffi::MPI_Allreduce(
                    from.as_ptr().cast(),
                    to.as_mut_ptr().cast(),
                    to.len() as c_int,
                    kind,
                    operation,
                    ffi::RSMPI_COMM_WORLD,
                )
            });
        }
    }
}

/// MPI ends the job at an error of its own; this is for one that was told to return.
fn check(code: c_int) {
    assert_eq!(code, 0, "a call of MPI failed with code {code}");
}

impl Message {
    /// Waits until it has gone or come.
    fn wait(mut self) -> Vec<u64> {
        // SAFETY: the request is one that MPI gave, and is waited for once: `self` is used up.
        check(unsafe { ffi::MPI_Wait(&mut self.request, ffi::RSMPI_STATUS_IGNORE) });
        self.words
    }
}

impl Transport for World {
    fn process(&self) -> usize {
        self.process
    }

    fn size(&self) -> usize {
        self.size
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn send(&self, to: usize, kind: Kind, words: Vec<u64>) {
        let mut state = self.state();
        // SAFETY: RSMPI_REQUEST_NULL is a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: the words lie on the heap, are kept in `sent` unchanged and not moved until the request
        // is complete; a message has fewer words than a C int can count (they are cut into tiles).
        check(unsafe {
            ffi::MPI_Isend(
                words.as_ptr().cast(),
                words.len() as c_int,
                ffi::RSMPI_UINT64_T,
                to as c_int,
                kind as c_int,
                ffi::RSMPI_COMM_WORLD,
                &mut request,
            )
        });
        state.sent.push_back(Message { words, request });
    }

    fn settle(&self, most: usize) {
        let mut state = self.state();
        while state.sent.len() > most {
            if let Some(oldest) = state.sent.pop_front() {
                oldest.wait();
            }
        }
    }

    fn expect(&self, from: usize, kind: Kind, length: usize) -> Expected {
        let mut state = self.state();
        let mut words = vec![0; length];
        // SAFETY: as in `send`; the words are kept in `expected` until the request is complete.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: likewise.
        check(unsafe {
            ffi::MPI_Irecv(
                words.as_mut_ptr().cast(),
                length as c_int,
                ffi::RSMPI_UINT64_T,
                from as c_int,
                kind as c_int,
                ffi::RSMPI_COMM_WORLD,
                &mut request,
            )
        });
        state.next += 1;
        let number = state.next;
        state.expected.insert(number, Message { words, request });
        Expected(number)
    }

    fn take(&self, expected: Expected) -> Vec<u64> {
        let mut state = self.state();
        state.expected.remove(&expected.0).map_or_else(Vec::new, Message::wait)
    }

    fn broadcast(&self, root: usize, words: &mut [u64]) {
        let _calls = self.state();
        for words in words.chunks_mut(MOST_WORDS) {
            // SAFETY: the words are borrowed for the call.
            check(unsafe {
                ffi::MPI_Bcast(
                    words.as_mut_ptr().cast(),
                    words.len() as c_int,
                    ffi::RSMPI_UINT64_T,
                    root as c_int,
                    ffi::RSMPI_COMM_WORLD,
                )
            });
        }
    }

    fn combine(&self, words: &mut [u64], how: Combine) {
        // SAFETY: constants of the library.
        let (kind, operation) = unsafe {
            let operation = match how {
                Combine::Sum => ffi::RSMPI_SUM,
                Combine::Min => ffi::RSMPI_MIN,
                Combine::Or => ffi::RSMPI_BOR,
            };
            (ffi::RSMPI_UINT64_T, operation)
        };
        self.reduce(words, kind, operation);
    }

    fn sum_in_any_order(&self, numbers: &mut [f64]) {
        // SAFETY: constants of the library.
        let (kind, operation) = unsafe { (ffi::RSMPI_DOUBLE, ffi::RSMPI_SUM) };
        self.reduce(bytemuck::cast_slice_mut(numbers), kind, operation);
    }

    fn abort(&self, code: i32) -> ! {
        // SAFETY: ends the process; no lock, because another thread may wait in a call for ever.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
        std::process::exit(code)
    }

    fn finish(&self) {
        self.settle(0);
        let _calls = self.state();
        // SAFETY: the last call of all; nothing is under way.
        check(unsafe { ffi::MPI_Finalize() });
    }
}
