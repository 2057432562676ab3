//! The readers, each with whole files to begin from and a way to mend the checksums, so that a
//! change gets past them to the rules behind.

use std::path::{Path, PathBuf};
use tenfill_engine::checkpoint::{Checkpoints, Progress};
use tenfill_engine::control::Control;
use tenfill_engine::ingest::columns::ColumnRequest;
use tenfill_engine::ingest::dialect::DialectRequest;
use tenfill_engine::ingest::{self, ReadOptions};
use tenfill_engine::manifold::{Distribution, Tangent, random_point};
use tenfill_engine::model::{
    Biases, Ends, ModeUncertainty, Model, ModelParts, PairBias, Place, Places, RowFeatures, Spreads, Tails,
    TimeBias, Uncertainty,
};
use tenfill_engine::shard::{Manifest, Shard, ShardWriter};
use tenfill_engine::solver::{Ahead, Best, Iteration, Phase, Secant, State, Stochastic};
use tenfill_engine::storage::RealDisk;

const DIMS: [u32; 3] = [40, 300, 70_000];

/// A reader under test.
pub struct Target {
    pub name: &'static str,
    /// What may be allocated at once beyond the size of the file: buffers that are always there.
    pub allowance: usize,
    /// Whole files.
    pub seeds: fn(&Path) -> Vec<Vec<u8>>,
    /// Where the file must lie.
    pub path: &'static str,
    /// Makes the checksums right again.
    pub mend: fn(&mut [u8]),
    /// Reads the file, if it can be read.
    pub read: fn(&Path, &[u8]) -> bool,
}

pub const TARGETS: [Target; 5] = [
    Target {
        name: "manifest",
        allowance: 64 << 10,
        seeds: manifests,
        path: "manifest.json",
        mend: mend_manifest,
        read: |path, bytes| Manifest::parse(bytes, path).is_ok(),
    },
    Target {
        name: "shard",
        allowance: 64 << 10,
        seeds: shards,
        path: "00000.shard",
        mend: mend_shard,
        read: |path, _| read_shard(path).is_ok(),
    },
    Target {
        name: "checkpoint",
        allowance: 64 << 10,
        seeds: checkpoints,
        path: "checkpoints/00000007.checkpoint",
        mend: mend_container,
        read: |path, _| store(path.parent().and_then(Path::parent).unwrap_or(path)).load(7).is_ok(),
    },
    Target {
        name: "model",
        allowance: 64 << 10,
        seeds: models,
        path: "model/model.bin",
        mend: mend_container,
        read: |path, _| {
            let run = path.parent().and_then(Path::parent).unwrap_or(path);
            Model::read_with_uncertainty(run).is_ok_and(|model| {
                // What was read can be asked.
                let (none, at) =
                    (vec![false; model.point.order()], vec![Place::Index(0); model.point.order()]);
                let places = Places::new(&model, &none);
                let sd = Spreads::new(&model, &none).map(|spreads| spreads.predictive(&places, &at).sd());
                sd.is_ok() || model.uncertainty.is_none()
            })
        },
    },
    Target {
        name: "csv",
        allowance: 1 << 20,
        seeds: tables,
        path: "table.csv",
        mend: |_| {},
        read: |path, _| read_table(path).is_ok(),
    },
];

/// A small run, made by the program's own code; its files are seeds.
fn sample(place: &Path) -> PathBuf {
    use tenfill_engine::convert::{ConvertOptions, Duplicates, SplitRule, convert};
    let run = place.join("run");
    let mut table = String::from("user,item,day,value\n");
    for n in 0..200u32 {
        table += &format!("u{},{},{},{}\n", n % 13, n * 7 % 11 * 2, n % 17, f64::from(n % 9) / 3.0);
    }
    let input = place.join("sample.csv");
    std::fs::write(&input, table).expect("the scratch directory can be written");
    let options = ConvertOptions {
        inputs: vec![input],
        validation: Vec::new(),
        test: Vec::new(),
        output: run.join("data.tenfill"),
        read: read_options(place),
        split: SplitRule::Shares([0.8, 0.1, 0.1]),
        seed: 1,
        duplicates: Duplicates::Mean,
        absent: 0.0,
        transform: None,
        memory: 64 << 20,
        temp_dir: Some(place.into()),
        skip_bad: 0,
        force: true,
    };
    convert(&options, &Control::default()).expect("the sample can be converted");
    run.join("data.tenfill")
}

fn manifests(place: &Path) -> Vec<Vec<u8>> {
    vec![std::fs::read(sample(place).join("manifest.json")).expect("the manifest is there")]
}

