//! The end of a run: rows fitted to their own entries where that helps, and the errors of the model.

use super::kind::{DataKind, Found};
use super::save::{Kept, Saver};
use super::train::{Outcome, Session, SplitErrors};
use crate::error::Result;
use crate::model::Clip;
use crate::objective::{Scoring, has_learned, score, varies};
use crate::recipe::Trainer;
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
            Some(best) => (
                best.iteration,
                self.best_train_mse.unwrap_or(state.last.train_mse),
                Some(best.validation_mse),
            ),
            None => {
                let before = trainer.extra.better_before(state);
                let mse = before.map_or(state.last.train_mse, |(_, mse)| mse);
                (state.last.iteration, mse, state.last.validation_mse)
            }
        }
    }

    /// What follows the last iteration, its state being durable.
    pub(super) fn finish(
        &self,
        mut trainer: Trainer,
        mut stopped_by: StoppedBy,
        saver: &Saver<'_>,
    ) -> Result<Outcome> {
        let (best_iteration, mut train_mse, _) = self.kept(&trainer);
        let stopping = || self.any(self.control.stopping());
        let mut model = None;
        if self.config.recipe.refines() && stopped_by != StoppedBy::Interrupted {
            model = trainer.refine(train_mse, stopping)?.map(|refined| {
                train_mse = refined.train_mse;
                (refined.fitted, refined.validation_mse)
            });
            match &model {
                Some((fitted, mse)) => saver.write_model(fitted, (best_iteration, train_mse, Some(*mse)))?,
                // Whoever goes on begins with the first sweep again.
                None if stopping() => stopped_by = StoppedBy::Interrupted,
                None => {}
            }
        }
        // The model is looked at once more, which needs as much.
        trainer.release();
        let model = model.map_or_else(|| trainer.model(), |(fitted, _)| fitted);
        // A dataset in the run has come with it to its place.
        let inside = self.config.dataset == Path::new(RunLayout::DATA);
        let moved = inside.then(|| Dataset::open(self.run.layout().data())).transpose();
        let moved = self.limits.team.agree(moved)?;
        let dataset = moved.as_ref().unwrap_or(self.dataset);
        let manifest = dataset.manifest();
        let clip = self.config.recipe.range.map(|range| Clip::new(range, model.ends));
        let mean = manifest.mean();
        let mut errors = Vec::new();
        let dims: Vec<usize> = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
        for split in Split::ALL {
            if manifest.split(split).entries > 0 {
                let share = Share { lanes: self.config.lanes, team: self.limits.team };
                let stream = Stream::open_share(dataset, split, None, share)?;
                let exchange = Exchange::new(&stream, &dims)?;
                let (order, unseen) = (&manifest.mode_order, trainer.objective().data.unseen());
                // Of the train values the manifest has sums of squares, which do not tell it beside a large mean.
                let scoring =
                    Scoring { biases: model.biases.as_ref(), clip, held: &model.held, mean: Some(mean) };
                let scored = score(&stream, &exchange, &model.point, order, unseen, &scoring)?;
                let mean_mse = varies(scored.of_mean.mse(), mean);
                let weight = scored.all.weight / stream.weight_scale();
                errors.push(SplitErrors { split, scored, mean_mse, weight });
            }
        }
        let of = |split: Split| errors.iter().find(|errors| errors.split == split);
        let error = |split: Split| of(split).and_then(|errors| errors.scored.mse());
        let judges = [Split::Test, Split::Validation, Split::Train].into_iter().filter_map(of);
        let learned = judges.filter_map(SplitErrors::r2).next().is_some_and(has_learned);
        // While rows were fitted, latent values stood in for those at the ends; an epoch of steps from chunks adds up
        // its error on the way, at points that it has left since.
        let chunks = matches!(self.config.solver.algorithm, Algorithm::Auto | Algorithm::Stochastic);
        let chunks = chunks && model.biases.is_none();
        let differs = |mse: &f64| (mse - train_mse).abs() > 1e-6 * train_mse;
        let rough = |mse: &f64| trainer.extra.sweeping.is_some() || chunks && differs(mse);
        if let Some(mse) = error(Split::Train).filter(rough) {
            train_mse = mse;
            let mse = trainer.state.best.as_ref().map(|best| best.validation_mse);
            saver.write_model(&model, (best_iteration, train_mse, mse))?;
        }
        let (validation_mse, test_mse) = (error(Split::Validation), error(Split::Test));
        let stage = trainer.extra.best.as_ref().map_or(&trainer.extra.plan.stage, |best| &best.0);
        let held_out = test_mse.or(validation_mse);
        let found = Found { train_mse, held_out, biases: model.biases.is_some(), learned };
        let kind = DataKind::of(manifest, &self.config.rank, &found);
        Ok(Outcome {
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
            tried: trainer.extra.plan.tried.clone(),
            errors,
            learned,
            weights: manifest.weights.as_ref().map(|weights| weights.column.clone()),
            progress: self.progress(trainer.objective()),
        })
    }
}
