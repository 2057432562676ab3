//! How the levels of a pass go together: looked up once, and the same for all lanes.

use super::batch::{Aligned, factors};
use super::design::Design;
use super::level::Level;
use super::pass::{Pass, sums_width};
use super::row::start;
use super::shape::{EntryRows, EntryVariances, Segment, Shape};
use crate::MAX_ORDER;
use crate::kernel::{Designs, PANEL_TILE};

/// Levels whose rows take more than this are asked for ahead.
const FAR: usize = 256 << 10;
/// The most memory of what rows of one level are multiplied by: where a table would take more, it is worked out for
/// every entry.
const TABLE_BYTES: usize = 4 << 20;

/// The most memory of the copied rows of the level that leads.
const LEAD_BYTES: u64 = 16 << 20;

/// What copies of rows take: those of the level that leads, of so many rows of k numbers, and the biases of all levels.
pub(super) fn copied_bytes(dims: &[u64], k: usize) -> u64 {
    let row = (k.next_multiple_of(PANEL_TILE) * (size_of::<f64>() + size_of::<f32>())) as u64;
    let most = dims.iter().skip(1).max().copied().unwrap_or(0);
    let lead = (most * row).min(LEAD_BYTES);
    lead + dims.iter().skip(1).sum::<u64>() * size_of::<[f64; 2]>() as u64
}

/// What a pass knows of the levels.
pub(super) struct Along {
    /// Of level 0.
    pub(super) slice: Design,
    /// Of the target, without what comes from level 0.
    pub(super) target: Design,
    /// The column of level 0 that a column of the target is multiplied by, if any.
    pub(super) from: Vec<Option<usize>>,
    /// The columns of the target that other levels than 0 have to do with.
    pub(super) varied: Vec<usize>,
    /// How many numbers of a row of its sums those have nothing to do with, from the first one on.
    pub(super) ones: usize,
    /// Whether an entry adds the same to the target's sums as all others of its slice.
    pub(super) same: bool,
    /// Whether level 0 has components without the target.
    pub(super) beside: bool,
    /// Levels with whole covariances that level 0 alone is multiplied by: their columns beside those of level 0.
    pub(super) whole: Vec<(usize, Vec<(usize, usize)>)>,
    /// Levels whose rows do not fit into a processor's own cache, and are asked for ahead.
    pub(super) far: Vec<usize>,
    /// Where a level has a part in all components of level 0.
    pub(super) lead: Option<Lead>,
    /// What the target's columns are multiplied by, where that is a matter of one level.
    pub(super) scaled: Option<ScaledBy>,
    /// What features of a row of level 0 add to the right side of its equations.
    pub(super) pull: Vec<f64>,
    /// The biases of every level but the first, and their variances: one after the other, because rows are further apart
    /// than lines of the cache.
    pub(super) biases: Vec<Vec<[f64; 2]>>,
}

/// The level whose columns those of level 0 are multiplied by, one by one, and perhaps another that changes some of
/// the products: what [`Designs`](crate::kernel::Designs) are made from.
pub(super) struct Lead {
    pub(super) level: usize,
    pub(super) other: Option<usize>,
    /// Of every row of the other level; one row where there is none.
    pub(super) changes: Aligned,
    /// Its rows and their variances, filled up to whole tiles: a tile lies in one line of the cache each. None where they
    /// would take too much memory.
    pub(super) copied: Option<(Aligned, Aligned<f32>)>,
}

/// What the products of a slice are multiplied by for the entries of every row of a level.
pub(super) struct ScaledBy {
    pub(super) level: usize,
    pub(super) rows: Aligned,
}

impl Along {
    pub(super) fn new(pass: &Pass<'_>) -> Self {
        let Pass { shape, levels, target, .. } = pass;
        let is_whole: Vec<bool> = levels.iter().map(|level| !level.covariances.is_empty()).collect();
        let mut from = vec![None; levels[*target].width];
        for segment in shape.segments.iter().filter(|segment| segment.levels[0] == 0) {
            if let Some(own) = segment.position(*target) {
                (0..segment.count).for_each(|n| from[segment.first[own] + n] = Some(segment.first[0] + n));
            }
        }
        let mut whole = Vec::new();
        for other in (1..levels.len()).filter(|&other| is_whole[other]) {
            let pairs = shape.segments.iter().filter(|segment| segment.levels == [0, other]);
            let columns: Vec<(usize, usize)> = pairs
                .flat_map(|pair| (0..pair.count).map(|n| (pair.first[0] + n, pair.first[1] + n)))
                .collect();
            if !columns.is_empty() {
                whole.push((other, columns));
            }
        }
        let slice = Design::new(shape, 0, None, &is_whole);
        let far = |&level: &usize| size_of_val(&levels[level].means[..]) >= FAR;
        let mut along = Along {
            target: Design::new(shape, *target, Some(0), &vec![false; levels.len()]),
            varied: Vec::new(),
            ones: 0,
            far: (1..levels.len()).filter(far).collect(),
            beside: slice.has_beside(*target) && levels[*target].width > 1,
            slice,
            from,
            same: levels[*target].width == 1 || shape.is_simple(*target),
            whole,
            lead: Lead::new(shape, levels, &is_whole),
            scaled: None,
            pull: levels[0].prior.pull(),
            biases: levels
                .iter()
                .enumerate()
                .map(|(n, level)| if n == 0 { Vec::new() } else { biases(level) })
                .collect(),
        };
        along.varied = along.target.varied();
        along.ones = along.varied.first().map_or(0, |&first| start(first));
        along.scaled = along.scaled_by(shape, levels, *target);
        along
    }

