//! Pairs of modes: what is left of entries that share their rows of two levels.
//!
//! If two modes have more to do with each other than a model knows, residuals of entries of one cell, that is of a row
//! of one and a row of the other, are alike. Validation entries tell whether that is so; what is left of train entries,
//! added up by cells, tells in which directions.

use super::both_ways::ROW_DAMPING;
use super::grow::Evidence;
use super::offsets::{Cells, MOST_IN_TABLES, add_up};
use super::sweeps::Data;
use super::weighted::orthonormal;
use crate::error::Result;
use crate::manifold::Distribution;
use crate::reduce::share_words;
use crate::stream::Stream;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, HashMap};

// What other values do: docs/thresholds.md.
/// Pairs of rows are told apart up to so many, of all pairs of modes together; above, a share of them is looked at.
const MOST_CELLS: u64 = 1 << 20;
/// Rounds of the power iterations that directions are found by; they cost no pass.
const ROUNDS: usize = 4;

/// All pairs of so many levels.
pub(super) fn pairs_of(order: usize) -> Vec<[usize; 2]> {
    (0..order).flat_map(|a| (a + 1..order).map(move |b| [a, b])).collect()
}

/// Of the cells of so many entries, every how many-th is looked at.
fn every(entries: u64, order: usize) -> u64 {
    (entries.saturating_mul(pairs_of(order).len() as u64)).div_ceil(MOST_CELLS).max(1)
}

/// The most cells of all pairs that are looked at of so many entries.
pub(super) fn most_cells(entries: u64, order: usize) -> u64 {
    entries.saturating_mul(pairs_of(order).len() as u64).min(MOST_CELLS)
}

/// Looks at validation residuals by the cells of some pairs.
pub(super) struct Alike {
    pairs: Vec<[usize; 2]>,
    /// Of many cells a share, by a number that has nothing to do with what lies in them.
    every: u64,
}

/// What a lane has found: per pair and cell the number, sum and squares of residuals; the squares and number of all.
#[derive(Default)]
pub(super) struct LaneCells {
    cells: Vec<HashMap<u64, [f64; 3]>>,
    all: [f64; 2],
}

impl Alike {
    /// Some of the pairs of `order` levels.
    pub(super) fn new(validation: &Stream, order: usize, pairs: Vec<[usize; 2]>) -> Self {
        Alike { pairs, every: every(validation.entries(), order) }
    }

    pub(super) fn lane(&self) -> LaneCells {
        LaneCells { cells: vec![HashMap::new(); self.pairs.len()], all: [0.0; 2] }
    }

    /// Adds what is left of an entry.
    pub(super) fn add(&self, lane: &mut LaneCells, indices: &[u32], e: f64) {
        lane.all = [lane.all[0] + e * e, lane.all[1] + 1.0];
        for (pair, cells) in self.pairs.iter().zip(&mut lane.cells) {
            let cell = u64::from(indices[pair[0]]) << 32 | u64::from(indices[pair[1]]);
            if (cell.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).is_multiple_of(self.every) {
                let sums = cells.entry(cell).or_default();
                (0..3).for_each(|n| sums[n] += [1.0, e, e * e][n]);
            }
        }
    }

    /// What the residuals say of every pair. Sorted, and added up in the order of lanes, so that neither maps nor
    /// processes change a bit.
    pub(super) fn evidence(&self, validation: &Stream, lanes: Vec<LaneCells>) -> Vec<Evidence> {
        let all = lanes.iter().map(|lane| lane.all.map(f64::to_bits).to_vec()).collect();
        let [mut squares, mut entries] = [0.0; 2];
        for words in share_words(validation, all) {
            squares += f64::from_bits(words[0]);
            entries += f64::from_bits(words[1]);
        }
        let noise = squares / entries.max(1.0);
        let mut lanes: Vec<_> = lanes.into_iter().map(|lane| lane.cells.into_iter()).collect();
        let mut found = Vec::new();
        for _ in &self.pairs {
            let own = lanes.iter_mut().map(|lane| sorted(lane.next().unwrap_or_default())).collect();
            let mut cells: BTreeMap<u64, [f64; 3]> = BTreeMap::new();
            for words in share_words(validation, own) {
                for [cell, rest @ ..] in words.as_chunks::<4>().0 {
                    let to = cells.entry(*cell).or_default();
                    to.iter_mut().zip(rest).for_each(|(to, word)| *to += f64::from_bits(*word));
                }
            }
            let (mut more, mut pairs) = (0.0, 0.0);
            for [n, sum, squares] in cells.into_values() {
                more += sum * sum - squares;
                pairs += n * (n - 1.0);
            }
            found.push(match pairs < 1.0 {
                true => Evidence { sigmas: 0.0, share: 0.0 },
                false => Evidence {
                    sigmas: more / (noise * (2.0 * pairs).sqrt()).max(f64::MIN_POSITIVE),
                    share: more / pairs / noise,
                },
            });
        }
        found
    }
}

