#!/usr/bin/env bash
# Wheels of the Python package for other machines: manylinux2014 and musllinux, by zig as the linker, so that no
# container is needed. They go to target/wheels.
#
#     tools/python-wheels.sh [TARGET ...]        default: x86_64 and aarch64, gnu and musl
#
# Needs rustup (for the targets), Python 3.11 or later, and pip, which fetches maturin and zig into target/wheel-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    targets=({x86_64,aarch64}-unknown-linux-{gnu,musl})
fi
tools=target/wheel-tools
if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q 'maturin[zig]>=1.16,<2'
fi
# maturin looks for zig where Python has it.
export PATH="$PWD/$tools/bin:$PATH"
for target in "${targets[@]}"; do
    rustup target add "$target"
    case "$target" in
        *-gnu) compatible=manylinux2014 ;;
        *-musl) compatible=musllinux_1_2 ;;
        *) echo "$target: only linux-gnu and linux-musl are built here" >&2; exit 1 ;;
    esac
    build=(maturin build --release --manifest-path python/Cargo.toml --target "$target" --zig
        --compatibility "$compatible" --features stores --out target/wheels)
    "${build[@]}"
    # A free-threaded Python has no stable interface: a wheel of its own, where there is one.
    if command -v python3.14t >/dev/null; then
        "${build[@]}" --interpreter python3.14t
    fi
done
ls -l target/wheels
