//! What a completed run can be asked: predict, recommend, fold-in, export, evaluate, report.

mod agreement;
mod fold_in;
mod predict;
mod recommend;
mod report;
pub mod sample;
mod sure;
