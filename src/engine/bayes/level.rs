//! What is known of the rows of a mode: means, variances, and the prior that they share.

use super::row::{dot, invert, start};
use crate::kernel::Picked;
use crate::model::RowFeatures;
use crate::rows::{Square, triangle_len};

/// Rows are normal before their entries are seen: with mean B f and covariance V.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// B, a row per column of the rows.
    pub coefficients: Vec<f64>,
    /// V, row-major.
    pub covariance: Vec<f64>,
    /// How much B is shrunk.
    pub ridge: f64,
    /// V^-1.
    precision: Vec<f64>,
}

impl Prior {
    /// With B = 0 and a diagonal V.
    pub fn new(variances: &[f64], features: usize) -> Option<Self> {
        let k = variances.len();
        let mut covariance = vec![0.0; k * k];
        (0..k).for_each(|i| covariance[i * k + i] = variances[i]);
        Self::of(vec![0.0; k * features], covariance, FIRST_RIDGE)
    }

    /// From its parts; `None` where V is not positive definite.
    pub fn of(coefficients: Vec<f64>, covariance: Vec<f64>, ridge: f64) -> Option<Self> {
        let k = covariance.len().isqrt();
        let precision = invert(&covariance, k)?;
        Some(Prior { coefficients, covariance, ridge, precision })
    }

    /// Takes V times a number.
    pub fn loosen(&mut self, times: f64) {
        self.covariance.iter_mut().for_each(|number| *number *= times);
        self.precision.iter_mut().for_each(|number| *number /= times);
    }

    /// Columns of the rows.
    pub fn width(&self) -> usize {
        self.covariance.len().isqrt()
    }

    /// B f.
    #[inline(always)]
    pub(super) fn mean(&self, f: &[f64], to: &mut [f64]) {
        for (to, row) in to.iter_mut().zip(self.coefficients.chunks_exact(f.len())) {
            *to = dot(row, f);
        }
    }

    /// The precision of a row with sums A (its lower triangle by `a`) and right side b, and V^-1 B f + b on
    /// the right, both divided by the noise.
    #[inline(always)]
    pub(super) fn posterior(
        &self,
        mean: &[f64],
        noise: f64,
        a: impl Fn(usize, usize) -> f64,
        b: &[f64],
        factor: &mut [f64],
        right: &mut [f64],
    ) {
        let (k, by) = (mean.len(), 1.0 / noise);
        for i in 0..k {
            let row = &self.precision[i * k..][..k];
            right[i] = dot(row, mean) + by * b[i];
            let to = &mut factor[i * k..][..=i];
            to.iter_mut().zip(row).enumerate().for_each(|(j, (to, p))| *to = p + by * a(i, j));
        }
    }
}

// What other values do: docs/thresholds.md.
/// How much the coefficients of features are shrunk until there is something to learn it from.
const FIRST_RIDGE: f64 = 30.0;
/// V is never smaller than this share of its trace in any direction.
const FLOOR: f64 = 1e-9;

/// What all rows of a mode add up to: the prior and the noise follow from it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Moments {
    k: usize,
    features: usize,
    /// Rows; weight of their entries; expected squares of residuals.
    pub(super) rows: f64,
    pub(super) weight: f64,
    pub(super) squares: f64,
    /// Squares of residuals.
    pub(super) residuals: f64,
    /// m m^T + S, packed.
    second: Vec<f64>,
    /// m f^T.
    cross: Vec<f64>,
    /// f f^T, packed.
    inner: Vec<f64>,
}

impl Moments {
    pub(super) fn new(k: usize, features: usize) -> Self {
        Moments {
            k,
            features,
            second: vec![0.0; triangle_len(k)],
            cross: vec![0.0; k * features],
            inner: vec![0.0; triangle_len(features)],
            ..Moments::default()
        }
    }

