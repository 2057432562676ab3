//! What an entry is worth before any interaction: a mean, and how far each index lies from it.

use super::Arrays;
use crate::error::{Error, Result};
use crate::storage::ContainerWriter;
use serde::{Deserialize, Serialize};

/// The biases of a model: an entry (i_1, ..., i_D) is worth
///
/// mean + sum over modes d of modes\[d\]\[i_d\] + time bias + biases of pairs + the tensor's X\[i_1, ..., i_D\].
///
/// An index that never occurs in train has the bias 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Biases {
    /// The mean of the train values.
    pub mean: f64,
    /// One number per index, modes in the user's order; empty where a mode has no biases.
    pub modes: Vec<Vec<f64>>,
    /// The bias over the time since an id's first entry, where there is one.
    pub time: Option<TimeBias>,
    /// Biases of pairs of ids.
    pub pairs: Vec<PairBias>,
}

/// A bias for every two ids of two modes, as of an airport and a day: 0 where no train entry has both.
#[derive(Debug, Clone, PartialEq)]
pub struct PairBias {
    /// The modes.
    pub modes: [usize; 2],
    /// How many ids the second has.
    pub width: usize,
    /// The numbers of all ids of the second mode for the first id of the first, and so on.
    pub values: Vec<f64>,
}

impl PairBias {
    /// That of two ids.
    #[inline]
    pub fn at(&self, first: u32, second: u32) -> f64 {
        self.values[first as usize * self.width + second as usize]
    }

    /// Makes room for so many ids more behind those of a mode.
    pub(super) fn grow(&mut self, mode: usize, more: usize) {
        if self.modes[1] == mode {
            let rows = self.values.chunks_exact(self.width.max(1));
            self.values = rows.flat_map(|row| row.iter().copied().chain((0..more).map(|_| 0.0))).collect();
            self.width += more;
        } else if self.modes[0] == mode {
            self.values.resize(self.values.len() + more * self.width, 0.0);
        }
    }
}

/// A bias over how long an id has been there: `values[bucket(now - first)]`, in steps of the clock
/// mode's index and in half octaves of it, because habits change fast at first and slowly later.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeBias {
    /// The mode whose ids have a first entry (users).
    pub of: usize,
    /// The mode that tells the time (weeks).
    pub clock: usize,
    /// The clock's index of every id's first train entry; `u32::MAX` for ids without any.
    pub first: Vec<u32>,
    /// One number per bucket.
    pub values: Vec<f64>,
}

impl TimeBias {
    /// The bucket of a time since the first entry: 0, then 1, 2, 3, 4-5, 6-7, 8-11, ... each half an
    /// octave.
    ///
    /// ```
    /// use tenfill_engine::model::TimeBias;
    ///
    /// let buckets: Vec<usize> = [0, 1, 2, 3, 4, 5, 6, 8, 11, 12].map(TimeBias::bucket).into();
    /// assert_eq!(buckets, [0, 1, 3, 4, 5, 5, 6, 7, 7, 8]);
    /// ```
    pub fn bucket(since: u32) -> usize {
        if since == 0 {
            return 0;
        }
        let octave = since.ilog2();
        // since >= 2^(octave + 1/2), in whole numbers.
        let upper = u64::from(since) * u64::from(since) >= 1 << (2 * octave + 1);
        1 + 2 * octave as usize + usize::from(upper)
    }

    /// How many buckets a clock of this dimension needs.
    pub fn buckets(clock_dim: u32) -> usize {
        Self::bucket(clock_dim.saturating_sub(1)) + 1
    }

    /// The bucket of an id at a time; `None` for an id without train entries. Times before the
    /// first entry count as the first.
    #[inline]
    pub fn bucket_of(&self, id: u32, now: u32) -> Option<usize> {
        let first = self.first[id as usize];
        (first != u32::MAX).then(|| Self::bucket(now.saturating_sub(first)))
    }

    #[inline]
    fn value(&self, id: u32, now: u32) -> f64 {
        self.bucket_of(id, now).map_or(0.0, |bucket| self.values[bucket])
    }
}

impl Biases {
    /// The mean alone.
    pub fn mean_only(mean: f64, order: usize) -> Self {
        Biases { mean, modes: vec![Vec::new(); order], time: None, pairs: Vec::new() }
    }

