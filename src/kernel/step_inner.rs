//! The linearised change on the two last levels.
//!
//! With the contracted core C, its derivative dC, the rows u, v of an entry and their changes
//! xi_u, xi_v: s = C^T u, ds = dC^T u + C^T xi_u, X = s . v and L = ds . v + s . xi_v.

use super::dispatch::RankJob;
use super::inner::{Columns, Padded, TOGETHER, four_from};
use super::rows::{RowVectors, Rows};
use super::sums::StepSums;
use super::vector::{Four, Vector, dots};

/// The entries below one node of the level before the last two, and what is read for them.
pub(super) struct StepInner<'b> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    /// Its derivative.
    pub(super) changed: &'b [f64],
    pub(super) rows: [Rows<'b>; 2],
    pub(super) padded: &'b mut [Padded; 3],
    /// The rows of the direction.
    pub(super) changes: [Rows<'b>; 2],
    pub(super) sums: &'b mut StepSums,
}

impl RankJob for StepInner<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Columns { entries, ids1, ids2, values, .. } = self.columns;
        let [matrix, changed, _] = self.padded;
        matrix.set_rows(self.contracted, self.rows[1].rank());
        changed.set_rows(self.changed, self.rows[1].rank());
        let mut line = Line::<V> {
            matrix,
            changed,
            rows: self.rows,
            changes: self.changes,
            vectors: self.rows[1].as_vectors(),
            change_vectors: self.changes[1].as_vectors(),
            residual_change: V::Four::splat(0.0),
            change_change: V::Four::splat(0.0),
            squares: V::Four::splat(0.0),
        };
        if self.columns.ends.is_some() {
            for (id1, fibre) in self.columns.fibres() {
                let ([s], [ds]) = line.products([id1]);
                for start in fibre.clone().step_by(TOGETHER) {
                    line.prefetch(1, ids2, start);
                    let (id2, values) = (four_from(ids2, start), four_from(values, start));
                    line.add(&[s; 4], &[ds; 4], id2, values, fibre.end - start);
                }
            }
        } else {
            for start in (0..entries).step_by(TOGETHER) {
                line.prefetch(0, ids1, start);
                line.prefetch(1, ids2, start);
                let (s, ds) = line.four_products(four_from(ids1, start));
                line.add(&s, &ds, four_from(ids2, start), four_from(values, start), entries - start);
            }
        }
        self.sums.residual_change += line.residual_change.sum();
        self.sums.change_change += line.change_change.sum();
        self.sums.squares += line.squares.sum();
    }
}

struct Line<'b, V: Vector> {
    /// The rows of C.
    matrix: &'b Padded,
    /// The rows of dC.
    changed: &'b Padded,
    rows: [Rows<'b>; 2],
    changes: [Rows<'b>; 2],
    /// The last level of `rows` and `changes`.
    vectors: RowVectors<'b, V>,
    change_vectors: RowVectors<'b, V>,
    /// The sums, each in four parts.
    residual_change: V::Four,
    change_change: V::Four,
    squares: V::Four,
}

impl<V: Vector> Line<'_, V> {
    #[inline(always)]
    fn prefetch(&self, level: usize, ids: &[u32], entry: usize) {
        self.rows[level].prefetch(ids, entry);
        self.changes[level].prefetch(ids, entry);
    }

    /// s = C^T u and ds = dC^T u + C^T xi_u for several rows.
    #[inline(always)]
    fn products<const N: usize>(&self, ids1: [u32; N]) -> ([V; N], [V; N]) {
        let rank = self.rows[0].rank();
        let (mut u, mut xi): ([&[f64]; N], [&[f64]; N]) = ([&[]; N], [&[]; N]);
        for n in 0..N {
            u[n] = &self.rows[0].row(ids1[n])[..rank];
            xi[n] = &self.changes[0].row(ids1[n])[..rank];
        }
        let (mut s, mut ds) = ([V::splat(0.0); N], [V::splat(0.0); N]);
        for a in 0..rank {
            let (row, changed) = (V::load(&self.matrix.0[a]), V::load(&self.changed.0[a]));
            for n in 0..N {
                let x = V::splat(u[n][a]);
                s[n] = x.fma(row, s[n]);
                ds[n] = x.fma(changed, ds[n]);
                ds[n] = V::splat(xi[n][a]).fma(row, ds[n]);
            }
        }
        (s, ds)
    }

    /// The products for four rows, as many at a time as registers suffice for.
    #[inline(always)]
    fn four_products(&self, ids1: [u32; 4]) -> ([V; 4], [V; 4]) {
        let [a, b, c, d] = ids1;
        if 8 * V::REGISTERS <= V::HELD {
            self.products(ids1)
        } else if 4 * V::REGISTERS <= V::HELD {
            let ([s0, s1], [ds0, ds1]) = self.products([a, b]);
            let ([s2, s3], [ds2, ds3]) = self.products([c, d]);
            ([s0, s1, s2, s3], [ds0, ds1, ds2, ds3])
        } else {
            let ([s0], [ds0]) = self.products([a]);
            let ([s1], [ds1]) = self.products([b]);
            let ([s2], [ds2]) = self.products([c]);
            let ([s3], [ds3]) = self.products([d]);
            ([s0, s1, s2, s3], [ds0, ds1, ds2, ds3])
        }
    }

    /// Four entries, of which only the first `count` have weight.
    #[inline(always)]
    fn add(&mut self, s: &[V; 4], ds: &[V; 4], id2: [u32; 4], values: [f64; 4], count: usize) {
        let v = self.vectors.four(&id2);
        let xi = self.change_vectors.four(&id2);
        let e = dots(s, &v).sub(V::Four::load(&values)).first(count);
        let mut changes = [V::Four::splat(0.0); 4];
        for n in 0..4 {
            changes[n] = ds[n].fma(v[n], s[n].mul(xi[n])).fold();
        }
        let l = V::Four::sums(changes).first(count);
        self.residual_change = e.fma(l, self.residual_change);
        self.change_change = l.fma(l, self.change_change);
        self.squares = e.fma(e, self.squares);
    }
}
