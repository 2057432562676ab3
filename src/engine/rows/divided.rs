//! Factors whose rows several processes have: how they come to be so, and how they get to a file and back.

use super::{CHUNK_ROWS, Rows};
use crate::error::Result;
use crate::team::{Kind, Team};

/// Messages that may be under way to a process that writes or reads a file.
const AHEAD: usize = 2;

impl Rows {
    /// n rows of numbers that come one after the other, of which a member of a team keeps its own.
    pub fn generate(team: Team, rows: usize, rank: usize, mut number: impl FnMut() -> f64) -> Self {
        let own = team.own_rows(rows);
        let mut data = Vec::with_capacity(own.len() * rank);
        for row in 0..rows {
            let numbers = (0..rank).map(|_| number());
            if own.contains(&row) {
                data.extend(numbers);
            } else {
                numbers.for_each(drop); // whoever owns the next row must draw the same numbers
            }
        }
        Rows { rows, rank, first: own.start, data, team }
    }

    /// The rows that a member of a team owns, out of all of them.
    pub fn divided(self, team: Team) -> Self {
        let own = team.own_rows(self.rows);
        if team.is_alone() || !self.team.is_alone() {
            return self;
        }
        let data = self.data[own.start * self.rank..own.end * self.rank].to_vec();
        Rows { rows: self.rows, rank: self.rank, first: own.start, data, team }
    }

    /// Whose numbers these are, row by row: the rows that this process owns.
    pub(crate) fn from_own(team: Team, rows: usize, rank: usize, data: Vec<f64>) -> Self {
        let own = team.own_rows(rows);
        assert_eq!(data.len(), own.len() * rank, "the numbers of the own rows");
        Rows { rows, rank, first: own.start, data, team }
    }

    /// Calls `each` in the first process with the numbers of all rows, in order and part by part;
    /// the others hand it theirs. All must call it.
    pub(crate) fn hand_to_first(&self, mut each: impl FnMut(&[f64])) {
        let (team, size) = (self.team, CHUNK_ROWS * self.rank);
        if team.is_first() {
            each(&self.data);
            for rank in 1..team.size() {
                let mut left = team.rows_of(rank, self.rows).len() * self.rank;
                while left > 0 {
                    let part = team.receive(rank, Kind::File, left.min(size));
                    each(bytemuck::cast_slice(&part));
                    left -= part.len();
                }
            }
        } else {
            for part in self.data.chunks(size) {
                team.send(0, Kind::File, bytemuck::cast_slice(part).to_vec());
                team.settle(AHEAD);
            }
            team.settle(0);
        }
    }

    /// The reverse: `fill(give)` calls `give` in the first process with numbers in order; every process
    /// gets the rows that it owns. All must call it. Numbers that do not come are zero.
    pub(crate) fn from_first(
        team: Team,
        rows: usize,
        rank: usize,
        fill: impl FnOnce(&mut dyn FnMut(&[f64])) -> Result<()>,
    ) -> Result<Rows> {
        let own = team.own_rows(rows);
        let mut data = Vec::with_capacity(own.len() * rank);
        let size = CHUNK_ROWS * rank;
        let mut filled = Ok(());
        if team.is_first() {
            let (mut pending, mut row) = (Vec::new(), 0);
            let mut hand_on = |pending: &mut Vec<f64>| {
                let count = pending.len().min(size).min((rows - row) * rank);
                match team.owner(row, rows) {
                    0 => data.extend_from_slice(&pending[..count]),
                    owner => team.send(owner, Kind::File, bytemuck::cast_slice(&pending[..count]).to_vec()),
                }
                pending.drain(..count);
                team.settle(AHEAD);
                row += count / rank;
                row < rows
            };
            filled = fill(&mut |numbers| {
                pending.extend_from_slice(numbers);
                while pending.len() >= size && hand_on(&mut pending) {}
            });
            // What is left, and zeros for what could not be had: the others wait for it.
            loop {
                if pending.len() < size {
                    pending.resize(size, 0.0);
                }
                if !hand_on(&mut pending) {
                    break;
                }
            }
            team.settle(0);
        } else {
            while data.len() < own.len() * rank {
                let part = team.receive(0, Kind::File, size.min(own.len() * rank - data.len()));
                data.extend_from_slice(bytemuck::cast_slice(&part));
            }
        }
        team.agree(filled)?;
        Ok(Rows::from_own(team, rows, rank, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::rows::Square;
    use std::sync::Mutex;

    fn sample(rows: usize, rank: usize, seed: f64) -> Rows {
        Rows::from_vec(rows, rank, (0..rows * rank).map(|k| (k as f64 * seed).sin()).collect())
    }

    #[test]
    fn same_bits_for_any_number_of_processes() {
        let (a, b) = (sample(50_000, 3, 0.11), sample(50_000, 3, 0.37));
        let m = Square::from_vec(3, (0..9).map(|n| f64::from(n).cos()).collect());
        let work = |a: Rows, b: Rows| {
            let mut out = a.zeros_like(3);
            let moved = out.set_moved(&a, 0.5, &b);
            out.subtract_product(&b, &m);
            (a.gram(&b), moved, out)
        };
        let (gram, moved, out) = work(a.clone(), b.clone());
        for size in [2, 3, 20] {
            let (a, b) = (&a, &b);
            std::thread::scope(|scope| {
                let members = Team::of_threads(size).into_iter();
                let all: Vec<_> = members
                    .map(|team| scope.spawn(move || work(a.clone().divided(team), b.clone().divided(team))))
                    .collect();
                let mut rows = 0;
                for one in all {
                    let one = one.join().unwrap();
                    assert_eq!((&one.0, &one.1), (&gram, &moved));
                    one.2.own().for_each(|row| assert_eq!(one.2.row(row), out.row(row)));
                    rows += one.2.own().len();
                }
                assert_eq!(rows, 50_000);
            });
        }
    }

    #[test]
    fn rows_get_to_a_file_and_back() {
        let all = sample(50_000, 2, 0.7);
        for size in [1, 2, 3, 20] {
            let file = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for team in Team::of_threads(size) {
                    let (all, file) = (&all, &file);
                    scope.spawn(move || {
                        let own = all.clone().divided(team);
                        own.hand_to_first(|part| file.lock().unwrap().extend_from_slice(part));
                        let give = |give: &mut dyn FnMut(&[f64])| {
                            all.as_slice().chunks(777).for_each(give);
                            Ok(())
                        };
                        assert_eq!(Rows::from_first(team, 50_000, 2, give).unwrap(), own);
                        // A file that cannot be read to its end leaves nobody waiting.
                        let fail = |give: &mut dyn FnMut(&[f64])| {
                            give(&all.as_slice()[..9_001]);
                            Err(Error::request("gone"))
                        };
                        assert!(Rows::from_first(team, 50_000, 2, fail).is_err());
                    });
                }
            });
            assert!(file.into_inner().unwrap() == all.as_slice());
        }
    }
}
