#!/usr/bin/env bash
# Captures the feed that a receiver releases, and reads it with an ITCH 5.0 parser from PyPI; takes a
# snapshot of the books in the middle of it, joins the feed there and compares again.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.cache/interop-venv
pins=scripts/interop/requirements.txt
if ! cmp -s "$pins" "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes \
        --no-deps --only-binary :all: --requirement "$pins"
    cp "$pins" "$venv/installed.txt"
fi
"$venv/bin/python" scripts/interop/check.py --self-test
"$venv/bin/python" scripts/interop/snapshot.py --self-test

out=.cache/interop
base=31400
mkdir -p "$out"
rm -f "$out/feed.bin" "$out/feed.bin.bbo.json" "$out/snapshot.bin"
cargo build --locked --quiet --package fairbell
"$venv/bin/python" scripts/interop/snapshot.py fetch 127.0.0.1:"$((base + 299))" 5 \
    "$out/snapshot.bin" &
client=$!
cargo run --locked --quiet --package fairbell -- up --once --duration 10s --port-base "$base" --quiet \
    --capture "$out/feed.bin" --out "$out" >"$out/report.txt" || {
    tail -n 5 "$out/report.txt"
    exit 1
}
wait "$client"
"$venv/bin/python" scripts/interop/check.py "$out/feed.bin"
"$venv/bin/python" scripts/interop/snapshot.py join "$out/snapshot.bin" "$out/feed.bin"
