#!/bin/bash
# What checkpoints cost: the same run with and without them, in turn, several times; medians of
# wall and processor time. tools/checkpoint-cost.sh [REPEATS] [DIRECTORY]
set -eu
cd "$(dirname "$0")/.."
repeats=${1:-5}
place=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/checkpoint-cost.XXXXXX")
trap 'rm -rf "$place"' EXIT
tenfill=${TENFILL:-target/release/tenfill}
[ -x "$tenfill" ] || cargo build --release
"$tenfill" --quiet synth -o "$place/data" --dims 10000,10000,10000 --rank 5,5,5 --oversampling 10
one() { # EVERY: seconds and cpu_seconds of a run
    rm -rf "$place/run"
    "$tenfill" complete "$place/data" -o "$place/run" --rank 5 --init uniform --max-iterations 50 \
        --tolerance 0 --checkpoint-every "$1" --json --quiet |
        sed -E 's/.*"cpu_seconds":([0-9.]+).*"seconds":([0-9.]+).*/\2 \1/'
}
median() { sort -g | awk '{ a[NR] = $1 } END { print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }
for _ in $(seq "$repeats"); do
    for every in 0 10 1; do one "$every" >> "$place/every$every"; done
done
for every in 0 10 1; do
    wall=$(cut -d' ' -f1 "$place/every$every" | median)
    cpu=$(cut -d' ' -f2 "$place/every$every" | median)
    [ "$every" = 0 ] && wall0=$wall cpu0=$cpu
    awk -v e="$every" -v w="$wall" -v c="$cpu" -v w0="$wall0" -v c0="$cpu0" 'BEGIN {
        printf "--checkpoint-every %-3s %7.3f s wall (%+.1f %%)  %7.3f s CPU (%+.1f %%)\n", e, w, 100 * (w / w0 - 1), c, 100 * (c / c0 - 1) }'
done
