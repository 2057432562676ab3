//! A tall factor: n rows of r numbers, and the few operations that pass over all of them.
//!
//! Every sum over rows is taken over fixed chunks of [`CHUNK_ROWS`] rows, each summed in order,
//! and the chunks' sums are added in order: the same bits for any number of threads, and of
//! processes, each of which may own some of the chunks.

mod divided;
mod orthonormal;
mod posterior;
mod small_matrix;

pub use orthonormal::{Dependent, orthonormalize};
pub(crate) use posterior::{RowPrior, RowScratch, row_posterior, triangle_len};
pub use small_matrix::Square;
pub(crate) use small_matrix::left_singular;

use crate::kernel::{self, Update};
use rayon::prelude::*;

/// Rows per chunk of a parallel pass. A constant of the results, not of the machine: another
/// value gives other roundings.
pub use crate::team::CHUNK_ROWS;
use crate::team::Team;
use std::ops::Range;

/// Rows per product of a tall with a small matrix: they and their copy stay in the first cache.
const TILE_ROWS: usize = 256;

/// A tall matrix of n rows and r columns, row-major.
///
/// With several processes each may hold only the rows that it owns, [`own`](Self::own): every
/// operation is then done by all of them, each on its rows, and sums are those over all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    rows: usize,
    rank: usize,
    /// The row that the numbers begin with.
    first: usize,
    data: Vec<f64>,
    /// Who has the other rows; this process alone, where it has them all.
    team: Team,
}

impl Rows {
    /// n rows of r zeros.
    pub fn zeros(rows: usize, rank: usize) -> Self {
        Rows::zeros_on(Team::alone(), rows, rank)
    }

    /// n rows of r zeros, divided among a team.
    pub fn zeros_on(team: Team, rows: usize, rank: usize) -> Self {
        let own = team.own_rows(rows);
        Rows { rows, rank, first: own.start, data: vec![0.0; own.len() * rank], team }
    }

    /// Zeros of the same rows with another rank.
    pub fn zeros_like(&self, rank: usize) -> Self {
        Rows::zeros_on(self.team, self.rows, rank)
    }

    /// Who has the rows.
    pub fn team(&self) -> Team {
        self.team
    }

    /// The rows that this process has: all of them where it is alone.
    pub fn own(&self) -> Range<usize> {
        self.first..self.first + self.data.len() / self.rank
    }

    /// A factor of row-major numbers.
    ///
    /// # Panics
    ///
    /// If there are not `rows * rank` of them, or if the rank is 0.
    pub fn from_vec(rows: usize, rank: usize, data: Vec<f64>) -> Self {
        assert!(rank > 0, "a rank is at least 1");
        assert_eq!(data.len(), rows * rank, "rows times rank numbers");
        Rows { rows, rank, first: 0, data, team: Team::alone() }
    }

