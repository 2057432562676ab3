//! The gradient on the two last levels.
//!
//! With the contracted core C (r_1 x r_2), the rows u and v of an entry and its residual
//! e = u^T C v - y: the row of u receives e C v, that of v e C^T u, and the adjoint of C receives
//! e u v^T. Where entries have weights, w e takes the place of e, and w e^2 that of e^2.
//!
//! Only the residual suffers from cancellation, so it is always in double precision, and so are the
//! sums that a fibre or a slice keeps in registers. The sums of the rows, which lie in memory and are
//! added to for every entry, may be in single precision: half the memory, half the traffic.

#![allow(unsafe_code)]

use super::dispatch::RowKernel;
use super::inner::{
    Columns, FIBRES, Fours, Left, PaddedMatrix, PerFibre, TOGETHER, combine_four, counted, forward, four_from,
};
use super::rows::{RowAdder, Rows};
use super::sums::Number;
use super::vector::{Four, Vector, dots};

/// The entries below one node of the level before the last two, what is read for them and what is
/// added to; 1 is the level before the last, 2 the last. Rows are summed up in numbers of type N.
pub(super) struct GradientInner<'b, N> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    pub(super) ranks: [usize; 2],
    pub(super) rows: [Rows<'b>; 2],
    pub(super) matrices: &'b mut [PaddedMatrix; 3],
    pub(super) fibres: &'b mut [PerFibre; 2],
    pub(super) d1: RowAdder<'b, N>,
    pub(super) d2: RowAdder<'b, N>,
    /// Receives the sum of e u v^T, r_1 x r_2.
    pub(super) adjoint: &'b mut [f64],
    /// Receives the sums of e^2 and of |e|.
    pub(super) errors: [&'b mut f64; 2],
}

impl<N: Number> RowKernel for GradientInner<'_, N> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let [matrix, transposed, outer] = self.matrices;
        matrix.set_rows::<V>(self.contracted, self.ranks);
        transposed.set_columns::<V>(self.contracted, self.ranks);
        outer.clear::<V>(counted::<V>(self.ranks[0]));
        let [products, sums] = self.fibres;
        let mut pass = NodeSums::<V, N> {
            matrix,
            transposed,
            ranks: self.ranks.map(counted::<V>),
            rows1: self.rows[0],
            rows2: self.rows[1],
            d1: self.d1,
            d2: self.d2,
            products,
            sums,
            outer,
            squares: V::Four::splat(0.0),
            absolute: V::Four::splat(0.0),
        };
        match self.columns.ends {
            // Small rows that the caches hold: what is asked per four entries counts there.
            Some(ends) if V::LANES == 4 && self.columns.weights.is_none() && pass.is_near() => {
                pass.fibres::<true>(&self.columns, ends);
            }
            Some(ends) => pass.fibres::<false>(&self.columns, ends),
            None => pass.flat(&self.columns),
        }
        let [squares, absolute] = self.errors;
        *squares += pass.squares.sum();
        *absolute += pass.absolute.sum();
        pass.outer.add_to(self.adjoint, self.ranks);
    }
}

struct NodeSums<'b, V: Vector, N> {
    /// The contracted core C: numbers of the last level side by side.
    matrix: &'b PaddedMatrix,
    /// Numbers of the level before side by side.
    transposed: &'b PaddedMatrix,
    ranks: [usize; 2],
    rows1: Rows<'b>,
    rows2: Rows<'b>,
    d1: RowAdder<'b, N>,
    d2: RowAdder<'b, N>,
    /// C^T u of each fibre.
    products: &'b mut PerFibre,
    /// The sum of e v of each fibre.
    sums: &'b mut PerFibre,
    /// The sum of e u v^T.
    outer: &'b mut PaddedMatrix,
    /// The sums of e^2 and of |e|, each in four parts.
    squares: V::Four,
    absolute: V::Four,
}

