#!/usr/bin/env bash
# Every kind of message that the exchange sends, held against the stock dictionaries of QuickFIX/J;
# then QuickFIX/J clients against a running exchange: cut off during fills, then their gateway killed;
# at the end their ledger must be the engine's. Needs a JDK (17 or later) and Maven; without them it is
# left out and says so, and fails where FAIRBELL_PEERS=required. About a minute.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v mvn >/dev/null || ! command -v java >/dev/null; then
    echo "left out: QuickFIX/J needs java and mvn"
    [[ "${FAIRBELL_PEERS:-}" != required ]]
    exit
fi
python3 scripts/interop/fix_ledger.py --self-test

pom=scripts/interop/quickfixj/pom.xml
built=$PWD/.cache/interop-quickfixj
mkdir -p "$built"
mvn --quiet --batch-mode --file "$pom" compile dependency:build-classpath \
    -Dmdep.outputFile="$built/classpath.txt"

out=.cache/interop-fix
rm -rf "$out"
mkdir -p "$out"
cargo run --locked --quiet --package fix --example samples >"$out/samples.txt"
java -cp "$built/classes:$(cat "$built/classpath.txt")" Judge "$out/samples.txt"

cp scripts/interop/fix.toml "$out/fairbell.toml"
exchange=("${FAIRBELL_BINARY:-${CARGO_TARGET_DIR:-target}/debug/fairbell}")
[ "${FAIRBELL_BINARY:-}" ] || cargo build --locked --quiet --package fairbell
"${exchange[@]}" up --config "$out/fairbell.toml" --port-base 0 --json \
    --fail-gateway 1 --after 20s --out "$out" >"$out/report.json" 2>"$out/progress.txt" &
exchange_pid=$!
stop() { kill -INT "$exchange_pid" 2>/dev/null && wait "$exchange_pid" 2>/dev/null || true; }
trap stop EXIT

gateways=()
for _ in $(seq 100); do
    if read -r -a gateways < <(sed -n 's/^FIX: //p' "$out/progress.txt") &&
        [ "${#gateways[@]}" -ge 3 ]; then
        break
    fi
    sleep 0.2
done
if [ "${#gateways[@]}" -lt 3 ]; then
    echo "FAIL: the exchange does not say where its FIX doors are"
    cat "$out/progress.txt"
    exit 1
fi
timeout 150 java -cp "$built/classes:$(cat "$built/classpath.txt")" Trader \
    "${gateways[@]:0:3}" welcome "$out"
trap - EXIT
# What the run itself is measured by (deadlines, books at a killed receiver) is not the question.
stop
"${exchange[@]}" statement --config "$out/fairbell.toml" --trades "$out/trades.csv" --json \
    --log "$out/exchange.log" >"$out/statement.json"
python3 scripts/interop/fix_ledger.py "$out/ledger.csv" "$out/trades.csv" "$out/statement.json"
