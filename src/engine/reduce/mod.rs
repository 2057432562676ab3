//! Partial sums to one sum, in a fixed order: lanes one after the other, whatever computed them.
//!
//! Lanes run in waves of as many as there are buffers; after each wave its lanes are added in
//! order, in parallel over rows. Every number is the sum of its lanes from the first to the last, so
//! neither the number of threads nor the number of buffers changes a bit.
//!
//! Several processes ([`Team`]) have a contiguous range of lanes each. A sum goes
//! from process to process in the order of lanes, part by part, so that all are at work at the same time:
//! the bits are those of one process. Factors, gradients and directions are divided by rows: a process
//! keeps the rows that it owns and gets those that it reads for the time of a pass ([`Exchange`]).

mod buffers;
mod exchange;
mod row_ranges;

pub use buffers::Buffers;
pub use exchange::Exchange;

use crate::error::Result;
use crate::kernel::{LinePolynomial, ResidualSums, StepSums};
use crate::stream::{Lane, Stream};
use crate::team::{Combine, Team};
use rayon::prelude::*;

/// The few numbers of a lane, as they travel between processes.
pub trait Travels: Send {
    /// Their bits; always as many.
    fn words(&self) -> Vec<u64>;
    /// The reverse, in place.
    fn set(&mut self, words: &[u64]);
}

/// Runs `work` on every lane of this process, on the threads of the current pool, and gives the results
/// in order; an error of any process is one of all.
pub fn own_lanes<T: Send>(
    stream: &Stream,
    work: impl Fn(&Lane) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    stream.team().agree(stream.lanes().par_iter().map(work).collect())
}

/// The results of all lanes, in order, whichever process went through them; `empty` is a result of no
/// entries.
pub fn map_lanes<T: Travels + Clone>(
    stream: &Stream,
    empty: &T,
    work: impl Fn(&Lane) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    let own = own_lanes(stream, work)?;
    let team = stream.team();
    if team.is_alone() {
        return Ok(own);
    }
    let (width, lanes) = (empty.words().len(), stream.all_lanes().len());
    let mut words = vec![0; width * lanes];
    let first = team.lanes_of(team.process(), lanes).start;
    for (position, lane) in own.iter().enumerate() {
        words[(first + position) * width..][..width].copy_from_slice(&lane.words());
    }
    team.combine(&mut words, Combine::Or);
    let read = |words: &[u64]| {
        let mut lane = empty.clone();
        lane.set(words);
        lane
    };
    Ok(words.chunks_exact(width).map(read).collect())
}

/// total = the sum of what all lanes of all processes add, lane after lane. A lane's numbers begin at a place of `total`: of
/// the rows of level 0 it has its own slices alone.
///
/// ```text
/// sum_in_order(team, &mut total, lanes.iter().map(|lane| (lane.start, lane.sums.as_slice())));
/// ```
pub fn sum_in_order<'n>(
    team: Team,
    total: &mut [f64],
    lanes: impl Iterator<Item = (usize, &'n [f64])> + Clone,
) {
    team.chain(total, |offset, to| {
        for (begin, numbers) in lanes.clone() {
            let (low, high) = (offset.max(begin), (offset + to.len()).min(begin + numbers.len()));
            if low < high {
                let from = &numbers[low - begin..high - begin];
                to[low - offset..high - offset].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
    });
}

/// The words of every lane, in order, whichever process went through it and however many there are.
pub fn share_words(stream: &Stream, own: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    let team = stream.team();
    if team.is_alone() {
        return own;
    }
    let lanes = stream.all_lanes().len();
    let first = team.lanes_of(team.process(), lanes).start;
    let mut words = vec![Vec::new(); lanes];
    own.into_iter().enumerate().for_each(|(position, own)| words[first + position] = own);
    let mut lengths: Vec<u64> = words.iter().map(|words| words.len() as u64).collect();
    team.combine(&mut lengths, Combine::Or);
    for (words, &length) in words.iter_mut().zip(&lengths) {
        words.resize(length as usize, 0);
        team.combine(words, Combine::Or);
    }
    words
}

impl Travels for f64 {
    fn words(&self) -> Vec<u64> {
        vec![self.to_bits()]
    }
    fn set(&mut self, words: &[u64]) {
        *self = f64::from_bits(words[0]);
    }
}

// Field by field, so that a new field is not forgotten here.
impl Travels for StepSums {
    fn words(&self) -> Vec<u64> {
        let StepSums { residual_change, change_change, squares, entries } = *self;
        vec![residual_change.to_bits(), change_change.to_bits(), squares.to_bits(), entries]
    }
    fn set(&mut self, words: &[u64]) {
        let number = |n: usize| f64::from_bits(words[n]);
        *self = StepSums {
            residual_change: number(0),
            change_change: number(1),
            squares: number(2),
            entries: words[3],
        };
    }
}

impl Travels for ResidualSums {
    fn words(&self) -> Vec<u64> {
        let ResidualSums { squares, absolute, weight, scored, unscored } = *self;
        vec![squares.to_bits(), absolute.to_bits(), weight.to_bits(), scored, unscored]
    }
    fn set(&mut self, words: &[u64]) {
        let number = |n: usize| f64::from_bits(words[n]);
        *self = ResidualSums {
            squares: number(0),
            absolute: number(1),
            weight: number(2),
            scored: words[3],
            unscored: words[4],
        };
    }
}

impl Travels for LinePolynomial {
    fn words(&self) -> Vec<u64> {
        self.coefficients().iter().map(|x| x.to_bits()).chain([self.entries()]).collect()
    }
    fn set(&mut self, words: &[u64]) {
        let (entries, coefficients) = words.split_last().unwrap_or((&0, &[]));
        LinePolynomial::set(self, bytemuck::cast_slice(coefficients), *entries);
    }
}
