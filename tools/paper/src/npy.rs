//! Dense arrays from numpy's `.npy` files.

use crate::Result;
use std::path::Path;

/// An array of three modes, row-major.
pub struct Cube {
    /// Its dimensions.
    pub dims: [usize; 3],
    /// Its numbers, last mode fastest.
    pub values: Vec<f64>,
}

impl Cube {
    /// Reads a file with an array of three modes, of integers or floating-point numbers.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with it.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Cube::parse(&bytes).map_err(|what| format!("{}: {what}", path.display()))
    }

    /// The same of a file's bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let short = || "the file is cut short".to_string();
        if !bytes.starts_with(b"\x93NUMPY") {
            return Err("this is no .npy file".into());
        }
        // Version 1 has two bytes for the length of the header, later ones four.
        let start = if bytes.get(6) == Some(&1) { 10 } else { 12 };
        let length = bytes.get(8..start).ok_or_else(short)?;
        let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | byte as usize);
        let header = bytes.get(start..start + length).ok_or_else(short)?;
        let header = String::from_utf8_lossy(header);
        let dims: Vec<usize> = field(&header, "shape")
            .and_then(|text| text.split_once('(')?.1.split_once(')').map(|(inside, _)| inside))
            .map(|inside| inside.split(',').filter_map(|n| n.trim().parse().ok()).collect())
            .unwrap_or_default();
        let &[n1, n2, n3] = dims.as_slice() else {
            return Err(format!("the array has the shape {dims:?}: three modes are needed"));
        };
        let kind = field(&header, "descr").and_then(|text| text.split('\'').nth(1)).unwrap_or_default();
        let fortran = field(&header, "fortran_order").is_some_and(|text| text.trim().starts_with("True"));
        let (size, decode): (usize, fn(&[u8]) -> f64) = match kind {
            "|u1" | "<u1" => (1, |b| b[0].into()),
            "<u2" => (2, |b| u16::from_le_bytes([b[0], b[1]]).into()),
            "<i2" => (2, |b| i16::from_le_bytes([b[0], b[1]]).into()),
            "<i4" => (4, |b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()),
            "<f4" => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()),
            "<f8" => (8, |b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])),
            other => return Err(format!("its numbers are of the type {other:?}: save it as float64")),
        };
        let count = n1.checked_mul(n2).and_then(|n| n.checked_mul(n3)).ok_or_else(short)?;
        let data = &bytes[start + length..];
        if count.checked_mul(size) != Some(data.len()) || count == 0 {
            return Err(format!("{} bytes of numbers for the shape {dims:?}", data.len()));
        }
        let at = |place: usize| decode(&data[place * size..(place + 1) * size]);
        let mut values = Vec::with_capacity(count);
        for i in 0..n1 {
            for j in 0..n2 {
                for k in 0..n3 {
                    values.push(at(if fortran { (k * n2 + j) * n1 + i } else { (i * n2 + j) * n3 + k }));
                }
            }
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err("some of its numbers are not finite".into());
        }
        Ok(Cube { dims: [n1, n2, n3], values })
    }

    /// The mean over blocks of pixels, `by` x `by` in the first two modes; what does not fill a block
    /// falls off.
    pub fn shrunk(&self, by: usize) -> Self {
        let [n1, n2, n3] = self.dims;
        let (m1, m2) = ((n1 / by).max(1), (n2 / by).max(1));
        let mut values = vec![0.0; m1 * m2 * n3];
        for i in 0..(m1 * by).min(n1) {
            for j in 0..(m2 * by).min(n2) {
                for k in 0..n3 {
                    let to = ((i / by).min(m1 - 1) * m2 + (j / by).min(m2 - 1)) * n3 + k;
                    values[to] += self.values[(i * n2 + j) * n3 + k] / (by * by) as f64;
                }
            }
        }
        Cube { dims: [m1, m2, n3], values }
    }

    /// Values divided by the largest.
    pub fn scaled_to_one(mut self) -> Self {
        let most = self.values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        if most > 0.0 {
            self.values.iter_mut().for_each(|value| *value /= most);
        }
        self
    }
}

/// What follows a key in the header, up to the next key.
fn field<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let rest = header.split_once(&format!("'{key}':"))?.1;
    Some(rest.split("':").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kind: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn both_orders_and_several_types() {
        let c = Cube::parse(&file("|u1", "False", "(1, 2, 3)", &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!((c.dims, c.values), ([1, 2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let f = Cube::parse(&file("|u1", "True", "(1, 2, 3)", &[1, 4, 2, 5, 3, 6])).unwrap();
        assert_eq!(f.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let data: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(Cube::parse(&file("<f8", "False", "(1, 1, 2)", &data)).unwrap().values, [1.5, -2.0]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |bytes: &[u8]| Cube::parse(bytes).err().unwrap();
        assert!(wrong(b"PK").contains("no .npy file"));
        assert!(wrong(b"\x93NUMPY\x01\x00\xff").contains("cut short"));
        assert!(wrong(&file("|u1", "False", "(2, 3)", &[0; 6])).contains("three modes"));
        assert!(wrong(&file("<c16", "False", "(1, 1, 1)", &[0; 16])).contains("float64"));
        assert!(wrong(&file("|u1", "False", "(2, 2, 2)", &[0; 7])).contains("7 bytes"));
        let nan = f64::NAN.to_le_bytes();
        assert!(wrong(&file("<f8", "False", "(1, 1, 1)", &nan)).contains("finite"));
    }

    #[test]
    fn blocks_of_pixels_become_their_mean() {
        let cube = Cube { dims: [2, 5, 1], values: vec![1.0, 3.0, 5.0, 7.0, 9.0, 1.0, 3.0, 5.0, 7.0, 9.0] };
        let small = cube.shrunk(2);
        assert_eq!((small.dims, small.values), ([1, 2, 1], vec![2.0, 6.0]));
    }
}
