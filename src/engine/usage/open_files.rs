//! How many files this process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Once;

/// Asks for as many open files as this process may have at all. Systems begin with a limit that is far below it, for
/// programs that look at all numbers a file may have; a dataset of some thousand shards, or the scratch files of a
/// terabyte of rows, need more. It is for the program alone: within others it is theirs to say.
pub fn allow_many_files() {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Where that is refused, whoever opens one file too many is told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    });
}

/// How many that is now; `None` where there is no limit.
pub fn most_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
