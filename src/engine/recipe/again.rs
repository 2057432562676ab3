//! After sweeps: components of all modes together are looked for again where sweeps leave much that is no noise.
//!
//! Sweeps begin with the rows of two modes, and what three modes or more tell together need show in none of their pairs: the graph whose
//! facts depend on head, relation and tail, a bias beside products of four rows. The plain method may have been given up before,
//! because biases told as much as it did so early. What is left over tells: of three modes its spectrum is far from what
//! signs by chance give, of more modes, where sweeps have hardly found anything beside biases, there is nothing to lose. So
//! components are found one by one ([`missing`](super::missing)), as long as validation says that they are worth it. The better
//! model is kept.

use super::cut::FEWEST_JUDGES;
use super::missing::Growth;
use super::plan::{Move, PROBE, Stage};
use super::settings::BiasChoice;
use super::sweeping::stage;
use super::trainer::Trainer;
use crate::bayes::FEW_MODES;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Clip;
use crate::objective::{GrowthMemory, shared_fibres};
use crate::solver::{Algorithm, Objective, Phase};
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// Sweeps leave at least this share of the variance,
const LEFT: f64 = 0.02;
/// and of three modes the product over levels of what eigenvalues are beside those of chance is at least this: 0.9 to 1.1 of ratings,
/// 2.0 of readings, 8 to 32 of graphs.
const BEYOND_CHANCE: f64 = 3.0;
/// Of more modes they leave at least this share of what their biases alone do.
const HARDLY_LESS: f64 = 0.98;

/// Whether components are looked for after sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Second {
    /// Sweeps have not come to their end.
    #[default]
    No,
    /// It is to be seen.
    Due,
    /// They are, or were.
    Taken,
    /// There was no reason to.
    Left,
}

impl Second {
    /// Whether that has not come up.
    pub fn is_no(&self) -> bool {
        *self == Second::No
    }
}

impl Trainer {
    /// Whether it is to be seen what sweeps, which have come to their end, leave over; the run goes on with that then.
    pub(super) fn may_look_again(&mut self) -> bool {
        let terms = &self.fitting.terms;
        let much = self.state.best.as_ref().is_some_and(|best| best.validation_mse > LEFT * terms.variance);
        let algorithm = terms.options.algorithm == Algorithm::Auto;
        // Of ratings that people gave, two modes tell all that three do, and the look would cost a pass.
        let given = terms.recipe.range.is_some() && terms.manifest.absent.is_none();
        // Where the plain method is better than sweeps, it has to have been given up early.
        let plan = &self.extra.plan;
        let own = self.extra.best.as_ref().is_some_and(|(stage, _)| stage.bias != BiasChoice::None);
        let own =
            own || plan.tried.iter().any(|tried| tried.change == Move::Plain && tried.iterations < PROBE);
        // A few validation entries are met by chance.
        let own = own && terms.manifest.validation.entries >= FEWEST_JUDGES;
        let may = much && own && algorithm && terms.plain && terms.dims.len() >= FEW_MODES && !given;
        if may && self.extra.plan.growth.second.is_no() {
            self.extra.plan.growth.second = Second::Due;
            self.extra.plan.done = false;
            return true;
        }
        false
    }

    /// Begins to look for components where what sweeps leave asks for it; else they end.
    pub(super) fn look_again(&mut self) -> Result<()> {
        let asked = match self.fitting.terms.dims.len() > FEW_MODES {
            true => self.sweeps_add_little()?,
            false => self.rest_is_no_noise()?,
        };
        if asked && self.begin_again()? {
            return Ok(());
        }
        self.extra.plan.growth.second = Second::Left;
        self.end_sweeps();
        Ok(())
    }

