//! An array to an array of the same shape, order and kind: bytes are copied, and NaN gets a number.

use super::{Filled, Job};
use crate::MAX_ORDER;
use crate::control::Unit;
use crate::error::{Error, Result};
use crate::ingest::npy::NpyCells;
use crate::model::{Place, Places};
use crate::shard::ModeKind;
use crate::storage::{AtomicFile, RealDisk};
use rayon::prelude::*;

pub(super) fn fill(job: &Job<'_>, mut cells: NpyCells, filled: &mut Filled) -> Result<()> {
    let header = cells.header.clone();
    let order = header.shape.len();
    let modes = &job.model.about.modes;
    let same = |(mode, &dim): (&crate::shard::Mode, &u32)| {
        mode.dim == dim && matches!(mode.kind, ModeKind::Range { .. })
    };
    if modes.len() != order || !modes.iter().zip(&header.shape).all(same) {
        let dims: Vec<u32> = modes.iter().map(|mode| mode.dim).collect();
        let what = format!("the model is one of {dims:?} indices, not of an array of {:?}", header.shape);
        return Err(Error::input(job.table(), what));
    }
    let places = Places::new(job.model, &vec![false; order]);
    let disk = RealDisk;
    let mut file = AtomicFile::output(&disk, &job.output)?;
    file.append(&header.bytes)?;
    let total = u64::try_from(header.cells()).unwrap_or(u64::MAX);
    job.control.progress().stage("fill", Unit::Rows, total);
    let mut bytes = Vec::new();
    while let Some(first) = cells.next_cells(&mut bytes)? {
        job.control.check()?;
        let width = header.width();
        let counts: Vec<(u64, u64)> = bytes
            .par_chunks_exact_mut(width)
            .with_min_len(1024)
            .enumerate()
            .map(|(number, cell)| {
                if !header.get(cell).is_nan() {
                    return (0, 0);
                }
                let mut indices = [0; MAX_ORDER];
                header.indices(first + number as u64, &mut indices[..order]);
                let asked = indices.map(Place::Index);
                let answer = places.value(&asked[..order]);
                header.put(answer.value, cell);
                (1, u64::from(!answer.known))
            })
            .collect();
        filled.rows += counts.len() as u64;
        filled.filled += counts.iter().map(|(one, _)| one).sum::<u64>();
        filled.unknown += counts.iter().map(|(_, unknown)| unknown).sum::<u64>();
        file.append(&bytes)?;
        job.control.progress().advance(filled.rows, &"");
    }
    file.commit()
}
