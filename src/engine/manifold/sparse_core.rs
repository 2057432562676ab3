//! Cores of which nearly all numbers are zero, and what can be asked of a core of either kind.
//!
//! Components of a few pairs of modes are a Tucker tensor whose core has a number per component: of five modes with
//! forty columns each it would have a hundred million, of which a hundred are not zero.

use super::core_tensor::Core;
use crate::MAX_ORDER;

/// Slices of a core up to this many numbers are added up without asking for memory.
const SMALL: usize = 512;

impl Core {
    /// A core of zeros but for these numbers: `places` has their indices, one after the other.
    ///
    /// # Panics
    ///
    /// If there are not D indices per number, each below the rank of its mode, or if a rank is 0.
    pub fn sparse(ranks: &[usize], places: Vec<u32>, numbers: Vec<f64>) -> Self {
        assert!(Self::fits(ranks, &places, &numbers), "indices of the numbers of a core");
        Core { ranks: ranks.to_vec(), data: numbers, places: Some(places) }
    }

    /// The same with its zeros.
    ///
    /// # Panics
    ///
    /// As [`sparse`](Self::sparse).
    pub fn scattered(ranks: &[usize], places: &[u32], numbers: &[f64]) -> Self {
        assert!(Self::fits(ranks, places, numbers), "indices of the numbers of a core");
        let mut core = Core::zeros(ranks);
        for (place, number) in places.chunks_exact(ranks.len()).zip(numbers) {
            let position = place.iter().zip(ranks).fold(0, |at, (&index, rank)| at * rank + index as usize);
            core.data[position] = *number;
        }
        core
    }

    /// Whether these can be the numbers of a sparse core: they may come from a file.
    pub fn fits(ranks: &[usize], places: &[u32], numbers: &[f64]) -> bool {
        let below = |place: &[u32]| place.iter().zip(ranks).all(|(&index, &rank)| (index as usize) < rank);
        (1..=MAX_ORDER).contains(&ranks.len())
            && ranks.iter().all(|&rank| rank > 0)
            && places.len() == ranks.len() * numbers.len()
            && places.chunks_exact(ranks.len()).all(below)
    }

    /// The indices of the numbers of a sparse core, one after the other; `None` where it is dense.
    pub fn places(&self) -> Option<&[u32]> {
        self.places.as_deref()
    }

    /// The numbers that are kept: all, last mode fastest, or those of a sparse core.
    pub fn numbers(&self) -> &[f64] {
        &self.data
    }

    /// Calls `each(indices, number)` with every number that is not zero.
    pub fn for_each_nonzero(&self, mut each: impl FnMut(&[u32], f64)) {
        let order = self.ranks.len();
        if let Some(places) = &self.places {
            for (place, &number) in places.chunks_exact(order).zip(&self.data) {
                each(place, number);
            }
            return;
        }
        let mut place = [0; MAX_ORDER];
        for (position, &number) in self.data.iter().enumerate().filter(|(_, number)| **number != 0.0) {
            let mut rest = position;
            for (mode, rank) in self.ranks.iter().enumerate().rev() {
                place[mode] = (rest % rank) as u32;
                rest /= rank;
            }
            each(&place[..order], number);
        }
    }

    /// G x_1 rows\[0\] ... x_D rows\[D - 1\].
    pub fn value_at(&self, rows: &[&[f64]]) -> f64 {
        if self.places.is_some() {
            return self.sparse_value(|mode| rows[mode]);
        }
        // The first mode first: whole slices are added up, in vectors, and nothing of the core is copied.
        let slice = self.data.len() / rows[0].len();
        let (mut small, mut large) = ([0.0; SMALL], Vec::new());
        let room = match slice <= SMALL {
            true => &mut small[..slice],
            false => {
                large.resize(slice, 0.0);
                &mut large[..]
            }
        };
        for (slice, u) in self.data.chunks_exact(slice).zip(rows[0]) {
            room.iter_mut().zip(slice).for_each(|(sum, g)| *sum += g * u);
        }
        let mut length = slice;
        for row in &rows[1..] {
            length /= row.len();
            let (first, others) = room.split_at_mut(length);
            first.iter_mut().for_each(|sum| *sum *= row[0]);
            for (slice, u) in others.chunks_exact(length).zip(&row[1..]) {
                first.iter_mut().zip(slice).for_each(|(sum, g)| *sum += g * u);
            }
        }
        room[0]
    }

