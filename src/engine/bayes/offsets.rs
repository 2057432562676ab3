//! What is added to a value beside its rows: a number for every cell of two modes, or for the time since the first entry.
//!
//! Two modes may have more to do with each other than few components say: one airport has trouble on one day. A table
//! has a number per cell, which is what is left of its entries, damped by their noise over the variance of all numbers;
//! that is learned as the priors of rows are. Tables are fitted in passes of their own, together.

use super::grow::Evidence;
use super::row::axpy;
use super::sweeps::{Data, Fit, Posterior};
use crate::error::Result;
use crate::model::TimeBias;
use crate::reduce::{own_lanes, sum_in_order};
use crate::stream::Lane;
use crate::team::Combine;
use rayon::prelude::*;

// What other values do: docs/thresholds.md.
/// Numbers of a time bias are damped as if there were so many entries more, of nothing.
const TIME_DAMPING: f64 = 50.0;

/// Cells of all tables together, and of those of one look: in memory for every lane that is gone through.
pub(super) const MOST_IN_TABLES: usize = 1 << 20;

/// Which number of a table an entry has to do with.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// That of its rows of two levels.
    Pair {
        /// The levels.
        levels: [usize; 2],
        /// Rows of the second.
        width: usize,
    },
    /// That of the time since the first entry of its row of a level.
    Time {
        /// That level.
        of: usize,
        /// The one that tells the time.
        clock: usize,
        /// The clock's index of every row's first entry.
        first: Vec<u32>,
    },
}

impl Cells {
    /// Of two levels with so many rows each.
    pub(super) fn pair(levels: [usize; 2], rows: &[usize]) -> Self {
        Cells::Pair { levels, width: rows[levels[1]] }
    }

    /// How many numbers there are, of levels with so many rows.
    pub fn count(&self, rows: &[usize]) -> usize {
        match self {
            Cells::Pair { levels: [a, _], width } => rows[*a].saturating_mul(*width),
            Cells::Time { clock, .. } => TimeBias::buckets(rows[*clock] as u32),
        }
    }

    /// The number of an entry's indices.
    #[inline]
    pub(super) fn at(&self, indices: &[u32]) -> usize {
        match self {
            Cells::Pair { levels: [a, b], width } => indices[*a] as usize * width + indices[*b] as usize,
            Cells::Time { of, clock, first } => {
                let first = first[indices[*of] as usize];
                TimeBias::bucket(indices[*clock].saturating_sub(first))
            }
        }
    }
}

/// Numbers of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetTable {
    /// Whose they are.
    pub cells: Cells,
    /// Their means, values having the variance 1.
    pub values: Vec<f64>,
    /// The weight of their entries.
    pub counts: Vec<f64>,
    /// The variance that they have before any entry is seen.
    pub variance: f64,
}

impl OffsetTable {
    /// The number of a cell, and its variance.
    #[inline]
    fn at(&self, indices: &[u32], noise: f64) -> (f64, f64) {
        let cell = self.cells.at(indices);
        (self.values[cell], noise / (self.counts[cell] + noise / self.variance))
    }

    /// The numbers of the cells of two levels with the rows of another dataset, by where these come from; zeros for
    /// cells that were not there.
    pub(super) fn onto<'o>(
        &self,
        origins: &dyn Fn(usize) -> &'o [Option<u32>],
    ) -> Option<(Cells, Vec<f64>, f64)> {
        let Cells::Pair { levels: [a, b], width } = self.cells else { return None };
        let (of_a, of_b) = (origins(a), origins(b));
        let old =
            |a: &Option<u32>, b: &Option<u32>| Some(self.values[(*a)? as usize * width + (*b)? as usize]);
        let values = of_a.iter().flat_map(|a| of_b.iter().map(move |b| old(a, b).unwrap_or(0.0))).collect();
        Some((Cells::Pair { levels: [a, b], width: of_b.len() }, values, self.variance))
    }

    /// Fits the numbers to what their entries leave over without them.
    fn fit(&mut self, sums: &[f64], noise: f64) {
        let damping = match self.cells {
            Cells::Pair { .. } => noise / self.variance,
            Cells::Time { .. } => TIME_DAMPING,
        };
        let (mut squares, mut cells) = (0.0, 0.0);
        for ((value, &n), left) in self.values.iter_mut().zip(&self.counts).zip(sums) {
            *value = (left + n * *value) / (n + damping);
            if n > 0.0 {
                squares += *value * *value + noise / (n + damping);
                cells += 1.0;
            }
        }
        self.variance = match self.cells {
            Cells::Pair { .. } => (squares / f64::max(cells, 1.0)).max(1e-12),
            Cells::Time { .. } => noise / TIME_DAMPING,
        };
    }
}

