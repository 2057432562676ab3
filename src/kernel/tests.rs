//! Fast kernels against their naive twins, and both against finite differences.

use super::dispatch::limit;
use super::testing::{OwnedBlock, OwnedFactors, Random, ValueKind};
use super::*;
use proptest::prelude::*;

const KINDS: [ValueKind; 3] = [ValueKind::Codes, ValueKind::F32, ValueKind::F64];

/// A tensor, a point, a direction, and blocks with their entries.
struct Problem {
    dims: Vec<usize>,
    point: OwnedFactors,
    direction: OwnedFactors,
    blocks: Vec<OwnedBlock>,
}

/// Sorted distinct entries, row by row.
fn random_entries(dims: &[usize], count: usize, random: &mut Random) -> Vec<Vec<u32>> {
    let mut entries: Vec<Vec<u32>> =
        (0..count).map(|_| dims.iter().map(|&n| random.below(n) as u32).collect()).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn make_blocks(
    entries: &[Vec<u32>],
    per_block: usize,
    flat_from: usize,
    kind: ValueKind,
    short: bool,
    random: &mut Random,
) -> Vec<OwnedBlock> {
    (entries.chunks(per_block))
        .map(|chunk| {
            let values: Vec<f64> = chunk.iter().map(|_| random.below(200) as f64 / 16.0 - 6.0).collect();
            OwnedBlock::new(chunk[0].len(), flat_from, &chunk.concat(), &values, kind, short)
        })
        .collect()
}

/// A block whose entries have weights, some of them 0.
fn weigh(block: OwnedBlock, random: &mut Random) -> OwnedBlock {
    let weights = (0..block.view().entries).map(|_| random.below(9) as f64 / 4.0).collect();
    block.weighted(weights)
}

impl Problem {
    fn random(dims: &[usize], ranks: &[usize], flat_from: usize, count: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let entries = random_entries(dims, count, &mut random);
        let kind = KINDS[random.below(3)];
        let short = random.below(2) == 0;
        let per_block = 1 + random.below(2 * entries.len());
        let mut blocks = make_blocks(&entries, per_block, flat_from, kind, short, &mut random);
        if random.below(2) == 0 {
            blocks = blocks.into_iter().map(|block| weigh(block, &mut random)).collect();
        }
        Problem::new(dims, ranks, blocks, &mut random)
    }

    fn new(dims: &[usize], ranks: &[usize], blocks: Vec<OwnedBlock>, random: &mut Random) -> Self {
        let point = OwnedFactors::random(dims, ranks, random);
        let direction = OwnedFactors::random(dims, ranks, random);
        Problem { dims: dims.to_vec(), point, direction, blocks }
    }

    fn sums(&self) -> GradientSums {
        GradientSums::new(&self.dims, &self.point.ranks, 0..self.dims[0], Precision::F64)
    }

    fn mixed_sums(&self) -> GradientSums {
        GradientSums::new(&self.dims, &self.point.ranks, 0..self.dims[0], Precision::Mixed)
    }

    fn naive_gradient(&self) -> GradientSums {
        let mut sums = self.sums();
        for block in &self.blocks {
            naive::gradient(&block.view(), &self.point.view(), &mut sums);
        }
        sums
    }

    fn gradient_sizes(&self) -> GradientSums {
        let mut sums = self.sums();
        for block in &self.blocks {
            naive::gradient_sizes(&block.view(), &self.point.view(), &mut sums);
        }
        sums
    }

    fn naive_cost(&self, point: &OwnedFactors) -> f64 {
        let mut sums = ResidualSums::default();
        for block in &self.blocks {
            naive::residual(&block.view(), &point.view(), &mut sums);
        }
        sums.squares
    }

    /// The point moved along the direction.
    fn moved(&self, s: f64) -> OwnedFactors {
        let mut moved = self.point.clone();
        let add = |to: &mut Vec<f64>, from: &Vec<f64>| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += s * from);
        };
        add(&mut moved.core, &self.direction.core);
        for (to, from) in moved.rows.iter_mut().zip(&self.direction.rows) {
            add(to, from);
        }
        moved
    }

    /// Every kernel against its twin.
    fn check(&self) {
        let (point, direction) = (self.point.view(), self.direction.view());
        let order = self.dims.len();
        let mut workspace = Workspace::new();
        let (mut packing, mut packing_line) = (PaddingBuffer::new(), PaddingBuffer::new());
        let (padded, line) = (packing.point(point), packing_line.line(point, direction));
        let (mut fast, mut mixed, naive) = (self.sums(), self.mixed_sums(), self.naive_gradient());
        let (mut fast_step, mut naive_step) = (StepSums::default(), StepSums::default());
        let (mut fast_residual, mut naive_residual) = (ResidualSums::default(), ResidualSums::default());
        let (mut fast_line, mut naive_line) = (LinePolynomial::new(order), LinePolynomial::new(order));
        for block in &self.blocks {
            let block = &block.view();
            gradient(block, &padded, &mut fast, &mut workspace);
            gradient(block, &padded, &mut mixed, &mut workspace);
            step(block, &line, &mut fast_step, &mut workspace);
            naive::step(block, &point, &direction, &mut naive_step);
            residual(block, &padded, &mut fast_residual, &mut workspace);
            naive::residual(block, &point, &mut naive_residual);
            line_polynomial(block, &point, &direction, &mut fast_line, &mut workspace);
            naive::line_polynomial(block, &point, &direction, &mut naive_line);
        }
        assert_sums_close(&fast, &naive, 1e-12);
        // Cost and core are not summed up in single precision, rows are. Every sum on the way is rounded, and none is
        // larger than the absolute values of what was added: these are the scale of the error, not the sum, which
        // may be nearly nothing where entries of both signs meet in a row.
        assert_eq!(mixed.entries(), naive.entries());
        let sizes = self.gradient_sizes();
        for level in 0..order {
            assert_eq!(mixed.range(level), naive.range(level));
            let scale = norm(sizes.rows(level).iter().copied());
            assert_within_scale(&mixed.rows(level), &naive.rows(level), 3e-7 * scale);
        }
        assert_close(&[mixed.squares(), mixed.absolute()], &[naive.squares(), naive.absolute()]);
        assert_close(mixed.core(), naive.core());
        let step_sums = |s: &StepSums| [s.residual_change, s.change_change, s.squares];
        let [fast_el, ..] = step_sums(&fast_step);
        let [naive_el, naive_ll, naive_ee] = step_sums(&naive_step);
        // The sum of e L has terms of both signs: its scale is that of the two others.
        assert!((fast_el - naive_el).abs() <= 1e-12 * (naive_ll * naive_ee).sqrt());
        assert_close(&step_sums(&fast_step)[1..], &[naive_ll, naive_ee]);
        assert_eq!(fast_step.entries, naive_step.entries);
        assert_close(
            &[fast_residual.squares, fast_residual.absolute, fast_residual.weight],
            &[naive_residual.squares, naive_residual.absolute, naive_residual.weight],
        );
        assert_eq!(fast_residual.scored, naive_residual.scored);
        assert_close(fast_line.coefficients(), naive_line.coefficients());
        assert_eq!(fast_line.entries(), naive_line.entries());
    }
}

