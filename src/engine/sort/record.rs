//! What is sorted: a packed key of up to 256 bits and what goes along, a value or a value and its weight.

use crate::error::{Error, Result};
use bytemuck::{Pod, Zeroable};
use std::cmp::Ordering;

/// The most bits of a key.
const MOST_BITS: u32 = 256;

/// A key of `64 W` bits, most significant word first: compared as a number.
pub type Key<const W: usize> = [u64; W];

/// What goes along with a key: the value, and the weight where entries have one.
pub trait Payload: Pod + PartialEq + std::fmt::Debug + Send + Sync {
    /// From a value and the weight that it may have.
    fn new(value: f64, weight: Option<f64>) -> Self;
    /// The value.
    fn value(&self) -> f64;
    /// The weight, where entries have one.
    fn weight(&self) -> Option<f64>;
    /// A total order, so that equal keys come out the same whatever order they came in.
    fn order(&self, other: &Self) -> Ordering;
}

impl Payload for f64 {
    #[inline]
    fn new(value: f64, _: Option<f64>) -> Self {
        value
    }
    #[inline]
    fn value(&self) -> f64 {
        *self
    }
    #[inline]
    fn weight(&self) -> Option<f64> {
        None
    }
    #[inline]
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

/// A value and its weight.
impl Payload for [f64; 2] {
    #[inline]
    fn new(value: f64, weight: Option<f64>) -> Self {
        [value, weight.unwrap_or(1.0)]
    }
    #[inline]
    fn value(&self) -> f64 {
        self[0]
    }
    #[inline]
    fn weight(&self) -> Option<f64> {
        Some(self[1])
    }
    #[inline]
    fn order(&self, other: &Self) -> Ordering {
        self[0].total_cmp(&other[0]).then(self[1].total_cmp(&other[1]))
    }
}

/// A key and what goes along. Fixed size, no padding: written to scratch files as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Record<const W: usize, P = f64> {
    /// What is sorted by.
    pub key: Key<W>,
    /// What goes along.
    pub value: P,
}

// `derive` cannot see that an array of u64 followed by one of f64 has no padding for every W.
macro_rules! pod {
    ($($words:literal $payload:ty),*) => {$(
        // SAFETY: repr(C), 8-byte fields only, so no padding; every bit pattern is valid.
        #[allow(unsafe_code)]
        unsafe impl Zeroable for Record<$words, $payload> {}
        // SAFETY: as above; Copy, 'static, no interior mutability.
        #[allow(unsafe_code)]
        unsafe impl Pod for Record<$words, $payload> {}
    )*};
}
pod!(1 f64, 2 f64, 4 f64, 1 [f64; 2], 2 [f64; 2], 4 [f64; 2]);

impl<const W: usize, P: Payload> Record<W, P> {
    /// The total order by key and what goes along.
    #[inline]
    pub fn order(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| self.value.order(&other.value))
    }
}

/// Packs indices of given widths into a key, the first index most significant, `tag` last.
#[derive(Debug, Clone)]
pub struct Packing {
    widths: Vec<u32>,
    tag: u32,
}

impl Packing {
    /// For indices below the given dimensions, and a tag of `tag_bits` bits; an error where no key has so many.
    pub fn new(dims: &[u32], tag_bits: u32) -> Result<Self> {
        let widths = dims.iter().map(|&dim| 32 - dim.saturating_sub(1).leading_zeros()).collect();
        let packing = Packing { widths, tag: tag_bits };
        if packing.bits() > MOST_BITS {
            return Err(Error::request(format!(
                "the ids of all modes together take {} bits, and {} can be sorted by: leave out a mode, or give one wider bins",
                packing.bits() - tag_bits,
                MOST_BITS - tag_bits
            )));
        }
        Ok(packing)
    }

    /// How many bits a key has.
    pub fn bits(&self) -> u32 {
        self.widths.iter().sum::<u32>() + self.tag
    }

    /// Packs.
    #[inline]
    pub fn pack<const W: usize>(&self, indices: &[u32], tag: u64) -> Key<W> {
        let mut key = [0; W];
        if W == 1 {
            // Most data: the words of longer keys take three times as long.
            let packed =
                self.widths.iter().zip(indices).fold(0, |key, (width, &i)| key << width | u64::from(i));
            key[0] = packed << self.tag | tag;
            return key;
        }
        for (&width, &index) in self.widths.iter().zip(indices) {
            shift_in(&mut key, width, u64::from(index));
        }
        shift_in(&mut key, self.tag, tag);
        key
    }

    /// Unpacks the indices into `indices` and returns the tag.
    #[inline]
    pub fn unpack<const W: usize>(&self, key: &Key<W>, indices: &mut [u32]) -> u64 {
        let mut key = *key;
        if W == 1 {
            let tag = key[0] & ((1 << self.tag) - 1);
            let mut left = key[0] >> self.tag;
            for (&width, index) in self.widths.iter().zip(indices.iter_mut()).rev() {
                *index = (left & ((1 << width) - 1)) as u32;
                left >>= width;
            }
            return tag;
        }
        let tag = shift_out(&mut key, self.tag);
        for (&width, index) in self.widths.iter().zip(indices.iter_mut()).rev() {
            *index = shift_out(&mut key, width) as u32;
        }
        tag
    }

