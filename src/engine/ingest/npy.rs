//! NumPy's arrays: a header that is a Python literal, then the numbers. NaN is a missing entry.

use super::columns::{ColumnRequest, FilePlan, ModeColumn, ModeRole};
use super::rows::{Cell, ModeCells, RowBatch, Taken};
use super::rules::{self, RowRules, Signs};
use super::source::{self, BytesRead, Source, read_error};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::{MAX_ORDER, MIN_ORDER};
use std::io::Read;
use std::path::{Path, PathBuf};

/// How an array begins.
pub const MAGIC: &[u8] = b"\x93NUMPY";
/// Cells that are read together.
const CELLS: usize = 1 << 15;

/// What the numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Signed,
    Unsigned,
}

/// What the header of an array says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyHeader {
    /// The number of indices of each axis.
    pub shape: Vec<u32>,
    /// The whole header, as it stands in the file.
    pub bytes: Vec<u8>,
    fortran: bool,
    kind: Kind,
    width: usize,
    big: bool,
}

/// The header of an input, where it is an array.
pub fn header_of(source: &Source, control: &Control) -> Result<Option<NpyHeader>> {
    let path = &source.name();
    if source.is_named() && path.is_dir() {
        return Ok(None);
    }
    let mut stream = source::open(source, BytesRead::default(), control)?;
    let mut magic = Vec::new();
    let read = (&mut stream).take(MAGIC.len() as u64).read_to_end(&mut magic);
    read.map_err(|error| read_error(path, error))?;
    match magic == MAGIC {
        true => NpyHeader::read(&mut std::io::Cursor::new(magic).chain(stream), path).map(Some),
        false => Ok(None),
    }
}

