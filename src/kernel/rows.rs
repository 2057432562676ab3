//! Rows padded to whole vectors, and where they start in memory.

/// Rows start at multiples of this where their width allows, so that none straddles more cache
/// lines than it must.
pub(super) const ALIGNMENT: usize = 64;

/// The widest padded row that has kernels of its own; wider ranks take the general path.
pub(super) const MAX_WIDTH: usize = 16;

/// The length that a row of the two last levels is padded to: 1, 2, 4, 8, 12 or 16 numbers, so that
/// thirty-six kernels serve all pairs of ranks up to 16. Larger ranks are not padded.
pub(super) fn width(rank: usize) -> usize {
    match rank {
        0..=2 => rank,
        3..=MAX_WIDTH => rank.next_multiple_of(4),
        _ => rank,
    }
}

/// The padded widths of the two last levels.
pub(super) fn inner_widths(ranks: &[usize]) -> [usize; 2] {
    [2, 1].map(|from_end| width(ranks[ranks.len() - from_end]))
}

/// Rows of a fixed width in one allocation that starts at a cache line.
#[derive(Debug)]
pub(super) struct AlignedRows {
    data: Vec<f64>,
    start: usize,
    len: usize,
}

impl AlignedRows {
    /// `rows` rows of `width` zeros.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        let len = rows * width;
        let slack = ALIGNMENT / size_of::<f64>();
        let data = vec![0.0; len + slack];
        // The vector is never grown, so it stays where it is. A start of 0 is only slower.
        let start = data.as_ptr().align_offset(ALIGNMENT);
        let start = if start <= slack { start } else { 0 };
        AlignedRows { data, start, len }
    }

    /// Row n of every part, one after the other, each padded with zeros to `width(rank)`.
    ///
    /// Ranks that take the general path are read from the caller's arrays: nothing is copied.
    pub(super) fn pack(rank: usize, parts: &[&[f64]]) -> Self {
        let width = width(rank);
        if width > MAX_WIDTH {
            return AlignedRows::zeros(0, width);
        }
        let mut packed = AlignedRows::zeros(parts.len() * parts[0].len() / rank, width);
        for (number, part) in parts.iter().enumerate() {
            let padded = packed.as_mut_slice().chunks_exact_mut(width);
            let padded = padded.skip(number).step_by(parts.len());
            for (to, from) in padded.zip(part.chunks_exact(rank)) {
                to[..rank].copy_from_slice(from);
            }
        }
        packed
    }

    /// All rows.
    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[f64] {
        &self.data[self.start..][..self.len]
    }

    /// All rows, to write.
    #[inline(always)]
    pub(super) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.data[self.start..][..self.len]
    }

    /// All rows as arrays of their width.
    #[inline(always)]
    pub(super) fn arrays<const P: usize>(&self) -> &[[f64; P]] {
        self.as_slice().as_chunks().0
    }

    /// All rows as arrays of their width, to write.
    #[inline(always)]
    pub(super) fn arrays_mut<const P: usize>(&mut self) -> &mut [[f64; P]] {
        self.as_mut_slice().as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_interleaved_and_aligned() {
        let packed = AlignedRows::pack(3, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[7.0; 6]]);
        let rows: &[[f64; 4]] = packed.arrays();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0], [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(rows[1], [7.0, 7.0, 7.0, 0.0]);
        assert_eq!(rows[2], [4.0, 5.0, 6.0, 0.0]);
        assert_eq!(packed.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
    }

    #[test]
    fn widths_cover_their_ranks() {
        for rank in 1..=40 {
            assert!(width(rank) >= rank);
            assert_eq!(width(width(rank)), width(rank));
        }
        assert_eq!([1, 2, 3, 5, 8, 9, 13, 17].map(width), [1, 2, 4, 8, 8, 12, 16, 17]);
    }
}
