//! Which columns are the modes, and which is the value: named, numbered, or guessed.

use super::nearly;
use super::number::parse_number;
use super::rules::{Condition, RowRules, Signs};
use super::times::TimesSeen;
use super::wide::{Wide, WideRequest};
use crate::message::list;
use crate::times::parse_time;
use crate::transform::Transform;
use crate::{MAX_ORDER, MIN_ORDER};

/// A column as the user gives it: a name of the header, or a number from 1.
pub type ColumnRef = String;

/// How a numeric mode is cut into bins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binning {
    /// The width: seconds for times, else the column's own unit.
    pub width: f64,
    /// Whether the column holds times.
    pub time: bool,
}

impl Binning {
    /// From `7d`, `12h` (times) or `10`, `0.5` (numbers).
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(width) = crate::units::parse_seconds(text) {
            return Ok(Binning { width, time: true });
        }
        match text.trim().parse::<f64>() {
            Ok(width) if width.is_finite() && width > 0.0 => Ok(Binning { width, time: false }),
            _ => Err(format!(
                "'{text}' is no width of a bin: write 7d or 12h for times, 10 or 0.5 for numbers"
            )),
        }
    }
}

/// What the user said about columns.
#[derive(Debug, Clone, Default)]
pub struct ColumnRequest {
    /// The modes.
    pub modes: Option<Vec<ColumnRef>>,
    /// The value.
    pub value: Option<ColumnRef>,
    /// The weight, where entries have one.
    pub weight: Option<ColumnRef>,
    /// Modes that are binned.
    pub bins: Vec<(ColumnRef, Binning)>,
    /// Whether a column of times is needed for the split, and which, if said.
    pub time: Option<Option<ColumnRef>>,
    /// Fixed dimensions: ids are indices then.
    pub dims: Option<Vec<u32>>,
    /// The header of an earlier file, for files that have none.
    pub names: Option<Vec<String>>,
    /// Whether indices begin at 0 rather than 1 (`.tns` files, and with fixed dimensions).
    pub zero_based: bool,
    /// Whether a missing value is an error, instead of a missing entry.
    pub strict: bool,
    /// What else stands for a missing value, beside NA and its like.
    pub missing: Vec<String>,
    /// What rows must meet.
    pub conditions: Vec<Condition>,
    /// What values are kept as: those that it does not take are bad.
    pub transform: Option<Transform>,
    /// Whether columns are ids of a mode.
    pub wide: Option<WideRequest>,
    /// Whether every row has the value 1, where no column is named or called like one.
    pub ones: bool,
    /// Whether a column of times that nobody names a bin for has each time as an id of its own.
    pub plain_times: bool,
}

impl ColumnRequest {
    /// Whether a first line must be a header, because a name that was asked for stands in it. Numbers
    /// of columns are no names; and of a further file a row of data may hold a name of the first
    /// file's header, but not all that were asked for.
    pub fn in_header(&self, line: &[String]) -> bool {
        let single = [&self.value, &self.weight, self.time.as_ref().unwrap_or(&None)];
        let bins = self.bins.iter().map(|(name, _)| name);
        let conditions = self.conditions.iter().map(|condition| &condition.column);
        let asked = self.modes.iter().flatten().chain(single.into_iter().flatten()).chain(bins);
        let asked = asked.chain(conditions);
        let mut names = asked.filter(|name| !is_column_number(name, line.len())).peekable();
        // Of `user, movie` the blank is no part of the name, unless it is.
        let has = |name: &str| line.iter().any(|own| own == name || own == name.trim());
        match self.names {
            None => names.any(|name| has(name)),
            Some(_) => names.peek().is_some() && names.all(|name| has(name)),
        }
    }
}

/// What a file has to offer.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// The header, where there is one.
    pub names: Option<Vec<String>>,
    /// The number of columns.
    pub count: usize,
    /// A first row, to guess from; may be empty.
    pub first: Vec<String>,
    /// Of columns that are nearly numbers, but for commas or percent signs, an example.
    pub nearly: Vec<Option<String>>,
    /// Whether this is FROSTT's format: 1-based indices, then the value.
    pub tns: bool,
}

