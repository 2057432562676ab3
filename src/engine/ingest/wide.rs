//! Wide tables: some columns name a row, and all others are the ids of one more mode, each with its value.

use super::columns::{ColumnRef, ColumnRequest, Columns, FilePlan, ModeColumn, ModeRole};
use super::number::parse_integer;
use super::rows::{Cell, ModeCells, RowBatch, Taken};
use super::text::{Parser, Verdict, Want};
use crate::MAX_ORDER;
use crate::times::parse_time;

/// What the user said of a wide table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WideRequest {
    /// The columns that name a row; the first one where not given.
    pub ids: Option<Vec<ColumnRef>>,
    /// The name of the mode that the other columns are the ids of.
    pub mode: Option<String>,
}

/// What the column mode is called where nobody names it.
const MODE: &str = "column";
/// Marks text that stands behind the text of a batch, where the names of columns are put in the end.
const BEHIND: u32 = 1 << 31;

/// The columns of a wide table that are ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Wide {
    /// Each with its name.
    pub columns: Vec<(usize, String)>,
    /// Their ids: cells, or numbers where the mode is binned.
    ids: Vec<Id>,
    /// The names one behind the other.
    names: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Id {
    Cell(Cell),
    Number { number: f64, date: bool },
}

impl Wide {
    fn new(columns: Vec<(usize, String)>, role: ModeRole) -> Result<Self, String> {
        let (mut ids, mut names) = (Vec::with_capacity(columns.len()), Vec::new());
        for (_, name) in &columns {
            ids.push(match role {
                ModeRole::Bins(binning) => match (name.parse::<f64>(), parse_time(name)) {
                    (Ok(number), _) if number.is_finite() => Id::Number { number, date: false },
                    (_, Some(number)) if binning.time => Id::Number { number, date: true },
                    _ => return Err(format!("column '{name}' is neither a number nor a date to be binned")),
                },
                _ => Id::Cell(match parse_integer(name.as_bytes()) {
                    Some(number) => Cell::Integer(number),
                    None => {
                        let start = names.len() as u32 | BEHIND;
                        names.extend_from_slice(name.as_bytes());
                        Cell::Text { start, length: name.len() as u32 }
                    }
                }),
            });
        }
        Ok(Wide { columns, ids, names })
    }

    /// Puts the id of a column behind those of the row.
    pub(super) fn push(&self, number: usize, batch: &mut RowBatch) {
        let mode = batch.modes.len() - 1;
        match (self.ids[number], &mut batch.modes[mode]) {
            (Id::Cell(cell), ModeCells::Ids(cells)) => cells.push(cell),
            (Id::Number { number, date }, ModeCells::Numbers(numbers)) => {
                numbers.push(number);
                batch.dates |= u16::from(date) << mode;
            }
            _ => {}
        }
    }

    /// Puts the names behind the text of a batch whose rows are all there.
    pub(super) fn add_names(&self, batch: &mut RowBatch) {
        let behind = batch.text.len() as u32;
        batch.text.extend_from_slice(&self.names);
        if let Some(ModeCells::Ids(cells)) = batch.modes.last_mut() {
            for cell in cells {
                if let Cell::Text { start, .. } = cell {
                    *start = (*start & !BEHIND) + behind;
                }
            }
        }
    }
}

