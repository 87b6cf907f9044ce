#!/bin/sh
# Builds the example strategies of sdk/strategy, into a folder (default: out/strategies): as modules, and with
# `enclave` as the second argument as programs for enclaves, too: static, for this machine.
# scripts/build-strategies.sh crates/strategy/tests/guests writes the modules that the tests run.
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
# In C, where there is a compiler for it: Debian's clang and lld.
if command -v clang >/dev/null && command -v wasm-ld >/dev/null; then
    clang --target=wasm32 -O2 -Wall -Wextra -Werror -ffreestanding -nostdlib -Wl,--no-entry,--strip-all \
        -o "$to/maker-c.wasm" sdk/strategy/c/maker.c sdk/strategy/c/fairbell.c
else
    echo "build-strategies: no clang with wasm-ld (packages clang and lld): maker-c.wasm is not built" >&2
fi
[ "${2:-}" = enclave ] || exit 0
machine=$(rustc -vV | sed -n 's/^host: //p')
for name in maker taker misbehave; do
    RUSTFLAGS="-C target-feature=+crt-static" cargo rustc --quiet --locked --release \
        --manifest-path sdk/strategy/Cargo.toml --target "$machine" --target-dir target/strategies \
        --example "$name" --crate-type bin
    cp target/strategies/"$machine"/release/examples/"$name" "$to/$name"
done