    /// The sum for indices of which some may be unknown: what is unknown adds nothing.
    ///
    /// ```
    /// use tenfill_engine::model::Biases;
    ///
    /// let modes = vec![vec![0.5, -0.5], vec![0.25]];
    /// let biases = Biases { mean: 3.5, modes, time: None, pairs: Vec::new() };
    /// assert_eq!(biases.at(&[Some(1), Some(0)]), 3.25);
    /// assert_eq!(biases.at(&[None, Some(0)]), 3.75);
    /// assert_eq!(biases.at(&[None, None]), 3.5);
    /// ```
    pub fn at(&self, indices: &[Option<u32>]) -> f64 {
        let mut sum = self.mean;
        for (biases, index) in self.modes.iter().zip(indices) {
            sum += index.and_then(|index| biases.get(index as usize)).copied().unwrap_or(0.0);
        }
        for pair in &self.pairs {
            if let (Some(first), Some(second)) = (indices[pair.modes[0]], indices[pair.modes[1]]) {
                sum += pair.at(first, second);
            }
        }
        match &self.time {
            Some(time) => match (indices[time.of], indices[time.clock]) {
                (Some(id), Some(now)) => sum + time.value(id, now),
                _ => sum,
            },
            None => sum,
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let time = self.time.as_ref().map_or(0, |time| time.first.len() * 4 + time.values.len() * 8);
        let pairs: usize = self.pairs.iter().map(|pair| pair.values.len() * 8).sum();
        (self.modes.iter().map(|mode| mode.len() * 8).sum::<usize>() + time + pairs) as u64
    }
}

/// What a container says of the biases in it; the numbers lie in arrays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BiasAbout {
    mean: f64,
    /// Per mode, how many there are: none or one per index.
    lengths: Vec<usize>,
    time: Option<TimeAbout>,
    /// The modes of every bias of pairs; not in files from before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<[usize; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TimeAbout {
    of: usize,
    clock: usize,
}

impl BiasAbout {
    pub(crate) fn of(biases: &Biases) -> Self {
        BiasAbout {
            mean: biases.mean,
            lengths: biases.modes.iter().map(Vec::len).collect(),
            time: biases.time.as_ref().map(|time| TimeAbout { of: time.of, clock: time.clock }),
            pairs: biases.pairs.iter().map(|pair| pair.modes).collect(),
        }
    }
}

/// Writes the numbers as arrays `PREFIXbias.0`, ..., `PREFIXbias.first`, `PREFIXbias.time`, `PREFIXbias.pair.0`, ...
pub(crate) fn write_biases(writer: &mut ContainerWriter<'_>, prefix: &str, biases: &Biases) {
    for (mode, values) in biases.modes.iter().enumerate() {
        writer.array(format!("{prefix}bias.{mode}"), values);
    }
    if let Some(time) = &biases.time {
        let first: Vec<f64> = time.first.iter().map(|&first| f64::from(first)).collect();
        writer.array(format!("{prefix}bias.first"), &first);
        writer.array(format!("{prefix}bias.time"), &time.values);
    }
    for (number, pair) in biases.pairs.iter().enumerate() {
        writer.array(format!("{prefix}bias.pair.{number}"), &pair.values);
    }
}

/// Reads what [`write_biases`] wrote, for a tensor of these dimensions.
pub(crate) fn read_biases(
    container: &impl Arrays,
    prefix: &str,
    about: &BiasAbout,
    dims: &[usize],
) -> Result<Biases> {
    let flaw = || Error::corrupt(container.path(), 0, "the biases and the dimensions do not go together");
    let fits = |(length, dim): (&usize, &usize)| *length == 0 || length == dim;
    if about.lengths.len() != dims.len() || !about.lengths.iter().zip(dims).all(fits) {
        return Err(flaw());
    }
    let mut modes = Vec::with_capacity(dims.len());
    for (mode, &length) in about.lengths.iter().enumerate() {
        modes.push(container.array(&format!("{prefix}bias.{mode}"), length)?);
    }
    let time = match &about.time {
        None => None,
        Some(TimeAbout { of, clock }) => {
            let (Some(&ids), Some(&times)) = (dims.get(*of), dims.get(*clock)) else { return Err(flaw()) };
            let buckets = TimeBias::buckets(u32::try_from(times).map_err(|_| flaw())?);
            let first = container.array(&format!("{prefix}bias.first"), ids)?;
            let first = first.into_iter().map(|first| first as u32).collect();
            let values = container.array(&format!("{prefix}bias.time"), buckets)?;
            Some(TimeBias { of: *of, clock: *clock, first, values })
        }
    };
    let mut pairs = Vec::new();
    for (number, &[a, b]) in about.pairs.iter().enumerate() {
        let (Some(rows), Some(&width)) = (dims.get(a), dims.get(b)) else { return Err(flaw()) };
        let cells = rows.checked_mul(width).filter(|_| a != b).ok_or_else(flaw)?;
        let values = container.array(&format!("{prefix}bias.pair.{number}"), cells)?;
        pairs.push(PairBias { modes: [a, b], width, values });
    }
    Ok(Biases { mean: about.mean, modes, time, pairs })
}
