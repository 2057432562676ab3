//! `tenfill distribute`.

use super::Context;
use super::complete::parse_lanes;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::distribute::{DistributeOptions, distribute};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::shard::Dataset;
use tenfill_engine::storage::RealDisk;
use tenfill_engine::stream::LANES;
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Cut a dataset into parts, one for each host of a run over MPI
///
/// For hosts without a common file system: each needs only its own part, a folder part-0, part-1, ... of
/// the output, at the same path on every host. `complete` takes the folder that they lie in, and gives
/// the same bits as on the whole dataset. The number of processes must be a multiple of that of the
/// parts. On a common file system nothing has to be cut.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill distribute ratings.tenfill --hosts 2 -o parts
  rsync -a parts/part-1 node2:/data/parts/
  mpirun -np 2 --host node1,node2 tenfill complete /data/parts --rank 10 -o run
  tenfill verify parts/part-1
  tenfill distribute ratings.tenfill --hosts 16 --lanes 128 -o parts      16 hosts of 8 threads")]
pub(super) struct Arguments {
    /// The dataset
    dataset: PathBuf,
    /// The number of hosts
    #[arg(long, value_name = "N", value_parser = parse_lanes)]
    hosts: usize,
    /// The folder to make
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Lanes of the runs to come: as many as threads of all hosts, at the least as many as processes
    /// [default: 8, or the number of hosts]
    #[arg(long, value_name = "N", value_parser = parse_lanes)]
    lanes: Option<usize>,
    /// Replace the folder if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let lanes = arguments.lanes.unwrap_or(LANES.max(arguments.hosts));
    if lanes < arguments.hosts {
        let what = format!("{lanes} lanes are too few for {} hosts: each needs one", arguments.hosts);
        return Err(Error::request(what));
    }
    let dataset = Dataset::open(&arguments.dataset)?;
    let options = DistributeOptions { hosts: arguments.hosts, lanes, force: arguments.force };
    let parts = distribute(&RealDisk, &dataset, &arguments.output, &options, &context.control)?;
    for part in &parts {
        context.print(format_args!(
            "{}: {} train entries, {} shards, {}",
            arguments.output.join(&part.name).display(),
            units::count(part.train_entries),
            part.shards,
            units::size(part.bytes)
        ));
    }
    context.finish(&json!({
        "parts": parts,
        "lanes": lanes,
        "seconds": usage.seconds(),
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}
