//! Entries of some slices, together: ordered by the rows whose sums they are added to, so that every such row is
//! read and written once for all of them.

use super::pass::sums_width;
use crate::kernel::{Group, Pick, Picked};
use crate::rows::triangle_len;

/// The most slices, and the most memory of what they give to their entries: 64 columns of so many slices are in a
/// processor's own cache.
const MOST_SLICES: usize = 1536;
const PANEL_BYTES: usize = 2 << 20;
/// The most entries, and how many there are per row of the target where there is room for them: each such row is read
/// and written once for all of them. All of these are constants of the results.
const MOST: usize = 1 << 17;
const PER_ROW: usize = 16;
const FEWEST: usize = 1 << 13;
/// What an entry takes: itself, its row and its weight, and room to sort them; a group, where it is one by itself; its
/// indices.
const ENTRY_BYTES: usize = 2 * (size_of::<Pick>() + size_of::<u32>() + size_of::<f64>())
    + size_of::<Group>()
    + crate::MAX_ORDER * size_of::<u32>();
/// Bits of a row that entries are put in order by at a time: where there are no more, that is once, and more counts than
/// these would be too many for a processor's own cache.
const DIGIT: u32 = 14;

/// The most entries on their way to so many rows.
fn most_entries(rows: usize) -> usize {
    (rows * PER_ROW).next_power_of_two().clamp(FEWEST, MOST)
}

/// The most slices with rows of so many numbers.
fn most_slices(k: usize) -> usize {
    let layout = layout(k, 0);
    (PANEL_BYTES / (size_of::<f32>() * layout.width())).clamp(4, MOST_SLICES)
}

/// What a batch takes in all.
pub(super) fn batch_bytes(rows: u64, k: usize) -> u64 {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(MOST);
    let panel = most_slices(k) * size_of::<f32>() * layout(k, 0).width();
    (panel + most_entries(rows) * ENTRY_BYTES) as u64
}

/// Entries whose factors are in memory together.
pub(super) const SCALED: usize = 64;

/// Entries that wait to be added to the sums of rows of k numbers.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) layout: Picked,
    /// Per slice the products of its row, what the covariance with its bias takes away from the right side, and the
    /// row itself.
    pub(super) panel: Aligned<f32>,
    slices: usize,
    most: usize,
    /// The entries, the rows that they are added to, and their weights; none where all are 1.
    pub(super) picks: Vec<Pick>,
    pub(super) rows: Vec<u32>,
    pub(super) weights: Vec<f64>,
    /// Those of one row, when they are in order.
    pub(super) groups: Vec<Group>,
    /// Room to sort them.
    room: (Vec<Pick>, Vec<u32>, Vec<f64>),
    /// The indices of all other levels, where they matter.
    pub(super) at: Vec<u32>,
}

/// Numbers that begin where a line of the cache does: vectors of eight of them lie in one line each then, and not in
/// two, which takes twice the time.
#[derive(Debug)]
pub(super) struct Aligned<T = f64> {
    numbers: Vec<T>,
    from: usize,
}

impl<T: Clone> Aligned<T> {
    const LINE: usize = 64;

    /// So many, all alike.
    pub(super) fn new(count: usize, x: T) -> Self {
        let numbers = vec![x; count + Self::LINE / size_of::<T>()];
        let from = numbers.as_ptr().align_offset(Self::LINE).min(Self::LINE / size_of::<T>());
        Aligned { numbers, from }
    }

    pub(super) fn numbers(&self) -> &[T] {
        let count = self.numbers.len() - Self::LINE / size_of::<T>();
        &self.numbers[self.from..][..count]
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [T] {
        let count = self.numbers.len() - Self::LINE / size_of::<T>();
        &mut self.numbers[self.from..][..count]
    }
}

/// Where sums and rows of k numbers are.
pub(super) fn layout(k: usize, rows: usize) -> Picked {
    Picked { sums: sums_width(k), second: k.next_multiple_of(Picked::TILE), at: triangle_len(k), rows }
}

impl Batch {
    /// For so many rows of k numbers.
    pub(super) fn new(rows: usize, k: usize) -> Self {
        let layout = layout(k, most_slices(k));
        Batch {
            layout,
            panel: Aligned::new(layout.rows * layout.width(), 0.0),
            slices: 0,
            most: most_entries(rows.min(MOST)),
            picks: Vec::new(),
            rows: Vec::new(),
            weights: Vec::new(),
            groups: Vec::new(),
            room: Default::default(),
            at: Vec::new(),
        }
    }

    /// Whether it is one for so many rows of k numbers.
    pub(super) fn is_for(&self, rows: usize, k: usize) -> bool {
        self.layout == layout(k, most_slices(k)) && self.most == most_entries(rows.min(MOST))
    }

    /// Whether another slice has no room.
    pub(super) fn is_full(&self) -> bool {
        self.slices == self.layout.rows
    }

    /// How many entries have room.
    pub(super) fn room(&self) -> usize {
        self.most - self.picks.len()
    }

    /// Takes what another slice gives to its entries, and returns its number.
    pub(super) fn slice(&mut self, row: &[f64]) -> u32 {
        let number = self.slices;
        self.layout.put(row, number, self.panel.numbers_mut());
        self.slices += 1;
        number as u32
    }

    /// Takes the weights of entries that come next.
    pub(super) fn weigh(&mut self, weights: &[f64]) {
        if !self.weights.is_empty() || weights.iter().any(|&weight| weight != 1.0) {
            // Those before had none but 1.
            self.weights.resize(self.picks.len(), 1.0);
            self.weights.extend_from_slice(weights);
        }
    }

