//! One block: encoded from sorted entries, decoded in place. See the module's documentation for
//! the bytes.

use crate::MAX_ORDER;
use crate::kernel::{BlockFlaw, BlockView, Ids, MAX_BLOCK_ENTRIES, Values};
use std::ops::Range;

/// Blocks and their sections begin at multiples of this.
pub const ALIGNMENT: usize = 64;
pub(super) const HEADER: usize = 192;
const LEVELS_AT: usize = 32;
/// Where the header tells of values and of weights: the kind, the number of distinct ones, the
/// offsets of their table and of themselves.
const VALUES_AT: [usize; 4] = [10, 12, 16, 20];
const WEIGHTS_AT: [usize; 4] = [11, 160, 164, 168];

const CODES: u8 = 1;
const SINGLE: u8 = 2;
const DOUBLE: u8 = 3;

/// A level whose nodes hold fewer entries than this on average is stored flat: below it an id and
/// an end per node cost more bytes, and a loop over children more time, than ids alone.
pub const LEAST_PER_NODE: f64 = 1.3;

/// Entries on their way into a block, in sorted order.
#[derive(Debug, Clone)]
pub struct BlockBuilder {
    order: usize,
    columns: Vec<Vec<u32>>,
    values: Vec<f64>,
    /// As many as values, or none.
    weights: Vec<f64>,
}

impl BlockBuilder {
    /// An empty block of the given order.
    pub fn new(order: usize) -> Self {
        BlockBuilder { order, columns: vec![Vec::new(); order], values: Vec::new(), weights: Vec::new() }
    }

    /// The number of entries so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds an entry; the indices in level order, entries ascending.
    pub fn push(&mut self, indices: &[u32], value: f64) {
        for (column, &index) in self.columns.iter_mut().zip(indices) {
            column.push(index);
        }
        self.values.push(value);
    }

    /// Leaves out weights that are all 1.
    pub(super) fn forget_ones(&mut self) {
        if self.weights.iter().all(|&weight| weight == 1.0) {
            self.weights.clear();
        }
    }

    /// Adds an entry with a weight: all entries of a block have one, or none has.
    pub fn push_weighted(&mut self, indices: &[u32], value: f64, weight: f64) {
        self.push(indices, value);
        self.weights.push(weight);
    }

    /// Adds the entries `range` of columns, a column of indices per level.
    pub(super) fn extend(
        &mut self,
        levels: &[Vec<u32>],
        values: &[f64],
        weights: Option<&[f64]>,
        range: Range<usize>,
    ) {
        for (to, from) in self.columns.iter_mut().zip(levels) {
            to.extend_from_slice(&from[range.clone()]);
        }
        self.values.extend_from_slice(&values[range.clone()]);
        if let Some(weights) = weights {
            self.weights.extend_from_slice(&weights[range]);
        }
    }

    /// The first and the last index of level 0.
    pub fn span(&self) -> (u32, u32) {
        let column = &self.columns[0];
        (column.first().copied().unwrap_or(0), column.last().copied().unwrap_or(0))
    }

