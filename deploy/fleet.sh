# The stage of deploy/check.sh that does what docs/deploy.md says, word for word, with machines of a cloud in a box; it sources this file.
# shellcheck shell=bash

# The N-th piece of code below a heading of docs/deploy.md.
piece() {
    awk -v heading="## $1" -v wanted="$2" '
        $0 == heading { within = 1; next }
        within && /^## / { exit }
        within && /^```/ { open = !open; count += open; next }
        within && open && count == wanted' docs/deploy.md
}

# From fresh installations of Debian to a fleet that trades: an operator's machine, three roots, two proxies, three edges. Each runs its
# own systemd, on a host of a network in a box whose paths are those of the profile table1. `ssh` there stands for a program that
# needs a server on each machine; everything else is what the page says.
check_fleet() {
    [[ -d $work/package ]] || check_package
    debian jq jq
    local at=$work/fleet node lost answered names=(operator root-1 root-2 root-3 proxy-1 proxy-2 edge-1 edge-2 edge-3)
    [[ -n $(piece 'From empty machines to a fleet' 3) ]] || fail "docs/deploy.md has no three pieces on a fleet"
    rm -rf "$at"
    mkdir -p "$at/machines"
    fresh_debian "$at/debian"
    without_hardware "$at/debian"
    cp deploy/fleet/ssh "$at/debian/usr/local/bin/ssh"
    printf '[Unit]\nWants=fairbell-check.service\n' >"$at/debian/etc/systemd/system/fairbell-check.target"
    printf '[Unit]\nAfter=systemd-journald.service\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sh -c "until [ -e /stop ]; do sleep 1; done; journalctl -q -o cat -u fairbell-node@* >/result.part; mv /result.part /result"\n' \
        >"$at/debian/etc/systemd/system/fairbell-check.service"
    cargo build --quiet --locked --package emulator --bin hosts
    mkfifo "$at/end"
    "${CARGO_TARGET_DIR:-$PWD/target}/debug/hosts" ${#names[@]} table1 <"$at/end" >"$at/hosts" &
    exec {box}>"$at/end"
    trap 'fleet_ends' EXIT
    until [[ $(wc -l <"$at/hosts") == "${#names[@]}" ]]; do
        kill -0 $! || fail "no network in a box"
        sleep 0.2
    done
    paste -d ' ' "$at/hosts" <(printf '%s\n' "${names[@]}") >"$at/plan"
    awk '{ print $2, $4 } BEGIN { print "127.0.0.1 localhost" }' "$at/plan" >"$at/debian/etc/hosts"
    while read -r _ _ pid node; do
        mkdir -p "$at/over/$node" "$at/scratch/$node" "$at/machines/$node"
        mount -t overlay -o "lowerdir=$at/debian,upperdir=$at/over/$node,workdir=$at/scratch/$node" overlay "$at/machines/$node"
        echo "$node" >"$at/machines/$node/etc/hostname"
        [[ $node == operator ]] || deploy/systemd/boot.sh "$at/machines/$node" 900 "/proc/$pid/ns/net" >"$at/$node.log" 2>&1 &
    done <"$at/plan"
    for node in "${names[@]:1}"; do
        until operator "ssh $node systemctl show -P Version" >/dev/null 2>&1; do sleep 1; done
    done
    echo "machines: ${#names[@]}, each with its own systemd, on paths of the profile table1"
    cp "$work"/package/*.deb "$at/machines/operator/root"
    said_by_the_page "$(piece 'From empty machines to a fleet' 1)"
    said_by_the_page "$(piece 'From empty machines to a fleet' 2)"
    # What a machine does with its token is in the section on units.
    said_by_the_page "ssh edge-3 $(printf %q "$(piece Units 1)")"
    all_are_in 8 120 || fail "not all nodes are in: $(cat "$at/status.json")"
    echo "in: $(jq -r '[.nodes[] | select(.is == "up") | .node] | join(" ")' "$at/status.json")"
    operator "$(piece 'From empty machines to a fleet' 3)" | tee "$at/load.log"
    read -r answered lost < <(sed -nE 's/.*answered ([0-9,]+), lost ([0-9,]+), answered twice 0,.*/\1 \2/p' "$at/load.log" | tr -d ,)
    [[ ${answered:-0} -gt 1000 && $lost == 0 ]] || fail "answered ${answered:-none}, lost ${lost:-unknown}"
    # Control: a machine that has lost its power is missed.
    kill -KILL "$(cat "$at/machines/edge-2.pid")"
    all_are_in 7 60 && jq -e '.nodes[] | select(.node == "edge-2") | .is != "up"' "$at/status.json" >/dev/null || fail "nobody misses edge-2"
    echo "edge-2 has lost its power: missed"
    trap - EXIT
    fleet_ends
    rm -rf "$at"
}

# Runs lines of the operator's shell on the operator's machine: root, its files, its network, and `ssh` to the others.
operator() {
    local at=$work/fleet
    # shellcheck disable=SC2016 # words of the inner shell
    nsenter "--net=/proc/$(awk '$4 == "operator" { print $3 }' "$at/plan")/ns/net" \
        unshare --mount --propagation private bash -euc 'mount -t proc proc "$1/proc"
            mkdir -p "$1/machines"
            mount --bind "$2" "$1/machines"
            exec chroot "$1" env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
                bash -euo pipefail -c "cd; $3"' inner "$at/machines/operator" "$at/machines" "$1"
}

said_by_the_page() {
    operator "$1" >"$work/fleet.log" 2>&1 || fail "what docs/deploy.md says does not work: $(tail -20 "$work/fleet.log")"
}

# Whether so many nodes are up within some seconds.
all_are_in() {
    local _
    for ((_ = 0; _ < $2; _++)); do
        operator 'fairbell cluster status --json --cluster cluster/cluster.toml' >"$work/fleet/status.json" 2>/dev/null || true
        [[ $(jq '[.nodes[] | select(.is == "up")] | length' "$work/fleet/status.json" 2>/dev/null) != "$1" ]] || return 0
        sleep 1
    done
    return 1
}

fleet_ends() {
    local at=$work/fleet node
    exec {box}>&- || true
    for node in "$at"/machines/*/; do
        touch "${node}stop"
    done
    wait
    for node in "$at"/machines/*/; do
        umount "$node" || true
    done
}
