//! How sure a model is: the variances of its rows, the prior that they were learned with, and the noise.
//!
//! Models that were found by sweeps have it; those of other methods have not. Numbers are in units of the values'
//! standard deviation, as they were learned, and [`Uncertainty::unit`] turns them into the values' own.

use super::{Arrays, Tails};
use crate::error::{Error, Result};
use crate::storage::ContainerWriter;
use serde::{Deserialize, Serialize};

/// What is known of rows beside their means.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// The standard deviation of the train values.
    pub unit: f64,
    /// The variance of train entries about the model.
    pub noise: f64,
    /// That of other entries, by validation.
    pub held_out_noise: f64,
    /// How often a value lies far off.
    pub tails: Tails,
    /// The two modes that features are of.
    pub pair: [usize; 2],
    /// In the user's order.
    pub modes: Vec<ModeUncertainty>,
}

/// The same of one mode. A row has `width` numbers: its components, and its bias as the last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModeUncertainty {
    /// Numbers of a row.
    pub width: usize,
    /// Their variances, row after row; zeros for ids without train entries.
    pub variances: Vec<f32>,
    /// What is expected of the squares of an id's numbers of which nothing is known.
    pub unknown: Vec<f64>,
    /// B: a row is B f before its entries are seen, f being its features.
    pub coefficients: Vec<f64>,
    /// V: the covariance of rows about that, row-major.
    pub covariance: Vec<f64>,
    /// How much B was shrunk.
    pub ridge: f64,
    /// The weight of every row's entries.
    pub counts: Vec<f64>,
    /// What is known of a row before its values.
    pub features: RowFeatures,
}

/// h of every row of a mode: who has which entries, before any value is looked at. Its features are
/// f = (1, ln n - 4, w h, w sqrt(n) h), n being the number of its entries, w = n / (n + [`half`](Self::half)); (1) where h
/// has no numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowFeatures {
    /// Numbers of h.
    pub width: usize,
    /// h, row after row.
    pub values: Vec<f32>,
    /// What an entry with a row of this mode adds to the sum behind h of the other mode's; where it is empty,
    /// that is h before it was centred and scaled.
    pub basis: Vec<f32>,
    /// What was taken from the columns of h, and what they were then divided by.
    pub centre: Vec<f64>,
    /// Likewise.
    pub scale: Vec<f64>,
    /// The entries with which h counts half; 0 in files from before it counted for less.
    pub half: f64,
}

impl RowFeatures {
    /// What `half` is. h of a row with few entries is a mean over few, mostly chance, and many times as large as that
    /// of others: a few such rows would say what B is in the directions of their h, of which they know nothing.
    /// Chosen on splits 1 to 3 of MovieLens-100K and the small set, and seeds 4 and 6 of `tools/measure-use.py cold` (RMSE of users
    /// that were trained with one entry), among 0, 1, 2, 3, 5 and 20: 1.149 and 1.253 with 0, 1.068 and 1.094 with 3, 1.051 and 1.077 with
    /// 20; the small set is best with 3 and 5 (0.15 % below 0 on split 2), MovieLens-100K with 0 to 2 (3: +0.04 % on split 1, 20: +0.24 %).
    pub const HALF: f64 = 3.0;

    /// Numbers of f.
    pub fn count(&self) -> usize {
        if self.width == 0 { 1 } else { 2 + 2 * self.width }
    }

    /// f of a row that is here, with so many entries.
    #[inline]
    pub(crate) fn of(&self, row: usize, entries: f64, to: &mut [f64]) {
        let d = self.width;
        self.of_h(self.values[row * d..][..d].iter().map(|&h| f64::from(h)), entries, to);
    }

    /// f of a row with this h and so many entries.
    #[inline]
    fn of_h(&self, h: impl Iterator<Item = f64>, entries: f64, to: &mut [f64]) {
        let (one, rest) = to.split_at_mut(1);
        one[0] = 1.0;
        if let Some((size, rest)) = rest.split_first_mut() {
            *size = entries.max(f64::MIN_POSITIVE).ln() - 4.0;
            let root = entries.sqrt();
            let counted = if self.half > 0.0 { entries / (entries + self.half) } else { 1.0 };
            let (plain, scaled) = rest.split_at_mut(rest.len() / 2);
            for ((h, plain), scaled) in h.zip(plain).zip(scaled) {
                *plain = counted * h;
                *scaled = root * *plain;
            }
        }
    }

    /// Whether h of a new row can be told.
    pub fn tells(&self) -> bool {
        self.width > 0 && self.centre.len() == self.width && self.scale.len() == self.width
    }

    /// Adds what an entry with this row adds to the sum behind h of the other mode's.
    fn add(&self, row: usize, to: &mut [f64]) {
        let d = self.width;
        if self.basis.is_empty() {
            let raw = self.values[row * d..][..d].iter().zip(&self.centre).zip(&self.scale);
            to.iter_mut()
                .zip(raw)
                .for_each(|(to, ((&h, centre), scale))| *to += f64::from(h) * scale + centre);
        } else {
            let raw = &self.basis[row * d..][..d];
            to.iter_mut().zip(raw).for_each(|(to, &x)| *to += f64::from(x));
        }
    }
}

