//! What the solver wants to know about the data.

use crate::manifold::{Point, Tangent};

/// The cost at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// What is minimised: the mean squared residual, plus whatever the objective adds to it.
    pub total: f64,
    /// The mean squared residual over the train entries alone.
    pub train_mse: f64,
    /// The mean absolute residual, likewise.
    pub train_mae: f64,
}

impl Cost {
    /// The cost of an objective that is the mean squared residual and nothing else.
    pub fn plain(train_mse: f64, train_mae: f64) -> Self {
        Cost { total: train_mse, train_mse, train_mae }
    }
}

/// The sums that give the linearised step t = -<r, L> / <L, L>: r is the residual X - y on the
/// train entries, L the linearised change of X on them along the direction,
/// L = sum_d G x_d xi_d x_{e != d} U_e + xi_G x_d U_d.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearisedStep {
    /// <r, L> / |Omega|: half the slope of the cost. An objective that adds to the cost adds half
    /// the slope of that.
    pub slope: f64,
    /// <L, L> / |Omega|: half the curvature of the linearised cost; likewise.
    pub curvature: f64,
}

/// A cost over the train entries, evaluated by passes over the data.
///
/// [`InMemory`](super::InMemory) is the plain formula; the streaming objective is the same with
/// blocks and kernels.
pub trait Objective {
    /// What can go wrong in a pass.
    type Error;

    /// The cost at `point`, and its Euclidean partials by U_d and G (they carry the factor
    /// 2/|Omega|) into `partials`, whose content before is to be ignored. One pass.
    ///
    /// # Errors
    ///
    /// What reading the data may bring.
    fn cost_and_gradient(&mut self, point: &Point, partials: &mut Tangent) -> Result<Cost, Self::Error>;

    /// How much of the whole tensor a point with this cost misses: an estimate of |Y - X|^2, for
    /// metrics that ask. 0 where that says nothing about G G^T.
    fn missed(&self, point: &Point, cost: &Cost) -> f64 {
        cost.train_mse * point.cells()
    }

    /// How many chunks the train entries are cut into, for steps from a part of them.
    fn chunks(&self) -> usize {
        1
    }

    /// The mode whose rows have all their entries in one chunk, but for those at its ends.
    fn leading_mode(&self) -> Option<usize> {
        None
    }

    /// By how much a row counts in the norm of the tensor, 1 on average over a mode's rows: not the same for all where
    /// coordinates allow for rows that have more entries than others.
    fn row_weight(&self, _mode: usize, _row: usize) -> f64 {
        1.0
    }

    /// The share of a chunk in [`cost_and_gradient`](Self::cost_and_gradient): the shares of all chunks
    /// add up to the whole.
    ///
    /// # Errors
    ///
    /// What reading the data may bring.
    fn chunk_cost_and_gradient(
        &mut self,
        _chunk: usize,
        point: &Point,
        partials: &mut Tangent,
    ) -> Result<Cost, Self::Error> {
        self.cost_and_gradient(point, partials)
    }

    /// The sums of the linearised step along `direction`. One pass.
    ///
    /// # Errors
    ///
    /// What reading the data may bring.
    fn step_sums(&mut self, point: &Point, direction: &Tangent) -> Result<LinearisedStep, Self::Error>;

    /// The coefficients, lowest first, of the polynomial in s (degree 2 (D + 1)) that is the cost
    /// of the tensor (G + s xi_G) x_d (U_d + s xi_d). One pass. None for an objective that is no polynomial:
    /// the exact step rule finds no step then.
    ///
    /// # Errors
    ///
    /// What reading the data may bring.
    fn line_polynomial(&mut self, _point: &Point, _direction: &Tangent) -> Result<Vec<f64>, Self::Error> {
        Ok(Vec::new())
    }

    /// The mean squared error on the validation entries; `None` where there are none.
    ///
    /// # Errors
    ///
    /// What reading the data may bring.
    fn validation(&mut self, _point: &Point) -> Result<Option<f64>, Self::Error> {
        Ok(None)
    }
}
