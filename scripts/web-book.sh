#!/usr/bin/env bash
# Books rebuilt from the web door's channels by somebody else's class, ccxt's OrderBook, beside the engine's at a
# thousand positions of the feed: with connections that break, updates that are lost, and a checksum each.
# Usage: scripts/web-book.sh [FAIRBELL [FAIRBELL-LAB]]; POSITIONS=N (1000), SEED=N (28). The programs are by default
# those in target/debug. Needs Python 3.10 or later; what it installs is in target/web-book.
set -euo pipefail
cd "$(dirname "$0")/.."

debug=${CARGO_TARGET_DIR:-target}/debug
binary=${1:-${FAIRBELL_BINARY:-$debug/fairbell}}
lab=${2:-$debug/fairbell-lab}
for program in "$binary" "$lab"; do
    if [[ ! -x "$program" ]]; then
        echo "web-book: no program $program: cargo build --locked --package fairbell --package fairbell-lab" >&2
        exit 1
    fi
done
work=target/web-book
mkdir -p "$work"
pins=sdk/python/requirements-test.txt
if ! cmp -s "$pins" "$work/python.stamp"; then
    rm -rf "$work/python"
    "${PYTHON:-python3}" -m venv "$work/python"
    "$work/python/bin/pip" install --quiet --disable-pip-version-check --constraint "$pins" ccxt websockets
    cp "$pins" "$work/python.stamp"
fi
rm -rf "$work/run" "$work"/*.jsonl
start=$SECONDS
positions=${POSITIONS:-1000}
orders=$((positions / 5))
"$work/python/bin/python" scripts/web_book.py "$binary" "$work" "$positions" "$orders" "${SEED:-28}"
config=(--config "$work/exchange.toml")
"$lab" web books "$work/run/exchange.log" "$work/levels.jsonl" "${config[@]}" --at-least "$positions"
"$lab" web books "$work/run/exchange.log" "$work/orders.jsonl" "${config[@]}" --at-least "$orders"
# Control: one quantity of one book is another one, and has to be found.
if "$lab" web books "$work/run/exchange.log" "$work/control.jsonl" "${config[@]}" >/dev/null 2>&1; then
    echo "web-book: a wrong book was not found out" >&2
    exit 1
fi
echo "web-book: $((SECONDS - start)) s"
