//! Entries of some slices, together: ordered by the rows whose sums they are added to, so that every such row is
//! read and written once for all of them.

use super::pass::sums_width;
use crate::kernel::{Pick, Picked};
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
/// What an entry takes.
const ENTRY_BYTES: usize = 2 * size_of::<Pick>() + crate::MAX_ORDER * size_of::<u32>();
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
    /// The entries, and room to sort them.
    pub(super) picks: Vec<Pick>,
    room: Vec<Pick>,
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
            room: Vec::new(),
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

    /// Puts the entries in order, all of them below `rows`.
    pub(super) fn sort(&mut self, rows: usize) {
        let bits = usize::BITS - rows.leading_zeros();
        let rounds = bits.div_ceil(DIGIT).max(1);
        let digit = bits.div_ceil(rounds);
        self.room.resize(self.picks.len(), Pick::default());
        let mut starts = vec![0u32; 1 << digit];
        for round in 0..rounds {
            let of = |pick: &Pick| (pick.to >> (round * digit)) as usize & ((1 << digit) - 1);
            starts.fill(0);
            self.picks.iter().for_each(|pick| starts[of(pick)] += 1);
            let mut sum = 0;
            starts.iter_mut().for_each(|count| sum += std::mem::replace(count, sum));
            for pick in &self.picks {
                let place = &mut starts[of(pick)];
                self.room[*place as usize] = *pick;
                *place += 1;
            }
            std::mem::swap(&mut self.picks, &mut self.room);
        }
    }

    /// Forgets the entries; slices stay where `within` one that is not at its end.
    pub(super) fn clear(&mut self, within: bool) {
        self.picks.clear();
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

    #[test]
    fn entries_come_in_the_order_of_rows_and_of_their_own() {
        for rows in [1u64, 2, 300, 2048, 5_000_000] {
            let mut batch = Batch::new(rows as usize, 3);
            let mut state = 1u64;
            let mut plain = Vec::new();
            for n in 0..1000u32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let to = ((state >> 33) % rows) as u32;
                batch.picks.push(Pick { to, from: n, ..Pick::default() });
                plain.push((to, n));
            }
            plain.sort_unstable();
            batch.sort(rows as usize);
            for (pick, &(to, from)) in batch.picks.iter().zip(&plain) {
                assert_eq!((pick.to, pick.from), (to, from));
            }
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
