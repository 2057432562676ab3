//! What the row of a level is multiplied by: looked up in a shape once per pass, and not for every entry.

use super::row::dot;
use super::shape::{EntryRows, EntryVariances, Segment, Shape};

/// A value is the rest and <m, z>, m being the row of one level.
pub(super) struct Design {
    width: usize,
    /// Components that the level has a part in.
    own: Vec<Part>,
    /// The others.
    pub(super) rest: Vec<Part>,
    /// One: what is multiplied by it is not copied by a call of a function, as long as a row itself.
    one: f64,
}

/// Components of the same levels.
pub(super) struct Part {
    /// The first column, in the level's own rows.
    first: usize,
    count: usize,
    /// The other levels, and their first columns.
    others: Vec<(usize, usize)>,
    /// Whether the covariances of the one other level are whole, and taken care of elsewhere.
    whole: bool,
}

impl Design {
    /// For the rows of a level. Those of level `without` are left out of z, and columns that nothing is left of are not
    /// written; levels of `whole` have covariances.
    pub(super) fn new(shape: &Shape, level: usize, without: Option<usize>, whole: &[bool]) -> Self {
        let part = |segment: &Segment, own: Option<usize>| {
            let others: Vec<(usize, usize)> =
                (segment.levels.iter().copied().zip(segment.first.iter().copied()))
                    .filter(|(other, _)| *other != level && (own.is_none() || Some(*other) != without))
                    .collect();
            let whole = segment.levels.len() == 2 && matches!(others[..], [(other, _)] if whole[other]);
            Part { first: own.map_or(0, |own| segment.first[own]), count: segment.count, others, whole }
        };
        let place = |segment: &Segment| segment.position(level).is_some();
        let of = |segment: &Segment| part(segment, segment.position(level));
        Design {
            width: shape.widths[level],
            own: (shape.segments.iter().filter(|segment| place(segment)).map(of))
                .filter(|part| !part.others.is_empty())
                .collect(),
            rest: shape.segments.iter().filter(|segment| !place(segment)).map(of).collect(),
            one: 1.0,
        }
    }

    /// z, the rows of the other levels given.
    #[inline(always)]
    pub(super) fn z(&self, rows: &EntryRows<'_>, z: &mut [f64]) {
        z[self.width - 1] = 1.0;
        for part in &self.own {
            self.product(part, rows, &mut z[part.first..][..part.count]);
        }
    }

    /// Of z what does not come from the rows of a level; zeros else.
    #[inline(always)]
    pub(super) fn z_beside(&self, level: usize, rows: &EntryRows<'_>, z: &mut [f64]) {
        z.fill(0.0);
        z[self.width - 1] = 1.0;
        for part in self.own.iter().filter(|part| !part.has(level)) {
            self.product(part, rows, &mut z[part.first..][..part.count]);
        }
    }

    /// Whether there is any, beside the bias.
    pub(super) fn has_beside(&self, level: usize) -> bool {
        self.own.iter().any(|part| !part.has(level))
    }

    #[inline(always)]
    fn product(&self, part: &Part, rows: &EntryRows<'_>, to: &mut [f64]) {
        let mut fresh = true;
        for &(level, first) in &part.others {
            let from = &rows[level][first..][..to.len()];
            if std::mem::take(&mut fresh) {
                to.iter_mut().zip(from).for_each(|(to, x)| *to = self.one * x);
            } else {
                to.iter_mut().zip(from).for_each(|(to, x)| *to *= x);
            }
        }
    }

    /// The columns of z that the rows of other levels have to do with.
    pub(super) fn varied(&self) -> Vec<usize> {
        let mut columns: Vec<usize> =
            self.own.iter().flat_map(|part| part.first..part.first + part.count).collect();
        columns.sort_unstable();
        columns
    }

    /// Adds the variance of every number of z, rows of other levels being independent, and so their columns; but
    /// for those whose covariances are whole.
    #[inline(always)]
    pub(super) fn add_spread(
        &self,
        rows: &EntryRows<'_>,
        variances: &EntryVariances<'_>,
        weight: f64,
        to: &mut [f64],
    ) {
        for part in self.own.iter().filter(|part| !part.whole) {
            let to = &mut to[part.first..][..part.count];
            // One other level, or two, as nearly always: lengths that the compiler knows to be equal.
            let of = |(level, first): (usize, usize)| {
                (&rows[level][first..][..to.len()], &variances[level][first..][..to.len()])
            };
            match part.others[..] {
                [one] => {
                    let (_, s) = of(one);
                    to.iter_mut().zip(s).for_each(|(to, s)| *to += weight * f64::from(*s));
                }
                [one, two] => {
                    let ((p, s), (q, t)) = (of(one), of(two));
                    for (n, to) in to.iter_mut().enumerate() {
                        let (p, q, s, t) = (p[n] * p[n], q[n] * q[n], f64::from(s[n]), f64::from(t[n]));
                        *to += weight * ((p + s) * t + s * q);
                    }
                }
                _ => {
                    for (n, to) in to.iter_mut().enumerate() {
                        *to += weight * part.variance(n, rows, variances);
                    }
                }
            }
        }
    }

    /// The variance of what does not depend on the level's row, biases left out, as if columns were independent.
    #[inline(always)]
    pub(super) fn rest_variance(&self, rows: &EntryRows<'_>, variances: &EntryVariances<'_>) -> f64 {
        let mut sum = 0.0;
        for part in &self.rest {
            for n in 0..part.count {
                sum += part.variance(n, rows, variances);
            }
        }
        sum
    }
}

impl Part {
    /// The sum of the components, the rows of all levels given.
    #[inline(always)]
    pub(super) fn sum<'l>(&self, row: impl Fn(usize) -> &'l [f64]) -> f64 {
        if let [(a, p), (b, q)] = self.others[..] {
            return dot(&row(a)[p..][..self.count], &row(b)[q..][..self.count]);
        }
        let product =
            |n: usize| self.others.iter().map(|&(level, first)| row(level)[first + n]).product::<f64>();
        (0..self.count).map(product).sum()
    }

    /// Where it is a product of a row of level 0 and one of another level: the first column of the one, the other level
    /// and its first column, and how many there are.
    #[inline(always)]
    pub(super) fn with_first(&self) -> Option<(usize, usize, usize, usize)> {
        match self.others[..] {
            [(0, first), (level, from)] => Some((first, level, from, self.count)),
            _ => None,
        }
    }

    fn has(&self, level: usize) -> bool {
        self.others.iter().any(|other| other.0 == level)
    }

    /// The variance of a product of independent numbers.
    #[inline(always)]
    fn variance(&self, n: usize, rows: &EntryRows<'_>, variances: &EntryVariances<'_>) -> f64 {
        let (mut square, mut second) = (1.0, 1.0);
        for &(level, first) in &self.others {
            let m = rows[level][first + n];
            square *= m * m;
            second *= m * m + f64::from(variances[level][first + n]);
        }
        second - square
    }
}
