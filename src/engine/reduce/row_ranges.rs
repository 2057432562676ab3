//! Some of a mode's rows, as ascending ranges: which rows a process touches, sends and gets.

use std::ops::Range;

/// One bit per row.
pub(super) type Bits = Vec<u64>;

/// Words of the bits of so many rows.
pub(super) fn words(rows: usize) -> usize {
    rows.div_ceil(64)
}

/// Rows as ascending, disjoint ranges: one for a mode that is touched everywhere or in a stretch, many
/// short ones where few rows are touched here and there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RowRanges(Vec<Range<u32>>);

impl RowRanges {
    /// The rows whose bit is set; the first bit is that of row `first`.
    pub(super) fn from_bits(bits: &[u64], first: usize) -> Self {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for (number, &word) in bits.iter().enumerate() {
            let (mut word, mut at) = (word, (first + number * 64) as u32);
            while word != 0 {
                let zeros = word.trailing_zeros();
                // Shifts by 64 are none: a full word has 64 ones and nothing after them.
                word = word.checked_shr(zeros).unwrap_or(0);
                at += zeros;
                let ones = word.trailing_ones();
                match ranges.last_mut() {
                    Some(last) if last.end == at => last.end = at + ones,
                    _ => ranges.push(at..at + ones),
                }
                word = word.checked_shr(ones).unwrap_or(0);
                at += ones;
            }
        }
        RowRanges(ranges)
    }

    /// The parts of the ranges that lie within another.
    pub(super) fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let first = self.0.partition_point(|rows| rows.end as usize <= range.start);
        let clip = move |rows: &Range<u32>| {
            (rows.start as usize).max(range.start)..(rows.end as usize).min(range.end)
        };
        self.0[first..].iter().map(clip).take_while(|rows| rows.start < rows.end)
    }

    /// How many rows of a range.
    pub(super) fn count(&self, range: Range<usize>) -> usize {
        self.within(range).map(|rows| rows.len()).sum()
    }

    /// The rows of a range out of `rows`, which begin with row `first`, one after the other.
    pub(super) fn pack(&self, range: Range<usize>, rank: usize, rows: &[f64], first: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.count(range.clone()) * rank);
        for part in self.within(range) {
            let part = &rows[(part.start - first) * rank..(part.end - first) * rank];
            words.extend_from_slice(bytemuck::cast_slice(part));
        }
        words
    }

    /// The reverse: packed rows to their places.
    pub(super) fn unpack(
        &self,
        range: Range<usize>,
        rank: usize,
        words: &[u64],
        rows: &mut [f64],
        first: usize,
    ) {
        let mut at = 0;
        for part in self.within(range) {
            let length = part.len() * rank;
            rows[(part.start - first) * rank..][..length]
                .copy_from_slice(bytemuck::cast_slice(&words[at..at + length]));
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_set_bits() {
        let mut state = 1u64;
        for density in [0, 1, 2, 6, 8] {
            let mut bits: Bits = vec![0; 5];
            let mut rows = Vec::new();
            for row in 0..300 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if (state >> 40) % 8 < density {
                    bits[row / 64] |= 1 << (row % 64);
                    rows.push(row + 128);
                }
            }
            let ranges = RowRanges::from_bits(&bits, 128);
            let all: Vec<usize> = ranges.within(0..1000).flatten().collect();
            assert_eq!(all, rows);
            let some: Vec<usize> = ranges.within(140..250).flatten().collect();
            assert_eq!(some, rows.iter().copied().filter(|row| (140..250).contains(row)).collect::<Vec<_>>());
            assert_eq!(ranges.count(140..250), some.len());
            let numbers: Vec<f64> = (0..600).map(f64::from).collect();
            let packed = ranges.pack(140..250, 2, &numbers, 128);
            let mut back = vec![-1.0; 600];
            ranges.unpack(140..250, 2, &packed, &mut back, 128);
            for row in 128..428 {
                let there = some.binary_search(&row).is_ok();
                let expected = if there { (row - 128) as f64 * 2.0 + 1.0 } else { -1.0 };
                assert_eq!(back[(row - 128) * 2 + 1], expected);
            }
        }
    }
}
