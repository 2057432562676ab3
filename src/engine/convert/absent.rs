//! Draws cells that have no entry, as zeros: what counts, clicks and triples are told apart from.

use super::split::Splitter;
use crate::MAX_ORDER;
use crate::error::{Error, Result};
use crate::ingest::label::hash_integer;
use crate::ingest::sketch::mix;
use crate::shard::Split;
use crate::units::count;

/// Of the cells without an entry no larger share is drawn: near all of them, draws meet each other too often.
const MOST: f64 = 0.9;

/// What is drawn, of cells that may have an entry or be drawn twice: the merge leaves those out. It depends on
/// the dimensions, the number of entries and the seed alone, so rows may come in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absent {
    pub(super) draws: u64,
    seed: u64,
    shares: (u64, f64, f64),
}

impl Absent {
    /// So many per entry, of a tensor with these dimensions and about so many entries beside `others`, which are
    /// there already.
    pub(super) fn new(
        per_entry: f64,
        dims: &[u32],
        entries: f64,
        others: f64,
        splitter: &Splitter,
        seed: u64,
    ) -> Result<Option<Self>> {
        if per_entry == 0.0 {
            return Ok(None);
        }
        let &Splitter::Hash { seed: of_split, train, validation } = splitter else {
            return Err(Error::request(
                "`absent` goes with a `split` by shares: what is drawn has no time and no file",
            ));
        };
        let cells: f64 = dims.iter().map(|&dim| f64::from(dim)).product();
        let (free, wanted) = ((cells - entries - others).max(0.0), (per_entry * entries).round());
        if wanted > MOST * free {
            return Err(Error::request(format!(
                "`absent` {per_entry} asks for {} cells, and about {} have no entry: give a smaller number",
                count(wanted as u64),
                count(free as u64)
            )));
        }
        // So many draws meet so many different free cells, on the average.
        let draws = (libm::log1p(-wanted / free) / libm::log1p(-1.0 / cells)).round() as u64;
        let seed = mix(seed ^ 0x6162_7365_6e74_2121);
        Ok(Some(Absent { draws, seed, shares: (of_split, train, validation) }))
    }

    /// The indices of draw `number`, for levels of these dimensions.
    pub(super) fn draw(&self, number: u64, dims: &[u32], indices: &mut [u32]) {
        let row = mix(self.seed ^ mix(number));
        for (level, (index, &dim)) in indices.iter_mut().zip(dims).enumerate() {
            let word = mix(row.wrapping_add(level as u64 + 1));
            *index = ((u128::from(word) * u128::from(dim)) >> 64) as u32;
        }
    }

    /// The split of a cell that was drawn.
    pub(super) fn split(&self, indices: &[u32]) -> Split {
        let mut hashes = [0; MAX_ORDER];
        hashes.iter_mut().zip(indices).for_each(|(hash, &index)| *hash = hash_integer(i64::from(index)));
        let (seed, train, validation) = self.shares;
        Splitter::of_hashes(seed, train, validation, &hashes[..indices.len()])
    }
}
