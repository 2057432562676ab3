//! What the tensor has to explain: an entry's value less its biases.

use crate::MAX_ORDER;
use crate::kernel::{BlockView, Values};
use crate::model::{Biases, TimeBias};

/// Biases in storage order, ready to be taken off blocks.
///
/// A kernel is given a block with other values, so that no kernel knows of biases.
#[derive(Clone, Copy)]
pub(super) struct Targets<'a> {
    biases: Option<&'a Biases>,
    /// Per level; empty for none.
    levels: [&'a [f64]; MAX_ORDER],
    /// The time bias with the levels of its two modes.
    time: Option<(&'a TimeBias, usize, usize)>,
    /// What targets are multiplied by.
    scale: f64,
}

impl<'a> Targets<'a> {
    pub(super) fn new(biases: Option<&'a Biases>, mode_order: &[usize]) -> Self {
        let mut levels: [&[f64]; MAX_ORDER] = [&[]; MAX_ORDER];
        let mut time = None;
        if let Some(biases) = biases {
            for (level, &mode) in mode_order.iter().enumerate() {
                levels[level] = &biases.modes[mode];
            }
            let level = |mode: usize| mode_order.iter().position(|&m| m == mode).unwrap_or(0);
            time = biases.time.as_ref().map(|time| (time, level(time.of), level(time.clock)));
        }
        Targets { biases, levels, time, scale: 1.0 }
    }

    /// The same, every target multiplied by a number.
    pub(super) fn scaled(self, scale: f64) -> Self {
        Targets { scale, ..self }
    }

    /// The block with the targets as its values; they lie in `buffer`. The block as it is where
    /// there are no biases and nothing to scale.
    pub(super) fn view<'b>(&self, block: &BlockView<'b>, buffer: &'b mut Vec<f64>) -> BlockView<'b> {
        if self.biases.is_none() && self.scale == 1.0 {
            return *block;
        }
        buffer.clear();
        let mean = self.biases.map_or(0.0, |biases| biases.mean);
        match block.values() {
            Values::Codes { table, codes } => {
                buffer.extend(codes.iter().map(|&code| table[usize::from(code)] - mean));
            }
            Values::F32(values) => buffer.extend(values.iter().map(|&value| f64::from(value) - mean)),
            Values::F64(values) => buffer.extend(values.iter().map(|&value| value - mean)),
        }
        for level in block.flat_from()..block.order() {
            let biases = self.levels[level];
            if !biases.is_empty() {
                let ids = &block.ids()[level];
                buffer.iter_mut().enumerate().for_each(|(entry, y)| *y -= biases[ids.get(entry) as usize]);
            }
        }
        // Where the entries of every tree node end, from the lowest level up.
        let mut ends: Vec<u16> = Vec::new();
        for level in (0..block.flat_from()).rev() {
            ends = if level + 1 == block.flat_from() {
                block.ends()[level].to_vec()
            } else {
                block.ends()[level].iter().map(|&end| ends[usize::from(end) - 1]).collect()
            };
            let biases = self.levels[level];
            if !biases.is_empty() {
                let mut start = 0;
                for (node, &end) in ends.iter().enumerate() {
                    let bias = biases[block.ids()[level].get(node) as usize];
                    buffer[start..usize::from(end)].iter_mut().for_each(|y| *y -= bias);
                    start = usize::from(end);
                }
            }
        }
        if let Some((time, of, clock)) = self.time {
            let mut entry = 0;
            block.for_each(|indices, _| {
                if let Some(bucket) = time.bucket_of(indices[of], indices[clock]) {
                    buffer[entry] -= time.values[bucket];
                }
                entry += 1;
            });
        }
        if self.scale != 1.0 {
            buffer.iter_mut().for_each(|y| *y *= self.scale);
        }
        block.with_values(Values::F64(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{BlockBuilder, decode};

    #[test]
    fn a_block_less_its_biases_is_the_formula_entry_by_entry() {
        // Users in a tree, weeks in a tree or flat, movies flat; modes user, movie, week.
        for per_session in [1, 3] {
            let mut builder = BlockBuilder::new(3);
            for n in 0..60u32 {
                builder.push(&[n / 12, n / per_session % 12, n % 7 + n % 2], f64::from(n) * 0.37);
            }
            let mut bytes = Vec::new();
            builder.encode(&mut bytes);
            let words = bytemuck::pod_collect_to_vec::<u8, u64>(&bytes);
            let block = decode(bytemuck::cast_slice(&words), &[5, 12, 8]).unwrap();
            let biases = Biases {
                mean: 3.5,
                modes: vec![
                    (0..5).map(|i| f64::from(i) * 0.1).collect(),
                    (0..8).map(|i| f64::from(i).sin()).collect(),
                    (0..12).map(|i| f64::from(i) * 0.01).collect(),
                ],
                time: Some(TimeBias {
                    of: 0,
                    clock: 2,
                    first: vec![0, 1, u32::MAX, 2, 9],
                    values: (0..TimeBias::buckets(12)).map(|k| k as f64).collect(),
                }),
                pairs: Vec::new(),
            };
            let targets = Targets::new(Some(&biases), &[0, 2, 1]);
            let mut buffer = Vec::new();
            let view = targets.view(&block, &mut buffer);
            let mut expected = Vec::new();
            block.for_each(|i, value| {
                expected.push(value - biases.at(&[Some(i[0]), Some(i[2]), Some(i[1])]));
            });
            let mut entry = 0;
            view.for_each(|_, y| {
                assert!((y - expected[entry]).abs() < 1e-12, "entry {entry}");
                entry += 1;
            });
            assert_eq!(entry, 60);
        }
    }
}
