//! Where an axis has its numbers: round ones, few enough.

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;

type Range = (f64, f64);

/// Multiples of 1, 2 or 5 times a power of ten, at least `least_step` apart.
pub(super) fn plain((least, most): Range, count: usize, least_step: f64) -> Vec<f64> {
    let raw = (most - least) / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(power * 10.0).max(least_step);
    let first = (least / step).ceil() as i64;
    (first..).map(|n| n as f64 * step).take_while(|x| *x <= most).take(20).collect()
}

/// The same in the largest unit of 1024^n that fits.
pub(super) fn bytes((least, most): Range, count: usize) -> Vec<f64> {
    let unit = 1024f64.powf((most.max(1.0).ln() / 1024f64.ln()).floor());
    plain((least / unit, most / unit), count, 0.0).into_iter().map(|x| x * unit).collect()
}

/// Of logarithms: powers of ten, with 2 and 5 times these where there are few.
pub(super) fn logarithms((least, most): Range, count: usize) -> Vec<f64> {
    let decades = most - least;
    if decades > count as f64 {
        return plain((least, most), count, 1.0);
    }
    let digits: &[f64] = match decades {
        d if d > 2.5 => &[1.0],
        d if d > 1.3 => &[1.0, 2.0, 5.0],
        d if d > 0.6 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    };
    let all = (least.floor() as i32..=most.ceil() as i32)
        .flat_map(|power| digits.iter().map(move |digit| f64::from(power) + digit.log10()));
    let ticks: Vec<f64> = all.filter(|x| (least..=most).contains(x)).collect();
    if ticks.len() < 2 { plain((least, most), count, 0.0) } else { ticks }
}

/// First days of years or months, of seconds since 1970; days where the span is short.
pub(super) fn dates((least, most): Range, count: usize) -> Vec<f64> {
    const DAY: f64 = 86_400.0;
    let span = (most - least) / DAY;
    if span < 62.0 {
        return plain((least / DAY, most / DAY), count, 0.0).into_iter().map(|day| day * DAY).collect();
    }
    let months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
    let step =
        months.into_iter().find(|&m| span / (f64::from(m) * 30.44) <= count as f64 + 1.0).unwrap_or(2400);
    let begin = jiff::Timestamp::from_second(least as i64).map(|at| at.to_zoned(TimeZone::UTC).date());
    let Ok(begin) = begin else { return Vec::new() };
    // Months since year 0, rounded up to a multiple of the step.
    let first = (i32::from(begin.year()) * 12 + i32::from(begin.month()) - 1).div_euclid(step) * step;
    let at = |month: i32| -> Option<f64> {
        let year = i16::try_from(month.div_euclid(12)).ok()?;
        let day: Date = date(year, (month.rem_euclid(12) + 1) as i8, 1);
        Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second() as f64)
    };
    let all = (0..200).map_while(|n| at(first + n * step));
    all.skip_while(|x| *x < least).take_while(|x| *x <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(plain((0.0, 4.2), 6, 0.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(plain((0.0, 4.2), 9, 1.0).len(), 5);
        assert_eq!(bytes((0.0, 3.0 * 1048576.0), 6)[1], 524_288.0);
        let shown: Vec<f64> = logarithms((1.2, 2.8), 6).iter().map(|x| 10f64.powf(*x).round()).collect();
        assert_eq!(shown, [20.0, 50.0, 100.0, 200.0, 500.0]);
        let year = 365.25 * 86_400.0;
        for span in [0.1, 0.5, 1.0, 3.0, 20.0, 90.0] {
            let ticks = dates((30.2 * year, (30.2 + span) * year), 6);
            assert!((2..=8).contains(&ticks.len()), "{span} years: {ticks:?}");
            assert!(ticks.iter().all(|x| (30.2 * year..=(30.2 + span) * year).contains(x)));
        }
    }
}
