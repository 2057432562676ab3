//! The memory that sweeps take, known before there are any.

use super::along::copied_bytes;
use super::batch::batch_bytes;
use super::cells::{most_cells, pairs_of};
use super::course::{FEW_MODES, MOST_ROWS_TO_GROW, most_more};
use super::level::covariance_bytes;
use super::moments::products_bytes;
use super::offsets::MOST_IN_TABLES;
use super::pass::sums_width;
use super::slices::window_bytes;
use super::sweeps::CHUNK;

/// Where the sums of a level's rows take no more than this, the first sweeps are made from parts of the data, and sums
/// are carried from one to the next: a matter of the data, because it changes what comes out.
pub(super) const SUMS: u64 = 128 << 20;

/// Bytes of a cell that validation residuals are looked at by: its place in a map, which has room to spare, and lists of
/// one pair of modes at a time.
const CELL: u64 = 128;

/// What sums may take, which changes the number of passes and the time that they take, but not what comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Lanes at a time, each of which has sums of its own.
    pub lanes: usize,
    /// Bytes of the sums of a level's rows: where they take more, some of the rows at a time, in a pass each.
    pub sums: u64,
}

/// What is known of sweeps before they begin.
#[derive(Debug, Clone, Copy)]
pub struct Sizes<'a> {
    /// Dimensions in storage order.
    pub dims: &'a [u64],
    /// Train entries.
    pub entries: u64,
    /// Entries of another split that the last sweep is to as well.
    pub beside: u64,
    /// Components.
    pub rank: usize,
    /// Whether there may be further ones, of other pairs of modes or of all of them.
    pub grows: bool,
}

impl Sizes<'_> {
    /// The level with the most sums, and their memory.
    pub fn sums(&self) -> (usize, u64) {
        let most = (1..self.dims.len()).map(|level| (level, self.dims[level])).max_by_key(|of| of.1);
        let (level, rows) = most.unwrap_or((0, 0));
        (level, rows * (sums_width(self.rank + 1) * size_of::<f64>()) as u64)
    }

    /// The passes that these sums are taken in.
    pub fn passes(&self, room: Room) -> u64 {
        let rows = self.dims.iter().skip(1).max().copied().unwrap_or(0);
        rows.div_ceil(rows_at_a_time(self.rank + 1, room.sums) as u64).max(1)
    }

    /// Ways to take the sums with so many lanes at the most, the fastest first: all at once, fewer lanes at a time, or
    /// parts of the rows. The last one takes the least memory. One of `several` processes goes through all of its lanes at
    /// a time, because sums wait for those of the lanes before.
    pub fn rooms(&self, lanes: usize, several: bool) -> Vec<Room> {
        let (_, all) = self.sums();
        let least = (CHUNK * sums_width(self.rank + 1) * size_of::<f64>()) as u64;
        // Rows may get longer, and have room for that as long as it is not much.
        let mut sums = vec![all.max(SUMS)];
        // Where the first sweeps need all of them, parts of the rows would be no help.
        while all > SUMS && sums[sums.len() - 1] > least {
            sums.push((sums[sums.len() - 1] / 2).max(least));
        }
        let lanes = lanes.max(1);
        let fewest = if several { lanes } else { 1 };
        let every = sums.into_iter().flat_map(|sums| (fewest..=lanes).map(move |lanes| Room { lanes, sums }));
        let mut rooms: Vec<Room> = every.collect();
        let time = |room: &Room| self.passes(*room) as f64 / room.lanes as f64;
        let last = rooms.iter().copied().min_by_key(|room| (room.sums, room.lanes));
        rooms.sort_by(|a, b| time(a).total_cmp(&time(b)).then(self.passes(*a).cmp(&self.passes(*b))));
        rooms.extend(last);
        rooms
    }

    /// The memory of the rows, those of a trial and of the best model; of sums and what is on its way to them; and of
    /// the sums that are part of a copy of the state.
    pub fn bytes(&self, room: Room) -> [u64; 3] {
        let Sizes { dims, entries, beside, rank, grows } = *self;
        let more = dims.len() > 2 && dims.iter().sum::<u64>() <= MOST_ROWS_TO_GROW;
        let rank = rank + if more && grows { most_more(dims.len()) } else { 0 };
        // Sums of pairs of modes, when none of rows are there; and tables with their numbers, in a model and in what a
        // trial may go back to.
        let cells =
            if more { cells_of_pairs(dims).min(MOST_IN_TABLES as u64) * size_of::<f64>() as u64 } else { 0 };
        let tables = if dims.len() > FEW_MODES { 6 * cells } else { 0 };
        let k = rank as u64 + 1;
        // Means, variances, counts and features; means and biases of a model, and how sure it is.
        let row = 2 * (12 * k + 8 + 8 * k) + 2 * 8 * (k + 1) + 4 * 4 * k + 8;
        let most = dims.iter().skip(1).max().copied().unwrap_or(0);
        let row_sums = (sums_width(rank + 1) * size_of::<f64>()) as u64;
        let at_a_time = rows_at_a_time(rank + 1, room.sums) as u64;
        let all = most * row_sums;
        let sums = if all > SUMS { all.min(at_a_time * row_sums) } else { all };
        // New rows wait for those of other passes.
        let aside = if sums < all { most * 12 * k } else { 0 };
        let covariances: u64 =
            dims.iter().skip(1).map(|&rows| 2 * covariance_bytes(rows, entries, rank + 1)).sum();
        let state =
            dims.iter().sum::<u64>() * row + covariances + tables + aside + copied_bytes(dims, rank + 1);
        // Of another split there are a block, and what a window has of it.
        let windows = window_bytes(dims.len(), entries) + window_bytes(dims.len(), beside);
        let waiting = batch_bytes(most, rank + 1) + windows + products_bytes(rank + 1);
        let lanes = room.lanes as u64;
        // Validation residuals are looked at by cells when there are none of these.
        let alike = if more { most_cells(beside, dims.len()) * CELL } else { 0 };
        let passing = (sums.max(cells) * (2 + lanes) + waiting * lanes).max(alike);
        [state, passing, if sums < all { sums } else { 2 * sums }]
    }
}

