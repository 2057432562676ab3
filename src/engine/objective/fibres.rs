//! Entries that share a fibre, and what their residuals say of the subspace of a mode.
//!
//! With E the residual's unfolding along a mode, E E^T has its leading eigenvectors where components are missing. Of
//! sparse data only entries that share a fibre (all indices but the mode's) add to it off the diagonal, and the
//! diagonal is left out: it says how many entries a row has, and nothing of directions. These entries are few, so they
//! are collected in one pass, and power iterations need no further one.

use super::coordinates::Coordinates;
use super::remote_rows::RemoteRows;
use super::streamed::{Stored, Streamed};
use super::targets::Targets;
use crate::error::Result;
use crate::kernel::{self, Workspace};
use crate::manifold::{Distribution, Point, orthonormalize};
use crate::reduce::{own_lanes, share_words};
use crate::rows::Rows;
use crate::stream::Stream;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use xxhash_rust::xxh3::xxh3_64;

// What other values do: docs/thresholds.md.
/// Residuals are clipped at about this share of their root mean square: a few large ones would be all that the spectrum
/// sees, products of normal numbers having heavy tails.
const CLIP: f64 = 0.5;
/// Vectors that power iterations turn together, and how often: the leading eigenvalues may be close to one another.
const COLUMNS: usize = 3;
const ROUNDS: usize = 30;
/// Bytes of a record, and of what is made of it in the end.
pub(super) const RECORD: u64 = 24;
/// The lowest bit of a key says that entries of the fibre may lie in another block.
const OPEN: u64 = 1;

/// The entries of a mode that share fibres with others.
#[derive(Debug, Default)]
pub struct Fibres {
    ids: Vec<u32>,
    /// Clipped, in units of their root mean square.
    residuals: Vec<f32>,
    /// Where each fibre ends.
    ends: Vec<u32>,
}

/// An entry of a fibre.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    /// Stands for the fibre.
    key: u64,
    id: u32,
    /// The bits of the residual.
    residual: u32,
}

/// What a lane has collected, per level but the first.
struct Kept {
    levels: Vec<Level>,
    slice: Option<(u32, u32)>,
}

#[derive(Default)]
struct Level {
    kept: Vec<Record>,
    /// Those of the present block.
    fresh: Vec<Record>,
    /// Of these, how many are of its first slice, and where those of its last one begin.
    first: usize,
    last: usize,
    /// Fibres with a key from here on are left out.
    limit: u64,
    most: usize,
}

/// The clipped residuals of the entries that share fibres at a point, in the model's own factors, for every level but the
/// first; `rms` is the root mean square of the residuals. Of more than `most` entries per level those of some fibres are
/// taken, by a hash. One pass.
///
/// In other coordinates residuals are e_i / sqrt(p_i), p_i being the weight of the row in the mode: then all rows have as much
/// of their own in the matrix as V has, and as much noise. (With the weights of the other modes, too, a few rare cells
/// would be all that the spectrum sees.)
///
/// All processes get the same.
pub fn shared_fibres(
    data: &Streamed,
    point: &Point,
    coordinates: Option<&Coordinates>,
    rms: f64,
    most: usize,
) -> Result<Vec<Fibres>> {
    let (train, order) = (data.train(), data.mode_order());
    let stored = Stored::new(&point.core, order);
    let mut room = RemoteRows::default();
    let view = stored.view(&room.of(&point.factors, order, data.exchange()));
    let targets = Targets::new(data.biases(), order);
    let most = (most / train.all_lanes().len()).max(1);
    let lanes = own_lanes(train, |lane| {
        let mut kept = Kept::new(order.len() - 1, most);
        let (mut workspace, mut values) = (Workspace::new(), Vec::new());
        train.for_each(lane, |block| {
            let block = targets.view(block, &mut values);
            kernel::for_each_prediction(&block, &view, &mut workspace, |ids, value, weight, prediction| {
                let residual = weight * clipped((value - prediction) / rms);
                if residual != 0.0 && residual.is_finite() {
                    kept.add(ids, residual as f32);
                }
            });
            kept.end_block();
            Ok(())
        })?;
        Ok(kept)
    })?;
    let mut fibres = together(train, lanes, order.len() - 1);
    if let Some(coordinates) = coordinates {
        for (fibres, &mode) in fibres.iter_mut().zip(&order[1..]) {
            fibres.scale(coordinates.scales(mode));
        }
    }
    Ok(fibres)
}