/// The checksum stands in hexadecimal after `{\n  "crc32c": "`, and covers what follows its line.
fn mend_manifest(bytes: &mut [u8]) {
    const AT: usize = 15;
    if bytes.len() > AT + 11 {
        let crc = format!("{:08x}", crc32c::crc32c(&bytes[AT + 11..]));
        bytes[AT..AT + 8].copy_from_slice(crc.as_bytes());
    }
}

fn shards(place: &Path) -> Vec<Vec<u8>> {
    // Values as codes, as f32 and as f64; fibres with one entry and with many.
    let values: [fn(u32) -> f64; 3] = [|n| f64::from(n % 5), |n| f64::from(n) / 64.0, |n| f64::from(n) / 3.0];
    let write = |(number, value): (usize, &fn(u32) -> f64)| {
        let path = place.join(format!("seed{number}.shard"));
        let mut writer =
            ShardWriter::create(&RealDisk, &path, &DIMS, 90, number == 1).expect("a shard can be begun");
        for n in 0..240u32 {
            let indices = match number {
                0 => [n / 8, n % 8 * 30, n * 290],
                _ => [n / 40, n / 20, n],
            };
            let weight = (number == 1).then(|| f64::from(n % 4) / 2.0);
            writer.push(&indices, value(n), weight).expect("an entry can be written");
        }
        writer.finish("seed".into()).expect("a shard can be ended");
        std::fs::read(&path).expect("the shard is there")
    };
    values.iter().enumerate().map(write).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |eight| eight.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)))
}

