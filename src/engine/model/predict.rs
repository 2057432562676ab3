//! The one way from indices to a value: every command that says what an entry is worth asks here.

use super::{Clip, Model, Place, Places};

/// What a model says about one entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The value: biases plus tensor, within the model's range where it has one, in its own units where it was
    /// transformed.
    pub value: f64,
    /// Whether all ids occur in train. Where not, the value comes from what is known of the ids that do, or is the mean
    /// of the train values. Of a mode that the model holds constant, the tensor speaks of strangers as of all others.
    pub known: bool,
}

/// The value of an entry, before it is taken into a model's range: the biases of what is known of it, plus
/// the tensor where all of it is. Where there is neither, `otherwise`.
pub(crate) fn value_of(biases: Option<f64>, tensor: Option<f64>, otherwise: Option<f64>) -> Option<f64> {
    match (biases, tensor) {
        (Some(biases), Some(tensor)) => Some(biases + tensor),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => otherwise,
    }
}

impl Model {
    /// The value at indices in the user's mode order, `None` for ids that the model does not know:
    ///
    /// mean + biases of the known ids + X (where all ids are known), clipped to the model's range.
    ///
    /// An index without train entries counts as unknown. In a mode that the model holds constant
    /// (see [`ModelAbout::held`](super::ModelAbout)) X is there for unknown ids, too.
    ///
    /// # Panics
    ///
    /// If there is not one index per mode, or one is out of range.
    pub fn predict(&self, indices: &[Option<u32>]) -> Prediction {
        assert_eq!(indices.len(), self.point.order(), "an index for each mode");
        let places: Vec<Place> = indices.iter().map(|&index| index.into()).collect();
        Places::new(self, &vec![false; places.len()]).value(&places)
    }

    /// Whether the factor of a mode is held at the constant vector.
    pub fn is_held(&self, mode: usize) -> bool {
        self.about.held.get(mode).copied().unwrap_or(false)
    }
}

impl super::ModelAbout {
    /// How values are taken into the range of the model, where it has one.
    pub fn clipping(&self) -> Option<Clip> {
        self.range.map(|range| Clip::new(range, self.ends))
    }

    /// What is said of a value: it is taken into the range of the model, where it has one, and a transform is undone.
    /// Half of all observations are above what is said then: it is the median.
    pub fn told(&self, value: f64) -> f64 {
        let value = self.clipping().map_or(value, |clip| clip.of(value));
        self.transform().map_or(value, |transform| transform.undo(value))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Biases, Contracted, Ends, Model, ModelAbout, ModelParts, Place, Places, TimeBias};
    use crate::control::Control;
    use crate::convert::{ConvertOptions, convert};
    use crate::manifold::{Distribution, Point, random_point};
    use crate::shard::Dataset;
    use crate::storage::RealDisk;

    /// A dataset of 4 x 3 x 8 in a folder, and a tensor of its shape.
    fn sample(folder: &std::path::Path) -> (Dataset, Point) {
        let rows = (0..96).map(|n| format!("{},{},{},{}\n", n % 4, n / 4 % 3, n / 12, n % 5 + 1));
        let csv = folder.join("r.csv");
        std::fs::write(&csv, format!("u,m,w,rating\n{}", rows.collect::<String>())).unwrap();
        convert(&ConvertOptions::new(vec![csv], folder.join("d")), &Control::default()).unwrap();
        (
            Dataset::open(folder.join("d")).unwrap(),
            random_point(&[4, 3, 8], &[2, 2, 1], Distribution::Gaussian, 3),
        )
    }

    fn write_and_read(folder: &std::path::Path, biases: Option<&Biases>, held: &[bool]) -> Model {
        write_with_ends(folder, biases, held, None)
    }

    fn write_with_ends(
        folder: &std::path::Path,
        biases: Option<&Biases>,
        held: &[bool],
        ends: Option<Ends>,
    ) -> Model {
        let (dataset, point) = sample(folder);
        let unseen = [vec![2], vec![], vec![1]];
        let fit = ModelParts {
            point: &point,
            biases,
            uncertainty: None,
            range: biases.map(|_| (0.0, 4.0)),
            ends,
            held,
            unseen: &unseen,
            iteration: 1,
            train_mse: 0.5,
            validation_mse: Some(0.6),
            refit: false,
        };
        let model = folder.join("model");
        std::fs::create_dir_all(&model).unwrap();
        Model::write(&RealDisk, &model, &dataset, &fit).unwrap();
        let read = Model::read(folder).unwrap();
        assert_eq!((&read.point, read.biases.as_ref()), (&point, biases));
        assert_eq!((read.about.range, read.about.ends), (fit.range, fit.ends));
        read
    }

    fn biases() -> Biases {
        Biases {
            mean: 2.0,
            modes: vec![vec![0.5, -0.5, 0.0, 0.25], vec![], vec![0.125; 8]],
            time: Some(TimeBias {
                of: 0,
                clock: 2,
                first: vec![3, 0, u32::MAX, 1],
                values: (0..TimeBias::buckets(8)).map(|k| k as f64 / 64.0).collect(),
            }),
            pairs: Vec::new(),
        }
    }