/// e / sqrt(1 + (e / c)^2).
fn clipped(e: f64) -> f64 {
    e / (1.0 + (e / CLIP).powi(2)).sqrt()
}

/// What all lanes of all processes have collected, level by level.
fn together(train: &Stream, lanes: Vec<Kept>, levels: usize) -> Vec<Fibres> {
    let mut found: Vec<(u64, Vec<Record>)> = (0..levels).map(|_| (u64::MAX, Vec::new())).collect();
    let mut add = |level: usize, limit: u64, records: &mut dyn Iterator<Item = Record>| {
        let (least, all) = &mut found[level];
        *least = limit.min(*least);
        all.extend(records);
    };
    if train.team().is_alone() {
        for lane in lanes {
            for (number, level) in lane.levels.into_iter().enumerate() {
                add(number, level.limit, &mut level.kept.into_iter());
            }
        }
    } else {
        let own = lanes.into_iter().map(Kept::into_words).collect();
        for words in share_words(train, own) {
            let mut rest = words.as_slice();
            for number in 0..levels {
                let [limit, count, tail @ ..] = rest else { break };
                let (own, behind) = tail.split_at((2 * *count as usize).min(tail.len()));
                add(number, *limit, &mut own.chunks_exact(2).map(Record::of_words));
                rest = behind;
            }
        }
    }
    found.into_iter().map(|(limit, records)| Fibres::new(records, limit)).collect()
}

impl Record {
    fn words(self) -> [u64; 2] {
        [self.key, u64::from(self.id) << 32 | u64::from(self.residual)]
    }

    fn of_words(words: &[u64]) -> Self {
        Record { key: words[0], id: (words[1] >> 32) as u32, residual: words[1] as u32 }
    }
}

impl Kept {
    fn new(levels: usize, most: usize) -> Self {
        let level = || Level { limit: u64::MAX, most, ..Level::default() };
        Kept { levels: (0..levels).map(|_| level()).collect(), slice: None }
    }

    /// Takes an entry, its ids in the order of levels.
    fn add(&mut self, ids: &[u32], residual: f32) {
        let slice = ids[0];
        let (first, last) = *self.slice.get_or_insert((slice, slice));
        self.slice = Some((first, slice));
        let mut others = [0u32; crate::MAX_ORDER];
        for (number, level) in self.levels.iter_mut().enumerate() {
            if slice != last {
                level.last = level.fresh.len();
            }
            let others = &mut others[..ids.len()];
            others.copy_from_slice(ids);
            // In the place of the level's own id, its number.
            others[number + 1] = number as u32;
            let key = xxh3_64(bytemuck::cast_slice(others)) & !OPEN;
            if key < level.limit {
                level.fresh.push(Record { key, id: ids[number + 1], residual: residual.to_bits() });
            }
            if slice == first {
                level.first = level.fresh.len();
            }
        }
    }

    /// Keeps what shares a fibre with others, or may share one with entries of another block.
    fn end_block(&mut self) {
        self.slice = None;
        for level in &mut self.levels {
            let (first, last) = (level.first, level.last);
            for (place, record) in level.fresh.iter_mut().enumerate() {
                if place < first || place >= last {
                    record.key |= OPEN;
                }
            }
            level.fresh.sort_unstable_by_key(|record| (record.key | OPEN, record.id));
            for fibre in level.fresh.chunk_by(|a, b| a.key | OPEN == b.key | OPEN) {
                if fibre.len() > 1 || fibre[0].key & OPEN != 0 {
                    level
                        .kept
                        .extend(fibre.iter().map(|record| Record { key: record.key & !OPEN, ..*record }));
                }
            }
            level.fresh.clear();
            (level.first, level.last) = (0, 0);
            while level.kept.len() > level.most && level.limit > 1 {
                level.limit /= 2;
                let limit = level.limit;
                level.kept.retain(|record| record.key < limit);
            }
        }
    }

    fn into_words(self) -> Vec<u64> {
        let mut words = Vec::new();
        for level in self.levels {
            words.extend([level.limit, level.kept.len() as u64]);
            words.extend(level.kept.into_iter().flat_map(Record::words));
        }
        words
    }
}

impl Fibres {
    fn new(mut records: Vec<Record>, limit: u64) -> Self {
        records.retain(|record| record.key < limit);
        records.sort_unstable();
        let mut fibres = Fibres::default();
        for fibre in records.chunk_by(|a, b| a.key == b.key).filter(|fibre| fibre.len() > 1) {
            for record in fibre {
                fibres.ids.push(record.id);
                fibres.residuals.push(f32::from_bits(record.residual));
            }
            fibres.ends.push(fibres.ids.len() as u32);
        }
        fibres
    }

