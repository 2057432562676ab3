//! The options of `complete` for data with noise: biases, penalty, growth, clipping.

use tenfill_engine::error::{Error, Result};
use tenfill_engine::objective::PenaltyKind;
use tenfill_engine::recipe::{BiasChoice, PenaltyChoice, Recipe, rating_range};
use tenfill_engine::shard::Manifest;

/// What the defaults leave to validation, where there are validation entries.
#[derive(clap::Args)]
pub(super) struct RecipeArguments {
    /// Biases beside the tensor: none, the mean, or the mean and one per index of every mode
    /// [default: auto, decided on validation; none without validation entries]
    #[arg(long, value_enum, value_name = "WHICH")]
    bias: Option<BiasArgument>,
    /// A bias over the time since an id's first entry too, e.g. userId:timestamp
    #[arg(long, value_name = "ID:TIME")]
    bias_time: Option<String>,
    /// The weight of the penalty on the core: auto, 0 or a number [default: auto, decided on
    /// validation; 0 without validation entries]
    #[arg(long, value_parser = parse_penalty, value_name = "auto|LAMBDA")]
    penalty: Option<PenaltyChoice>,
    /// The norm that is penalised [default: nuclear, or log where validation prefers it]
    #[arg(long, value_enum)]
    penalty_kind: Option<KindArgument>,
    /// Search with conjugate gradients, instead of sweeps over rows: begin with a small rank and let it grow
    /// while validation improves. So does any other of --bias, --penalty, --penalty-kind, --refine and their like
    /// ask for the search
    #[arg(long, overrides_with = "no_grow")]
    grow: bool,
    /// Keep to the rank that is given
    #[arg(long)]
    no_grow: bool,
    /// When the search has ended, fit every row of the two main modes to its own entries, with what is
    /// uncertain about the other rows, as long as validation improves; then those of the other modes as
    /// well, and where predictions are clipped, with values at the ends of the range for at least, or at
    /// most, that much [default of a search]
    #[arg(long, overrides_with = "no_refine")]
    refine: bool,
    /// Leave the rows as the search has found them
    #[arg(long)]
    no_refine: bool,
    /// Clip predictions to the range of the train values [default where they look like ratings]
    #[arg(long, overrides_with = "no_clip")]
    clip: bool,
    /// Do not clip predictions
    #[arg(long)]
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
    /// Whether biases, a penalty or growth were asked for by name.
    pub(super) fn asks_for_more(&self) -> bool {
        let bias = self.bias.is_some_and(|bias| !matches!(bias, BiasArgument::None));
        let penalty = self.penalty.is_some_and(|penalty| penalty != PenaltyChoice::Fixed(0.0));
        bias || penalty
            || self.bias_time.is_some()
            || self.penalty_kind.is_some()
            || (self.grow && !self.no_grow)
            || (self.refine && !self.no_refine)
    }

    /// What was asked for, and the defaults for the rest.
    pub(super) fn recipe(&self, manifest: &Manifest, rank_auto: bool) -> Result<Recipe> {
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
        recipe.grow = (recipe.grow || self.grow || rank_auto) && !self.no_grow;
        if rank_auto && self.no_grow {
            return Err(Error::request("--rank auto lets the rank grow: give a rank with --no-grow"));
        }
        // Whoever names a part of the search wants the search.
        let asked = self.penalty.is_some() || self.bias.is_some();
        let asked = asked || self.penalty_kind.is_some() || self.grow || self.no_grow;
        recipe.sweeps &= !(asked || self.refine || self.no_refine);
        recipe.refine = (recipe.decides() || self.refine) && !self.no_refine;
        recipe.refine_further = recipe.refine;
        recipe.range = match (self.clip, self.no_clip) {
            (true, _) => Some((manifest.values.min, manifest.values.max)),
            (_, true) => None,
            _ => rating_range(manifest),
        };
        recipe.check(manifest)?;
        Ok(recipe)
    }
}

/// The two modes of `--bias-time`, by name.
fn time_modes(text: &str, manifest: &Manifest) -> Result<(usize, usize)> {
    let names: Vec<&str> = manifest.modes.iter().map(|mode| mode.name.as_str()).collect();
    let find = |name: &str| names.iter().position(|other| *other == name);
    let found = text.split_once(':').and_then(|(of, clock)| Some((find(of)?, find(clock)?)));
    found.filter(|(of, clock)| of != clock).ok_or_else(|| {
        Error::request(format!(
            "--bias-time {text} does not name two modes, as in {}:{} (modes: {})",
            names[0],
            names[names.len() - 1],
            names.join(", ")
        ))
    })
}
