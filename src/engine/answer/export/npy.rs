//! NumPy's file format: a header that is a Python literal, then the numbers, little-endian.

use super::{biases_of, first_of};
use crate::error::Result;
use crate::model::{ModeIds, Model};
use crate::storage::{AtomicFile, Disk};
use std::path::Path;

/// Begins an array of C order.
pub(super) fn begin<'d>(
    disk: &'d dyn Disk,
    path: &Path,
    kind: &str,
    shape: &[usize],
) -> Result<AtomicFile<'d>> {
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    // Magic, version and length take 10 bytes; the numbers begin at a multiple of 64.
    let padding = 64 - (10 + header.len() + 1) % 64;
    header.extend(std::iter::repeat_n(' ', padding % 64));
    header.push('\n');
    let mut file = AtomicFile::create(disk, path)?;
    file.append(b"\x93NUMPY\x01\x00")?;
    file.append(&(header.len() as u16).to_le_bytes())?;
    file.append(header.as_bytes())?;
    Ok(file)
}

/// The files of a mode, by what they hold.
pub(super) fn mode(
    disk: &dyn Disk,
    directory: &Path,
    model: &Model,
    ids: &ModeIds,
    mode: usize,
    name: &str,
) -> Result<Vec<(&'static str, String)>> {
    let (factor, dim) = (&model.point.factors[mode], ids.dim());
    let mut files = Vec::new();
    let mut place = |what: &'static str| {
        let file = format!("{what}-{name}.npy");
        files.push((what, file.clone()));
        directory.join(file)
    };
    let mut file = begin(disk, &place("factor"), "<f8", &[factor.rows(), factor.rank()])?;
    file.append(bytemuck::cast_slice(factor.as_slice()))?;
    file.commit()?;

    let mut file = begin(disk, &place("bias"), "<f8", &[factor.rows()])?;
    let biases = biases_of(model, mode);
    for index in 0..factor.rows() {
        file.append(&biases.map_or(0.0, |biases| biases[index]).to_le_bytes())?;
    }
    file.commit()?;

    let mut file = begin(disk, &place("known"), "|b1", &[factor.rows()])?;
    for index in 0..dim {
        file.append(&[u8::from(model.knows(mode, index))])?;
    }
    file.commit()?;

    let labels = place("labels");
    if ids.integers() {
        let mut file = begin(disk, &labels, "<i8", &[factor.rows()])?;
        for index in 0..dim {
            file.append(&ids.label(index).parse::<i64>().unwrap_or_default().to_le_bytes())?;
        }
        file.commit()?;
    } else {
        // Text of fixed width, four bytes a character, as NumPy has it.
        let width = (0..dim).map(|index| ids.label(index).chars().count()).max().unwrap_or(0).max(1);
        let mut file = begin(disk, &labels, &format!("<U{width}"), &[factor.rows()])?;
        for index in 0..dim {
            let mut left = width;
            for character in ids.label(index).chars() {
                file.append(&u32::from(character).to_le_bytes())?;
                left -= 1;
            }
            (0..left).try_for_each(|_| file.append(&[0; 4]))?;
        }
        file.commit()?;
    }
    if let Some(first) = first_of(model, mode) {
        let mut file = begin(disk, &place("first"), "<i8", &[first.len()])?;
        file.append(bytemuck::cast_slice(&first))?;
        file.commit()?;
    }
    Ok(files)
}

pub(super) fn core(disk: &dyn Disk, path: &Path, model: &Model) -> Result<()> {
    let core = &model.point.core;
    if core.places().is_none() {
        return numbers(disk, path, core.ranks(), core.numbers());
    }
    // A row per number that is not zero: its indices, from 0, and the number.
    let order = core.ranks().len();
    let mut rows = Vec::with_capacity(core.numbers().len() * (order + 1));
    core.for_each_nonzero(|place, number| {
        rows.extend(place.iter().map(|&index| f64::from(index)));
        rows.push(number);
    });
    numbers(disk, path, &[core.numbers().len(), order + 1], &rows)
}

/// An array of this shape.
pub(super) fn numbers(disk: &dyn Disk, path: &Path, shape: &[usize], numbers: &[f64]) -> Result<()> {
    let mut file = begin(disk, path, "<f8", shape)?;
    file.append(bytemuck::cast_slice(numbers))?;
    file.commit()
}
