//! What a value is made of: biases, and products of columns of the rows of two or more modes.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Components of the same modes: component n is the product, over `levels`, of column `first + n` of the row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The levels (modes in storage order) whose rows are multiplied, ascending.
    pub levels: Vec<usize>,
    /// For each of them the column of the first component.
    pub first: Vec<usize>,
    /// How many components.
    pub count: usize,
}

impl Segment {
    /// Where a level stands among those of the segment.
    pub(super) fn position(&self, level: usize) -> Option<usize> {
        self.levels.iter().position(|&other| other == level)
    }
}

/// A value, less the mean, is the sum over levels of the last column of its row (the bias) and over all
/// components of their products:
///
/// f = sum_l m_l\[last\] + sum_c prod_{l in c} m_l\[c\].
///
/// It is a Tucker tensor with a sparse core. Given all rows but one it is linear in that one: f = rest + <m, z>.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Columns of a row, per level; the last one is the bias.
    pub widths: Vec<usize>,
    /// The components.
    pub segments: Vec<Segment>,
}

/// The rows of an entry, per level.
pub(super) type EntryRows<'a> = [&'a [f64]; crate::MAX_ORDER];
/// Their variances.
pub(super) type EntryVariances<'a> = [&'a [f32]; crate::MAX_ORDER];

impl Shape {
    /// Biases and nothing else.
    pub fn of_biases(order: usize) -> Self {
        Shape { widths: vec![1; order], segments: Vec::new() }
    }

    /// Adds components of some levels, in front of the biases. Rows must be widened likewise.
    pub fn add(&mut self, levels: &[usize], count: usize) {
        let first = levels.iter().map(|&level| self.widths[level] - 1).collect();
        levels.iter().for_each(|&level| self.widths[level] += count);
        self.segments.push(Segment { levels: levels.to_vec(), first, count });
    }

    /// An error where it cannot be of so many modes: it may come from a file.
    pub fn check(&self, order: usize) -> Result<()> {
        let ends = |segment: &Segment, level: usize| {
            segment.position(level).map_or(0, |at| segment.first[at] + segment.count)
        };
        let fits = |segment: &Segment| {
            segment.levels.len() >= 2
                && segment.levels.len() == segment.first.len()
                && segment.levels.is_sorted_by(|a, b| a < b)
                && segment
                    .levels
                    .iter()
                    .all(|&level| level < order && ends(segment, level) < self.widths[level])
        };
        let whole =
            self.widths.len() == order && self.widths.iter().all(|&width| (1..=1 << 12).contains(&width));
        if whole && self.segments.iter().all(fits) {
            return Ok(());
        }
        Err(Error::request("the components of the model do not go with its modes"))
    }

    /// Whether the factor of a level has a constant column: for components that leave it out.
    pub fn has_constant(&self, level: usize) -> bool {
        let partial = self.segments.iter().any(|segment| segment.position(level).is_none());
        partial || self.widths[level] == 1
    }

    /// The rank of a level's mode.
    pub fn rank(&self, level: usize) -> usize {
        self.widths[level] - 1 + usize::from(self.has_constant(level))
    }

    /// The order.
    pub fn order(&self) -> usize {
        self.widths.len()
    }

    /// z: what the row of a level is multiplied by, the rows of the others given.
    #[inline(always)]
    pub(super) fn design(&self, level: usize, rows: &EntryRows<'_>, z: &mut [f64]) {
        z[self.widths[level] - 1] = 1.0;
        for segment in &self.segments {
            let Some(own) = segment.position(level) else { continue };
            let to = &mut z[segment.first[own]..][..segment.count];
            product_but(segment, own, rows, to);
        }
    }