    /// Appends the block's bytes to `out`, whose length is a multiple of [`ALIGNMENT`], and empties
    /// the builder.
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let entries = self.len();
        debug_assert!(entries > 0 && entries <= MAX_BLOCK_ENTRIES && start.is_multiple_of(ALIGNMENT));
        out.resize(start + HEADER, 0);
        let tree = Tree::of(&self.columns, entries);
        let put = |out: &mut Vec<u8>, at: usize, value: u32| {
            out[start + at..start + at + 4].copy_from_slice(&value.to_le_bytes());
        };
        for level in 0..self.order {
            let column = &self.columns[level];
            let ids: Vec<u32> = match tree.starts.get(level) {
                Some(starts) => starts.iter().map(|&entry| column[usize::from(entry)]).collect(),
                None => column.clone(),
            };
            let (least, most) = ids.iter().fold((u32::MAX, 0), |(a, b), &id| (a.min(id), b.max(id)));
            let narrow = most - least <= u32::from(u16::MAX);
            let at = LEVELS_AT + 16 * level;
            put(out, at, if narrow { least } else { 0 });
            put(out, at + 4, ids.len() as u32);
            let section = align(out, start);
            put(out, at + 8, section);
            if narrow {
                let ids: Vec<u16> = ids.iter().map(|id| (id - least) as u16).collect();
                out.extend_from_slice(bytemuck::cast_slice(&ids));
            } else {
                out.extend_from_slice(bytemuck::cast_slice(&ids));
            }
            out[start + 24 + level] = if narrow { 2 } else { 4 };
            if level < tree.starts.len() {
                let section = align(out, start);
                put(out, at + 12, section);
                let ends: Vec<u16> = tree.ends(level, entries).collect();
                out.extend_from_slice(bytemuck::cast_slice(&ends));
            }
        }
        debug_assert!(self.weights.is_empty() || self.weights.len() == entries);
        for (column, [kind_at, distinct_at, table_at, numbers_at]) in
            [(&self.values, VALUES_AT), (&self.weights, WEIGHTS_AT)]
        {
            if !column.is_empty() {
                let (kind, distinct, table, numbers) = encode_values(column, out, start);
                out[start + kind_at] = kind;
                put(out, distinct_at, distinct);
                put(out, table_at, table);
                put(out, numbers_at, numbers);
            }
        }
        align(out, start);
        let bytes = (out.len() - start) as u32;
        put(out, 0, entries as u32);
        put(out, 4, bytes);
        out[start + 8] = self.order as u8;
        out[start + 9] = tree.starts.len() as u8;
        self.columns.iter_mut().for_each(Vec::clear);
        self.values.clear();
        self.weights.clear();
    }
}

/// The tree levels of a block: for each, the entry at which every node begins.
struct Tree {
    starts: Vec<Vec<u16>>,
}

impl Tree {
    fn of(columns: &[Vec<u32>], entries: usize) -> Self {
        let mut starts: Vec<Vec<u16>> = Vec::new();
        // A node begins where its own id or any above it changes.
        let mut begins = vec![false; entries];
        begins[0] = true;
        for level in 0..columns.len() - 1 {
            let column = &columns[level];
            for entry in 1..entries {
                begins[entry] |= column[entry] != column[entry - 1];
            }
            let nodes = begins.iter().filter(|&&b| b).count();
            if level > 0 && (entries as f64) < LEAST_PER_NODE * nodes as f64 {
                break;
            }
            let mut at = Vec::with_capacity(nodes);
            at.extend((0..entries).filter(|&entry| begins[entry]).map(|entry| entry as u16));
            starts.push(at);
        }
        Tree { starts }
    }

    /// One past the last child of every node of `level`, children counted on the level below.
    fn ends(&self, level: usize, entries: usize) -> impl Iterator<Item = u16> + '_ {
        let below = self.starts.get(level + 1);
        let nodes = &self.starts[level];
        let mut child = 0;
        (1..=nodes.len()).map(move |next| {
            let entry = nodes.get(next).map_or(entries, |&entry| usize::from(entry));
            match below {
                None => entry as u16,
                Some(below) => {
                    while child < below.len() && usize::from(below[child]) < entry {
                        child += 1;
                    }
                    child as u16
                }
            }
        })
    }
}

/// Pads to the next section and gives its offset in the block.
fn align(out: &mut Vec<u8>, start: usize) -> u32 {
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    (out.len() - start) as u32
}

/// Values that were met, each in the one place that its bits say: most entries have a value that was met
/// just before, and looking there costs less than a search whose way nobody can foresee.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Recent {
    places: Vec<(u64, u8)>,
}

impl Recent {
    /// A value that is no number, so that none has it.
    const NONE: u64 = u64::MAX;

