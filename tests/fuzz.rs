//! A short run of `tools/fuzz`: mutated files never make a reader panic or allocate beyond them.

#[path = "../tools/fuzz/src/allocations.rs"]
mod allocations;
#[path = "../tools/fuzz/src/drive.rs"]
mod drive;
#[path = "../tools/fuzz/src/mutate.rs"]
mod mutate;
#[path = "../tools/fuzz/src/targets.rs"]
mod targets;

#[global_allocator]
static ALLOCATOR: allocations::Watched = allocations::Watched;

/// One test for all: the allocator watches the whole process.
#[test]
fn mutated_files_are_refused_or_read() {
    for target in targets::TARGETS {
        let done = drive::drive(&target, 1, |cases| cases < 3000).unwrap_or_else(|what| panic!("{what}"));
        assert_eq!(done.cases, 3000);
        assert!(done.read > 0 && done.read < done.cases, "{}: {done:?}", target.name);
    }
}
