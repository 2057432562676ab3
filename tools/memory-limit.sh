#!/bin/bash
# "--memory is kept", confirmed by the operating system: iterations on 300 M entries (more than 2 GB of
# shards, evicted from the page cache first) inside a cgroup that allows 256 MB in all, page cache
# included. Skips with a message where no cgroup can be made.
# With "sweeps" as the fourth argument: sweeps over ratings (200,000 x 20,000 x 500), inside 512 MB unless said
# otherwise, as many as the fifth argument says.
# tools/memory-limit.sh [MILLIONS OF ENTRIES] [DIRECTORY] [LIMIT IN MB] [sweeps [SWEEPS]]
set -eu
cd "$(dirname "$0")/.."
kind=${4:-plain} sweeps=${5:-2}
usual=256
[ "$kind" = sweeps ] && usual=512
millions=${1:-300} place=${2:-target/bench} limit=$((${3:-$usual} * 1000 * 1000))
tenfill=${TENFILL:-target/release/tenfill}
[ -x "$tenfill" ] || cargo build --release

# A child of this process's own memory cgroup, of either version.
v1=$(sed -n 's/^[0-9]*:[^:]*\bmemory\b[^:]*:\(.*\)$/\1/p' /proc/self/cgroup | head -1)
v2=$(sed -n 's/^0::\(.*\)$/\1/p' /proc/self/cgroup | head -1)
if [ -n "$v1" ] && [ -d "/sys/fs/cgroup/memory$v1" ]; then
    group="/sys/fs/cgroup/memory${v1%/}/tenfill-$$" max=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    group="/sys/fs/cgroup${v2%/}/tenfill-$$" max=memory.max peak=memory.peak
    echo +memory 2>/dev/null > "/sys/fs/cgroup${v2%/}/cgroup.subtree_control" || true
fi
if ! mkdir "$group" 2>/dev/null; then
    echo "skipped: no cgroup can be made at $group"
    exit 0
fi
trap 'rmdir "$group" 2>/dev/null || { sleep 1; rmdir "$group"; }' EXIT
if ! echo "$limit" 2>/dev/null > "$group/$max"; then
    echo "skipped: $group/$max cannot be written"
    exit 0
fi

mkdir -p "$place"
run="$place/limit-run"
if [ "$kind" = sweeps ]; then
    data="$place/limit-ratings$millions.tenfill"
    make="--kind ratings --dims 200000,20000,500 --validation 0.003 --test 0"
    # What is left is for read-ahead and the system.
    ask="--rank auto --max-iterations $sweeps --memory $((limit * 7 / 8))"
else
    data="$place/limit$millions.tenfill"
    make="--dims 100000,50000,1000 --rank 5 --test 0 --values f32"
    ask="--rank 5 --max-iterations 3 --tolerance 0 --memory 192M --bias none --penalty 0"
fi
# shellcheck disable=SC2086 # several words each
[ -d "$data" ] || "$tenfill" synth --quiet -o "$data" $make --entries "${millions}000000" --memory 256M
rm -rf "$run"
python3 - "$data" <<'PY' # out of the page cache: what is cached already is charged to nobody
import os, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.shard"):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
PY
du -sh "$data" | awk '{ print "shards: " $1 }'
status=0
# shellcheck disable=SC2086 # several words
bash -c 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"' - "$group" \
    "$tenfill" complete "$data" -o "$run" $ask --quiet --json || status=$?
echo "limit $((limit / 1000000)) MB, the cgroup's peak $(($(cat "$group/$peak" 2>/dev/null || echo 0) / 1000000)) MB (page cache included)"
grep -hs '^oom_kill ' "$group/memory.oom_control" "$group/memory.events" | sed 's/^/cgroup: /' || true
if [ "$kind" = sweeps ] && [ -f "$run/log.jsonl" ]; then
    cat "$run/log.jsonl"
fi
rm -rf "$run"
exit $status