    /// Every residual times the number of its row.
    fn scale(&mut self, by: &[f64]) {
        for (residual, &id) in self.residuals.iter_mut().zip(&self.ids) {
            *residual *= by[id as usize] as f32;
        }
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.ids.len()
    }

    /// The leading eigenvector of the sum over fibres of e_i e_i', i != i', over `rows` rows, and how many times larger its
    /// eigenvalue is than one of chance, with signs drawn anew. None where there are not enough entries to tell, or
    /// nothing that they have in common. The residuals are used up.
    pub fn leading(&mut self, rows: usize, seed: u64) -> Option<(Vec<f64>, f64)> {
        if self.entries() < rows {
            return None;
        }
        let (value, vector) = self.largest(rows, seed)?;
        let mut rng = Pcg64::seed_from_u64(seed);
        self.residuals.iter_mut().for_each(|e| *e *= Distribution::Gaussian.draw(&mut rng).signum() as f32);
        let chance = self.largest(rows, seed).map_or(0.0, |(value, _)| value);
        Some((vector, value / chance))
    }

    /// The largest eigenvalue, and its eigenvector.
    fn largest(&self, rows: usize, seed: u64) -> Option<(f64, Vec<f64>)> {
        let columns = COLUMNS.min(rows);
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut vectors = Rows::zeros(rows, columns);
        vectors.as_mut_slice().iter_mut().for_each(|x| *x = Distribution::Gaussian.draw(&mut rng));
        orthonormalize(&mut vectors).ok()?;
        let mut product = Rows::zeros(rows, columns);
        for _ in 0..ROUNDS {
            self.multiply(&vectors, &mut product);
            let (values, _) = vectors.gram(&product).symmetric_eigen()?;
            // Without its diagonal the matrix has negative eigenvalues as well: raised, they are not the largest.
            let least = values.into_iter().fold(0.0, f64::min);
            product.axpy(-least, &vectors);
            std::mem::swap(&mut vectors, &mut product);
            orthonormalize(&mut vectors).ok()?;
        }
        self.multiply(&vectors, &mut product);
        let (values, turn) = vectors.gram(&product).symmetric_eigen()?;
        let best = (0..columns).max_by(|&a, &b| values[a].total_cmp(&values[b]))?;
        if values[best].is_nan() || values[best] <= 0.0 {
            return None;
        }
        vectors.multiply(&turn);
        Some((values[best], (0..rows).map(|row| vectors.row(row)[best]).collect()))
    }