    #[test]
    fn a_known_entry_is_biases_plus_tensor() {
        let folder = tempfile::tempdir().unwrap();
        let model = write_and_read(folder.path(), Some(&biases()), &[]);
        let found = model.predict(&[Some(0), Some(1), Some(5)]);
        // Two weeks since the first entry: bucket 3.
        let expected = 2.0 + 0.5 + 0.125 + 3.0 / 64.0 + model.point.value_at(&[0, 1, 5]);
        assert!(found.known && (found.value - expected.clamp(0.0, 4.0)).abs() < 1e-15);
    }

    #[test]
    fn along_a_mode_values_are_those_of_single_questions() {
        for held in [&[][..], &[false, true, false]] {
            let folder = tempfile::tempdir().unwrap();
            let model = write_and_read(folder.path(), Some(&biases()), held);
            let places = Places::new(&model, &[false; 3]);
            let dims = model.about.modes.iter().map(|mode| mode.dim).collect::<Vec<u32>>();
            for along in 0..3 {
                // What is kept from one question to the next must never answer a question about other rows.
                let mut kept = Contracted::default();
                for cell in 0..dims.iter().product::<u32>() {
                    let (i, rest) = (cell % dims[0], cell / dims[0]);
                    let asked = [i, rest % dims[1], rest / dims[1]].map(Place::Index);
                    let (one, other) = (places.value(&asked), places.value_along(&asked, along, &mut kept));
                    assert!((one.value - other.value).abs() < 1e-14 && one.known == other.known);
                }
            }
        }
    }

    #[test]
    fn what_is_unknown_falls_back_on_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let model = write_and_read(folder.path(), Some(&biases()), &[]);
        // Index 2 of the first mode has no train entries, which is as good as no such id.
        for first in [None, Some(2)] {
            let found = model.predict(&[first, Some(1), Some(5)]);
            assert_eq!((found.value, found.known), (2.125, false));
        }
        let folder = tempfile::tempdir().unwrap();
        let held = write_and_read(folder.path(), Some(&biases()), &[false, false, true]);
        // In a mode that is held the tensor speaks of a stranger, too, who is not known for that.
        let tensor = held.point.value_at(&[0, 1, 0]);
        for last in [None, Some(1)] {
            let found = held.predict(&[Some(0), Some(1), last]);
            assert!(!found.known && (found.value - (2.5 + tensor).clamp(0.0, 4.0)).abs() < 1e-15);
        }
        assert!(held.predict(&[Some(0), Some(1), Some(2)]).known);
        assert!(!held.predict(&[None, Some(1), Some(1)]).known);
        let folder = tempfile::tempdir().unwrap();
        let plain = write_and_read(folder.path(), None, &[]);
        let found = plain.predict(&[None, Some(1), Some(5)]);
        assert_eq!((Some(found.value), found.known), (plain.about.mean, false));
    }

    #[test]
    fn the_range_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut high = biases();
        high.mean = 100.0;
        assert_eq!(
            write_and_read(folder.path(), Some(&high), &[]).predict(&[Some(0), Some(1), Some(5)]).value,
            4.0
        );
    }
    #[test]
    fn ends_make_the_clip_a_soft_one() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ends = Ends { below: 0.5, above: 3.5, noise: 0.7 };
        let soft = write_with_ends(one.path(), Some(&biases()), &[], Some(ends));
        let hard = write_with_ends(other.path(), Some(&biases()), &[], None);
        let (mut order, mut lower) = (Vec::new(), 0);
        for week in 0..8 {
            let at = [Some(0), Some(1), Some(week)];
            let (soft, hard) = (soft.predict(&at), hard.predict(&at));
            assert_eq!(soft.known, hard.known);
            assert!((0.0..=4.0).contains(&soft.value));
            // Nearer to the end that is farther away, that is to the middle.
            assert!((soft.value - 2.0).abs() <= (hard.value - 2.0).abs() + 1e-12);
            lower += u32::from((soft.value - hard.value).abs() > 1e-3);
            order.push((hard.value, soft.value));
        }
        assert!(lower > 0);
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(order.is_sorted_by(|a, b| a.1 <= b.1 + 1e-12));
        // A file from before there were any has no such field, and means a plain clip.
        let text = serde_json::to_string(&hard.about).unwrap();
        assert!(!text.contains("ends"));
        assert_eq!(serde_json::from_str::<ModelAbout>(&text).unwrap(), hard.about);
        // Ends that do not go with the range are no model.
        for wrong in [
            Ends { noise: 0.0, ..ends },
            Ends { below: 3.6, ..ends },
            Ends { above: 4.5, ..ends },
            Ends { below: -1.0, ..ends },
        ] {
            let mut model = soft.clone();
            model.about.ends = Some(wrong);
            model.write_extended(&RealDisk, &one.path().join("model"), &[(0, &[])]).unwrap();
            let said = Model::read(one.path()).unwrap_err().to_string();
            assert!(said.contains("range"), "{said}");
        }
    }
}
