//! The end of a run: the errors of the model.

use super::end::End;
use super::kind::{DataKind, Found};
use super::save::{Kept, Saver};
use super::train::{Outcome, Session, SplitErrors};
use crate::error::{Error, Result};
use crate::model::{Baseline, Clip};
use crate::objective::{Scoring, bias_fit, has_learned, r2, score, varies};
use crate::recipe::{Fitted, Trainer};
use crate::reduce::Exchange;
use crate::shard::{Dataset, Split};
use crate::solver::{Algorithm, StoppedBy};
use crate::storage::RunLayout;
use crate::stream::{Share, Stream};
use std::path::Path;

impl Session<'_> {
    /// Iteration, train and validation error of the model that is kept.
    pub(super) fn kept(&self, trainer: &Trainer) -> Kept {
        let state = &trainer.state;
        match &state.best {
            Some(best) => (best.iteration, best.train_mse, Some(best.validation_mse)),
            None => {
                let before = trainer.extra.better_before(state);
                let mse = before.map_or(state.last.train_mse, |(_, mse)| mse);
                (state.last.iteration, mse, state.last.validation_mse)
            }
        }
    }

    /// Biases alone, which the model is compared with, as the run has kept them or from a few passes; none where memory
    /// has no room for these.
    fn baseline(&self, trainer: &Trainer, dataset: &Dataset) -> Result<Option<Baseline>> {
        let (team, manifest, data) = (self.limits.team, dataset.manifest(), &trainer.objective().data);
        let with = |biases| Some(Baseline::new(biases, self.config.recipe.range, manifest.transform()));
        let directory = self.run.layout().model();
        // Damage is `verify`'s to tell; what follows from the data can be found again.
        let kept = Baseline::read(&directory).ok().flatten();
        if let Some(biases) = kept.filter(|_| team.is_alone()) {
            return Ok(with(biases));
        }
        let share = Share { lanes: self.config.lanes, team };
        let mut train = Stream::open_share(dataset, Split::Train, None, share)?;
        train.watch(self.control);
        let taken = data.needs().total(0) + bias_fit::alone_bytes(manifest, train.all_lanes().len());
        if self.any(taken > self.limits.memory) {
            self.control
                .detail("`memory` has no room to fit biases alone, so the model is not compared with them");
            return Ok(None);
        }
        let biases = bias_fit::alone(manifest, &train)?;
        let dims: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
        let written = match team.is_first() {
            true => Baseline::write(self.run.disk(), &directory, &biases, &dims),
            false => Ok(()),
        };
        team.agree(written)?;
        Ok(with(biases))
    }

    /// What follows the last iteration, its state being durable.
    pub(super) fn finish(
        &self,
        mut trainer: Trainer,
        mut stopped_by: StoppedBy,
        saver: &Saver<'_>,
    ) -> Result<Outcome> {
        let (best_iteration, mut train_mse, so_far) = self.kept(&trainer);
        // The model is looked at once more, which needs as much.
        trainer.release();
        let model = trainer.model();
        let held_out = trainer.take_held_out();
        // Whoever cannot wait does not wait for that either.
        let errors = match self.any(self.control.stopping()) {
            true => None,
            false => uncut(self.errors(&trainer, (&model, held_out.as_ref()), stopped_by))?,
        };
        if errors.is_none() {
            stopped_by = StoppedBy::Interrupted;
        }
        let measured = errors.is_some();
        let errors = errors.unwrap_or_default();
        let of = |split: Split| errors.iter().find(|errors| errors.split == split);
        let error = |split: Split| of(split).and_then(|errors| errors.scored.mse());
        // While rows were fitted, latent values stood in for those at the ends; an epoch of steps from chunks adds up
        // its error on the way, at points that it has left since.
        let chunks = matches!(self.config.solver.algorithm, Algorithm::Auto | Algorithm::Stochastic);
        let chunks = chunks && model.biases.is_none();
        let differs = |mse: &f64| (mse - train_mse).abs() > 1e-6 * train_mse;
        let manifest = self.dataset.manifest();
        let transform = manifest.transform();
        let rough =
            |mse: &f64| transform.is_some() || trainer.extra.sweeping.is_some() || chunks && differs(mse);
        let best = trainer.state.best.as_ref().map(|best| best.validation_mse);
        let fitted = 1.0 - best.unwrap_or(train_mse) / manifest.variance();
        let as_fitted = (train_mse, best);
        if let Some(mse) = error(Split::Train).filter(rough) {
            train_mse = mse;
            let mse = transform.map_or(best, |_| error(Split::Validation));
            saver.write_model(&model, (best_iteration, train_mse, mse))?;
        }
        let validation_mse = if measured { error(Split::Validation) } else { so_far };
        let judges = [Split::Test, Split::Validation, Split::Train].into_iter().filter_map(of);
        let share = match measured {
            true => judges.filter_map(SplitErrors::r2).next(),
            false => Some(r2(so_far.unwrap_or(train_mse), manifest.variance())),
        };
        // Of transformed values a median may explain little of squares, and yet be learned.
        let learned = share.is_some_and(has_learned) || transform.is_some() && has_learned(fitted);
        let stage = trainer.extra.best.as_ref().map_or(&trainer.extra.plan.stage, |best| &best.0);
        let test_mse = error(Split::Test);
        // In the scale of the manifest's variance.
        let (of_train, held_out) =
            if transform.is_some() { as_fitted } else { (train_mse, test_mse.or(validation_mse)) };
        let found = Found { train_mse: of_train, held_out, biases: model.biases.is_some(), learned };
        // A rank that was left to the data is the model's.
        let rank = if self.config.rank_auto { model.point.ranks() } else { &self.config.rank };
        let kind = DataKind::of(manifest, rank, &found);
        let outcome = Outcome {
            kind,
            last: trainer.state.last,
            stopped_by,
            best_iteration,
            train_mse,
            validation_mse,
            test_mse,
            rank: model.point.ranks().to_vec(),
            biases: model.biases.is_some(),
            held: (0..model.held.len()).filter(|&mode| model.held[mode]).collect(),
            penalty: stage.lambda,
            refit: model.refit,
            tried: trainer.extra.plan.tried.clone(),
            learned,
            errors,
            weights: manifest.weights.as_ref().and_then(|weights| weights.given().cloned()),
            progress: self.progress(trainer.objective()),
        };
        let written = match self.limits.team.is_first() {
            true => End::write(self.run.disk(), self.run.path(), &outcome),
            false => Ok(()),
        };
        self.limits.team.agree(written)?;
        Ok(outcome)
    }

    /// The errors of the model on every split that has entries, a pass over each; on validation entries those of the one that
    /// was not fitted to them, where there is one.
    fn errors(
        &self,
        trainer: &Trainer,
        (model, held_out): (&Fitted, Option<&Fitted>),
        stopped_by: StoppedBy,
    ) -> Result<Vec<SplitErrors>> {
        // A dataset in the run has come with it to its place.
        let inside = self.config.dataset == Path::new(RunLayout::DATA);
        let moved = inside.then(|| Dataset::open(self.run.layout().data())).transpose();
        let moved = self.limits.team.agree(moved)?;
        let dataset = moved.as_ref().unwrap_or(self.dataset);
        let manifest = dataset.manifest();
        // Errors are told in the values' own units.
        let (mean, transform) = (manifest.told_mean(), manifest.transform());
        let baseline = match stopped_by {
            StoppedBy::Interrupted => None,
            _ => self.baseline(trainer, dataset)?,
        };
        let mut errors = Vec::new();
        let dims: Vec<usize> = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
        for split in Split::ALL {
            if manifest.split(split).entries > 0 {
                let model = held_out.filter(|_| split == Split::Validation).unwrap_or(model);
                let clip = self.config.recipe.range.map(|range| Clip::new(range, model.ends));
                let share = Share { lanes: self.config.lanes, team: self.limits.team };
                let mut stream = Stream::open_share(dataset, split, None, share)?;
                stream.watch(self.control);
                let exchange = Exchange::new(&stream, &dims)?;
                let (order, unseen) = (&manifest.mode_order, trainer.objective().data.unseen());
                // Of the train values the manifest has sums of squares, which do not tell it beside a large mean.
                let (biases, held) = (model.biases.as_ref(), &model.held);
                let baseline = baseline.as_ref();
                let scoring = Scoring { biases, clip, held, mean: Some(mean), transform, baseline };
                let scored = score(&stream, &exchange, &model.point, order, unseen, &scoring)?;
                let mean_mse = varies(scored.of_mean.mse(), mean);
                let weight = scored.all.weight / stream.weight_scale();
                let biases_mse = scored.of_biases.mse().filter(|_| baseline.is_some());
                errors.push(SplitErrors { split, scored, mean_mse, biases_mse, weight });
            }
        }
        Ok(errors)
    }
}

/// `None` where somebody cut it short.
fn uncut<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