fn sorted(cells: HashMap<u64, [f64; 3]>) -> Vec<u64> {
    let mut cells: Vec<(u64, [f64; 3])> = cells.into_iter().collect();
    cells.sort_unstable_by_key(|(cell, _)| *cell);
    let words = cells.into_iter();
    words
        .flat_map(|(cell, [n, sum, squares])| [cell, n.to_bits(), sum.to_bits(), squares.to_bits()])
        .collect()
}

/// What is left of train entries, added up by the cells of some pairs: a table of rows_a x rows_b numbers for each, as
/// long as there is room. One pass.
pub(super) fn tables(
    data: &Data<'_>,
    rows: &[usize],
    pairs: &[[usize; 2]],
    left: &(dyn Fn(f64, &[u32]) -> f64 + Sync),
) -> Result<Vec<Option<Vec<f64>>>> {
    let mut total = 0usize;
    let fits: Vec<bool> = pairs
        .iter()
        .map(|&[a, b]| {
            let more = total.saturating_add(rows[a].saturating_mul(rows[b]));
            let fits = more <= MOST_IN_TABLES;
            total = if fits { more } else { total };
            fits
        })
        .collect();
    if total == 0 {
        return Ok(vec![None; pairs.len()]);
    }
    let small = pairs.iter().zip(&fits).filter(|(_, fits)| **fits);
    let kinds: Vec<Cells> = small.map(|(pair, _)| Cells::pair(*pair, rows)).collect();
    let mut sums = add_up(data, rows, &kinds, left)?.into_iter();
    Ok(fits.into_iter().map(|fits| if fits { sums.next() } else { None }).collect())
}

/// Rows of level b, d numbers each, in the directions that a table has most in.
pub(super) fn directions(table: &[f64], [of_a, of_b]: [&[f64]; 2], d: usize, seed: u64) -> Result<Vec<f64>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut phi: Vec<f64> = (0..of_b.len() * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    for _ in 0..ROUNDS {
        phi = orthonormal(phi, of_b, d)?;
        let mut next = vec![0.0; phi.len()];
        for (sums, n) in table.chunks_exact(of_b.len()).zip(of_a) {
            let mut row = vec![0.0; d];
            for (x, phi) in sums.iter().zip(phi.chunks_exact(d)).filter(|(x, _)| **x != 0.0) {
                row.iter_mut().zip(phi).for_each(|(to, phi)| *to += x * phi);
            }
            row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING);
            for (x, next) in sums.iter().zip(next.chunks_exact_mut(d)).filter(|(x, _)| **x != 0.0) {
                next.iter_mut().zip(&row).for_each(|(to, row)| *to += x * row);
            }
        }
        for (row, n) in next.chunks_exact_mut(d).zip(of_b) {
            row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING);
        }
        phi = next;
    }
    orthonormal(phi, of_b, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_few_whatever_the_number_of_entries_and_modes() {
        for order in 2..=8 {
            let pairs = pairs_of(order).len() as u64;
            for entries in [0, 1000, 1 << 18, 1 << 20, 100_000_000, 1 << 50] {
                let every = every(entries, order);
                assert!(entries * pairs / every <= MOST_CELLS, "{entries} of {order} modes");
                assert!(every == 1 || entries * pairs > MOST_CELLS, "{entries} of {order} modes");
                assert!(most_cells(entries, order) >= entries * pairs / every);
                assert!(most_cells(entries, order) <= MOST_CELLS);
            }
        }
    }
}
