#!/usr/bin/env bash
# The web door against its own OpenAPI document: schemathesis makes requests of the document, signed by
# scripts/web_api_hooks.py, and looks for answers of 500 and above and for statuses, types and bodies of answers that
# the document does not have. The exchange is one of ours, on this machine. Two checks are left out: whether what the
# document allows is taken, because a schema can't say that a limit order has a price or that an order is open; and
# whether what it forbids is refused, because every request is signed and each part of a batch is answered for itself.
# Usage: scripts/web-api.sh [PROGRAM]   (else FAIRBELL_BINARY, else target/debug/fairbell); EXAMPLES=N requests
# of each operation at most (10), SEED=N (28). Needs Python 3.10 or later; what it installs is in target/web-api.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:-${FAIRBELL_BINARY:-${CARGO_TARGET_DIR:-target}/debug/fairbell}}
if [[ ! -x "$binary" ]]; then
    echo "web-api: no program $binary: cargo build --locked --package fairbell, or name one" >&2
    exit 1
fi
work=target/web-api
mkdir -p "$work"
pins=scripts/web-api.txt
if ! cmp -s "$pins" "$work/python.stamp"; then
    rm -rf "$work/python"
    "${PYTHON:-python3}" -m venv "$work/python"
    "$work/python/bin/pip" install --disable-pip-version-check --requirement "$pins"
    cp "$pins" "$work/python.stamp"
fi

keys=$work/keys.toml
cat >"$keys" <<'KEYS'
sandbox = true
[[key]]
name = "api"
secret = "0123456789abcdef"
username = "GUEST"
password = "welcome"
scopes = ["read", "trade", "sandbox"]
credits_per_s = 100000
KEYS
cat >"$work/exchange.toml" <<'CONFIG'
[overlay]
depth = 1
receivers = 1
hedge = 0
change_tree_at_percent = 0
[flow]
rate = 1
generated_rate = 5
sample = "none"
[day]
auctions = false
halt_instrument = 0
[ports]
base = 0
[doors]
plain = true
CONFIG
out=$work/up.txt
"$binary" up --config "$work/exchange.toml" --out "$work/run" --web "$keys" >"$out" 2>&1 </dev/null &
up=$!
trap 'kill "$up" 2>/dev/null || true; wait "$up" 2>/dev/null || true' EXIT
base=
for _ in $(seq 300); do
    base=$(grep -oE 'https?://[0-9.]+:[0-9]+/v1' "$out" | head -1 || true)
    [[ -n "$base" ]] && break
    kill -0 "$up" 2>/dev/null || { cat "$out" >&2; echo "web-api: the exchange does not start" >&2; exit 1; }
    sleep 0.1
done
[[ -n "$base" ]] || { cat "$out" >&2; echo "web-api: the exchange names no web door" >&2; exit 1; }
start=$SECONDS
FAIRBELL_WEB=${base%/v1} "$work/python/bin/python" scripts/web_api_hooks.py wait
root=$PWD
# What it leaves behind stays there.
cd "$work"
SCHEMATHESIS_HOOKS=scripts.web_api_hooks PYTHONPATH=$root PYTHONDONTWRITEBYTECODE=1 python/bin/schemathesis run \
    "$base/openapi.json" --url "${base%/v1}" --max-examples "${EXAMPLES:-10}" --seed "${SEED:-28}" \
    --suppress-health-check all --exclude-path /v1/ws --exclude-path /v1/openapi.json --phases coverage,fuzzing \
    --exclude-checks positive_data_acceptance,negative_data_rejection
echo "web-api: $((SECONDS - start)) s"
