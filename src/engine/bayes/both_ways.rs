//! Sums over the entries of rows, and back to the rows of another level: rounds of power iterations.

use super::entries::Entries;
use super::row::axpy;
use super::slices::Slices;
use super::weighted::orthonormal;
use crate::error::Result;
use crate::manifold::Distribution;
use crate::reduce::{own_lanes, sum_in_order};
use crate::stream::Stream;
use crate::team::Combine;
use rand::SeedableRng;
use rand_pcg::Pcg64;

// What other values do: docs/thresholds.md.
/// Entries by which the products that first rows come from are damped.
pub(super) const ROW_DAMPING: f64 = 10.0;

/// One entry: its indices, what is left of its value, its weight.
type Each<'e> = dyn Fn(&[u32], f64, f64, &mut [f64]) + Sync + Send + 'e;

/// The same, with the numbers of its row of another level.
type Scatter<'e> = dyn Fn(&[u32], f64, f64, &[f64], &mut [f64]) + Sync + 'e;

/// Adds up numbers per row of a level, entry by entry. One pass.
fn add_up(
    (stream, per_weight): (&Stream, f64),
    level: usize,
    rows: usize,
    width: usize,
    each: &Each<'_>,
) -> Result<Vec<f64>> {
    let lanes = own_lanes(stream, |lane| {
        let (start, rows) = if level == 0 { (lane.slices.start, lane.slices.len()) } else { (0, rows) };
        let mut sums = vec![0.0; rows * width];
        stream.for_each(lane, |block| {
            block.for_each_weighted(|indices, value, weight| {
                if weight > 0.0 {
                    let row = (indices[level] - start) as usize;
                    each(indices, value, weight * per_weight, &mut sums[row * width..][..width]);
                }
            });
            Ok(())
        })?;
        Ok((start as usize * width, sums))
    })?;
    let mut total = vec![0.0; rows * width];
    sum_in_order(stream.team(), &mut total, lanes.iter().map(|(begin, sums)| (*begin, sums.as_slice())));
    Ok(total)
}

/// Numbers of every row of level a, from its entries, and sums of every row of level b, from entries and those
/// numbers: one pass where a is level 0, whose entries come together, and two else. `gather` adds an entry to a
/// row of a, `finish` is given its weight, `scatter` adds an entry to a row of b.
pub(super) fn both_ways(
    (stream, slices): (&Stream, &Slices),
    [a, b]: [usize; 2],
    counts: &[Vec<f64>],
    [wide_a, wide_b]: [usize; 2],
    gather: &Each<'_>,
    finish: &(dyn Fn(f64, &mut [f64]) + Sync),
    scatter: &Scatter<'_>,
) -> Result<(Vec<f64>, Vec<f64>, usize)> {
    let (rows_a, rows_b) = (counts[a].len(), counts[b].len());
    let data = (stream, slices.per_weight);
    if a > 0 {
        let mut numbers = add_up(data, a, rows_a, wide_a, gather)?;
        numbers.chunks_exact_mut(wide_a).zip(&counts[a]).for_each(|(row, &n)| finish(n, row));
        let sums = add_up(data, b, rows_b, wide_b, &|indices, value, weight, to| {
            let row = &numbers[indices[a] as usize * wide_a..][..wide_a];
            scatter(indices, value, weight, row, to);
        })?;
        return Ok((numbers, sums, 2));
    }
    let order = counts.len();
    let gather_all = |slice: u32, entries: &Entries, row: &mut [f64]| {
        entries.for_each(slice, order, |indices, value, weight| {
            gather(&indices[..order], value, weight, row);
        });
    };
    let mut large =
        slices.of_large(stream, wide_a, || (), |(), slice, entries, to| gather_all(slice, entries, to))?;
    let of_large = slices.large().iter().zip(large.chunks_exact_mut(wide_a));
    of_large.for_each(|(&slice, row)| finish(counts[0][slice as usize], row));
    let lanes = own_lanes(stream, |lane| {
        let (mut rows, mut numbers) = (Vec::new(), Vec::new());
        let mut sums = vec![0.0; rows_b * wide_b];
        slices.for_each(stream, lane, (0, 1), |slice, entries| {
            let mut row = vec![0.0; wide_a];
            match slices.number_of(slice) {
                Some(number) => row.copy_from_slice(&large[number * wide_a..][..wide_a]),
                None => {
                    gather_all(slice, entries, &mut row);
                    finish(counts[0][slice as usize], &mut row);
                }
            }
            entries.for_each(slice, order, |indices, value, weight| {
                let to = &mut sums[indices[b] as usize * wide_b..][..wide_b];
                scatter(&indices[..order], value, weight, &row, to);
            });
            rows.push(slice as usize);
            numbers.extend_from_slice(&row);
        })?;
        Ok((rows, numbers, sums))
    })?;
    let mut numbers = vec![0.0; rows_a * wide_a];
    for (rows, found, _) in &lanes {
        for (&row, found) in rows.iter().zip(found.chunks_exact(wide_a)) {
            numbers[row * wide_a..][..wide_a].copy_from_slice(found);
        }
    }
    let team = stream.team();
    if !team.is_alone() {
        // A slice belongs to one lane, and so to one process.
        let words: &mut [u64] = bytemuck::cast_slice_mut(&mut numbers);
        team.combine(words, Combine::Or);
    }
    let mut total = vec![0.0; rows_b * wide_b];
    sum_in_order(team, &mut total, lanes.iter().map(|(_, _, sums)| (0, sums.as_slice())));
    Ok((numbers, total, 1))
}

/// Residuals multiplied by random numbers of level b, added up over rows of level a, multiplied by these sums and
/// added up again: rows of both, in the directions that residuals have in common. Both are divided by their weights,
/// damped. Returns how many passes that took.
pub(super) fn project(
    (stream, slices): (&Stream, &Slices),
    counts: &[Vec<f64>],
    [a, b]: [usize; 2],
    d: usize,
    left: &(dyn Fn(f64, &[u32]) -> f64 + Sync),
    rounds: usize,
    seed: u64,
) -> Result<(Vec<f64>, Vec<f64>, usize)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut phi: Vec<f64> =
        (0..counts[b].len() * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let (mut rows, mut passes) = (Vec::new(), 0);
    for round in 0..rounds {
        if round > 0 {
            phi = orthonormal(phi, &counts[b], d)?;
        }
        let (numbers, sums, made) = both_ways(
            (stream, slices),
            [a, b],
            counts,
            [d, d],
            &|indices, value, weight, to| {
                axpy(weight * left(value, indices), &phi[indices[b] as usize * d..][..d], to);
            },
            &|n, row| row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING),
            &|indices, value, weight, from, to| axpy(weight * left(value, indices), from, to),
        )?;
        passes += made;
        phi = sums;
        for (row, n) in phi.chunks_exact_mut(d).zip(&counts[b]) {
            row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING);
        }
        rows = numbers;
    }
    Ok((rows, phi, passes))
}
