//! Values that are fitted as their logarithm or logit, and said in their own units.

use serde::{Deserialize, Serialize};

/// What is done with values before they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// log(1 + x), of numbers above -1: counts.
    Log1p,
    /// log(x), of numbers above 0: prices, times, sizes.
    Log,
    /// log(x / (1 - x)), of shares between 0 and 1.
    Logit,
}

impl Transform {
    /// All of them.
    pub const ALL: [Transform; 3] = [Transform::Log1p, Transform::Log, Transform::Logit];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transform::Log1p => "log1p",
            Transform::Log => "log",
            Transform::Logit => "logit",
        }
    }

    /// From its name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("'{name}' is no transform: write log1p, log or logit"))
    }

    /// What is kept of a value; what is wrong with it, to follow its name, where it has none.
    ///
    /// ```
    /// use tenfill_engine::transform::Transform;
    /// assert_eq!(Transform::Log1p.apply(0.0), Ok(0.0));
    /// assert!(Transform::Log.apply(0.0).unwrap_err().contains("above 0"));
    /// ```
    pub fn apply(self, value: f64) -> Result<f64, String> {
        let (kept, domain) = match self {
            Transform::Log1p => (libm::log1p(value), "takes numbers above -1"),
            Transform::Log => (libm::log(value), "takes numbers above 0 (log1p takes 0, too)"),
            Transform::Logit => {
                (libm::log(value) - libm::log1p(-value), "takes shares between 0 and 1, without the two")
            }
        };
        let inside = kept.is_finite();
        inside.then_some(kept).ok_or_else(|| format!("is {value}, and `transform` {} {domain}", self.name()))
    }

    /// The value of what was kept: always a finite number.
    pub fn undo(self, kept: f64) -> f64 {
        match self {
            Transform::Log1p => libm::expm1(kept).min(f64::MAX),
            Transform::Log => libm::exp(kept).min(f64::MAX),
            Transform::Logit if kept < 0.0 => libm::exp(kept) / (1.0 + libm::exp(kept)),
            Transform::Logit => 1.0 / (1.0 + libm::exp(-kept)),
        }
    }

    /// The same, as it stood in a file: of all numbers that are kept as this one, that of the fewest digits.
    pub fn restore(self, kept: f64) -> f64 {
        let value = self.undo(kept);
        let digits = (0..17).filter_map(|digits| format!("{value:.digits$e}").parse::<f64>().ok());
        let same = |value: &f64| self.apply(*value).is_ok_and(|again| again.to_bits() == kept.to_bits());
        digits.into_iter().find(same).unwrap_or(value)
    }
}

/// The transform of a dataset's values, and what is known of them in their own units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transformed {
    /// What was done.
    pub by: Transform,
    /// The mean of the train values as they were, weighted where they have weights.
    pub mean: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back_as_they_were(number in 1u64..10_000_000, scale in 0i32..5) {
            let value = format!("{number}e-{scale}").parse::<f64>().unwrap();
            for by in [Transform::Log1p, Transform::Log] {
                let kept = by.apply(value).unwrap();
                prop_assert_eq!(by.restore(kept), value);
                prop_assert!((by.undo(kept) - value).abs() <= 1e-13 * value);
            }
            let share = number as f64 / 10_000_000.0;
            let kept = Transform::Logit.apply(share).unwrap();
            prop_assert_eq!(Transform::Logit.restore(kept), share);
        }

        #[test]
        fn what_is_undone_is_finite_and_in_order(kept in -1e6f64..1e6, more in 0.0f64..10.0) {
            for by in Transform::ALL {
                let (low, high) = (by.undo(kept), by.undo(kept + more));
                prop_assert!(low.is_finite() && high.is_finite() && low <= high);
            }
        }
    }

    #[test]
    fn what_has_no_logarithm_is_said() {
        for (by, value) in [
            (Transform::Log, 0.0),
            (Transform::Log, -1.0),
            (Transform::Log1p, -1.0),
            (Transform::Log1p, -2.0),
            (Transform::Logit, 0.0),
            (Transform::Logit, 1.0),
            (Transform::Logit, 45.0),
        ] {
            let said = by.apply(value).unwrap_err();
            assert!(said.contains(&format!("is {value}, and `transform` {}", by.name())), "{said}");
        }
        assert!(Transform::parse("sqrt").is_err());
    }
}