/// Equal within 1e-12 of the norm.
#[track_caller]
fn assert_close(fast: &[f64], naive: &[f64]) {
    assert_within(fast, naive, 1e-12);
}

#[track_caller]
fn assert_within(fast: &[f64], naive: &[f64], tolerance: f64) {
    assert_within_scale(fast, naive, tolerance * norm(naive.iter().copied()));
}

fn norm(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|x| x * x).sum::<f64>().sqrt()
}

#[track_caller]
fn assert_within_scale(fast: &[f64], naive: &[f64], most: f64) {
    assert_eq!(fast.len(), naive.len());
    let difference = norm(fast.iter().zip(naive).map(|(a, b)| a - b));
    assert!(difference <= most, "{difference:e}, {most:e} allowed");
}

#[track_caller]
fn assert_sums_close(fast: &GradientSums, naive: &GradientSums, tolerance: f64) {
    assert_within(&[fast.squares(), fast.absolute()], &[naive.squares(), naive.absolute()], tolerance);
    assert_eq!(fast.entries(), naive.entries());
    assert_within(fast.core(), naive.core(), tolerance);
    for level in 0..fast.rows.len() {
        assert_eq!(fast.range(level), naive.range(level));
        assert_within(&fast.rows(level), &naive.rows(level), tolerance);
    }
}

fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, usize, usize, u64)> {
    (2usize..=5).prop_flat_map(|order| {
        // Terms are the product of the ranks: fewer per mode where there are more modes.
        let rank = 1usize..=[34, 34, 17, 9, 5][order - 1];
        (
            prop::collection::vec(1usize..30, order),
            prop::collection::vec(rank, order),
            1..order,
            1usize..200,
            any::<u64>(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn fast_equals_naive((dims, ranks, flat_from, count, seed) in shapes()) {
        Problem::random(&dims, &ranks, flat_from, count, seed).check();
    }
}

#[test]
fn rows_in_which_terms_cancel_equal_naive() {
    let seed = 16_997_415_658_034_905_707;
    for flat_from in 1..4 {
        for count in [20, 60, 100, 140, 180] {
            Problem::random(&[25, 13, 5, 1], &[3, 7, 9, 2], flat_from, count, seed).check();
        }
    }
}

#[test]
fn every_rank_shape_and_instruction_set_equals_naive() {
    limit::with_each(|instructions| {
        println!("{instructions:?}");
        for rank in 1..=17 {
            for flat_from in 1..=2 {
                let seed = 100 * rank as u64 + flat_from as u64;
                Problem::random(&[5, 7, 9], &[2, rank, rank], flat_from, 120, seed).check();
            }
            Problem::random(&[9, 30], &[rank, rank], 1, 100, rank as u64).check();
            Problem::random(&[6, 9, 8], &[3, rank, 18 - rank], 1 + rank % 2, 90, rank as u64).check();
        }
        // What is compiled for ranks of four alone, in fibres longer and shorter than four.
        for (flat_from, count) in [(1, 200), (2, 40), (2, 400)] {
            Problem::random(&[6, 9, 80], &[4, 4, 4], flat_from, count, count as u64).check();
            Problem::random(&[6, 5, 9, 30], &[2, 4, 4, 4], flat_from, count, count as u64).check();
        }
        // Both sides of the wider kernels, and beyond them.
        for rank in [20, 24, 25, 31, 32, 33] {
            for (flat_from, ranks) in [(1, [2, rank, rank]), (2, [2, rank, rank]), (2, [3, 2, rank])] {
                Problem::random(&[5, 34, 40], &ranks, flat_from, 120, rank as u64).check();
            }
        }
    });
}

#[test]
fn every_encoding_equals_naive() {
    let mut random = Random(5);
    // Level 1 spans more than 65,536: its ids are u32 even where u16 is asked for.
    let dims = [20, 70000, 40];
    let entries = random_entries(&dims, 500, &mut random);
    for kind in KINDS {
        for (short, flat_from) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
            let blocks = make_blocks(&entries, 170, flat_from, kind, short, &mut random);
            Problem::new(&dims, &[3, 5, 5], blocks, &mut random).check();
        }
    }
}

#[test]
fn short_and_long_slices_equal_naive() {
    let mut random = Random(6);
    let slices = |lengths: &[usize], random: &mut Random| -> Vec<Vec<u32>> {
        let slice = |(i, &count): (usize, &usize)| {
            let mut slice = random_entries(&[300, 400], 4 * count, random);
            slice.truncate(count);
            slice.into_iter().map(move |jk| vec![i as u32, jk[0], jk[1]]).collect::<Vec<_>>()
        };
        lengths.iter().enumerate().flat_map(slice).collect()
    };
    let dims = [50, 300, 400];
    // One entry per slice; a slice of 65,000; and one of 100,000 that goes on in a second block.
    for (lengths, per_block) in [(vec![1; 50], 60), (vec![65_000], 65_535), (vec![3, 100_000], 65_535)] {
        let entries = slices(&lengths, &mut random);
        assert_eq!(entries.len(), lengths.iter().sum::<usize>());
        for flat_from in [1, 2] {
            let blocks = make_blocks(&entries, per_block, flat_from, ValueKind::F64, true, &mut random);
            Problem::new(&dims, &[2, 3, 3], blocks, &mut random).check();
        }
    }
}

#[test]
fn gradient_is_the_derivative_of_the_cost() {
    for (order, flat_from) in [(2, 1), (3, 1), (3, 2), (4, 2), (5, 1)] {
        let dims = &[4, 5, 3, 4, 3][..order];
        let problem = Problem::random(dims, &[2, 3, 2, 2, 3][..order], flat_from, 60, 7);
        let sums = problem.naive_gradient();
        let check = |number: fn(&mut OwnedFactors, usize, usize) -> &mut f64, l, n, half: f64| {
            let h = 1e-5;
            let at = |h: f64| {
                let mut point = problem.point.clone();
                *number(&mut point, l, n) += h;
                problem.naive_cost(&point)
            };
            let difference = (at(h) - at(-h)) / (2.0 * h);
            let scale = 2.0 * sums.squares().max(1.0);
            assert!((difference - 2.0 * half).abs() < 1e-8 * scale, "{difference} {half}");
        };
        for n in 0..sums.core().len() {
            check(|point, _, n| &mut point.core[n], 0, n, sums.core()[n]);
        }
        for level in 0..order {
            for (n, &half) in sums.rows(level).iter().enumerate() {
                check(|point, level, n| &mut point.rows[level][n], level, n, half);
            }
        }
    }
}

#[test]
fn step_sums_and_polynomial_follow_the_line() {
    for (order, flat_from) in [(2, 1), (3, 2), (4, 1), (5, 3)] {
        let dims = &[4, 5, 3, 4, 3][..order];
        let problem = Problem::random(dims, &[2, 3, 2, 2, 3][..order], flat_from, 60, 8);
        let (point, direction) = (problem.point.view(), problem.direction.view());
        let (mut sums, mut line) = (StepSums::default(), LinePolynomial::new(order));
        let mut workspace = Workspace::new();
        let mut packing = PaddingBuffer::new();
        let padded = packing.line(point, direction);
        for block in &problem.blocks {
            step(&block.view(), &padded, &mut sums, &mut workspace);
            line_polynomial(&block.view(), &point, &direction, &mut line, &mut workspace);
        }
        for s in [-1.5, -0.3, 0.0, 0.01, 0.7, 2.0] {
            let direct = problem.naive_cost(&problem.moved(s));
            assert!((line.at(s) - direct).abs() < 1e-11 * direct.max(1.0), "at {s}");
        }
        // d/ds of the cost at 0 is 2 e L, and L itself is the change of the prediction.
        let h = 1e-5;
        let [ahead, behind] = [h, -h].map(|s| problem.moved(s));
        let slope = (problem.naive_cost(&ahead) - problem.naive_cost(&behind)) / (2.0 * h);
        assert!((slope - 2.0 * sums.residual_change).abs() < 1e-8 * sums.squares.max(1.0));
        let mut change_change = 0.0;
        for block in &problem.blocks {
            block.view().for_each(|indices, _| {
                let [ahead, behind] = [&ahead, &behind].map(|f| naive::predict(&f.view(), indices));
                change_change += ((ahead - behind) / (2.0 * h)).powi(2);
            });
        }
        assert!((change_change - sums.change_change).abs() < 1e-8 * change_change.max(1.0));
    }
}

#[test]
fn lanes_with_parts_of_the_slices_add_up_to_the_whole() {
    for (dims, flat_from) in [(vec![40, 9, 11], 1), (vec![40, 12], 1), (vec![40, 9, 11], 2)] {
        let ranks = &[3, 5, 6][..dims.len()];
        let mut random = Random(9);
        let entries = random_entries(&dims, 300, &mut random);
        let blocks = make_blocks(&entries, 60, flat_from, ValueKind::F32, true, &mut random);
        let problem = Problem::new(&dims, ranks, blocks, &mut random);
        let mut packing = PaddingBuffer::new();
        let padded = packing.point(problem.point.view());
        let naive = problem.naive_gradient();
        for (precision, tolerance) in [(Precision::F64, 1e-12), (Precision::Mixed, 1e-6)] {
            let mut whole: Vec<Vec<f64>> =
                (0..dims.len()).map(|level| vec![0.0; naive.rows(level).len()]).collect();
            for (block, chunk) in problem.blocks.iter().zip(entries.chunks(60)) {
                let slices = chunk[0][0] as usize..chunk[chunk.len() - 1][0] as usize + 1;
                let mut lane = GradientSums::new(&dims, ranks, slices, precision);
                gradient(&block.view(), &padded, &mut lane, &mut Workspace::new());
                for (level, whole) in whole.iter_mut().enumerate() {
                    lane.add_rows(level, 0, whole);
                }
                lane.clear();
                assert!(lane.squares() == 0.0 && lane.rows(1).iter().all(|&x| x == 0.0));
            }
            for (level, whole) in whole.iter().enumerate() {
                assert_within(whole, &naive.rows(level), tolerance);
            }
        }
    }
}

#[test]
fn a_used_workspace_changes_no_bit() {
    let problem = Problem::random(&[20, 15, 12], &[4, 5, 5], 2, 400, 10);
    let other = Problem::random(&[9, 8, 7, 6], &[2, 17, 3, 16], 2, 300, 11);
    let run = |workspace: &mut Workspace| {
        let mut sums = problem.mixed_sums();
        let mut packing = PaddingBuffer::new();
        let padded = packing.point(problem.point.view());
        for block in &problem.blocks {
            gradient(&block.view(), &padded, &mut sums, workspace);
        }
        let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        (bits(sums.core()), bits(&sums.rows(0)), bits(&sums.rows(1)), bits(&sums.rows(2)))
    };
    let mut used = Workspace::new();
    for block in &other.blocks {
        gradient(
            &block.view(),
            &PaddingBuffer::new().point(other.point.view()),
            &mut other.sums(),
            &mut used,
        );
    }
    assert_eq!(run(&mut used), run(&mut Workspace::new()));
}

#[test]
fn entries_with_unseen_indices_are_counted_not_scored() {
    let problem = Problem::random(&[10, 8, 6], &[2, 3, 4], 2, 200, 12);
    let point = problem.point.view();
    let unseen_1: Vec<bool> = (0..8).map(|i| i % 3 == 0).collect();
    let unseen_2 = [false, true, false, false, false, false];
    let mut unseen: Unseen<'_> = [None; MAX_ORDER];
    unseen[1] = Some(&unseen_1);
    unseen[2] = Some(&unseen_2);
    let (mut sums, mut expected) = (ResidualSums::default(), ResidualSums::default());
    let mut workspace = Workspace::new();
    for block in &problem.blocks {
        let block = &block.view();
        residual_of_seen(block, &point, &unseen, &mut sums, &mut workspace);
        let mut entries = vec![];
        block.for_each(|i, value| entries.push((i.to_vec(), value)));
        let mut seen = entries.iter();
        for_each_prediction(block, &point, &mut workspace, |indices, value, _, prediction| {
            assert_eq!(seen.next(), Some(&(indices.to_vec(), value)));
            let direct = naive::predict(&point, indices);
            assert!((prediction - direct).abs() < 1e-13, "{prediction} {direct}");
            if unseen_1[indices[1] as usize] || unseen_2[indices[2] as usize] {
                expected.unscored += 1;
            } else {
                expected.add_entry(direct - value, 1.0);
            }
        });
        assert_eq!(seen.next(), None);
    }
    assert!(sums.unscored > 0 && sums.scored > 0);
    assert_eq!((sums.scored, sums.unscored), (expected.scored, expected.unscored));
    assert_close(&[sums.squares, sums.absolute], &[expected.squares, expected.absolute]);
}

#[test]
#[should_panic(expected = "slice 7 is not in this lane's 0..7")]
fn a_slice_outside_the_lane_is_refused() {
    let block = OwnedBlock::new(2, 1, &[6, 0, 7, 1], &[1.0, 2.0], ValueKind::F64, true);
    let problem = Problem::new(&[9, 2], &[2, 2], vec![], &mut Random(2));
    let mut lane = GradientSums::new(&[9, 2], &[2, 2], 0..7, Precision::Mixed);
    gradient(
        &block.view(),
        &PaddingBuffer::new().point(problem.point.view()),
        &mut lane,
        &mut Workspace::new(),
    );
}

#[test]
#[should_panic(expected = "index 3 is one of 3 rows")]
fn an_index_without_a_row_is_refused() {
    let block = OwnedBlock::new(3, 2, &[0, 0, 3], &[1.0], ValueKind::F64, true);
    let problem = Problem::new(&[2, 2, 3], &[1, 2, 2], vec![], &mut Random(2));
    let packing = &mut PaddingBuffer::new();
    let padded = packing.point(problem.point.view());
    residual(&block.view(), &padded, &mut ResidualSums::default(), &mut Workspace::new());
}
