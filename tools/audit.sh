#!/usr/bin/env bash
# What can be said of the dependencies and of the unsafe code without running the program: licences,
# sources and known faults of crates (cargo deny), and undefined behaviour (Miri).
#
#     tools/audit.sh
#
# Ends with a line for each check: ok, FAILED, or LEFT OUT with the reason. Exits 1 where one failed.
set -uo pipefail
cd "$(dirname "$0")/.."
result=0
summary=()
note() { summary+=("$(printf '%-22s %s' "$1" "$2")"); }
run() { # name, command...
    local name=$1
    shift
    echo "== $name: $*"
    if "$@"; then note "$name" ok; else note "$name" FAILED; result=1; fi
}

# --- the crates that we use
if ! cargo deny --version >/dev/null 2>&1; then
    echo "== installing cargo-deny"
    cargo install cargo-deny --locked --quiet || cargo install cargo-deny --quiet || true
fi
if cargo deny --version >/dev/null 2>&1; then
    run "licences" cargo deny --log-level error check licenses
    run "bans" cargo deny --log-level error check bans
    run "sources" cargo deny --log-level error check sources
    # The database of faults is a repository of its own, which not every machine can reach.
    log=$(mktemp)
    echo "== advisories"
    if cargo deny --log-level error check advisories >"$log" 2>&1; then
        note "advisories" ok
    elif grep -qiE 'failed to (fetch|update|clone|load|open|acquire)|could not resolve|timed out|connection|network|unreachable' "$log" &&
        ! grep -qE '^error\[(vulnerability|unsound|unmaintained|yanked|notice)' "$log"; then
        note "advisories" "LEFT OUT: the database of faults cannot be reached from here"
    else
        cat "$log"
        note "advisories" FAILED
        result=1
    fi
    rm -f "$log"
else
    for check in licences bans sources advisories; do
        note "$check" "LEFT OUT: cargo-deny is not here and cannot be installed"
    done
fi

# --- undefined behaviour
# Miri interprets Rust and nothing else: no C code (zstd), no instructions of one processor (it takes the portable
# kernels), and no files beyond the simplest calls. What it can run are the kernels and what lies in memory.
miri=(cargo +nightly miri)
if ! "${miri[@]}" --version >/dev/null 2>&1; then
    miri=(cargo miri)
fi
if ! "${miri[@]}" --version >/dev/null 2>&1; then
    if cargo +nightly --version >/dev/null 2>&1; then
        reason="the nightly toolchain has no Miri (rustup +nightly component add miri)"
    else
        reason="there is no nightly toolchain, and Miri is part of nothing else"
    fi
    note "miri: kernels" "LEFT OUT: $reason"
    note "miri: engine" "LEFT OUT: $reason"
else
    export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation"
    # Few random cases: an interpreter is a thousand times slower.
    export PROPTEST_CASES=4
    run "miri: kernels" "${miri[@]}" test -p tenfill-kernel --lib -- soundness block
    run "miri: engine" "${miri[@]}" test -p tenfill-engine --lib -- sort::radix shard::block ingest::label ingest::number
fi
note "miri: the rest" "LEFT OUT: C code (zstd), vector instructions, files and processes are beyond Miri; the tests of \
kernels against their naive twins and tools/fuzz cover these"

echo
printf '%s\n' "${summary[@]}"
exit $result
