//! Which rows go from process to process in a pass: the rows of a model that a process reads, and the
//! sums of gradient rows that it has a part in. Known once, from the entries that each process goes
//! through: where a process touches few rows of a mode, few travel.

use super::row_ranges::{Bits, RowRanges, words};
use crate::error::Result;
use crate::kernel::GradientSums;
use crate::rows::Rows;
use crate::stream::Stream;
use crate::team::{CHUNK_ROWS, Kind, Team};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that a process may be ahead of those that it sends to.
const AHEAD: usize = 32;
/// Rows that one task adds up.
const TASK_ROWS: usize = 512;

/// The rows that travel for the passes over one split.
#[derive(Debug)]
pub struct Exchange {
    team: Team,
    levels: Vec<Level>,
}

/// Of one level. T_q are the rows that process q touches, a superset of those with entries.
#[derive(Debug)]
struct Level {
    rows: usize,
    /// T_q of this process.
    touched: RowRanges,
    /// Per process, the rows of this one's that it touches.
    given: Vec<RowRanges>,
    /// Running sums that come from the process before: touched there or before, and here or later.
    incoming: RowRanges,
    /// Running sums that go to the next process.
    outgoing: RowRanges,
    /// Sums that are complete here: nobody later touches them.
    complete: RowRanges,
    /// Per process, the rows of this one's whose sums are complete there.
    completed: Vec<RowRanges>,
}

/// Chunk by chunk.
fn tiles(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(CHUNK_ROWS).map(move |start| start..(start + CHUNK_ROWS).min(rows.end))
}

impl Exchange {
    /// Looks at the ids of this process's entries and tells the others; nothing for one process alone.
    pub fn new(stream: &Stream, dims: &[usize]) -> Result<Self> {
        let team = stream.team();
        if team.is_alone() {
            return Ok(Exchange { team, levels: Vec::new() });
        }
        let touched = team.agree(touched(stream, dims))?;
        let levels = touched.into_iter().zip(dims).map(|(bits, &rows)| Level::new(team, bits, rows));
        Ok(Exchange { team, levels: levels.collect() })
    }

    /// The team.
    pub fn team(&self) -> Team {
        self.team
    }

    /// Brings the rows of a level that this process reads, out of those that each owns, into `all`.
    pub fn gather(&self, level: usize, own: &Rows, all: &mut Rows) {
        let (team, level) = (self.team, &self.levels[level]);
        let (rank, me) = (own.rank(), team.process());
        let mine = own.own();
        for rows in level.touched.within(mine.clone()) {
            let from = &own.as_slice()[(rows.start - mine.start) * rank..(rows.end - mine.start) * rank];
            all.as_mut_slice()[rows.start * rank..rows.end * rank].copy_from_slice(from);
        }
        let blocks: Vec<Range<usize>> = (0..team.size()).map(|peer| team.rows_of(peer, level.rows)).collect();
        let rounds = blocks.iter().map(|block| block.len().div_ceil(CHUNK_ROWS)).max().unwrap_or(0);
        let tile = |block: &Range<usize>, round: usize| {
            let start = (block.start + round * CHUNK_ROWS).min(block.end);
            start..(start + CHUNK_ROWS).min(block.end)
        };
        // Everybody's first tile, then everybody's second: no process holds more than a round.
        for round in 0..rounds {
            let mut coming = Vec::new();
            for (peer, block) in blocks.iter().enumerate().filter(|(peer, _)| *peer != me) {
                let tile = tile(block, round);
                let count = level.touched.count(tile.clone());
                if count > 0 {
                    coming.push((tile, team.expect(peer, Kind::Rows, count * rank)));
                }
            }
            for (peer, given) in level.given.iter().enumerate().filter(|(peer, _)| *peer != me) {
                let words = given.pack(tile(&mine, round), rank, own.as_slice(), mine.start);
                if !words.is_empty() {
                    team.send(peer, Kind::Rows, words);
                }
            }
            for (tile, expected) in coming {
                level.touched.unpack(tile, rank, &team.take(expected), all.as_mut_slice(), 0);
            }
            team.settle(0);
        }
    }

    /// The sums of a level's gradient rows over all lanes of all processes, in the order of lanes: to
    /// each process those of the rows that it owns.
    ///
    /// A row's sum goes from process to process, each adding its lanes, but only through those that
    /// touch it and those between them; the last sends it to its owner.
    pub(super) fn sum(&self, level: usize, sums: &[GradientSums], to: &mut Rows) {
        let (team, number, level) = (self.team, level, &self.levels[level]);
        let (rank, me) = (to.rank(), team.process());
        let mine = to.own();
        to.fill(0.0);
        let mut coming = Vec::new();
        for tile in tiles(mine.clone()) {
            for (peer, completed) in level.completed.iter().enumerate().filter(|(peer, _)| *peer != me) {
                let count = completed.count(tile.clone());
                if count > 0 {
                    coming.push((peer, tile.clone(), team.expect(peer, Kind::Complete, count * rank)));
                }
            }
        }
        let mut part = Vec::new();
        for tile in tiles(0..level.rows) {
            let (arriving, touched) = (level.incoming.count(tile.clone()), level.touched.count(tile.clone()));
            if arriving == 0 && touched == 0 {
                continue;
            }
            part.clear();
            part.resize(tile.len() * rank, 0.0);
            if arriving > 0 {
                let words = team.receive(me - 1, Kind::Running, arriving * rank);
                level.incoming.unpack(tile.clone(), rank, &words, &mut part, tile.start);
            }
            if touched > 0 {
                part.par_chunks_mut(TASK_ROWS * rank).enumerate().for_each(|(task, to)| {
                    sums.iter().for_each(|lane| lane.add_rows(number, tile.start + task * TASK_ROWS, to));
                });
            }
            let on = level.outgoing.pack(tile.clone(), rank, &part, tile.start);
            if !on.is_empty() {
                team.send(me + 1, Kind::Running, on);
            }
            let complete = level.complete.pack(tile.clone(), rank, &part, tile.start);
            if !complete.is_empty() {
                let owner = team.owner(tile.start, level.rows);
                if owner == me {
                    level.complete.unpack(tile, rank, &complete, to.as_mut_slice(), mine.start);
                } else {
                    team.send(owner, Kind::Complete, complete);
                }
            }
            team.settle(AHEAD);
        }
        for (peer, tile, expected) in coming {
            let words = team.take(expected);
            level.completed[peer].unpack(tile, rank, &words, to.as_mut_slice(), mine.start);
        }
        team.settle(0);
    }

