//! Whether entries are spread evenly over the rows of every mode.
//!
//! With p_i the share of row i in a mode's entries, n sum p_i^2 over its n rows is 1 where all shares are the same, and
//! grows with what they differ by. The metric takes it to be 1.

use super::bias_fit::Counts;
use crate::error::Result;
use crate::shard::Manifest;
use crate::stream::Stream;
use crate::team::Combine;

// What other values do: docs/thresholds.md.
/// From here on entries are spread unevenly. Frequencies that fall as id^-0.2 have 1.067.
const UNEVEN: f64 = 1.05;
/// Blocks of the sample.
const BLOCKS: usize = 16;
/// Of the first level a block tells little where it has fewer slices than this.
const LEAST_SLICES: u64 = 8;

/// Whether entries may be spread unevenly, as a few blocks tell. Where that is hard to tell, they may.
pub fn may_be_uneven(manifest: &Manifest, train: &Stream) -> Result<bool> {
    if manifest.weights.is_some() {
        return Ok(true);
    }
    let dims = manifest.level_dims();
    let mut sample = Sample {
        runs: [0; 3],
        last: None,
        blocks: 0,
        rows: dims.iter().skip(1).map(|&dim| vec![0; dim as usize]).collect(),
    };
    let read = train.for_each_sampled(BLOCKS, |_, block| {
        block.for_each(|ids, _| sample.add(ids));
        sample.end_block();
        Ok(())
    });
    let team = train.team();
    team.agree(read)?;
    // Whole numbers: it does not matter which process has which block.
    let mut words = [sample.runs[0], sample.runs[1], sample.runs[2], sample.blocks];
    team.combine(&mut words, Combine::Sum);
    let [entries, slices, pairs, blocks] = words;
    if slices < LEAST_SLICES * blocks {
        return Ok(true);
    }
    // An entry's slice has 1 + |Omega| sum p_i^2 entries on average.
    let first = pairs as f64 / entries as f64 * f64::from(dims[0]) / manifest.train.entries as f64;
    let mut all = vec![first];
    for (counts, &dim) in sample.rows.iter_mut().zip(&dims[1..]) {
        team.combine(counts, Combine::Sum);
        // Of two entries that are drawn, both are of row i with probability p_i^2.
        let pairs: f64 = counts.iter().map(|&n| n as f64 * (n as f64 - 1.0)).sum();
        all.push(f64::from(dim) * pairs / (entries as f64 * (entries as f64 - 1.0)).max(1.0));
    }
    Ok(all.into_iter().any(|unevenness| unevenness > UNEVEN))
}

/// Whether entries are spread unevenly over the rows of a mode, less what chance makes of even ones.
pub fn is_uneven(counts: &Counts, entries: u64) -> bool {
    counts.modes.iter().any(|weights| {
        let (sum, squares) = weights.iter().fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        weights.len() as f64 * (squares / (sum * sum) - 1.0 / entries as f64) > UNEVEN
    })
}

/// What the blocks of a sample tell.
struct Sample {
    /// Entries, runs of entries of one slice, and ordered pairs of entries in these.
    runs: [u64; 3],
    /// The slice of the present run, and its entries so far.
    last: Option<(u32, u64)>,
    blocks: u64,
    /// Entries of every row, per level but the first.
    rows: Vec<Vec<u64>>,
}

impl Sample {
    fn add(&mut self, ids: &[u32]) {
        match &mut self.last {
            Some((slice, entries)) if *slice == ids[0] => *entries += 1,
            _ => {
                self.end_run();
                self.last = Some((ids[0], 1));
            }
        }
        for (counts, &id) in self.rows.iter_mut().zip(&ids[1..]) {
            counts[id as usize] += 1;
        }
    }

    fn end_run(&mut self) {
        if let Some((_, entries)) = self.last.take() {
            self.runs[0] += entries;
            self.runs[1] += 1;
            self.runs[2] += entries * (entries - 1);
        }
    }

    fn end_block(&mut self) {
        self.end_run();
        self.blocks += 1;
    }
}
