use super::record::Packing;
use super::*;
use crate::control::Control;
use proptest::prelude::*;

fn sorted<const W: usize>(records: &[Record<W>], bits: u32, ties: Ties, memory: u64) -> Vec<Record<W>>
where
    Record<W>: bytemuck::Pod,
{
    let directory = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::new(bits, ties, memory, directory.path(), &Control::default());
    records.iter().for_each(|&record| sorter.push(record).unwrap());
    assert_eq!(sorter.len(), records.len() as u64);
    let mut out = Vec::new();
    sorter
        .finish(|record| {
            out.push(*record);
            Ok(())
        })
        .unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no scratch file has a name");
    out
}

/// Few distinct keys (many ties), and so little memory that there are many runs and two merges.
fn records(count: usize, distinct: u64) -> Vec<Record<2>> {
    (0..count as u64)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
        .map(|x| Record { key: [x % distinct % 7, x % distinct], value: (x >> 40) as f64 - 5e6 })
        .collect()
}

#[test]
fn many_runs_come_out_in_order() {
    for (count, distinct) in [(0, 1), (1, 1), (200, 5), (5_000, 1 << 40), (100_000, 1 << 20), (100_000, 300)]
    {
        let input = records(count, distinct);
        let mut expected = input.clone();
        expected.sort_by(Record::order);
        // 1024 records per run, and 2 runs per merge.
        assert!(sorted(&input, 128, Ties::Value, 1 << 17) == expected, "{count} of {distinct}, by value");
        let mut expected = input.clone();
        expected.sort_by_key(|record| record.key);
        assert!(sorted(&input, 128, Ties::Arrival, 1 << 17) == expected, "{count} of {distinct}, by arrival");
    }
}

proptest! {
    #[test]
    fn packing_keeps_order_and_comes_back(
        entries in prop::collection::vec((0u32..=u32::MAX, 0u32..5, 0u32..1, 0u32..70_000, 0u64..4), 2)
    ) {
        let packing = Packing::new(&[u32::MAX, 5, 1, 70_000], 2).unwrap();
        prop_assert_eq!(packing.bits(), 32 + 3 + 17 + 2);
        let keys: Vec<(Key<1>, Key<4>)> = entries.iter().map(|&(a, b, c, d, tag)| {
            let indices = [a.min(u32::MAX - 1), b, c, d];
            (packing.pack(&indices, tag), packing.pack(&indices, tag))
        }).collect();
        for (&(a, b, c, d, tag), (narrow, wide)) in entries.iter().zip(&keys) {
            let mut indices = [0; 4];
            prop_assert_eq!(packing.unpack(narrow, &mut indices), tag);
            prop_assert_eq!(indices, [a.min(u32::MAX - 1), b, c, d]);
            prop_assert_eq!(packing.unpack(wide, &mut indices), tag);
            prop_assert_eq!(indices, [a.min(u32::MAX - 1), b, c, d]);
        }
        prop_assert_eq!(keys[0].0.cmp(&keys[1].0), keys[0].1.cmp(&keys[1].1));
        let plain = |&(a, b, c, d, tag): &(u32, u32, u32, u32, u64)| (a.min(u32::MAX - 1), b, c, d, tag);
        prop_assert_eq!(keys[0].0.cmp(&keys[1].0), plain(&entries[0]).cmp(&plain(&entries[1])));
    }
}
