//! What a user rates and when: distinct items by popularity, in sessions of one week.

use super::model::User;
use super::zipf::{AliasTable, weight};
use crate::synth::Permutation;
use crate::synth::random::{Purpose, Random, derive_seed};

/// Above this split of all items, keys for all of them are cheaper than draws that mostly repeat.
const CROWDED: u32 = 8;
/// Draws for each item wanted before rejection gives up; a handful is usual.
const PATIENCE: u64 = 64;

/// How popular each item is.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    weights: Vec<f64>,
    table: AliasTable,
}

impl Popularity {
    /// Zipf weights, the places assigned to items at random so that ids tell nothing.
    pub fn new(items: u32, seed: u64) -> Self {
        let order = Permutation::new(items as u128, derive_seed(seed, Purpose::ItemOrder, 0));
        let shift = 1.0 + items as f64 / 200.0;
        let weights: Vec<f64> = (0..items as u64).map(|item| weight(order.at(item) as u64, shift)).collect();
        Popularity { table: AliasTable::new(&weights), weights }
    }
}

/// Chooses items; keeps its buffers from user to user.
pub(super) struct Chooser<'a> {
    popularity: &'a Popularity,
    /// A bit per item: whether the user has it; all clear between users.
    seen: Vec<u64>,
    keys: Vec<(f64, u32)>,
}

impl<'a> Chooser<'a> {
    pub fn new(popularity: &'a Popularity) -> Self {
        Chooser { popularity, seen: vec![0; popularity.weights.len().div_ceil(64)], keys: Vec::new() }
    }

    /// `count` distinct items, one after the other in proportion to the popularity of those left.
    pub fn choose(&mut self, count: u32, random: &mut Random, chosen: &mut Vec<u32>) {
        let items = self.popularity.weights.len();
        debug_assert!(count as usize <= items);
        if count as u64 * CROWDED as u64 > items as u64 || !self.by_draws(count, random, chosen) {
            self.by_keys(count as usize, random, chosen);
        }
    }

    /// Draws until `count` different items were seen. `false` if that takes too long.
    fn by_draws(&mut self, count: u32, random: &mut Random, chosen: &mut Vec<u32>) -> bool {
        chosen.clear();
        let mut draws = count as u64 * PATIENCE;
        while chosen.len() < count as usize && draws > 0 {
            draws -= 1;
            let item = self.popularity.table.draw(random);
            let (word, bit) = (item as usize / 64, 1 << (item % 64));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                chosen.push(item);
            }
        }
        for &item in &*chosen {
            self.seen[item as usize / 64] = 0;
        }
        chosen.len() == count as usize
    }

    /// The `count` smallest of exponential keys with rates equal to the weights, in their order:
    /// the same distribution as by draws, in a time that depends on the number of items alone.
    fn by_keys(&mut self, count: usize, random: &mut Random, chosen: &mut Vec<u32>) {
        chosen.clear();
        if count == 0 {
            return;
        }
        self.keys.clear();
        let weights = self.popularity.weights.iter().enumerate();
        self.keys.extend(weights.map(|(item, w)| (random.exponential() / w, item as u32)));
        let by_key = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        self.keys.select_nth_unstable_by(count - 1, by_key);
        self.keys[..count].sort_unstable_by(by_key);
        chosen.extend(self.keys[..count].iter().map(|&(_, item)| item));
    }
}

/// Splits `count` ratings into sessions of geometric size, each in a week of the user's stay;
/// gives (week, size) in the order of weeks.
pub(super) fn sessions(
    user: &User,
    count: u32,
    mean: f64,
    random: &mut Random,
    sessions: &mut Vec<(u32, u32)>,
) {
    sessions.clear();
    let mut left = count;
    while left > 0 {
        let size = random.geometric(mean).min(left as u64) as u32;
        sessions.push((user.start + random.below(user.span), size));
        left -= size;
    }
    // Sessions of one week are interchangeable, so their order among each other may be any, but it
    // must be the same always.
    sessions.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_choose_alike() {
        let popularity = Popularity::new(30, 1);
        let mut chooser = Chooser::new(&popularity);
        let mut random = Random::new(1, Purpose::History, 0);
        let (mut chosen, users) = (Vec::new(), 40_000);
        // How often an item comes first, and how often it is among five.
        let mut counts = [[[0.0; 30]; 2]; 2];
        for way in 0..2 {
            for _ in 0..users {
                if way == 0 {
                    assert!(chooser.by_draws(5, &mut random, &mut chosen));
                } else {
                    chooser.by_keys(5, &mut random, &mut chosen);
                }
                counts[way][0][chosen[0] as usize] += 1.0;
                for &item in &chosen {
                    counts[way][1][item as usize] += 1.0;
                }
            }
        }
        for kind in 0..2 {
            for item in 0..30 {
                let [a, b]: [f64; 2] = [counts[0][kind][item], counts[1][kind][item]];
                assert!((a - b).abs() < 5.0 * (a + b).sqrt(), "{kind} {item}: {a} {b}");
            }
        }
    }

    #[test]
    fn any_number_of_distinct_items() {
        let popularity = Popularity::new(1000, 1);
        let mut chooser = Chooser::new(&popularity);
        let mut random = Random::new(1, Purpose::History, 0);
        let mut chosen = Vec::new();
        for count in [0, 1, 50, 125, 126, 999, 1000, 3] {
            chooser.choose(count, &mut random, &mut chosen);
            assert_eq!(chosen.len(), count as usize);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), count as usize);
            assert!(chooser.seen.iter().all(|&word| word == 0));
        }
    }

    #[test]
    fn rejection_gives_up() {
        // Two items that a draw finds once in 10^12 times.
        let heavy =
            Popularity { table: AliasTable::new(&[1.0, 1e-12, 1e-12]), weights: vec![1.0, 1e-12, 1e-12] };
        let mut chooser = Chooser::new(&heavy);
        let (mut random, mut chosen) = (Random::new(1, Purpose::History, 0), Vec::new());
        assert!(!chooser.by_draws(3, &mut random, &mut chosen));
        chooser.choose(3, &mut random, &mut chosen);
        assert_eq!(chosen[0], 0);
        assert_eq!(chosen.len(), 3);
    }
}
