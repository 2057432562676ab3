//! What a completed run can be asked: single values, the best of a mode, errors, rows for new ids, files.

mod coverage;
mod entries;
mod evaluate;
mod export;
mod fold;
mod fold_in;
mod given;
mod predict;
mod questions;
mod ranking;
mod ranking_metrics;
mod recommend;
mod seen;
mod units;
mod unsure;

pub use coverage::{Calibration, NOMINAL, coverage};
pub use entries::{EntryRow, read_entries};
pub use evaluate::{Evaluation, evaluate_file, evaluate_split};
pub use export::{ExportFormat, export};
pub use fold::{FoldEntry, FoldPrior, FoldedRow, fold_rows};
pub use fold_in::{FoldOptions, Folded, FoldedMode, fold_in};
pub use given::{each_mode, given_places, mode_named, observed_with};
pub use predict::{AnswerOptions, Answered, Predictor, predict_file};
pub use questions::{Questions, recommend_some};
pub use ranking::{Ranked, Ranking};
pub use ranking_metrics::{RankingMetrics, RankingQuestion, ranking_metrics};
pub use recommend::{RecommendOptions, Recommended, USUAL_TOP, recommend};
pub use seen::{Observed, SeenEntries};
pub use unsure::why_unsure;