/// The sum of an entry's numbers, and of their variances.
#[inline]
pub(super) fn offset(tables: &[OffsetTable], indices: &[u32], noise: f64) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for table in tables {
        let (value, variance) = table.at(indices, noise);
        sum = (sum.0 + value, sum.1 + variance);
    }
    sum
}

/// Adds up a number of every train entry by cells of some kinds, whose sums lie one after the other. One pass.
pub(super) fn add_up(
    data: &Data<'_>,
    rows: &[usize],
    kinds: &[Cells],
    number: &(dyn Fn(f64, &[u32]) -> f64 + Sync),
) -> Result<Vec<Vec<f64>>> {
    let counts: Vec<usize> = kinds.iter().map(|kind| kind.count(rows)).collect();
    let total = counts.iter().sum();
    let (train, per_weight) = (data.train, data.slices.per_weight);
    // These sums have the room of those of rows.
    data.slices.forget();
    let work = |lane: &Lane| -> Result<Vec<f64>> {
        let mut sums = vec![0.0; total];
        train.for_each(lane, |block| {
            block.for_each_weighted(|indices, value, weight| {
                if weight > 0.0 {
                    let (x, mut start) = (weight * per_weight * number(value, indices), 0);
                    for (kind, count) in kinds.iter().zip(&counts) {
                        sums[start + kind.at(indices)] += x;
                        start += count;
                    }
                }
            });
            Ok(())
        })?;
        Ok(sums)
    };
    let team = train.team();
    let mut sums = vec![0.0; total];
    if team.is_alone() {
        // As many lanes at a time as there are threads: that many sums are in memory.
        for lanes in train.lanes().chunks(rayon::current_num_threads()) {
            let wave: Result<Vec<Vec<f64>>> = lanes.par_iter().map(work).collect();
            wave?.iter().for_each(|lane| axpy(1.0, lane, &mut sums));
        }
    } else {
        let lanes = own_lanes(train, work)?;
        sum_in_order(team, &mut sums, lanes.iter().map(|lane| (0, lane.as_slice())));
    }
    let mut rest = &sums[..];
    Ok(counts
        .into_iter()
        .map(|count| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own.to_vec()
        })
        .collect())
}

impl Posterior {
    /// Rows per level.
    pub(super) fn rows(&self) -> Vec<usize> {
        self.levels.iter().map(|level| level.rows).collect()
    }

    /// Whether cells of pairs of modes have numbers.
    pub(super) fn has_pairs(&self) -> bool {
        self.tables.iter().any(|table| matches!(table.cells, Cells::Pair { .. }))
    }

    /// Whether there is room for a table of a pair beside those that there are, and none of it yet.
    pub(super) fn may_have_table(&self, pair: [usize; 2], more: usize) -> bool {
        let rows = self.rows();
        let is = |table: &OffsetTable| matches!(table.cells, Cells::Pair { levels, .. } if levels == pair);
        let cells: usize = self.tables.iter().map(|table| table.values.len()).sum();
        let own = Cells::pair(pair, &rows).count(&rows);
        !self.tables.iter().any(is) && own.saturating_add(cells + more) <= MOST_IN_TABLES
    }
}