/// What the ids of a mode are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModeRole {
    /// Labels, kept in a dictionary.
    Ids,
    /// Indices: id - base, below dim where it is fixed.
    Indices {
        /// The id of index 0.
        base: i64,
        /// The fixed dimension.
        dim: Option<u32>,
    },
    /// Numbers or times to be binned.
    Bins(Binning),
}

/// One mode's column.
#[derive(Debug, Clone, PartialEq)]
pub struct ModeColumn {
    /// The mode's name.
    pub name: String,
    /// The column, from 0.
    pub column: usize,
    /// What its ids are.
    pub role: ModeRole,
}

/// How to read the rows of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePlan {
    /// The modes in the user's order.
    pub modes: Vec<ModeColumn>,
    /// The value's column, from 0; none that there is where every row has the value 1.
    pub value: usize,
    /// Whether every row has the value 1.
    pub ones: bool,
    /// The value's name.
    pub value_name: String,
    /// The weight's column and name, where entries have one.
    pub weight: Option<(usize, String)>,
    /// The column of times for the split.
    pub time: Option<usize>,
    /// How many columns every row has.
    pub count: usize,
    /// The header, where there is one.
    pub names: Option<Vec<String>>,
    /// What was guessed, for people.
    pub guessed: Option<String>,
    /// Which rows are taken.
    pub rules: RowRules,
    /// The columns that are ids of the last mode, each with a value.
    pub wide: Option<Wide>,
}

impl FilePlan {
    /// The names of the modes, with the dimensions that are known before the rows are.
    pub fn dims(&self) -> impl Iterator<Item = (String, Option<u32>)> {
        let columns = self.wide.as_ref().map(|wide| wide.columns.len() as u32);
        let last = self.modes.len() - 1;
        self.modes.iter().enumerate().map(move |(position, mode)| {
            let dim = match mode.role {
                ModeRole::Indices { dim, .. } => dim,
                // Columns are ids, none of which can be new; several may fall into one bin.
                ModeRole::Ids => columns.filter(|_| position == last),
                ModeRole::Bins(_) => None,
            };
            (mode.name.clone(), dim)
        })
    }

    /// The columns of times, by the places that [`TimesSeen`] has for them.
    pub fn times(&self) -> Vec<usize> {
        let is_time = |mode: &ModeColumn| matches!(mode.role, ModeRole::Bins(Binning { time: true, .. }));
        let modes = self.modes.iter().enumerate().filter(|(_, mode)| is_time(mode));
        modes.map(|(position, _)| position).chain(self.time.map(|_| TimesSeen::SPLIT)).collect()
    }

    /// The columns of values: one, or many where the table is wide.
    pub fn values(&self) -> Vec<usize> {
        match &self.wide {
            Some(wide) => wide.columns.iter().map(|(column, _)| *column).collect(),
            None if self.ones => Vec::new(),
            None => vec![self.value],
        }
    }

    /// The modes that have a column of their own.
    pub fn id_columns(&self) -> &[ModeColumn] {
        &self.modes[..self.modes.len() - usize::from(self.wide.is_some())]
    }

    /// All columns that are looked at, ascending.
    pub fn used(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.id_columns().iter().map(|mode| mode.column).collect();
        used.extend(self.values());
        used.extend(self.weight.as_ref().map(|(column, _)| *column));
        used.extend(self.time);
        used.extend(self.rules.conditions.iter().map(|(column, _)| *column));
        used.sort_unstable();
        used.dedup();
        used
    }
}

/// What the value is called where every row is a 1.
pub const ONES_NAME: &str = "value";
const VALUE_NAMES: [&str; 9] =
    ["rating", "value", "stars", "score", "ratings", "val", "overall", "reading", "measurement"];
const TIME_NAMES: [&str; 8] =
    ["timestamp", "date", "time", "datetime", "ts", "unixtime", "unixreviewtime", "rating_timestamp"];
