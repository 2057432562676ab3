//! `tenfill verify`.

use super::Context;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::Result;
use tenfill_engine::run::verify_run;
use tenfill_engine::shard::verify;
use tenfill_engine::storage::RunLayout;
use tenfill_engine::units;

/// Check every checksum and every rule of a dataset or a run
///
/// Names the file and the offset of whatever is wrong; exit code 1 then.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  tenfill verify ratings.tenfill\n  tenfill verify run")]
pub(super) struct Arguments {
    /// The dataset or the run
    path: PathBuf,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let found = if RunLayout::is_in(&arguments.path) {
        verify_run(&arguments.path, &context.control)?
    } else {
        verify(&arguments.path, &context.control)?
    };
    let ok = found.problems.is_empty();
    for problem in &found.problems {
        let place = problem.offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
        super::tell(format_args!("tenfill: {}{place}: {}", problem.file.display(), problem.what));
    }
    if ok {
        let (files, bytes) = (found.files, units::size(found.bytes));
        context.print(format_args!("{}: all well, {files} files, {bytes}", arguments.path.display()));
    }
    context.finish(&json!({
        "ok": ok,
        "files": found.files,
        "bytes": found.bytes,
        "problems": found.problems,
    }));
    Ok(ExitCode::from(u8::from(!ok)))
}
