//! Processes that are threads: what several processes do can be tested without MPI.

use super::transport::{Combine, Expected, Kind, Transport};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From, to, kind.
type Way = (usize, usize, u8);
/// Stands for collective operations, which are messages to and from process 0 here.
const COLLECTIVE: u8 = 0;

#[derive(Default)]
struct Post {
    boxes: Mutex<HashMap<Way, VecDeque<Vec<u64>>>>,
    arrived: Condvar,
}

/// One of several threads that take themselves for processes.
pub(super) struct Threads {
    process: usize,
    size: usize,
    post: Arc<Post>,
    expected: Mutex<Vec<(usize, Kind, usize)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    pub(super) fn new(size: usize) -> Vec<Self> {
        let post = Arc::new(Post::default());
        let one = |process| Threads { process, size, post: Arc::clone(&post), expected: Mutex::default() };
        (0..size).map(one).collect()
    }

    fn put(&self, to: usize, kind: u8, words: Vec<u64>) {
        lock(&self.post.boxes).entry((self.process, to, kind)).or_default().push_back(words);
        self.post.arrived.notify_all();
    }

    fn get(&self, from: usize, kind: u8) -> Vec<u64> {
        let mut boxes = lock(&self.post.boxes);
        loop {
            let way = (from, self.process, kind);
            if let Some(words) = boxes.get_mut(&way).and_then(VecDeque::pop_front) {
                return words;
            }
            let waited = self.post.arrived.wait_timeout(boxes, Duration::from_secs(60));
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!timeout.timed_out(), "process {} waits for {way:?} in vain", self.process);
            boxes = again;
        }
    }
}

impl Transport for Threads {
    fn process(&self) -> usize {
        self.process
    }

    fn size(&self) -> usize {
        self.size
    }

    fn host(&self) -> &str {
        "thread"
    }

    fn send(&self, to: usize, kind: Kind, words: Vec<u64>) {
        self.put(to, kind as u8, words);
    }

    fn settle(&self, _: usize) {}

    fn expect(&self, from: usize, kind: Kind, length: usize) -> Expected {
        let mut expected = lock(&self.expected);
        expected.push((from, kind, length));
        Expected(expected.len() as u64 - 1)
    }

    fn take(&self, expected: Expected) -> Vec<u64> {
        let (from, kind, length) = lock(&self.expected)[expected.0 as usize];
        let words = self.get(from, kind as u8);
        assert_eq!(words.len(), length, "a message {kind:?} from {from} to {}", self.process);
        words
    }

    fn broadcast(&self, root: usize, words: &mut [u64]) {
        if self.process == root {
            (0..self.size).filter(|&to| to != root).for_each(|to| self.put(to, COLLECTIVE, words.to_vec()));
        } else {
            words.copy_from_slice(&self.get(root, COLLECTIVE));
        }
    }

    fn combine(&self, words: &mut [u64], how: Combine) {
        if self.process == 0 {
            for from in 1..self.size {
                for (own, other) in words.iter_mut().zip(self.get(from, COLLECTIVE)) {
                    *own = match how {
                        Combine::Sum => *own + other,
                        Combine::Min => (*own).min(other),
                        Combine::Or => *own | other,
                    };
                }
            }
        } else {
            self.put(0, COLLECTIVE, words.to_vec());
        }
        self.broadcast(0, words);
    }

    fn sum_in_any_order(&self, numbers: &mut [f64]) {
        let words: &mut [u64] = bytemuck::cast_slice_mut(numbers);
        if self.process == 0 {
            for from in 1..self.size {
                for (own, other) in words.iter_mut().zip(self.get(from, COLLECTIVE)) {
                    *own = (f64::from_bits(*own) + f64::from_bits(other)).to_bits();
                }
            }
        } else {
            self.put(0, COLLECTIVE, words.to_vec());
        }
        self.broadcast(0, words);
    }

    fn abort(&self, code: i32) -> ! {
        panic!("process {} ends all with code {code}", self.process)
    }

    fn finish(&self) {}
}
