//! Sizes and times as people write and read them: `512M`, `2G`, `7d`, `12h`.

/// Parses a size: a number with an optional `K`, `M`, `G` or `T` (powers of 1024).
///
/// ```
/// assert_eq!(tenfill_engine::units::parse_size("512M").unwrap(), 512 << 20);
/// assert_eq!(tenfill_engine::units::parse_size("1.5G").unwrap(), 3 << 29);
/// assert!(tenfill_engine::units::parse_size("much").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    let (number, shift) = match trimmed.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&trimmed[..trimmed.len() - 1], 10),
        Some(b'M') => (&trimmed[..trimmed.len() - 1], 20),
        Some(b'G') => (&trimmed[..trimmed.len() - 1], 30),
        Some(b'T') => (&trimmed[..trimmed.len() - 1], 40),
        _ => (trimmed, 0),
    };
    match number.trim().parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 && n < 1e18 => {
            Ok((n * f64::from(1 << (shift / 2)) * f64::from(1 << (shift / 2))) as u64)
        }
        _ => Err(format!("'{text}' is not a size: write it like 512M or 2G")),
    }
}

/// Ranks as people write them.
///
/// ```
/// assert_eq!(tenfill_engine::units::ranks(&[10, 10, 4]), "10,10,4");
/// ```
pub fn ranks(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Parses a length of time in seconds: a number with `s`, `m`, `h`, `d` or `w`.
///
/// ```
/// assert_eq!(tenfill_engine::units::parse_seconds("7d"), Some(604_800.0));
/// assert_eq!(tenfill_engine::units::parse_seconds("12h"), Some(43_200.0));
/// assert_eq!(tenfill_engine::units::parse_seconds("7"), None); // no unit: a plain number
/// ```
pub fn parse_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = match text.as_bytes().last()? {
        b's' => 1.0,
        b'm' => 60.0,
        b'h' => 3600.0,
        b'd' => 86_400.0,
        b'w' => 604_800.0,
        _ => return None,
    };
    let number = text[..text.len() - 1].trim().parse::<f64>().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * unit)
}

/// A length of time as [`parse_seconds`] reads it: `7d`, `12h`.
///
/// ```
/// assert_eq!(tenfill_engine::units::width(604_800.0), "7d");
/// assert_eq!(tenfill_engine::units::width(90.0), "90s");
/// ```
pub fn width(seconds: f64) -> String {
    for (unit, name) in [(86_400.0, "d"), (3600.0, "h"), (60.0, "m")] {
        if seconds % unit == 0.0 {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// A size that people can read: `3.2 MB` (powers of 1024, as `parse_size`).
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KB", "MB", "GB"] {
        if value < 1024.0 || unit == "GB" && value < 10_240.0 {
            return match unit {
                "bytes" => format!("{bytes} bytes"),
                _ if value < 10.0 => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TB")
}

/// A count with separators: `1,234,567`.
///
/// ```
/// assert_eq!(tenfill_engine::units::count(1234567), "1,234,567");
/// ```
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something: `1 row`, `1,234 rows`.
///
/// ```
/// assert_eq!(tenfill_engine::units::many(1, "bad row"), "1 bad row");
/// assert_eq!(tenfill_engine::units::many(1200, "entry"), "1,200 entries");
/// assert_eq!(tenfill_engine::units::many(0, "pass"), "0 passes");
/// ```
pub fn many(n: u64, one: &str) -> String {
    match (n, one.strip_suffix("ry"), one.ends_with("ss")) {
        (1, ..) => format!("1 {one}"),
        (_, Some(stem), _) => format!("{} {stem}ries", count(n)),
        (_, None, true) => format!("{} {one}es", count(n)),
        (_, None, false) => format!("{} {one}s", count(n)),
    }
}

/// So many, with what is said of one or of several.
///
/// ```
/// assert_eq!(tenfill_engine::units::said(1, "row was", "rows were"), "1 row was");
/// assert_eq!(tenfill_engine::units::said(1200, "row was", "rows were"), "1,200 rows were");
/// ```
pub fn said(n: u64, of_one: &str, of_several: &str) -> String {
    format!("{} {}", count(n), if n == 1 { of_one } else { of_several })
}

/// A number of rows: `1 row`, `1,234 rows`.
pub fn rows(n: u64) -> String {
    many(n, "row")
}

/// A length of time that people can read: `3.2 s`, `4 m 10 s`, `2 h 5 m`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{} m {} s", (s / 60.0) as u64, (s % 60.0) as u64),
        s => format!("{} h {} m", (s / 3600.0) as u64, (s % 3600.0 / 60.0) as u64),
    }
}

/// A measured number with six digits that mean something, however small or large it is.
///
/// ```
/// use tenfill_engine::units::digits;
///
/// assert_eq!(digits(0.8712345), "0.871235");
/// assert_eq!(digits(12.5), "12.5000");
/// assert_eq!(digits(3.0e-7), "3.00000e-7");
/// assert_eq!(digits(0.0), "0");
/// ```
pub fn digits(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    // By its exponent after rounding: 0.99999999 is 1.00000.
    let scientific = format!("{x:.5e}");
    match scientific.rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()) {
        Some(exponent @ -4..=5) => format!("{x:.*}", (5 - exponent) as usize),
        _ => scientific,
    }
}

/// The power of two that brings numbers of about this size close to 1, and exactly 1 where they are near
/// enough: at most so many powers of two away. Multiplying by it rounds nothing.
pub fn towards_one(size: f64, near: i32) -> f64 {
    if !(size.is_finite() && size >= f64::MIN_POSITIVE) {
        return 1.0;
    }
    // From its bits: a logarithm may be rounded differently elsewhere.
    let exponent = (size.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    if exponent.abs() <= near { 1.0 } else { f64::powi(2.0, -exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_six_at_any_size() {
        for (x, shown) in [
            (0.99999999, "1.00000"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e6"),
            (-0.00012345678, "-0.000123457"),
            (0.000012345678, "1.23457e-5"),
            (2.5e300, "2.50000e300"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(digits(x), shown);
        }
    }

    #[test]
    fn a_scale_is_a_power_of_two_and_usual_sizes_have_none() {
        for size in [1e-6, 0.001, 1.0, 3.5, 65.0, 1e6, 0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(towards_one(size, 20), 1.0, "{size}");
        }
        for size in [1e-300, 1e-50, 1e-7, 3e6, 1e12, 1e19, 1e150, 1e300] {
            let scale = towards_one(size, 20);
            assert!((1.0..2.0).contains(&(scale * size)), "{size}");
            assert_eq!(scale.to_bits() & ((1 << 52) - 1), 0, "{size}");
        }
    }

    #[test]
    fn sizes_read_back() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KB");
        assert_eq!(size(256 << 20), "256 MB");
        assert_eq!(size(5 << 30), "5.0 GB");
        assert_eq!(size(20 << 40), "20.0 TB");
        assert_eq!(parse_size("256 MiB").unwrap(), 256 << 20);
        assert_eq!(parse_size("4096").unwrap(), 4096);
        assert!(parse_size("-1G").is_err());
        assert!(parse_size("").is_err());
    }
}
