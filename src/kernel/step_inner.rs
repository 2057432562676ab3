//! The linearised change on the two last levels.
//!
//! With the contracted core C, its derivative dC, the rows u, v of an entry and their changes
//! xi_u, xi_v: s = C^T u, ds = dC^T u + C^T xi_u, X = s . v and L = ds . v + s . xi_v. A row and its
//! change lie side by side.

#![allow(unsafe_code)]

use super::dispatch::RowKernel;
use super::inner::{Columns, FIBRES, Fours, Left, PaddedMatrix, PerFibre, TOGETHER, counted, four_from};
use super::rows::Rows;
use super::sums::StepSums;
use super::vector::{Four, Vector, dots};

/// The entries below one node of the level before the last two, and what is read for them.
pub(super) struct StepInner<'b> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    /// Its derivative.
    pub(super) changed: &'b [f64],
    pub(super) ranks: [usize; 2],
    /// Rows with their changes.
    pub(super) rows: [Rows<'b>; 2],
    pub(super) matrices: &'b mut [PaddedMatrix; 3],
    pub(super) fibres: &'b mut [PerFibre; 2],
    pub(super) sums: &'b mut StepSums,
}

impl RowKernel for StepInner<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let [matrix, changed, _] = self.matrices;
        matrix.set_rows::<V>(self.contracted, self.ranks);
        changed.set_rows::<V>(self.changed, self.ranks);
        let zero = V::Four::splat(0.0);
        let mut line = CacheLine::<V> {
            matrix,
            changed,
            rank: self.ranks[0],
            rows: self.rows,
            residual_change: zero,
            change_change: zero,
            squares: zero,
        };
        match self.columns.ends {
            Some(ends) => line.fibres(&self.columns, ends, self.fibres),
            None => line.flat(&self.columns),
        }
        self.sums.residual_change += line.residual_change.sum();
        self.sums.change_change += line.change_change.sum();
        self.sums.squares += line.squares.sum();
    }
}

struct CacheLine<'b, V: Vector> {
    /// The rows of C.
    matrix: &'b PaddedMatrix,
    /// The rows of dC.
    changed: &'b PaddedMatrix,
    /// r_1.
    rank: usize,
    rows: [Rows<'b>; 2],
    /// The sums, each in four parts.
    residual_change: V::Four,
    change_change: V::Four,
    squares: V::Four,
}

// SAFETY, for all blocks below: columns and rows belong to the same block and the same padded line
// (`step` puts them together), so offsets are those of rows; rows are twice as wide as V, and the rows
// of padded matrices at least as wide.
impl<V: Vector> CacheLine<'_, V> {
    #[inline(always)]
    fn flat(&mut self, columns: &Columns<'_>) {
        let Columns { entries, offsets1, offsets2, values, .. } = *columns;
        let mut left = Left::<V::Four>::new(entries);
        for start in (0..entries).step_by(TOGETHER) {
            self.rows[0].prefetch(offsets1, start);
            self.rows[1].prefetch(offsets2, start);
            let (s, ds) = self.four_products(four_from(offsets1, start));
            // SAFETY: see above.
            unsafe {
                let at = self.rows[1].four(four_from(offsets2, start));
                let v = [V::load(at[0]), V::load(at[1]), V::load(at[2]), V::load(at[3])];
                let e = left.of(dots(&s, &v).sub(Four::new(four_from(values, start))));
                let mut changes = [V::Four::splat(0.0); 4];
                for n in 0..TOGETHER {
                    changes[n] = ds[n].fma(v[n], s[n].mul(V::load(at[n].add(V::LANES)))).fold();
                }
                self.add(columns, start, e, left.of(Four::sums(changes)));
                left = left.next();
            }
        }
    }

    #[inline(always)]
    fn fibres(&mut self, columns: &Columns<'_>, ends: &[u16], [s, ds]: &mut [PerFibre; 2]) {
        let mut from = 0;
        for (batch, ends) in ends.chunks(FIBRES).enumerate() {
            for n in (0..ends.len()).step_by(TOGETHER) {
                let (products, changes) = self.four_products(four_from(columns.offsets1, batch * FIBRES + n));
                for k in 0..TOGETHER {
                    s.set(n + k, products[k]);
                    ds.set(n + k, changes[k]);
                }
            }
            for (fibre, &end) in ends.iter().enumerate() {
                let end = usize::from(end) - columns.start;
                // SAFETY: see above.
                let (s, ds) = unsafe { (Fours::<V>::load(s.at(fibre)), Fours::<V>::load(ds.at(fibre))) };
                let columns = &columns.until(end);
                // The last four may reach into the next fibre, whose entries have no weight here.
                let mut left = Left::new(end - from);
                while from < end {
                    self.four(columns, from, left, &s, &ds);
                    left = left.next();
                    from += TOGETHER;
                }
                from = end;
            }
        }
    }

    /// Four entries of a fibre, of which only those that are left have weight.
    #[inline(always)]
    fn four(
        &mut self,
        columns: &Columns<'_>,
        start: usize,
        left: Left<V::Four>,
        s: &Fours<V>,
        ds: &Fours<V>,
    ) {
        self.rows[1].prefetch(columns.offsets2, start);
        // SAFETY: see above; `start` is before the fibre's end.
        unsafe {
            let (at, values) = columns.four(start);
            let at = self.rows[1].four(at);
            let zero = V::Four::splat(0.0);
            let (mut products, mut changes) = ([zero; 4], [zero; 4]);
            for n in 0..TOGETHER {
                products[n] = s.dot(at[n]);
                changes[n] = ds.dot_add(at[n], s.dot(at[n].add(V::LANES)));
            }
            let e = left.of(Four::sums(products).sub(Four::new(values)));
            self.add(columns, start, e, left.of(Four::sums(changes)));
        }
    }

    #[inline(always)]
    fn add(&mut self, columns: &Columns<'_>, start: usize, e: V::Four, l: V::Four) {
        let (we, wl) = (columns.weigh(start, e), columns.weigh(start, l));
        self.residual_change = we.fma(l, self.residual_change);
        self.change_change = wl.fma(l, self.change_change);
        self.squares = we.fma(e, self.squares);
    }

    /// s = C^T u and ds = dC^T u + C^T xi_u for several rows.
    #[inline(always)]
    fn products<const N: usize>(&self, offsets1: [u32; N]) -> ([V; N], [V; N]) {
        let (mut s, mut ds) = ([V::splat(0.0); N], [V::splat(0.0); N]);
        for a in 0..counted::<V>(self.rank) {
            // SAFETY: see above.
            unsafe {
                let row = V::load(self.matrix.0.as_ptr().add(a).cast());
                let changed = V::load(self.changed.0.as_ptr().add(a).cast());
                for n in 0..N {
                    let u = self.rows[0].at(offsets1[n]).add(a);
                    let x = V::splat(*u);
                    s[n] = x.fma(row, s[n]);
                    ds[n] = x.fma(changed, ds[n]);
                    ds[n] = V::splat(*u.add(V::LANES)).fma(row, ds[n]);
                }
            }
        }
        (s, ds)
    }

    /// The products for four rows, as many at a time as registers suffice for.
    #[inline(always)]
    fn four_products(&self, offsets1: [u32; 4]) -> ([V; 4], [V; 4]) {
        let [a, b, c, d] = offsets1;
        if 8 * V::REGISTERS <= V::HELD {
            self.products(offsets1)
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
}
