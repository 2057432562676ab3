//! Moments as they stand in files: dates, days written as numbers, epoch times of any unit.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};
use serde::{Deserialize, Serialize};

/// How the moments of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// As ISO-8601 text, or in a column of moments.
    Date,
    /// As a number of eight digits, year, month and day: 20210115.
    Day,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// Microseconds since 1970.
    Microseconds,
    /// Nanoseconds since 1970.
    Nanoseconds,
}

impl TimeUnit {
    /// What to call it.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Date => "dates",
            TimeUnit::Day => "days (YYYYMMDD)",
            TimeUnit::Seconds => "epoch seconds",
            TimeUnit::Milliseconds => "epoch milliseconds",
            TimeUnit::Microseconds => "epoch microseconds",
            TimeUnit::Nanoseconds => "epoch nanoseconds",
        }
    }

    /// How many of them make a second; 1 for dates and days, which are counted in seconds.
    pub fn per_second(self) -> f64 {
        match self {
            TimeUnit::Date | TimeUnit::Day | TimeUnit::Seconds => 1.0,
            TimeUnit::Milliseconds => 1e3,
            TimeUnit::Microseconds => 1e6,
            TimeUnit::Nanoseconds => 1e9,
        }
    }

    /// A number of this unit in seconds since 1970; `None` where it should be a day and is none.
    pub fn seconds(self, number: f64) -> Option<f64> {
        match self {
            TimeUnit::Day => day_seconds(number),
            unit => Some(number / unit.per_second()),
        }
    }

    /// The unit of a number that stands alone, by its size.
    ///
    /// ```
    /// use tenfill_engine::times::TimeUnit;
    /// assert_eq!(TimeUnit::of(20210115.0), TimeUnit::Day);
    /// assert_eq!(TimeUnit::of(1.6e9), TimeUnit::Seconds);
    /// assert_eq!(TimeUnit::of(1.6e18), TimeUnit::Nanoseconds);
    /// ```
    pub fn of(number: f64) -> TimeUnit {
        match number.abs() {
            _ if day_seconds(number).is_some() => TimeUnit::Day,
            x if x < 1e11 => TimeUnit::Seconds,
            x if x < 1e14 => TimeUnit::Milliseconds,
            x if x < 1e17 => TimeUnit::Microseconds,
            _ => TimeUnit::Nanoseconds,
        }
    }
}

/// The first and the last year of days that are written as numbers: others are epoch times.
const DAY_YEARS: std::ops::RangeInclusive<i16> = 1800..=2199;

/// A day written as a number, 20210115, in seconds since 1970.
///
/// ```
/// use tenfill_engine::times::day_seconds;
/// assert_eq!(day_seconds(19700102.0), Some(86400.0));
/// assert_eq!(day_seconds(20210230.0), None);
/// assert_eq!(day_seconds(1610668800.0), None);
/// ```
#[inline]
pub fn day_seconds(number: f64) -> Option<f64> {
    // Most numbers are none, and are seen to be none here.
    if !(18_000_101.0..21_991_232.0).contains(&number) || number.fract() != 0.0 {
        return None;
    }
    let digits = number as u32;
    let (year, month, day) = ((digits / 10_000) as i16, (digits / 100 % 100) as i8, (digits % 100) as i8);
    let date = Date::new(year, month, day).ok().filter(|_| DAY_YEARS.contains(&year))?;
    Some(seconds(date.to_datetime(jiff::civil::Time::midnight())))
}

/// Seconds since 1970 of a date and time in UTC. Counted in the calendar, which holds all of the
/// years 1 to 9999; the range of timestamps ends a day before 9999-12-31 does.
fn seconds(at: DateTime) -> f64 {
    let since = at.duration_since(EPOCH);
    since.as_secs() as f64 + f64::from(since.subsec_nanos()) * 1e-9
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A moment as seconds since 1970, from an ISO-8601 date or date and time (UTC where no offset is
/// given).
///
/// ```
/// use tenfill_engine::times::parse_time;
/// assert_eq!(parse_time("1970-01-02"), Some(86400.0));
/// assert_eq!(parse_time("1970-01-01 00:01:00"), Some(60.0));
/// assert_eq!(parse_time("1970-01-01T01:00:00.5+01:00"), Some(0.5));
/// assert_eq!(parse_time("9999-12-31"), Some(253402214400.0));
/// assert_eq!(parse_time("yesterday"), None);
/// ```
pub fn parse_time(text: &str) -> Option<f64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_second() as f64 + f64::from(at.subsec_nanosecond()) * 1e-9);
    }
    let utc = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    utc.parse().ok().map(seconds)
}

/// Seconds since 1970 as a date, for people; with the time of day where it is not midnight.
///
/// ```
/// use tenfill_engine::times::format_time;
/// assert_eq!(format_time(253402214400.0), "9999-12-31");
/// assert_eq!(format_time(60.0), "1970-01-01T00:01:00Z");
/// ```
pub fn format_time(seconds: f64) -> String {
    format_moment(seconds.floor() as i64, 1)
}

/// A moment that is kept as an integer, as a date and time in full: distinct moments stay distinct.
///
/// ```
/// use tenfill_engine::times::format_moment;
/// assert_eq!(format_moment(86_400_250, 1000), "1970-01-02T00:00:00.25Z");
/// assert_eq!(format_moment(-1, 1), "1969-12-31T23:59:59Z");
/// assert_eq!(format_moment(2, 1), "1970-01-01T00:00:02Z");
/// ```
pub fn format_moment(value: i64, per_second: i64) -> String {
    let nanoseconds = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let since = SignedDuration::new(value.div_euclid(per_second), nanoseconds as i32);
    let Ok(at) = EPOCH.checked_add(since) else { return value.to_string() };
    let text = at.to_string();
    text.strip_suffix("T00:00:00").map_or_else(|| format!("{text}Z"), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_1_to_9999_are_dates() {
        for text in ["0001-01-01", "1582-10-15", "1969-12-31", "2000-02-29", "9999-12-30", "9999-12-31"] {
            assert_eq!(format_time(parse_time(text).unwrap()), text);
        }
        assert_eq!(parse_time("9999-12-31T23:59:59Z"), parse_time("9999-12-31 23:59:59"));
        assert_eq!(parse_time("9999-12-31").unwrap() - parse_time("9999-12-30").unwrap(), 86_400.0);
        for text in ["2004-02-30", "10000-01-01", "12:30", "Z", ""] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn days_are_dates() {
        for (number, text) in
            [(20210115.0, "2021-01-15"), (18000101.0, "1800-01-01"), (20000229.0, "2000-02-29")]
        {
            assert_eq!(day_seconds(number), parse_time(text), "{text}");
        }
        for number in
            [20210001.0, 20211301.0, 20210229.0, 20210115.5, 17991231.0, 22000101.0, -20210115.0, 0.0]
        {
            assert_eq!(day_seconds(number), None, "{number}");
        }
    }
}
