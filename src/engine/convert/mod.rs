//! Joins the first three stages: rows in ([`crate::ingest`]), sorted ([`crate::sort`]), shards out
//! ([`crate::shard`]).
//!
//! Rows are read once. Their ids get provisional numbers and go, with the value, into a `spool`
//! (memory first, then a scratch file without a name); so do ids that do not fit into memory. When all
//! ids are known the labels are
//! sorted, the mode order is chosen, and the spooled rows are sorted by their final indices;
//! duplicates meet in the merge, and what comes out is written block by block. So the same rows in
//! any order give the same bytes.
//!
//! Rows that are appended to a dataset go the same way (`append`): their ids are found among those of the
//! dataset (`before`), and its entries, which are sorted, come to the merge beside them (`old`).

mod absent;
mod append;
mod before;
mod build;
mod gather;
mod generations;
mod ids;
mod merge;
mod notes;
mod old;
mod options;
mod order;
mod resolve;
mod split;
mod spool;

pub use append::{AppendOptions, append, append_batches, append_on};
pub use build::NO_TRAIN;
pub use gather::Gather;
pub use options::{ConvertOptions, Converted, Duplicates, SplitRule};

use crate::budget::Budget;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::ingest::source::{display_name, is_stdin};
use crate::ingest::{self, Batches, ReadOptions, STREAM, Source, reader};
use crate::remote;
use crate::shard::{DatasetKind, Split};
use crate::storage::{Disk, Output, RealDisk, Staging};
use crate::units;
use std::path::{Path, PathBuf};

/// What a conversion is given beside the files that its options name.
#[derive(Default)]
struct Handed<'h> {
    /// Rows of a program, each with their split; they come before the files of it.
    batches: Vec<(Split, Batches)>,
    /// The only input, where it is opened again later.
    source: Option<&'h Source>,
    /// Of which modes all ids are whole numbers in the dataset that rows are appended to.
    whole: Vec<bool>,
}

/// Where rows come from.
enum Origin<'h> {
    /// A file.
    File(PathBuf),
    /// An input that is opened again later.
    Source(&'h Source),
    /// Batches that a program hands over.
    Batches(Batches),
}

impl Origin<'_> {
    /// What it is called in messages.
    fn name(&self) -> PathBuf {
        match self {
            Origin::File(path) => display_name(path),
            Origin::Source(source) => source.name(),
            Origin::Batches(_) => STREAM.into(),
        }
    }

    fn bytes(&self, control: &Control) -> u64 {
        match self {
            Origin::File(path) => reader::input_bytes(path, control),
            Origin::Source(source) => reader::input_bytes(source.path(), control),
            Origin::Batches(_) => 0,
        }
    }
}

/// Converts files to a dataset.
pub fn convert(options: &ConvertOptions, control: &Control) -> Result<Converted> {
    convert_on(&RealDisk, options, control)
}

/// The same on a given disk.
pub fn convert_on(disk: &dyn Disk, options: &ConvertOptions, control: &Control) -> Result<Converted> {
    convert_all(disk, options, Handed::default(), control)
}

/// The same of the one input that the options name, which is opened again later.
pub fn convert_source(options: &ConvertOptions, source: &Source, control: &Control) -> Result<Converted> {
    convert_all(&RealDisk, options, Handed { source: Some(source), ..Handed::default() }, control)
}

/// The same with batches before the files of their split.
pub fn convert_batches(
    options: &ConvertOptions,
    batches: Vec<(Split, Batches)>,
    control: &Control,
) -> Result<Converted> {
    convert_all(&RealDisk, options, Handed { batches, ..Handed::default() }, control)
}