const WEEK: Binning = Binning { width: 604_800.0, time: true };

/// Whether what was asked for may be the number of a column, of so many.
pub fn is_column_number(wanted: &str, columns: usize) -> bool {
    wanted.parse().is_ok_and(|number| (1..=columns).contains(&number))
}

/// Whether a name says that a column is the value, by its last word: `rating`, `Book-Rating`.
pub(super) fn names_value(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit(|c: char| !c.is_alphanumeric()).next();
    last.is_some_and(|last| VALUE_NAMES.contains(&last))
}

/// The column of that name; an error where two have it.
pub fn find_name(names: &[String], wanted: &str) -> Result<Option<usize>, String> {
    let mut found = (0..names.len()).filter(|&column| names[column] == wanted);
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => Err(format!(
            "two columns have the name '{wanted}', {} and {}: say which by its number",
            one + 1,
            other + 1
        )),
        (column, _) => Ok(column),
    }
}

impl Columns {
    pub(super) fn name(&self, column: usize) -> String {
        match &self.names {
            Some(names) if !names[column].is_empty() => names[column].clone(),
            None if self.tns => format!("mode{}", column + 1),
            _ => format!("column{}", column + 1),
        }
    }

    /// Finds a column by name, else by number.
    pub(super) fn find(&self, wanted: &str) -> Result<usize, String> {
        if let Some(column) = find_name(self.names.as_deref().unwrap_or_default(), wanted)? {
            return Ok(column);
        }
        // What a file without a header got its names from.
        let made = wanted.strip_prefix("column").or_else(|| wanted.strip_prefix("mode"));
        let number = made.filter(|_| self.names.is_none()).unwrap_or(wanted);
        match number.parse::<usize>() {
            Ok(number) if (1..=self.count).contains(&number) => return Ok(number - 1),
            Ok(_) => return Err(format!("there is no column {wanted}: the file has {}", self.count)),
            Err(_) => {}
        }
        if wanted.trim() != wanted {
            return self.find(wanted.trim());
        }
        let like = |name: &&String| name.to_lowercase() == wanted.to_lowercase();
        match &self.names {
            Some(names) => {
                let meant = names.iter().find(like);
                let meant = meant.map_or(String::new(), |name| format!("did you mean '{name}'? "));
                Err(format!("there is no column '{wanted}': {meant}the columns are {}", list(names)))
            }
            None => Err(format!(
                "there is no column '{wanted}': the file has no header, so give numbers from 1 to {}",
                self.count
            )),
        }
    }

    fn is_named(&self, column: usize, list: &[&str]) -> bool {
        self.names.as_ref().is_some_and(|names| {
            let plain = names[column].to_lowercase().replace([' ', '-'], "_");
            list.contains(&plain.as_str())
        })
    }

    /// Whether a column is the row number that pandas writes: the first, without a name.
    fn is_row_number(&self, column: usize) -> bool {
        column == 0
            && self.names.as_ref().is_some_and(|names| names[0].is_empty() || names[0] == "Unnamed: 0")
    }

    /// Whether a column is what pandas keeps an index without a name as: a row number nearly always, and nothing that
    /// whoever wrote the table has named.
    fn is_index_level(&self, column: usize) -> bool {
        let level = self.names.as_ref().and_then(|names| names[column].strip_prefix("__index_level_"));
        let level = level.and_then(|rest| rest.strip_suffix("__"));
        level.is_some_and(|number| number.parse::<u32>().is_ok())
    }

    fn first_number(&self, column: usize) -> Option<f64> {
        parse_number(self.first.get(column)?.as_bytes())
    }

    /// Whether a column looks like times: by its name, or by what its first row has.
    fn looks_like_time(&self, column: usize) -> bool {
        if self.is_named(column, &TIME_NAMES) {
            return true;
        }
        // Without names: a date, or seconds or milliseconds of the years 1990 to 2100.
        let recent = |x: f64| (6e8..4.2e9).contains(&x) || (6e11..4.2e12).contains(&x);
        self.names.is_none()
            && self.first.get(column).is_some_and(|text| match parse_number(text.as_bytes()) {
                Some(number) => recent(number),
                None => parse_time(text).is_some(),
            })
    }

