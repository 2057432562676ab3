//! The gradient on the two last levels.
//!
//! With the contracted core C (r_1 x r_2), the rows u and v of an entry and its residual
//! e = u^T C v - y: the row of u receives e C v, that of v e C^T u, and the adjoint of C receives
//! e u v^T.

use super::dispatch::{MAX_RANK, RankJob};
use super::inner::{Columns, Padded, TOGETHER, combine, combine_four, four_from};
use super::rows::{RowAdder, RowVectors, Rows};
use super::sums::RowSums;
use super::vector::{Four, Vector, dots};

/// The entries below one node of the level before the last two, what is read for them and what is
/// added to; 1 is the level before the last, 2 the last.
pub(super) struct GradientInner<'b> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    pub(super) rows: [Rows<'b>; 2],
    pub(super) padded: &'b mut [Padded; 3],
    pub(super) sums1: &'b mut RowSums,
    pub(super) sums2: &'b mut RowSums,
    /// Receives the sum of e u v^T, r_1 x r_2.
    pub(super) adjoint: &'b mut [f64],
    /// Receives the sum of e^2.
    pub(super) squares: &'b mut f64,
}

impl RankJob for GradientInner<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let [rows1, rows2] = self.rows;
        let [matrix, transposed, outer] = self.padded;
        matrix.set_rows(self.contracted, rows2.rank());
        transposed.set_columns(self.contracted, rows2.rank());
        outer.clear(rows1.rank());
        let mut pass = Pass::<V> {
            matrix,
            transposed,
            rows1,
            rows2,
            vectors2: rows2.as_vectors(),
            d1: RowAdder::new(self.sums1),
            d2: RowAdder::new(self.sums2),
            // Columns may take several vectors, the last of them filled in part: no mask for all.
            mask1: V::mask(if rows1.rank() <= V::LANES { rows1.rank() } else { V::LANES }),
            mask2: V::mask(rows2.rank()),
            outer,
            squares: V::Four::splat(0.0),
        };
        match self.columns.ends {
            Some(_) => pass.fibres(&self.columns),
            None => pass.flat(&self.columns),
        }
        *self.squares += pass.squares.sum();
        pass.outer.add_to(self.adjoint, rows2.rank());
    }
}

struct Pass<'b, V: Vector> {
    /// The contracted core C: numbers of the last level side by side.
    matrix: &'b Padded,
    /// Numbers of the level before side by side.
    transposed: &'b Padded,
    rows1: Rows<'b>,
    rows2: Rows<'b>,
    vectors2: RowVectors<'b, V>,
    d1: RowAdder<'b>,
    d2: RowAdder<'b>,
    /// What is added to of rows of the level before the last, and of the last.
    mask1: V::Mask,
    mask2: V::Mask,
    /// The sum of e u v^T.
    outer: &'b mut Padded,
    /// The sum of e^2, in four parts.
    squares: V::Four,
}

impl<V: Vector> Pass<'_, V> {
    /// Entries that share nothing: both products with C per entry.
    #[inline(always)]
    fn flat(&mut self, columns: &Columns<'_>) {
        let Columns { entries, ids1, ids2, values, .. } = *columns;
        let (r1, r2) = (self.rows1.rank(), self.rows2.rank());
        for start in (0..entries).step_by(TOGETHER) {
            self.rows1.prefetch(ids1, start);
            self.rows2.prefetch(ids2, start);
            self.d1.prefetch(ids1, start);
            self.d2.prefetch(ids2, start);
            let (id1, id2) = (four_from(ids1, start), four_from(ids2, start));
            let (u, v) = (self.rows1.rows(&id1), self.rows2.rows(&id2));
            let cu = combine_four::<V>(self.matrix, 0, r1, u);
            let mut ev = self.vectors2.four(&id2);
            let e = self.residuals(&cu, &ev, four_from(values, start), entries - start);
            for n in 0..TOGETHER {
                ev[n] = V::splat(e[n]).mul(ev[n]);
                self.d2.add(id2[n], 0, e[n], cu[n], self.mask2);
            }
            for from in (0..r1).step_by(V::LANES) {
                let cv = combine_four::<V>(self.transposed, from, r2, v);
                for n in 0..TOGETHER {
                    self.d1.add(id1[n], from, e[n], cv[n], self.mask1);
                }
            }
            for a in 0..r1 {
                let mut sum = V::load(&self.outer.0[a]);
                for n in 0..TOGETHER {
                    sum = V::splat(u[n][a]).fma(ev[n], sum);
                }
                sum.store(&mut self.outer.0[a]);
            }
        }
    }

    /// Entries in fibres: C^T u once per fibre, and back once per fibre.
    #[inline(always)]
    fn fibres(&mut self, columns: &Columns<'_>) {
        let (r1, r2) = (self.rows1.rank(), self.rows2.rank());
        for (id1, fibre) in columns.fibres() {
            let u = self.rows1.row(id1);
            let [cu] = combine::<V, 1>(self.matrix, 0, r1, [u]);
            // The sum of e v, in two parts.
            let mut ev = [V::splat(0.0); 2];
            for start in fibre.clone().step_by(TOGETHER) {
                self.rows2.prefetch(columns.ids2, start);
                self.d2.prefetch(columns.ids2, start);
                // The last four may reach into the next fibre, whose entries then have no weight.
                let id2 = four_from(columns.ids2, start);
                let v = self.vectors2.four(&id2);
                let values = four_from(columns.values, start);
                let e = self.residuals(&[cu; TOGETHER], &v, values, fibre.end - start);
                // Two chains, so that the next four wait for two additions, not for four.
                let first = V::splat(e[1]).fma(v[1], V::splat(e[0]).fma(v[0], ev[0]));
                let second = V::splat(e[3]).fma(v[3], V::splat(e[2]).fma(v[2], ev[1]));
                ev = [first, second];
                for n in 0..TOGETHER {
                    self.d2.add(id2[n], 0, e[n], cu, self.mask2);
                }
            }
            let ev = ev[0].fma(V::splat(1.0), ev[1]);
            let mut numbers = [0.0; MAX_RANK];
            ev.store(&mut numbers);
            for from in (0..r1).step_by(V::LANES) {
                let [cv] = combine::<V, 1>(self.transposed, from, r2, [&numbers]);
                self.d1.add(id1, from, 1.0, cv, self.mask1);
            }
            for a in 0..r1 {
                let outer = &mut self.outer.0[a];
                V::splat(u[a]).fma(ev, V::load(outer)).store(outer);
            }
        }
    }

    /// The residuals of four entries; zero from `count` on.
    #[inline(always)]
    fn residuals(&mut self, cu: &[V; 4], v: &[V; 4], values: [f64; 4], count: usize) -> [f64; 4] {
        let e = dots(cu, v).sub(V::Four::load(&values)).first(count);
        self.squares = e.fma(e, self.squares);
        e.array()
    }
}