    #[inline]
    fn place(bits: u64) -> usize {
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    /// What was put there with a value.
    #[inline]
    pub(super) fn find(&self, bits: u64) -> Option<u8> {
        self.places.get(Self::place(bits)).filter(|place| place.0 == bits).map(|place| place.1)
    }

    #[inline]
    pub(super) fn put(&mut self, bits: u64, code: u8) {
        self.places.resize(256, (Self::NONE, 0));
        self.places[Self::place(bits)] = (bits, code);
    }
}

/// The smallest encoding that loses nothing.
fn encode_values(values: &[f64], out: &mut Vec<u8>, start: usize) -> (u8, u32, u32, u32) {
    // By bits, so that -0.0 comes back as it went in.
    // In the order in which they are met at first, each with its number; sorted when all are there.
    let mut distinct: Vec<(u64, u8)> = Vec::new();
    let mut numbers: Vec<u8> = Vec::with_capacity(values.len());
    let mut recent = Recent::default();
    for bits in values.iter().map(|value| value.to_bits()) {
        let number = recent.find(bits).or_else(|| {
            let met = match distinct.binary_search_by_key(&bits, |&(other, _)| other) {
                Ok(at) => distinct[at].1,
                Err(_) if distinct.len() == 256 => return None,
                Err(at) => {
                    let number = distinct.len() as u8;
                    distinct.insert(at, (bits, number));
                    number
                }
            };
            recent.put(bits, met);
            Some(met)
        });
        let Some(number) = number else { break };
        numbers.push(number);
    }
    let few = numbers.len() == values.len();
    // A table of many values for few entries costs more than it saves.
    if few && distinct.len() * 8 + values.len() < values.len() * 4 {
        let table_at = align(out, start);
        distinct.iter().for_each(|(bits, _)| out.extend_from_slice(&bits.to_le_bytes()));
        let values_at = align(out, start);
        let mut codes = [0; 256];
        distinct.iter().zip(0..).for_each(|(&(_, number), code)| codes[usize::from(number)] = code);
        out.extend(numbers.iter().map(|&number| codes[usize::from(number)]));
        return (CODES, distinct.len() as u32, table_at, values_at);
    }
    let values_at = align(out, start);
    if values.iter().all(|&value| f64::from(value as f32).to_bits() == value.to_bits()) {
        values.iter().for_each(|&value| out.extend_from_slice(&(value as f32).to_le_bytes()));
        (SINGLE, 0, 0, values_at)
    } else {
        values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        (DOUBLE, 0, 0, values_at)
    }
}

/// What is wrong with a block, and at which of its bytes.
pub(super) type Flaw = (u64, String);

/// Views a block's bytes, after checking every rule that the kernels rely on.
///
/// `bytes` begins at a multiple of 8 in memory; `dims` are in level order. The checksum has been
/// checked before: the rules here catch what a wrong program wrote.
pub fn decode<'a>(bytes: &'a [u8], dims: &[u32]) -> Result<BlockView<'a>, (u64, String)> {
    decode_with(bytes, dims, true)
}

