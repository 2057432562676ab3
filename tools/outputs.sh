#!/bin/sh
# Random folders of others' files and of ours, every command that writes, killed at random moments:
# tools/outputs.sh [CASES] [SEED]. Prints the number of cases.
set -eu
cd "$(dirname "$0")/.."
TENFILL_OUTPUT_CASES=${1:-20000} TENFILL_OUTPUT_SEED=${2:-2} \
    cargo test --release --test suite safety::outputs_generator:: -- --nocapture --test-threads 1
