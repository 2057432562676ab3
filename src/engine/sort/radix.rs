//! Sorts one buffer by its keys, least significant byte first: stable, and linear in the length.

use super::record::{Payload, Record};
use crate::control::Control;
use crate::error::Result;

/// Records between two looks at whether to stop.
const LOOK: usize = 1 << 16;

/// Sorts `records` by the low `bits` of their keys, `scratch` being as long; the result is in
/// `records`. Records with equal keys keep their order. An error where `control` asks to stop.
pub fn sort_by_key<const W: usize, P: Payload>(
    records: &mut Vec<Record<W, P>>,
    scratch: &mut Vec<Record<W, P>>,
    bits: u32,
    control: &Control,
) -> Result<()> {
    let digits = bits.div_ceil(8) as usize;
    if records.len() < 256 {
        records.sort_by_key(|record| record.key);
        return Ok(());
    }
    // All histograms in one pass over the data.
    let mut counts = vec![[0usize; 256]; digits];
    for some in records.chunks(LOOK) {
        control.check()?;
        for record in some {
            for (digit, count) in counts.iter_mut().enumerate() {
                count[byte(record, digit)] += 1;
            }
        }
    }
    scratch.clear();
    scratch.resize(records.len(), records[0]);
    for (digit, count) in counts.iter().enumerate() {
        if count.contains(&records.len()) {
            continue; // all records have the same byte here
        }
        let mut next = [0; 256];
        let mut sum = 0;
        for (position, &n) in next.iter_mut().zip(count) {
            *position = sum;
            sum += n;
        }
        for some in records.chunks(LOOK) {
            control.check()?;
            for record in some {
                let slot = &mut next[byte(record, digit)];
                scratch[*slot] = *record;
                *slot += 1;
            }
        }
        std::mem::swap(records, scratch);
    }
    Ok(())
}

#[inline(always)]
fn byte<const W: usize, P>(record: &Record<W, P>, digit: usize) -> usize {
    (record.key[W - 1 - digit / 8] >> (8 * (digit % 8))) as usize & 255
}

/// Puts records of equal keys in the order of their values.
pub fn sort_ties_by_value<const W: usize, P: Payload>(records: &mut [Record<W, P>]) {
    let mut start = 0;
    while start < records.len() {
        let mut end = start + 1;
        while end < records.len() && records[end].key == records[start].key {
            end += 1;
        }
        if end - start > 1 {
            records[start..end].sort_unstable_by(|a, b| a.value.order(&b.value));
        }
        start = end;
    }
}
