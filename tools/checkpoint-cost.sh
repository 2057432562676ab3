#!/bin/bash
# What checkpoints cost: the same run with and without them, in turn, several times; medians and
# minima of wall and processor time. On a busy machine the medians are mostly the others' doing: look
# at how far the two runs without checkpoints (0 and again) lie apart.
# tools/checkpoint-cost.sh [REPEATS] [DIRECTORY]
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
    for name in 0 10 1 again; do one "${name/again/0}" >> "$place/every$name"; done
done
least() { sort -g | head -1; }
for how in median least; do
    for name in 0 again 10 1; do
        wall=$(cut -d' ' -f1 "$place/every$name" | $how)
        cpu=$(cut -d' ' -f2 "$place/every$name" | $how)
        [ "$name" = 0 ] && wall0=$wall cpu0=$cpu
        awk -v h="$how" -v e="$name" -v w="$wall" -v c="$cpu" -v w0="$wall0" -v c0="$cpu0" 'BEGIN {
            printf "%-6s --checkpoint-every %-5s %7.3f s wall (%+.1f %%)  %7.3f s CPU (%+.1f %%)\n",
                h, e, w, 100 * (w / w0 - 1), c, 100 * (c / c0 - 1) }'
    done
done
