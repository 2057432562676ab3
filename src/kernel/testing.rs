//! Blocks made in memory, for tests and benchmarks of the kernels.

use crate::block::{BlockView, Ids, Values};

/// How [`OwnedBlock`] stores values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// u8 codes into a table.
    Codes,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// The ids of one level.
#[derive(Debug, Clone)]
enum OwnedIds {
    U16 { base: u32, ids: Vec<u16> },
    U32(Vec<u32>),
}

/// The columns that a [`BlockView`] borrows.
#[derive(Debug, Clone)]
pub struct OwnedBlock {
    flat_from: usize,
    ids: Vec<OwnedIds>,
    ends: Vec<Vec<u16>>,
    table: Vec<f64>,
    codes: Vec<u8>,
    singles: Vec<f32>,
    doubles: Vec<f64>,
    weights: Vec<f64>,
    kind: ValueKind,
}

impl OwnedBlock {
    /// A block of `values.len()` sorted entries; entry `e` has the indices
    /// `indices[e * order..][..order]`. Ids are u16 where `short` is set and a level's ids span
    /// fewer than 65,536, else u32.
    ///
    /// # Panics
    ///
    /// Where there are more than 65,535 entries, `flat_from` is out of range, or codes are asked
    /// for more than 256 distinct values.
    pub fn new(
        order: usize,
        flat_from: usize,
        indices: &[u32],
        values: &[f64],
        kind: ValueKind,
        short: bool,
    ) -> Self {
        assert!((1..order).contains(&flat_from) && values.len() <= usize::from(u16::MAX));
        assert_eq!(indices.len(), order * values.len());
        let mut nodes = vec![Vec::new(); order];
        let mut ends = vec![Vec::new(); order];
        let mut previous: Option<&[u32]> = None;
        for entry in indices.chunks_exact(order) {
            // The first level where this entry leaves the path of the one before.
            let differs = previous.map_or(0, |previous| {
                (0..order).find(|&level| previous[level] != entry[level]).unwrap_or(order - 1)
            });
            for level in differs.min(flat_from)..order {
                nodes[level].push(entry[level]);
                if level < flat_from {
                    ends[level].push(0);
                }
            }
            for level in 0..flat_from {
                *ends[level].last_mut().expect("a node per open level") =
                    u16::try_from(nodes[level + 1].len()).expect("at most 65,535 entries");
            }
            previous = Some(entry);
        }
        let ids = nodes.into_iter().map(|ids| encode_ids(ids, short)).collect();
        let mut block = OwnedBlock {
            flat_from,
            ids,
            ends,
            table: vec![],
            codes: vec![],
            singles: vec![],
            doubles: vec![],
            weights: vec![],
            kind,
        };
        match kind {
            ValueKind::Codes => {
                block.table = values.to_vec();
                block.table.sort_by(f64::total_cmp);
                block.table.dedup();
                assert!(block.table.len() <= 256, "at most 256 distinct values have codes");
                let code = |v: &f64| block.table.partition_point(|t| t < v) as u8;
                block.codes = values.iter().map(code).collect();
            }
            ValueKind::F32 => block.singles = values.iter().map(|&v| v as f32).collect(),
            ValueKind::F64 => block.doubles = values.to_vec(),
        }
        block
    }

    /// The same block with a weight for every entry.
    pub fn weighted(mut self, weights: Vec<f64>) -> Self {
        self.weights = weights;
        self
    }

    /// The view that kernels read.
    pub fn view(&self) -> BlockView<'_> {
        let ids: Vec<Ids<'_>> = (self.ids.iter())
            .map(|ids| match ids {
                OwnedIds::U16 { base, ids } => Ids::U16 { base: *base, ids },
                OwnedIds::U32(ids) => Ids::U32(ids),
            })
            .collect();
        let ends: Vec<&[u16]> = self.ends[..self.flat_from].iter().map(Vec::as_slice).collect();
        let values = match self.kind {
            ValueKind::Codes => Values::Codes { table: &self.table, codes: &self.codes },
            ValueKind::F32 => Values::F32(&self.singles),
            ValueKind::F64 => Values::F64(&self.doubles),
        };
        let weights = (!self.weights.is_empty()).then(|| Values::F64(&self.weights));
        BlockView::new(&ids, &ends, values, weights).expect("built as a block")
    }
}

fn encode_ids(ids: Vec<u32>, short: bool) -> OwnedIds {
    let base = ids.iter().copied().min().unwrap_or(0);
    let offset = |&id: &u32| u16::try_from(id - base);
    match ids.iter().map(offset).collect() {
        Ok(offsets) if short => OwnedIds::U16 { base, ids: offsets },
        _ => OwnedIds::U32(ids),
    }
}

/// A small deterministic generator (SplitMix64), so that tests need no crate for randomness.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in \[0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize
    }
}

/// Factors that own their numbers.
#[derive(Debug, Clone)]
pub struct OwnedFactors {
    /// The ranks, in level order.
    pub ranks: Vec<usize>,
    /// The rows of each level, row-major.
    pub rows: Vec<Vec<f64>>,
    /// The core, the last level fastest.
    pub core: Vec<f64>,
}

impl OwnedFactors {
    /// Numbers uniform in \[-0.5, 0.5).
    pub fn random(dims: &[usize], ranks: &[usize], random: &mut Random) -> Self {
        let mut numbers = |count: usize| (0..count).map(|_| random.unit() - 0.5).collect();
        let rows = dims.iter().zip(ranks).map(|(n, r)| numbers(n * r)).collect();
        OwnedFactors { ranks: ranks.to_vec(), rows, core: numbers(ranks.iter().product()) }
    }

    /// The view that kernels read.
    pub fn view(&self) -> crate::FactorsView<'_> {
        let rows: Vec<&[f64]> = self.rows.iter().map(Vec::as_slice).collect();
        crate::FactorsView::new(&self.ranks, &rows, &self.core)
    }
}
