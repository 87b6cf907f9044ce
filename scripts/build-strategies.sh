#!/bin/sh
# Builds the example strategies of sdk/strategy, into a folder (default: out/strategies).
# scripts/build-strategies.sh crates/strategy/tests/guests writes those that the tests run.
set -eu
cd "$(dirname "$0")/.."
to=${1:-out/strategies}
mkdir -p "$to"
target=wasm32-unknown-unknown
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
cargo build --quiet --locked --release --manifest-path sdk/strategy/Cargo.toml --target "$target" \
    --target-dir target/strategies --examples
for name in maker taker misbehave; do
    cp target/strategies/"$target"/release/examples/"$name".wasm "$to/$name.wasm"
done
