//! TOpt: Tucker factors from incomplete data by nonlinear conjugate gradients, without constraints
//! (M. Filipovic and A. Jukic, *Tucker factorization with missing data with application to low-n-rank
//! tensor completion*, 2013).
//!
//! f(U_1, ..., U_D, G) = 1/|Omega| sum over Omega of (G x_d U_d - y)^2 is minimised over all numbers of
//! the factors and the core at once: d = -g+ + beta d with Polak and Ribiere's beta, not below 0. Along a
//! line f is a polynomial of degree 2 (D + 1), so that the step is the exact minimum (their program
//! searches it by the rules of More and Thuente, which such a step fulfils).

use crate::factored::{Start, first_point, open, test_entries, test_mse};
use crate::instance::Instance;
use crate::record::{Book, Clock, Errors, Rules};
use crate::{Result, told};
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{Point, Tangent};
use tenfill_engine::solver::{Objective, StoppedBy, least_minimum};

/// All that the next iteration depends on.
pub struct TOpt {
    /// The present factors, of any columns, and the core.
    pub point: Point,
    gradient: Tangent,
    direction: Tangent,
    square: f64,
    /// The mean squared residual.
    pub train_mse: f64,
    /// Readings of the data.
    pub passes: usize,
}

impl TOpt {
    /// At a first point.
    ///
    /// # Errors
    ///
    /// The objective's own.
    pub fn start<O: Objective>(objective: &mut O, point: Point) -> std::result::Result<Self, O::Error> {
        let mut gradient = Tangent::zeros_like(&point);
        let cost = objective.cost_and_gradient(&point, &mut gradient)?;
        let mut direction = gradient.clone();
        direction.scale(-1.0);
        let square = dot(&gradient, &gradient);
        Ok(TOpt { point, gradient, direction, square, train_mse: cost.train_mse, passes: 1 })
    }

    /// One step; false where none lowers the cost.
    ///
    /// # Errors
    ///
    /// The objective's own.
    pub fn iterate<O: Objective>(&mut self, objective: &mut O) -> std::result::Result<bool, O::Error> {
        if dot(&self.gradient, &self.direction) >= 0.0 {
            self.descend();
        }
        let mut step = self.step(objective)?;
        if step.is_none() {
            self.descend();
            step = self.step(objective)?;
        }
        let Some(step) = step else { return Ok(false) };
        for (u, x) in self.point.factors.iter_mut().zip(&self.direction.factors) {
            u.axpy(step, x);
        }
        self.point.core.axpy(step, &self.direction.core);
        let mut next = Tangent::zeros_like(&self.point);
        self.train_mse = objective.cost_and_gradient(&self.point, &mut next)?.train_mse;
        self.passes += 1;
        let square = dot(&next, &next);
        let beta = ((square - dot(&next, &self.gradient)) / self.square).max(0.0);
        self.direction.axpby(-1.0, &next, if beta.is_finite() { beta } else { 0.0 });
        (self.gradient, self.square) = (next, square);
        Ok(true)
    }

    fn step<O: Objective>(&mut self, objective: &mut O) -> std::result::Result<Option<f64>, O::Error> {
        self.passes += 1;
        let polynomial = objective.line_polynomial(&self.point, &self.direction)?;
        Ok(least_minimum(&polynomial).filter(|step| step.is_finite() && *step > 0.0))
    }

    fn descend(&mut self) {
        self.direction.copy_from(&self.gradient);
        self.direction.scale(-1.0);
    }
}

fn dot(a: &Tangent, b: &Tangent) -> f64 {
    let factors = a.factors.iter().zip(&b.factors);
    let sum: f64 =
        factors.map(|(a, b)| a.as_slice().iter().zip(b.as_slice()).map(|(a, b)| a * b).sum::<f64>()).sum();
    sum + a.core.dot(&b.core)
}

/// The same tensor with a core and columns of the same norm: without constraints on the factors, steps are
/// short where the sizes of the blocks are far apart.
pub fn balanced(mut point: Point) -> Point {
    let norm = point.core.dot(&point.core).sqrt();
    let share = norm.powf(1.0 / (point.order() + 1) as f64);
    if share.is_finite() && share > 0.0 {
        point.factors.iter_mut().for_each(|u| u.scale(share));
        point.core.scale(share.powi(-(point.order() as i32)));
    }
    point
}

