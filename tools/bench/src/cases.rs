//! The data that kernels are measured on, made by `tenfill synth` and kept.

use std::path::{Path, PathBuf};
use tenfill_engine::shard::{Dataset, Split};

/// Where and with what is measured.
#[derive(clap::Args)]
pub struct Place {
    /// Where data and runs are made
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
    /// The tenfill to measure, and to make the data with
    #[arg(long, default_value = "target/release/tenfill")]
    pub tenfill: PathBuf,
}

/// A dataset and a rank.
pub struct Case {
    pub name: &'static str,
    data: &'static str,
    synth: &'static str,
    pub rank: usize,
    /// Ratios to the naive twin, gradient and step, that two threads must reach.
    pub asked: Option<(f64, f64)>,
    /// Takes minutes to make.
    pub large: bool,
    /// Whether sweeps are timed as well.
    pub sweeps: bool,
}

const RATINGS: &str = "--kind ratings --dims 71567,10681,731 --entries 10000000";

pub const CASES: [Case; 7] = [
    Case {
        name: "uniform 10000^3 r5",
        data: "u10000",
        synth: "--dims 10000,10000,10000 --entries 1500000 --rank 5",
        rank: 5,
        asked: Some((50.0, 45.0)),
        large: false,
        sweeps: false,
    },
    Case {
        name: "uniform 3000^3 r10",
        data: "u3000",
        synth: "--dims 3000,3000,3000 --entries 900000 --rank 5",
        rank: 10,
        asked: Some((160.0, 90.0)),
        large: false,
        sweeps: false,
    },
    Case {
        name: "ratings 71567x10681x731 r4",
        data: "ratings10m",
        synth: RATINGS,
        rank: 4,
        asked: Some((130.0, 70.0)),
        large: false,
        sweeps: true,
    },
    Case {
        name: "ratings 71567x10681x731 r10",
        data: "ratings10m",
        synth: RATINGS,
        rank: 10,
        asked: Some((400.0, 350.0)),
        large: false,
        sweeps: false,
    },
    Case {
        name: "ratings 6000x4000x200 r4",
        data: "ratings1m",
        synth: "--kind ratings --dims 6000,4000,200 --entries 1000000",
        rank: 4,
        asked: None,
        large: false,
        sweeps: true,
    },
    Case {
        name: "order 4, 500^4 r5",
        data: "order4",
        synth: "--dims 500,500,500,500 --entries 1000000 --rank 3",
        rank: 5,
        asked: None,
        large: false,
        sweeps: false,
    },
    Case {
        name: "uniform 100000x50000x1000 r8",
        data: "u100m",
        synth: "--dims 100000,50000,1000 --entries 100000000 --test 0 --rank 4 --values f32",
        rank: 8,
        asked: Some((200.0, 85.0)),
        large: true,
        sweeps: false,
    },
];

impl Case {
    /// Its dataset, made unless it is there.
    pub fn dataset(&self, place: &Place) -> Result<Dataset, String> {
        dataset(self.data, self.synth, &place.dir, &place.tenfill)
    }
}

/// Makes a dataset unless it is there.
pub fn dataset(name: &str, synth: &str, dir: &Path, tenfill: &Path) -> Result<Dataset, String> {
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    let path = dir.join(format!("{name}.tenfill"));
    if !path.is_dir() {
        let mut command = std::process::Command::new(tenfill);
        command.args(["synth", "--quiet", "-o"]).arg(&path).args(synth.split_whitespace());
        let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if !status.success() {
            return Err(format!("{command:?} failed"));
        }
    }
    Dataset::open(path).map_err(|error| error.to_string())
}

/// Drops the train entries from the page cache.
pub fn evict(dataset: &Dataset) -> Result<(), String> {
    for shard in dataset.shards(Split::Train).map_err(|error| error.to_string())? {
        let file = shard.file();
        file.sync_all().map_err(|error| error.to_string())?;
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