/// [`decode`] with a look at every number (`all`), or at the header alone: for bytes that passed it
/// before, whose checksum is still the same. A third of a pass over ratings was spent on looking again.
pub(super) fn decode_with<'a>(
    bytes: &'a [u8],
    dims: &[u32],
    all: bool,
) -> Result<BlockView<'a>, (u64, String)> {
    let flaw = |at: usize, what: &str| Err((at as u64, what.to_string()));
    if bytes.len() < HEADER {
        return flaw(0, "the block is shorter than its header");
    }
    let get =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let order = dims.len();
    let (entries, flat_from) = (get(0), usize::from(bytes[9]));
    if get(4) != bytes.len() || !bytes.len().is_multiple_of(ALIGNMENT) {
        return flaw(4, "the block's length is not that of the table");
    }
    if usize::from(bytes[8]) != order {
        return flaw(8, "the block has another order than the shard");
    }
    let out_of_range = |level: usize| flaw(LEVELS_AT + 16 * level + 4, "the number of nodes is out of range");
    if flat_from == 0 || flat_from >= order {
        return flaw(9, "the first flat level is out of range");
    }
    let mut ids = [Ids::U32(&[]); MAX_ORDER];
    let mut ends: [&[u16]; MAX_ORDER] = [&[]; MAX_ORDER];
    for level in 0..order {
        let at = LEVELS_AT + 16 * level;
        let (base, nodes) = (get(at), get(at + 4));
        if nodes == 0 || nodes > MAX_BLOCK_ENTRIES {
            return out_of_range(level);
        }
        let wide = match bytes[24 + level] {
            2 => false,
            4 if base == 0 => true,
            _ => return flaw(24 + level, "the width of the ids is neither 2 nor 4"),
        };
        ids[level] = if wide {
            Ids::U32(section(bytes, at + 8, nodes)?)
        } else {
            Ids::U16 { base: base as u32, ids: section(bytes, at + 8, nodes)? }
        };
        let most = match ids[level] {
            _ if !all => None,
            Ids::U16 { base, ids } => ids.iter().max().map(|&id| u64::from(base) + u64::from(id)),
            Ids::U32(ids) => ids.iter().max().map(|&id| u64::from(id)),
        };
        if most >= Some(u64::from(dims[level])) {
            return flaw(
                get(at + 8),
                &format!("an index of level {level} is above its dimension {}", dims[level]),
            );
        }
        if level < flat_from {
            ends[level] = section(bytes, at + 12, nodes)?;
        }
    }
    if entries == 0 || entries > MAX_BLOCK_ENTRIES {
        return flaw(0, "the number of entries is out of range");
    }
    let values = decode_values(bytes, VALUES_AT, entries, all)?;
    let mut weights = None;
    if bytes[WEIGHTS_AT[0]] != 0 {
        let found = decode_values(bytes, WEIGHTS_AT, entries, all)?;
        if all && !found.all(|weight| weight.is_finite() && weight >= 0.0) {
            return flaw(get(WEIGHTS_AT[3]), "a weight is negative or no finite number");
        }
        weights = Some(found);
    }
    BlockView::new(&ids[..order], &ends[..flat_from], values, weights).or_else(|found| match found {
        BlockFlaw::Nodes(level) => out_of_range(level),
        BlockFlaw::Ends(level) => flaw(
            get(LEVELS_AT + 16 * level + 12),
            &format!("the ends of level {level} do not cover the level below"),
        ),
        BlockFlaw::Order | BlockFlaw::Entries | BlockFlaw::FlatFrom | BlockFlaw::Weights => {
            flaw(0, "the block's columns do not fit together")
        }
    })
}

/// The column of values or weights that the header tells of at these places.
fn decode_values(
    bytes: &[u8],
    [kind_at, distinct_at, table_at, numbers_at]: [usize; 4],
    entries: usize,
    all: bool,
) -> Result<Values<'_>, Flaw> {
    let flaw = |at: usize, what: &str| Err((at as u64, what.to_string()));
    let get = |at: usize| super::reader::u32_at(bytes, at) as usize;
    Ok(match bytes[kind_at] {
        CODES => {
            let distinct = get(distinct_at);
            if distinct == 0 || distinct > 256 {
                return flaw(distinct_at, "the number of distinct values is out of range");
            }
            let table = section(bytes, table_at, distinct)?;
            let codes: &[u8] = section(bytes, numbers_at, entries)?;
            if all && codes.iter().max().is_some_and(|&code| usize::from(code) >= distinct) {
                return flaw(get(numbers_at), "a value's code is above the table");
            }
            Values::Codes { table, codes }
        }
        SINGLE => Values::F32(section(bytes, numbers_at, entries)?),
        DOUBLE => Values::F64(section(bytes, numbers_at, entries)?),
        _ => return flaw(kind_at, "the kind of values is unknown"),
    })
}

/// The section whose offset stands at `at`, as `count` numbers.
fn section<T: bytemuck::Pod>(bytes: &[u8], at: usize, count: usize) -> Result<&[T], Flaw> {
    let offset = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let range = bytes.get(offset..).and_then(|rest| rest.get(..count * size_of::<T>()));
    match range.and_then(|range| bytemuck::try_cast_slice(range).ok()) {
        Some(numbers) if offset.is_multiple_of(ALIGNMENT) && offset >= HEADER => Ok(numbers),
        _ => Err((at as u64, "a section lies outside its block".into())),
    }
}
