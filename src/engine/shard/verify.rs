//! Checks a whole dataset: every checksum and every rule, and names what is wrong.

use super::dataset::{Dataset, parts_in};
use super::labels::Labels;
use super::manifest::{ModeKind, ShardRecord, Split};
use super::reader::Shard;
use super::statistics::ValueStatistics;
use super::weights::WeightSums;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Where in it; null where the file is missing or cannot be read.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What [`verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many files were read.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Everything that is wrong; empty when all is well.
    pub problems: Vec<Problem>,
}

impl Verification {
    /// Takes an error as a problem of a file; an interruption goes on to the caller.
    pub fn note(&mut self, error: Error, path: &Path) -> Result<()> {
        let problem = match error {
            Error::Interrupted => return Err(Error::Interrupted),
            Error::Corrupt { file, offset, what } => Problem { file, offset: Some(offset), what },
            Error::Input { file, what } => Problem { file, offset: None, what },
            other => Problem { file: path.into(), offset: None, what: other.to_string() },
        };
        self.problems.push(problem);
        Ok(())
    }
}

/// Reads every byte of a dataset. Damage is in the result; only an unreadable manifest, which
/// leaves nothing to compare with, is an error as well as a problem. Of a part only what belongs to it
/// must be there; of a folder of parts each is looked at.
pub fn verify(directory: &Path, control: &Control) -> Result<Verification> {
    let parts = if directory.join(super::manifest::FILE).is_file() { vec![] } else { parts_in(directory) };
    let mut found = Verification::default();
    for part in &parts {
        let more = verify(part, control)?;
        found.files += more.files;
        found.bytes += more.bytes;
        found.problems.extend(more.problems);
    }
    if !parts.is_empty() {
        return Ok(found);
    }
    let manifest_path = directory.join(super::manifest::FILE);
    let dataset = match Dataset::open(directory) {
        Ok(dataset) => dataset,
        Err(error @ Error::Corrupt { .. }) => {
            found.files = 1;
            found.note(error, &manifest_path)?;
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    let manifest = dataset.manifest();
    found.files = 1;
    found.bytes = std::fs::metadata(&manifest_path).map_or(0, |data| data.len());
    let belongs = |record: &ShardRecord| {
        manifest.part.as_ref().is_none_or(|part| part.shards[part.number].contains(&record.file))
    };
    let records = Split::ALL.iter().flat_map(|&split| &manifest.split(split).shards);
    let total: u64 = records.filter(|record| belongs(record)).map(|record| record.bytes).sum();
    control.progress().stage("verify", Unit::Bytes, total);
    for mode in 0..manifest.modes.len() {
        let (ModeKind::Integers { labels } | ModeKind::Text { labels }) = &manifest.modes[mode].kind else {
            continue;
        };
        found.files += 1;
        found.bytes += labels.bytes;
        let path = directory.join(&labels.file);
        let check =
            |labels: Labels| if manifest.appended > 0 { labels.check_unique() } else { labels.check_order() };
        let checked = dataset.labels(mode).and_then(|labels| match labels.map(check) {
            Some(Err(what)) => Err(Error::corrupt(&path, 0, what)),
            _ => Ok(()),
        });
        if let Err(error) = checked {
            found.note(error, &path)?;
        }
    }
    let mut done = 0;
    for split in Split::ALL {
        let mut walk = Walk {
            previous: Vec::new(),
            slices: 0,
            fibres: 0,
            values: ValueStatistics::default(),
            weights: WeightSums::default(),
        };
        let mut whole = true;
        for record in &manifest.split(split).shards {
            control.check()?;
            if !belongs(record) {
                whole = false;
                continue;
            }
            let path = directory.join(&record.file);
            found.files += 1;
            found.bytes += record.bytes;
            let checked = Shard::open(&path, &manifest.level_dims()).and_then(|shard| {
                same_shard(&shard, record)?;
                walk.shard(&shard, control, &mut done)
            });
            if let Err(error) = checked {
                whole = false;
                found.note(error, &path)?;
            }
        }
        let record = manifest.split(split);
        if whole && (walk.slices, walk.fibres) != (record.slices, record.fibres) {
            let what =
                format!("the manifest counts other slices or fibres in {} than there are", split.name());
            found.note(Error::corrupt(&manifest_path, 0, what), &manifest_path)?;
        }
        let (seen, said) = (walk.values.settled(), &manifest.values);
        let told = said.deviations.is_none() || seen.deviations == said.deviations;
        let same = (seen.min, seen.max, seen.sum, seen.sum_of_squares, seen.distinct)
            == (said.min, said.max, said.sum, said.sum_of_squares, said.distinct);
        let same = same && told;
        let weights = manifest.weights.as_ref().map(|weights| weights.split(split));
        if whole && weights.is_some_and(|said| *said != walk.weights) {
            let what =
                format!("the manifest has other sums of the weights of {} than they have", split.name());
            found.note(Error::corrupt(&manifest_path, 0, what), &manifest_path)?;
        }
        if whole && split == Split::Train && !same {
            let what = "the manifest has other statistics of the values than they have";
            found.note(Error::corrupt(&manifest_path, 0, what), &manifest_path)?;
        }
    }
    Ok(found)
}

/// Whether all that the manifest says of a shard is so.
fn same_shard(shard: &Shard, record: &ShardRecord) -> Result<()> {
    let blocks = shard.blocks();
    let ends = (blocks.first().map(|row| row.first), blocks.last().map(|row| row.last));
    let bytes = shard.file().metadata().map_or(0, |data| data.len());
    if shard.table_crc() != record.table_crc32c
        || (shard.entries(), blocks.len() as u64, bytes) != (record.entries, record.blocks, record.bytes)
        || ends != (Some(record.first), Some(record.last))
    {
        return Err(Error::corrupt(shard.path(), 0, "this is not the shard that the manifest names"));
    }
    Ok(())
}

/// Goes through the entries of a split in order.
struct Walk {
    previous: Vec<u32>,
    slices: u64,
    fibres: u64,
    values: ValueStatistics,
    weights: WeightSums,
}

impl Walk {
    fn shard(&mut self, shard: &Shard, control: &Control, done: &mut u64) -> Result<()> {
        let mut buffer = Vec::new();
        for (number, row) in shard.blocks().iter().enumerate() {
            control.check()?;
            let bytes = shard.read_block(number, &mut buffer)?;
            shard.check(number, bytes)?;
            let mut sorted = true;
            let mut finite = true;
            let view = shard.view(number, bytes)?;
            view.for_each_weighted(|indices, value, weight| {
                let begun = !self.previous.is_empty();
                let same = self.previous.iter().zip(indices).take_while(|(a, b)| a == b).count();
                sorted &= !begun || self.previous.as_slice() < indices;
                finite &= value.is_finite();
                self.slices += u64::from(!begun || same == 0);
                self.fibres += u64::from(!begun || same + 1 < indices.len());
                self.weights.add(value, weight);
                if weight > 0.0 {
                    self.values.add(value, weight);
                }
                self.previous.clear();
                self.previous.extend_from_slice(indices);
            });
            if !sorted {
                return Err(Error::corrupt(
                    shard.path(),
                    row.offset,
                    format!("the entries of block {number} are not in order"),
                ));
            }
            if !finite {
                return Err(Error::corrupt(
                    shard.path(),
                    row.offset,
                    format!("block {number} holds NaN or infinity"),
                ));
            }
            *done += u64::from(row.bytes);
            control.progress().advance(*done, &"");
        }
        Ok(())
    }
}
