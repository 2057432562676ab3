//! The processes that work on one run together: who they are, and what they agree on.
//!
//! `mpi` is the only file that knows MPI; what is above it speaks in the verbs of `transport`, which
//! also exist for threads of one process, so that all of it is tested without MPI.

#[cfg(feature = "mpi")]
mod mpi;
mod threads;
mod transport;

pub use transport::Combine;
pub(crate) use transport::Kind;
use transport::{Alone, Expected, Transport, threads};

use crate::error::{Error, Result};
use std::fmt;
use std::ops::Range;

/// Rows of a factor are divided among processes in whole chunks of so many: sums over rows are taken
/// chunk by chunk, so that it makes no difference who owns one.
pub const CHUNK_ROWS: usize = 4096;
/// Numbers of one message of a sum that all processes keep.
const PIECE: usize = 1 << 15;
/// Messages that a process may be ahead of the next.
const AHEAD: usize = 32;

/// The processes of a run, as seen by one of them: one alone, or the ranks of an MPI job.
///
/// All of them go through the same steps, and every sum is taken in the order of lanes and chunks,
/// whoever holds them: a number that one process computes, all processes of any team compute. What may
/// differ between them (files, signals, clocks) is agreed on here.
#[derive(Clone, Copy)]
pub struct Team(&'static dyn Transport);

impl Default for Team {
    fn default() -> Self {
        Team::alone()
    }
}

impl PartialEq for Team {
    fn eq(&self, other: &Self) -> bool {
        (self.process(), self.size()) == (other.process(), other.size())
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({} of {})", self.process(), self.size())
    }
}

/// Variables by which launchers tell a process how many there are: OpenMPI, MPICH and its kin, MVAPICH, srun.
const SIZES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Whether this process was started as one of several.
fn is_one_of_several() -> bool {
    let size = |name: &&str| std::env::var(name).ok()?.parse::<usize>().ok();
    SIZES.iter().filter_map(size).any(|size| size > 1)
}

/// The lanes of `lanes` that process `process` of `size` goes through. Twice as many processes split every
/// range in two, so that what one host holds is also enough for several processes on it.
pub(crate) fn lanes_of(process: usize, size: usize, lanes: usize) -> Range<usize> {
    process * lanes / size..(process + 1) * lanes / size
}

impl Team {
    /// This process alone.
    pub fn alone() -> Self {
        Team(&Alone)
    }

    /// The team that this process was started in: that of `mpirun` or `srun`, or itself alone.
    ///
    /// # Errors
    ///
    /// Where it was started as one of several and cannot join them.
    pub fn join() -> Result<Self> {
        if !is_one_of_several() {
            return Ok(Team::alone());
        }
        #[cfg(feature = "mpi")]
        {
            let world = mpi::World::join().map_err(Error::request)?;
            Ok(Team(Box::leak(Box::new(world))))
        }
        #[cfg(not(feature = "mpi"))]
        Err(Error::request(
            "this tenfill was started as one of several processes, but was built without MPI: build it with \
             `cargo build --release --features mpi`, or start it without mpirun",
        ))
    }

    /// Whether this process, before it has joined a team, may speak for it: it is the first, as its launcher
    /// says, or there is no launcher.
    pub fn speaks() -> bool {
        let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"];
        ranks.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|process| process == "0")
    }

    /// As many members as asked for, each for a thread of this process: for tests.
    pub fn of_threads(size: usize) -> Vec<Team> {
        threads(size).into_iter().map(|one| Team(Box::leak(one))).collect()
    }

    /// The number of this process.
    pub fn process(self) -> usize {
        self.0.process()
    }

    /// How many there are.
    pub fn size(self) -> usize {
        self.0.size()
    }

    /// Whether there is nobody else.
    pub fn is_alone(self) -> bool {
        self.size() == 1
    }

    /// Whether this is the process that writes.
    pub fn is_first(self) -> bool {
        self.process() == 0
    }

    /// The machine that this process runs on.
    pub fn host(self) -> String {
        self.0.host().into()
    }

    /// How many processes of the team run on the same machine as this one. All must ask for it.
    pub fn on_this_host(self) -> usize {
        let name = [xxhash_rust::xxh3::xxh3_64(self.host().as_bytes())];
        self.gather(&name).iter().filter(|&&other| other == name[0]).count()
    }

    /// The largest of all processes' numbers. All must ask for it.
    pub fn most(self, number: u64) -> u64 {
        let mut least = [u64::MAX - number];
        self.combine(&mut least, Combine::Min);
        u64::MAX - least[0]
    }

    /// All processes compute small matrices for themselves, and must round alike: processors of another
    /// kind than the first one's are refused, rather than that processes come to different decisions.
    pub fn check_processors(self) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        let own = crate::usage::processor_kind();
        let first = self.told_by_first(|| Ok(own.clone()))?;
        let what = format!(
            "this is a processor of another kind ({own}) than that of process 0 ({first}), which rounds differently: \
             choose hosts of one kind (Slurm: --constraint)"
        );
        self.agree(if own == first { Ok(()) } else { Err(Error::request(what)) })
    }

    /// Ends all processes at once.
    pub fn abort(self, code: i32) -> ! {
        self.0.abort(code)
    }

    /// Says good-bye to the others, at the end of the program.
    pub fn finish(self) {
        self.0.finish();
    }

    /// Combines whole numbers of all processes, place by place.
    pub fn combine(self, words: &mut [u64], how: Combine) {
        self.0.combine(words, how);
    }

    /// The rows that a process owns of a mode of `rows`: whole chunks, about as many each.
    pub fn rows_of(self, process: usize, rows: usize) -> Range<usize> {
        let chunks = rows.div_ceil(CHUNK_ROWS);
        let start = |process: usize| (process * chunks / self.size() * CHUNK_ROWS).min(rows);
        start(process)..start(process + 1)
    }

    /// The rows that this process owns of a mode of `rows`.
    pub fn own_rows(self, rows: usize) -> Range<usize> {
        self.rows_of(self.process(), rows)
    }

    /// Who owns a row of a mode of `rows`.
    pub fn owner(self, row: usize, rows: usize) -> usize {
        let chunks = rows.div_ceil(CHUNK_ROWS);
        // The last process whose rows begin at or before this one.
        let guess = (row / CHUNK_ROWS * self.size()).checked_div(chunks).unwrap_or(0);
        (guess..self.size()).find(|&process| self.rows_of(process, rows).contains(&row)).unwrap_or(0)
    }

    /// The lanes of `lanes` that a process goes through.
    pub fn lanes_of(self, process: usize, lanes: usize) -> Range<usize> {
        lanes_of(process, self.size(), lanes)
    }

    /// Goes on only if all processes can: otherwise all of them get the error of the first that
    /// failed, with its number and host.
    pub fn agree<T>(self, result: Result<T>) -> Result<T> {
        if self.is_alone() {
            return result;
        }
        let mut failed = [if result.is_err() { self.process() as u64 } else { u64::MAX }];
        self.combine(&mut failed, Combine::Min);
        let [first] = failed;
        if first == u64::MAX {
            return result;
        }
        let first = first as usize;
        let text = match (&result, self.process() == first) {
            (Err(Error::Interrupted), true) => String::new(),
            (Err(Error::Process(told)), true) => told.clone(),
            (Err(error), true) => format!("process {first} on {}: {error}", self.host()),
            _ => String::new(),
        };
        let text = self.text_of(first, text);
        Err(if text.is_empty() { Error::Interrupted } else { Error::Process(text) })
    }

    /// A text that one process has, for all.
    fn text_of(self, process: usize, text: String) -> String {
        let mut length = [text.len() as u64];
        self.0.broadcast(process, &mut length);
        let mut words = vec![0; (length[0] as usize).div_ceil(8)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        if self.process() == process {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
        }
        self.0.broadcast(process, &mut words);
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        String::from_utf8_lossy(&bytes[..length[0] as usize]).into_owned()
    }

    /// What the first process says; the others need not know it.
    ///
    /// # Errors
    ///
    /// The first process's own, on all of them.
    pub fn told_by_first(self, text: impl FnOnce() -> Result<String>) -> Result<String> {
        if self.is_alone() {
            return text();
        }
        let text = self.agree(if self.is_first() { text() } else { Ok(String::new()) })?;
        Ok(self.text_of(0, text))
    }

    /// Numbers that the first process has, for all.
    pub fn numbers_of_first(self, numbers: &mut [f64]) {
        self.0.broadcast(0, bytemuck::cast_slice_mut(numbers));
    }

    /// The same number of words of every process, in their order.
    pub fn gather(self, words: &[u64]) -> Vec<u64> {
        if self.is_alone() {
            return words.to_vec();
        }
        let mut all = vec![0; words.len() * self.size()];
        all[self.process() * words.len()..][..words.len()].copy_from_slice(words);
        self.combine(&mut all, Combine::Or);
        all
    }

    /// A sum that goes from the first process to the last: each gets what those before it have
    /// added up, `add(offset, part)`s its own, and hands it on; in the end all have it. Part by part, so
    /// that all are at work at the same time.
    pub fn chain(self, total: &mut [f64], mut add: impl FnMut(usize, &mut [f64])) {
        total.fill(0.0);
        let last = self.size() - 1;
        for (number, part) in total.chunks_mut(PIECE).enumerate() {
            if self.process() > 0 {
                let words = self.receive(self.process() - 1, Kind::Running, part.len());
                part.copy_from_slice(bytemuck::cast_slice(&words));
            }
            add(number * PIECE, part);
            if self.process() < last {
                self.send(self.process() + 1, Kind::Running, bytemuck::cast_slice(part).to_vec());
                self.0.settle(AHEAD);
            }
        }
        self.0.settle(0);
        self.0.broadcast(last, bytemuck::cast_slice_mut(total));
    }

    /// The same for a few numbers that are sums over the rows of a mode, where processes without rows
    /// have nothing to add.
    pub fn chain_of_chunks(self, rows: usize, total: &mut [f64], add: impl FnOnce(&mut [f64])) {
        if self.is_alone() {
            return add(total);
        }
        let owns = |process: &usize| !self.rows_of(*process, rows).is_empty();
        let me = self.process();
        if owns(&me) {
            if let Some(before) = (0..me).rev().find(owns) {
                let words = self.receive(before, Kind::Running, total.len());
                total.copy_from_slice(bytemuck::cast_slice(&words));
            }
            add(total);
            if let Some(next) = (me + 1..self.size()).find(owns) {
                self.send(next, Kind::Running, bytemuck::cast_slice(total).to_vec());
                self.0.settle(0);
            }
        }
        let last = (0..self.size()).rev().find(owns).unwrap_or(0);
        self.0.broadcast(last, bytemuck::cast_slice_mut(total));
    }

    /// The sum in whatever order MPI finds best: to compare with.
    #[doc(hidden)]
    pub fn sum_in_any_order(self, numbers: &mut [f64]) {
        self.0.sum_in_any_order(numbers);
    }

    pub(crate) fn send(self, to: usize, kind: Kind, words: Vec<u64>) {
        self.0.send(to, kind, words);
    }

    pub(crate) fn settle(self, most: usize) {
        self.0.settle(most);
    }

    pub(crate) fn expect(self, from: usize, kind: Kind, length: usize) -> Expected {
        self.0.expect(from, kind, length)
    }

    pub(crate) fn take(self, expected: Expected) -> Vec<u64> {
        self.0.take(expected)
    }

    pub(crate) fn receive(self, from: usize, kind: Kind, length: usize) -> Vec<u64> {
        self.take(self.expect(from, kind, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` as every member of a team.
    fn together<T: Send>(size: usize, work: impl Fn(Team) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let members = Team::of_threads(size).into_iter();
            let all: Vec<_> = members.map(|team| scope.spawn(move || work(team))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn rows_and_lanes_are_divided_among_all() {
        for team in Team::of_threads(3).into_iter().chain(Team::of_threads(7)) {
            for rows in [1, 4096, 4097, 50_000, 123_456] {
                let parts: Vec<_> = (0..team.size()).map(|process| team.rows_of(process, rows)).collect();
                assert_eq!(parts.iter().map(Range::len).sum::<usize>(), rows);
                for (process, part) in parts.iter().enumerate() {
                    part.clone().step_by(1000).for_each(|row| assert_eq!(team.owner(row, rows), process));
                }
                assert_eq!(parts[0].start, 0);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
            assert_eq!(team.lanes_of(team.size() - 1, 8).end, 8);
        }
        // Two processes per host stay within what the host holds.
        let (hosts, twice) = (Team::of_threads(3)[0], Team::of_threads(6)[0]);
        for host in 0..3 {
            assert_eq!(hosts.lanes_of(host, 8).start, twice.lanes_of(2 * host, 8).start);
        }
    }

    #[test]
    fn a_chain_is_the_sum_in_order() {
        let part = |process: usize, n: usize| ((process * 7 + n) as f64 * 0.37).sin();
        for size in [1, 2, 3, 5] {
            let plain: Vec<f64> =
                (0..70_000).map(|n| (0..size).fold(0.0, |sum, process| sum + part(process, n))).collect();
            let sums = together(size, |team| {
                let mut total = vec![1.0; 70_000];
                team.chain(&mut total, |offset, to| {
                    to.iter_mut().enumerate().for_each(|(n, x)| *x += part(team.process(), offset + n));
                });
                total
            });
            assert!(sums.iter().all(|sum| *sum == plain));
        }
    }

    #[test]
    fn all_get_the_first_error() {
        let told = together(4, |team| {
            let own = if team.process() % 2 == 1 { Err(Error::request("the disk is full")) } else { Ok(()) };
            let error = team.agree(own).unwrap_err();
            // Agreeing on it again does not change it.
            team.agree::<()>(Err(error)).unwrap_err().to_string()
        });
        assert!(told.iter().all(|told| told == "process 1 on thread: the disk is full"), "{told:?}");
        assert!(together(3, |team| team.agree(Ok(team.process())).unwrap()) == [0, 1, 2]);
        let told = together(3, |team| team.told_by_first(|| Ok("so be it".into())).unwrap());
        assert_eq!(told, ["so be it"; 3]);
    }
}
