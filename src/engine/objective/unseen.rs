//! Rows without train entries: nothing can be learned about them.

use crate::error::Result;
use crate::kernel::Unseen;
use crate::reduce::own_lanes;
use crate::shard::Dataset;
use crate::stream::Stream;
use crate::team::{Combine, Team};
use std::sync::atomic::{AtomicBool, Ordering};

/// The rows of each level that have no train entry.
#[derive(Debug, Clone, Default)]
pub struct UnseenRows {
    levels: Vec<Option<Vec<bool>>>,
}

impl UnseenRows {
    /// Finds them by a look at the ids of all train blocks; none where the manifest says so.
    pub fn of(dataset: &Dataset, train: &Stream) -> Result<Self> {
        let manifest = dataset.manifest();
        let mut levels: Vec<Option<Vec<AtomicBool>>> = Vec::new();
        for &mode in &manifest.mode_order {
            let mode = &manifest.modes[mode];
            let missing = mode.statistics.in_train < u64::from(mode.dim);
            levels.push(missing.then(|| (0..mode.dim).map(|_| AtomicBool::new(true)).collect()));
        }
        if levels.iter().any(Option::is_some) {
            own_lanes(train, |lane| {
                train.for_each(lane, |block| {
                    if block.weights().is_some() {
                        // An index whose entries all weigh nothing is as good as unseen.
                        block.for_each_weighted(|indices, _, weight| {
                            for (flags, &index) in levels.iter().zip(indices) {
                                if let Some(flags) = flags.as_ref().filter(|_| weight > 0.0) {
                                    flags[index as usize].store(false, Ordering::Relaxed);
                                }
                            }
                        });
                        return Ok(());
                    }
                    for (flags, ids) in levels.iter().zip(block.ids()) {
                        if let Some(flags) = flags {
                            (0..ids.len())
                                .for_each(|n| flags[ids.get(n) as usize].store(false, Ordering::Relaxed));
                        }
                    }
                    Ok(())
                })
            })?;
        }
        let plain = |flags: Vec<AtomicBool>| {
            let mut flags: Vec<bool> = flags.into_iter().map(AtomicBool::into_inner).collect();
            seen_by_any(train.team(), &mut flags);
            flags
        };
        Ok(UnseenRows { levels: levels.into_iter().map(|flags| flags.map(plain)).collect() })
    }

    pub(super) fn view(&self) -> Unseen<'_> {
        let mut view: Unseen<'_> = [None; crate::MAX_ORDER];
        for (view, flags) in view.iter_mut().zip(&self.levels) {
            *view = flags.as_deref();
        }
        view
    }

    /// Per mode in the user's order, its indices that are unseen.
    pub fn by_mode(&self, mode_order: &[usize]) -> Vec<Vec<u32>> {
        let mut by_mode = vec![Vec::new(); mode_order.len()];
        for (level, &mode) in mode_order.iter().enumerate() {
            by_mode[mode] = self.indices(level);
        }
        by_mode
    }

    /// The indices of a level that are unseen, ascending.
    fn indices(&self, level: usize) -> Vec<u32> {
        let flags = self.levels[level].as_deref().unwrap_or(&[]);
        flags.iter().zip(0..).filter(|(unseen, _)| **unseen).map(|(_, index)| index).collect()
    }
}

/// A row is unseen only where no process has seen it.
fn seen_by_any(team: Team, unseen: &mut [bool]) {
    if team.is_alone() {
        return;
    }
    for part in unseen.chunks_mut(1 << 16) {
        let mut words: Vec<u64> = part
            .chunks(64)
            .map(|flags| flags.iter().rev().fold(0, |word, unseen| word << 1 | u64::from(!unseen)))
            .collect();
        team.combine(&mut words, Combine::Or);
        part.iter_mut().enumerate().for_each(|(n, unseen)| *unseen = words[n / 64] >> (n % 64) & 1 == 0);
    }
}
