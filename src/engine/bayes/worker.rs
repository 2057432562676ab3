//! What a lane does in a pass: rows of level 0 from their entries, and the entries into the sums of the target.

use super::along::Along;
use super::batch::{Aligned, Batch, SCALED, layout};
use super::entries::Entries;
use super::moments::{Moments, RowProducts};
use super::own::{Equations, Own};
use super::pass::{Pass, sums_width};
use super::rests::Rests;
use super::row::RowRoom;
use crate::kernel::{PANEL_TILE, Picked};

/// Entries whose z are together in memory: what a processor's first cache holds.
pub(super) const PANEL: usize = 128;

/// What one lane has found.
pub(super) struct LaneFound {
    pub(super) slices: Vec<u32>,
    pub(super) means: Vec<f64>,
    pub(super) variances: Vec<f32>,
    pub(super) moments: Moments,
    pub(super) sums: Vec<f64>,
}

/// What a lane works in.
pub(super) struct Worker<'a> {
    pub(super) pass: &'a Pass<'a>,
    pub(super) along: &'a Along,
    pub(super) found: LaneFound,
    /// Rows on their way into what they add up to.
    pub(super) products: RowProducts,
    pub(super) room: RowRoom,
    pub(super) equations: Equations,
    /// z of some entries, padded.
    pub(super) panel: Aligned,
    pub(super) own: Own,
    /// Of some entries: what of their values comes from elsewhere, and targets times weights.
    pub(super) rests: Rests,
    pub(super) targets: Vec<f64>,
    /// The rows of no level.
    pub(super) zeros: Vec<u32>,
    pub(super) features: Vec<f64>,
    /// How sums of the target and what slices give to them lie, and entries on their way there; none where rows of the
    /// target are nothing but biases, or nothing is added to them.
    pub(super) layout: Picked,
    pub(super) batch: Option<Batch>,
    /// What the slice gives to its entries.
    pub(super) given: Vec<f64>,
    /// Of one entry: what of the target's z comes from other levels, and how uncertain that is.
    pub(super) others: Vec<f64>,
    pub(super) others_spread: Vec<f64>,
    /// Both, as factors of some entries.
    pub(super) factors: Vec<f64>,
    /// What multiplies level 0's row in terms without the target.
    pub(super) beside: Vec<f64>,
}

/// The row of a slice that comes in windows, and what it gives to its entries.
pub(super) struct Given {
    mean: Vec<f64>,
    covariance: Vec<f64>,
    given: Vec<f64>,
}

impl Given {
    /// All numbers, one after the other.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        [&self.mean[..], &self.covariance, &self.given].concat()
    }

    /// From such numbers, the row having k.
    pub(super) fn of(numbers: &[f64], k: usize) -> Self {
        let (mean, rest) = numbers.split_at(k);
        let (covariance, given) = rest.split_at(k * k);
        Given { mean: mean.to_vec(), covariance: covariance.to_vec(), given: given.to_vec() }
    }
}

impl<'a> Worker<'a> {
    /// With sums of the target that are zero; without any it may look at slices only.
    pub(super) fn new(pass: &'a Pass<'a>, along: &'a Along, sums: Vec<f64>, batch: Option<Batch>) -> Self {
        let (k, e) = (pass.levels[0].width, pass.levels[pass.target].width);
        let (padded, features) = (k.next_multiple_of(PANEL_TILE), pass.levels[0].features.count());
        let covariances = along.whole.iter().map(|(other, _)| pass.levels[*other].covariance_width()).sum();
        let layout = layout(e, 0);
        Worker {
            pass,
            along,
            found: LaneFound {
                slices: Vec::new(),
                means: Vec::new(),
                variances: Vec::new(),
                moments: Moments::new(k, features),
                sums,
            },
            products: RowProducts::new(k, features),
            room: RowRoom::new(k),
            equations: Equations::new(k),
            panel: Aligned::new(PANEL * padded, 0.0),
            own: Own::new(padded, covariances),
            rests: Rests::default(),
            targets: Vec::new(),
            zeros: vec![0; PANEL],
            features: vec![0.0; features],
            layout,
            batch,
            given: vec![0.0; layout.width()],
            others: vec![1.0; e],
            others_spread: vec![0.0; e],
            factors: if along.same || along.scaled.is_some() {
                Vec::new()
            } else {
                vec![1.0; SCALED * sums_width(e)]
            },
            beside: vec![0.0; k],
        }
    }

    /// What was found, when no slice is left, and the batch for the next lane.
    pub(super) fn end(mut self) -> (LaneFound, Option<Batch>) {
        self.flush(false);
        self.products.end(&mut self.found.moments);
        (self.found, self.batch)
    }

    /// Fits the row of a slice and adds its entries to the sums of the target. `false` where a number is not
    /// finite.
    pub(super) fn slice(&mut self, slice: u32, entries: &Entries) -> bool {
        self.begin();
        self.add(slice, entries);
        if !self.fit(slice) {
            return false;
        }
        if self.batch.is_some() {
            self.look_along();
        }
        self.spread(slice, entries);
        true
    }

    /// Before the first entries of a slice.
    pub(super) fn begin(&mut self) {
        self.own.parts().into_iter().for_each(|part| part.fill(0.0));
    }

    /// The sums of a slice, to be added to those of its other windows.
    pub(super) fn numbers(&mut self) -> Vec<f64> {
        self.own.parts().concat()
    }

    /// The row of a slice from such sums, and what it gives to its entries.
    pub(super) fn give(&mut self, slice: u32, mut numbers: &[f64]) -> Option<Given> {
        for part in self.own.parts() {
            let (own, rest) = numbers.split_at(part.len());
            part.copy_from_slice(own);
            numbers = rest;
        }
        if !self.fit(slice) {
            return None;
        }
        self.look_along();
        let RowRoom { mean, covariance, .. } = &self.room;
        Some(Given { mean: mean.clone(), covariance: covariance.clone(), given: self.given.clone() })
    }

    /// Adds a window of a slice to the sums of the target, its row being known.
    pub(super) fn window(&mut self, slice: u32, given: &Given, entries: &Entries) {
        self.room.mean.copy_from_slice(&given.mean);
        self.room.covariance.copy_from_slice(&given.covariance);
        self.given.copy_from_slice(&given.given);
        self.spread(slice, entries);
    }
}