    /// The number n of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number r of columns.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Row i, one of the own.
    #[inline]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[(i - self.first) * self.rank..(i - self.first + 1) * self.rank]
    }

    /// Row i, one of the own.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        let at = (i - self.first) * self.rank;
        &mut self.data[at..at + self.rank]
    }

    /// All numbers of the own rows, row-major.
    pub fn as_slice(&self) -> &[f64] {
        &self.data
    }

    /// All numbers of the own rows, row-major.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// All numbers of the own rows, row-major.
    pub fn into_vec(self) -> Vec<f64> {
        self.data
    }

    /// Sets every number to `value`.
    pub fn fill(&mut self, value: f64) {
        self.data.fill(value);
    }

    /// self = other.
    pub fn copy_from(&mut self, other: &Rows) {
        self.check(other);
        self.data.copy_from_slice(&other.data);
    }

    /// self = a * self.
    pub fn scale(&mut self, a: f64) {
        self.each_chunk(|chunk| chunk.iter_mut().for_each(|x| *x *= a));
    }

    /// self = self + a * x.
    pub fn axpy(&mut self, a: f64, x: &Rows) {
        self.axpby(a, x, 1.0);
    }

    /// self = a * x + b * self.
    pub fn axpby(&mut self, a: f64, x: &Rows, b: f64) {
        self.check(x);
        self.each_pair(x, |own, other| {
            for (y, x) in own.iter_mut().zip(other) {
                *y = a * x + b * *y;
            }
        });
    }

    /// The r x r matrix self^T other.
    pub fn gram(&self, other: &Rows) -> Square {
        self.check(other);
        let r = self.rank;
        self.sum_chunks(|start, chunk| gram_of(chunk, &other.data[start..start + chunk.len()], r))
    }

    /// self = base + step * direction; returns self^T self of the result.
    pub fn set_moved(&mut self, base: &Rows, step: f64, direction: &Rows) -> Square {
        self.check(base);
        self.check(direction);
        let r = self.rank;
        let size = CHUNK_ROWS * r;
        let run = |(n, own): (usize, &mut [f64])| {
            let range = n * size..n * size + own.len();
            let (from, along) = (&base.data[range.clone()], &direction.data[range]);
            for ((y, b), d) in own.iter_mut().zip(from).zip(along) {
                *y = b + step * d;
            }
            gram_of(own, own, r)
        };
        let sums: Vec<Vec<f64>> = if self.rows <= CHUNK_ROWS {
            self.data.chunks_mut(size).enumerate().map(run).collect()
        } else {
            self.data.par_chunks_mut(size).enumerate().map(run).collect()
        };
        self.add_in_order(sums)
    }

    /// self = self * m.
    pub fn multiply(&mut self, m: &Square) {
        assert_eq!(self.rank, m.size(), "a factor's rank and the matrix behind it");
        self.each_chunk(|chunk| multiply(chunk, m));
    }

    /// self = self - base * m.
    pub fn subtract_product(&mut self, base: &Rows, m: &Square) {
        self.check(base);
        assert_eq!(self.rank, m.size(), "a factor's rank and the matrix behind it");
        self.each_pair(base, |own, other| subtract(own, other, m));
    }

    /// self = (self - base * m) * p, in this order: what is left is small beside what it is
    /// taken from, and p may be large.
    pub fn subtract_product_then_multiply(&mut self, base: &Rows, m: &Square, p: &Square) {
        self.check(base);
        assert_eq!(self.rank, m.size(), "a factor's rank and the matrix behind it");
        assert_eq!(self.rank, p.size(), "a factor's rank and the matrix behind it");
        self.each_pair(base, |own, other| {
            subtract(own, other, m);
            multiply(own, p);
        });
    }

    fn check(&self, other: &Rows) {
        let (own, theirs) =
            ((self.rows, self.rank, self.data.len()), (other.rows, other.rank, other.data.len()));
        assert_eq!(own, theirs, "factors of the same shape");
    }

    fn each_chunk(&mut self, each: impl Fn(&mut [f64]) + Send + Sync) {
        let size = CHUNK_ROWS * self.rank;
        if self.rows <= CHUNK_ROWS {
            each(&mut self.data);
        } else {
            self.data.par_chunks_mut(size).for_each(each);
        }
    }

    fn each_pair(&mut self, other: &Rows, each: impl Fn(&mut [f64], &[f64]) + Sync) {
        let size = CHUNK_ROWS * self.rank;
        if self.rows <= CHUNK_ROWS {
            each(&mut self.data, &other.data);
        } else {
            let pairs = self.data.par_chunks_mut(size).zip(other.data.par_chunks(size));
            pairs.for_each(|(own, other)| each(own, other));
        }
    }

    fn sum_chunks(&self, sum: impl Fn(usize, &[f64]) -> Vec<f64> + Sync) -> Square {
        let size = CHUNK_ROWS * self.rank;
        let run = |(n, chunk)| sum(n * size, chunk);
        let sums: Vec<Vec<f64>> = if self.rows <= CHUNK_ROWS {
            self.data.chunks(size).enumerate().map(run).collect()
        } else {
            self.data.par_chunks(size).enumerate().map(run).collect()
        };
        self.add_in_order(sums)
    }

    /// The sum of all chunks, those of the process with the first rows first.
    fn add_in_order(&self, sums: Vec<Vec<f64>>) -> Square {
        let mut total = Square::zeros(self.rank);
        self.team.chain_of_chunks(self.rows, total.as_mut_slice(), |total| {
            for sum in sums {
                for (t, s) in total.iter_mut().zip(sum) {
                    *t += s;
                }
            }
        });
        total
    }
}