/// All inputs in the order in which they are read, each with its split where they are given by it.
fn all_rows<'h>(
    options: &ConvertOptions,
    handed: Handed<'h>,
    given: bool,
    control: &Control,
) -> Result<Vec<(Origin<'h>, Option<Split>)>> {
    let own = [&options.inputs, &options.validation, &options.test];
    let mut rows: [Vec<Origin<'_>>; 3] = Default::default();
    let batches = handed.batches.into_iter();
    batches.for_each(|(split, batches)| rows[split as usize].push(Origin::Batches(batches)));
    // What lies under its name may be many files; a copy is one.
    let copy = handed.source.filter(|source| !source.is_named());
    rows[0].extend(copy.map(Origin::Source));
    for (rows, files) in rows.iter_mut().zip(own) {
        for file in files.iter().filter(|file| copy.is_none_or(|copy| copy.path() != file.as_path())) {
            rows.extend(expanded(file, control)?.into_iter().map(Origin::File));
        }
    }
    let parts = given || rows[1..].iter().any(|rows| !rows.is_empty());
    let splits = rows.into_iter().zip(Split::ALL);
    Ok(splits
        .flat_map(|(rows, split)| rows.into_iter().map(move |rows| (rows, parts.then_some(split))))
        .collect())
}

/// The files that an address with a pattern, or of a folder in a store, stands for. Parts of Parquet stay together:
/// the names of their folders are columns of one table.
fn expanded(file: &Path, control: &Control) -> Result<Vec<PathBuf>> {
    if remote::several(file).is_none() {
        return Ok(vec![file.into()]);
    }
    let found = remote::list(file, control)?;
    let Some(first) = found.first() else { return Err(Error::input(file, "no object has such a name")) };
    if ingest::parquet::is_parquet(&first.path, control)? {
        return Ok(vec![file.into()]);
    }
    Ok(found.into_iter().map(|object| object.path).collect())
}

fn convert_all(
    disk: &dyn Disk,
    options: &ConvertOptions,
    handed: Handed<'_>,
    control: &Control,
) -> Result<Converted> {
    check_inputs(options)?;
    let staging = Staging::create(disk, &output(options), &DatasetKind)?;
    let budget = Budget::new(options.memory)?;
    let scratch = scratch_directory(options.temp_dir.as_deref(), &options.output)?;
    let gather = gather_all(options, handed, false, &budget, &scratch, control)?;
    build::build(gather, None, options, staging, &budget, &scratch, control)
}

/// Reads all rows; they come with their split where it is `given`, or where there are files of several.
fn gather_all(
    options: &ConvertOptions,
    handed: Handed<'_>,
    given: bool,
    budget: &Budget,
    scratch: &Path,
    control: &Control,
) -> Result<Gather> {
    let mut read = options.read.clone();
    // A thread holds a chunk and the rows parsed from it, some ten times as large.
    let threads = read.threads.clamp(1, crate::usage::most_threads());
    read.threads = threads;
    read.chunk = (options.memory as usize / (threads * 200)).clamp(32 << 10, 512 << 10);
    read.scratch = scratch.into();
    read.budget = Some(budget.clone());
    read.columns.transform = options.transform;
    let pipeline = budget.reserve((threads * read.chunk * 24) as u64 + (4 << 20), "reading")?;
    let far = inputs(options).any(|path| remote::is_remote(path));
    let objects = far.then(|| budget.reserve(remote::MEMORY, "reading from a store")).transpose()?;

    let whole = handed.whole.clone();
    let all = all_rows(options, handed, given, control)?;
    let sizes: Vec<u64> = all.iter().map(|(rows, _)| rows.bytes(control)).collect();
    control.progress().stage("read", Unit::Bytes, sizes.iter().sum());
    let mut gather: Option<Gather> = None;
    let (mut before, mut array) = (0, false);
    for ((rows, part), bytes) in all.into_iter().zip(sizes) {
        let name = rows.name();
        let input = match rows {
            Origin::File(path) => ingest::open(&path, &read, control)?,
            Origin::Source(source) => ingest::open_source(source, &read, control)?,
            Origin::Batches(batches) => ingest::open_batches(batches, &read)?,
        };
        let gather = match &mut gather {
            Some(gather) => {
                gather.same_modes(input.plan()).map_err(|what| Error::input(&name, what))?;
                gather
            }
            None => {
                if let Some(guess) = &input.plan().guessed {
                    control.say(guess);
                }
                fix_columns(&mut read, input.plan());
                let tagged = part.is_some();
                let guessed = input.plan().guessed.is_some() && input.plan().wide.is_none();
                let new = Gather::new(input.plan(), tagged, budget, scratch, options.skip_bad)?;
                let new = gather.insert(new);
                new.guessed = guessed && options.read.columns.modes.is_none();
                new.set_whole(&whole);
                new
            }
        };
        array |= input.is_array();
        let before_it = (gather.rows(), gather.empty + gather.left_out);
        ingest::read_rows(input, &read, control, |batch| {
            control.progress().advance(before + batch.input_bytes, &units::rows(gather.rows()));
            gather.take(&batch, part)
        })?;
        if (gather.rows(), gather.empty + gather.left_out) == before_it {
            let what =
                if gather.bad_rows() > 0 { "no row of the file can be used" } else { "the file has no rows" };
            let what =
                if name == Path::new(STREAM) { what.replace("the file", "the stream") } else { what.into() };
            return Err(Error::input(name, what));
        }
        before += bytes;
    }
    drop((pipeline, objects));
    gather.iter().flat_map(Gather::odd_ids).for_each(|odd| control.say(odd));
    let Some(gather) = gather else { return Err(Error::request("there is no input file")) };
    if gather.rows() == 0 {
        let (value, empty) = (&gather.value_name, units::count(gather.empty));
        return Err(Error::request(match gather.left_out {
            0 if array => format!(
                "the array holds no number: all {empty} cells are missing, so that nothing can be learned"
            ),
            0 if read.columns.wide.is_some() => {
                format!("the table holds no number: all {empty} cells are missing")
            }
            0 => format!(
                "no row has a value: {value} is empty in all {empty} rows; name the column of the values with `value`"
            ),
            n => format!("no row is left: `where` leaves out {}, and {empty} have no value", units::count(n)),
        }));
    }
    Ok(gather)
}

/// Writes entries that a program makes (`fill` pushes them into the [`Gather`]) as a dataset.
pub fn convert_entries(
    options: &ConvertOptions,
    names: &[String],
    dims: &[u32],
    control: &Control,
    fill: impl FnOnce(&mut Gather) -> Result<()>,
) -> Result<Converted> {
    convert_entries_within(options, names, dims, &Budget::new(options.memory)?, control, fill)
}

/// The same within a budget that the program has taken a part of.
pub fn convert_entries_within(
    options: &ConvertOptions,
    names: &[String],
    dims: &[u32],
    budget: &Budget,
    control: &Control,
    fill: impl FnOnce(&mut Gather) -> Result<()>,
) -> Result<Converted> {
    let disk = RealDisk;
    let staging = Staging::create(&disk, &output(options), &DatasetKind)?;
    let scratch = scratch_directory(options.temp_dir.as_deref(), &options.output)?;
    let mut gather = Gather::for_indices(names, dims, budget, &scratch)?;
    fill(&mut gather)?;
    build::build(gather, None, options, staging, budget, &scratch, control)
}

/// Later files must have the columns of the first: what was guessed once is asked for by name, and
/// a file without a header has the names of the first one's.
fn fix_columns(read: &mut ReadOptions, plan: &ingest::FilePlan) {
    if read.columns.wide.is_some() {
        return; // every wide file has its own columns
    }
    let Some(names) = &plan.names else { return };
    let columns = &mut read.columns;
    // An unnamed column was asked for by its number; that stays.
    if columns.modes.is_none() && plan.modes.iter().all(|mode| names.contains(&mode.name)) {
        columns.modes = Some(plan.modes.iter().map(|mode| mode.name.clone()).collect());
        let binned = plan.modes.iter().filter_map(|mode| match mode.role {
            ingest::ModeRole::Bins(binning) => Some((mode.name.clone(), binning)),
            _ => None,
        });
        columns.bins = binned.collect();
    }
    if let Some((_, name)) = plan.weight.as_ref().filter(|(_, name)| names.contains(name)) {
        columns.weight = Some(name.clone());
    }
    if columns.value.is_none() && names.contains(&plan.value_name) {
        columns.value = Some(plan.value_name.clone());
    }
    columns.names = Some(names.clone());
}

/// All that is read.
fn inputs(options: &ConvertOptions) -> impl Iterator<Item = &PathBuf> {
    options.inputs.iter().chain(&options.validation).chain(&options.test)
}

fn output(options: &ConvertOptions) -> Output {
    Output::new(&options.output, options.force).apart_from(inputs(options))
}

/// What can be seen to be wrong with the inputs before anything is done.
fn check_inputs(options: &ConvertOptions) -> Result<()> {
    if inputs(options).filter(|path| is_stdin(path)).count() > 1 {
        return Err(Error::request("standard input (-) can be read only once"));
    }
    Ok(())
}

/// Scratch files go beside the output unless the user says otherwise.
fn scratch_directory(asked: Option<&Path>, output: &Path) -> Result<PathBuf> {
    let beside = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = asked.unwrap_or(beside);
    if !directory.is_dir() {
        return Err(Error::input(directory, "there is no such directory for temporary files (`temp_dir`)"));
    }
    Ok(directory.into())
}