impl Columns {
    /// Settles the columns of a wide table.
    pub(super) fn plan_wide(&self, request: &ColumnRequest, wide: &WideRequest) -> Result<FilePlan, String> {
        if request.modes.is_some() || request.value.is_some() || request.dims.is_some() {
            return Err(
                "`wide` does not go with `modes`, `value` and `dims`: `id_columns` name the rows, and \
                        all other columns are ids"
                    .into(),
            );
        }
        let first = [self.name(0)];
        let named = wide.ids.as_deref();
        let ids = match named {
            Some(names) => names.iter().map(|name| self.find(name)).collect::<Result<Vec<_>, _>>()?,
            None => vec![0],
        };
        let weight = request.weight.as_ref().map(|name| self.find(name)).transpose()?;
        let time = match &request.time {
            Some(Some(name)) => Some(self.find(name)?),
            Some(None) => return Err("`split` time needs `time_column` with `wide`".into()),
            None => None,
        };
        let other =
            |column: &usize| !ids.contains(column) && weight != Some(*column) && time != Some(*column);
        let columns: Vec<(usize, String)> =
            (0..self.count).filter(other).map(|column| (column, self.name(column))).collect();
        if columns.is_empty() {
            return Err(format!(
                "`wide` leaves no column of values beside {}",
                named.unwrap_or(&first).join(", ")
            ));
        }
        if ids.len() >= MAX_ORDER {
            return Err(format!("{} id columns and the columns themselves are more than 8 modes", ids.len()));
        }
        let mut names: Vec<&str> = columns.iter().map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two columns have the name '{}'", twice[0]));
        }
        let mode = wide.mode.clone().unwrap_or_else(|| MODE.into());
        let role = |name: &str, column: Option<usize>| {
            let bin = request.bins.iter().find(|(bin, _)| match column {
                Some(column) => self.find(bin) == Ok(column),
                None => bin == name,
            });
            bin.map_or(ModeRole::Ids, |(_, binning)| ModeRole::Bins(*binning))
        };
        let mut modes: Vec<ModeColumn> = ids
            .iter()
            .map(|&column| {
                let name = self.name(column);
                ModeColumn { role: role(&name, Some(column)), name, column }
            })
            .collect();
        let last = ModeColumn { role: role(&mode, None), name: mode, column: columns[0].0 };
        modes.push(last.clone());
        for (bin, _) in &request.bins {
            if *bin != last.name && !self.find(bin).is_ok_and(|column| ids.contains(&column)) {
                return Err(format!("`bin` names '{bin}', which is none of the modes"));
            }
        }
        for (position, mode) in modes.iter().enumerate() {
            if modes[..position].iter().any(|other| other.name == mode.name) {
                return Err(format!("two modes have the name '{}': choose another `column_mode`", mode.name));
            }
        }
        let rows = modes[..ids.len()].iter().map(|mode| mode.name.clone()).collect::<Vec<_>>().join(", ");
        let guessed = named.is_none().then(|| {
            format!("taking {rows} as the names of rows and {} columns as mode {}", columns.len(), last.name)
        });
        Ok(FilePlan {
            modes,
            value: columns[0].0,
            ones: false,
            value_name: "value".into(),
            weight: weight.map(|column| (column, self.name(column))),
            time,
            count: self.count,
            names: self.names.clone(),
            guessed,
            rules: self.rules(request)?,
            wide: Some(Wide::new(columns, last.role)?),
        })
    }
}

impl Parser {
    /// Takes a row of a wide table: an entry for every column that has a value.
    pub(super) fn take_wide<'f>(
        &self,
        wide: &Wide,
        field: impl Fn(usize) -> (&'f [u8], u32),
        line: u64,
        batch: &mut RowBatch,
    ) {
        for (number, &(column, _)) in wide.columns.iter().enumerate() {
            let rows = batch.len();
            let mut verdict = Verdict::default();
            for &(id, want) in &self.wanted {
                let (text, at) = field(id);
                verdict.hear(want, || self.take(want, text, at, batch));
            }
            let (text, at) = field(column);
            verdict.hear(Want::Value, || {
                wide.push(number, batch);
                let taken = self.take(Want::Value, text, at, batch);
                taken.map_err(|what| format!("column {}: {what}", wide.columns[number].1))
            });
            let taken = verdict.taken();
            // A row is left out or bad as a whole, and counted once.
            let whole = matches!(taken, Ok(Taken::LeftOut) | Err(_));
            batch.end(rows, line, taken, &self.times);
            if whole {
                return;
            }
        }
    }
}