    /// Packs the indices of many records, a column per level, with one tag for all.
    pub fn pack_columns<const W: usize, P>(
        &self,
        columns: &[Vec<u32>],
        tag: u64,
        records: &mut [Record<W, P>],
    ) {
        if W > 1 {
            let mut indices = [0; crate::MAX_ORDER];
            for (n, record) in records.iter_mut().enumerate() {
                indices.iter_mut().zip(columns).for_each(|(index, column)| *index = column[n]);
                record.key = self.pack(&indices[..columns.len()], tag);
            }
            return;
        }
        // Level by level, because that is done in vectors.
        records.iter_mut().for_each(|record| record.key[0] = tag);
        let mut shift = self.tag;
        for (&width, column) in self.widths.iter().zip(columns).rev() {
            // The indices of a dimension of 1 are all 0.
            if width > 0 {
                for (record, &index) in records.iter_mut().zip(column) {
                    record.key[0] |= u64::from(index) << shift;
                }
                shift += width;
            }
        }
    }

    /// Unpacks the indices of many records, a column per level; what the columns held goes.
    pub fn unpack_columns<const W: usize, P>(&self, records: &[Record<W, P>], columns: &mut [Vec<u32>]) {
        columns.iter_mut().for_each(Vec::clear);
        if W > 1 {
            let mut indices = [0; crate::MAX_ORDER];
            for record in records {
                self.unpack(&record.key, &mut indices[..columns.len()]);
                columns.iter_mut().zip(indices).for_each(|(column, index)| column.push(index));
            }
            return;
        }
        // Level by level, because that is done in vectors.
        let mut shift = self.tag;
        for (&width, column) in self.widths.iter().zip(columns).rev() {
            match width {
                0 => column.resize(records.len(), 0),
                width => {
                    let mask = (1u64 << width) - 1;
                    column.extend(records.iter().map(|record| (record.key[0] >> shift & mask) as u32));
                }
            }
            shift += width;
        }
    }
}

#[inline]
fn shift_in<const W: usize>(key: &mut Key<W>, width: u32, low: u64) {
    if width == 0 {
        return;
    }
    for word in 0..W {
        let below = if word + 1 < W { key[word + 1] } else { low << (64 - width) };
        key[word] = key[word] << width | below >> (64 - width);
    }
}

#[inline]
fn shift_out<const W: usize>(key: &mut Key<W>, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let low = key[W - 1] & (u64::MAX >> (64 - width));
    for word in (0..W).rev() {
        let above = if word > 0 { key[word - 1] << (64 - width) } else { 0 };
        key[word] = key[word] >> width | above;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of indices below the dimensions.
    fn columns(dims: &[u32], entries: usize) -> Vec<Vec<u32>> {
        let number =
            |level: usize, n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ level as u64) >> 20;
        let column = |(level, &dim): (usize, &u32)| {
            (0..entries).map(|n| (number(level, n) % u64::from(dim)) as u32).collect()
        };
        dims.iter().enumerate().map(column).collect()
    }

    fn agree<const W: usize>(dims: &[u32]) {
        let packing = Packing::new(dims, 2).unwrap();
        let columns = columns(dims, 100);
        for tag in 0..4 {
            let mut records = vec![Record { key: [u64::MAX; W], value: 0.0 }; 100];
            packing.pack_columns(&columns, tag, &mut records);
            for (n, record) in records.iter().enumerate() {
                let indices: Vec<u32> = columns.iter().map(|column| column[n]).collect();
                assert_eq!(record.key, packing.pack(&indices, tag), "{dims:?}");
            }
            let mut back = vec![vec![7]; dims.len()];
            packing.unpack_columns(&records, &mut back);
            assert_eq!(back, columns, "{dims:?}");
        }
    }

    #[test]
    fn columns_are_packed_as_entries_are() {
        agree::<1>(&[1, 1]);
        agree::<1>(&[1, 1 << 31, 1 << 31]);
        agree::<1>(&[70_000, 1, 10_000, 700]);
        agree::<2>(&[u32::MAX, 3, u32::MAX]);
        agree::<4>(&[u32::MAX; 7]);
        agree::<4>(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, 1 << 30]);
    }

    #[test]
    fn a_key_that_would_lose_bits_is_refused() {
        let mut dims = [u32::MAX; 8];
        dims[7] = 1 << 30;
        assert_eq!(Packing::new(&dims, 2).unwrap().bits(), 256);
        dims[7] += 1;
        let said = Packing::new(&dims, 2).unwrap_err().to_string();
        assert!(said.contains("take 255 bits, and 254 can be sorted by"), "{said}");
        assert!(Packing::new(&[u32::MAX; 8], 0).is_ok() && Packing::new(&[u32::MAX; 8], 1).is_err());
    }
}
