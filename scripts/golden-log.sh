#!/usr/bin/env bash
# Writes the golden log of the present version of the rules and its digests. Only for a new version
# of the rules: an existing one is left alone, because its digests are what the version means.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

version=$(sed -nE 's/^pub const RULES_VERSION: u32 = ([0-9]+);/\1/p' crates/engine/src/*.rs)
folder=lab/fairbell-lab/tests/golden
if [ -e "$folder/rules-$version.log" ]; then
    echo "golden log of rules version $version exists; remove it yourself if it was never committed"
    exit 1
fi
mkdir -p "$folder"
cargo build --locked --quiet --package fairbell-lab
fairbell=${CARGO_TARGET_DIR:-target}/debug/fairbell-lab
"$fairbell" log write --commands 510 --seed 3 --out "$folder/rules-$version.log"
"$fairbell" log replay "$folder/rules-$version.log" --json \
    | python3 -c 'import json, sys
keys = ("rules_version", "commands", "trades", "state_digest", "executions", "executions_digest",
        "feed_messages", "feed_digest", "feed_next")
run = json.load(sys.stdin)
print(json.dumps({key: run[key] for key in keys}, indent=2))' >"$folder/rules-$version.json"
cat "$folder/rules-$version.json"