    /// The one column that has dates, whatever its name.
    fn only_dates(&self) -> Option<usize> {
        let is_date = |text: &String| parse_number(text.as_bytes()).is_none() && parse_time(text).is_some();
        let mut dates = (0..self.count).filter(|&column| self.first.get(column).is_some_and(is_date));
        dates.next().filter(|_| dates.next().is_none())
    }

    fn guess_value(&self, taken: &[usize]) -> Result<usize, String> {
        let free = (0..self.count).filter(|column| !taken.contains(column) && !self.is_index_level(*column));
        let free: Vec<usize> = free.collect();
        if let Some(column) = self.value_by_name(taken) {
            return self.find(&self.name(column));
        }
        let passed_over = self.passed_over(taken).map_or(String::new(), |what| format!("; {what}"));
        let numeric = |&column: &usize| self.first_number(column).is_some() && !self.looks_like_time(column);
        if self.names.is_some() {
            // One column of numbers can be meant, or one that is no whole number where the others are.
            let id = |column: usize| {
                let name = self.name(column);
                let ends = ["_id", "_ID", "Id", "ID"].iter().any(|end| name.ends_with(end));
                taken.is_empty()
                    && (ends || ["id", "user", "item", "index"].contains(&name.to_lowercase().as_str()))
            };
            let candidates = free.iter().copied().filter(|column| numeric(column) && !id(*column));
            let candidates: Vec<usize> = candidates.collect();
            let broken = |column: &&usize| self.first.get(**column).is_some_and(|text| text.contains('.'));
            let mut decimal = candidates.iter().filter(broken);
            match (&candidates[..], decimal.next(), decimal.next()) {
                ([column], ..) | (_, Some(column), None) => return Ok(*column),
                _ => {}
            }
            let names = list((0..self.count).map(|column| self.name(column)));
            if !free.iter().any(numeric) {
                return Err(format!(
                    "no column is left that holds numbers: the columns are {names}; name the value with `value`, or \
                     take every row for 1 with `absent` 1.0{}",
                    passed_over
                ));
            }
            // Many columns of numbers may be many columns of values.
            let wide = match candidates.len() {
                0..=2 => "",
                _ => "; if the table has a column of values for each id, say `wide`",
            };
            return Err(format!(
                "which column is the value? name it with `value`: the columns are {names}{passed_over}{wide}"
            ));
        }
        free.into_iter()
            .rev()
            .find(numeric)
            .ok_or_else(|| {
                format!(
                    "no column holds numbers: name the value with `value`, or take every row for 1 with `absent` 1.0{}",
                    passed_over
                )
            })
    }

    /// Refuses a guess that passes over a column of what is nearly numbers: that is the value more likely.
    fn check_passed_over(&self, value: usize, taken: &[usize]) -> Result<usize, String> {
        if self.value_by_name(taken) == Some(value) {
            return Ok(value);
        }
        let names = list((0..self.count).map(|column| self.name(column)));
        match self.passed_over(taken) {
            None => Ok(value),
            Some(what) => Err(format!(
                "which column is the value? name it with `value`: the columns are {names}; {what}"
            )),
        }
    }

    /// What is said of a column that nothing but its commas or percent signs keeps from being one of numbers.
    fn passed_over(&self, taken: &[usize]) -> Option<String> {
        let free = (0..self.nearly.len()).filter(|column| !taken.contains(column));
        let mut nearly = free.filter_map(|column| Some((column, self.nearly[column].as_ref()?)));
        nearly.next().map(|(column, text)| nearly::sentence(&self.name(column), text))
    }

