//! Joins stream, kernel and reduce: the cost over a dataset, its gradient, and the step sums.

use super::needs::{Needs, in_levels};
use super::remote_rows::RemoteRows;
use super::score::residuals;
use super::targets::Targets;
use super::unseen::UnseenRows;
use crate::budget::{Budget, Reservation};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::kernel::{self, FactorsView, GradientSums, LinePolynomial, PaddingBuffer, Precision, Workspace};
use crate::manifold::{Core, Point, Tangent};
use crate::model::Biases;
use crate::reduce::{Buffers, Exchange, map_lanes};
use crate::rows::Rows;
use crate::shard::{Dataset, Split};
use crate::solver::{Cost, LinearisedStep, Objective};
use crate::stream::{Access, Share, Stream};
use crate::team::{Combine, Team};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The mean squared residual over the train entries of a dataset, streamed; where these have weights w,
/// the weighted mean: sum of w e^2 / sum of w.
pub struct Streamed {
    train: Stream,
    /// The train entries in parts, where steps are made from a part of them.
    chunks: Vec<Stream>,
    validation: Option<Stream>,
    /// What travels between processes for passes over either.
    exchange: Exchange,
    validation_exchange: Option<Exchange>,
    views: [RemoteRows; 2],
    mode_order: Vec<usize>,
    buffers: Buffers,
    packing: PaddingBuffer,
    unseen: UnseenRows,
    biases: Option<Biases>,
    /// The sum of the weights of the train entries, as the stream hands them out: their number where they
    /// have none.
    weight: f64,
    precision: Precision,
    /// The power of two that brings values close to 1 while gradients are summed up, which may be in single
    /// precision: the gradient is of the size of their squares.
    scale: f64,
    /// The wall time of passes over the train entries since it was last asked for.
    pass_nanos: AtomicU64,
    needs: Needs,
    _memory: Reservation,
}

/// Factors in storage order, with the core's axes permuted to match.
pub(super) struct Stored {
    ranks: Vec<usize>,
    core: Vec<f64>,
}

impl Stored {
    pub(super) fn new(core: &Core, order: &[usize]) -> Self {
        Stored { ranks: order.iter().map(|&mode| core.ranks()[mode]).collect(), core: permute(core, order) }
    }

    /// The same for values that are multiplied by a number.
    fn scaled(mut self, scale: f64) -> Self {
        self.core.iter_mut().for_each(|g| *g *= scale);
        self
    }

    pub(super) fn view<'a>(&'a self, rows: &[&'a [f64]]) -> FactorsView<'a> {
        FactorsView::new(&self.ranks, rows, &self.core)
    }
}

/// Calls `each(natural, stored)` with the two positions of every number of the core.
fn for_each_position(ranks: &[usize], order: &[usize], mut each: impl FnMut(usize, usize)) {
    let mut stored_stride = vec![0; ranks.len()];
    let mut stride = 1;
    for &mode in order.iter().rev() {
        stored_stride[mode] = stride;
        stride *= ranks[mode];
    }
    let mut index = vec![0; ranks.len()];
    for natural in 0..stride {
        each(natural, index.iter().zip(&stored_stride).map(|(i, s)| i * s).sum());
        for mode in (0..ranks.len()).rev() {
            index[mode] += 1;
            if index[mode] < ranks[mode] {
                break;
            }
            index[mode] = 0;
        }
    }
}

fn permute(core: &Core, order: &[usize]) -> Vec<f64> {
    let mut out = vec![0.0; core.as_slice().len()];
    for_each_position(core.ranks(), order, |natural, stored| out[stored] = core.as_slice()[natural]);
    out
}

impl Streamed {
    /// The memory that was asked for.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Opens the train and validation entries of a dataset for models of the given ranks (in the
    /// user's order), with as many lane buffers as the budget allows.
    pub fn open(
        dataset: &Dataset,
        ranks: &[usize],
        precision: Precision,
        budget: &Budget,
        access: Option<Access>,
    ) -> Result<Self> {
        Self::open_for(dataset, ranks, precision, budget, access, Share::default(), false, |needs| needs)
    }

