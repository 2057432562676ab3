//! The systems that hold the whole tensor in memory: HaLRTC, Latent, Hard. All of them minimise sums of
//! nuclear norms of unfoldings, and so need neither a rank nor a start.

mod halrtc;
mod hard;
mod latent;
mod nuclear;
#[cfg(test)]
mod tests;

pub use halrtc::HaLrtc;
pub use hard::Hard;
pub use latent::Latent;
pub use nuclear::{Shrunk, largest_singular_value, shrink};

use crate::instance::Instance;
use crate::record::{Book, Clock, Errors, Rules};
use crate::{Result, told};
use tenfill_engine::manifold::Core;
use tenfill_engine::shard::Split;
use tenfill_engine::units;

/// Entries of a tensor, by their place in row-major order.
pub type Places = Vec<(usize, f64)>;

/// What is known of a tensor.
pub struct Observed {
    /// Its dimensions.
    pub dims: Vec<usize>,
    /// Its train entries.
    pub train: Places,
}

impl Observed {
    /// The tensor that is zero where nothing is known.
    pub fn filled_with_zeros(&self) -> Core {
        let mut tensor = Core::zeros(&self.dims);
        self.put(&mut tensor);
        tensor
    }

    /// Sets the known entries.
    pub fn put(&self, tensor: &mut Core) {
        let numbers = tensor.as_mut_slice();
        self.train.iter().for_each(|&(place, value)| numbers[place] = value);
    }

    /// The error on train of a tensor of zeros.
    pub fn mean_square(&self) -> f64 {
        self.train.iter().map(|(_, value)| value * value).sum::<f64>() / self.train.len() as f64
    }

    /// A guess at the largest singular value of any unfolding of the whole tensor, the size of everything
    /// here: that of the known entries, which are a share of all, divided by the share.
    pub fn scale(&self) -> f64 {
        let tensor = self.filled_with_zeros();
        let largest = (0..self.dims.len()).map(|mode| largest_singular_value(&tensor, mode));
        largest.fold(0.0, f64::max) * tensor.as_slice().len() as f64 / self.train.len() as f64
    }
}

/// The mean squared distance of a tensor from entries.
pub fn mean_squared_error(tensor: &Core, entries: &[(usize, f64)]) -> f64 {
    let numbers = tensor.as_slice();
    let sum: f64 = entries.iter().map(|&(place, value)| (numbers[place] - value).powi(2)).sum();
    sum / entries.len() as f64
}

/// A system that goes step by step.
pub trait Completion {
    /// One step.
    fn iterate(&mut self);
    /// The completed tensor as it is now.
    fn estimate(&self) -> &Core;
    /// The mean squared error on the train entries of what it would say of them, were they not put back
    /// into the estimate as they are.
    fn train_mse(&self) -> f64;
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dense {
    /// High accuracy low rank tensor completion.
    HaLrtc,
    /// The latent norm.
    Latent,
    /// Hard completion.
    Hard,
}

impl Dense {
    /// All of them.
    pub const ALL: [Dense; 3] = [Dense::HaLrtc, Dense::Latent, Dense::Hard];

    /// Its name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Dense::HaLrtc => "HaLRTC",
            Dense::Latent => "Latent",
            Dense::Hard => "Hard",
        }
    }

    /// Tensors of full size that it holds, those of a step included, for a tensor of D modes.
    fn tensors(self, order: usize) -> usize {
        match self {
            Dense::HaLrtc => 1 + 4 * order,
            Dense::Latent => 1 + 4 * order,
            Dense::Hard => 1 + 3 * order,
        }
    }

    /// What it would take.
    ///
    /// # Errors
    ///
    /// A sentence with that number, where it is above `memory`.
    pub fn check(self, dims: &[usize], memory: u64) -> Result<u64> {
        let cells = dims.iter().fold(1u128, |cells, &n| cells.saturating_mul(n as u128));
        let bytes = cells.saturating_mul(8 * self.tensors(dims.len()) as u128);
        let shape = dims.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        let size = |bytes: u128| units::size(u64::try_from(bytes).unwrap_or(u64::MAX));
        if bytes > memory as u128 {
            return Err(format!(
                "{} holds {} full tensors of {shape}, which takes {}: more than --memory {}",
                self.name(),
                self.tensors(dims.len()),
                size(bytes),
                size(memory as u128)
            ));
        }
        Ok(bytes as u64)
    }

    /// At its start.
    pub fn start(self, observed: Observed) -> Box<dyn Completion> {
        match self {
            Dense::HaLrtc => Box::new(HaLrtc::new(observed)),
            Dense::Latent => Box::new(Latent::new(observed)),
            Dense::Hard => Box::new(Hard::new(observed)),
        }
    }
}

/// Completes an instance and writes down how it went; returns the tensor that is kept.
pub fn run(book: &mut Book, instance: &Instance, system: Dense, rules: &Rules, memory: u64) -> Result<Core> {
    let dims = &instance.about.dims;
    system.check(dims, memory)?;
    let read = |split: Split| -> Result<Places> {
        let mut places = Places::new();
        let place = |indices: &[u32]| indices.iter().zip(dims).fold(0, |at, (&i, &n)| at * n + i as usize);
        let read = instance.dataset.for_each(split, |indices, value| places.push((place(indices), value)));
        read.map_err(told).map(|()| places)
    };
    let (validation, test) = (read(Split::Validation)?, read(Split::Test)?);
    let observed = Observed { dims: dims.clone(), train: read(Split::Train)? };
    let mut clock = Clock::stopped();
    let mut run = clock.time(|| system.start(observed));
    let mut trace: Vec<Errors> = Vec::new();
    let mut kept = run.estimate().clone();
    let stopped_by = loop {
        trace.push(Errors {
            iteration: trace.len(),
            passes: 0,
            train_mse: run.train_mse(),
            validation_mse: (!validation.is_empty()).then(|| mean_squared_error(run.estimate(), &validation)),
            test_mse: mean_squared_error(run.estimate(), &test),
            time: clock.spent(),
        });
        if !validation.is_empty() && crate::record::best(&trace) == trace.len() - 1 {
            kept.copy_from(run.estimate());
        }
        if let Some(reason) = rules.stop(&trace) {
            break reason;
        }
        clock.time(|| run.iterate());
    };
    if validation.is_empty() {
        kept.copy_from(run.estimate());
    }
    book.add(&instance.about, system.name(), &trace, stopped_by);
    Ok(kept)
}