fn put_crc(bytes: &mut [u8], covered: std::ops::Range<usize>, at: usize) {
    let crc = bytes.get(covered).map(crc32c::crc32c);
    if let (Some(crc), Some(place)) = (crc, bytes.get_mut(at..at + 4)) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Head at 60, then every block's in the table, the table's and the tail's.
fn mend_shard(bytes: &mut [u8]) {
    let length = bytes.len();
    if length < 128 {
        return;
    }
    put_crc(bytes, 0..60, 60);
    let tail = length - 64;
    let (count, table) = (u64_at(bytes, tail + 8) as usize, u64_at(bytes, tail + 16) as usize);
    for row in (0..count.min(1000)).map(|n| table.saturating_add(n * 32)).take_while(|row| row + 32 <= tail) {
        let (at, size) = (u64_at(bytes, row) as usize, (u64_at(bytes, row + 8) & 0xffff_ffff) as usize);
        put_crc(bytes, at..at.saturating_add(size), row + 24);
    }
    put_crc(bytes, table.min(tail)..tail, tail + 52);
    put_crc(bytes, tail..tail + 56, tail + 56);
}

fn read_shard(path: &Path) -> tenfill_engine::Result<f64> {
    let shard = Shard::open(path, &DIMS)?;
    let (mut buffer, mut sum) = (Vec::new(), 0.0);
    for number in 0..shard.blocks().len() {
        let bytes = shard.read_block(number, &mut buffer)?;
        shard.check(number, bytes)?;
        shard.view(number, bytes)?.for_each(|indices, value| {
            assert!(indices.iter().zip(&DIMS).all(|(index, dim)| index < dim), "an index is out of range");
            sum += value;
        });
    }
    Ok(sum)
}

fn store(directory: &Path) -> Checkpoints {
    Checkpoints::new(directory.join("checkpoints"), serde_json::json!({ "rank": [2, 3, 2] }))
}

fn checkpoints(place: &Path) -> Vec<Vec<u8>> {
    let point = || random_point(&[9, 7, 5], &[2, 3, 2], Distribution::Uniform, 1);
    let tangent = || Tangent { factors: point().factors, core: point().core };
    let last = Iteration {
        iteration: 7,
        phase: Some(Phase::TwoPass),
        passes: 15,
        cost: 0.5,
        train_mse: 0.5,
        train_mae: 0.5,
        validation_mse: Some(0.6),
        gradient_norm: 1.0,
        step: 0.1,
        beta: 0.2,
        backtracks: 0,
        restarted: false,
        guarded: 0,
    };
    let state = |best: bool| State {
        point: point(),
        gradient: tangent(),
        direction: tangent(),
        slope: -1.0,
        gradient_square: 1.0,
        first_gradient_norm: 2.0,
        last,
        best: best.then(|| Best { point: point(), validation_mse: 0.6, train_mse: 0.5, iteration: 6 }),
        guards: 0,
        damping: 1.0,
        stuck: false,
        // One of the two inside an epoch of steps from chunks.
        stochastic: (!best).then(|| Box::new(Stochastic::new(&point(), 3, true))),
        // The other one between steps of one pass.
        secant: best.then(|| {
            let ahead = Some(Ahead { offset: tangent(), gradient: tangent() });
            Box::new(Secant { ahead, ..Secant::default() })
        }),
    };
    let save = |best| {
        store(place)
            .save(&RealDisk, &state(best), &Progress::default())
            .expect("a checkpoint can be written");
        std::fs::read(place.join("checkpoints/00000007.checkpoint")).expect("the checkpoint is there")
    };
    vec![save(true), save(false)]
}

fn models(place: &Path) -> Vec<Vec<u8>> {
    let dataset = tenfill_engine::shard::Dataset::open(sample(place)).expect("the sample can be opened");
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let point = random_point(&dims, &[2, 2, 2], Distribution::Uniform, 1);
    let unseen = vec![vec![1], vec![], vec![0, 3]];
    let folder = place.join("model");
    std::fs::create_dir_all(&folder).expect("the scratch directory can be written");
    let order = dims.len();
    let biases = Biases {
        mean: 3.5,
        modes: dims.iter().map(|&dim| vec![0.25; dim]).collect(),
        time: Some(TimeBias {
            of: 0,
            clock: order - 1,
            first: vec![0; dims[0]],
            values: vec![0.1; TimeBias::buckets(dims[order - 1] as u32)],
        }),
        pairs: vec![PairBias { modes: [1, 0], width: dims[0], values: vec![0.5; dims[0] * dims[1]] }],
    };
    let mode = |(mode, &dim): (usize, &usize)| ModeUncertainty {
        width: 3,
        variances: vec![0.5; 3 * dim],
        unknown: vec![1.0; 3],
        coefficients: vec![0.1; if mode < 2 { 12 } else { 3 }],
        covariance: vec![1.0; 9],
        ridge: 30.0,
        counts: vec![2.0; dim],
        features: if mode < 2 {
            RowFeatures {
                width: 1,
                values: vec![0.5; dim],
                basis: vec![0.25; if mode == 1 { dim } else { 0 }],
                centre: vec![0.1],
                scale: vec![2.0],
                half: RowFeatures::HALF,
            }
        } else {
            RowFeatures::default()
        },
    };
    let uncertainty = Uncertainty {
        unit: 1.5,
        noise: 0.5,
        held_out_noise: 0.6,
        tails: Tails::Student(8),
        pair: [0, 1],
        modes: dims.iter().enumerate().map(mode).collect(),
    };
    let write = |biases: Option<&Biases>| {
        let fit = ModelParts {
            point: &point,
            biases,
            uncertainty: biases.map(|_| &uncertainty),
            range: Some((0.5, 5.0)),
            ends: biases.map(|_| Ends { below: 0.75, above: 4.75, noise: 0.7 }),
            held: &[false, false, true],
            unseen: &unseen,
            iteration: 3,
            train_mse: 0.5,
            validation_mse: None,
            refit: false,
        };
        Model::write(&RealDisk, &folder, &dataset, &fit).expect("a model can be written");
        std::fs::read(folder.join("model.bin")).expect("the model is there")
    };
    vec![write(None), write(Some(&biases))]
}

/// The head's at 12, the description's in the tail, the tail's.
fn mend_container(bytes: &mut [u8]) {
    let length = bytes.len();
    if length < 48 {
        return;
    }
    put_crc(bytes, 0..12, 12);
    let tail = length - 32;
    let (at, size) = (u64_at(bytes, tail) as usize, u64_at(bytes, tail + 8) as usize);
    put_crc(bytes, at..at.saturating_add(size), tail + 16);
    put_crc(bytes, tail..tail + 24, tail + 24);
}

fn tables(_: &Path) -> Vec<Vec<u8>> {
    let texts: [&str; 6] = [
        "userId,movieId,rating,timestamp\n1,2,3.5,964982703\n1,3,4,964981247\n2,2,0.5,1445714835\n",
        "user\titem\tvalue\nann\tx 1\t1e-3\nbob\t\"y\"\t-2\n",
        "1::2::3.5::978300760\n1::661::3::978302109\n",
        "1 1 1 0.5\n2 3 1 1.25\n10 3 2 -7\n",
        "a;b;value\n\"x;\"\"1\"\"\";2;3,5\n\"line\nbreak\";4;1,0\n",
        "\u{feff}user,item,date,rating\r\nä,1,2004-05-01T12:00:00Z,5\r\nö,2,2004-05-08,4\r\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn read_options(place: &Path) -> ReadOptions {
    ReadOptions {
        format: None,
        dialect: DialectRequest::default(),
        columns: ColumnRequest::default(),
        threads: 1,
        chunk: 32 << 10,
        scratch: place.into(),
        budget: None,
    }
}

fn read_table(path: &Path) -> tenfill_engine::Result<usize> {
    let options = read_options(path.parent().unwrap_or(path));
    let input = ingest::open(path, &options, &Control::default())?;
    let mut rows = 0;
    ingest::read_rows(input, &options, &Control::default(), |batch| {
        assert_eq!(batch.values.len(), batch.len());
        rows += batch.len();
        Ok(())
    })?;
    Ok(rows)
}