    fn scaled_by(&self, shape: &Shape, levels: &[Level], target: usize) -> Option<ScaledBy> {
        if self.same {
            return None;
        }
        let own = shape.segments.iter().filter(|segment| segment.position(target).is_some());
        let mut others =
            own.flat_map(|segment| &segment.levels).filter(|&&level| level > 0 && level != target);
        let level = *others.next()?;
        let (rows, width) = (levels[level].rows, sums_width(levels[target].width));
        if others.any(|&other| other != level) || rows * width * size_of::<f64>() > TABLE_BYTES {
            return None;
        }
        let mut table = Aligned::new(rows * width, 1.0);
        let e = levels[target].width;
        let (mut z, mut spread) = (vec![1.0; e], vec![0.0; e]);
        for (row, to) in table.numbers_mut().chunks_exact_mut(width).enumerate() {
            let (mut of, mut variances): (EntryRows<'_>, EntryVariances<'_>) =
                ([&[]; MAX_ORDER], [&[]; MAX_ORDER]);
            (of[level], variances[level]) = (levels[level].mean(row), levels[level].variance(row));
            self.factors((&of, &variances), (&mut z, &mut spread), to);
        }
        Some(ScaledBy { level, rows: table })
    }

    /// What the rows of other levels than 0 and the target multiply the products of a slice by. `to` has been filled with
    /// ones once.
    #[inline(always)]
    pub(super) fn factors(
        &self,
        (rows, variances): (&EntryRows<'_>, &EntryVariances<'_>),
        (z, spread): (&mut [f64], &mut [f64]),
        to: &mut [f64],
    ) {
        self.target.z(rows, z);
        for &column in &self.varied {
            spread[column] = 0.0;
        }
        self.target.add_spread(rows, variances, 1.0, spread);
        factors(&self.varied, z, spread, to);
    }
}

impl Lead {
    fn new(shape: &Shape, levels: &[Level], whole: &[bool]) -> Option<Self> {
        let own: Vec<&Segment> = shape.segments.iter().filter(|segment| segment.levels[0] == 0).collect();
        let leads = |level: usize| {
            own.iter()
                .all(|s| s.position(level).is_some_and(|at| s.first[at] == s.first[0]) && s.levels.len() <= 3)
        };
        let level = (1..levels.len()).find(|&level| !own.is_empty() && leads(level))?;
        let other_of =
            |segment: &&Segment| segment.levels[1..].iter().find(|&&other| other != level).copied();
        let mut others = own.iter().filter_map(other_of);
        let other = others.next();
        if others.any(|next| Some(next) != other) {
            return None;
        }
        let (k, rows) = (levels[0].width, other.map_or(1, |other| levels[other].rows));
        let padded = k.next_multiple_of(PANEL_TILE);
        if rows * 3 * padded * size_of::<f64>() > TABLE_BYTES {
            return None;
        }
        let mut changes = Aligned::new(rows * 3 * padded, 0.0);
        for (row, to) in changes.numbers_mut().chunks_exact_mut(3 * padded).enumerate() {
            for segment in &own {
                for n in 0..segment.count {
                    let to = &mut to[segment.first[0] + n..];
                    if let Some(other) = other_of(segment) {
                        let at = segment.first[segment.position(other).unwrap_or(0)] + n;
                        let (m, s) =
                            (levels[other].mean(row)[at], f64::from(levels[other].variance(row)[at]));
                        (to[0], to[padded], to[2 * padded]) = (m, m * m + s, s);
                    } else {
                        // Covariances that are whole are taken care of elsewhere.
                        (to[0], to[padded]) = (1.0, if whole[level] { 0.0 } else { 1.0 });
                    }
                }
            }
        }
        let copied = Self::copied(&levels[level], padded);
        Some(Lead { level, other, changes, copied })
    }

    fn copied(level: &Level, padded: usize) -> Option<(Aligned, Aligned<f32>)> {
        let (rows, width, k) = (level.rows, level.width, level.width.min(padded));
        if (rows * padded * (size_of::<f64>() + size_of::<f32>())) as u64 > LEAD_BYTES {
            return None;
        }
        let (mut means, mut variances) = (Aligned::new(rows * padded, 0.0), Aligned::new(rows * padded, 0.0));
        for (to, from) in means.numbers_mut().chunks_exact_mut(padded).zip(level.means.chunks_exact(width)) {
            to[..k].copy_from_slice(&from[..k]);
        }
        for (to, from) in
            variances.numbers_mut().chunks_exact_mut(padded).zip(level.variances.chunks_exact(width))
        {
            to[..k].copy_from_slice(&from[..k]);
        }
        Some((means, variances))
    }

    /// What z is made from, in rows of k numbers.
    pub(super) fn designs<'a>(&'a self, levels: &'a [Level]) -> Designs<'a> {
        let (level, bias) = (&levels[self.level], levels[0].width - 1);
        let (means, variances, stride) = match &self.copied {
            Some((means, variances)) => {
                (means.numbers(), variances.numbers(), (bias + 1).next_multiple_of(PANEL_TILE))
            }
            None => (&level.means[..], &level.variances[..], level.width),
        };
        Designs { means, variances, stride, changes: self.changes.numbers(), bias }
    }
}

/// The last column.
fn biases(level: &Level) -> Vec<[f64; 2]> {
    let rows = level.means.chunks_exact(level.width).zip(level.variances.chunks_exact(level.width));
    rows.map(|(mean, variance)| [mean[level.width - 1], f64::from(variance[level.width - 1])]).collect()
}
