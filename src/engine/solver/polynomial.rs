//! The least minimum of a cost that is a polynomial along a line.

/// The s > 0 where p(s) = sum_k c_k s^k is least, of all positive places where p' vanishes; `None`
/// where there is none, or where p does not fall at 0.
///
/// Real roots only, by the roots of the derivatives: between two neighbouring roots of q' the
/// polynomial q is monotone, so that bisection finds every root there is and none that is not.
pub fn least_minimum(coefficients: &[f64]) -> Option<f64> {
    if !coefficients.iter().all(|c| c.is_finite()) {
        return None;
    }
    let unit = natural_unit(coefficients)?;
    let mut power = 1.0;
    let mut scaled = Vec::with_capacity(coefficients.len());
    for c in coefficients {
        scaled.push(c * power);
        power *= unit;
    }
    let mut slope = derivative(&scaled);
    while slope.last() == Some(&0.0) {
        slope.pop();
    }
    let mut best: Option<(f64, f64)> = None;
    for s in positive_roots(&slope) {
        let value = evaluate(&scaled, s);
        if best.is_none_or(|(_, least)| value < least) {
            best = Some((s, value));
        }
    }
    best.map(|(s, _)| s * unit)
}

/// A step of the size to expect, so that the scaled polynomial's coefficients are of one size:
/// the linearised step, or where the curvature at 0 is not positive, the first power that stops
/// the fall.
fn natural_unit(coefficients: &[f64]) -> Option<f64> {
    let slope = *coefficients.get(1)?;
    if slope >= 0.0 {
        return None;
    }
    let stops = coefficients.iter().enumerate().skip(2).filter(|(_, c)| **c > 0.0);
    stops
        .map(|(k, c)| (-slope / (k as f64 * c)).powf(1.0 / (k as f64 - 1.0)))
        .reduce(f64::min)
        .filter(|unit| unit.is_finite() && *unit > 0.0)
}

fn derivative(p: &[f64]) -> Vec<f64> {
    (1..p.len()).map(|k| k as f64 * p[k]).collect()
}

fn evaluate(p: &[f64], s: f64) -> f64 {
    p.iter().rev().fold(0.0, |sum, c| sum * s + c)
}

/// All positive roots, ascending.
fn positive_roots(p: &[f64]) -> Vec<f64> {
    let Some((lead, lower)) = p.split_last().filter(|_| p.len() > 1) else {
        return vec![];
    };
    // Cauchy's bound on the size of a root.
    let bound = 1.0 + lower.iter().fold(0.0f64, |m, c| m.max((c / lead).abs()));
    let mut ends = vec![0.0];
    ends.extend(positive_roots(&derivative(p)).into_iter().filter(|s| *s < bound));
    ends.push(if bound.is_finite() { bound } else { f64::MAX });
    let mut roots = vec![];
    for pair in ends.windows(2) {
        let (mut low, mut high) = (pair[0], pair[1]);
        let positive_low = evaluate(p, low) > 0.0;
        if positive_low == (evaluate(p, high) > 0.0) {
            continue;
        }
        loop {
            let middle = low + (high - low) / 2.0;
            if middle <= low || middle >= high {
                break;
            }
            if (evaluate(p, middle) > 0.0) == positive_low {
                low = middle;
            } else {
                high = middle;
            }
        }
        let nearer = evaluate(p, low).abs() <= evaluate(p, high).abs();
        roots.push(if nearer { low } else { high });
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola() {
        assert_eq!(least_minimum(&[5.0, -4.0, 2.0]), Some(1.0));
        assert_eq!(least_minimum(&[5.0, 4.0, 2.0]), None);
        assert_eq!(least_minimum(&[5.0]), None);
        assert_eq!(least_minimum(&[5.0, -1.0, 0.0]), None);
        assert_eq!(least_minimum(&[5.0, -1.0, f64::NAN]), None);
    }

    #[test]
    fn the_deeper_of_two_wells() {
        // ((s - 1)^2 + 0.1) (s - 3)^2: a shallow well near 1, the deep one at 3.
        let (a, b) = ([1.1, -2.0, 1.0], [9.0, -6.0, 1.0]);
        let mut p = vec![0.0; 5];
        for i in 0..3 {
            for j in 0..3 {
                p[i + j] += a[i] * b[j];
            }
        }
        assert!((least_minimum(&p).unwrap() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn coefficients_of_very_different_sizes() {
        // 1e-9 (s - 1e5)^2 (1 + (s / 1e7)^2), zeros behind it.
        let (a, c) = (1e5, 1e-14);
        let p = [a * a, -2.0 * a, 1.0 + a * a * c, -2.0 * a * c, c, 0.0, 0.0].map(|x| 1e-9 * x);
        assert!((least_minimum(&p).unwrap() / a - 1.0).abs() < 1e-7);
    }
}
