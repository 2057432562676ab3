//! The tensor behind an instance: G x_1 U_1 ... x_D U_D with orthonormal factors, and its values.

use super::contract::{contract, form};
use super::spec::{Distribution, TuckerSpec};
use crate::rows::{Rows, orthonormalize};
use crate::synth::random::{Purpose, Random};
use std::hint::black_box;

/// Entries whose rows are fetched together.
const WINDOW: usize = 64;

/// The generating model of a Tucker instance.
#[derive(Clone, Debug)]
pub struct TuckerModel {
    dims: Vec<u32>,
    rank: Vec<usize>,
    /// U_d by mode, row-major: a row per index.
    factors: Vec<Vec<f64>>,
    core: Core,
    /// The order in which modes are contracted with the core.
    path: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Core {
    /// All values, the modes in the order of the path, its last mode fastest.
    Full(Vec<f64>),
    /// The diagonal; zero elsewhere.
    Diagonal(Vec<f64>),
}

impl TuckerModel {
    /// The model of a valid spec.
    pub(super) fn new(spec: &TuckerSpec) -> Self {
        let draw = |random: &mut Random| match spec.factors {
            Distribution::Uniform => random.uniform(),
            Distribution::Gaussian => random.normal(),
        };
        let (factors, triangles): (Vec<_>, Vec<_>) = spec
            .dims
            .iter()
            .zip(&spec.rank)
            .enumerate()
            .map(|(mode, (&n, &r))| {
                let mut random = Random::new(spec.seed, Purpose::Factor, mode as u64);
                let drawn = (0..n as usize * r).map(|_| draw(&mut random)).collect();
                let mut factor = Rows::from_vec(n as usize, r, drawn);
                let triangle = orthonormalize(&mut factor).expect("random columns are independent");
                (factor.into_vec(), triangle)
            })
            .unzip();
        let path = contraction_path(&spec.dims, &spec.rank);
        let core = match spec.condition {
            Some(condition) => Core::Diagonal(decaying(condition, spec.rank[0])),
            None => {
                let mut random = Random::new(spec.seed, Purpose::Core, 0);
                let values = spec.rank.iter().product();
                let mut core: Vec<f64> = (0..values).map(|_| draw(&mut random)).collect();
                let shape: Vec<usize> = path.iter().map(|&mode| spec.rank[mode]).collect();
                for (place, &mode) in path.iter().enumerate() {
                    multiply_mode(&mut core, &shape, place, triangles[mode].as_slice());
                }
                Core::Full(core)
            }
        };
        TuckerModel { dims: spec.dims.clone(), rank: spec.rank.clone(), factors, core, path }
    }

    /// The dimension of each mode.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// The rank of each mode.
    pub fn rank(&self) -> &[usize] {
        &self.rank
    }

    /// The root mean square of all cells, ||G||_F / sqrt(n_1 ... n_D), the factors being
    /// orthonormal.
    pub fn rms(&self) -> f64 {
        let (Core::Full(values) | Core::Diagonal(values)) = &self.core;
        let square: f64 = values.iter().map(|g| g * g).sum();
        let cells: f64 = self.dims.iter().map(|&n| n as f64).product();
        (square / cells).sqrt()
    }

    /// The exact value of one cell.
    ///
    /// # Panics
    /// If `index` is not a cell of the tensor.
    pub fn value(&self, index: &[u32]) -> f64 {
        assert_eq!(index.len(), self.dims.len(), "one index per mode");
        let mut value = [0.0];
        self.values(index, &mut value);
        value[0]
    }

    /// The exact values of cells given as in a batch.
    pub(super) fn values(&self, indices: &[u32], values: &mut [f64]) {
        match &self.core {
            Core::Full(core) => self.full_values(core, indices, values),
            Core::Diagonal(diagonal) => self.diagonal_values(diagonal, indices, values),
        }
    }

    fn row(&self, mode: usize, index: u32) -> &[f64] {
        let r = self.rank[mode];
        &self.factors[mode][index as usize * r..][..r]
    }

    /// sum_k g_k u_1k ... u_Dk.
    fn diagonal_values(&self, diagonal: &[f64], indices: &[u32], values: &mut [f64]) {
        let mut product = vec![0.0; diagonal.len()];
        for (index, value) in indices.chunks_exact(self.dims.len()).zip(values) {
            product.copy_from_slice(diagonal);
            for (mode, &i) in index.iter().enumerate() {
                for (p, u) in product.iter_mut().zip(self.row(mode, i)) {
                    *p *= u;
                }
            }
            *value = product.iter().sum();
        }
    }

