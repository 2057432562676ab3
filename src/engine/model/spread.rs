//! How far an observation may lie from what a model says of it.
//!
//! Given independent numbers of rows, with means m and variances s, a component g prod m has the variance
//! g^2 (prod (m^2 + s) - prod m^2); components share no numbers, so that their variances and those of biases add
//! up. With the noise that is the variance of a latent value, and what the range leaves of it is observed.

use super::{Model, Place, Places, Predictive, Uncertainty};
use crate::MAX_ORDER;
use crate::error::{Error, Result};

/// A model's uncertainty, ready to be asked.
pub struct Spreads<'m> {
    model: &'m Model,
    uncertainty: &'m Uncertainty,
    components: Vec<Component>,
    /// Of averaged modes: the variances of the average row, and those of a row that is drawn from all.
    averages: Vec<Option<[Vec<f64>; 2]>>,
}

/// A number of the core that is not zero.
struct Component {
    square: f64,
    at: [u32; MAX_ORDER],
}

/// The variances of a latent value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// Of what the model says.
    pub of_mean: f64,
    /// Of an observation about it.
    pub of_observation: f64,
}

impl<'m> Spreads<'m> {
    /// For questions in which the modes with `averaged[mode]` may be averaged; an error where the model does not know
    /// how sure it is.
    pub fn new(model: &'m Model, averaged: &[bool]) -> Result<Self> {
        let uncertainty = model.uncertainty.as_ref().ok_or_else(|| unsure(model))?;
        let mut components = Vec::new();
        model.point.core.for_each_nonzero(|place, g| {
            let mut at = [0; MAX_ORDER];
            at[..place.len()].copy_from_slice(place);
            components.push(Component { square: g * g, at });
        });
        let average = |mode: usize| {
            let (of, known) = (&uncertainty.modes[mode], |index: usize| model.knows(mode, index as u32));
            let rows: Vec<usize> = (0..model.point.factors[mode].rows()).filter(|&row| known(row)).collect();
            let count = rows.len().max(1) as f64;
            let column = |n: usize| {
                let at = |row: usize| number(model, uncertainty.unit, mode, row, n);
                let mean = rows.iter().map(|&row| at(row)).sum::<f64>() / count;
                let between = rows.iter().map(|&row| (at(row) - mean).powi(2)).sum::<f64>() / count;
                let within = rows.iter().map(|&row| f64::from(of.row(row)[n])).sum::<f64>() / count;
                (within / count, within + between)
            };
            let (of_mean, of_any) = (0..of.width).map(column).unzip();
            [of_mean, of_any]
        };
        let averages = averaged.iter().enumerate().map(|(mode, &yes)| yes.then(|| average(mode))).collect();
        Ok(Spreads { model, uncertainty, components, averages })
    }

    /// For a question that may ask for it: `None` where it does not.
    pub fn wanted(
        model: &'m Model,
        averaged: &[bool],
        sd: bool,
        explore: Option<f64>,
    ) -> Result<Option<Self>> {
        if explore.is_some_and(|times| !(times.is_finite() && times >= 0.0)) {
            return Err(Error::request("`explore` is a number of standard deviations, 0 or more"));
        }
        (sd || explore.is_some()).then(|| Spreads::new(model, averaged)).transpose()
    }

    /// The variances of a number of a row at a place: of the model, and of an observation there.
    #[inline]
    fn of(&self, mode: usize, place: Place, n: usize) -> [f64; 2] {
        let of = &self.uncertainty.modes[mode];
        match (place, &self.averages[mode]) {
            (Place::Index(index), _) => [f64::from(of.row(index as usize)[n]); 2],
            (Place::Average, Some([of_mean, of_any])) => [of_mean[n], of_any[n]],
            _ => [of.unknown[n]; 2],
        }
    }