    /// The same of a sparse core, without any room; 0 of a dense one.
    #[inline]
    pub fn sparse_value<'r>(&self, row: impl Fn(usize) -> &'r [f64]) -> f64 {
        let (Some(places), order) = (&self.places, self.ranks.len()) else { return 0.0 };
        let mut rows: [&[f64]; MAX_ORDER] = [&[]; MAX_ORDER];
        rows.iter_mut().enumerate().take(order).for_each(|(mode, to)| *to = row(mode));
        let mut sum = 0.0;
        for (place, number) in places.chunks_exact(order).zip(&self.data) {
            let mut product = *number;
            for (row, &index) in rows.iter().zip(place) {
                product *= row[index as usize];
            }
            sum += product;
        }
        sum
    }

    /// Contracted with a row in every mode but those of `kept` (ascending): what is left has the ranks of these
    /// modes, the last running fastest. `None` in `rows` counts as zeros.
    pub fn contract(&self, rows: &[Option<&[f64]>], kept: &[usize]) -> Vec<f64> {
        if self.places.is_some() {
            return self.contract_sparse(rows, kept);
        }
        let mut rest = self.data.clone();
        let mut right = 1; // the product of the kept ranks behind the mode
        for mode in (0..self.ranks.len()).rev() {
            let rank = self.ranks[mode];
            if kept.contains(&mode) {
                right *= rank;
                continue;
            }
            let left = rest.len() / (rank * right);
            let mut next = vec![0.0; left * right];
            if let Some(row) = rows[mode] {
                for (from, to) in rest.chunks_exact(rank * right).zip(next.chunks_exact_mut(right)) {
                    for (part, &weight) in from.chunks_exact(right).zip(row) {
                        to.iter_mut().zip(part).for_each(|(sum, g)| *sum += g * weight);
                    }
                }
            }
            rest = next;
        }
        rest
    }

    fn contract_sparse(&self, rows: &[Option<&[f64]>], kept: &[usize]) -> Vec<f64> {
        let mut left = vec![0.0; kept.iter().map(|&mode| self.ranks[mode]).product()];
        let others: Vec<usize> = (0..self.ranks.len()).filter(|mode| !kept.contains(mode)).collect();
        self.for_each_nonzero(|place, number| {
            let of = |&mode: &usize| rows[mode].map_or(0.0, |row| row[place[mode] as usize]);
            let product: f64 = others.iter().map(of).product();
            let position =
                kept.iter().fold(0, |position, &mode| position * self.ranks[mode] + place[mode] as usize);
            left[position] += number * product;
        });
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same core twice: dense, and without its zeros.
    fn both() -> (Core, Core) {
        let ranks = [2, 3, 2, 2];
        let of = |n: i32| if n % 5 == 1 { 0.0 } else { f64::from(n * n % 17) - 5.0 };
        let dense = Core::from_vec(&ranks, (0..24).map(of).collect());
        let (mut places, mut numbers) = (Vec::new(), Vec::new());
        dense.for_each_nonzero(|place, number| {
            places.extend_from_slice(place);
            numbers.push(number);
        });
        assert!(numbers.len() < 24);
        (dense, Core::sparse(&ranks, places, numbers))
    }

    #[test]
    fn contracting_all_but_some_modes_leaves_their_sums() {
        let (dense, sparse) = both();
        let ranks = dense.ranks().to_vec();
        let rows: Vec<Vec<f64>> =
            ranks.iter().map(|&r| (0..r).map(|n| 0.5 + n as f64 * 0.25).collect()).collect();
        let all: Vec<Option<&[f64]>> = rows.iter().map(|row| Some(row.as_slice())).collect();
        for kept in [vec![], vec![1], vec![3], vec![0, 2], vec![1, 3]] {
            let width: usize = kept.iter().map(|&mode| ranks[mode]).product();
            let mut naive = vec![0.0; width];
            for (at, g) in dense.as_slice().iter().enumerate() {
                let index = [at / 12, at / 4 % 3, at / 2 % 2, at % 2];
                let weight: f64 =
                    (0..4).filter(|mode| !kept.contains(mode)).map(|mode| rows[mode][index[mode]]).product();
                let place = kept.iter().fold(0, |place, &mode| place * ranks[mode] + index[mode]);
                naive[place] += g * weight;
            }
            for core in [&dense, &sparse] {
                for (a, b) in core.contract(&all, &kept).iter().zip(&naive) {
                    assert!((a - b).abs() < 1e-12, "{kept:?}: {a} {b}");
                }
            }
        }
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let (a, b) = (dense.value_at(&rows), sparse.value_at(&rows));
        assert!((a - b).abs() < 1e-12 && a != 0.0, "{a} {b}");
        let mut without = all.clone();
        without[2] = None;
        assert!(sparse.contract(&without, &[1]).iter().all(|x| *x == 0.0));
    }

    #[test]
    fn numbers_that_are_nowhere_are_no_core() {
        assert!(Core::fits(&[2, 3], &[1, 2], &[1.0]));
        for (places, numbers) in [(vec![1, 3], vec![1.0]), (vec![1, 2], vec![]), (vec![1], vec![1.0])] {
            assert!(!Core::fits(&[2, 3], &places, &numbers));
        }
        assert!(!Core::fits(&[2, 0], &[], &[]));
    }
}