impl Fit {
    /// Gives every cell of some pairs of levels a number of its own. Returns how many passes that took.
    pub fn add_tables(&mut self, data: &Data<'_>, pairs: &[([usize; 2], Evidence)]) -> Result<usize> {
        let rows = self.posterior.rows();
        let kinds = pairs.iter().map(|(pair, _)| Cells::pair(*pair, &rows)).collect();
        let variances = pairs.iter().map(|(_, evidence)| evidence.share * self.posterior.noise).collect();
        Ok(self.add_cells(data, kinds, variances)? + self.fit_tables(data)?)
    }

    fn add_cells(&mut self, data: &Data<'_>, kinds: Vec<Cells>, variances: Vec<f64>) -> Result<usize> {
        let counts = add_up(data, &self.posterior.rows(), &kinds, &|_, _| 1.0)?;
        for ((cells, variance), counts) in kinds.into_iter().zip(variances).zip(counts) {
            let values = vec![0.0; counts.len()];
            self.posterior.tables.push(OffsetTable { cells, values, counts, variance });
        }
        Ok(1)
    }

    /// Takes over tables with their numbers. Returns how many passes that took.
    pub(super) fn take_tables(
        &mut self,
        data: &Data<'_>,
        tables: Vec<(Cells, Vec<f64>, f64)>,
    ) -> Result<usize> {
        if tables.is_empty() {
            return Ok(0);
        }
        let (kinds, variances) = tables.iter().map(|(cells, _, variance)| (cells.clone(), *variance)).unzip();
        let passes = self.add_cells(data, kinds, variances)?;
        self.posterior
            .tables
            .iter_mut()
            .zip(tables)
            .for_each(|(table, (_, values, _))| table.values = values);
        Ok(passes)
    }

    /// Lets values change with the time since the first entry of a row of level `of`, told by another level. Returns
    /// how many passes that took.
    pub(super) fn add_time(&mut self, data: &Data<'_>, [of, clock]: [usize; 2]) -> Result<usize> {
        let rows = self.posterior.levels[of].rows;
        let lanes = own_lanes(data.train, |lane| {
            let mut first = vec![u32::MAX; rows];
            data.train.for_each(lane, |block| {
                block.for_each_weighted(|indices, _, weight| {
                    if weight > 0.0 {
                        let to = &mut first[indices[of] as usize];
                        *to = indices[clock].min(*to);
                    }
                });
                Ok(())
            })?;
            Ok(first)
        })?;
        let mut first = vec![u64::from(u32::MAX); rows];
        for lane in lanes {
            first.iter_mut().zip(lane).for_each(|(to, from)| *to = u64::from(from).min(*to));
        }
        data.train.team().combine(&mut first, Combine::Min);
        let first = first.into_iter().map(|first| first as u32).collect();
        let variance = self.posterior.noise / TIME_DAMPING;
        let before = self.posterior.tables.len();
        let passes = self.add_cells(data, vec![Cells::Time { of, clock, first }], vec![variance])?;
        match self.fit_tables(data) {
            Ok(more) => Ok(1 + passes + more),
            Err(error) => {
                // Whoever goes on from here adds it again.
                self.posterior.tables.truncate(before);
                Err(error)
            }
        }
    }

    /// Fits the numbers of all cells to what is left of their entries. Returns how many passes that took.
    pub(super) fn fit_tables(&mut self, data: &Data<'_>) -> Result<usize> {
        if self.posterior.tables.is_empty() {
            return Ok(0);
        }
        let kinds: Vec<Cells> = self.posterior.tables.iter().map(|table| table.cells.clone()).collect();
        let sums = add_up(data, &self.posterior.rows(), &kinds, &|value, indices| self.left(value, indices))?;
        let noise = self.posterior.noise;
        self.posterior.tables.iter_mut().zip(&sums).for_each(|(table, sums)| table.fit(sums, noise));
        Ok(1)
    }
}