    /// The variances of the latent value at places.
    pub fn variance(&self, places: &Places<'_>, asked: &[Place]) -> Variance {
        let mut settled = [Place::Unknown; MAX_ORDER];
        asked.iter().enumerate().for_each(|(mode, &place)| settled[mode] = places.settle(mode, place));
        let at = &settled[..asked.len()];
        let unit = self.uncertainty.unit * self.uncertainty.unit;
        let mut sums = [0.0; 2];
        for (mode, &place) in at.iter().enumerate() {
            let of = self.of(mode, place, self.uncertainty.modes[mode].width - 1);
            (0..2).for_each(|n| sums[n] += unit * of[n]);
        }
        let mut rows: [Option<&[f64]>; MAX_ORDER] = [None; MAX_ORDER];
        for (mode, &place) in at.iter().enumerate() {
            rows[mode] = places.row(mode, place);
        }
        // What is said of ids of which one is not known leaves the tensor out.
        let silent = rows[..at.len()].contains(&None);
        for component in &self.components {
            let (mut square, mut second) = (f64::from(u8::from(!silent)), [1.0; 2]);
            for (mode, &place) in at.iter().enumerate() {
                let n = component.at[mode] as usize;
                let constant = n + 1 >= self.uncertainty.modes[mode].width;
                let of = if constant { [0.0; 2] } else { self.of(mode, place, n) };
                let mean = match rows[mode] {
                    Some(row) => row[n],
                    None => f64::from(u8::from(constant)),
                };
                square *= mean * mean;
                (0..2).for_each(|n| second[n] *= mean * mean + of[n]);
            }
            (0..2).for_each(|n| sums[n] += component.square * (second[n] - square).max(0.0));
        }
        Variance { of_mean: sums[0], of_observation: sums[1] + unit * self.uncertainty.held_out_noise }
    }

    /// What the variance of what is said of a row of a mode depends on, the places of the others being settled: it is
    /// the sum over its components of `second` times the expected squares of the row's numbers, less `square` times
    /// the squares of their means, and of the variances of biases, of which those of the others are `rest`.
    pub(crate) fn around(&self, places: &Places<'_>, at: &[Place], open: usize) -> Around {
        let rank = self.model.point.ranks()[open];
        let mut around = Around { second: vec![0.0; rank], square: vec![0.0; rank], rest: 0.0 };
        let others = || (0..at.len()).filter(|&mode| mode != open);
        let unit = self.uncertainty.unit * self.uncertainty.unit;
        for mode in others() {
            around.rest += unit * self.of(mode, at[mode], self.uncertainty.modes[mode].width - 1)[0];
        }
        let silent = others().any(|mode| places.row(mode, at[mode]).is_none());
        for component in &self.components {
            let (mut square, mut second) = (component.square, component.square);
            for mode in others() {
                let n = component.at[mode] as usize;
                let constant = n + 1 >= self.uncertainty.modes[mode].width;
                let of = if constant { 0.0 } else { self.of(mode, at[mode], n)[0] };
                let mean = places.row(mode, at[mode]).map_or(f64::from(u8::from(constant)), |row| row[n]);
                square *= mean * mean;
                second *= mean * mean + of;
            }
            let own = component.at[open] as usize;
            around.second[own] += second;
            around.square[own] += if silent { 0.0 } else { square };
        }
        around
    }

    /// The squares of the means of a row's numbers, their expected squares, and the variance of its bias.
    pub(crate) fn squares_of(&self, mode: usize, row: u32, square: &mut [f64], second: &mut [f64]) -> f64 {
        let (variances, width) = (self.uncertainty.modes[mode].row(row as usize), square.len());
        for (n, &mean) in self.model.point.factors[mode].row(row as usize)[..width].iter().enumerate() {
            let constant = n + 1 >= variances.len();
            square[n] = mean * mean;
            second[n] = mean * mean + if constant { 0.0 } else { f64::from(variances[n]) };
        }
        self.uncertainty.unit.powi(2) * f64::from(variances[variances.len() - 1])
    }

    /// The distribution of an observation at places.
    pub fn predictive(&self, places: &Places<'_>, at: &[Place]) -> Predictive {
        let (mean, _) = places.raw(at);
        let variance = self.variance(places, at).of_observation;
        let about = &self.model.about;
        let predictive = Predictive::new(mean, variance, about.range, about.ends, self.uncertainty.tails);
        predictive.transformed(about.transform())
    }
}

/// See [`Spreads::around`].
pub(crate) struct Around {
    pub(crate) second: Vec<f64>,
    pub(crate) square: Vec<f64>,
    pub(crate) rest: f64,
}

/// Number n of a row, the bias in the unit of the others.
fn number(model: &Model, unit: f64, mode: usize, row: usize, n: usize) -> f64 {
    let width = model.uncertainty.as_ref().map_or(0, |uncertainty| uncertainty.modes[mode].width);
    if n + 1 < width {
        return model.point.factors[mode].row(row)[n];
    }
    let biases = model.biases.as_ref().and_then(|biases| biases.modes[mode].get(row));
    biases.map_or(0.0, |bias| bias / unit)
}

fn unsure(model: &Model) -> Error {
    let what = "the model does not know how sure it is: only models that were fitted by sweeps do (`complete` \
                without `rank` and `penalty`, on data with noise)";
    Error::input(model.run(), what)
}
