#!/bin/sh
# kill -9 at random moments of complete, resume and convert: tools/kill-test.sh [ROUNDS] [SEED]
set -eu
cd "$(dirname "$0")/.."
TENFILL_KILL_ROUNDS=${1:-200} TENFILL_KILL_SEED=${2:-1} \
    cargo test --release --test suite kill:: -- --nocapture --test-threads 1
