#!/usr/bin/env bash
# Does a log say everything? Writes a log of COMMANDS commands with a snapshot half way, then
# replays it in three processes: from the start, from the snapshot, and from the start by a build
# with debug assertions. Digests of state and of all messages after the snapshot must be equal.
#
#   scripts/replay-check.sh              5 million commands
#   scripts/replay-check.sh 50000        fewer
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

commands=${1:-5000000}
half=$((commands / 2))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --locked --quiet --release --package fairbell-lab
cargo build --locked --quiet --package fairbell-lab
target=${CARGO_TARGET_DIR:-target}

"$target/release/fairbell-lab" log write --commands "$commands" --out "$folder/log" \
    --snapshot-at "$half" --snapshot "$folder/snapshot"
"$target/release/fairbell-lab" log replay "$folder/log" --from "$half" --json >"$folder/start.json" &
one=$!
"$target/release/fairbell-lab" log replay "$folder/log" --snapshot "$folder/snapshot" --json \
    >"$folder/snapshot.json" &
two=$!
wait "$one"
wait "$two"
"$target/debug/fairbell-lab" log replay "$folder/log" --from "$half" --json >"$folder/debug.json"

python3 - "$folder" <<'EOF'
import json, sys

runs = {name: json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("start", "snapshot", "debug")}
for name, run in runs.items():
    print(f"{name:9} {run['commands']:>9,} commands in {run['seconds']:8.2f} s, "
          f"{run['commands_per_s']:>12,.0f}/s  state {run['state_digest']}  "
          f"reports {run['executions_digest']}  feed {run['feed_digest']}")
keys = ("state_digest", "executions_digest", "feed_digest", "executions", "feed_messages", "feed_next")
wrong = [key for key in keys if len({str(run[key]) for run in runs.values()}) != 1]
if not runs["debug"]["debug_assertions"] or runs["start"]["debug_assertions"]:
    wrong.append("debug_assertions")
if runs["start"]["executions"] == 0 or runs["start"]["feed_messages"] == 0:
    wrong.append("no messages were compared")
print("FAIL: " + ", ".join(wrong) if wrong else "PASS: equal digests and equal messages")
sys.exit(bool(wrong))
EOF