/// a^T b over row-major rows of r numbers.
fn gram_of(a: &[f64], b: &[f64], r: usize) -> Vec<f64> {
    let mut sum = vec![0.0; r * r];
    kernel::gram(a, b, (r, r), &mut sum);
    sum
}

/// out = out - base * m.
fn subtract(out: &mut [f64], base: &[f64], m: &Square) {
    let size = TILE_ROWS * m.size();
    for (tile, base) in out.chunks_mut(size).zip(base.chunks(size)) {
        product(tile, Update::Add(-1.0), base, m);
    }
}

/// rows = rows * m.
fn multiply(rows: &mut [f64], m: &Square) {
    let size = TILE_ROWS * m.size();
    let mut copy = vec![0.0; size.min(rows.len())];
    for tile in rows.chunks_mut(size) {
        let copy = &mut copy[..tile.len()];
        copy.copy_from_slice(tile);
        product(tile, Update::Replace, copy, m);
    }
}

/// out = rows * m, or that added to it.
fn product(out: &mut [f64], update: Update, rows: &[f64], m: &Square) {
    kernel::product(out, update, rows, m.as_slice(), (m.size(), m.size()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, rank: usize, seed: f64) -> Rows {
        let data = (0..rows * rank).map(|k| (k as f64 * seed).sin()).collect();
        Rows::from_vec(rows, rank, data)
    }

    #[test]
    fn gram_is_the_plain_sum() {
        for rows in [1, 2, 7, 10_001] {
            let (a, b) = (sample(rows, 3, 0.7), sample(rows, 3, 1.3));
            let gram = a.gram(&b);
            for i in 0..3 {
                for j in 0..3 {
                    let plain: f64 = (0..rows).map(|n| a.row(n)[i] * b.row(n)[j]).sum();
                    assert!((gram[(i, j)] - plain).abs() < 1e-11 * (1.0 + plain.abs()));
                }
            }
        }
    }

    #[test]
    fn passes_agree_with_their_formulas() {
        let (u, y) = (sample(9_000, 2, 0.3), sample(9_000, 2, 0.9));
        let m = Square::from_vec(2, vec![1.0, 2.0, -0.5, 3.0]);
        let p = Square::from_vec(2, vec![0.25, -1.0, 2.0, 0.5]);
        let mut fused = y.clone();
        fused.subtract_product_then_multiply(&u, &m, &p);
        let mut plain = y.clone();
        plain.subtract_product(&u, &m);
        plain.multiply(&p);
        assert_eq!(fused, plain);
        let i = 8_191;
        let t: Vec<f64> =
            (0..2).map(|j| y.row(i)[j] - u.row(i)[0] * m[(0, j)] - u.row(i)[1] * m[(1, j)]).collect();
        let expected = t[0] * p[(0, 1)] + t[1] * p[(1, 1)];
        assert!((fused.row(i)[1] - expected).abs() < 1e-14);
    }

    #[test]
    fn same_bits_for_any_number_of_threads() {
        let (a, b) = (sample(50_000, 5, 0.11), sample(50_000, 5, 0.37));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| {
                let mut out = Rows::zeros(50_000, 5);
                let moved = out.set_moved(&a, 0.5, &b);
                (a.gram(&b), moved, out)
            })
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(3));
    }
}