    /// Words that this process sends in a gradient pass of the given ranks: rows of the model, running
    /// sums and complete ones.
    pub fn words_sent(&self, ranks: &[usize]) -> u64 {
        let me = self.team.process();
        let of = |(level, &rank): (&Level, &usize)| {
            let all = 0..level.rows;
            let mine = self.team.own_rows(level.rows);
            let others = level.given.iter().enumerate().filter(|(peer, _)| *peer != me);
            let given: usize = others.map(|(_, rows)| rows.count(all.clone())).sum();
            let complete = level.complete.count(all.clone()) - level.complete.count(mine);
            ((given + level.outgoing.count(all) + complete) * rank) as u64
        };
        self.levels.iter().zip(ranks).map(of).sum()
    }
}

/// The rows of every level that the entries of this process's lanes touch.
fn touched(stream: &Stream, dims: &[usize]) -> Result<Vec<Bits>> {
    let bits: Vec<Vec<AtomicU64>> =
        dims.iter().map(|&dim| (0..words(dim)).map(|_| AtomicU64::new(0)).collect()).collect();
    let set = |level: usize, row: usize| {
        bits[level][row / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
    };
    stream.lanes().par_iter().try_for_each(|lane| {
        // A lane has sums for its whole stretch of the first level.
        lane.slices.clone().for_each(|slice| set(0, slice as usize));
        stream.for_each(lane, |block| {
            for (level, ids) in block.ids().iter().enumerate().skip(1) {
                (0..ids.len()).for_each(|n| set(level, ids.get(n) as usize));
            }
            Ok(())
        })
    })?;
    let mut levels: Vec<Bits> =
        bits.into_iter().map(|bits| bits.into_iter().map(AtomicU64::into_inner).collect()).collect();
    for (bits, &dim) in levels.iter_mut().zip(dims).skip(1) {
        let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
        // More than half: whole stretches travel faster than many single rows, and zeros change nothing.
        if count as usize * 2 > dim {
            bits.iter_mut()
                .enumerate()
                .for_each(|(n, word)| *word = u64::MAX >> (64 - (dim - n * 64).min(64)));
        }
    }
    Ok(levels)
}

impl Level {
    fn new(team: Team, touched: Bits, rows: usize) -> Self {
        let (me, size) = (team.process(), team.size());
        let block = |process: usize| {
            let rows = team.rows_of(process, rows);
            // Blocks begin at whole words.
            (rows.start / 64)..words(rows.end)
        };
        let none = || vec![0u64; words(rows)];
        let or = |a: &Bits, b: &Bits| a.iter().zip(b).map(|(a, b)| a | b).collect::<Bits>();
        let and = |a: &Bits, b: &Bits| a.iter().zip(b).map(|(a, b)| a & b).collect::<Bits>();
        // Each process tells every other which rows of its block it means.
        let tell = |bits: &Bits| -> Vec<RowRanges> {
            for peer in (0..size).filter(|&peer| peer != me && !block(peer).is_empty()) {
                team.send(peer, Kind::Pattern, bits[block(peer)].to_vec());
            }
            let first = team.own_rows(rows).start;
            let heard = |peer: usize| {
                let words = if peer == me || block(me).is_empty() {
                    bits[block(me)].to_vec()
                } else {
                    team.receive(peer, Kind::Pattern, block(me).len())
                };
                RowRanges::from_bits(&words, first)
            };
            let all = (0..size).map(heard).collect();
            team.settle(0);
            all
        };
        let given = tell(&touched);
        let before = if me > 0 { team.receive(me - 1, Kind::Running, words(rows)) } else { none() };
        let upto = or(&before, &touched);
        if me + 1 < size {
            team.send(me + 1, Kind::Running, upto.clone());
        }
        let after = if me + 1 < size { team.receive(me + 1, Kind::Running, words(rows)) } else { none() };
        let from = or(&after, &touched);
        if me > 0 {
            team.send(me - 1, Kind::Running, from.clone());
        }
        team.settle(0);
        let complete: Bits = touched.iter().zip(&after).map(|(touched, after)| touched & !after).collect();
        let completed = tell(&complete);
        Level {
            rows,
            touched: RowRanges::from_bits(&touched, 0),
            given,
            incoming: RowRanges::from_bits(&and(&before, &from), 0),
            outgoing: RowRanges::from_bits(&and(&upto, &after), 0),
            complete: RowRanges::from_bits(&complete, 0),
            completed,
        }
    }
}
