//! What the rows of a mode add up to, and the prior that follows from it.

use super::batch::Aligned;
use super::level::{FLOOR, Prior};
use super::row::{axpy, dot, invert, start};
use crate::kernel::{PANEL_TILE, add_gram};
use crate::rows::triangle_len;

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

/// Rows that are multiplied with themselves together: enough that sums stay in registers meanwhile.
const TOGETHER: usize = 64;

/// The memory of these, of rows of k numbers with as many features as such rows may have.
pub(super) fn products_bytes(k: usize) -> u64 {
    let width = k.next_multiple_of(PANEL_TILE) + (2 + 2 * k).next_multiple_of(PANEL_TILE);
    ((width * (width + TOGETHER) + k * k) * size_of::<f64>()) as u64
}

/// Rows on their way into moments. Their products with themselves and with their features are taken of some rows at a
/// time, as those of entries are: row by row they would take as long as the row's inverse.
pub(super) struct RowProducts {
    k: usize,
    features: usize,
    /// (m | f) of some rows, each filled up to whole tiles.
    panel: Aligned,
    waiting: usize,
    ones: Vec<f64>,
    /// (m | f)^T (m | f) of those before, tiles on the diagonal and below.
    square: Vec<f64>,
    /// S of all rows.
    covariance: Vec<f64>,
    rows: f64,
}

impl RowProducts {
    pub(super) fn new(k: usize, features: usize) -> Self {
        let width = k.next_multiple_of(PANEL_TILE) + features.next_multiple_of(PANEL_TILE);
        RowProducts {
            k,
            features,
            panel: Aligned::new(TOGETHER * width, 0.0),
            waiting: 0,
            ones: vec![1.0; TOGETHER],
            square: vec![0.0; width * width],
            covariance: vec![0.0; k * k],
            rows: 0.0,
        }
    }

    fn width(&self) -> usize {
        self.square.len().isqrt()
    }

    /// Adds a row: its mean, the covariance where it is whole, else variances.
    #[inline(always)]
    pub(super) fn add(&mut self, mean: &[f64], f: &[f64], covariance: Covariance<'_>) {
        let width = self.width();
        let row = &mut self.panel.numbers_mut()[self.waiting * width..][..width];
        row[..mean.len()].copy_from_slice(mean);
        row[mean.len().next_multiple_of(PANEL_TILE)..][..f.len()].copy_from_slice(f);
        match covariance {
            Covariance::Whole(s) => axpy(1.0, s, &mut self.covariance),
            Covariance::Diagonal(s) => {
                s.iter().enumerate().for_each(|(i, s)| self.covariance[i * (self.k + 1)] += s);
            }
        }
        self.rows += 1.0;
        self.waiting += 1;
        if self.waiting == TOGETHER {
            self.multiply();
        }
    }

    fn multiply(&mut self) {
        let (width, rows) = (self.width(), std::mem::take(&mut self.waiting));
        add_gram(&self.panel.numbers()[..rows * width], &self.ones[..rows], width, &mut self.square);
    }

    /// Takes what all rows add up to, when none is left.
    pub(super) fn end(mut self, to: &mut Moments) {
        self.multiply();
        let (k, n, width) = (self.k, self.features, self.width());
        let first = k.next_multiple_of(PANEL_TILE);
        to.rows += self.rows;
        for i in 0..k {
            let row = to.second[start(i)..][..=i].iter_mut();
            let from = self.square[i * width..].iter().zip(&self.covariance[i * k..]);
            row.zip(from).for_each(|(to, (x, s))| *to += x + s);
        }
        for f in 0..n {
            let row = &self.square[(first + f) * width..][..width];
            (0..k).for_each(|i| to.cross[i * n + f] += row[i]);
            axpy(1.0, &row[first..][..=f], &mut to.inner[start(f)..][..=f]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_rows_are_what_plain_loops_say() {
        for (k, n, rows) in [(1, 1, 3), (4, 10, 64), (8, 18, 65), (9, 3, 200), (16, 34, 130)] {
            let number = |row: usize, i: usize| ((row * 31 + i * 17) % 29) as f64 / 29.0 - 0.4;
            for whole in [false, true] {
                let mut products = RowProducts::new(k, n);
                let mut plain = Moments::new(k, n);
                for row in 0..rows {
                    let mean: Vec<f64> = (0..k).map(|i| number(row, i)).collect();
                    let f: Vec<f64> = (0..n).map(|i| number(row, 100 + i)).collect();
                    let of = |i: usize, j: usize| number(row, 200 + i.max(j) * k + i.min(j));
                    let s: Vec<f64> = match whole {
                        true => (0..k * k).map(|at| of(at / k, at % k)).collect(),
                        false => (0..k).map(|i| of(i, i)).collect(),
                    };
                    let s = if whole { Covariance::Whole(&s) } else { Covariance::Diagonal(&s) };
                    products.add(&mean, &f, s);
                    plain.rows += 1.0;
                    for i in 0..k {
                        for j in 0..=i {
                            let s = if whole || i == j { of(i, j) } else { 0.0 };
                            plain.second[start(i) + j] += mean[i] * mean[j] + s;
                        }
                        (0..n).for_each(|g| plain.cross[i * n + g] += mean[i] * f[g]);
                    }
                    (0..n).for_each(|g| (0..=g).for_each(|h| plain.inner[start(g) + h] += f[g] * f[h]));
                }
                let mut found = Moments::new(k, n);
                products.end(&mut found);
                for (x, y) in found.to_numbers().iter().zip(plain.to_numbers()) {
                    assert!((x - y).abs() < 1e-12, "{k} {n} {rows}: {x} {y}");
                }
            }
        }
    }
}