    /// The same as one of several processes, and where more than the plain method's memory is needed. `joins`: whether
    /// validation entries are read beside the train entries of the same slices.
    pub fn open_for(
        dataset: &Dataset,
        ranks: &[usize],
        precision: Precision,
        budget: &Budget,
        access: Option<Access>,
        share: Share,
        joins: bool,
        change: impl Fn(Needs) -> Needs,
    ) -> Result<Self> {
        let manifest = dataset.manifest();
        let team = share.team;
        let mut train = Stream::open_share(dataset, Split::Train, access, share)?;
        let own = train.lanes().iter().filter(|_| joins).map(|lane| lane.slices.clone());
        let slices: Vec<Range<u32>> = own.collect();
        let mut validation = match manifest.validation.entries {
            0 => None,
            _ => Some(Stream::open_covering(dataset, Split::Validation, access, share, &slices)?),
        };
        let (lanes, threads) = (share.lanes, rayon::current_num_threads());
        let of = |access| {
            change(Needs::of_several(manifest, ranks, precision, Some(access), threads, lanes, team.size()))
        };
        let (mut needs, cached) = (of(train.access()), of(Access::Cached));
        let has_room = |needs: &Needs| needs.buffers(budget.total()).is_ok();
        if access.is_none() && !has_room(&needs) && has_room(&cached) {
            // Reading ahead is faster where the page cache is small, but nobody is refused for it.
            needs = cached;
            train.do_without_reading_ahead();
            validation.iter_mut().for_each(Stream::do_without_reading_ahead);
        }
        let buffers = needs.buffers(budget.total());
        let reserved =
            buffers.and_then(|buffers| Ok((buffers, budget.reserve(needs.total(buffers), "the run")?)));
        let (buffers, memory) = team.agree(reserved)?;
        let mode_order = manifest.mode_order.clone();
        let (dims, stored) = in_levels(dataset, ranks);
        let unseen = UnseenRows::of(dataset, &train)?;
        let exchange = Exchange::new(&train, &dims)?;
        let validation_exchange = match &validation {
            Some(stream) => Some(Exchange::new(stream, &dims)?),
            None => None,
        };
        Ok(Streamed {
            train,
            chunks: Vec::new(),
            validation,
            exchange,
            validation_exchange,
            views: Default::default(),
            mode_order,
            buffers: Buffers::new(buffers as usize, &dims, &stored, precision),
            packing: PaddingBuffer::new(),
            unseen,
            biases: None,
            weight: manifest.weight(Split::Train) * manifest.weight_scale(),
            precision,
            scale: manifest.value_scale(),
            pass_nanos: AtomicU64::new(0),
            needs,
            _memory: memory,
        })
    }

    /// Cuts the train entries into chunks, for steps from a part of them.
    pub fn cut(&mut self, chunks: usize) {
        self.chunks = self.train.parts(chunks);
    }

    /// Cuts passes short when this says so.
    pub fn watch(&mut self, control: &Control) {
        let streams = self.chunks.iter_mut().chain([&mut self.train]).chain(&mut self.validation);
        streams.for_each(|stream| stream.watch(control));
    }

    /// The train entries.
    pub fn train(&self) -> &Stream {
        &self.train
    }

    /// What travels between processes in a pass over them.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The processes that go through the entries together.
    pub fn team(&self) -> Team {
        self.train.team()
    }

    /// Gives back the room of gradient and step passes, when there will be none for a while.
    pub fn release(&mut self) {
        (self.views, self.packing) = Default::default();
    }

    /// The wall time of gradient and step passes since this was last asked for, in seconds: what
    /// remains of an iteration is dense algebra.
    pub fn take_pass_seconds(&self) -> f64 {
        self.pass_nanos.swap(0, Ordering::Relaxed) as f64 * 1e-9
    }

