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

    /// f.
    pub(super) fn value(&self, rows: &EntryRows<'_>) -> f64 {
        let biases: f64 = (0..self.order()).map(|level| rows[level][self.widths[level] - 1]).sum();
        biases + self.segments.iter().map(|segment| segment_value(segment, rows)).sum::<f64>()
    }

    /// The variance of f, as if rows and their columns were independent.
    pub(super) fn value_variance(&self, rows: &EntryRows<'_>, variances: &EntryVariances<'_>) -> f64 {
        let of = |level: usize, column: usize| f64::from(variances[level][column]);
        let mut sum: f64 = (0..self.order()).map(|level| of(level, self.widths[level] - 1)).sum();
        for segment in &self.segments {
            for n in 0..segment.count {
                let (mut square, mut second) = (1.0, 1.0);
                for (&level, first) in segment.levels.iter().zip(&segment.first) {
                    let m = rows[level][first + n];
                    square *= m * m;
                    second *= m * m + of(level, first + n);
                }
                sum += second - square;
            }
        }
        sum
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
