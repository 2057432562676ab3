//! Random points.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::core_tensor::Core;
use super::point::{Point, Tangent};
use crate::rows::{Rows, Square, orthonormalize};
use crate::team::Team;

/// How the numbers of a random point are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// U[0, 1): the generator of the paper's instances and starts.
    #[default]
    Uniform,
    /// Standard normal.
    Gaussian,
}

impl Distribution {
    /// Draws one number.
    pub fn draw(self, rng: &mut Pcg64) -> f64 {
        match self {
            Distribution::Uniform => rng.random(),
            Distribution::Gaussian => {
                // Box and Muller, one of the pair: 1 - u is in (0, 1], so the logarithm is finite.
                let (u, v): (f64, f64) = (rng.random(), rng.random());
                (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
            }
        }
    }
}

/// A random point: factors A_d and a core C are drawn, A_d = Q_d R_d, and the point is
/// (Q_d, C x_1 R_1 ... x_D R_D), which stands for the tensor C x_1 A_1 ... x_D A_D.
///
/// Numbers are drawn from Pcg64 in this order: the factors mode by mode and row by row, then the
/// core, last mode fastest.
///
/// # Panics
///
/// If a rank is 0 or above its dimension.
pub fn random_point(dims: &[usize], ranks: &[usize], distribution: Distribution, seed: u64) -> Point {
    random_point_on(Team::alone(), dims, ranks, distribution, seed)
}

/// The same point, its rows divided among a team.
///
/// # Panics
///
/// If a rank is 0 or above its dimension.
pub fn random_point_on(
    team: Team,
    dims: &[usize],
    ranks: &[usize],
    distribution: Distribution,
    seed: u64,
) -> Point {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut factors = Vec::with_capacity(dims.len());
    for (&n, &r) in dims.iter().zip(ranks) {
        assert!(r >= 1 && r <= n, "a rank is between 1 and the dimension");
        factors.push(Rows::generate(team, n, r, || distribution.draw(&mut rng)));
    }
    let size = ranks.iter().product();
    let mut core = Core::from_vec(ranks, (0..size).map(|_| distribution.draw(&mut rng)).collect());
    for (mode, factor) in factors.iter_mut().enumerate() {
        let upper = orthonormalize(factor).expect("random columns are independent");
        core = core.mode_product(mode, &upper);
    }
    Point { factors, core }
}

/// A vector of standard normal numbers of a point's shape, not yet tangent.
pub fn random_ambient(point: &Point, rng: &mut Pcg64) -> Tangent {
    let mut vector = Tangent::zeros_like(point);
    let parts = vector.factors.iter_mut().map(Rows::as_mut_slice);
    for x in parts.chain([vector.core.as_mut_slice()]).flatten() {
        *x = Distribution::Gaussian.draw(rng);
    }
    vector
}

/// Orthogonal r x r matrices for each rank: rotations of a point's representation.
pub fn random_rotations(ranks: &[usize], rng: &mut Pcg64) -> Vec<Square> {
    let one = |&r: &usize| {
        let data = (0..r * r).map(|_| Distribution::Gaussian.draw(rng)).collect();
        let mut rows = Rows::from_vec(r, r, data);
        orthonormalize(&mut rows).expect("random columns are independent");
        Square::from_vec(r, rows.into_vec())
    };
    ranks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_point_stands_for_the_drawn_tensor() {
        for distribution in [Distribution::Uniform, Distribution::Gaussian] {
            let (dims, ranks) = ([5, 4, 3], [2, 4, 3]);
            let point = random_point(&dims, &ranks, distribution, 7);
            assert!(point.orthonormality_error() < 1e-14);
            let mut rng = Pcg64::seed_from_u64(7);
            let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| distribution.draw(&mut rng)).collect() };
            let factors: Vec<Rows> =
                (0..3).map(|d| Rows::from_vec(dims[d], ranks[d], draw(dims[d] * ranks[d]))).collect();
            let core = Core::from_vec(&ranks, draw(24));
            let drawn = Point { factors, core };
            for index in [[0, 0, 0], [4, 3, 2], [2, 1, 0]] {
                assert!((point.value_at(&index) - drawn.value_at(&index)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn gaussian_numbers_have_their_moments() {
        let mut rng = Pcg64::seed_from_u64(1);
        let x: Vec<f64> = (0..200_000).map(|_| Distribution::Gaussian.draw(&mut rng)).collect();
        let moment = |p: i32| x.iter().map(|x| x.powi(p)).sum::<f64>() / x.len() as f64;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.02);
        assert!((moment(4) - 3.0).abs() < 0.15);
    }
}
