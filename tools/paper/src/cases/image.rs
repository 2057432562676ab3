//! Case R1: an image cube, sampled, completed by everybody, and one of its bands as a picture.

use super::{Extent, Settings, publish};
use crate::Result;
use crate::dense::{self, Dense};
use crate::factored::{self, Factored, Start};
use crate::instance::Instance;
use crate::npy::Cube;
use crate::picture::{self, Grey};
use crate::record::{About, Book, Rules};
use crate::{told, topt};
use std::path::Path;
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{Core, Point};
use tenfill_engine::shard::Split;
use tenfill_engine::synth::{Permutation, entries_from_oversampling};

/// The order of the paper's Table 2 for OS 11, best first, with its mean squared errors.
pub const PAPER_ORDER: [(&str, f64); 6] = [
    ("ours", 8.2095e-4),
    ("TOpt", 1.7854e-3),
    ("HaLRTC", 2.2671e-3),
    ("Latent", 2.9296e-3),
    ("geomCG", 3.8342e-1),
    ("Hard", 6.5090e2),
];

/// The rank of the paper.
const RANK: [usize; 3] = [15, 15, 6];
/// Entries that are handed over at a time.
const BATCH: usize = 1 << 16;

/// Runs R1 on a cube of rows x columns x bands, its values between 0 and 1; `band` counts from 1.
pub fn image(cube: &Cube, band: usize, settings: &Settings) -> Result<()> {
    if band == 0 || band > cube.dims[2] {
        return Err(format!("--band {band} is not among the {} bands of the cube", cube.dims[2]));
    }
    Dense::ALL.into_iter().try_for_each(|system| system.check(&cube.dims, settings.memory).map(|_| ()))?;
    let rank: Vec<usize> = match settings.extent {
        Extent::Smoke => vec![3, 3, 2],
        _ => RANK.iter().zip(cube.dims).map(|(&rank, n)| rank.min(n)).collect(),
    };
    let mut book = Book::default();
    let folder = settings.out.join("R1");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for oversampling in [11.0, 22.0] {
        for seed in 1..=settings.seeds(1) {
            let instance = sample(cube, &rank, oversampling, seed, settings)?;
            let found = complete(&mut book, &instance, settings, band)?;
            if seed == 1 {
                pictures(&folder, cube, band, oversampling, found)?;
            }
        }
    }
    let [n1, n2, n3] = cube.dims;
    publish(&book, "R1", &format!(", on an image of {n1} x {n2} pixels and {n3} bands"), settings)?;
    Ok(())
}

/// A uniform sample without replacement, four fifths of it for train, a tenth each for validation and
/// test.
fn sample(
    cube: &Cube,
    rank: &[usize],
    oversampling: f64,
    seed: u64,
    settings: &Settings,
) -> Result<Instance> {
    let dims: Vec<u32> = cube.dims.iter().map(|&n| n as u32).collect();
    let count = entries_from_oversampling(oversampling, &dims, rank).map_err(told)? as usize;
    if count > cube.values.len() {
        return Err(format!("OS {oversampling} asks for {count} of {} cells", cube.values.len()));
    }
    let (train, validation) = (count * 8 / 10, count * 9 / 10);
    let about = About {
        case: "R1",
        instance: format!("OS {oversampling}"),
        seed,
        dims: cube.dims.to_vec(),
        rank: rank.to_vec(),
        entries: train as u64,
        mean_square: Some(cube.values.iter().map(|x| x * x).sum::<f64>() / cube.values.len() as f64),
        noise: None,
    };
    let order = Permutation::new(cube.values.len() as u128, seed);
    let [_, n2, n3] = cube.dims;
    Instance::fill(about, &settings.work(), |take| {
        for first in (0..count).step_by(BATCH) {
            let (mut indices, mut values, mut splits) = (Vec::new(), Vec::new(), Vec::new());
            for t in first..(first + BATCH).min(count) {
                let place = order.at(t as u64) as usize;
                indices.extend([place / n3 / n2, place / n3 % n2, place % n3].map(|i| i as u32));
                values.push(cube.values[place]);
                splits.push(match t {
                    t if t < train => Split::Train,
                    t if t < validation => Split::Validation,
                    _ => Split::Test,
                });
            }
            take(&indices, &values, &splits)?;
        }
        Ok(())
    })
}

/// Everybody's completion of one sample: the band that each has found.
fn complete(
    book: &mut Book,
    instance: &Instance,
    settings: &Settings,
    band: usize,
) -> Result<Vec<(String, Grey)>> {
    let rules = Rules { patience: 10, ..Rules::default() };
    let of_point = |point: &Point| {
        let dims = point.dims();
        let cells = (0..dims[0] * dims[1]).map(|k| point.value_at(&[k / dims[1], k % dims[1], band - 1]));
        Grey { height: dims[0], width: dims[1], values: cells.collect() }
    };
    let of_tensor = |tensor: &Core| {
        let dims = tensor.ranks();
        let values = tensor.as_slice().iter().skip(band - 1).step_by(dims[2]).copied().collect();
        Grey { height: dims[0], width: dims[1], values }
    };
    let mut found = Vec::new();
    for start in [Start::Raw, Start::Scaled] {
        for system in [Factored::Ours, Factored::GeomCg] {
            let point = factored::run(book, instance, system, start, &rules, Precision::default())?;
            let name =
                if start == Start::Raw { system.name().into() } else { format!("{}-scaled", system.name()) };
            found.push((name, of_point(&point)));
        }
    }
    found.push(("TOpt".into(), of_point(&topt::run(book, instance, Start::Scaled, &rules)?)));
    let most = match settings.extent {
        Extent::Full => rules.max_iterations,
        Extent::Quick => 100,
        Extent::Smoke => 20,
    };
    for system in Dense::ALL {
        let rules = Rules { max_iterations: most, ..rules };
        let tensor = dense::run(book, instance, system, &rules, settings.memory)?;
        found.push((system.name().into(), of_tensor(&tensor)));
    }
    Ok(found)
}

/// The original band beside each recovered one, and beside all of them.
fn pictures(
    folder: &Path,
    cube: &Cube,
    band: usize,
    oversampling: f64,
    found: Vec<(String, Grey)>,
) -> Result<()> {
    let original = || Grey {
        height: cube.dims[0],
        width: cube.dims[1],
        values: cube.values.iter().skip(band - 1).step_by(cube.dims[2]).copied().collect(),
    };
    let mut all = vec![original()];
    for (name, picture) in found {
        let path = folder.join(format!("band{band}-OS{oversampling}-{name}.png"));
        let again = Grey { values: picture.values.clone(), ..picture };
        picture::write(&path, &[original(), again])?;
        all.push(picture);
    }
    picture::write(&folder.join(format!("band{band}-OS{oversampling}.png")), &all)
}
