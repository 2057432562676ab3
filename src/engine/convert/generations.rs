//! Ids that did not fit into memory, in a scratch file.
//!
//! A generation is what the tables of a mode held when they were full: its labels in order, and for each
//! of its provisional numbers the position of the label. Rows carry numbers of the generation in which they came.
//! When all rows are in, the labels of all generations are merged, each distinct one gets its
//! index, and every generation gets the indices of its labels, in order.

use super::ids::Numbering;
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{IoContext, Result};
use crate::ingest::dictionary::{Code, Extras, Sorted};
use crate::ingest::label::{Label, OwnedKey};
use bytemuck::Pod;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is written or read at once.
const PIECE: usize = 256 << 10;
/// The least that a buffer of the merge may have: below this, reading is all seeks.
const LEAST: u64 = 4 << 10;

/// From the provisional numbers of integers and of texts to positions or indices.
#[derive(Debug, Default)]
pub(super) struct Maps {
    pub(super) to_index: [Vec<u32>; 2],
    /// The integers themselves, and the hashes of texts.
    pub(super) seeds: [Vec<u64>; 2],
}

impl Maps {
    /// To the positions of labels in their order.
    pub(super) fn positions(sorted: &mut Sorted) -> Self {
        let counts = [sorted.integers.len(), sorted.hashes.len()];
        let mut to_index = counts.map(|count| vec![0; count]);
        for (position, &code) in sorted.order.iter().enumerate() {
            match Code::of(code) {
                Code::Integer(n) => to_index[0][n] = position as u32,
                Code::Text(n) => to_index[1][n] = position as u32,
                Code::Dense(_) => {}
            }
        }
        let integers = sorted.integers.iter().map(|&value| value as u64).collect();
        let seeds = [integers, std::mem::take(&mut sorted.hashes)];
        Maps { to_index, seeds }
    }

    /// From positions on to what is at each of them.
    pub(super) fn point_to(&mut self, indices: &[u32]) {
        self.to_index.iter_mut().flatten().for_each(|position| *position = indices[*position as usize]);
    }
}

/// A generation in the scratch file.
#[derive(Debug)]
struct Generation {
    /// Rows before this one carry its numbers, or those of an earlier one.
    until: u64,
    /// Where its labels are, and how many bytes they have.
    labels: (u64, u64),
    /// Integers and texts.
    counts: [usize; 2],
    /// Where its maps are.
    maps: u64,
    /// Where the indices of its labels are, in order.
    indices: u64,
}

impl Generation {
    fn len(&self) -> usize {
        self.counts[0] + self.counts[1]
    }
}

/// The generations of a mode.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    end: u64,
    directory: PathBuf,
    generations: Vec<Generation>,
    /// Where the distinct labels are, and how many bytes they have.
    labels: (u64, u64),
}