    /// Puts the entries in order, all of them below `rows`.
    pub(super) fn sort(&mut self, rows: usize) {
        let bits = usize::BITS - rows.leading_zeros();
        let rounds = bits.div_ceil(DIGIT).max(1);
        let digit = bits.div_ceil(rounds);
        let Batch { picks, rows: of, weights, groups, room: (other, other_of, other_weights), .. } = self;
        other.resize(picks.len(), Pick::default());
        other_weights.resize(weights.len(), 0.0);
        groups.clear();
        let mut starts = vec![0u32; 1 << digit];
        for round in 0..rounds {
            let digit_of = |row: u32| (row >> (round * digit)) as usize & ((1 << digit) - 1);
            starts.fill(0);
            of.iter().for_each(|&row| starts[digit_of(row)] += 1);
            if rounds == 1 {
                let there = starts.iter().enumerate().filter(|(_, count)| **count > 0);
                groups.extend(there.map(|(to, &count)| Group { to: to as u32, count }));
            } else {
                other_of.resize(of.len(), 0);
            }
            let mut sum = 0;
            starts.iter_mut().for_each(|count| sum += std::mem::replace(count, sum));
            for (n, (pick, &row)) in picks.iter().zip(&*of).enumerate() {
                let place = &mut starts[digit_of(row)];
                let to = *place as usize;
                other[to] = *pick;
                // Of one round only, rows are not asked for any more.
                if rounds > 1 {
                    other_of[to] = row;
                }
                if let Some(&weight) = weights.get(n) {
                    other_weights[to] = weight;
                }
                *place += 1;
            }
            std::mem::swap(picks, other);
            std::mem::swap(weights, other_weights);
            if rounds > 1 {
                std::mem::swap(of, other_of);
            }
        }
        if rounds > 1 {
            let of = of.chunk_by(|a, b| a == b);
            groups.extend(of.map(|group| Group { to: group[0], count: group.len() as u32 }));
        }
    }

    /// Forgets the entries; slices stay where `within` one that is not at its end.
    pub(super) fn clear(&mut self, within: bool) {
        self.picks.clear();
        self.rows.clear();
        self.weights.clear();
        self.at.clear();
        if !within {
            self.slices = 0;
        }
    }
}

/// g g^T + diag(s), packed, and g: what the products of a slice are multiplied by for one entry. Only columns of
/// `varied` are other than 1 in g, and other than 0 in s: `to` has been filled with ones once, and what comes from
/// those columns is written.
#[inline(always)]
pub(super) fn factors(varied: &[usize], g: &[f64], s: &[f64], to: &mut [f64]) {
    let (mut start, mut rest) = (0, varied);
    for (i, (&x, s)) in g.iter().zip(s).enumerate() {
        let row = &mut to[start..][..=i];
        if rest.first() == Some(&i) {
            rest = &rest[1..];
            row.iter_mut().zip(g).for_each(|(to, y)| *to = x * y);
            row[i] += s;
        } else {
            for &j in &varied[..varied.len() - rest.len()] {
                row[j] = g[j];
            }
        }
        start += i + 1;
    }
    for &j in varied {
        to[start + j] = g[j];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::repeat_n;

    #[test]
    fn entries_come_in_the_order_of_rows_and_of_their_own() {
        for (rows, weighted) in
            [(1u64, true), (2, false), (300, true), (2048, false), (5_000_000, false), (5_000_000, true)]
        {
            let mut batch = Batch::new(rows as usize, 3);
            let mut state = 1u64;
            let mut plain = Vec::new();
            for n in 0..1000u32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let to = ((state >> 33) % rows) as u32;
                batch.picks.push(Pick { from: n, ..Pick::default() });
                batch.rows.push(to);
                if weighted {
                    batch.weights.push(f64::from(n));
                }
                plain.push((to, n));
            }
            plain.sort_unstable();
            batch.sort(rows as usize);
            let places = batch.groups.iter().flat_map(|group| repeat_n(group.to, group.count as usize));
            let found: Vec<(u32, u32)> = places.zip(batch.picks.iter().map(|pick| pick.from)).collect();
            assert_eq!(found, plain);
            assert!(batch.weights.iter().zip(&plain).all(|(weight, of)| *weight == f64::from(of.1)));
            assert_eq!(batch.weights.len(), if weighted { 1000 } else { 0 });
        }
    }

    #[test]
    fn factors_are_packed_products() {
        for k in [1, 3, 8, 9, 16, 21] {
            let varied: Vec<usize> = (0..k).filter(|n| n % 3 != 1).collect();
            let of = |n: usize, usual: f64, x: f64| if varied.contains(&n) { x } else { usual };
            let g: Vec<f64> = (0..k).map(|n| of(n, 1.0, 2.0 + n as f64)).collect();
            let s: Vec<f64> = (0..k).map(|n| of(n, 0.0, 0.5 * n as f64)).collect();
            let mut to = vec![1.0; layout(k, 0).sums];
            // What another entry has left behind does not matter.
            factors(&varied, &vec![7.0; k], &vec![9.0; k], &mut to);
            factors(&varied, &g, &s, &mut to);
            for i in 0..k {
                for j in 0..=i {
                    let spread = if i == j { s[i] } else { 0.0 };
                    assert_eq!(to[triangle_len(i) + j], g[i] * g[j] + spread);
                }
                assert_eq!(to[triangle_len(k) + i], g[i]);
            }
        }
    }
}