    /// to = M from.
    fn multiply(&self, from: &Rows, to: &mut Rows) {
        to.fill(0.0);
        let mut sums = vec![0.0; from.rank()];
        let mut start = 0;
        for &end in &self.ends {
            let fibre = start..end as usize;
            start = end as usize;
            sums.fill(0.0);
            for entry in fibre.clone() {
                let e = f64::from(self.residuals[entry]);
                let row = from.row(self.ids[entry] as usize);
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += e * x);
            }
            for entry in fibre {
                let (e, id) = (f64::from(self.residuals[entry]), self.ids[entry] as usize);
                let out = to.row_mut(id).iter_mut().zip(&sums).zip(from.row(id));
                out.for_each(|((out, sum), x)| *out += e * (sum - e * x));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of a small tensor, some in the same fibres.
    fn entries(seed: u64, count: usize, dims: [u32; 3]) -> Vec<([u32; 3], f32)> {
        let mut state = seed;
        let mut next = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(below)) as u32
        };
        let mut all: Vec<[u32; 3]> = (0..count).map(|_| dims.map(&mut next)).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|ids| (ids, (ids[0] * 7 + ids[1] * 3 + ids[2]) as f32 % 5.0 - 2.0)).collect()
    }

    fn collect(entries: &[([u32; 3], f32)], cuts: &[usize], lanes: &[usize], most: usize) -> Vec<Fibres> {
        let mut kept: Vec<Kept> = vec![Kept::new(2, most)];
        for (place, (ids, residual)) in entries.iter().enumerate() {
            if cuts.contains(&place) || lanes.contains(&place) {
                kept.last_mut().unwrap().end_block();
            }
            if lanes.contains(&place) {
                kept.push(Kept::new(2, most));
            }
            kept.last_mut().unwrap().add(ids, *residual);
        }
        kept.last_mut().unwrap().end_block();
        let mut found: Vec<(u64, Vec<Record>)> = (0..2).map(|_| (u64::MAX, Vec::new())).collect();
        for lane in kept {
            for (number, level) in lane.levels.into_iter().enumerate() {
                found[number].0 = found[number].0.min(level.limit);
                found[number].1.extend(level.kept);
            }
        }
        found.into_iter().map(|(limit, records)| Fibres::new(records, limit)).collect()
    }

    /// M by its definition: all pairs of entries.
    fn naive(entries: &[([u32; 3], f32)], level: usize, from: &Rows) -> Rows {
        let mut to = Rows::zeros(from.rows(), from.rank());
        for (a, e) in entries {
            for (b, f) in entries {
                let same = (0..3).filter(|&other| other != level).all(|other| a[other] == b[other]);
                if same && a != b {
                    for column in 0..from.rank() {
                        let x = from.row(b[level] as usize)[column];
                        to.row_mut(a[level] as usize)[column] += f64::from(*e) * f64::from(*f) * x;
                    }
                }
            }
        }
        to
    }

    #[test]
    fn products_are_those_of_all_pairs_wherever_blocks_and_lanes_end() {
        let entries = entries(3, 400, [6, 9, 11]);
        let far = 10 * entries.len();
        for (cuts, lanes) in
            [(vec![], vec![]), (vec![7, 40, 41, 200], vec![100, 250]), (vec![150], vec![151])]
        {
            let fibres = collect(&entries, &cuts, &lanes, far);
            for (level, rows) in [(1, 9), (2, 11)] {
                let mut from = Rows::zeros(rows, 2);
                from.as_mut_slice().iter_mut().enumerate().for_each(|(n, x)| *x = ((n * n) % 7) as f64 - 3.0);
                let (mut fast, slow) = (Rows::zeros(rows, 2), naive(&entries, level, &from));
                fibres[level - 1].multiply(&from, &mut fast);
                fast.axpy(-1.0, &slow);
                assert!(fast.as_slice().iter().all(|x| x.abs() < 1e-9), "level {level}, cuts {cuts:?}");
            }
        }
    }

    #[test]
    fn whole_fibres_are_left_out_where_there_are_too_many() {
        let entries = entries(5, 3000, [5, 40, 30]);
        let all = collect(&entries, &[1000], &[2000], 100_000);
        let some = collect(&entries, &[1000], &[2000], 200);
        for (all, some) in all.iter().zip(&some) {
            assert!(some.entries() > 20 && some.entries() <= 400 && some.entries() < all.entries());
            let fibre = |of: &Fibres, n: usize| {
                let start = if n == 0 { 0 } else { of.ends[n - 1] as usize };
                (
                    of.ids[start..of.ends[n] as usize].to_vec(),
                    of.residuals[start..of.ends[n] as usize].to_vec(),
                )
            };
            let whole: Vec<_> = (0..all.ends.len()).map(|n| fibre(all, n)).collect();
            assert!((0..some.ends.len()).all(|n| whole.contains(&fibre(some, n))));
        }
    }

    #[test]
    fn a_direction_that_entries_have_in_common_is_found() {
        // e_ij = u_i s_j: one component, a tenth of the cells.
        let u: Vec<f64> = (0..50).map(|i| f64::from((i * 37) % 11) - 5.0).collect();
        let mut records = Vec::new();
        for fibre in 0..400u64 {
            let sign = if fibre % 3 == 0 { -1.0 } else { 1.0 };
            for id in 0..50u32 {
                if xxh3_64(&[id as u8, fibre as u8, (fibre >> 8) as u8]).is_multiple_of(10) {
                    let residual = ((u[id as usize] * sign) as f32).to_bits();
                    records.push(Record { key: fibre << 1, id, residual });
                }
            }
        }
        let mut fibres = Fibres::new(records, u64::MAX);
        let (found, beyond) = fibres.leading(50, 1).unwrap();
        let dot: f64 = found.iter().zip(&u).map(|(a, b)| a * b).sum();
        let cosine = dot.abs() / u.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(cosine > 0.98, "{cosine}");
        let (_, by_chance) = fibres.leading(50, 2).unwrap();
        assert!(beyond > 2.0 && by_chance < 1.2, "{beyond} {by_chance}: signs were drawn anew");
        assert!(fibres.leading(100_000, 1).is_none(), "too few entries for so many rows");
    }
}
