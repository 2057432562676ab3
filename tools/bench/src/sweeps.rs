//! Time of a sweep per entry, against plain loops.

use crate::kernels::median;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;
use tenfill_engine::bayes::{Data, Fit, Slices};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::Stream;
use tenfill_engine::usage::cpu_seconds;

/// Numbers of a row, its bias included.
const WIDTHS: [usize; 2] = [16, 32];
/// Plain loops are timed on the entries of so many slices.
const PLAIN_SLICES: usize = 200;
/// Sweeps that are timed: exact ones.
const FIRST: usize = 4;
const TIMED: usize = 4;

/// Times sweeps over a dataset of ratings.
pub fn measure(name: &str, dataset: &Dataset) -> Result<Vec<Value>, String> {
    let threads = rayon::current_num_threads();
    let manifest = dataset.manifest();
    let entries = manifest.train.entries as f64;
    let train = Stream::open(dataset, Split::Train, None).map_err(|error| error.to_string())?;
    let slices = Slices::new(&train, 1.0, manifest.modes.len()).map_err(|error| error.to_string())?;
    let data = Data::of(&train, &slices);
    let mut lines = Vec::new();
    for k in WIDTHS {
        let begun = Fit::begin(manifest, &data, None, |_| k - 1, None, 1);
        let (mut fit, _) = begun.map_err(|error| error.to_string())?;
        let mut plain = Plain::new(dataset, &fit, k)?;
        let (mut naives, mut cpus, mut walls, mut ratios) = (vec![], vec![], vec![], vec![]);
        for sweep in 1..FIRST + TIMED {
            let (begun, used) = (Instant::now(), cpu_seconds());
            let passes = fit.sweep(&data).map_err(|error| error.to_string())? as f64;
            let cpu = (cpu_seconds() - used) * 1e9 / entries / passes / threads as f64;
            let wall = begun.elapsed().as_secs_f64() * 1e9 / entries / passes;
            if sweep >= FIRST {
                let naive = plain.time();
                naives.push(naive);
                cpus.push(cpu);
                walls.push(wall);
                ratios.push(naive / cpu);
            }
        }
        let [naive, cpu, wall, ratio] =
            [&mut naives, &mut cpus, &mut walls, &mut ratios].map(|of| median(of));
        println!(
            "{name:29} sweep {k:2} {entries:>10} {naive:>8.1} {cpu:>7.2} {wall:>7.2} {ratio:>7.1} {:>6}",
            20
        );
        lines.push(json!({
            "case": name, "pass": "sweep", "width": k, "threads": threads, "entries": entries,
            "naive_ns": naive, "cpu_ns": cpu, "wall_ns": wall, "ratio": ratio, "asked": 20,
        }));
    }
    Ok(lines)
}

/// A sweep in plain loops, of two modes: the formulas, entry by entry, for some slices.
struct Plain {
    k: usize,
    /// Per slice its entries: the row of the other mode, and the value.
    slices: Vec<Vec<(usize, f64)>>,
    rows: Vec<f64>,
    variances: Vec<f64>,
    /// Covariances of the other mode's rows, where sweeps have them whole.
    covariances: Vec<f64>,
    sums: Vec<f64>,
    rights: Vec<f64>,
}

impl Plain {
    fn new(dataset: &Dataset, fit: &Fit, k: usize) -> Result<Self, String> {
        let (first, second) = (fit.terms.mode_order[0], fit.terms.mode_order[1]);
        let level = &fit.posterior.levels[1];
        let mut slices: Vec<Vec<(usize, f64)>> = Vec::new();
        let mut last = None;
        let mut full = false;
        let read = dataset.for_each(Split::Train, |at, value| {
            full |= last != Some(at[first]) && slices.len() == PLAIN_SLICES;
            if full {
                return;
            }
            if last != Some(at[first]) {
                slices.push(Vec::new());
                last = Some(at[first]);
            }
            if let Some(slice) = slices.last_mut() {
                slice.push((at[second] as usize, (value - fit.terms.mean) / fit.terms.spread));
            }
        });
        read.map_err(|error| error.to_string())?;
        let rows = (0..level.rows * k).map(|n| 0.1 * ((n * 7 % 13) as f64 - 6.0)).collect();
        Ok(Plain {
            k,
            slices,
            rows,
            variances: vec![0.01; level.rows * k],
            covariances: if level.covariances.is_empty() {
                Vec::new()
            } else {
                vec![0.01; level.rows * k * k]
            },
            sums: vec![0.0; level.rows * k * k],
            rights: vec![0.0; level.rows * k],
        })
    }

    /// ns per entry, one thread.
    fn time(&mut self) -> f64 {
        let k = self.k;
        let used = cpu_seconds();
        for slice in &self.slices {
            let (mut a, mut b) = (vec![0.0; k * k], vec![0.0; k]);
            for i in 0..k {
                a[i * k + i] = 1.0;
            }
            for &(item, y) in slice {
                let (row, s) = (&self.rows[item * k..][..k], &self.variances[item * k..][..k]);
                let z = |i: usize| if i + 1 < k { row[i] } else { 1.0 };
                let t = y - row[k - 1];
                for i in 0..k {
                    for j in 0..k {
                        a[i * k + j] += z(i) * z(j);
                    }
                    b[i] += t * z(i);
                }
                if self.covariances.is_empty() {
                    (0..k).for_each(|i| a[i * k + i] += s[i]);
                } else {
                    let whole = &self.covariances[item * k * k..][..k * k];
                    a.iter_mut().zip(whole).for_each(|(a, s)| *a += s);
                }
            }
            let inverse = invert(&mut a, k);
            let x: Vec<f64> = (0..k).map(|i| (0..k).map(|j| inverse[i * k + j] * b[j]).sum()).collect();
            for &(item, y) in slice {
                let (to, right) =
                    (&mut self.sums[item * k * k..][..k * k], &mut self.rights[item * k..][..k]);
                let z = |i: usize| if i + 1 < k { x[i] } else { 1.0 };
                let t = y - x[k - 1];
                for i in 0..k {
                    for j in 0..k {
                        let s = if i + 1 < k && j + 1 < k { inverse[i * k + j] } else { 0.0 };
                        to[i * k + j] += z(i) * z(j) + s;
                    }
                    let cross = if i + 1 < k { inverse[i * k + k - 1] } else { 0.0 };
                    right[i] += t * z(i) - cross;
                }
            }
        }
        black_box((&self.sums, &self.rights));
        let entries: usize = self.slices.iter().map(Vec::len).sum();
        (cpu_seconds() - used) * 1e9 / entries as f64
    }
}

/// By Gauss and Jordan.
fn invert(a: &mut [f64], k: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; k * k];
    for i in 0..k {
        inverse[i * k + i] = 1.0;
    }
    for i in 0..k {
        let by = 1.0 / a[i * k + i];
        for j in 0..k {
            a[i * k + j] *= by;
            inverse[i * k + j] *= by;
        }
        for other in 0..k {
            if other != i {
                let by = a[other * k + i];
                for j in 0..k {
                    a[other * k + j] -= by * a[i * k + j];
                    inverse[other * k + j] -= by * inverse[i * k + j];
                }
            }
        }
    }
    inverse
}
