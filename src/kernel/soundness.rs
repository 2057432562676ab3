//! Safe callers cannot make the kernels read or write out of bounds, whatever they put together: where
//! shapes do not fit, a kernel panics before its first entry.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two slices of three entries, in a matrix of 10 x 10.
fn block() -> BlockView<'static> {
    let ids = [Ids::U32(&[0, 9]), Ids::U32(&[1, 2, 9])];
    BlockView::new(&ids, &[&[2, 3]], Values::F32(&[1.0, 2.0, 3.0]), None).unwrap()
}

/// What a call panicked with.
fn panics(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("it must panic");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn rows(rank: usize) -> Vec<f64> {
    vec![0.5; 10 * rank]
}

#[test]
fn sums_whose_rows_lie_otherwise_than_packed_rows_are_refused() {
    // With a dimension beyond u32 the sums have no packed rows: three numbers from row to row, not four.
    let (u, core) = (rows(3), vec![0.1; 9]);
    let factors = FactorsView::new(&[3, 3], &[&u, &u], &core);
    let mut packing = Packing::new();
    let packed = packing.point(factors);
    for precision in [Precision::Mixed, Precision::F64] {
        let mut sums = GradientSums::new(&[1 << 30, 10], &[3, 3], 0..10, precision);
        let said = panics(|| gradient(&block(), &packed, &mut sums, &mut Workspace::new()));
        assert!(said.contains("stride of packed rows"), "{said}");
    }
}

#[test]
fn sums_of_more_rows_than_memory_has_are_refused() {
    // 2^62 rows of four numbers would be 2^64 of them, which is 0 in a word.
    let said = panics(|| drop(GradientSums::new(&[1 << 62, 10], &[4, 4], 0..1 << 62, Precision::F64)));
    assert!(said.contains("fit into memory"), "{said}");
}

#[test]
fn a_core_whose_size_wraps_around_is_refused() {
    let said = panics(|| drop(FactorsView::new(&[1 << 32, 1 << 32], &[&[], &[]], &[])));
    assert!(said.contains("shape of the ranks"), "{said}");
}

#[test]
fn points_and_lines_are_not_taken_for_each_other() {
    let (u, core) = (rows(3), vec![0.1; 9]);
    let factors = FactorsView::new(&[3, 3], &[&u, &u], &core);
    let (mut one, mut two) = (Packing::new(), Packing::new());
    let (point, line) = (one.point(factors), two.line(factors, factors));
    let mut workspace = Workspace::new();
    let mut sums = GradientSums::new(&[10, 10], &[3, 3], 0..10, Precision::F64);
    assert!(panics(|| gradient(&block(), &line, &mut sums, &mut workspace)).contains("without a direction"));
    let mut errors = ResidualSums::default();
    assert!(
        panics(|| residual(&block(), &line, &mut errors, &mut workspace)).contains("without a direction")
    );
    let mut steps = StepSums::default();
    assert!(panics(|| step(&block(), &point, &mut steps, &mut workspace)).contains("with a direction"));
    // What was refused has left nothing behind.
    gradient(&block(), &point, &mut sums, &mut workspace);
    assert_eq!(sums.entries(), 3);
}

#[test]
fn a_workspace_that_saw_a_panic_or_larger_factors_can_be_used_again() {
    let mut workspace = Workspace::new();
    let far = [Ids::U32(&[0, 9]), Ids::U32(&[1, 2, 10])];
    let far = BlockView::new(&far, &[&[2, 3]], Values::F32(&[1.0, 2.0, 3.0]), None).unwrap();
    let run = |rank: usize, block: &BlockView<'_>, workspace: &mut Workspace| {
        let (u, core) = (rows(rank), vec![0.1; rank * rank]);
        let mut packing = Packing::new();
        let packed = packing.point(FactorsView::new(&[rank, rank], &[&u, &u], &core));
        let mut sums = GradientSums::new(&[10, 10], &[rank, rank], 0..10, Precision::F64);
        gradient(block, &packed, &mut sums, workspace);
        sums.squares()
    };
    let fresh = |rank: usize| run(rank, &block(), &mut Workspace::new()).to_bits();
    assert_eq!(run(30, &block(), &mut workspace).to_bits(), fresh(30));
    let said = panics(|| drop(run(3, &far, &mut workspace)));
    assert!(said.contains("index 10 is one of 10 rows"), "{said}");
    assert_eq!(run(3, &block(), &mut workspace).to_bits(), fresh(3));
    assert_eq!(run(40, &block(), &mut workspace).to_bits(), fresh(40));
}