/// The rows of k numbers whose sums are taken in one pass, within so many bytes.
pub(super) fn rows_at_a_time(k: usize, bytes: u64) -> usize {
    let width = (sums_width(k) * size_of::<f64>()) as u64;
    usize::try_from(bytes.div_ceil(width)).unwrap_or(usize::MAX).min(1 << 40).div_ceil(CHUNK).max(1) * CHUNK
}

fn cells_of_pairs(dims: &[u64]) -> u64 {
    pairs_of(dims.len())
        .into_iter()
        .fold(0, |sum: u64, [a, b]| sum.saturating_add(dims[a].saturating_mul(dims[b])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_validation_entries_count_where_sums_are_fewer() {
        let of = |beside: u64, order: usize| {
            let dims = vec![100; order];
            let sizes = Sizes { dims: &dims, entries: 1 << 30, beside, rank: 1, grows: true };
            sizes.bytes(sizes.rooms(1, false)[0])[1]
        };
        assert!(of(1 << 27, 5) >= CELL * most_cells(1 << 27, 5), "{} bytes", of(1 << 27, 5));
        assert!(of(1 << 27, 3) > of(1 << 12, 3));
        assert_eq!(of(1 << 27, 8), of(1 << 40, 8), "they are a share of very many");
    }

    #[test]
    fn the_less_memory_the_more_passes_and_the_last_way_takes_the_least() {
        for (dims, rank) in [([1000, 3_000_000, 20], 15), ([1000, 700, 20], 15), ([9, 100_000_000, 5], 31)] {
            let sizes = Sizes { dims: &dims, entries: 1 << 30, beside: 0, rank, grows: true };
            let rooms = sizes.rooms(4, false);
            let memory = |room: &Room| sizes.bytes(*room)[1];
            assert_eq!((rooms[0].lanes, sizes.passes(rooms[0])), (4, 1));
            let least = rooms.iter().map(memory).min().unwrap();
            assert_eq!(memory(rooms.last().unwrap()), least);
            let few = rooms.iter().find(|room| memory(room) < memory(&rooms[0]) / 2).unwrap_or(&rooms[0]);
            assert!(sizes.passes(*few) as f64 / few.lanes as f64 >= 0.25, "{few:?}");
            let parts = rooms.iter().any(|room| sizes.passes(*room) > 1);
            assert_eq!(parts, sizes.sums().1 > SUMS);
        }
    }
}