impl NpyHeader {
    /// Reads the header of an array.
    pub fn read(stream: &mut dyn Read, path: &Path) -> Result<Self> {
        let wrong = |what: String| Error::input(path, what);
        let mut bytes = Vec::new();
        let mut more = |count: usize, bytes: &mut Vec<u8>| -> Result<()> {
            let read = (&mut *stream).take(count as u64).read_to_end(bytes);
            match read.map_err(|error| read_error(path, error))? {
                read if read == count => Ok(()),
                _ => Err(Error::input(path, "this .npy file ends within its header")),
            }
        };
        more(8, &mut bytes)?;
        if !bytes.starts_with(MAGIC) {
            return Err(wrong("this is no .npy file".into()));
        }
        let size = if bytes[6] == 1 { 2 } else { 4 };
        more(size, &mut bytes)?;
        let length = bytes[8..].iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
        if length > 1 << 20 {
            return Err(wrong("this .npy file has a header of more than 1 MB: it is damaged".into()));
        }
        let begin = bytes.len();
        more(length, &mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[begin..]).into_owned();
        let about = || wrong(format!("the header of this .npy file cannot be read: {}", text.trim()));
        let after = |key: &str| {
            let rest = &text[text.find(key)? + key.len()..];
            rest.trim_start_matches(['\'', '"']).trim_start().strip_prefix(':').map(str::trim_start)
        };
        let kind = after("descr").ok_or_else(about)?;
        let kind = kind.strip_prefix(['\'', '"']).and_then(|rest| rest.split(['\'', '"']).next());
        let kind =
            kind.ok_or_else(|| wrong("a .npy file of records cannot be used: save one array".into()))?;
        let fortran = after("fortran_order").ok_or_else(about)?.starts_with("True");
        let shape = after("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
        let shape = shape.ok_or_else(about)?.split(',').map(str::trim).filter(|part| !part.is_empty());
        let shape: Vec<u64> = shape
            .map(|part| part.trim_end_matches('L').parse().map_err(|_| about()))
            .collect::<Result<_>>()?;
        let (big, code) = match kind.strip_prefix('>') {
            Some(code) => (true, code),
            None => (false, kind.trim_start_matches(['<', '|', '='])),
        };
        let (sort, width) = match code {
            "f4" | "f8" => (Kind::Float, code),
            "i1" | "i2" | "i4" | "i8" => (Kind::Signed, code),
            "u1" | "u2" | "u4" | "u8" => (Kind::Unsigned, code),
            _ => {
                let what = format!("an array of {kind} cannot be used: f4, f8 and integers can");
                return Err(wrong(what));
            }
        };
        let width = usize::from(width.as_bytes()[1] - b'0');
        if !(MIN_ORDER..=MAX_ORDER).contains(&shape.len()) {
            return Err(wrong(format!("an array of {} axes is not of 2 to 8", shape.len())));
        }
        let dims = shape.iter().map(|&dim| u32::try_from(dim).ok().filter(|&dim| dim > 0 && dim < u32::MAX));
        let Some(shape) = dims.collect::<Option<Vec<u32>>>() else {
            return Err(wrong(format!("the shape {shape:?} has an axis that is empty or too long")));
        };
        Ok(NpyHeader { shape, bytes, fortran, kind: sort, width, big })
    }

    /// Whether a cell can be missing.
    pub fn has_nan(&self) -> bool {
        self.kind == Kind::Float
    }

    /// The axis in which neighbours differ.
    pub fn fastest(&self) -> usize {
        if self.fortran { 0 } else { self.shape.len() - 1 }
    }

    /// The number of cells.
    pub fn cells(&self) -> u128 {
        self.shape.iter().map(|&dim| u128::from(dim)).product()
    }

    /// The bytes of a cell.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number in a cell.
    #[inline]
    pub fn get(&self, cell: &[u8]) -> f64 {
        let mut word = [0; 8];
        if self.big {
            word[..self.width].iter_mut().zip(cell.iter().rev()).for_each(|(to, from)| *to = *from);
        } else {
            word[..self.width].copy_from_slice(cell);
        }
        let bits = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.width as u32;
        match (self.kind, self.width) {
            (Kind::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (Kind::Float, _) => f64::from_bits(bits),
            (Kind::Signed, _) => ((bits << unused) as i64 >> unused) as f64,
            (Kind::Unsigned, _) => bits as f64,
        }
    }

    /// Puts a number into a cell of floats.
    pub fn put(&self, value: f64, cell: &mut [u8]) {
        match self.width {
            4 => cell.copy_from_slice(&(value as f32).to_le_bytes()),
            _ => cell.copy_from_slice(&value.to_le_bytes()),
        }
        if self.big {
            cell.reverse();
        }
    }

    /// The indices of the cell at a place in the file.
    pub fn indices(&self, mut place: u64, indices: &mut [u32]) {
        let order = self.shape.len();
        for step in 0..order {
            let axis = if self.fortran { step } else { order - 1 - step };
            indices[axis] = (place % u64::from(self.shape[axis])) as u32;
            place /= u64::from(self.shape[axis]);
        }
    }

    /// The indices of the cell that follows.
    fn advance(&self, indices: &mut [u32]) {
        let order = self.shape.len();
        for step in 0..order {
            let axis = if self.fortran { step } else { order - 1 - step };
            indices[axis] += 1;
            if indices[axis] < self.shape[axis] {
                return;
            }
            indices[axis] = 0;
        }
    }

    /// How its cells are read: an axis is a mode, whose ids are the indices from 0.
    pub(super) fn plan(&self, request: &ColumnRequest) -> Result<FilePlan, String> {
        for (given, name) in [
            (request.weight.is_some(), "`weights`"),
            (!request.bins.is_empty(), "`bin`"),
            (request.time.is_some(), "`split` time"),
            (request.dims.is_some(), "`dims`"),
            (request.wide.is_some(), "`wide`"),
        ] {
            if given {
                return Err(format!("{name} does not go with an array"));
            }
        }
        let order = self.shape.len();
        let names: Vec<String> = match &request.modes {
            Some(names) if names.len() == order => names.iter().map(|name| name.trim().to_string()).collect(),
            Some(names) => return Err(format!("`modes` names {} axes of {order}", names.len())),
            None => (1..=order).map(|axis| format!("axis{axis}")).collect(),
        };
        let value = request.value.clone().unwrap_or_else(|| "value".into());
        let find = |wanted: &str| {
            let at = names.iter().chain([&value]).position(|name| name == wanted);
            at.ok_or_else(|| format!("there is no axis '{wanted}': the axes are {}", names.join(", ")))
        };
        let place = |one: &rules::Condition| Ok((find(&one.column)?, one.clone()));
        let conditions = request.conditions.iter().map(place).collect::<Result<_, String>>()?;
        let modes = names.iter().zip(&self.shape).enumerate().map(|(column, (name, &dim))| ModeColumn {
            name: name.clone(),
            column,
            role: ModeRole::Indices { base: 0, dim: Some(dim) },
        });
        Ok(FilePlan {
            modes: modes.collect(),
            value: order,
            ones: false,
            value_name: value,
            weight: None,
            time: None,
            count: order + 1,
            names: None,
            guessed: None,
            rules: RowRules {
                strict: request.strict,
                missing: Signs::new(&request.missing),
                conditions,
                transform: request.transform,
            },
            wide: None,
        })
    }
}

/// The cells of an array, some at a time, as the bytes that stand in the file.
pub struct NpyCells {
    /// What the array is.
    pub header: NpyHeader,
    stream: Box<dyn Read + Send>,
    path: PathBuf,
    /// How many cells were read.
    read: u64,
}

impl NpyCells {
    /// Of a stream behind its header.
    pub fn new(header: NpyHeader, stream: Box<dyn Read + Send>, path: &Path) -> Self {
        NpyCells { header, stream, path: path.into(), read: 0 }
    }

    /// Reads some of the next cells, and tells the place of the first; `None` at the end.
    pub fn next_cells(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>> {
        let left = self.header.cells() - u128::from(self.read);
        let count = left.min(CELLS as u128) as usize;
        if count == 0 {
            return Ok(None);
        }
        bytes.clear();
        let want = count * self.header.width;
        let got = (&mut self.stream).take(want as u64).read_to_end(bytes);
        if got.map_err(|error| read_error(&self.path, error))? < want {
            let what = format!("the array ends early: {} cells of {}", self.read, self.header.cells());
            return Err(Error::input(&self.path, what));
        }
        let first = self.read;
        self.read += count as u64;
        Ok(Some(first))
    }

    /// The next cells as rows.
    pub(super) fn next_rows(&mut self, rules: &RowRules) -> Result<Option<RowBatch>> {
        let mut bytes = Vec::new();
        let Some(first) = self.next_cells(&mut bytes)? else { return Ok(None) };
        let order = self.header.shape.len();
        let mut batch = RowBatch { file: self.path.clone(), ..RowBatch::default() };
        batch.modes = vec![ModeCells::Ids(Vec::new()); order];
        let mut indices = [0; MAX_ORDER];
        self.header.indices(first, &mut indices[..order]);
        for (number, cell) in bytes.chunks_exact(self.header.width).enumerate() {
            let value = self.header.get(cell);
            let rows = batch.len();
            match self.taken(value, &indices[..order], rules) {
                Ok(Taken::Entry) => {
                    for (mode, &index) in batch.modes.iter_mut().zip(&indices) {
                        if let ModeCells::Ids(cells) = mode {
                            cells.push(Cell::Integer(i64::from(index)));
                        }
                    }
                    batch.values.push(value);
                }
                other => batch.end(rows, first + number as u64 + 1, other, &[]),
            }
            self.header.advance(&mut indices[..order]);
        }
        Ok(Some(batch))
    }

    fn taken(&self, value: f64, indices: &[u32], rules: &RowRules) -> Result<Taken, String> {
        let missing = value.is_nan() || rules.missing.has_number(value);
        for (column, condition) in &rules.conditions {
            let number = match indices.get(*column) {
                Some(&index) => f64::from(index),
                // That a value is missing is said of the value.
                None if missing => continue,
                None => value,
            };
            if !condition.meets(rules::Cell::Number(number))? {
                return Ok(Taken::LeftOut);
            }
        }
        if missing {
            return rules.lacking(|| format!("the cell {indices:?} is missing: '{value}'"));
        }
        match value.is_finite() {
            true => rules.check(value, &format!("the cell {indices:?}")).map(|()| Taken::Entry),
            false => Err(format!("the cell {indices:?} is {value}, which is no finite number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(about: &str) -> Result<NpyHeader> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((about.len() as u16).to_le_bytes());
        bytes.extend(about.as_bytes());
        NpyHeader::read(&mut bytes.as_slice(), Path::new("x.npy"))
    }

    #[test]
    fn headers_say_shape_order_and_kind() {
        let c = header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }\n").unwrap();
        let f = header("{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, 4), }\n").unwrap();
        assert_eq!((c.shape.as_slice(), c.width(), f.width()), (&[2, 3, 4][..], 4, 8));
        let mut indices = [0; 3];
        let mut walked = [[0; 3]; 2];
        for place in 0..24u64 {
            c.indices(place, &mut indices);
            assert_eq!(indices, walked[0]);
            assert_eq!(indices, [place as u32 / 12, place as u32 / 4 % 3, place as u32 % 4]);
            f.indices(place, &mut indices);
            assert_eq!(indices, walked[1]);
            assert_eq!(indices, [place as u32 % 2, place as u32 / 2 % 3, place as u32 / 6]);
            c.advance(&mut walked[0]);
            f.advance(&mut walked[1]);
        }
        for header in [c, f] {
            let mut cell = vec![0; header.width()];
            header.put(-1.5, &mut cell);
            assert_eq!(header.get(&cell), -1.5);
        }
        let int = header("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }").unwrap();
        assert!(!int.has_nan() && int.get(&(-7i16).to_le_bytes()) == -7.0);
        for wrong in [
            "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }",
            "{}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (7,0), }",
        ] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }
}
