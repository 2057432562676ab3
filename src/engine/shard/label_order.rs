//! Labels are found by searching: they must ascend, and none may stand there twice.

use super::labels::Labels;
use crate::ingest::label::{Key, Label};
use crate::ingest::number::parse_integer;
use std::cmp::Ordering;

impl Labels {
    /// What is wrong with the order of a dataset's labels: integers ascend, and so does text, numbers by
    /// value first, then the rest by bytes.
    pub fn check_order(&self) -> Result<(), String> {
        match (1..self.len()).find(|&index| self.compare(index - 1, index) != Ordering::Less) {
            None => Ok(()),
            Some(index) => {
                Err(format!("label {index} ({}) does not come after the one before it", self.get(index)))
            }
        }
    }

    /// What is wrong with labels of which some were added behind the others: one that stands there twice.
    pub fn check_unique(&self) -> Result<(), String> {
        let Some(order) = self.ascending() else { return Ok(()) };
        match order.windows(2).find(|two| self.compare(two[0] as usize, two[1] as usize) == Ordering::Equal) {
            None => Ok(()),
            Some(two) => Err(format!("the label {} stands there twice", self.get(two[0] as usize))),
        }
    }

    /// The indices in the order of their labels; `None` where labels ascend as they are.
    pub fn ascending(&self) -> Option<Vec<u32>> {
        if self.check_order().is_ok() {
            return None;
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| self.compare(a as usize, b as usize));
        Some(order)
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Labels::Integers(labels) => labels.value(a).cmp(&labels.value(b)),
            Labels::Text(labels) => compare_text(labels.value(a), labels.value(b)),
        }
    }
}

/// In the order in which convert numbers them.
fn compare_text(a: &str, b: &str) -> Ordering {
    let label = |text: &str| parse_integer(text.as_bytes()).map(Label::Integer);
    let key = |text| Key::new(label(text).unwrap_or(Label::Text(text.as_bytes())));
    key(a).cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(labels: &[&str]) -> Labels {
        Labels::Text(labels.iter().map(Some).collect())
    }

    fn integers(labels: &[i64]) -> Labels {
        Labels::Integers(labels.to_vec().into())
    }

    #[test]
    fn labels_ascend() {
        assert!(integers(&[-3, 5, 7]).check_order().is_ok());
        assert!(text(&["-1", "2", "10", "1e3", "Zoe", "anna"]).check_order().is_ok());
        assert!(text(&["9007199254740992", "9007199254740993", "x"]).check_order().is_ok());
        for (labels, named) in [
            (integers(&[1, 3, 2]), "label 2 (2)"),
            (integers(&[1, 1]), "label 1 (1)"),
            (text(&["10", "2"]), "label 1 (2)"),
            (text(&["anna", "1"]), "label 1 (1)"),
            (text(&["anna", "anna"]), "label 1 (anna)"),
        ] {
            assert!(labels.check_order().unwrap_err().contains(named), "{labels:?}");
        }
    }

    #[test]
    fn labels_behind_the_others_may_come_in_any_order_but_once() {
        assert!(integers(&[4, 9, 2]).check_unique().is_ok());
        assert!(text(&["b", "c", "a"]).check_unique().is_ok());
        assert!(integers(&[4, 9, 4]).check_unique().unwrap_err().contains("4 stands there twice"));
        assert!(text(&["b", "c", "b"]).check_unique().unwrap_err().contains("b stands there twice"));
    }
}