    fn value_by_name(&self, taken: &[usize]) -> Option<usize> {
        let mut free = (0..self.count).filter(|column| !taken.contains(column));
        if let Some(column) = free.clone().find(|column| self.is_named(*column, &VALUE_NAMES)) {
            return Some(column);
        }
        // Book-Rating, user_score: one whose last word it is, where there is no other.
        let ends = |column: &usize| self.names.is_some() && names_value(&self.name(*column));
        free.by_ref().find(ends).filter(|_| !free.any(|column| ends(&column)))
    }

    /// Settles the columns of a file.
    pub fn plan(&self, request: &ColumnRequest) -> Result<FilePlan, String> {
        if let Some(wide) = &request.wide {
            return self.plan_wide(request, wide);
        }
        let value = match &request.value {
            Some(name) => Some(self.find(name)?),
            None => None,
        };
        let named = match &request.modes {
            Some(names) => Some(names.iter().map(|name| self.find(name)).collect::<Result<Vec<_>, _>>()?),
            None => None,
        };
        let guessing = value.is_none() || named.is_none();
        let weight = request.weight.as_ref().map(|name| self.find(name)).transpose()?;
        let is_weight = |column: &usize| weight == Some(*column);
        let taken: Vec<usize> = named.iter().flatten().copied().chain(weight).collect();
        let ones = request.ones && value.is_none() && !self.tns && self.value_by_name(&taken).is_none();
        let value = match value {
            Some(value) => value,
            None if ones => usize::MAX,
            None if self.tns => (0..self.count).rev().find(|column| !is_weight(column)).unwrap_or(0),
            None => self.guess_value(&taken).and_then(|value| self.check_passed_over(value, &taken))?,
        };
        let guess_modes = named.is_none();
        let mut indices = Vec::new();
        let modes = named.unwrap_or_else(|| {
            let modes = (0..self.count)
                .filter(|column| *column != value && !is_weight(column) && !self.is_row_number(*column));
            let (levels, others): (Vec<usize>, Vec<usize>) =
                modes.partition(|&column| self.is_index_level(column));
            // Of a frame whose ids are its index, they are all that there is.
            if others.len() < MIN_ORDER {
                return (0..self.count)
                    .filter(|column| levels.contains(column) || others.contains(column))
                    .collect();
            }
            indices = levels;
            others
        });
        self.check_modes(&modes, value)?;
        if weight.is_some_and(|weight| weight == value || modes.contains(&weight)) {
            let name = request.weight.as_deref().unwrap_or_default();
            return Err(format!(
                "`weights` {name} is a mode or the value already: weights need a column of their own"
            ));
        }
        if let Some(dims) = &request.dims
            && dims.len() != modes.len()
        {
            return Err(format!("`dims` gives {} dimensions for {} modes", dims.len(), modes.len()));
        }
        let mut bins = Vec::new();
        for (name, binning) in &request.bins {
            let column = self.find(name)?;
            if !modes.contains(&column) {
                return Err(format!("`bin` names '{name}', which is none of the modes"));
            }
            bins.push((column, *binning));
        }
        let role = |position: usize, column: usize| {
            let binned = bins.iter().find(|(binned, _)| *binned == column).map(|(_, binning)| *binning);
            match (binned, &request.dims) {
                (Some(binning), _) => ModeRole::Bins(binning),
                (None, Some(dims)) => {
                    ModeRole::Indices { base: i64::from(!request.zero_based), dim: Some(dims[position]) }
                }
                (None, None) if self.tns => {
                    ModeRole::Indices { base: i64::from(!request.zero_based), dim: None }
                }
                (None, None) if guess_modes && !request.plain_times && self.looks_like_time(column) => {
                    ModeRole::Bins(WEEK)
                }
                (None, None) => ModeRole::Ids,
            }
        };
        let modes: Vec<ModeColumn> = modes
            .iter()
            .enumerate()
            .map(|(position, &column)| ModeColumn {
                name: self.name(column),
                column,
                role: role(position, column),
            })
            .collect();
        let time = match &request.time {
            None => None,
            Some(Some(name)) => Some(self.find(name)?),
            Some(None) => {
                let binned =
                    modes.iter().find(|mode| matches!(mode.role, ModeRole::Bins(Binning { time: true, .. })));
                let found = binned
                    .map(|mode| mode.column)
                    .or_else(|| (0..self.count).find(|&c| self.looks_like_time(c)))
                    .or_else(|| self.only_dates());
                Some(found.ok_or("`split` time needs a column of times: name it with `time_column`")?)
            }
        };
        let value_name = if ones { "1 in every row".into() } else { self.name(value) };
        let guessed = (guessing && !self.tns).then(|| {
            let show = |mode: &ModeColumn| match mode.role {
                ModeRole::Bins(WEEK) => format!("{} (7-day bins)", mode.name),
                _ => mode.name.clone(),
            };
            let modes = modes.iter().map(show).collect::<Vec<_>>().join(", ");
            let weight =
                weight.map_or(String::new(), |weight| format!(", {} as the weight", self.name(weight)));
            // Where no column has numbers, names do not look different from data.
            let header = match ones && self.names.is_none() {
                true => "; the first line is taken for data (with `header`, for names)",
                false => "",
            };
            let names: Vec<String> = indices.iter().map(|&column| self.name(column)).collect();
            let left = match names.len() {
                0 => String::new(),
                n => format!(
                    "; {} {} of a data frame and left out unless `modes` names {}",
                    names.join(", "),
                    if n == 1 { "is the index" } else { "are the index" },
                    if n == 1 { "it" } else { "them" }
                ),
            };
            format!("taking {modes} as the modes and {value_name} as the value{weight}{left}{header}")
        });
        let (value_name, names) = (if ones { ONES_NAME.into() } else { value_name }, self.names.clone());
        let weight = weight.map(|column| (column, self.name(column)));
        let rules = self.rules(request)?;
        let (count, wide) = (self.count, None);
        Ok(FilePlan { modes, value, ones, value_name, weight, time, count, names, guessed, rules, wide })
    }

