//! Small square matrices: everything of size r x r, where r is the rank of one mode.

use nalgebra::{DMatrix, SVD, SymmetricEigen};

/// Decompositions that have not converged by then never will.
const MOST_STEPS: usize = 10_000;

/// A square matrix, row-major: entry (i, j) is `data[i * n + j]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Square {
    n: usize,
    data: Vec<f64>,
}

impl Square {
    /// The n x n matrix of zeros.
    pub fn zeros(n: usize) -> Self {
        Square { n, data: vec![0.0; n * n] }
    }

    /// The n x n identity.
    pub fn identity(n: usize) -> Self {
        Square::from_fn(n, |i, j| if i == j { 1.0 } else { 0.0 })
    }

    /// The matrix with the entries `entry(i, j)`.
    pub fn from_fn(n: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(n * n);
        for i in 0..n {
            for j in 0..n {
                data.push(entry(i, j));
            }
        }
        Square { n, data }
    }

    /// The matrix of row-major entries.
    ///
    /// # Panics
    ///
    /// If there are not n^2 of them.
    pub fn from_vec(n: usize, data: Vec<f64>) -> Self {
        assert_eq!(data.len(), n * n, "a square matrix has n^2 entries");
        Square { n, data }
    }

    /// The number of rows.
    pub fn size(&self) -> usize {
        self.n
    }

    /// Row i.
    #[inline]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.n..(i + 1) * self.n]
    }

    /// All entries, row-major.
    pub fn as_slice(&self) -> &[f64] {
        &self.data
    }

    /// All entries, row-major.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The transpose.
    pub fn transpose(&self) -> Square {
        Square::from_fn(self.n, |i, j| self[(j, i)])
    }

    /// The product self * other.
    pub fn times(&self, other: &Square) -> Square {
        let n = self.n;
        assert_eq!(n, other.n, "sizes of a product");
        let mut out = Square::zeros(n);
        for i in 0..n {
            let row = &mut out.data[i * n..(i + 1) * n];
            for k in 0..n {
                let a = self.data[i * n + k];
                for (o, b) in row.iter_mut().zip(other.row(k)) {
                    *o += a * b;
                }
            }
        }
        out
    }

    /// The product self^T * inner * self: `inner` seen in the basis of self's columns.
    pub fn congruence(&self, inner: &Square) -> Square {
        self.transpose().times(&inner.times(self))
    }

    /// Whether every entry is finite.
    pub fn is_finite(&self) -> bool {
        self.data.iter().all(|x| x.is_finite())
    }

    /// The largest distance of an entry from the identity's.
    pub fn distance_from_identity(&self) -> f64 {
        let mut distance = 0.0f64;
        for i in 0..self.n {
            for j in 0..self.n {
                let target = if i == j { 1.0 } else { 0.0 };
                distance = distance.max((self[(i, j)] - target).abs());
            }
        }
        distance
    }

    /// The eigenvalues (ascending) and the matrix with the eigenvectors as its columns, of a
    /// symmetric matrix. `None` where an entry is not finite.
    pub fn symmetric_eigen(&self) -> Option<(Vec<f64>, Square)> {
        if !self.is_finite() {
            return None;
        }
        let eigen = SymmetricEigen::try_new(self.to_matrix(), f64::EPSILON, MOST_STEPS)?;
        let (values, vectors) = (eigen.eigenvalues, eigen.eigenvectors);
        let mut order: Vec<usize> = (0..self.n).collect();
        order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
        let vectors = Square::from_fn(self.n, |i, j| vectors[(i, order[j])]);
        Some((order.iter().map(|&n| values[n]).collect(), vectors))
    }

    /// The upper triangular R with R^T R = self and a positive diagonal; `None` where self is
    /// not positive definite to working precision.
    pub fn cholesky(&self) -> Option<Square> {
        if !self.is_finite() {
            return None;
        }
        let factor = self.to_matrix().cholesky()?;
        let lower = factor.l_dirty();
        Some(Square::from_fn(self.n, |i, j| if j >= i { lower[(j, i)] } else { 0.0 }))
    }

    /// The inverse of an upper triangular matrix.
    pub fn upper_inverse(&self) -> Square {
        let n = self.n;
        let mut inverse = Square::zeros(n);
        for j in 0..n {
            inverse[(j, j)] = 1.0 / self[(j, j)];
            for i in (0..j).rev() {
                let sum: f64 = (i + 1..=j).map(|k| self[(i, k)] * inverse[(k, j)]).sum();
                inverse[(i, j)] = -sum / self[(i, i)];
            }
        }
        inverse
    }

    fn to_matrix(&self) -> DMatrix<f64> {
        DMatrix::from_row_slice(self.n, self.n, &self.data)
    }
}

