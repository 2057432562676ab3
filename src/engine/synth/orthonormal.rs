//! QR of a tall matrix stored by rows, in place.

/// Replaces the `rank` columns of `matrix` (row-major, at least `rank` rows, independent columns)
/// by orthonormal Q and returns R (row-major, upper triangular, positive diagonal), so that
/// matrix = Q R.
///
/// Gram-Schmidt with every column projected twice, which is as orthogonal as Householder for any
/// numerically independent columns; it walks along the rows and needs no copy of the matrix.
pub(super) fn orthonormalise(matrix: &mut [f64], rank: usize) -> Vec<f64> {
    let mut r = vec![0.0; rank * rank];
    let mut shadow = vec![0.0; rank];
    for j in 0..rank {
        for _ in 0..2 {
            let shadow = &mut shadow[..j];
            shadow.fill(0.0);
            for row in matrix.chunks_exact(rank) {
                for (s, q) in shadow.iter_mut().zip(row) {
                    *s += row[j] * q;
                }
            }
            for row in matrix.chunks_exact_mut(rank) {
                let along: f64 = shadow.iter().zip(&*row).map(|(s, q)| s * q).sum();
                row[j] -= along;
            }
            for (i, s) in shadow.iter().enumerate() {
                r[i * rank + j] += s;
            }
        }
        let norm = column_norm(matrix, rank, j);
        r[j * rank + j] = norm;
        for row in matrix.chunks_exact_mut(rank) {
            row[j] /= norm;
        }
    }
    r
}

fn column_norm(matrix: &[f64], rank: usize, column: usize) -> f64 {
    matrix.chunks_exact(rank).map(|row| row[column] * row[column]).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::random::{Purpose, Random};

    #[test]
    fn q_is_orthonormal_and_qr_is_the_matrix() {
        for (rows, rank) in [(1, 1), (5, 5), (40, 7), (3000, 12)] {
            let mut random = Random::new(1, Purpose::Factor, 0);
            let matrix: Vec<f64> = (0..rows * rank).map(|_| random.uniform()).collect();
            let mut q = matrix.clone();
            let r = orthonormalise(&mut q, rank);
            for i in 0..rank {
                for j in 0..rank {
                    let dot: f64 = q.chunks(rank).map(|row| row[i] * row[j]).sum();
                    let unit = if i == j { 1.0 } else { 0.0 };
                    assert!((dot - unit).abs() < 1e-13, "{rows} x {rank}: {dot}");
                    assert!(i < j || r[i * rank + j] >= 0.0);
                    assert!(i <= j || r[i * rank + j] == 0.0);
                }
            }
            for (row, original) in q.chunks(rank).zip(matrix.chunks(rank)) {
                for j in 0..rank {
                    let product: f64 = (0..rank).map(|k| row[k] * r[k * rank + j]).sum();
                    assert!((product - original[j]).abs() < 1e-13);
                }
            }
        }
    }
}