impl Spill {
    /// None yet.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).context("create a scratch file in", directory)?;
        Ok(Spill { file, end: 0, directory: directory.into(), generations: Vec::new(), labels: (0, 0) })
    }

    /// The most memory that a generation takes while its rows are looked up: position, index, seed.
    pub(super) fn memory(&self) -> u64 {
        let sizes = self.generations.iter().map(|generation| generation.len() as u64 * 16);
        sizes.max().unwrap_or(0)
    }

    /// How many distinct labels there are, at the most.
    pub(super) fn most(&self) -> u64 {
        self.generations.iter().map(|generation| generation.len() as u64).sum()
    }

    /// Takes ids out of memory; `rows` have come so far.
    pub(super) fn add(&mut self, extras: Extras, rows: u64) -> Result<()> {
        let mut sorted = extras.sorted();
        let start = self.end;
        let mut writer = Writer::new(self.end, PIECE);
        for position in 0..sorted.order.len() {
            put(&mut writer.buffer, sorted.label(position));
            writer.when_full(&self.file).context("write a scratch file in", &self.directory)?;
        }
        let end = writer.finish(&self.file).context("write a scratch file in", &self.directory)?;
        let counts = [sorted.integers.len(), sorted.hashes.len()];
        let Maps { to_index, seeds } = Maps::positions(&mut sorted);
        drop(sorted);
        let maps = end.next_multiple_of(8);
        let mut at = maps;
        for bytes in to_index.iter().map(|map| bytemuck::cast_slice(map)) {
            at = self.write(bytes, at)?;
        }
        for bytes in seeds.iter().map(|seeds| bytemuck::cast_slice(seeds)) {
            at = self.write(bytes, at)?;
        }
        let generation = Generation { until: rows, labels: (start, end - start), counts, maps, indices: at };
        self.end = at + generation.len() as u64 * 4;
        self.generations.push(generation);
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<u64> {
        self.file.write_all_at(bytes, at).context("write a scratch file in", &self.directory)?;
        Ok(at + bytes.len() as u64)
    }

    fn read<T: Pod>(&self, count: usize, at: &mut u64) -> Result<Vec<T>> {
        let mut numbers = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut numbers);
        self.file.read_exact_at(bytes, *at).context("read a scratch file in", &self.directory)?;
        *at += bytes.len() as u64;
        Ok(numbers)
    }

    /// Merges the labels of all generations; tells whether all of them are integers.
    pub(super) fn merge(
        &mut self,
        numbering: &mut Numbering<'_>,
        budget: &Budget,
        control: &Control,
    ) -> Result<bool> {
        // For each generation a buffer to read labels and one to write indices.
        let buffers = self.generations.len() as u64 * 2;
        let each = (budget.free() / 2 / buffers.max(1)).clamp(LEAST, PIECE as u64);
        let _memory = budget.reserve(buffers * each, "the merge of ids")?;
        let mut readers: Vec<Reader<'_>> = Vec::new();
        let mut indices: Vec<Writer> = Vec::new();
        let mut heads = BinaryHeap::new();
        for (number, generation) in self.generations.iter().enumerate() {
            let mut reader = self.reader(generation.labels, each as usize);
            heads.extend(reader.next()?.map(|key| Reverse((Head(key), number))));
            readers.push(reader);
            indices.push(Writer::new(generation.indices, each as usize));
        }
        let scratch = "write a scratch file in";
        let mut labels = Writer::new(self.end, PIECE);
        let mut last: Option<(OwnedKey, u32)> = None;
        let (mut all_integers, mut done) = (true, 0u64);
        while let Some(Reverse((Head(key), number))) = heads.pop() {
            if done.is_multiple_of(65_536) {
                control.check()?;
            }
            done += 1;
            let index = match &last {
                Some((before, index)) if before.label() == key.label() => *index,
                _ => {
                    let index = numbering.index(&key.key())?;
                    all_integers &= matches!(key.label(), Label::Integer(_));
                    put(&mut labels.buffer, key.label());
                    labels.when_full(&self.file).context(scratch, &self.directory)?;
                    last = Some((key, index));
                    index
                }
            };
            indices[number].buffer.extend_from_slice(&index.to_le_bytes());
            indices[number].when_full(&self.file).context(scratch, &self.directory)?;
            heads.extend(readers[number].next()?.map(|key| Reverse((Head(key), number))));
        }
        for writer in indices {
            writer.finish(&self.file).context(scratch, &self.directory)?;
        }
        let end = labels.finish(&self.file).context(scratch, &self.directory)?;
        drop(readers);
        self.labels = (self.end, end - self.end);
        self.end = end;
        Ok(all_integers)
    }

    /// The maps for a row's numbers, and the first row after it that they do not serve.
    pub(super) fn load(&self, row: u64) -> Result<(Maps, u64)> {
        let Some(generation) = self.generations.iter().find(|generation| row < generation.until) else {
            return Ok((Maps::default(), u64::MAX));
        };
        let mut at = generation.maps;
        let [integers, texts] = generation.counts;
        let to_index = [self.read(integers, &mut at)?, self.read(texts, &mut at)?];
        let seeds = [self.read(integers, &mut at)?, self.read(texts, &mut at)?];
        let mut maps = Maps { to_index, seeds };
        maps.point_to(&self.read(generation.len(), &mut at)?);
        Ok((maps, generation.until))
    }

    /// The distinct labels, in order.
    pub(super) fn labels(&self) -> Reader<'_> {
        self.reader(self.labels, PIECE)
    }

    fn reader(&self, (at, bytes): (u64, u64), buffer: usize) -> Reader<'_> {
        let section = Section { file: &self.file, at, end: at + bytes };
        Reader { inner: BufReader::with_capacity(buffer, section), directory: &self.directory }
    }
}

/// A label at the head of its generation.
struct Head(OwnedKey);

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The same text may stand there as an integer and as text: these are two ids.
        let is_text = |key: &OwnedKey| matches!(key.label(), Label::Text(_));
        self.0.key().cmp(&other.0.key()).then_with(|| is_text(&self.0).cmp(&is_text(&other.0)))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

/// A label as bytes: its length plus one and the text, or 0 and an integer.
fn put(out: &mut Vec<u8>, label: Label<'_>) {
    match label {
        Label::Integer(value) => {
            out.extend_from_slice(&0u32.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        Label::Text(text) => {
            out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
            out.extend_from_slice(text);
        }
    }
}

/// Bytes on their way to a place in the file.
struct Writer {
    buffer: Vec<u8>,
    at: u64,
    most: usize,
}

impl Writer {
    fn new(at: u64, most: usize) -> Self {
        Writer { buffer: Vec::new(), at, most }
    }

    fn when_full(&mut self, file: &File) -> io::Result<()> {
        if self.buffer.len() < self.most {
            return Ok(());
        }
        file.write_all_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left, and gives where it ends.
    fn finish(self, file: &File) -> io::Result<u64> {
        file.write_all_at(&self.buffer, self.at)?;
        Ok(self.at + self.buffer.len() as u64)
    }
}

/// A stretch of the file.
struct Section<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min((self.end - self.at) as usize);
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Labels, one after the other.
pub(super) struct Reader<'f> {
    inner: BufReader<Section<'f>>,
    directory: &'f Path,
}

impl Reader<'_> {
    pub(super) fn next(&mut self) -> Result<Option<OwnedKey>> {
        self.read().context("read a scratch file in", self.directory)
    }

    fn read(&mut self) -> io::Result<Option<OwnedKey>> {
        if self.inner.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.inner.read_exact(&mut length)?;
        Ok(Some(match u32::from_le_bytes(length) {
            0 => {
                let mut value = [0; 8];
                self.inner.read_exact(&mut value)?;
                OwnedKey::new(Label::Integer(i64::from_le_bytes(value)))
            }
            length => {
                let mut text = vec![0; length as usize - 1];
                self.inner.read_exact(&mut text)?;
                OwnedKey::new(Label::Text(&text))
            }
        }))
    }
}