/// Completes an instance and writes down how it went; returns the model that is kept.
pub fn run(book: &mut Book, instance: &Instance, start: Start, rules: &Rules) -> Result<Point> {
    let mut objective = open(instance, Precision::F64)?;
    let test = test_entries(instance)?;
    let point = balanced(first_point(instance, &objective, start)?);
    let mut clock = Clock::stopped();
    let mut topt = clock.time(|| TOpt::start(&mut objective, point)).map_err(told)?;
    let mut trace: Vec<Errors> = Vec::new();
    let mut kept = topt.point.clone();
    let stopped_by = loop {
        trace.push(Errors {
            iteration: trace.len(),
            passes: topt.passes,
            train_mse: topt.train_mse,
            validation_mse: objective.validation(&topt.point).map_err(told)?,
            test_mse: test_mse(&objective, &test, &topt.point)?,
            time: clock.spent(),
        });
        if crate::record::best(&trace) == trace.len() - 1 {
            kept = topt.point.clone();
        }
        if let Some(reason) = rules.stop(&trace) {
            break reason;
        }
        if !clock.time(|| topt.iterate(&mut objective)).map_err(told)? {
            break StoppedBy::Step;
        }
    };
    book.add(&instance.about, "TOpt", &trace, stopped_by);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenfill_engine::manifold::{Distribution, random_point};
    use tenfill_engine::solver::{Entries, InMemory};

    /// About `share` of the entries of a random tensor of rank 2, and the others.
    fn sample(n: usize, share: u64) -> (InMemory, Entries) {
        let truth = random_point(&[n, n, n], &[2, 2, 2], Distribution::Gaussian, 1);
        let (mut train, mut test) = (Entries::default(), Entries::default());
        for k in 0..n * n * n {
            let index = [k / n / n, k / n % n, k % n];
            let hash = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let part = if hash % 100 < share { &mut train } else { &mut test };
            part.push(&index.map(|i| i as u32), truth.value_at(&index));
        }
        (InMemory::new(train), test)
    }

    #[test]
    fn the_gradient_is_that_of_the_cost_for_factors_of_any_columns() {
        let (mut objective, _) = sample(5, 60);
        let mut point = random_point(&[5, 5, 5], &[2, 2, 2], Distribution::Gaussian, 2);
        point.factors[1].scale(1.7); // not orthonormal
        let topt = TOpt::start(&mut objective, point.clone()).unwrap();
        let mut cost = |point: &Point| TOpt::start(&mut objective, point.clone()).unwrap().train_mse;
        let h = 1e-6;
        for mode in 0..3 {
            for k in 0..10 {
                let (mut forth, mut back) = (point.clone(), point.clone());
                forth.factors[mode].as_mut_slice()[k] += h;
                back.factors[mode].as_mut_slice()[k] -= h;
                let slope = (cost(&forth) - cost(&back)) / (2.0 * h);
                let found = topt.gradient.factors[mode].as_slice()[k];
                assert!((found - slope).abs() < 1e-7 * (1.0 + slope.abs()), "{found} {slope}");
            }
        }
        for k in 0..8 {
            let (mut forth, mut back) = (point.clone(), point.clone());
            forth.core.as_mut_slice()[k] += h;
            back.core.as_mut_slice()[k] -= h;
            let slope = (cost(&forth) - cost(&back)) / (2.0 * h);
            let found = topt.gradient.core.as_slice()[k];
            assert!((found - slope).abs() < 1e-7 * (1.0 + slope.abs()), "{found} {slope}");
        }
    }

    #[test]
    fn it_recovers_a_low_rank_tensor_and_never_gets_worse() {
        let (mut objective, test) = sample(14, 50);
        let start = random_point(&[14, 14, 14], &[2, 2, 2], Distribution::Gaussian, 5);
        let same = balanced(start.clone());
        assert!((same.value_at(&[1, 2, 3]) - start.value_at(&[1, 2, 3])).abs() < 1e-12);
        let start = same;
        let mut topt = TOpt::start(&mut objective, start).unwrap();
        for _ in 0..600 {
            let before = topt.train_mse;
            if topt.train_mse < 1e-14 || !topt.iterate(&mut objective).unwrap() {
                break;
            }
            assert!(topt.train_mse <= before * (1.0 + 1e-12));
        }
        assert!(topt.train_mse < 1e-10, "{:e} after {}", topt.train_mse, topt.passes);
        assert!(InMemory::mean_squared_error(&topt.point, &test) < 1e-9);
    }
}
