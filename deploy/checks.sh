# Stages of deploy/check.sh, which sources this file: each ends the script when something does not hold.
# shellcheck shell=bash

check_scripts() {
    debian shellcheck shellcheck
    local scripts
    mapfile -t scripts < <(git ls-files deploy scripts/package.py | xargs grep -lE '^#!.*(bash|/sh)$')
    shellcheck -x "${scripts[@]}"
    echo "shellcheck: ${#scripts[@]} scripts, nothing to say"
}

# A root folder with this machine's units, ours, and something to execute where they say it is.
systemd_root() {
    rm -rf "$work/units"
    mkdir -p "$work/units/usr/bin" "$work/units/usr/lib/systemd"
    cp -r /usr/lib/systemd/system "$work/units/usr/lib/systemd/system"
    cp deploy/systemd/*.service "$work/units/usr/lib/systemd/system"
    install -m 755 /bin/true "$work/units/usr/bin/fairbell"
}

check_systemd() {
    debian systemd-analyze systemd
    debian strace strace
    systemd_root
    local root=$work/units units=$work/units/usr/lib/systemd/system name said drop
    local names=(fairbell-node@.service fairbell-probe.service fairbell-up.service)
    for name in "${names[@]}"; do
        said=$(systemd-analyze verify --man=no --root="$root" "$units/$name" 2>&1)
        [[ -z $said ]] || fail "systemd-analyze verify $name: $said"
        echo "systemd-analyze verify $name: nothing to say"
    done
    # Control: what is no setting is complained of.
    sed 's/^NoNewPrivileges=yes/NoNewPrivilege=perhaps/' "$units/fairbell-up.service" >"$units/broken.service"
    said=$(systemd-analyze verify --man=no --root="$root" "$units/broken.service" 2>&1) || true
    [[ $said == *NoNewPrivilege* ]] || fail "systemd-analyze verify does not see a misspelt setting"
    for name in "${names[@]/@/@x}"; do
        # Tenths: 15 is an exposure of 1.5 of 10.
        systemd-analyze security --no-pager --offline=true --root="$root" --threshold=15 "$name" | tail -1
    done
    for drop in deploy/systemd/drop-ins/*.conf; do
        rm -rf "$units/fairbell-node@x.service.d"
        mkdir "$units/fairbell-node@x.service.d"
        cp "$drop" "$units/fairbell-node@x.service.d/"
        said=$(systemd-analyze verify --man=no --root="$root" "fairbell-node@x.service" 2>&1) || true
        [[ -z $said ]] || fail "systemd-analyze verify with $drop: $said"
        printf 'with %s: ' "$(basename "$drop")"
        systemd-analyze security --no-pager --offline=true --root="$root" --threshold=35 fairbell-node@x.service | tail -1
    done
    systemd-sysusers --dry-run "$PWD/deploy/systemd/fairbell.sysusers.conf" >/dev/null 2>&1
    # Every setting of sysctl.d is one that this kernel has, or of a device that it may lack.
    local key
    while IFS='= ' read -r key _; do
        [[ -e /proc/sys/${key//.//} || $key == kernel.* ]] || fail "no setting $key in this kernel"
    done < <(grep -v '^#' deploy/systemd/60-fairbell.sysctl.conf | grep .)
    syscalls
}

# A venue of a root and an edge on loopback addresses, as a user without a right, below strace: every call that they make is
# one that the unit's filter lets through.
syscalls() {
    have_binary
    local at=$work/traced pids=() node
    rm -rf "$at"
    mkdir -p "$at"
    "$binary" cluster init --name lab --roots 1 --edges 1 --depth 1 --fanout 1 --standby 0 --out "$at/venue" >/dev/null
    sed -i -e 's/^address = "root-1"/address = "127.0.77.1"\nbind = "127.0.77.1"/' \
        -e 's/^address = "edge-1"/address = "127.0.77.2"\nbind = "127.0.77.2"/' "$at/venue/cluster.toml"
    # A clock that needs no probes: below strace each of them is late.
    sed -i 's/huygens/system/' "$at/venue/venue.toml"
    "$binary" cluster issue --all --cluster "$at/venue/cluster.toml" >/dev/null
    chmod 755 "$at"
    for node in root-1 edge-1; do
        strace -f -qq -c -o "$at/$node.calls" "$binary" node --cluster "$at/venue/cluster.toml" --name "$node" \
            --dir "$at/$node" 2>"$at/$node.log" &
        pids+=($!)
    done
    for _ in {1..120}; do
        grep -q ': in, after' "$at/edge-1.log" && break
        sleep 1
    done
    for node in "${pids[@]}"; do
        kill -TERM "$(pgrep -P "$node")"
    done
    wait "${pids[@]}" || true
    grep -q ': in, after' "$at/edge-1.log" || fail "no venue below strace: $(tail -3 "$at/edge-1.log")"
    python3 deploy/systemd/syscalls.py deploy/systemd/fairbell-node@.service "$at"/*.calls
    sed 's/@system-service/@network-io/' deploy/systemd/fairbell-node@.service >"$at/narrow.service"
    refuses python3 deploy/systemd/syscalls.py "$at/narrow.service" "$at"/*.calls
}

# The program that is packed: the one that was named, or a release build.
have_binary() {
    [[ -n $binary ]] && return
    cargo build --locked --release --package fairbell
    binary=${CARGO_TARGET_DIR:-$PWD/target}/release/fairbell
}