    /// Which rows are taken.
    pub(super) fn rules(&self, request: &ColumnRequest) -> Result<RowRules, String> {
        let place = |condition: &Condition| {
            condition.check_names(self.names.as_deref().unwrap_or_default())?;
            Ok((self.find(&condition.column)?, condition.clone()))
        };
        let conditions = request.conditions.iter().map(place).collect::<Result<_, String>>()?;
        let missing = Signs::new(&request.missing);
        Ok(RowRules { strict: request.strict, missing, conditions, transform: request.transform })
    }

    pub(super) fn check_modes(&self, modes: &[usize], value: usize) -> Result<(), String> {
        if !(MIN_ORDER..=MAX_ORDER).contains(&modes.len()) {
            let names = list(modes.iter().map(|&column| self.name(column)));
            return Err(format!("{} modes ({names}) are not 2 to 8: choose them with `modes`", modes.len()));
        }
        if modes.contains(&value) {
            return Err(format!("'{}' cannot be both a mode and the value", self.name(value)));
        }
        for (position, &mode) in modes.iter().enumerate() {
            let name = self.name(mode);
            let Some(&other) = modes[..position].iter().find(|&&other| self.name(other) == name) else {
                continue;
            };
            return Err(match other == mode {
                true => format!("two modes have the name '{name}': each column is a mode once"),
                false => format!(
                    "two modes have the name '{name}' (columns {} and {}): rename one of them in the header, or leave \
                     one out of `modes`",
                    other + 1,
                    mode + 1
                ),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str, first: &str) -> Columns {
        let split = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>();
        let names = (!header.is_empty()).then(|| split(header));
        Columns { names, count: split(first).len(), first: split(first), ..Columns::default() }
    }

    #[test]
    fn a_value_is_guessed_where_one_column_can_be_meant() {
        let of = |names: &str, first: &str| columns(names, first).guess_value(&[]);
        assert_eq!(of("station,day,temp,note", "S1,2024-01-01,3,x"), Ok(2));
        assert_eq!(of("sensor,hour,pm10", "3,7,12.5"), Ok(2));
        assert!(of("a,b,c", "1,2,3").unwrap_err().contains("which column"));
        assert!(of("a,b,c", "1,2.5,3.5").unwrap_err().contains("which column"));
        // An id is no value, though it is the only number.
        assert!(of("userId,film", "1,Alien").is_err());
    }

    #[test]
    fn the_usual_headers_are_guessed() {
        let plan = columns("userId,movieId,rating,timestamp", "1,2,3.5,964982703")
            .plan(&ColumnRequest::default())
            .unwrap();
        assert_eq!(plan.value, 2);
        assert_eq!(plan.modes.iter().map(|mode| mode.column).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(plan.modes[2].role, ModeRole::Bins(WEEK));
        assert_eq!(plan.modes[0].role, ModeRole::Ids);
        let plan = columns("", "196,242,3,881250949").plan(&ColumnRequest::default()).unwrap();
        assert_eq!((plan.value, plan.modes.len()), (2, 3));
        let plan = columns("i,j,k,value", "0,1,2,0.25").plan(&ColumnRequest::default()).unwrap();
        assert_eq!((plan.value, plan.modes.len()), (3, 3));
    }

    #[test]
    fn the_index_of_a_data_frame_is_no_mode_unless_it_is_named() {
        let file = columns("user,item,rating,__index_level_0__", "a,b,3,17");
        let plan = file.plan(&ColumnRequest::default()).unwrap();
        assert_eq!(plan.modes.iter().map(|mode| mode.column).collect::<Vec<_>>(), [0, 1]);
        let said = plan.guessed.unwrap();
        assert!(said.contains("__index_level_0__ is the index of a data frame and left out"), "{said}");
        let named = ["user", "item", "__index_level_0__"].map(String::from).to_vec();
        let plan = file.plan(&ColumnRequest { modes: Some(named), ..Default::default() }).unwrap();
        assert_eq!(plan.modes.len(), 3);
        // It is no value either, though it is a number.
        let plan = columns("user,item,price,__index_level_0__", "a,b,3,17").plan(&ColumnRequest::default());
        assert_eq!(plan.unwrap().value, 2);
        // Where there is nothing else, the ids are the index.
        let stacked = columns("rating,__index_level_0__,__index_level_1__", "3,a,b");
        assert_eq!(stacked.plan(&ColumnRequest::default()).unwrap().modes.len(), 2);
    }

    #[test]
    fn a_split_by_time_finds_the_one_column_of_dates() {
        let request = ColumnRequest { time: Some(None), ..Default::default() };
        let of = |names: &str, first: &str| columns(names, first).plan(&request).map(|plan| plan.time);
        assert_eq!(of("station,when,temp", "S1,2024-01-01,3"), Ok(Some(1)));
        // A name tells before dates do.
        assert_eq!(of("station,when,date,temp", "S1,2024-01-01,2024-02-01,3"), Ok(Some(2)));
        // Which of two is meant is not for us to say.
        assert!(
            of("station,from,to,temp", "S1,2024-01-01,2024-02-01,3").unwrap_err().contains("time_column")
        );
        assert!(of("station,hour,temp", "S1,7,3").is_err());
    }

    #[test]
    fn mistakes_get_a_sentence() {
        let file = columns("userId,movieId,rating,timestamp", "1,2,3.5,964982703");
        let request = |modes: &[&str], value: &str| ColumnRequest {
            modes: Some(modes.iter().map(|m| m.to_string()).collect()),
            value: Some(value.into()),
            ..Default::default()
        };
        for (modes, value, what) in [
            (&["user", "movieId"][..], "rating", "the columns are userId, movieId, rating, timestamp"),
            (&["userId", "userId"], "rating", "two modes have the name 'userId'"),
            (&["userId", "rating"], "rating", "both a mode and the value"),
            (&["userId"], "rating", "not 2 to 8"),
            (&["1", "9"], "rating", "there is no column 9: the file has 4"),
        ] {
            let error = file.plan(&request(modes, value)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
