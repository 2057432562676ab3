//! The objective in other coordinates, and for data with noise: targets less biases, a penalty.

use super::coordinates::Coordinates;
use super::penalty::Penalty;
use super::score::{Scored, Scoring, score};
use super::streamed::Streamed;
use crate::error::Result;
use crate::manifold::{Point, Tangent};
use crate::model::Clip;
use crate::reduce::Exchange;
use crate::solver::{Cost, LinearisedStep, Objective};
use crate::stream::Stream;

/// The mean squared residual of y - biases - G x_d diag(p_d)^(-1/2) V_d over the train entries, plus a
/// penalty on G. The point that the solver moves is (V_1, ..., V_D, G).
///
/// With nothing set it is [`Streamed`] itself, to the bit.
pub struct Regularised {
    /// The data, and the biases taken off them.
    pub data: Streamed,
    /// None leaves the factors as they are.
    pub coordinates: Option<Coordinates>,
    /// On the core.
    pub penalty: Penalty,
    /// Modes whose factor stays as it is; empty for none.
    pub held: Vec<bool>,
    /// Where predictions are clipped before they are compared with validation entries.
    pub clip: Option<Clip>,
    /// What the newest look at the validation entries has found.
    pub last_validation: Option<Scored>,
    /// Room for a point and a direction in the model's own factors.
    room: Option<(Point, Tangent)>,
}

impl Regularised {
    /// The plain objective.
    pub fn new(data: Streamed) -> Self {
        let (coordinates, penalty) = (None, Penalty::none());
        Regularised {
            data,
            coordinates,
            penalty,
            held: Vec::new(),
            clip: None,
            last_validation: None,
            room: None,
        }
    }

    /// The model's own factors of a point of the search space.
    pub fn model(&self, point: &Point) -> Point {
        let mut model = point.clone();
        if let Some(coordinates) = &self.coordinates {
            (0..model.order()).for_each(|mode| coordinates.scale_in_place(mode, &mut model.factors[mode]));
        }
        model
    }

    /// What goes along with a point when entries are scored.
    pub fn scoring(&self) -> Scoring<'_> {
        let (biases, clip, held) = (self.data.biases(), self.clip, &self.held);
        Scoring { biases, clip, held, ..Scoring::default() }
    }

    /// Errors of a model, in its own factors, on the entries of any stream of the dataset.
    pub fn score(&self, stream: &Stream, exchange: &Exchange, model: &Point) -> Result<Scored> {
        score(stream, exchange, model, self.data.mode_order(), self.data.unseen(), &self.scoring())
    }

    /// Gives back the room of passes, when there will be none of the solver's any more.
    pub fn release(&mut self) {
        self.room = None;
        self.data.release();
    }

    fn take_room(&mut self, point: &Point) -> (Point, Tangent) {
        let same =
            |(room, _): &(Point, Tangent)| room.dims() == point.dims() && room.ranks() == point.ranks();
        let fresh = || (Point::zeros_like(point), Tangent::zeros_like(point));
        self.room.take().filter(same).unwrap_or_else(fresh)
    }

    fn is_held(&self, mode: usize) -> bool {
        self.held.get(mode).copied().unwrap_or(false)
    }
}

/// to = the model's factors of `point`.
fn scale(coordinates: &Coordinates, point: &Point, to: &mut Point) {
    for (mode, factor) in point.factors.iter().enumerate() {
        coordinates.scale(mode, factor, &mut to.factors[mode]);
    }
    to.core.copy_from(&point.core);
}

impl Regularised {
    /// Whether the cost is the mean squared residual, with entries spread evenly over rows, and nothing else.
    fn is_plain(&self) -> bool {
        let even = self.coordinates.as_ref().is_none_or(Coordinates::are_even);
        even && self.penalty.lambda == 0.0 && self.held.is_empty()
    }

