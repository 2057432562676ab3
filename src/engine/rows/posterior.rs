//! A row with a normal prior: its mean and its covariance, given what its entries add up to. For new ids
//! ([`fold_rows`](crate::answer::fold_rows)).

use super::Square;

/// How many numbers a symmetric matrix of k rows has: its lower triangle, row after row.
pub(crate) fn triangle_len(k: usize) -> usize {
    k * (k + 1) / 2
}

/// What rows of a mode (with their biases, as the last component) look like before their entries are
/// seen: normal with this mean and covariance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowPrior {
    pub(crate) mean: Vec<f64>,
    /// L with L L^T the covariance, row-major. A direction in which rows do not differ is zero in it,
    /// and stays so.
    pub(crate) root: Vec<f64>,
}

impl RowPrior {
    /// The normal distribution with this mean and covariance; `None` where a number is not finite. What
    /// rounding has made negative of a variance is zero. The last component is multiplied by `unit` on the
    /// way: eigenvalues of rows beside those of biases of 1e9 would be noise.
    pub(crate) fn new(mean: Vec<f64>, covariance: &Square, unit: f64) -> Option<Self> {
        let k = mean.len();
        let unit_of = |i: usize| if i + 1 == k { unit } else { 1.0 };
        let scaled = Square::from_fn(k, |i, j| covariance[(i, j)] * unit_of(i) * unit_of(j));
        let (values, vectors) = scaled.symmetric_eigen()?;
        let root = |i: usize, j: usize| vectors[(i, j)] * values[j].max(0.0).sqrt() / unit_of(i);
        Some(RowPrior { root: Square::from_fn(k, root).as_slice().to_vec(), mean })
    }

    /// The trace of C A, C being the covariance and A given by its triangle: how much entries say, beside
    /// the noise.
    pub(crate) fn told_by(&self, a: &[f64]) -> f64 {
        let k = self.mean.len();
        let at = |i: usize, j: usize| a[triangle_len(i.max(j)) + i.min(j)];
        let rows = || self.root.chunks_exact(k).enumerate();
        let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        rows().map(|(i, x)| rows().map(|(j, y)| product(x, y) * at(i, j)).sum::<f64>()).sum()
    }
}

/// Room for one row's algebra.
pub(crate) struct RowScratch {
    /// A L, then the triangle of I + L^T A L / s, then W = R^-1 L^T.
    product: Vec<f64>,
    triangle: Vec<f64>,
    half: Vec<f64>,
    right: Vec<f64>,
    along: Vec<f64>,
}

impl RowScratch {
    pub(crate) fn new(k: usize) -> Self {
        let (square, line) = (vec![0.0; k * k], vec![0.0; k]);
        RowScratch {
            product: square.clone(),
            triangle: square.clone(),
            half: square,
            right: line.clone(),
            along: line,
        }
    }
}

/// The mean and the covariance of a row x, given its prior and its entries' sums A = sum of E(z z^T),
/// packed, and b = sum of E(z t), the noise having the variance `noise`:
///
/// S = (A / noise + (L L^T)^-1)^-1 = W^T W with R R^T = I + L^T A L / noise, W = R^-1 L^T,
/// mean = m + S (b - A m) / noise.
///
/// `false`, and nothing set, where a number is not finite.
pub(crate) fn row_posterior(
    prior: &RowPrior,
    noise: f64,
    a: &[f64],
    b: &[f64],
    scratch: &mut RowScratch,
    mean: &mut [f64],
    covariance: &mut [f64],
) -> bool {
    let k = mean.len();
    let at = |i: usize, j: usize| a[triangle_len(i.max(j)) + i.min(j)];
    let RowScratch { product, triangle, half, right, along } = scratch;
    for i in 0..k {
        let to = &mut product[i * k..][..k];
        to.fill(0.0);
        right[i] = b[i];
        for j in 0..k {
            let x = at(i, j);
            right[i] -= x * prior.mean[j];
            to.iter_mut().zip(&prior.root[j * k..][..k]).for_each(|(to, l)| *to += x * l);
        }
    }
    triangle.fill(0.0);
    for (l, product) in prior.root.chunks_exact(k).zip(product.chunks_exact(k)) {
        for i in 0..k {
            let x = l[i] / noise;
            triangle[i * k..][..=i].iter_mut().zip(product).for_each(|(to, p)| *to += x * p);
        }
    }
    (0..k).for_each(|i| triangle[i * k + i] += 1.0);
    if !cholesky(triangle, k) {
        return false;
    }
    // Row i of W from the rows before it: R W = L^T.
    for i in 0..k {
        let (before, rest) = half.split_at_mut(i * k);
        let row = &mut rest[..k];
        (0..k).for_each(|j| row[j] = prior.root[j * k + i]);
        for (n, earlier) in before.chunks_exact(k).enumerate() {
            let x = triangle[i * k + n];
            row.iter_mut().zip(earlier).for_each(|(to, from)| *to -= x * from);
        }
        let by = 1.0 / triangle[i * k + i];
        row.iter_mut().for_each(|x| *x *= by);
        along[i] = row.iter().zip(right.iter()).map(|(w, b)| w * b).sum::<f64>() / noise;
    }
    mean.copy_from_slice(&prior.mean);
    covariance.fill(0.0);
    for (w, along) in half.chunks_exact(k).zip(along.iter()) {
        mean.iter_mut().zip(w).for_each(|(to, w)| *to += w * along);
        for i in 0..k {
            let x = w[i];
            covariance[triangle_len(i)..][..=i].iter_mut().zip(w).for_each(|(to, w)| *to += x * w);
        }
    }
    mean.iter().chain(covariance.iter()).all(|x| x.is_finite())
}