    /// All numbers, one after the other.
    fn numbers(&mut self) -> impl Iterator<Item = &mut f64> {
        let few = [&mut self.rows, &mut self.weight, &mut self.squares, &mut self.residuals];
        few.into_iter().chain(&mut self.second).chain(&mut self.cross).chain(&mut self.inner)
    }

    pub(super) fn add(&mut self, other: &Moments) {
        let mut other = other.clone();
        self.numbers().zip(other.numbers()).for_each(|(to, from)| *to += *from);
    }

    /// Adds a row: its mean, the covariance where it is whole, else variances.
    #[inline(always)]
    pub(super) fn add_row(&mut self, mean: &[f64], f: &[f64], covariance: Covariance<'_>) {
        self.rows += 1.0;
        for i in 0..self.k {
            let to = &mut self.second[start(i)..][..=i];
            to.iter_mut().zip(mean).for_each(|(to, m)| *to += mean[i] * m);
            match covariance {
                Covariance::Whole(s) => {
                    to.iter_mut().zip(&s[i * self.k..]).for_each(|(to, s)| *to += s);
                }
                Covariance::Diagonal(s) => to[i] += s[i],
            }
            let to = &mut self.cross[i * f.len()..][..f.len()];
            to.iter_mut().zip(f).for_each(|(to, f)| *to += mean[i] * f);
        }
        for (i, &x) in f.iter().enumerate() {
            let to = &mut self.inner[start(i)..][..=i];
            to.iter_mut().zip(f).for_each(|(to, f)| *to += x * f);
        }
    }

    /// The prior that makes the rows most likely: B a ridge regression of means on features, V what it
    /// leaves over. `learn` lets the ridge follow from the data, too.
    pub(super) fn prior(&self, before: &Prior, learn: bool) -> Option<Prior> {
        let (k, n) = (self.k, self.features);
        if self.rows < 1.0 {
            return Some(before.clone());
        }
        let mut ridge = before.ridge;
        let mut found = self.ridge(ridge)?;
        if learn && n > 1 {
            // Features that explain nothing are given the more ridge the less they explain: evidence, in one
            // step of its fixed-point iteration.
            let strength: f64 = (1..n)
                .map(|f| {
                    let column: Vec<f64> = (0..k).map(|i| found.0[i * n + f]).collect();
                    (0..k).map(|i| column[i] * dot(&before.precision[i * k..][..k], &column)).sum::<f64>()
                })
                .sum();
            ridge = (k as f64 * found.1 / strength.max(f64::MIN_POSITIVE)).clamp(1e-3, 1e9);
            found = self.ridge(ridge)?;
        }
        let b = found.0;
        let mut covariance = vec![0.0; k * k];
        for i in 0..k {
            for j in 0..=i {
                let (bi, bj) = (&b[i * n..][..n], &b[j * n..][..n]);
                let mut v = self.second[start(i) + j];
                v -= dot(bi, &self.cross[j * n..][..n]) + dot(bj, &self.cross[i * n..][..n]);
                for (f, x) in bi.iter().enumerate() {
                    let inner = |g: usize| self.inner[start(f.max(g)) + f.min(g)];
                    v += x * (0..n).map(|g| inner(g) * bj[g]).sum::<f64>();
                }
                (covariance[i * k + j], covariance[j * k + i]) = (v / self.rows, v / self.rows);
            }
        }
        let trace: f64 = (0..k).map(|i| covariance[i * k + i]).sum();
        (0..k).for_each(|i| covariance[i * k + i] += FLOOR * trace + f64::MIN_POSITIVE);
        Prior::of(b, covariance, ridge)
    }

