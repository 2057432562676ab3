//! The core: a small dense tensor of any order, its mode products and its unfoldings.

use crate::kernel::{self, Update};
use crate::rows::Square;
use nalgebra::DMatrix;

/// A tensor of r_1 x ... x r_D numbers, row-major: the last mode runs fastest. Those of points on the manifold are
/// dense; a model of many modes may have a [sparse](Core::sparse) one, which only says what its values are.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    pub(super) ranks: Vec<usize>,
    pub(super) data: Vec<f64>,
    /// Of a sparse one the indices of its numbers, all other numbers being zero.
    pub(super) places: Option<Vec<u32>>,
}

impl Core {
    /// The core of zeros.
    pub fn zeros(ranks: &[usize]) -> Self {
        Core::from_vec(ranks, vec![0.0; ranks.iter().product()])
    }

    /// A core of row-major numbers (last mode fastest).
    ///
    /// # Panics
    ///
    /// If there are not r_1 ... r_D of them, or if a rank is 0.
    pub fn from_vec(ranks: &[usize], data: Vec<f64>) -> Self {
        assert!(ranks.iter().all(|&r| r > 0), "a rank is at least 1");
        let size: usize = ranks.iter().product();
        assert_eq!(data.len(), size, "a core has r_1 ... r_D numbers");
        Core { ranks: ranks.to_vec(), data, places: None }
    }

    /// The number D of modes.
    pub fn order(&self) -> usize {
        self.ranks.len()
    }

    /// The ranks r_1, ..., r_D.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// All numbers, last mode fastest.
    ///
    /// # Panics
    ///
    /// If the core is sparse.
    pub fn as_slice(&self) -> &[f64] {
        self.assert_dense();
        &self.data
    }

