#!/usr/bin/env bash
# Two builds of the program side by side: tools/before-after.sh OLD NEW [FOLDER]
#
# Five runs with each (orders 2, 3 and 4 by the plain method, ratings by sweeps, a weighted run): passes over
# the data, whether the models have the same numbers to the bit; then the time of passes on ratings, by turns.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2")
ratings=$(realpath "$(dirname "$0")/../tests/data/ratings.csv")
cd "${3:-$(mktemp -d)}"
plain="--bias none --penalty 0 --tolerance 1e-12 --quiet"
"$old" synth -o o2 --dims 1000,800 --rank 4 --oversampling 15 --quiet
"$old" synth -o o3 --dims 300,250,200 --rank 3 --oversampling 10 --quiet
"$old" synth -o o4 --dims 60,50,40,30 --rank 3,3,3,2 --oversampling 12 --quiet
awk 'BEGIN { FS = OFS = "," } NR == 1 { print $0, "w"; next } { print $0, NR % 3 + 1 }' "$ratings" > weighted.csv
for which in old new; do
    program=${!which}
    for run in "o2 o2 --rank 4 $plain --max-iterations 60" "o3 o3 --rank 3 $plain" "o4 o4 --rank 3,3,3,2 $plain" \
        "ratings $ratings --rank 4,4,4 --tolerance 1e-12 --quiet" \
        "weighted weighted.csv --rank 4,4,4 --weights w --value rating --modes userId,movieId,timestamp \
         --bin timestamp=7d --tolerance 1e-12 --quiet"; do
        read -r name rest <<< "$run"
        # shellcheck disable=SC2086
        "$program" complete $rest -o "$which-$name" 2> /dev/null
    done
done
"$old" synth -o speed --kind ratings --dims 71567,10681,731 --entries "${ENTRIES:-2000000}" --quiet
for rank in 4 10; do
    for round in 1 2 3; do
        for which in old new; do
            # shellcheck disable=SC2086
            "${!which}" complete speed -o "$which-$rank-$round" --rank $rank --bias none --penalty 0 --tolerance 0 \
                --patience 0 --gradient-tolerance 0 --max-iterations 12 --threads 2 --quiet
        done
    done
done
python3 - <<'PYTHON'
import json, struct

def lines(run):
    return [json.loads(line) for line in open(f"{run}/log.jsonl")]

def arrays(run):
    data = open(f"{run}/model/model.bin", "rb").read()
    offset, size = struct.unpack("<QQ", data[-32:-16])
    named = json.loads(data[offset:offset + size])["arrays"]
    return {one["name"]: data[one["offset"]:one["offset"] + 8 * one["length"]] for one in named}

print("run        passes old  new   model")
for name in ["o2", "o3", "o4", "ratings", "weighted"]:
    passes = [lines(f"{which}-{name}")[-1]["passes"] for which in ["old", "new"]]
    same = arrays(f"old-{name}") == arrays(f"new-{name}")
    print(f"{name:10} {passes[0]:10} {passes[1]:4}   {'the same numbers' if same else 'OTHER NUMBERS'}")
print("ratings    ms of passes per iteration, three rounds: old / new, median ratio")
for rank in [4, 10]:
    times = {which: [sorted(line["pass_seconds"] for line in lines(f"{which}-{rank}-{n}")[2:])[5] * 1e3
                     for n in [1, 2, 3]] for which in ["old", "new"]}
    ratio = sorted(new / old for old, new in zip(times["old"], times["new"]))[1]
    show = lambda which: " ".join(f"{ms:.1f}" for ms in times[which])
    print(f"rank {rank:<5} {show('old')} / {show('new')}   {ratio:.2f}")
PYTHON
