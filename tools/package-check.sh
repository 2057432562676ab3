#!/usr/bin/env bash
# Whether the crates work by themselves: tools/package-check.sh packages them as for publishing, unpacks them in an empty
# folder, and runs their own tests there. What a test reads must be in its package.
set -euo pipefail
cd "$(dirname "$0")/.."
crates=(tenfill-kernel tenfill-store tenfill-engine tenfill)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo package --quiet --no-verify --allow-dirty "${crates[@]/#/--package=}"
{
    echo "[workspace]"
    echo "resolver = \"3\""
    echo "members = [\"tenfill-*\"]"
    # None of them is on a registry yet.
    echo "[patch.crates-io]"
    for crate in "${crates[@]}"; do echo "$crate = { path = \"$crate-$version\" }"; done
    # The same profiles: what others wrote is not compiled again.
    sed -n '/^\[profile/,$p' Cargo.toml
} > "$folder/Cargo.toml"
for crate in "${crates[@]}"; do tar -xzf "$CARGO_TARGET_DIR/package/$crate-$version.crate" -C "$folder"; done
cp Cargo.lock "$folder"
cd "$folder"
cargo test --release --package tenfill --package tenfill-engine --package tenfill-kernel "$@"