impl std::ops::Index<(usize, usize)> for Square {
    type Output = f64;
    #[inline]
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.data[i * self.n + j]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Square {
    #[inline]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.data[i * self.n + j]
    }
}

/// The squared singular values of an r x m matrix and the full r x r basis of its left singular
/// vectors, from its transpose (m x r).
///
/// These are the eigenpairs of A A^T, but with small eigenvalues to a relative accuracy of
/// cond(A) instead of cond(A)^2: A A^T is never formed. `None` where an entry is not finite.
pub(crate) fn left_singular(transposed: DMatrix<f64>) -> Option<(Vec<f64>, Square)> {
    let (m, r) = (transposed.nrows(), transposed.ncols());
    if !transposed.iter().all(|x| x.is_finite()) {
        return None;
    }
    // A^T = Q R, so A A^T = R^T R: the singular vectors of the small R^T do.
    let lower = if m > r {
        transposed.qr().unpack_r().transpose()
    } else {
        DMatrix::from_fn(r, r, |i, j| if j < m { transposed[(j, i)] } else { 0.0 })
    };
    let svd = SVD::try_new(lower, true, false, 5.0 * f64::EPSILON, MOST_STEPS)?;
    let values = svd.singular_values.iter().map(|s| s * s).collect();
    let vectors = svd.u?;
    Some((values, Square::from_fn(r, |i, j| vectors[(i, j)])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: usize) -> Square {
        Square::from_fn(n, |i, j| ((i * 7 + j * 3 + 1) as f64).sin())
    }

    #[test]
    fn cholesky_reproduces_the_matrix() {
        let a = sample(5);
        let mut gram = a.transpose().times(&a);
        for i in 0..5 {
            gram[(i, i)] += 0.1;
        }
        let r = gram.cholesky().unwrap();
        let back = r.transpose().times(&r);
        for (x, y) in back.as_slice().iter().zip(gram.as_slice()) {
            assert!((x - y).abs() < 1e-13);
        }
        assert!(r.times(&r.upper_inverse()).distance_from_identity() < 1e-11);
    }

    #[test]
    fn cholesky_refuses_what_is_not_positive() {
        assert!(Square::zeros(3).cholesky().is_none());
        assert!(Square::from_vec(1, vec![f64::NAN]).cholesky().is_none());
    }

    #[test]
    fn singular_values_below_the_reach_of_the_gram_matrix() {
        // Singular values 1 and 1e-10: the eigenvalues of A A^T would give 1e-20 as noise.
        let (c, s) = (0.6, 0.8);
        let small = 1e-10;
        let wide = DMatrix::from_fn(4, 2, |k, i| match (k, i) {
            (0, 0) => c,
            (0, 1) => s,
            (1, 0) => -s * small,
            (1, 1) => c * small,
            _ => 0.0,
        });
        let (values, basis) = left_singular(wide).unwrap();
        assert!((values[0] - 1.0).abs() < 1e-14);
        assert!((values[1] / (small * small) - 1.0).abs() < 1e-5);
        assert!(basis.congruence(&Square::identity(2)).distance_from_identity() < 1e-14);
    }

    #[test]
    fn a_basis_is_complete_where_columns_are_few() {
        let narrow = DMatrix::from_fn(1, 3, |_, i| (i + 1) as f64);
        let (values, basis) = left_singular(narrow).unwrap();
        assert_eq!(values.len(), 3);
        assert!(values[1] < 1e-28 && values[2] < 1e-28);
        assert!(basis.congruence(&Square::identity(3)).distance_from_identity() < 1e-14);
    }
}