/// A = R R^T in place, in the lower triangle; false where A is not positive definite.
fn cholesky(a: &mut [f64], k: usize) -> bool {
    for i in 0..k {
        let (before, rest) = a.split_at_mut(i * k);
        let row = &mut rest[..k];
        for j in 0..i {
            let earlier = &before[j * k..][..k];
            let sum: f64 = row[..j].iter().zip(earlier).map(|(x, y)| x * y).sum();
            row[j] = (row[j] - sum) / earlier[j];
        }
        let left = row[i] - row[..i].iter().map(|x| x * x).sum::<f64>();
        if left <= 0.0 || !left.is_finite() {
            return false;
        }
        row[i] = left.sqrt();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_bayes_says() {
        // Two components of variance 4 and 1, means 1 and -1, entries that see one component each.
        let prior = RowPrior { mean: vec![1.0, -1.0], root: vec![2.0, 0.0, 0.0, 1.0] };
        let (mut mean, mut covariance) = (vec![0.0; 2], vec![0.0; 3]);
        let mut scratch = RowScratch::new(2);
        // Six entries of the first component that add up to 18, none of the second.
        assert!(row_posterior(
            &prior,
            2.0,
            &[6.0, 0.0, 0.0],
            &[18.0, 0.0],
            &mut scratch,
            &mut mean,
            &mut covariance
        ));
        let precision = 6.0 / 2.0 + 1.0 / 4.0;
        assert!((mean[0] - (18.0 / 2.0 + 1.0 / 4.0) / precision).abs() < 1e-14 && mean[1] == -1.0);
        assert!((covariance[0] - 1.0 / precision).abs() < 1e-14);
        assert!(covariance[1].abs() < 1e-15 && (covariance[2] - 1.0).abs() < 1e-14);
        // A direction in which rows do not differ stays at its mean, whatever entries say.
        let flat = RowPrior { mean: vec![1.0, -1.0], root: vec![2.0, 0.0, 0.0, 0.0] };
        assert!(row_posterior(
            &flat,
            2.0,
            &[6.0, 1.0, 5.0],
            &[18.0, 9.0],
            &mut scratch,
            &mut mean,
            &mut covariance
        ));
        assert!(mean[1] == -1.0 && covariance[2] == 0.0);
        assert!(!row_posterior(
            &flat,
            2.0,
            &[f64::NAN; 3],
            &[1.0; 2],
            &mut scratch,
            &mut mean,
            &mut covariance
        ));
    }

    #[test]
    fn a_full_row_solves_its_normal_equations() {
        let root = vec![1.0, 0.0, 0.0, 0.5, 0.8, 0.0, -0.2, 0.3, 0.6];
        let prior = RowPrior { mean: vec![0.1, 0.2, 0.3], root: root.clone() };
        let a = [4.0, 1.0, 3.0, 0.5, -0.7, 2.0];
        let (b, noise) = ([1.0, -2.0, 0.5], 0.7);
        let (mut mean, mut covariance) = (vec![0.0; 3], vec![0.0; 6]);
        assert!(row_posterior(&prior, noise, &a, &b, &mut RowScratch::new(3), &mut mean, &mut covariance));
        // S (A / noise + C^-1) = I, checked without an inverse: S A C / noise + S = C.
        let full = |triangle: &[f64], i: usize, j: usize| triangle[triangle_len(i.max(j)) + i.min(j)];
        let c = |i: usize, j: usize| (0..3).map(|n| root[i * 3 + n] * root[j * 3 + n]).sum::<f64>();
        for i in 0..3 {
            for j in 0..3 {
                let mut sum = full(&covariance, i, j) - c(i, j);
                for m in 0..3 {
                    for n in 0..3 {
                        sum += full(&covariance, i, m) * full(&a, m, n) * c(n, j) / noise;
                    }
                }
                assert!(sum.abs() < 1e-13, "{i} {j} {sum}");
            }
            let expected: f64 = (0..3)
                .map(|m| {
                    let right = b[m] - (0..3).map(|n| full(&a, m, n) * prior.mean[n]).sum::<f64>();
                    full(&covariance, i, m) * right / noise
                })
                .sum();
            assert!((mean[i] - prior.mean[i] - expected).abs() < 1e-13);
        }
    }
}
