#!/usr/bin/env bash
# Clock agents in network namespaces of their own, each with a clock that is wrong by up to 10 ms
# and drifts by up to 50 ppm, judged by the one clock that they really share. Needs root; makes its
# namespaces and removes them. BINARY is the program, NODES how many agents, SECONDS_LONG how long,
# PURE_US the change of spacing up to which a pair is pure; extra arguments go to the report. Many
# agents on few cores wake each other late, so that far more pairs are impure than between machines.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "${BINARY:-target/release/fairbell}")
nodes=${NODES:-6}
length=${SECONDS_LONG:-30}
pure=${PURE_US:-300}
name=fbc$$
folder=$(mktemp -d)
pids=()

cleanup() {
    # Only what was started and made here.
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait || true
    for ((i = 0; i < nodes; i++)); do ip netns del "$name-$i" 2>/dev/null || true; done
    ip netns del "$name-hub" 2>/dev/null || true
    rm -rf "$folder"
}
trap cleanup EXIT

ip netns add "$name-hub"
ip -n "$name-hub" link add hub type bridge
ip -n "$name-hub" link set hub up
members=()
for ((i = 0; i < nodes; i++)); do
    ip netns add "$name-$i"
    ip -n "$name-$i" link add uplink type veth peer name "port$i" netns "$name-hub"
    ip -n "$name-hub" link set "port$i" master hub up
    ip -n "$name-$i" addr add "10.77.0.$((i + 1))/24" dev uplink
    ip -n "$name-$i" link set lo up
    ip -n "$name-$i" link set uplink up
    members+=(--node "$i=10.77.0.$((i + 1)):7400")
done

head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$folder/key"
for ((i = 0; i < nodes; i++)); do
    # Spread over ±10 ms and ±50 ppm; the reference is right by definition.
    offset=$((i == 0 ? 0 : (i * 7919 % 20001) - 10000))
    drift=$((i == 0 ? 0 : (i * 31337 % 100001) - 50000))
    ip netns exec "$name-$i" "$binary" clock agent --id "$i" "${members[@]}" \
        --key-file "$folder/key" --pure-us "$pure" --virtual-offset-us "$offset" --virtual-drift-ppb "$drift" \
        --duration "${length}s" --trace "$folder/$i.jsonl" --status "$folder/$i.status" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
pids=()

"$binary" clock status --agent "$folder/1.status"
"$binary" clock report "$folder"/*.jsonl --same-machine --settle 10s "$@"
