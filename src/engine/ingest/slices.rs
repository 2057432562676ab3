//! Parquet on all threads: slices of row groups are decoded side by side, and handed on in their order.

use super::arrow_rows::BATCH_ROWS;
use super::columns::FilePlan;
use super::parquet::{OpenPart, PartRows};
use super::parts::ParquetFile;
use super::reader::ReadOptions;
use super::rows::RowBatch;
use crate::budget::{Budget, Reservation};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::remote;
use crate::storage::guarded;
use std::collections::BTreeMap;
use std::fs::File;

/// Rows that a thread decodes at a time: a row group is cut where it has more. What comes before a slice in its
/// group is skipped page by page, and dictionaries are read again, so slices are not small.
const SLICE_ROWS: usize = 1 << 17;
/// A page is seldom larger; the rest of a column lies on disk.
const PAGE: u64 = 16 << 20;
/// What a row takes when it is parsed, beside its text.
const ROW: u64 = 64;

/// Some rows of a part.
struct Slice {
    number: usize,
    part: usize,
    open: OpenPart,
    group: usize,
    offset: usize,
    rows: usize,
    /// Rows of the part before these.
    before: u64,
}

/// Gives all rows of some parts to `each`, in order.
pub(super) fn read_parts(
    parts: &[(ParquetFile, Option<File>)],
    plan: &FilePlan,
    options: &ReadOptions,
    control: &Control,
    mut each: impl FnMut(RowBatch) -> Result<()>,
) -> Result<()> {
    let starts: Vec<u64> = parts
        .iter()
        .scan(0, |bytes, (part, _)| Some(std::mem::replace(bytes, *bytes + part.bytes)))
        .collect();
    let mut hand_on = |mut batch: RowBatch, part: usize| {
        control.check()?;
        batch.input_bytes = starts[part];
        batch.file.clone_from(&parts[part].0.path);
        each(batch)
    };
    let (threads, _memory) = fit(parts, plan, options, control)?;
    if threads == 1 {
        for (number, (part, unpacked)) in parts.iter().enumerate() {
            let mut reader = PartRows::open(part, unpacked.as_ref(), plan, control)?;
            while let Some(batch) = reader.next_rows()? {
                hand_on(batch, number)?;
            }
        }
        return Ok(());
    }
    let (give, take) = crossbeam_channel::bounded::<Slice>(threads);
    let (give_rows, take_rows) = crossbeam_channel::bounded(threads);
    // So many slices are on their way; further ones wait for those that come first.
    let (allow, allowed) = crossbeam_channel::bounded(threads + 1);
    for _ in 0..=threads {
        let _ = allow.send(());
    }
    std::thread::scope(|scope| {
        let cutter = scope.spawn(move || -> Result<()> {
            let mut number = 0;
            for (part, (about, unpacked)) in parts.iter().enumerate() {
                let open = OpenPart::open(about, unpacked.as_ref(), control)?;
                let mut before = 0;
                for (group, rows) in open.groups().into_iter().enumerate() {
                    for offset in (0..rows).step_by(SLICE_ROWS) {
                        let count = SLICE_ROWS.min(rows - offset);
                        let before = before + offset as u64;
                        let open = open.again()?;
                        let slice = Slice { number, part, open, group, offset, rows: count, before };
                        if allowed.recv().is_err() || give.send(slice).is_err() {
                            return Ok(()); // the other side has met an error
                        }
                        number += 1;
                    }
                    before += rows as u64;
                }
            }
            Ok(())
        });
        for _ in 0..threads {
            let (take, give_rows) = (take.clone(), give_rows.clone());
            scope.spawn(move || {
                for slice in take {
                    let (number, part) = (slice.number, slice.part);
                    // A panic here would leave the others waiting for this slice.
                    let rows = guarded(|| slice.rows(&parts[part].0, plan));
                    let rows = rows.unwrap_or_else(|what| Err(Error::input(&parts[part].0.path, what)));
                    if give_rows.send((number, part, rows)).is_err() {
                        break;
                    }
                }
            });
        }
        drop((take, give_rows));
        let (mut waiting, mut next, mut result) = (BTreeMap::new(), 0, Ok(()));
        'rows: for (number, part, rows) in take_rows.iter() {
            waiting.insert(number, (part, rows));
            while let Some((part, rows)) = waiting.remove(&next) {
                next += 1;
                let handed = rows.and_then(|rows| rows.into_iter().try_for_each(|rows| hand_on(rows, part)));
                if handed.is_err() {
                    result = handed;
                    break 'rows;
                }
                // Nobody waits for it at the end.
                let _ = allow.send(());
            }
        }
        drop((take_rows, allow));
        let cut = cutter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(cut)
    })
}

impl Slice {
    fn rows(self, part: &ParquetFile, plan: &FilePlan) -> Result<Vec<RowBatch>> {
        let Slice { open, group, offset, rows, before, .. } = self;
        let mut reader = PartRows::slice(open, part, plan, (group, offset, rows), before)?;
        let mut batches = Vec::with_capacity(rows / BATCH_ROWS + 1);
        while let Some(batch) = reader.next_rows()? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

/// How many threads there is memory for, and the memory: of pages, and of rows that wait for their turn. Objects of a
/// store are read by one, whose memory is reserved already.
fn fit(
    parts: &[(ParquetFile, Option<File>)],
    plan: &FilePlan,
    options: &ReadOptions,
    control: &Control,
) -> Result<(usize, Option<Reservation>)> {
    let far = parts.iter().any(|(part, unpacked)| unpacked.is_none() && remote::is_remote(&part.path));
    let Some(budget) = options.budget.as_ref().filter(|_| !far) else {
        return Ok((if far { 1 } else { options.threads.max(1) }, None));
    };
    // The first part speaks for all: they are of one table.
    let open = OpenPart::open(&parts[0].0, parts[0].1.as_ref(), control)?;
    let pages = open.chunk_bytes(&plan.used()).into_iter().map(|bytes| bytes.min(PAGE)).sum::<u64>();
    let rows = open.groups().into_iter().max().unwrap_or(0).min(SLICE_ROWS) as u64;
    let slice = rows * (ROW + 24 * plan.modes.len() as u64);
    let wanted = |threads: u64| pages * threads + slice * (threads + 2);
    let reserve = |budget: &Budget, bytes: u64| budget.reserve(bytes, "reading Parquet");
    for threads in (2..=options.threads as u64).rev() {
        // Rows that are kept need the rest.
        if wanted(threads) <= budget.free() / 3 {
            return Ok((threads as usize, Some(reserve(budget, wanted(threads))?)));
        }
    }
    let one = reserve(budget, pages).map_err(|error| match error {
        Error::Budget { budget, needed, .. } => {
            let what = format!("reading the row groups of {}", parts[0].0.path.display());
            Error::Budget { budget, needed, what }
        }
        error => error,
    })?;
    Ok((1, Some(one)))
}
