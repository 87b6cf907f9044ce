#!/usr/bin/env bash
# Every drill, one after the other: three replicas as processes under open-loop load, and what may
# happen to them. Options go to each of them: scripts/drill.sh --rate 2000.
# Goes on after one that fails; the exit code says whether all held.
set -uo pipefail
cd "$(dirname "$0")/.."
fairbell=${CARGO_TARGET_DIR:-target}/release/fairbell-lab

outcomes=()
status=0
play() {
    echo "== fairbell-lab drill $*"
    if "$fairbell" drill "$@"; then
        outcomes+=("held: $1")
    else
        outcomes+=("DID NOT HOLD: $1")
        status=1
    fi
}

play failover --times 20 "$@"
play pause --times 5 "$@"
play partition --times 5 "$@"
play rot --times 5 "$@"
play replace --times 5 "$@"
play gateway --times 2 "$@"
play group --times 3 "$@"
play strangers
play old-disk --times 9 "$@"
# It mounts small disks.
if [[ $EUID -eq 0 ]]; then
    play full-disk --times 3 "$@"
else
    outcomes+=("NOT PLAYED, needs root: full-disk")
fi
printf '%s\n' "${outcomes[@]}"
exit $status
