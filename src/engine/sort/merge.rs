//! Merges sorted runs with a loser tree: one comparison per level and record.

use super::record::{Payload, Record};
use super::runs::{SortedRun, Ties};
use crate::error::{IoContext, Result};
use bytemuck::{Pod, Zeroable};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Reads one run through a buffer.
pub(super) struct RunReader<'f, const W: usize, P> {
    file: &'f File,
    next: u64,
    end: u64,
    buffer: Vec<Record<W, P>>,
    position: usize,
    capacity: usize,
    directory: PathBuf,
}

impl<'f, const W: usize, P: Payload> RunReader<'f, W, P>
where
    Record<W, P>: Pod,
{
    pub(super) fn new(file: &'f File, run: SortedRun, bytes: usize, directory: &Path) -> Self {
        let capacity = (bytes / size_of::<Record<W, P>>()).max(1);
        RunReader {
            file,
            next: run.start,
            end: run.start + run.records,
            buffer: Vec::new(),
            position: 0,
            capacity,
            directory: directory.into(),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Record<W, P>>> {
        if self.position == self.buffer.len() {
            let count = self.capacity.min((self.end - self.next) as usize);
            if count == 0 {
                return Ok(None);
            }
            self.buffer.resize(count, Zeroable::zeroed());
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.buffer);
            let offset = self.next * size_of::<Record<W, P>>() as u64;
            self.file.read_exact_at(bytes, offset).context("read a scratch file in", &self.directory)?;
            self.next += count as u64;
            self.position = 0;
        }
        self.position += 1;
        Ok(Some(self.buffer[self.position - 1]))
    }
}

/// The records of several runs, in order. Of equal records that of the earlier run comes first.
pub(super) struct Merge<'f, const W: usize, P> {
    runs: Vec<RunReader<'f, W, P>>,
    /// The next record of every run; None when it has ended.
    heads: Vec<Option<Record<W, P>>>,
    /// `tree[0]` is the winner, `tree[n]` the loser of the match at inner node n.
    tree: Vec<usize>,
    ties: Ties,
}

impl<'f, const W: usize, P: Payload> Merge<'f, W, P>
where
    Record<W, P>: Pod,
{
    pub(super) fn new(mut runs: Vec<RunReader<'f, W, P>>, ties: Ties) -> Result<Self> {
        let heads = runs.iter_mut().map(RunReader::next).collect::<Result<Vec<_>>>()?;
        let count = runs.len();
        let mut merge = Merge { runs, heads, tree: vec![usize::MAX; count.max(1)], ties };
        for run in 0..count {
            merge.replay(run);
        }
        Ok(merge)
    }

    /// Whether the head of run `a` comes before that of run `b`.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        match (&self.heads[a], &self.heads[b]) {
            (Some(x), Some(y)) => match self.ties {
                Ties::Value => x.order(y).then(a.cmp(&b)).is_lt(),
                Ties::Arrival => x.key.cmp(&y.key).then(a.cmp(&b)).is_lt(),
            },
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a < b,
        }
    }

    /// Plays run `run` from its leaf up to the root.
    #[inline]
    fn replay(&mut self, run: usize) {
        let mut winner = run;
        let mut node = (run + self.runs.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            if loser == usize::MAX {
                // While the tree is being built the first to arrive waits for its opponent.
                self.tree[node] = winner;
                return;
            }
            if self.before(loser, winner) {
                self.tree[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Record<W, P>>> {
        let run = self.tree[0];
        let Some(head) = self.heads.get_mut(run) else { return Ok(None) };
        let Some(record) = head.take() else { return Ok(None) };
        *head = self.runs[run].next()?;
        self.replay(run);
        Ok(Some(record))
    }
}
