//! The cells of a long table that have no row.

use super::ask::Said;
use super::{Filled, Filling};
use crate::MAX_ORDER;
use crate::budget::{Budget, Reservation};
use crate::control::Unit;
use crate::error::{Error, Result};
use crate::model::{Contracted, Found, ModeIds, Place, Places, Spreads};
use crate::units::count;
use rayon::prelude::*;
use std::borrow::Cow;

/// Cells that are written together.
const BATCH: usize = 8192;

/// How many cells there are.
pub(super) fn product(dims: &[u32]) -> u128 {
    dims.iter().fold(1, |product: u128, &dim| product.saturating_mul(u128::from(dim)))
}

/// Refuses more cells than can be kept account of: one bit each, in half of the memory.
pub(super) fn check(cells: u128, memory: u64) -> Result<()> {
    let most = u128::from(memory / 2) * 8;
    if cells <= most {
        return Ok(());
    }
    let needed = u64::try_from(cells / 4).unwrap_or(u64::MAX);
    Err(Error::request(format!(
        "`all_cells` would write {cells} rows, more than the {} that can be kept account of: `memory` would have \
         to be {}, or take `predict` for the cells that matter",
        count(u64::try_from(most).unwrap_or(u64::MAX)),
        crate::units::size(needed)
    )))
}

/// Which cells have a row.
pub(super) struct Absent {
    seen: Vec<u64>,
    dims: Vec<u32>,
    cells: u64,
    _memory: Reservation,
}

impl Absent {
    pub(super) fn new(ids: &[ModeIds], memory: u64) -> Result<Self> {
        let dims: Vec<u32> = ids.iter().map(ModeIds::dim).collect();
        let cells = product(&dims);
        check(cells, memory)?;
        let cells = cells as u64;
        let words = cells.div_ceil(64);
        let reserved = Budget::new(memory)?.reserve(8 * words, "the cells that have a row")?;
        Ok(Absent { seen: vec![0; words as usize], dims, cells, _memory: reserved })
    }

    /// A row of the table with these ids.
    pub(super) fn see<'t>(&mut self, ids: &[ModeIds], text: impl Fn(usize) -> Option<Cow<'t, str>>) {
        let mut place = 0u64;
        for (mode, (about, &dim)) in ids.iter().zip(&self.dims).enumerate() {
            let found = text(mode).map(|text| about.find(&text));
            let Some(Ok(Found::Index(index))) = found else { return };
            place = place * u64::from(dim) + u64::from(index);
        }
        self.seen[(place / 64) as usize] |= 1 << (place % 64);
    }

    /// Gives the ids and values of all cells that were not seen to `each`, in the order of indices.
    pub(super) fn for_each(
        &self,
        filling: &Filling<'_>,
        filled: &mut Filled,
        mut each: impl FnMut(&[Vec<String>], &Said) -> Result<()>,
    ) -> Result<()> {
        let absent = self.cells - self.seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        filling.control.progress().stage("cells", Unit::Rows, absent);
        let averaged = vec![false; self.dims.len()];
        let places = Places::new(filling.model, &averaged);
        let spreads = filling.sd.then(|| Spreads::new(filling.model, &averaged)).transpose()?;
        let mut batch = Vec::with_capacity(BATCH);
        for place in 0..=self.cells {
            let end = place == self.cells;
            if !end && self.seen[(place / 64) as usize] >> (place % 64) & 1 == 0 {
                batch.push(place);
            }
            if batch.len() < BATCH && (!end || batch.is_empty()) {
                continue;
            }
            filling.control.check()?;
            let indices = |mut place: u64| {
                let mut indices = [0; MAX_ORDER];
                for (index, &dim) in indices[..self.dims.len()].iter_mut().zip(&self.dims).rev() {
                    *index = (place % u64::from(dim)) as u32;
                    place /= u64::from(dim);
                }
                indices
            };
            let at: Vec<[u32; MAX_ORDER]> = batch.iter().map(|&place| indices(place)).collect();
            let answers: Vec<_> = at
                .par_iter()
                .with_min_len(512)
                .map_init(Contracted::default, |contracted, at| {
                    let asked = at.map(Place::Index);
                    let asked = &asked[..self.dims.len()];
                    let answer = places.value_along(asked, asked.len() - 1, contracted);
                    (answer, spreads.as_ref().map(|of| of.predictive(&places, asked).sd()))
                })
                .collect();
            let said = Said {
                values: answers.iter().map(|(answer, _)| answer.value).collect(),
                sds: answers.iter().filter_map(|(_, sd)| *sd).collect(),
            };
            filled.unknown += answers.iter().filter(|(answer, _)| !answer.known).count() as u64;
            filled.added += said.values.len() as u64;
            let labels = |mode: usize| at.iter().map(|at| filling.ids[mode].label(at[mode])).collect();
            let ids: Vec<Vec<String>> = (0..self.dims.len()).map(labels).collect();
            each(&ids, &said)?;
            batch.clear();
            filling.control.progress().advance(filled.added, &"");
        }
        Ok(())
    }
}