    /// Whether sweeps leave nearly all that biases alone do, or more than the few iterations of the plain method before them.
    fn sweeps_add_little(&mut self) -> Result<bool> {
        if self.extra.best.as_ref().is_some_and(|(stage, _)| stage.bias == BiasChoice::None) {
            return Ok(true);
        }
        let Some(sweeping) = &self.extra.sweeping else { return Ok(false) };
        let ((_, biases, _), dims) = (sweeping.fit.model(), &self.fitting.terms.dims);
        let objective = &mut self.fitting.objective;
        let nothing = Point::zeros(dims, &vec![1; dims.len()]).divided(objective.data.team());
        objective.data.set_biases(Some(biases));
        objective.data.set_ranks(dims, nothing.ranks());
        let alone = objective.validation(&nothing);
        objective.data.set_biases(None);
        let best = self.state.best.as_ref().map(|best| best.validation_mse);
        Ok(alone?.zip(best).is_some_and(|(alone, best)| best > HARDLY_LESS * alone))
    }

    /// Whether the spectrum of what sweeps leave is far from chance.
    fn rest_is_no_noise(&mut self) -> Result<bool> {
        let Some(sweeping) = &self.extra.sweeping else { return Ok(false) };
        let (point, biases, _) = sweeping.fit.model();
        let (terms, objective) = (&self.fitting.terms, &mut self.fitting.objective);
        let most = GrowthMemory::of(&terms.manifest, terms.growth_bound()).entries;
        let point = point.divided(objective.data.team());
        objective.data.set_biases(Some(biases));
        objective.data.set_ranks(&terms.dims, point.ranks());
        let found = shared_fibres(&objective.data, &point, None, self.state.last.train_mse.sqrt(), most);
        objective.data.set_biases(None);
        self.state.last.passes += 1;
        let levels = terms.manifest.mode_order[1..].iter().map(|&mode| terms.dims[mode]);
        let times = found?.into_iter().zip(levels).filter_map(|(mut fibres, rows)| {
            let (_, times) = fibres.leading(rows, terms.seed)?;
            Some(times)
        });
        Ok(times.product::<f64>() >= BEYOND_CHANCE)
    }

    /// Begins with one component; `false` where there is none to be found.
    fn begin_again(&mut self) -> Result<bool> {
        let order = self.fitting.terms.dims.len();
        self.fitting.slices = None;
        let (even, counted) = self.fitting.even_out()?;
        let plain = Stage { even, bias: BiasChoice::None, ..stage(vec![1; order], &[]) };
        self.fitting.adopt(&plain, None);
        let range = self.fitting.terms.recipe.range;
        self.fitting.objective.clip = range.map(|range| Clip::new(range, None));
        self.state.last.passes += counted;
        let plan = &mut self.extra.plan;
        let (sweeps, change) = (plan.stage.clone(), plan.change.clone());
        let before = plan.growth.clone();
        plan.enter(plain, Move::Plain);
        plan.growth = Growth { second: Second::Taken, under_way: true, done: true, ..Growth::default() };
        let found = self.first_component()? && self.state.last.validation_mse.is_some();
        if found {
            self.state.last.phase = Some(Phase::Spectral);
            self.fitting
                .terms
                .control
                .say("sweeps leave what is no noise: components of all modes are looked for");
            // The best model has what it needs of them.
            let (uncertainty, sweeping) = (self.extra.uncertainty.as_mut(), self.extra.sweeping.take());
            if let (Some(uncertainty), Some(sweeping)) = (uncertainty, sweeping) {
                sweeping.fit.posterior.keep_features(&sweeping.fit.terms, uncertainty);
            }
            return Ok(true);
        }
        self.extra.plan.enter(sweeps, change);
        self.extra.plan.growth = before;
        self.back_to_sweeps()
    }

    /// Objective and slices as sweeps have them; `false`.
    fn back_to_sweeps(&mut self) -> Result<bool> {
        self.fitting.coordinates = None;
        let ones = stage(vec![1; self.fitting.terms.dims.len()], &[]);
        self.fitting.adopt(&ones, None);
        self.fitting.find_slices()?;
        Ok(false)
    }
}
