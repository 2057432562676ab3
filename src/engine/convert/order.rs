//! Chooses the mode order: which mode's slices come first, which modes share fibres.

use super::gather::Pairs;
use crate::shard::LEAST_PER_NODE;
use crate::units::count;

/// A slice should hold clearly more entries than a rank has components, so that contracting the
/// core once per slice pays.
const ENTRIES_PER_SLICE: f64 = 32.0;

/// The order of the modes and why.
pub(super) fn choose(names: &[String], dims: &[u32], pairs: &Pairs) -> (Vec<usize>, String) {
    let entries = pairs.entries().max(1.0);
    let per_slice = |mode: usize| entries / f64::from(dims[mode]);
    // Pairs that differ by less than five percent are taken as equal: they are estimates.
    let grade = |pairs: f64| (pairs.max(1.0).ln() / 1.05f64.ln()).round() as i64;
    // The fibres that a first mode can make with its best partner; none where hardly two entries
    // would share one.
    let fibres = |first: usize| {
        let others = (0..dims.len()).filter(|&mode| mode != first && dims.len() > 2);
        let least = others.map(|mode| pairs.estimate(first, mode)).fold(entries, f64::min);
        if entries < LEAST_PER_NODE * least { entries } else { least }
    };
    // Of the modes with full slices the one that makes the fewest fibres, the largest where equal;
    // else the fullest slices.
    let full = (0..dims.len()).filter(|&mode| per_slice(mode) >= ENTRIES_PER_SLICE);
    let first = full.min_by_key(|&mode| (grade(fibres(mode)), std::cmp::Reverse(dims[mode])));
    let first = first.unwrap_or_else(|| (0..dims.len()).min_by_key(|&mode| dims[mode]).unwrap_or(0));
    // The fewer pairs a mode makes with the first, the more entries share a fibre; where equal the
    // user's order stands.
    let mut rest: Vec<usize> = (0..dims.len()).filter(|&mode| mode != first).collect();
    rest.sort_by_key(|&mode| (grade(pairs.estimate(first, mode)), mode));
    let mut reason = format!(
        "{} first: {} slices of about {:.0} entries each",
        names[first],
        count(u64::from(dims[first])),
        per_slice(first)
    );
    if dims.len() > 2 {
        let shared = entries / pairs.estimate(first, rest[0]).max(1.0);
        reason += &format!(
            "; then {}: about {shared:.1} entries share a ({}, {}) pair",
            names[rest[0]], names[first], names[rest[0]]
        );
    }
    let mut order = vec![first];
    order.extend(rest);
    (order, reason)
}