// SAFETY, for all blocks below: columns, rows and sums belong to the same block and the same padded
// factors (`gradient` puts them together), so offsets are those of rows; rows are as wide as V, and
// the rows of padded matrices at least that.
impl<V: Vector, N: Number> NodeSums<'_, V, N> {
    /// Entries that share nothing: both products with C per entry.
    #[inline(always)]
    fn flat(&mut self, columns: &Columns<'_>) {
        let Columns { entries, offsets1, offsets2, values, .. } = *columns;
        let [r1, r2] = self.ranks;
        let mut left = Left::<V::Four>::new(entries);
        for start in (0..entries).step_by(TOGETHER) {
            self.rows1.prefetch(offsets1, start);
            self.rows2.prefetch(offsets2, start);
            self.d1.prefetch(offsets1, start);
            self.d2.prefetch(offsets2, start);
            let (at1, at2) = (four_from(offsets1, start), four_from(offsets2, start));
            // SAFETY: see above.
            unsafe {
                let (u, v) = (self.rows1.four(at1), self.rows2.four(at2));
                let cu = combine_four::<V>(self.matrix, r1, u);
                let mut ev = [V::load(v[0]), V::load(v[1]), V::load(v[2]), V::load(v[3])];
                let e = left.of(dots(&cu, &ev).sub(Four::new(four_from(values, start))));
                left = left.next();
                let we = columns.weigh(start, e);
                self.squares = we.fma(e, self.squares);
                self.absolute = self.absolute.add(we.abs());
                let (scales, e) = (N::four(we), we.array());
                for n in 0..TOGETHER {
                    ev[n] = V::splat(e[n]).mul(ev[n]);
                    self.d2.add::<V>(at2[n], scales[n], N::row(cu[n]));
                }
                let cv = combine_four::<V>(self.transposed, r2, v);
                for n in 0..TOGETHER {
                    self.d1.add::<V>(at1[n], scales[n], N::row(cv[n]));
                }
                self.add_outer(r1, u, ev);
            }
        }
    }

    /// Whether the rows of the last level are where nobody asks for them ahead.
    #[inline(always)]
    fn is_near(&self) -> bool {
        self.rows2.is_near() && self.d2.is_near()
    }

    /// Entries in fibres: C^T u once per fibre, and back once per fibre. `PLAIN` promises that entries
    /// have no weights and that rows need not be asked for.
    #[inline(always)]
    fn fibres<const PLAIN: bool>(&mut self, columns: &Columns<'_>, ends: &[u16]) {
        // A number that the compiler knows, which it does not where it comes from a field.
        let [r1, r2] = self.ranks.map(counted::<V>);
        let mut from = 0;
        for (batch, ends) in ends.chunks(FIBRES).enumerate() {
            let first = batch * FIBRES;
            // SAFETY: see above.
            unsafe {
                forward::<V>(self.matrix, self.rows1, r1, columns, first, ends.len(), self.products);
            }
            for (fibre, &end) in ends.iter().enumerate() {
                let end = usize::from(end) - columns.start;
                self.fibre::<PLAIN>(columns, fibre, from, end);
                from = end;
            }
            // Nothing behind the last, up to a multiple of four: no branch that depends on how many.
            for behind in 0..TOGETHER - 1 {
                self.sums.set(ends.len() + behind, V::splat(0.0));
            }
            for n in (0..ends.len()).step_by(TOGETHER) {
                let at1 = four_from(columns.offsets1, first + n);
                let sums = self.sums.four(n);
                // SAFETY: see above.
                unsafe {
                    let cv = combine_four::<V>(self.transposed, r2, sums);
                    for k in 0..TOGETHER {
                        self.d1.add::<V>(at1[k], N::ONE, N::row(cv[k]));
                    }
                    let ev = [V::load(sums[0]), V::load(sums[1]), V::load(sums[2]), V::load(sums[3])];
                    self.add_outer(r1, self.rows1.four(at1), ev);
                }
            }
        }
    }

    /// The entries `start..end` of a fibre.
    #[inline(always)]
    fn fibre<const PLAIN: bool>(
        &mut self,
        columns: &Columns<'_>,
        fibre: usize,
        mut start: usize,
        end: usize,
    ) {
        // SAFETY: see above.
        let (cu, row) = unsafe {
            let product = self.products.at(fibre);
            (Fours::<V>::load(product), N::row(V::load(product)))
        };
        // The sum of e v, in two parts.
        let mut ev = [V::splat(0.0); 2];
        let columns = &columns.until(end);
        // The last four may reach into the next fibre, whose entries have no weight here.
        let mut left = Left::new(end - start);
        while start < end {
            self.four::<PLAIN>(columns, start, left, &cu, row, &mut ev);
            left = left.next();
            start += TOGETHER;
        }
        self.sums.set(fibre, ev[0].fma(V::splat(1.0), ev[1]));
    }

    /// Four entries of a fibre, of which only those that are left have weight.
    #[inline(always)]
    fn four<const PLAIN: bool>(
        &mut self,
        columns: &Columns<'_>,
        start: usize,
        left: Left<V::Four>,
        cu: &Fours<V>,
        row: N::Row<V>,
        ev: &mut [V; 2],
    ) {
        if !PLAIN {
            self.rows2.prefetch(columns.offsets2, start);
            self.d2.prefetch(columns.offsets2, start);
        }
        // SAFETY: see above; `start` is before the fibre's end.
        unsafe {
            let (at2, values) = columns.four(start);
            let v = self.rows2.four(at2);
            let products = Four::sums([cu.dot(v[0]), cu.dot(v[1]), cu.dot(v[2]), cu.dot(v[3])]);
            let e = left.of(products.sub(Four::new(values)));
            let we = if PLAIN { e } else { columns.weigh(start, e) };
            self.squares = we.fma(e, self.squares);
            self.absolute = self.absolute.add(we.abs());
            let (scales, e) = (N::four(we), we.array());
            // Two chains, so that the next four wait for two additions, not for four.
            ev[0] = V::splat(e[1]).fma(V::load(v[1]), V::splat(e[0]).fma(V::load(v[0]), ev[0]));
            ev[1] = V::splat(e[3]).fma(V::load(v[3]), V::splat(e[2]).fma(V::load(v[2]), ev[1]));
            for n in 0..TOGETHER {
                self.d2.add::<V>(at2[n], scales[n], row);
            }
        }
    }

    /// Adds u (x) ev of four.
    ///
    /// # Safety
    ///
    /// Every u has `rank` numbers.
    #[inline(always)]
    unsafe fn add_outer(&mut self, rank: usize, u: [*const f64; 4], ev: [V; 4]) {
        for a in 0..rank {
            // SAFETY: see above.
            unsafe {
                let outer = self.outer.0.as_mut_ptr().add(a).cast();
                let mut sum = V::load(outer);
                for n in 0..TOGETHER {
                    sum = V::splat(*u[n].add(a)).fma(ev[n], sum);
                }
                sum.store(outer);
            }
        }
    }
}