    /// All numbers, last mode fastest.
    ///
    /// # Panics
    ///
    /// If the core is sparse.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        self.assert_dense();
        &mut self.data
    }

    fn assert_dense(&self) {
        assert!(self.places.is_none(), "the manifold is one of dense cores");
    }

    /// Sets every number to `value`.
    pub fn fill(&mut self, value: f64) {
        self.data.fill(value);
    }

    /// self = other.
    pub fn copy_from(&mut self, other: &Core) {
        assert_eq!(self.ranks, other.ranks, "cores of the same shape");
        self.data.copy_from_slice(&other.data);
    }

    /// self = a * self.
    pub fn scale(&mut self, a: f64) {
        self.data.iter_mut().for_each(|x| *x *= a);
    }

    /// self = self + a * x.
    pub fn axpy(&mut self, a: f64, x: &Core) {
        self.axpby(a, x, 1.0);
    }

    /// self = a * x + b * self.
    pub fn axpby(&mut self, a: f64, x: &Core, b: f64) {
        assert_eq!(self.ranks, x.ranks, "cores of the same shape");
        for (y, x) in self.data.iter_mut().zip(&x.data) {
            *y = a * x + b * *y;
        }
    }

    /// The sum of the products of corresponding numbers.
    pub fn dot(&self, other: &Core) -> f64 {
        assert_eq!(self.ranks, other.ranks, "cores of the same shape");
        self.data.iter().zip(&other.data).map(|(a, b)| a * b).sum()
    }

    /// The mode product self x_d m: unfold_d(result) = m * unfold_d(self).
    pub fn mode_product(&self, mode: usize, m: &Square) -> Core {
        let (_, r, right) = self.split(mode);
        assert_eq!(r, m.size(), "a mode's rank and the matrix before it");
        let mut out = Core::zeros(&self.ranks);
        if right == 1 {
            // The last mode: one product for all fibres instead of one for each.
            kernel::product_transposed(&mut out.data, Update::Replace, &self.data, m.as_slice(), r);
            return out;
        }
        let size = r * right;
        for (from, to) in self.data.chunks(size).zip(out.data.chunks_mut(size)) {
            kernel::product(to, Update::Replace, m.as_slice(), from, (r, right));
        }
        out
    }

    /// The product over all modes: self x_1 m_1 x_2 ... x_D m_D.
    pub fn product(&self, matrices: &[Square]) -> Core {
        let mut out = self.clone();
        for (mode, m) in matrices.iter().enumerate() {
            out = out.mode_product(mode, m);
        }
        out
    }

    /// The r_d x r_d matrix unfold_d(self) * unfold_d(other)^T.
    ///
    /// Which order the columns of an unfolding have does not matter here, nor anywhere in this
    /// crate: unfoldings meet only in such products. (Where the paper writes Kronecker products
    /// beside them, they are in Kolda's order, lower modes fastest.)
    pub fn unfolding_gram(&self, other: &Core, mode: usize) -> Square {
        assert_eq!(self.ranks, other.ranks, "cores of the same shape");
        let (_, r, right) = self.split(mode);
        let mut gram = Square::zeros(r);
        if right == 1 {
            // The last mode: one sum over all fibres.
            kernel::gram(&self.data, &other.data, (r, r), gram.as_mut_slice());
            return gram;
        }
        let size = r * right;
        for (x, y) in self.data.chunks(size).zip(other.data.chunks(size)) {
            kernel::product_transposed(gram.as_mut_slice(), Update::Add(1.0), x, y, right);
        }
        gram
    }

    /// The transpose of the mode-d unfolding: a row per fibre.
    pub(crate) fn unfolding_transposed(&self, mode: usize) -> DMatrix<f64> {
        let (left, r, right) = self.split(mode);
        DMatrix::from_fn(left * right, r, |k, a| self.data[(k / right * r + a) * right + k % right])
    }

    /// The numbers with index a in mode d and b in mode e are the row a * r_e + b of the result,
    /// for d < e; returns the rows one after another and their length.
    pub(crate) fn pair_unfolding(&self, d: usize, e: usize) -> (Vec<f64>, usize) {
        assert!(d < e, "a pair of modes in order");
        let (_, rd, after_d) = self.split(d);
        let (_, re, after_e) = self.split(e);
        let length = self.data.len() / (rd * re);
        let mut next = vec![0; rd * re];
        let mut rows = vec![0.0; self.data.len()];
        for (k, x) in self.data.iter().enumerate() {
            let row = k / after_d % rd * re + k / after_e % re;
            rows[row * length + next[row]] = *x;
            next[row] += 1;
        }
        (rows, length)
    }

    /// How many indices lie before mode d, in it, and behind it.
    fn split(&self, mode: usize) -> (usize, usize, usize) {
        self.assert_dense();
        let left = self.ranks[..mode].iter().product();
        let right = self.ranks[mode + 1..].iter().product();
        (left, self.ranks[mode], right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ranks: &[usize], seed: f64) -> Core {
        let size: usize = ranks.iter().product();
        Core::from_vec(ranks, (0..size).map(|k| (k as f64 * seed).sin()).collect())
    }

    /// All indices of a tensor in row-major order.
    fn indices(ranks: &[usize]) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        for &r in ranks {
            all = all.iter().flat_map(|i| (0..r).map(move |a| [i.as_slice(), &[a]].concat())).collect();
        }
        all
    }

    fn at(core: &Core, index: &[usize]) -> f64 {
        let position = index.iter().zip(core.ranks()).fold(0, |p, (i, r)| p * r + i);
        core.as_slice()[position]
    }

    const SHAPES: [&[usize]; 4] = [&[3, 2], &[2, 4, 3], &[2, 3, 1, 4], &[2, 1, 3, 2, 2]];

    #[test]
    fn mode_product_is_its_formula() {
        for ranks in SHAPES {
            let core = sample(ranks, 0.7);
            for mode in 0..ranks.len() {
                let m = Square::from_fn(ranks[mode], |i, j| ((i * 5 + j) as f64).cos());
                let product = core.mode_product(mode, &m);
                for index in indices(ranks) {
                    let expected: f64 = (0..ranks[mode])
                        .map(|b| {
                            let mut from = index.clone();
                            from[mode] = b;
                            m[(index[mode], b)] * at(&core, &from)
                        })
                        .sum();
                    assert!((at(&product, &index) - expected).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn unfoldings_are_their_formulas() {
        for ranks in SHAPES {
            let (x, y) = (sample(ranks, 0.7), sample(ranks, 1.9));
            for mode in 0..ranks.len() {
                let gram = x.unfolding_gram(&y, mode);
                let mut expected = Square::zeros(ranks[mode]);
                for index in indices(ranks) {
                    for b in 0..ranks[mode] {
                        let mut other = index.clone();
                        other[mode] = b;
                        expected[(index[mode], b)] += at(&x, &index) * at(&y, &other);
                    }
                }
                let transposed = x.unfolding_transposed(mode);
                let own = x.unfolding_gram(&x, mode);
                for i in 0..ranks[mode] {
                    for j in 0..ranks[mode] {
                        assert!((gram[(i, j)] - expected[(i, j)]).abs() < 1e-13);
                        let sum: f64 =
                            (0..transposed.nrows()).map(|k| transposed[(k, i)] * transposed[(k, j)]).sum();
                        assert!((own[(i, j)] - sum).abs() < 1e-13);
                    }
                }
            }
        }
    }

    #[test]
    fn pair_unfolding_keeps_the_rest_in_one_order() {
        for ranks in SHAPES {
            let x = sample(ranks, 0.7);
            for e in 1..ranks.len() {
                for d in 0..e {
                    let (rows, length) = x.pair_unfolding(d, e);
                    let mut seen = vec![0; ranks[d] * ranks[e]];
                    for index in indices(ranks) {
                        let row = index[d] * ranks[e] + index[e];
                        assert_eq!(rows[row * length + seen[row]], at(&x, &index));
                        seen[row] += 1;
                    }
                }
            }
        }
    }
}
