//! Entries on their way to the sums of the target, the row of their slice being known.

use super::along::Along;
use super::batch::{Batch, SCALED};
use super::entries::Entries;
use super::pass::Pass;
use super::rests::{Of, entry_rows};
use super::row::{RowRoom, dot, start};
use super::worker::{PANEL, Worker};
use crate::MAX_ORDER;
use crate::kernel::{Group, Pick, Picks, Scales, vectorised};
use std::ops::Range;

impl Worker<'_> {
    /// What the slice's row x gives to the sums of the target: E(x x^T), what its covariance with the bias takes away,
    /// and x.
    pub(super) fn look_along(&mut self) {
        vectorised(
            #[inline(always)]
            || self.look_along_here(),
        );
    }

    #[inline(always)]
    fn look_along_here(&mut self) {
        let RowRoom { mean, covariance, .. } = &self.room;
        let (k, from) = (mean.len(), &self.along.from);
        let layout = self.layout;
        let (sums, x) = self.given.split_at_mut(layout.sums);
        for (x, from) in x.iter_mut().zip(from) {
            *x = from.map_or(1.0, |from| mean[from]);
        }
        // Columns in the same order as those of level 0, as nearly always, are read one after the other.
        let aligned = from.iter().enumerate().take_while(|(c, from)| **from == Some(*c)).count();
        for i in 0..from.len() {
            let row = &mut sums[start(i)..][..=i];
            row.iter_mut().zip(&*x).for_each(|(to, y)| *to = x[i] * y);
            let Some(a) = from[i] else {
                sums[layout.at + i] = 0.0;
                continue;
            };
            let covariance = &covariance[a * k..][..k];
            let (first, rest) = row.split_at_mut(aligned.min(i + 1));
            first.iter_mut().zip(covariance).for_each(|(to, s)| *to += s);
            for (to, from) in rest.iter_mut().zip(&from[aligned.min(i + 1)..]) {
                *to += from.map_or(0.0, |b| covariance[b]);
            }
            sums[layout.at + i] = if self.along.beside { 0.0 } else { -covariance[k - 1] };
        }
    }

    /// Puts entries on their way to the sums of the target.
    pub(super) fn spread(&mut self, slice: u32, entries: &Entries) {
        let Some(batch) = &mut self.batch else { return self.spread_biases(slice, entries) };
        if batch.is_full() {
            self.flush(false);
        }
        let Some(batch) = &mut self.batch else { return };
        let number = batch.slice(&self.given);
        let mut from = 0;
        while from < entries.len() {
            let room = self.batch.as_ref().map_or(0, Batch::room);
            let to = entries.len().min(from + room.min(PANEL));
            vectorised(
                #[inline(always)]
                || self.spread_out(slice, entries, from..to, number),
            );
            if to - from == room {
                self.flush(to < entries.len());
            }
            from = to;
        }
    }

    /// Adds entries to the sums of rows that are nothing but biases: two numbers each, of which there is nothing to
    /// be put in order.
    fn spread_biases(&mut self, slice: u32, entries: &Entries) {
        for from in (0..entries.len()).step_by(PANEL) {
            let range = from..entries.len().min(from + PANEL);
            vectorised(
                #[inline(always)]
                || self.add_biases(slice, entries, range),
            );
        }
    }

    #[inline(always)]
    fn add_biases(&mut self, slice: u32, entries: &Entries, range: Range<usize>) {
        let Pass { levels, target, rows, .. } = self.pass;
        let (layout, level) = (self.layout, &levels[*target]);
        let of = Of::target(self.pass, self.along, slice, entries, range.clone(), &self.room.mean);
        self.rests.fill(self.pass, self.along, &of);
        let at = entries.at[*target][range.clone()].iter().zip(&entries.weights[range.clone()]);
        let values = entries.values[range].iter().zip(&self.rests.means);
        for ((&index, &weight), (&value, &rest)) in at.zip(values) {
            let index = index as usize;
            let Some(row) = index.checked_sub(rows.start).filter(|_| index < rows.end) else { continue };
            let (t, _) = self.pass.target(value, rest, || level.mean(index)[0]);
            let sums = &mut self.found.sums[row * layout.sums..][..layout.sums];
            sums[0] += weight;
            sums[layout.at] += weight * t;
        }
    }

    #[inline(always)]
    fn spread_out(&mut self, slice: u32, entries: &Entries, range: Range<usize>, number: u32) {
        let Pass { levels, target, rows: wanted, .. } = self.pass;
        let (k, e) = (levels[0].width, levels[*target].width);
        let Along { slice: of_slice, target: of_target, same, beside, from, scaled, .. } = self.along;
        let layout = self.layout;
        let Some(batch) = &mut self.batch else { return };
        let of = Of::target(self.pass, self.along, slice, entries, range.clone(), &self.room.mean);
        self.rests.fill(self.pass, self.along, &of);
        let at = &entries.at[*target][range.clone()];
        if *same && !*beside && self.pass.ends.is_none() && wanted.len() == levels[*target].rows {
            // All entries alike, as nearly always.
            let (Pass { mean, scale, .. }, weights) = (self.pass, &entries.weights[range.clone()]);
            batch.weigh(weights);
            batch.rows.extend_from_slice(at);
            let values = entries.values[range].iter().zip(&self.rests.means).zip(weights);
            batch.picks.extend(values.map(|((value, rest), weight)| {
                let value = weight * ((value - mean) * scale - rest);
                Pick { from: number, by: 0, value }
            }));
            return;
        }
        let mut indices = [0; MAX_ORDER];
        indices[0] = slice;
        for ((entry, &index), &rest) in range.zip(at).zip(&self.rests.means) {
            let index = index as usize;
            if !wanted.contains(&index) {
                continue;
            }
            let by = scaled.as_ref().map_or(0, |by| entries.at[by.level][entry]);
            if !*same && scaled.is_none() || *beside {
                indices[1..levels.len()]
                    .iter_mut()
                    .zip(&entries.at[1..])
                    .for_each(|(to, at)| *to = at[entry]);
            }
            let (t, _) = self.pass.target(entries.values[entry], rest, || {
                let (x, row) = (&self.given[layout.sums..][..e], levels[*target].mean(index));
                if *same {
                    return dot(x, row);
                }
                if let Some(table) = scaled {
                    let scales = &table.rows.numbers()[by as usize * layout.sums + layout.at..];
                    return triple_dot(x, &scales[..e], row);
                }
                of_target.z(&entry_rows(levels, &indices).0, &mut self.others);
                triple_dot(x, &self.others, row)
            });
            let (to, weight) = ((index - wanted.start) as u32, entries.weights[entry]);
            let by = if scaled.is_some() { by } else { batch.picks.len() as u32 };
            batch.weigh(&[weight]);
            batch.rows.push(to);
            batch.picks.push(Pick { from: number, by, value: weight * t });
            if !*same && scaled.is_none() {
                batch.at.extend_from_slice(&indices[1..levels.len()]);
            }
            if *beside {
                // The covariance with what else of the slice's row is in the value: not the same for all entries.
                let (mut rows, _) = entry_rows(levels, &indices);
                rows[0] = &self.room.mean;
                of_slice.z_beside(*target, &rows, &mut self.beside);
                of_target.z(&rows, &mut self.others);
                let b = &mut self.found.sums[to as usize * layout.sums + layout.at..][..e];
                for (c, from) in from.iter().enumerate() {
                    if let Some(from) = from {
                        let cross = dot(&self.room.covariance[from * k..][..k], &self.beside);
                        b[c] -= weight * self.others[c] * cross;
                    }
                }
            }
        }
    }

    /// Adds the entries that wait to the sums. `within` a slice it may go on.
    pub(super) fn flush(&mut self, within: bool) {
        let Some(batch) = &mut self.batch else { return };
        batch.sort(self.pass.rows.len());
        let Batch { layout, picks, weights, groups, at, panel, .. } = &mut *batch;
        let (panel, sums) = (panel.numbers(), &mut self.found.sums);
        if self.along.same {
            layout.add(panel, Picks { picks, weights, groups }, sums);
        } else if let Some(by) = &self.along.scaled {
            let scales = Scales { rows: by.rows.numbers(), ones: self.along.ones };
            layout.add_scaled(panel, Picks { picks, weights, groups }, scales, sums);
        } else {
            let (levels, width) = (self.pass.levels, self.pass.levels.len() - 1);
            let (mut weights, mut groups) = (&weights[..], groups.iter().copied());
            let (mut some, mut begun) = (Vec::new(), None);
            for picks in picks.chunks_mut(SCALED) {
                vectorised(
                    #[inline(always)]
                    || {
                        let rows = self.factors.chunks_exact_mut(layout.sums);
                        for ((row, pick), to) in picks.iter_mut().enumerate().zip(rows) {
                            let mut indices = [0; MAX_ORDER];
                            indices[1..=width].copy_from_slice(&at[pick.by as usize * width..][..width]);
                            let (rows, variances) = entry_rows(levels, &indices);
                            let room = (&mut self.others[..], &mut self.others_spread[..]);
                            self.along.factors((&rows, &variances), room, to);
                            pick.by = row as u32;
                        }
                    },
                );
                let scales = Scales { rows: &self.factors, ones: self.along.ones };
                let own;
                (own, weights) = weights.split_at(picks.len().min(weights.len()));
                // Groups of these picks: the last one may go on with the next.
                let mut left = picks.len() as u32;
                some.clear();
                while let Some(group) = (left > 0).then(|| begun.take().or_else(|| groups.next())).flatten() {
                    let count = left.min(group.count);
                    some.push(Group { count, ..group });
                    left -= count;
                    begun = Some(Group { count: group.count - count, ..group }).filter(|rest| rest.count > 0);
                }
                layout.add_scaled(panel, Picks { picks, weights: own, groups: &some }, scales, sums);
            }
        }
        batch.clear(within);
    }
}

/// sum of x g m.
#[inline(always)]
fn triple_dot(x: &[f64], g: &[f64], m: &[f64]) -> f64 {
    x.iter().zip(g).zip(m).map(|((x, g), m)| x * g * m).sum()
}