    /// The core contracted with one row after another along the path. The first and dearest
    /// contraction depends on the first index alone, so entries are visited slice by slice and it
    /// is done once for each slice: r_2 r_3 instead of r_1 r_2 r_3 operations for most entries. The
    /// arithmetic of a value is the same in any order of visits.
    fn full_values(&self, core: &[f64], indices: &[u32], values: &mut [f64]) {
        let order = self.dims.len();
        let root = self.path[0];
        let (second, last) = (self.path[order - 2], self.path[order - 1]);
        let form = form(self.rank[last]);
        // What is left of the core after each contraction but the last two.
        let mut partial: Vec<Vec<f64>> = Vec::with_capacity(order);
        let mut width = core.len();
        for &mode in &self.path[..order - 2] {
            width /= self.rank[mode];
            partial.push(vec![0.0; width]);
        }
        let mut slice = None;
        for window in visits(indices, order, root, self.dims[root]).chunks(WINDOW) {
            self.touch(window, indices);
            for &entry in window {
                let index = &indices[entry as usize * order..][..order];
                let row = |mode: usize| self.row(mode, index[mode]);
                for step in 0..order - 2 {
                    if step == 0 && slice == Some(index[root]) {
                        continue;
                    }
                    let (before, after) = partial.split_at_mut(step);
                    let tensor = before.last().map_or(core, |before| &before[..]);
                    contract(row(self.path[step]), tensor, &mut after[0]);
                }
                slice = Some(index[root]);
                let matrix = partial.last().map_or(core, |partial| &partial[..]);
                values[entry as usize] = form(row(second), matrix, row(last));
            }
        }
    }

    /// Reads from the rows that a window of entries needs, so that their cache misses overlap
    /// instead of coming one by one: half the time where factors exceed the cache.
    fn touch(&self, window: &[u32], indices: &[u32]) {
        let order = self.dims.len();
        let mut sum = 0.0;
        for (mode, factor) in self.factors.iter().enumerate() {
            let r = self.rank[mode];
            for &entry in window {
                let start = indices[entry as usize * order + mode] as usize * r;
                sum += factor[start] + factor[start + r - 1];
            }
        }
        black_box(sum);
    }
}

/// The mode of fewest indices first, since its slices hold the most entries; of the others the one
/// of largest rank last, where it makes the longest inner loop.
fn contraction_path(dims: &[u32], rank: &[usize]) -> Vec<usize> {
    let mut path: Vec<usize> = (0..dims.len()).collect();
    path.sort_by_key(|&mode| dims[mode]);
    path[1..].sort_by_key(|&mode| rank[mode]);
    path
}

/// The numbers of the entries in an order that brings those of a slice together: a counting sort,
/// or their own order where most slices would hold a single entry anyway.
fn visits(indices: &[u32], order: usize, mode: usize, dim: u32) -> Vec<u32> {
    let entries = indices.len() / order;
    if dim as usize > entries {
        return (0..entries as u32).collect();
    }
    let slices = || indices.iter().skip(mode).step_by(order);
    let mut next = vec![0_u32; dim as usize + 1];
    for &slice in slices() {
        next[slice as usize + 1] += 1;
    }
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    let mut visits = vec![0; entries];
    for (entry, &slice) in slices().enumerate() {
        let place = &mut next[slice as usize];
        visits[*place as usize] = entry as u32;
        *place += 1;
    }
    visits
}

/// CN^((r - 1 - k) / (r - 1)) for k = 0..r: exponential decay from CN to 1.
fn decaying(condition: f64, rank: usize) -> Vec<f64> {
    let last = rank.saturating_sub(1).max(1) as f64;
    (0..rank).map(|k| condition.powf((rank - 1 - k) as f64 / last)).collect()
}

/// tensor x_place R in place, for a row-major tensor of this shape and a square row-major R.
fn multiply_mode(tensor: &mut [f64], shape: &[usize], place: usize, r: &[f64]) {
    let size = shape[place];
    let inner: usize = shape[place + 1..].iter().product();
    let mut fibre = vec![0.0; size];
    for block in tensor.chunks_exact_mut(size * inner) {
        for offset in 0..inner {
            for (i, value) in fibre.iter_mut().enumerate() {
                *value = block[i * inner + offset];
            }
            for (i, row) in r.chunks_exact(size).enumerate() {
                block[i * inner + offset] = row.iter().zip(&fibre).map(|(r, x)| r * x).sum();
            }
        }
    }
}