    /// Counts the time since `begun`.
    fn count_pass(&self, begun: Instant) {
        self.pass_nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The rows that cannot be learned.
    pub fn unseen(&self) -> &UnseenRows {
        &self.unseen
    }

    /// The validation entries, where there are any, and what travels for a look at them.
    pub fn validation_entries(&self) -> Option<(&Stream, &Exchange)> {
        self.validation.as_ref().zip(self.validation_exchange.as_ref())
    }

    /// Level l belongs to mode `mode_order()[l]`.
    pub fn mode_order(&self) -> &[usize] {
        &self.mode_order
    }

    /// What is taken off the values before the tensor has to explain them.
    pub fn biases(&self) -> Option<&Biases> {
        self.biases.as_ref()
    }

    /// Sets the biases.
    pub fn set_biases(&mut self, biases: Option<Biases>) {
        self.biases = biases;
    }

    /// Makes room for models of other ranks, not above those that the memory was reserved for.
    pub fn set_ranks(&mut self, dims: &[usize], ranks: &[usize]) {
        let by_level = |of: &[usize]| self.mode_order.iter().map(|&mode| of[mode]).collect::<Vec<_>>();
        self.buffers = Buffers::new(self.buffers.count(), &by_level(dims), &by_level(ranks), self.precision);
    }

    /// The factor c that minimises the sum of (c X - y)^2 over a sample of the train entries.
    pub fn least_squares_scale(&self, point: &Point) -> Result<f64> {
        /// Blocks of the sample.
        const BLOCKS: usize = 16;
        let stored = Stored::new(&point.core, &self.mode_order);
        let mut room = RemoteRows::default();
        let view = stored.view(&room.of(&point.factors, &self.mode_order, &self.exchange));
        let mut workspace = Workspace::new();
        // Per block, so that it does not matter which process has it.
        let mut sums = [0.0; 2 * BLOCKS];
        let read = self.train.for_each_sampled(BLOCKS, |sample, block| {
            kernel::for_each_prediction(block, &view, &mut workspace, |_, value, weight, prediction| {
                sums[2 * sample] += weight * prediction * value;
                sums[2 * sample + 1] += weight * prediction * prediction;
            });
            Ok(())
        });
        self.team().agree(read)?;
        self.team().combine(bytemuck::cast_slice_mut(&mut sums), Combine::Or);
        let sum = |which: usize| sums.iter().skip(which).step_by(2).sum::<f64>();
        let scale = sum(0) / sum(1);
        Ok(if scale.is_finite() && scale != 0.0 { scale } else { 1.0 })
    }

    /// An error of all processes where the sums of a step are no numbers.
    fn finite(&self, sums: &[f64]) -> Result<()> {
        match sums.iter().all(|sum| sum.is_finite()) {
            true => Ok(()),
            false => self.team().agree(Err(Error::not_finite("the step"))),
        }
    }

    /// Cost and partials of all train entries, or the share of a chunk in them.
    fn gradient_of(&mut self, chunk: Option<usize>, point: &Point, partials: &mut Tangent) -> Result<Cost> {
        let begun = Instant::now();
        let scale = self.scale;
        let stored = Stored::new(&point.core, &self.mode_order).scaled(scale);
        let rows = self.views[0].of(&point.factors, &self.mode_order, &self.exchange);
        let padded = self.packing.point(stored.view(&rows));
        let stream = chunk.map_or(&self.train, |chunk| &self.chunks[chunk]);
        let mut core = vec![0.0; stored.core.len()];
        // Level l of the sums is mode_order[l] of the tangent.
        let mut by_mode: Vec<Option<&mut Rows>> = partials.factors.iter_mut().map(Some).collect();
        let mut rows: Vec<&mut Rows> =
            self.mode_order.iter().filter_map(|&mode| by_mode[mode].take()).collect();
        let targets = Targets::new(self.biases.as_ref(), &self.mode_order).scaled(scale);
        let [squares, absolute] = self.buffers.sum(
            stream,
            &self.exchange,
            &mut rows,
            &mut core,
            |lane, sums: &mut GradientSums| {
                let (mut workspace, mut values) = (Workspace::new(), Vec::new());
                stream.for_each(lane, |block| {
                    kernel::gradient(&targets.view(block, &mut values), &padded, sums, &mut workspace);
                    Ok(())
                })
            },
        )?;
        let entries = self.weight;
        let ranks = point.core.ranks().to_vec();
        for_each_position(&ranks, &self.mode_order, |natural, stored| {
            partials.core.as_mut_slice()[natural] = core[stored];
        });
        // What the rows receive is residuals times the core, what the core receives residuals alone.
        let by = 2.0 / entries;
        partials.factors.iter_mut().for_each(|rows| rows.scale(by / (scale * scale)));
        partials.core.scale(by / scale);
        self.count_pass(begun);
        Ok(Cost::plain(squares / (scale * scale) / entries, absolute / scale / entries))
    }
}

impl Objective for Streamed {
    type Error = Error;