impl Uncertainty {
    /// h of a new row of a mode, whose entries have these rows of the pair's other mode; zeros, which is the
    /// average, where there are none. `None` where the mode has no features.
    pub fn new_row(&self, mode: usize, others: impl Iterator<Item = u32>) -> Option<Vec<f64>> {
        let own = self.pair.iter().position(|&paired| paired == mode)?;
        let (to, from) = (&self.modes[mode].features, &self.modes[self.pair[1 - own]].features);
        if !to.tells() || !from.tells() || from.width != to.width {
            return None;
        }
        let (mut sum, mut count) = (vec![0.0; to.width], 0.0);
        for other in others {
            from.add(other as usize, &mut sum);
            count += 1.0;
        }
        for ((x, centre), scale) in sum.iter_mut().zip(&to.centre).zip(&to.scale) {
            *x = if count > 0.0 && *scale > 0.0 { (*x / count - centre) / scale } else { 0.0 };
        }
        Some(sum)
    }

    /// The mode that features of a mode come from.
    pub fn partner(&self, mode: usize) -> Option<usize> {
        let own = self.pair.iter().position(|&paired| paired == mode)?;
        Some(self.pair[1 - own])
    }

    /// Makes room for `more` rows of a mode, of which nothing is known yet.
    pub(super) fn grow(&mut self, mode: usize, more: usize) {
        let mode = &mut self.modes[mode];
        mode.variances.resize(mode.variances.len() + more * mode.width, 0.0);
        mode.counts.resize(mode.counts.len() + more, 0.0);
        let features = &mut mode.features;
        features.values.resize(features.values.len() + more * features.width, 0.0);
        if !features.basis.is_empty() {
            features.basis.resize(features.basis.len() + more * features.width, 0.0);
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let of = |mode: &ModeUncertainty| {
            let singles = mode.variances.len() + mode.features.values.len() + mode.features.basis.len();
            4 * singles + 8 * (mode.counts.len() + mode.coefficients.len() + mode.covariance.len())
        };
        self.modes.iter().map(of).sum::<usize>() as u64
    }
}

impl ModeUncertainty {
    /// The variances of a row's numbers.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.variances[row * self.width..][..self.width]
    }

    /// Sets what is known of a row.
    pub fn set(&mut self, row: usize, variances: &[f32], h: &[f32], entries: f64) {
        self.variances[row * self.width..][..self.width].copy_from_slice(variances);
        let d = self.features.width;
        self.features.values[row * d..][..d].copy_from_slice(h);
        if let Some(count) = self.counts.get_mut(row) {
            *count = entries;
        }
    }

    /// f of a row with these h and so many entries.
    pub fn features_of(&self, h: &[f64], entries: f64) -> Vec<f64> {
        let mut f = vec![0.0; self.features.count()];
        self.features.of_h(h.iter().copied(), entries, &mut f);
        f
    }

    /// B f.
    pub fn expected(&self, f: &[f64]) -> Vec<f64> {
        let product = |row: &[f64]| row.iter().zip(f).map(|(b, f)| b * f).sum();
        self.coefficients.chunks_exact(f.len().max(1)).map(product).collect()
    }

    /// Per number of a row, the share of its variance over rows that features explain: of B f beside V. None where
    /// there are no features.
    pub fn explained(&self) -> Option<Vec<f64>> {
        let d = self.features.width;
        let known = || (0..self.counts.len()).filter(|&row| self.counts[row] > 0.0);
        if d == 0 || known().next().is_none() {
            return None;
        }
        let (mut sums, mut squares, mut count) = (vec![0.0; self.width], vec![0.0; self.width], 0.0);
        for row in known() {
            let h: Vec<f64> = self.features.values[row * d..][..d].iter().map(|&h| f64::from(h)).collect();
            let expected = self.expected(&self.features_of(&h, self.counts[row]));
            for (n, x) in expected.iter().enumerate() {
                sums[n] += x;
                squares[n] += x * x;
            }
            count += 1.0;
        }
        let share = |n: usize| {
            let between: f64 = (squares[n] / count - (sums[n] / count).powi(2)).max(0.0);
            between / (between + self.covariance[n * self.width + n])
        };
        Some((0..self.width).map(share).collect())
    }
}

/// What a container says of it; the numbers lie in arrays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UncertaintyAbout {
    unit: f64,
    noise: f64,
    held_out_noise: f64,
    tails: Tails,
    pair: [usize; 2],
    modes: Vec<ModeAbout>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ModeAbout {
    width: usize,
    ridge: f64,
    /// Numbers of h that are kept for every row; 0 also in checkpoints, which have them elsewhere.
    features: usize,
    /// Numbers of f.
    count: usize,
    basis: bool,
    /// Whether counts are here.
    counts: bool,
    /// Whether it is known how h is made.
    tells: bool,
    /// The entries with which it counts half. Not in files from before it counted for less.
    #[serde(default)]
    half: f64,
}

