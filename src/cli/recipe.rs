//! The options of `complete` about biases, penalty and clipping.

use tenfill_engine::error::{Error, Result};
use tenfill_engine::objective::PenaltyKind;
use tenfill_engine::recipe::{BiasChoice, PenaltyChoice, Recipe, rating_range};
use tenfill_engine::shard::Manifest;

/// Above options of the model in `--help`.
pub(super) const MODEL: &str = "Model";

/// What the defaults leave to the data, where there are validation entries.
#[derive(clap::Args)]
#[command(next_help_heading = MODEL)]
pub(super) struct RecipeArguments {
    /// Biases beside the tensor: none, the mean, or the mean and one per index of every mode; with --penalty
    /// and --rank, for conjugate gradients [default: auto, sweeps over rows or the plain method, as validation
    /// says; none without validation entries]
    #[arg(long, value_enum, value_name = "WHICH", hide_short_help = true)]
    bias: Option<BiasArgument>,
    /// A bias over the time since an id's first entry too, e.g. userId:timestamp
    #[arg(long, value_name = "ID:TIME", hide_short_help = true)]
    bias_time: Option<String>,
    /// The weight of the penalty on the core, 0 or a number; with --bias and --rank, for conjugate gradients
    /// [default: auto, as that of --bias; 0 without validation entries]
    #[arg(long, value_parser = parse_penalty, value_name = "auto|LAMBDA", hide_short_help = true)]
    penalty: Option<PenaltyChoice>,
    /// The norm that is penalised [default: nuclear]
    #[arg(long, value_enum, hide_short_help = true)]
    penalty_kind: Option<KindArgument>,
    #[arg(long, hide = true)]
    grow: bool,
    #[arg(long, hide = true)]
    no_grow: bool,
    #[arg(long, hide = true)]
    refine: bool,
    #[arg(long, hide = true)]
    no_refine: bool,
    /// Fit to the validation entries as well, in a last sweep when they have nothing left to decide [default]
    #[arg(long, overrides_with = "no_refit", hide_short_help = true)]
    refit: bool,
    /// Leave the validation entries out of the model
    #[arg(long, hide_short_help = true)]
    no_refit: bool,
    /// Clip predictions to the range of the train values [default where they look like ratings]
    #[arg(long, overrides_with = "no_clip", hide_short_help = true)]
    clip: bool,
    /// Do not clip predictions
    #[arg(long, hide_short_help = true)]
    no_clip: bool,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum BiasArgument {
    Auto,
    None,
    Mean,
    Modes,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum KindArgument {
    /// The sum of the nuclear norms of the core's unfoldings
    Nuclear,
    /// The same, but less and less for what is large
    Log,
    /// The sum of squares
    Frobenius,
}

fn parse_penalty(text: &str) -> Result<PenaltyChoice, String> {
    if text == "auto" {
        return Ok(PenaltyChoice::Auto);
    }
    match text.parse::<f64>() {
        Ok(lambda) if lambda.is_finite() && lambda >= 0.0 => Ok(PenaltyChoice::Fixed(lambda)),
        _ => Err(format!("'{text}' is neither auto nor a number from 0 on")),
    }
}

impl RecipeArguments {
    /// An error where an option is given that this version has not any more.
    pub(super) fn check_removed(&self) -> Result<()> {
        let search = "sweeps have taken the place of the search: leave it out";
        let rank = "a rank that is given is kept to, with --bias and --penalty: leave it out";
        for (name, given, instead) in [
            ("--grow", self.grow, search),
            ("--no-grow", self.no_grow, rank),
            ("--refine", self.refine, search),
            ("--no-refine", self.no_refine, search),
        ] {
            if given {
                return Err(Error::request(format!("{name} was removed in this version: {instead}")));
            }
        }
        Ok(())
    }

    /// Whether biases or a penalty were asked for by name.
    pub(super) fn asks_for_more(&self) -> bool {
        let bias = self.bias.is_some_and(|bias| !matches!(bias, BiasArgument::None));
        let penalty = self.penalty.is_some_and(|penalty| penalty != PenaltyChoice::Fixed(0.0));
        bias || penalty || self.bias_time.is_some() || self.penalty_kind.is_some()
    }

    /// What was asked for, and the defaults for the rest.
    pub(super) fn recipe(&self, manifest: &Manifest) -> Result<Recipe> {
        let mut recipe = Recipe::usual(manifest);
        if let Some(bias) = self.bias {
            recipe.bias = match bias {
                BiasArgument::Auto => BiasChoice::Auto,
                BiasArgument::None => BiasChoice::None,
                BiasArgument::Mean => BiasChoice::Mean,
                BiasArgument::Modes => BiasChoice::Modes,
            };
        }
        if let Some(text) = &self.bias_time {
            recipe.bias_time = Some(time_modes(text, manifest)?);
            // Without validation entries nothing else asks for biases.
            if self.bias.is_none() && recipe.bias == BiasChoice::None {
                recipe.bias = BiasChoice::Modes;
            }
        }
        recipe.penalty = self.penalty.unwrap_or(recipe.penalty);
        recipe.penalty_kind = self.penalty_kind.map(|kind| match kind {
            KindArgument::Nuclear => PenaltyKind::Nuclear,
            KindArgument::Log => PenaltyKind::Log,
            KindArgument::Frobenius => PenaltyKind::Frobenius,
        });
        let auto = [recipe.bias == BiasChoice::Auto, recipe.penalty == PenaltyChoice::Auto];
        if auto[0] != auto[1] || auto[0] && recipe.penalty_kind.is_some() {
            let what = "--bias, --penalty and --penalty-kind are those of conjugate gradients at a rank that is given: give \
                        both --bias and --penalty, or leave out all of them for sweeps, which learn what they stand for";
            return Err(Error::request(what));
        }
        recipe.sweeps = auto[0];
        recipe.refit = auto[0] && (self.refit || !self.no_refit);
        recipe.range = match (self.clip, self.no_clip) {
            (true, _) => Some((manifest.values.min, manifest.values.max)),
            (_, true) => None,
            _ => rating_range(manifest),
        };
        Ok(recipe)
    }
}

/// The two modes of `--bias-time`, by name.
fn time_modes(text: &str, manifest: &Manifest) -> Result<(usize, usize)> {
    let names: Vec<&str> = manifest.modes.iter().map(|mode| mode.name.as_str()).collect();
    let find = |name: &str| names.iter().position(|other| *other == name);
    let found = text.split_once(':').and_then(|(of, clock)| Some((find(of)?, find(clock)?)));
    if let Some((_, clock)) = found.filter(|&(_, clock)| !manifest.may_be_time(clock)) {
        return Err(Error::request(format!(
            "--bias-time {text} counts time in {}, which has neither bins nor a name of times: name a mode of times (if \
             it is one, give it bins: --bin {}=7d, or =1 of numbers)",
            names[clock], names[clock]
        )));
    }
    found.filter(|(of, clock)| of != clock).ok_or_else(|| {
        Error::request(format!(
            "--bias-time {text} does not name two modes, as in {}:{} (modes: {})",
            names[0],
            names[names.len() - 1],
            names.join(", ")
        ))
    })
}
