//! How words get from one process of a run to another. Everything above is written in these verbs.

use super::threads::Threads;

/// What a message is about: messages of one kind between two processes arrive in the order in which
/// they were sent, those of different kinds do not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A running sum on its way from process to process.
    Running = 1,
    /// A sum that is complete, on its way to the process that keeps it.
    Complete = 2,
    /// Rows that another process reads.
    Rows = 3,
    /// Which rows those are.
    Pattern = 4,
    /// Rows on their way to a file or from one.
    File = 5,
}

/// How whole numbers of all processes become one: orders do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// All bits that are set in any.
    Or,
}

/// A message that will come.
#[derive(Debug)]
pub(crate) struct Expected(pub(super) u64);

/// The processes of a run, as seen by one of them. A message is a vector of words; numbers travel by
/// their bits. Whoever waits for a process that has died is ended by the launcher.
pub(crate) trait Transport: Send + Sync {
    /// The number of this process.
    fn process(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// The machine that this process runs on.
    fn host(&self) -> &str;
    /// Sends without waiting; the words are kept until they are gone.
    fn send(&self, to: usize, kind: Kind, words: Vec<u64>);
    /// Waits until at most so many messages of this process are not yet gone.
    fn settle(&self, most: usize);
    /// Makes room for a message of so many words, so that it can come while other work is done.
    fn expect(&self, from: usize, kind: Kind, length: usize) -> Expected;
    /// Waits for a message.
    fn take(&self, expected: Expected) -> Vec<u64>;
    /// Gives all processes the words of one.
    fn broadcast(&self, root: usize, words: &mut [u64]);
    /// Gives all processes the combination of all words at the same place.
    fn combine(&self, words: &mut [u64], how: Combine);
    /// The sum of all processes' numbers, in whatever order is fastest: the bits may depend on the
    /// number of processes. To compare with.
    fn sum_in_any_order(&self, numbers: &mut [f64]);
    /// Ends all processes at once.
    fn abort(&self, code: i32) -> !;
    /// Says good-bye to the others.
    fn finish(&self);
}

/// One process, which has nobody to talk to.
pub(super) struct Alone;

impl Transport for Alone {
    fn process(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn host(&self) -> &str {
        "this machine"
    }
    fn send(&self, _: usize, _: Kind, _: Vec<u64>) {}
    fn settle(&self, _: usize) {}
    fn expect(&self, _: usize, _: Kind, _: usize) -> Expected {
        Expected(0)
    }
    fn take(&self, _: Expected) -> Vec<u64> {
        Vec::new()
    }
    fn broadcast(&self, _: usize, _: &mut [u64]) {}
    fn combine(&self, _: &mut [u64], _: Combine) {}
    fn sum_in_any_order(&self, _: &mut [f64]) {}
    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
    fn finish(&self) {}
}

/// As many processes as asked for, which are threads of this one: for tests.
pub(super) fn threads(size: usize) -> Vec<Box<dyn Transport>> {
    Threads::new(size).into_iter().map(|one| Box::new(one) as Box<dyn Transport>).collect()
}
