//! Coordinates in which rows with many entries weigh more in the norm of the tensor.

use super::bias_fit::Counts;
use crate::rows::Rows;
use rayon::prelude::*;

// What other values do: docs/thresholds.md.
/// The share of a row's weight that comes from its own count; the rest is the same for all rows.
/// Counts alone stall conjugate gradients, no counts at all fit rare rows too closely.
const FROM_COUNTS: f64 = 0.4;

/// The coordinates V_d of a model X = G x_d U_d in which V_d is orthonormal:
///
/// U_d = diag(p_d)^(-1/2) V_d
///
/// with weights p_d,i of the rows. The norm of the core is then that of the tensor over entries drawn with
/// probabilities in proportion to p_1,i p_2,j ... instead of uniformly. Rows without train entries are zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinates {
    /// p^(-1/2) per mode, in the user's order; 0 for rows without entries.
    scales: Vec<Vec<f64>>,
    even: bool,
}

impl Coordinates {
    /// Where a penalty on the core is to be fair to rare rows: p_d,i = 0.4 n_i / m + 0.6 / n_d, at least 0.5 / m, with n_i
    /// entries (or their weight) of m in row i, and n_d rows that have any.
    pub fn smoothed(counts: &Counts) -> Self {
        let scales = counts.modes.iter().map(|weights| {
            let weight: f64 = weights.iter().sum();
            let rows = weights.iter().filter(|&&n| n > 0.0).count() as f64;
            let scale = |&n: &f64| {
                if n == 0.0 {
                    return 0.0;
                }
                let share = FROM_COUNTS * n / weight + (1.0 - FROM_COUNTS) / rows;
                1.0 / share.max(0.5 / (counts.per_weight * weight)).sqrt()
            };
            weights.iter().map(scale).collect()
        });
        Coordinates { scales: scales.collect(), even: false }
    }

    /// Where entries are spread unevenly over rows: p_d,i = N_d n_i / m of N_d rows, 1 on average.
    ///
    /// By a row of V_d the cost has a second derivative of about n_i / p_d,i times what the other factors say: the same for
    /// all rows. So it is to the metric as if entries were drawn uniformly, which is what the metric takes for granted.
    /// Without, steps that suit frequent rows are too short for rare ones by what their numbers of entries differ.
    pub fn even(counts: &Counts) -> Self {
        let scales = counts.modes.iter().map(|weights| {
            let mean = weights.iter().sum::<f64>() / weights.len() as f64;
            // A row with hardly any weight is as one with a trillionth of the mean's.
            let scale = |n: f64| if n > 0.0 { (mean.sqrt() / n.sqrt()).min(1e6) } else { 0.0 };
            weights.iter().map(|&n| scale(n)).collect()
        });
        Coordinates { scales: scales.collect(), even: true }
    }

    /// Whether the plain method's rules hold in these: entries are as if drawn uniformly.
    pub fn are_even(&self) -> bool {
        self.even
    }

    /// p^(-1/2) of a mode's rows.
    pub fn scales(&self, mode: usize) -> &[f64] {
        &self.scales[mode]
    }

    /// p of a row.
    pub fn weight(&self, mode: usize, row: usize) -> f64 {
        let scale = self.scales[mode][row];
        if scale > 0.0 { 1.0 / (scale * scale) } else { 0.0 }
    }

    /// to = diag(p^(-1/2)) from: a factor from these coordinates to the model's, or a gradient back.
    pub fn scale(&self, mode: usize, from: &Rows, to: &mut Rows) {
        to.copy_from(from);
        self.scale_in_place(mode, to);
    }

    /// rows = diag(p^(-1/2)) rows.
    pub fn scale_in_place(&self, mode: usize, rows: &mut Rows) {
        let rank = rows.rank();
        let scales = &self.scales[mode][rows.own()];
        rows.as_mut_slice().par_chunks_mut(4096 * rank).zip(scales.par_chunks(4096)).for_each(
            |(rows, scales)| {
                for (row, scale) in rows.chunks_exact_mut(rank).zip(scales) {
                    row.iter_mut().for_each(|x| *x *= scale);
                }
            },
        );
    }

    /// rows = diag(p^(1/2)) rows: a model's factor into these coordinates; rows without entries
    /// become zero.
    pub fn unscale_in_place(&self, mode: usize, rows: &mut Rows) {
        for index in rows.own() {
            let scale = &self.scales[mode][index];
            let by = if *scale > 0.0 { 1.0 / scale } else { 0.0 };
            rows.row_mut(index).iter_mut().for_each(|x| *x *= by);
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.scales.iter().map(|scales| scales.len() as u64 * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one_and_follow_counts() {
        let coordinates = Coordinates::smoothed(&Counts {
            modes: vec![vec![10.0, 0.0, 70.0, 20.0]],
            buckets: Vec::new(),
            per_weight: 1.0,
        });
        let p: Vec<f64> =
            coordinates.scales(0).iter().map(|s| if *s > 0.0 { 1.0 / (s * s) } else { 0.0 }).collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        assert!((p[0] - (0.4 * 0.1 + 0.2)).abs() < 1e-14 && p[1] == 0.0 && p[2] > p[3]);
        let mut rows = Rows::from_vec(4, 1, vec![1.0, 2.0, 3.0, 4.0]);
        coordinates.scale_in_place(0, &mut rows);
        coordinates.unscale_in_place(0, &mut rows);
        assert!((rows.row(3)[0] - 4.0).abs() < 1e-14 && rows.row(1)[0] == 0.0);
    }
}
