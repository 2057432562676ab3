//! Cases S1 to S8: the paper's sizes, ranks, oversampling, condition numbers and noise.

use super::{Extent, Settings, publish};
use crate::Result;
use crate::dense::{self, Dense};
use crate::factored::{self, Factored, Start};
use crate::instance::Synthetic;
use crate::record::{Book, Rules};
use crate::topt;
use tenfill_engine::kernel::Precision;

/// Their names.
pub const CASES: [&str; 8] = ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8"];

/// What a case consists of.
struct Grid {
    instances: Vec<Synthetic>,
    systems: Vec<Factored>,
    starts: Vec<Start>,
    /// Seeds of a quick run.
    quick_seeds: u64,
    rules: Rules,
    precision: Precision,
    /// Whether the other systems of case S2 run too.
    others: bool,
}

impl Grid {
    fn new(instances: Vec<Synthetic>) -> Self {
        Grid {
            instances,
            systems: vec![Factored::Ours, Factored::GeomCg],
            starts: vec![Start::Raw],
            quick_seeds: 1,
            rules: Rules::default(),
            precision: Precision::default(),
            others: false,
        }
    }
}

/// All combinations of cubes, ranks and oversampling.
fn cubes(sizes: &[u32], ranks: &[usize], oversampling: &[f64]) -> Vec<Synthetic> {
    let mut all = Vec::new();
    for &n in sizes {
        for &rank in ranks {
            all.extend(oversampling.iter().map(|&os| Synthetic::cube(n, rank, os)));
        }
    }
    all
}

/// The largest cubes of a smoke run.
const TINY: u32 = 30;

fn grid(case: &str, extent: Extent) -> Result<Grid> {
    use Extent::{Full, Quick, Smoke};
    let base = |oversampling| match extent {
        Smoke => Synthetic::cube(TINY, 2, oversampling),
        _ => Synthetic::cube(10_000, 5, oversampling),
    };
    Ok(match case {
        "S1" => Grid {
            systems: vec![Factored::DescentOurs, Factored::DescentEuclidean],
            quick_seeds: 5,
            // Beyond the paper's 250, so that the levels are reached by both where they ever are.
            rules: Rules { max_iterations: if extent == Smoke { 50 } else { 2000 }, ..Rules::default() },
            ..Grid::new(if extent == Smoke {
                cubes(&[TINY], &[3], &[10.0])
            } else {
                cubes(&[200], &[10], &[10.0])
            })
        },
        "S2" => {
            let all = match extent {
                Full => cubes(&[100, 150, 200], &[5, 10, 15], &[10.0, 20.0, 30.0]),
                Quick => cubes(&[100, 200], &[10], &[10.0, 30.0]),
                Smoke => cubes(&[20], &[2], &[10.0]),
            };
            Grid { others: true, quick_seeds: 2, ..Grid::new(all) }
        }
        "S3" => Grid::new(match extent {
            Full => cubes(&[3000, 5000, 10_000], &[5, 10], &[10.0]),
            Quick => [cubes(&[3000, 5000, 10_000], &[5], &[10.0]), cubes(&[3000], &[10], &[10.0])].concat(),
            Smoke => cubes(&[TINY], &[2], &[10.0]),
        }),
        "S4" => {
            let ratios: &[f64] = if extent == Smoke { &[4.0] } else { &[8.0, 6.0, 5.0, 4.0] };
            Grid { quick_seeds: 2, ..Grid::new(ratios.iter().map(|&os| base(os)).collect()) }
        }
        "S5" => {
            let numbers: &[f64] = if extent == Smoke { &[50.0] } else { &[5.0, 50.0, 100.0] };
            let one = |&number: &f64| Synthetic { condition: Some(number), ..base(5.0) };
            // The entries of these tensors are tiny beside those of the paper's start.
            Grid { starts: vec![Start::Raw, Start::Scaled], ..Grid::new(numbers.iter().map(one).collect()) }
        }
        "S6" => {
            let levels: &[f64] = match extent {
                Full => &[1e-4, 1e-6, 1e-8, 1e-10, 1e-12],
                Quick => &[1e-4, 1e-8, 1e-12],
                Smoke => &[1e-6],
            };
            let one = |&noise: &f64| Synthetic { noise, ..base(10.0) };
            Grid {
                rules: Rules { tolerance: 1e-24, ..Rules::default() },
                precision: Precision::F64,
                ..Grid::new(levels.iter().map(one).collect())
            }
        }
        "S7" => {
            let shape = |dims: [u32; 3], rank: [usize; 3]| Synthetic {
                dims: dims.to_vec(),
                rank: rank.to_vec(),
                ..base(10.0)
            };
            Grid::new(match extent {
                Smoke => vec![shape([60, 20, 20], [2, 2, 2]), shape([TINY, TINY, TINY], [4, 2, 2])],
                _ => vec![
                    shape([20_000, 7000, 7000], [5, 5, 5]),
                    shape([30_000, 6000, 6000], [5, 5, 5]),
                    shape([40_000, 5000, 5000], [5, 5, 5]),
                    shape([10_000, 10_000, 10_000], [7, 6, 6]),
                    shape([10_000, 10_000, 10_000], [10, 5, 5]),
                    shape([10_000, 10_000, 10_000], [15, 4, 4]),
                ],
            })
        }
        "S8" => Grid::new(match extent {
            Full => cubes(&[500, 1000, 1500], &[5, 10, 15], &[10.0, 20.0, 30.0, 40.0]),
            Quick => [
                cubes(&[500], &[5, 10, 15], &[10.0]),
                cubes(&[1000], &[10], &[10.0, 40.0]),
                cubes(&[1500], &[15], &[10.0]),
            ]
            .concat(),
            Smoke => cubes(&[TINY], &[2], &[10.0]),
        }),
        other => return Err(format!("there is no case {other}")),
    })
}

