//! Grey pictures beside each other, as PNG.

use crate::Result;
use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::Write;
use std::path::Path;

const GAP: usize = 6;

/// Values of rows and columns.
pub struct Grey {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Row by row.
    pub values: Vec<f64>,
}

/// Writes pictures of the same size beside each other, from left to right; black is the least and white
/// the most of the first one.
pub fn write(path: &Path, pictures: &[Grey]) -> Result<()> {
    let Some(first) = pictures.first() else { return Ok(()) };
    let least = first.values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = first.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shade = |value: f64| ((value - least) / (most - least).max(f64::MIN_POSITIVE) * 255.0).round() as u8;
    let width = pictures.len() * (first.width + GAP) - GAP;
    let mut raw = Vec::with_capacity(first.height * (width + 1));
    for row in 0..first.height {
        raw.push(0); // Every line of a PNG begins with its filter: none.
        for (number, picture) in pictures.iter().enumerate() {
            raw.extend(std::iter::repeat_n(255, if number > 0 { GAP } else { 0 }));
            raw.extend(picture.values[row * first.width..(row + 1) * first.width].iter().map(|&v| shade(v)));
        }
    }
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&raw).map_err(failed)?;
    let packed = packed.finish().map_err(failed)?;
    let mut head = Vec::new();
    head.extend((width as u32).to_be_bytes());
    head.extend((first.height as u32).to_be_bytes());
    head.extend([8, 0, 0, 0, 0]); // 8 bits, grey, the only compression and filters, not interlaced
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", head.as_slice()), (b"IDAT", &packed), (b"IEND", &[])] {
        png.extend((data.len() as u32).to_be_bytes());
        let mut crc = Crc::new();
        for part in [name, data] {
            crc.update(part);
            png.extend(part);
        }
        png.extend(crc.sum().to_be_bytes());
    }
    std::fs::write(path, png).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_picture_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two.png");
        let one = Grey { height: 2, width: 2, values: vec![0.0, 1.0, 0.5, 0.25] };
        let two = Grey { height: 2, width: 2, values: vec![-3.0, 9.0, 0.0, 1.0] };
        write(&path, &[one, two]).unwrap();
        let png = std::fs::read(&path).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(&png[12..16], b"IHDR");
        assert_eq!(png[16..24], [0, 0, 0, 10, 0, 0, 0, 2]);
        // The checksum that every PNG ends with.
        assert_eq!(png[png.len() - 4..], [0xae, 0x42, 0x60, 0x82]);
        let length = u32::from_be_bytes([png[33], png[34], png[35], png[36]]) as usize;
        let mut raw = Vec::new();
        flate2::read::ZlibDecoder::new(&png[41..41 + length]).read_to_end(&mut raw).unwrap();
        let white = [255; GAP];
        let expected = [&[0, 0, 255][..], &white, &[0, 255], &[0, 128, 64], &white, &[0, 255]].concat();
        assert_eq!(raw, expected);
    }
}
