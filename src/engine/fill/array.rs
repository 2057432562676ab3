//! An array to an array of the same shape, order and kind: bytes are copied, and NaN gets a number. Standard deviations are a
//! second one, NaN where a value was.

use super::{Filled, Filling};
use crate::MAX_ORDER;
use crate::control::Unit;
use crate::error::{Error, Result};
use crate::ingest::Signs;
use crate::ingest::npy::NpyCells;
use crate::model::{Contracted, Place, Places, Spreads};
use crate::shard::ModeKind;
use crate::storage::{AtomicFile, RealDisk};
use rayon::prelude::*;

/// What became of a cell.
struct Cell {
    was_missing: bool,
    known: bool,
    /// NaN where the value was there.
    sd: f64,
}

pub(super) fn fill(
    filling: &Filling<'_>,
    signs: &Signs,
    mut input: NpyCells,
    filled: &mut Filled,
) -> Result<()> {
    let header = input.header.clone();
    let order = header.shape.len();
    let modes = &filling.model.about.modes;
    let same = |(mode, &dim): (&crate::shard::Mode, &u32)| {
        mode.dim == dim && matches!(mode.kind, ModeKind::Range { .. })
    };
    if modes.len() != order || !modes.iter().zip(&header.shape).all(same) {
        let dims: Vec<u32> = modes.iter().map(|mode| mode.dim).collect();
        let what = format!("the model is one of {dims:?} indices, not of an array of {:?}", header.shape);
        return Err(Error::input(filling.name, what));
    }
    let places = Places::new(filling.model, &vec![false; order]);
    let spreads = filling.sd.then(|| Spreads::new(filling.model, &vec![false; order])).transpose()?;
    let disk = RealDisk;
    let mut file = AtomicFile::output(&disk, &filling.output)?;
    file.append(&header.bytes)?;
    let mut sds = filling.sd_output().map(|output| AtomicFile::output(&disk, &output)).transpose()?;
    if let Some(sds) = &mut sds {
        sds.append(&header.bytes)?;
    }
    let total = u64::try_from(header.cells()).unwrap_or(u64::MAX);
    filling.control.progress().stage("fill", Unit::Rows, total);
    let fastest = header.fastest();
    let mut bytes = Vec::new();
    while let Some(first) = input.next_cells(&mut bytes)? {
        filling.control.check()?;
        let width = header.width();
        let cells: Vec<Cell> = bytes
            .par_chunks_exact_mut(width)
            .with_min_len(1024)
            .enumerate()
            .map_init(Contracted::default, |contracted, (number, cell)| {
                let value = header.get(cell);
                if !value.is_nan() && !signs.has_number(value) {
                    return Cell { was_missing: false, known: true, sd: f64::NAN };
                }
                let mut indices = [0; MAX_ORDER];
                header.indices(first + number as u64, &mut indices[..order]);
                let asked = indices.map(Place::Index);
                let answer = places.value_along(&asked[..order], fastest, contracted);
                header.put(answer.value, cell);
                let spread = spreads.as_ref().map(|of| of.predictive(&places, &asked[..order]).sd());
                Cell { was_missing: true, known: answer.known, sd: spread.unwrap_or(f64::NAN) }
            })
            .collect();
        filled.rows += cells.len() as u64;
        filled.filled += cells.iter().filter(|cell| cell.was_missing).count() as u64;
        filled.unknown += cells.iter().filter(|cell| !cell.known).count() as u64;
        file.append(&bytes)?;
        if let Some(sds) = &mut sds {
            bytes.chunks_exact_mut(width).zip(&cells).for_each(|(bytes, cell)| header.put(cell.sd, bytes));
            sds.append(&bytes)?;
        }
        filling.control.progress().advance(filled.rows, &"");
    }
    sds.map_or(Ok(()), AtomicFile::commit)?;
    file.commit()
}
