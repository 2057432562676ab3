#!/usr/bin/env bash
# What a build costs: tools/build-time.sh. CPU time of a clean release build, of its dearest crates, of a
# rebuild after a command was touched, and the size of the binary.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Cargo calls this in the place of the compiler.
cat > "$folder/timed" <<'WRAPPER'
#!/usr/bin/env bash
name=-
for word in "$@"; do [ "${before:-}" = --crate-name ] && name=$word; before=$word; done
TIMEFORMAT="%U $name"
{ time "$@" 2>&3; } 3>&2 2>> "$CRATE_TIMES"
WRAPPER
chmod +x "$folder/timed"
export CARGO_TARGET_DIR=$folder/target CRATE_TIMES=$folder/times
TIMEFORMAT='%U user, %S system, %R wall seconds'
echo "clean build:"
time RUSTC_WRAPPER=$folder/timed cargo build --release --quiet
echo "the dearest crates, CPU seconds:"
sort -rn "$CRATE_TIMES" | head -12
echo "after touching src/cli/man.rs:"
touch src/cli/man.rs
time RUSTC_WRAPPER=$folder/timed cargo build --release --quiet
ls -l --block-size=1000 "$CARGO_TARGET_DIR/release/tenfill" | awk '{ print "binary: " $5 / 1000 " MB" }'