    /// B, and how many features it makes use of: tr(F (F + ridge)^-1), the constant left out.
    fn ridge(&self, ridge: f64) -> Option<(Vec<f64>, f64)> {
        let (k, n) = (self.k, self.features);
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let x = self.inner[start(i) + j] + if i == j && i > 0 { ridge } else { 0.0 };
                (matrix[i * n + j], matrix[j * n + i]) = (x, x);
            }
        }
        let inverse = invert(&matrix, n)?;
        let mut b = vec![0.0; k * n];
        for i in 0..k {
            for f in 0..n {
                b[i * n + f] = dot(&inverse[f * n..][..n], &self.cross[i * n..][..n]);
            }
        }
        let used = (1..n).map(|f| 1.0 - ridge * inverse[f * n + f]).sum();
        Some((b, used))
    }

    /// The numbers, as they are added up and kept.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        self.clone().numbers().map(|x| *x).collect()
    }

    /// From such numbers.
    pub(super) fn of(k: usize, features: usize, numbers: &[f64]) -> Self {
        let mut moments = Moments::new(k, features);
        moments.numbers().zip(numbers).for_each(|(to, x)| *to = *x);
        moments
    }
}

/// What is uncertain about a row.
#[derive(Clone, Copy)]
pub(super) enum Covariance<'a> {
    /// Row-major.
    Whole(&'a [f64]),
    /// Columns independent of one another.
    Diagonal(&'a [f64]),
}

/// The rows of a mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// How many.
    pub rows: usize,
    /// Columns of a row.
    pub width: usize,
    /// Their means, row after row; zeros for rows without entries.
    pub means: Vec<f64>,
    /// The variances of these numbers.
    pub variances: Vec<f32>,
    /// Their covariances, row after row, each a packed triangle filled up to whole tiles; empty where columns are
    /// taken as independent.
    pub covariances: Vec<f32>,
    /// The weight of every row's entries.
    pub counts: Vec<f64>,
    /// What is known of a row before its values.
    pub features: RowFeatures,
    /// The prior.
    pub prior: Prior,
}

/// Covariances are whole where a row has fewer entries than this, on average, per number of its own...
const SCARCE: f64 = 8.0;
/// ...and where they take no more memory than this.
const MOST_COVARIANCES: u64 = 32 << 20;

/// Numbers of the covariance of a row of k numbers.
pub(super) fn covariance_width(k: usize) -> usize {
    triangle_len(k).next_multiple_of(Picked::TILE)
}

/// The memory of the covariances of so many rows with so many entries: none where columns are taken as independent,
/// because there are entries enough or not enough room.
pub(super) fn covariance_bytes(rows: u64, entries: u64, k: usize) -> u64 {
    let bytes = rows * (covariance_width(k) * size_of::<f32>()) as u64;
    let scarce = (entries as f64) < SCARCE * k as f64 * rows as f64;
    if k > 1 && scarce && bytes <= MOST_COVARIANCES { bytes } else { 0 }
}

impl Level {
    /// Numbers of the covariance of a row of k numbers, where it is whole.
    pub fn covariance_numbers(k: usize) -> usize {
        covariance_width(k)
    }

    /// The same of its own rows.
    #[inline(always)]
    pub(super) fn covariance_width(&self) -> usize {
        covariance_width(self.width)
    }

    /// Makes covariances whole where rows have few entries.
    pub(super) fn set_covariances(&mut self) {
        let entries = self.counts.iter().sum::<f64>() as u64;
        let bytes = covariance_bytes(self.rows as u64, entries, self.width);
        self.covariances = vec![0.0; bytes as usize / size_of::<f32>()];
    }

    /// The covariance of a row, as a square; its variances where it is not whole.
    pub(super) fn covariance(&self, row: usize) -> Square {
        if self.covariances.is_empty() {
            let s = self.variance(row);
            return Square::from_fn(self.width, |i, j| if i == j { f64::from(s[i]) } else { 0.0 });
        }
        let from = &self.covariances[row * self.covariance_width()..];
        Square::from_fn(self.width, |i, j| f64::from(from[start(i.max(j)) + i.min(j)]))
    }

    #[inline(always)]
    pub(super) fn mean(&self, row: usize) -> &[f64] {
        &self.means[row * self.width..][..self.width]
    }

    #[inline(always)]
    pub(super) fn variance(&self, row: usize) -> &[f32] {
        &self.variances[row * self.width..][..self.width]
    }
}