    fn cost_and_gradient(&mut self, point: &Point, partials: &mut Tangent) -> Result<Cost> {
        self.gradient_of(None, point, partials)
    }

    fn chunks(&self) -> usize {
        self.chunks.len().max(1)
    }

    fn leading_mode(&self) -> Option<usize> {
        self.mode_order.first().copied()
    }

    fn chunk_cost_and_gradient(
        &mut self,
        chunk: usize,
        point: &Point,
        partials: &mut Tangent,
    ) -> Result<Cost> {
        self.gradient_of(Some(chunk), point, partials)
    }

    fn step_sums(&mut self, point: &Point, direction: &Tangent) -> Result<LinearisedStep> {
        let begun = Instant::now();
        let order = &self.mode_order;
        let (stored, moved) = (Stored::new(&point.core, order), Stored::new(&direction.core, order));
        let [at, along] = &mut self.views;
        let at = stored.view(&at.of(&point.factors, order, &self.exchange));
        let along = moved.view(&along.of(&direction.factors, order, &self.exchange));
        let line = self.packing.line(at, along);
        let targets = Targets::new(self.biases.as_ref(), order);
        let lanes = map_lanes(&self.train, &kernel::StepSums::default(), |lane| {
            let (mut sums, mut workspace) = (kernel::StepSums::default(), Workspace::new());
            let mut values = Vec::new();
            self.train.for_each(lane, |block| {
                kernel::step(&targets.view(block, &mut values), &line, &mut sums, &mut workspace);
                Ok(())
            })?;
            Ok(sums)
        })?;
        let mut total = kernel::StepSums::default();
        lanes.iter().for_each(|lane| total.add(lane));
        let entries = self.weight;
        self.count_pass(begun);
        let sums = LinearisedStep {
            slope: total.residual_change / entries,
            curvature: total.change_change / entries,
        };
        self.finite(&[sums.slope, sums.curvature])?;
        Ok(sums)
    }

    fn line_polynomial(&mut self, point: &Point, direction: &Tangent) -> Result<Vec<f64>> {
        let order = &self.mode_order;
        let (stored, moved) = (Stored::new(&point.core, order), Stored::new(&direction.core, order));
        let [at, along] = &mut self.views;
        let at = stored.view(&at.of(&point.factors, order, &self.exchange));
        let along = moved.view(&along.of(&direction.factors, order, &self.exchange));
        let targets = Targets::new(self.biases.as_ref(), order);
        let lanes = map_lanes(&self.train, &LinePolynomial::new(order.len()), |lane| {
            let (mut sum, mut workspace) = (LinePolynomial::new(order.len()), Workspace::new());
            let mut values = Vec::new();
            self.train.for_each(lane, |block| {
                kernel::line_polynomial(
                    &targets.view(block, &mut values),
                    &at,
                    &along,
                    &mut sum,
                    &mut workspace,
                );
                Ok(())
            })?;
            Ok(sum)
        })?;
        let mut total = LinePolynomial::new(order.len());
        lanes.iter().for_each(|lane| total.add(lane));
        let entries = self.weight;
        let coefficients: Vec<f64> =
            total.coefficients().iter().map(|coefficient| coefficient / entries).collect();
        self.finite(&coefficients)?;
        Ok(coefficients)
    }

    fn validation(&mut self, point: &Point) -> Result<Option<f64>> {
        let Some((stream, exchange)) = self.validation.as_ref().zip(self.validation_exchange.as_ref()) else {
            return Ok(None);
        };
        let sums = residuals(stream, exchange, point, &self.mode_order, &self.unseen, &mut self.packing)?;
        Ok(sums.mse())
    }
}