    /// Cost and partials by V of a pass that gives those by the model's own factors.
    fn gradient(
        &mut self,
        point: &Point,
        partials: &mut Tangent,
        pass: impl FnOnce(&mut Streamed, &Point, &mut Tangent) -> Result<Cost>,
    ) -> Result<Cost> {
        let Some(coordinates) = self.coordinates.take() else {
            return pass(&mut self.data, point, partials);
        };
        let (mut model, direction) = self.take_room(point);
        scale(&coordinates, point, &mut model);
        let cost = pass(&mut self.data, &model, partials);
        self.room = Some((model, direction));
        // The chain rule: by V, the partials are those by U times p^(-1/2).
        for (mode, rows) in partials.factors.iter_mut().enumerate() {
            coordinates.scale_in_place(mode, rows);
        }
        self.coordinates = Some(coordinates);
        cost
    }

    /// What a pass tells of a point and a direction, given in the model's own factors.
    fn along<T>(
        &mut self,
        point: &Point,
        direction: &Tangent,
        pass: impl FnOnce(&mut Streamed, &Point, &Tangent) -> Result<T>,
    ) -> Result<T> {
        let Some(coordinates) = self.coordinates.take() else {
            return pass(&mut self.data, point, direction);
        };
        let (mut model, mut along) = self.take_room(point);
        scale(&coordinates, point, &mut model);
        for (mode, rows) in direction.factors.iter().enumerate() {
            coordinates.scale(mode, rows, &mut along.factors[mode]);
        }
        along.core.copy_from(&direction.core);
        let told = pass(&mut self.data, &model, &along);
        self.room = Some((model, along));
        self.coordinates = Some(coordinates);
        told
    }
}

impl Objective for Regularised {
    type Error = crate::error::Error;

    fn cost_and_gradient(&mut self, point: &Point, partials: &mut Tangent) -> Result<Cost> {
        let mut cost =
            self.gradient(point, partials, |data, model, partials| data.cost_and_gradient(model, partials))?;
        for mode in 0..point.order() {
            if self.is_held(mode) {
                partials.factors[mode].fill(0.0);
            }
        }
        self.penalty.add_gradient(&point.core, &mut partials.core);
        cost.total += self.penalty.value(&point.core);
        Ok(cost)
    }

    fn missed(&self, point: &Point, cost: &Cost) -> f64 {
        // What a penalty leaves is not on its way to zero.
        if self.is_plain() { self.data.missed(point, cost) } else { 0.0 }
    }

    fn chunks(&self) -> usize {
        // A penalty and smoothed coordinates belong to the whole data.
        if self.is_plain() { self.data.chunks() } else { 1 }
    }

    fn row_weight(&self, mode: usize, row: usize) -> f64 {
        self.coordinates.as_ref().map_or(1.0, |coordinates| coordinates.weight(mode, row))
    }

    fn leading_mode(&self) -> Option<usize> {
        self.data.leading_mode()
    }

    fn chunk_cost_and_gradient(
        &mut self,
        chunk: usize,
        point: &Point,
        partials: &mut Tangent,
    ) -> Result<Cost> {
        self.gradient(point, partials, |data, model, partials| {
            data.chunk_cost_and_gradient(chunk, model, partials)
        })
    }

    fn step_sums(&mut self, point: &Point, direction: &Tangent) -> Result<LinearisedStep> {
        let sums = self.along(point, direction, |data, model, along| data.step_sums(model, along))?;
        let (slope, curvature) = self.penalty.step(&point.core, &direction.core, sums.slope, sums.curvature);
        Ok(LinearisedStep { slope, curvature })
    }

    /// Without a penalty only: along the line that this polynomial belongs to, a norm of the core
    /// is none.
    fn line_polynomial(&mut self, point: &Point, direction: &Tangent) -> Result<Vec<f64>> {
        debug_assert!(self.penalty.lambda == 0.0);
        self.along(point, direction, |data, model, along| data.line_polynomial(model, along))
    }

    fn validation(&mut self, point: &Point) -> Result<Option<f64>> {
        let Some((stream, exchange)) = self.data.validation_entries() else { return Ok(None) };
        let scored = match &self.coordinates {
            None => self.score(stream, exchange, point)?,
            Some(_) => self.score(stream, exchange, &self.model(point))?,
        };
        self.last_validation = Some(scored);
        Ok(scored.known_mse())
    }
}