impl UncertaintyAbout {
    pub(crate) fn of(uncertainty: &Uncertainty) -> Self {
        let mode = |mode: &ModeUncertainty| ModeAbout {
            width: mode.width,
            ridge: mode.ridge,
            features: mode.features.width,
            count: mode.coefficients.len() / mode.width.max(1),
            basis: !mode.features.basis.is_empty(),
            counts: !mode.counts.is_empty(),
            tells: mode.features.tells(),
            half: mode.features.half,
        };
        let Uncertainty { unit, noise, held_out_noise, tails, pair, modes } = uncertainty;
        let modes = modes.iter().map(mode).collect();
        let (held_out_noise, tails) = (*held_out_noise, *tails);
        UncertaintyAbout { unit: *unit, noise: *noise, held_out_noise, tails, pair: *pair, modes }
    }
}

const NAME: &str = "uncertainty";

/// Writes the numbers as arrays `PREFIXuncertainty.0.variances` and so on.
pub(crate) fn write_uncertainty(writer: &mut ContainerWriter<'_>, prefix: &str, uncertainty: &Uncertainty) {
    for (number, mode) in uncertainty.modes.iter().enumerate() {
        let name = |what: &str| format!("{prefix}{NAME}.{number}.{what}");
        let features = &mode.features;
        for (what, singles) in
            [("variances", &mode.variances), ("features", &features.values), ("basis", &features.basis)]
        {
            let mut array = writer.begin(name(what));
            let mut part = Vec::new();
            for singles in singles.chunks(1 << 13) {
                part.clear();
                part.extend(singles.iter().map(|&x| f64::from(x)));
                array.append(&part);
            }
            array.end();
        }
        writer.array(name("unknown"), &mode.unknown);
        writer.array(name("coefficients"), &mode.coefficients);
        writer.array(name("covariance"), &mode.covariance);
        writer.array(name("counts"), &mode.counts);
        writer.array(name("centre"), &features.centre);
        writer.array(name("scale"), &features.scale);
    }
}

/// Reads what [`write_uncertainty`] wrote, for modes of these dimensions.
pub(crate) fn read_uncertainty(
    arrays: &impl Arrays,
    prefix: &str,
    about: &UncertaintyAbout,
    dims: &[usize],
) -> Result<Uncertainty> {
    let flaw =
        || Error::corrupt(arrays.path(), 0, "the variances and the modes of the model do not go together");
    let [a, b] = about.pair;
    let positive =
        about.noise > 0.0 && about.held_out_noise > 0.0 && about.unit > 0.0 && about.tails.are_sensible();
    let halves = about.modes.iter().all(|mode| (0.0..1e9).contains(&mode.half));
    let sensible = positive && halves && a != b && a.max(b) < dims.len();
    if about.modes.len() != dims.len() || !sensible {
        return Err(flaw());
    }
    let mut modes = Vec::new();
    for (number, (mode, &rows)) in about.modes.iter().zip(dims).enumerate() {
        let of = |times: usize| rows.checked_mul(times).ok_or_else(flaw);
        let array =
            |what: &str, length: usize| arrays.array(&format!("{prefix}{NAME}.{number}.{what}"), length);
        let singles = |what: &str, length: usize| -> Result<Vec<f32>> {
            Ok(array(what, length)?.into_iter().map(|x| x as f32).collect())
        };
        let (width, d) = (mode.width, mode.features);
        let square = width.checked_mul(width).filter(|_| width > 0).ok_or_else(flaw)?;
        let few = if mode.tells { d } else { 0 };
        let read = ModeUncertainty {
            width,
            variances: singles("variances", of(width)?)?,
            unknown: array("unknown", width)?,
            coefficients: array("coefficients", width.checked_mul(mode.count).ok_or_else(flaw)?)?,
            covariance: array("covariance", square)?,
            ridge: mode.ridge,
            counts: array("counts", if mode.counts { rows } else { 0 })?,
            features: RowFeatures {
                width: d,
                values: singles("features", of(d)?)?,
                basis: singles("basis", if mode.basis { of(d)? } else { 0 })?,
                centre: array("centre", few)?,
                scale: array("scale", few)?,
                half: mode.half,
            },
        };
        let negative = read.variances.iter().any(|s| *s < 0.0) || read.unknown.iter().any(|s| *s < 0.0);
        let apart = d > 0 && read.features.count() != mode.count;
        let unsure = (0..width).any(|n| read.covariance[n * width + n] <= 0.0);
        if negative || apart || unsure || mode.count == 0 {
            return Err(flaw());
        }
        modes.push(read);
    }
    let UncertaintyAbout { unit, noise, held_out_noise, tails, pair, .. } = *about;
    Ok(Uncertainty { unit, noise, held_out_noise, tails, pair, modes })
}