    /// The variance of every number of z, rows of other levels being independent, and so their columns.
    #[inline(always)]
    pub(super) fn design_variance(
        &self,
        level: usize,
        rows: &EntryRows<'_>,
        variances: &EntryVariances<'_>,
        weight: f64,
        to: &mut [f64],
    ) {
        for segment in &self.segments {
            let Some(own) = segment.position(level) else { continue };
            let to = &mut to[segment.first[own]..][..segment.count];
            if segment.levels.len() == 2 {
                let (other, first) = (segment.levels[1 - own], segment.first[1 - own]);
                let from = &variances[other][first..][..segment.count];
                to.iter_mut().zip(from).for_each(|(to, s)| *to += weight * f64::from(*s));
                continue;
            }
            for (n, to) in to.iter_mut().enumerate() {
                let (mut square, mut second) = (1.0, 1.0);
                for (at, &other) in segment.levels.iter().enumerate().filter(|(at, _)| *at != own) {
                    let m = rows[other][segment.first[at] + n];
                    square *= m * m;
                    second *= m * m + f64::from(variances[other][segment.first[at] + n]);
                }
                *to += weight * (second - square);
            }
        }
    }

    /// The part of a value that does not depend on the row of a level.
    #[inline(always)]
    pub(super) fn rest(&self, level: usize, rows: &EntryRows<'_>) -> f64 {
        let mut sum = 0.0;
        for other in (0..self.order()).filter(|&other| other != level) {
            sum += rows[other][self.widths[other] - 1];
        }
        for segment in self.segments.iter().filter(|segment| segment.position(level).is_none()) {
            sum += segment_value(segment, rows);
        }
        sum
    }

    /// The variance of that part, as if columns were independent.
    #[inline(always)]
    pub(super) fn rest_variance(
        &self,
        level: usize,
        rows: &EntryRows<'_>,
        variances: &EntryVariances<'_>,
    ) -> f64 {
        let mut sum = 0.0;
        for other in (0..self.order()).filter(|&other| other != level) {
            sum += f64::from(variances[other][self.widths[other] - 1]);
        }
        for segment in self.segments.iter().filter(|segment| segment.position(level).is_none()) {
            for n in 0..segment.count {
                let (mut square, mut second) = (1.0, 1.0);
                for (at, &other) in segment.levels.iter().enumerate() {
                    let m = rows[other][segment.first[at] + n];
                    square *= m * m;
                    second *= m * m + f64::from(variances[other][segment.first[at] + n]);
                }
                sum += second - square;
            }
        }
        sum
    }

    /// f.
    pub(super) fn value(&self, rows: &EntryRows<'_>) -> f64 {
        let biases: f64 = (0..self.order()).map(|level| rows[level][self.widths[level] - 1]).sum();
        biases + self.segments.iter().map(|segment| segment_value(segment, rows)).sum::<f64>()
    }

    /// Whether the row of `target` is multiplied by that of level 0 alone, and all of level 0's but its bias
    /// goes into that: what an entry adds to the target's sums is the same for all entries of a slice then.
    pub(super) fn is_simple(&self, target: usize) -> bool {
        let simple = |segment: &Segment| {
            let (first, own) = (segment.levels.contains(&0), segment.levels.contains(&target));
            !first && !own || segment.levels == [0, target]
        };
        target > 0 && self.segments.iter().all(simple)
    }
}

/// The products of the columns of all levels but one.
#[inline(always)]
pub(super) fn product_but(segment: &Segment, own: usize, rows: &EntryRows<'_>, to: &mut [f64]) {
    let mut fresh = true;
    for (at, &level) in segment.levels.iter().enumerate().filter(|(at, _)| *at != own) {
        let from = &rows[level][segment.first[at]..][..segment.count];
        if std::mem::take(&mut fresh) {
            to.copy_from_slice(from);
        } else {
            to.iter_mut().zip(from).for_each(|(to, x)| *to *= x);
        }
    }
}

/// The sum of a segment's components.
#[inline(always)]
fn segment_value(segment: &Segment, rows: &EntryRows<'_>) -> f64 {
    if let ([a, b], [p, q]) = (&segment.levels[..], &segment.first[..]) {
        let (x, y) = (&rows[*a][*p..][..segment.count], &rows[*b][*q..][..segment.count]);
        return x.iter().zip(y).map(|(x, y)| x * y).sum();
    }
    let product = |n: usize| -> f64 {
        segment.levels.iter().zip(&segment.first).map(|(&level, first)| rows[level][first + n]).product()
    };
    (0..segment.count).map(product).sum()
}