/// Runs one of S1 to S8.
pub fn synthetic(case: &str, settings: &Settings) -> Result<()> {
    let case =
        CASES.into_iter().find(|name| *name == case).ok_or_else(|| format!("there is no case {case}"))?;
    let grid = grid(case, settings.extent)?;
    if grid.others {
        // Said before anything runs, not after hours.
        for description in &grid.instances {
            let dims: Vec<usize> = description.dims.iter().map(|&n| n as usize).collect();
            Dense::ALL.into_iter().try_for_each(|system| system.check(&dims, settings.memory).map(|_| ()))?;
        }
    }
    let mut book = Book::default();
    for description in &grid.instances {
        for seed in 1..=settings.seeds(grid.quick_seeds) {
            let instance = description.make(case, seed, &settings.work())?;
            for &start in &grid.starts {
                for &system in &grid.systems {
                    factored::run(&mut book, &instance, system, start, &grid.rules, grid.precision)?;
                }
            }
            if grid.others {
                topt::run(&mut book, &instance, Start::Raw, &grid.rules)?;
                for system in Dense::ALL {
                    if let Some(rules) = dense_rules(settings.extent, description, seed) {
                        dense::run(&mut book, &instance, system, &rules, settings.memory)?;
                    }
                }
            }
        }
    }
    publish(&book, case, "", settings)?;
    Ok(())
}

/// The systems that hold whole tensors take minutes where the others take a second: in a quick run they
/// see one instance of each size, and at 200^3 only some of the iterations.
fn dense_rules(extent: Extent, instance: &Synthetic, seed: u64) -> Option<Rules> {
    let large = instance.dims.iter().any(|&n| n > 100);
    match extent {
        Extent::Quick if seed > 1 || instance.oversampling > 10.0 => None,
        Extent::Quick if large => Some(Rules { max_iterations: 30, ..Rules::default() }),
        Extent::Smoke => Some(Rules { max_iterations: 30, ..Rules::default() }),
        _ => Some(Rules::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_grids_are_the_papers() {
        let count = |case: &str| grid(case, Extent::Full).unwrap().instances.len();
        assert_eq!(CASES.map(count), [1, 27, 6, 4, 3, 5, 6, 36]);
        for case in CASES {
            for extent in [Extent::Quick, Extent::Smoke] {
                let grid = grid(case, extent).unwrap();
                assert!(!grid.instances.is_empty());
                let mut names: Vec<String> = grid.instances.iter().map(Synthetic::name).collect();
                names.dedup();
                assert_eq!(names.len(), grid.instances.len(), "{case}: {names:?}");
            }
        }
        assert!(grid("S9", Extent::Full).is_err());
    }
}
