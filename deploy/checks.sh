# Stages of deploy/check.sh, which sources this file: each ends the script when something does not hold.
# shellcheck shell=bash

# Tools of the stages that need no release build, installed while something else is built.
check_tools() {
    debian shellcheck shellcheck
    debian jq jq
    tools_rules
    tools_helm
    tools_provision
}

tools_rules() {
    python_in lint 'ansible-lint>=25'
}

# The collection with the connection to a root folder is in the package `ansible`.
tools_ansible() {
    python 'ansible>=12,<14'
}

tools_helm() {
    python_in helm 'helm-python-sdk>=0.2.2,<0.3' 'PyYAML>=6'
    go_tool kubeconform github.com/yannh/kubeconform@v0.8.0 cmd/kubeconform
    # It carries the schemas of all versions, so that none has to be fetched.
    python 'kubernetes-validate>=1.37,<2' 'PyYAML>=6'
}

check_scripts() {
    debian shellcheck shellcheck
    local scripts
    mapfile -t scripts < <(git ls-files deploy | grep -vE '[.](j2|tftpl)$' | xargs grep -lE '^#!.*(bash|/sh)$')
    [[ ${#scripts[@]} -ge 4 ]] || fail "which scripts are there?"
    shellcheck -x "${scripts[@]}"
    # What OpenTofu fills in are names of variables to the shell, too: names of nodes and zones, without spaces.
    sed '/^%{/d' deploy/tofu/first-start.sh.tftpl >"$work/first-start.sh"
    shellcheck -e SC2154,SC2086,SC2016 "$work/first-start.sh"
    # Control: a variable that splits into words.
    printf '#!/bin/sh\nrm $1\n' >"$work/broken.sh"
    refuses shellcheck "$work/broken.sh"
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
    rights
}

# A venue of a root and an edge on loopback addresses, as a user without a right, below strace: every call that they make is
# one that the unit's filter lets through.
syscalls() {
    have_binary
    local at=$work/traced pids=() node
    rm -rf "$at"
    mkdir -p "$at"
    venue_of_one "$at/venue"
    # A clock that needs no probes: below strace each of them is late.
    sed -i 's/huygens/system/' "$at/venue/venue.toml"
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

# Whether a data plane can be had with the capabilities of its drop-in alone, and not without one of them. Root itself has none here
# but those of its bounding set.
rights() {
    debian setpriv util-linux
    debian ip iproute2
    local at=$work/rights plane drop name names others
    rm -rf "$at"
    venue_of_one "$at/venue"
    sed -i 's/huygens/system/' "$at/venue/venue.toml"
    sed -i -e 's/127.0.77.1/10.77.0.1/' -e 's/127.0.77.2/10.77.0.2/' "$at/venue/cluster.toml"
    "$binary" cluster issue --all --cluster "$at/venue/cluster.toml" >/dev/null
    for plane in tc-clone af_xdp; do
        drop=deploy/systemd/drop-ins/$plane.conf
        mapfile -t names < <(sed -n 's/^AmbientCapabilities=CAP_//p' "$drop" | sed 's/ CAP_/\n/g' | tr '[:upper:]' '[:lower:]')
        [[ $(sed -n 's/^CapabilityBoundingSet=//p' "$drop") == $(sed -n 's/^AmbientCapabilities=//p' "$drop") ]] || fail "$drop: two sets"
        takes_plane "$plane" "${names[@]}" || fail "$plane with ${names[*]}: $(tail -1 "$at/node.log")"
        python3 deploy/systemd/syscalls.py "deploy/systemd/fairbell-node@.service,$drop" "$at/$plane.calls"
        for name in "${names[@]}"; do
            mapfile -t others < <(printf '%s\n' "${names[@]}" | grep -vx "$name")
            ! takes_plane "$plane" "${others[@]}" || fail "$plane is had without $name"
            grep -q "data plane $plane" "$at/node.log" || fail "$plane without $name: $(tail -1 "$at/node.log")"
        done
        echo "$plane: had with ${names[*]}, with none of them missing"
    done
}

# A root of a venue on an interface of its own, with the capabilities that are named and no others: does it run after 10 s?
# What it calls is counted.
takes_plane() {
    local plane=$1 at=$work/rights sets=-all name got=0
    shift
    for name in "$@"; do
        [[ -z $name ]] || sets+=,+$name
    done
    rm -rf "$at/run"
    cp -r "$at/venue" "$at/run"
    sed -i "s/^name = \"root-1\"/&\ndata_plane = [\"$plane\"]/" "$at/run/cluster.toml"
    mkdir "$at/run/state"
    # shellcheck disable=SC2016 # words of the inner shell
    unshare --net bash -ec 'ip link add card0 type veth peer name card1
        ip link set lo up; ip link set card0 up; ip link set card1 up; ip address add 10.77.0.1/24 dev card0
        sets=$1; shift
        exec setpriv --no-new-privs --inh-caps=-all --bounding-set="$sets" \
            strace -f -qq -c -o "$1" timeout --signal=TERM 10 "${@:2}"' inner "$sets" "$at/$plane.calls" \
        "$binary" node --cluster "$at/run/cluster.toml" --name root-1 --dir "$at/run/state" >"$at/node.log" 2>&1 || got=$?
    # 124: it was still there when its time was over.
    [[ $got == 124 ]]
}

# The program that is packed, installed and run by all stages: the one that was named, or the release build, made once.
have_binary() {
    [[ -n $binary ]] && return
    binary=$(scripts/package.py --build-only | tail -1)
}

# A copy of the sources in $at/source, and in $at/cargo what cargo has fetched, not yet unpacked.
copy_elsewhere() {
    rm -rf "$at"
    mkdir -p "$at/source" "$at/cargo/registry"
    git ls-files -z | tar -c --null -T - | tar -x -C "$at/source"
    local had
    for had in registry/index registry/cache config.toml; do
        [[ ! -e $cargo/$had ]] || cp -r "$cargo/$had" "$at/cargo/$had"
    done
}

# Builds that copy and prints the path of the program.
build_elsewhere() {
    (umask 077 && cd / && unset CARGO_TARGET_DIR &&
        CARGO_HOME=$at/cargo TZ=Asia/Kathmandu LC_ALL=C "$at/source/scripts/package.py" --build-only) | tail -1
}

# The release is built a second time: of a copy of the sources in another folder, with dependencies unpacked in another folder, in
# another time zone, language and with another umask. Both have to be the same bytes.
check_build() {
    debian strip binutils
    local at=$work/elsewhere first second cargo=${CARGO_HOME:-$HOME/.cargo} path
    first=$(scripts/package.py --build-only | tail -1)
    binary=${binary:-$first}
    copy_elsewhere
    second=$(build_elsewhere)
    strip --strip-all -o "$at/first" "$first"
    strip --strip-all -o "$at/second" "$second"
    cmp "$at/first" "$at/second" || fail "two builds, other bytes"
    for path in "$PWD" "$cargo/" "$at"; do
        ! grep -qaF "$path" "$at/first" || fail "the program has the path $path in it"
    done
    grep -qaF /cargo/registry/ "$at/first" || fail "no path of a dependency in the program: what is looked for?"
    echo "two builds: $(stat -c %s "$at/first") bytes, the same: $(sha256sum <"$at/first" | cut -c1-16)"
    # Control: other sources are noticed.
    sed -i 's/    fairbell::main()/    std::hint::black_box(std::process::id());\n&/' "$at/source/crates/fairbell/src/main.rs"
    ! cmp -s crates/fairbell/src/main.rs "$at/source/crates/fairbell/src/main.rs" || fail "nothing was changed in the copy"
    second=$(build_elsewhere)
    strip --strip-all -o "$at/second" "$second"
    ! cmp -s "$at/first" "$at/second" || fail "a build of other sources is not noticed"
}

# The modules that tests of strategies run are what their sources make.
check_guests() {
    debian clang clang
    debian wasm-ld lld
    local at=$work/guests module
    rm -rf "$at"
    mkdir -p "$at/changed"
    scripts/build-strategies.sh "$at"
    for module in crates/strategy/tests/guests/*.wasm; do
        cmp "$module" "$at/$(basename "$module")" || fail "$module is not what its source makes: scripts/build-strategies.sh crates/strategy/tests/guests"
        echo "$(basename "$module"): the bytes that its source makes"
    done
    # Control: a line more before a place that can panic.
    cp -r sdk scripts "$at/changed"
    mkdir -p "$at/changed/crates/strategy" target
    cp -r crates/strategy/wit "$at/changed/crates/strategy"
    ln -s "$PWD/target" "$at/changed/target"
    sed -i '0,/^use /s//\n&/' "$at/changed/sdk/strategy/examples/misbehave.rs"
    "$at/changed/scripts/build-strategies.sh" "$at/other"
    ! cmp -s "$at/misbehave.wasm" "$at/other/misbehave.wasm" || fail "a change of the source is not noticed"
}

# Packs twice, in other folders, time zones, languages and with another umask.
check_package() {
    have_binary
    debian strip binutils
    python 'cyclonedx-python-lib[json-validation]>=11,<12' 'check-wheel-contents>=0.6,<1'
    rm -rf "$work/package" "$work/again" "$work/later"
    scripts/package.py --binary "$binary" --out "$work/package" >/dev/null
    cp "$binary" "$work/bin/renamed"
    (umask 077 && cd / && TZ=Asia/Kathmandu LC_ALL=C TMPDIR=$work "$OLDPWD/scripts/package.py" \
        --binary "$work/bin/renamed" --out "$work/again") >/dev/null
    rm "$work/bin/renamed"
    diff -r "$work/package" "$work/again" || fail "two runs, other bytes"
    (cd "$work/package" && sha256sum --check --quiet SHA256SUMS)
    # Control: what is of another time has other bytes, all but the bill's own hashes.
    SOURCE_DATE_EPOCH=$((SOURCE_DATE_EPOCH + 60)) scripts/package.py --binary "$binary" --out "$work/later" >/dev/null
    local file
    for file in "$work"/package/fairbell*; do
        ! cmp -s "$file" "$work/later/$(basename "$file")" || fail "$file does not depend on the time it says"
    done
    rm -rf "$work/again" "$work/later"
    python3 - "$work/package/fairbell.cdx.json" <<'P'
import json
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1], encoding="utf-8").read()
check = JsonStrictValidator(SchemaVersion.V1_5)
told = check.validate_str(text)
assert told is None, told
bill = json.loads(text)
names = {part["bom-ref"] for part in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
named = {ref for one in bill["dependencies"] for ref in [one["ref"], *one["dependsOn"]]}
assert named <= names, named - names
bill["components"][0].pop("name")
assert check.validate_str(json.dumps(bill)) is not None, "a component without a name passes"
print(f"bill of materials: CycloneDX 1.5, {len(names)} components, valid")
P
    # It has no module, only the program.
    check-wheel-contents --ignore W004,W006,W007,W101,W102,W201,W202 "$work"/package/*.whl
    (cd "$work/package" && du -k fairbell* | awk '{ print $2 ": " $1 " KiB, the same bytes twice" }')
}

# The image is unpacked by somebody else's program and run by runc: as a user without rights, on a root file system that it
# can not write to, without a shell in it.
check_image() {
    [[ -d $work/package ]] || check_package
    debian umoci umoci
    debian runc runc
    debian jq jq
    scripts/fetch-sample.sh >/dev/null
    local at=$work/image sample=$PWD/.cache/ob-analytics-0.1.0 inside
    rm -rf "$at"
    mkdir -p "$at/layout"
    tar -xf "$work"/package/*-oci.tar -C "$at/layout"
    umoci unpack --image "$at/layout:$(version)" "$at/bundle"
    inside=$(cd "$at/bundle/rootfs" && find . -type f -perm /111 ! -name '*.so*' | sort | tr '\n' ' ')
    [[ $inside == "./usr/bin/fairbell " ]] || fail "programs in the image: $inside"
    run_inside up --once --sample /sample --out out --quiet --json >"$at/report.json" 2>"$at/report.log" ||
        fail "up --once in the image: $(tail -3 "$at/report.log")"
    jq -r '"up --once in the image: \(.verdict), \(.orders_sent) requests, \(.orders_lost) lost"' "$at/report.json"
    # Controls: no shell, and nobody but a number without rights.
    refuses run_program /bin/sh -c true
    run_inside --version
    jq -e '.process.user.uid == 10001 and .root.readonly and (.process.capabilities.effective | length) == 0' \
        "$at/bundle/config.json" >/dev/null || fail "the image runs with rights"
}

version() {
    sed -nE '/^\[workspace.package\]/,/^\[/ s/^version = "(.*)"/\1/p' Cargo.toml
}

run_inside() {
    run_program /usr/bin/fairbell "$@"
}

# A command in the bundle: read-only, no capability, no new ones, a network of its own with nothing but loopback.
run_program() {
    local bundle=$work/image/bundle words
    words=$(jq -nc '$ARGS.positional' --args -- "$@")
    [[ -e $bundle/config.first.json ]] || cp "$bundle/config.json" "$bundle/config.first.json"
    jq --argjson words "$words" --arg sample "$PWD/.cache/ob-analytics-0.1.0" '
        .process.args = $words | .process.terminal = false | .process.noNewPrivileges = true | .root.readonly = true
        | .process.capabilities = {bounding: [], effective: [], permitted: [], inheritable: [], ambient: []}
        | .process.rlimits = [{type: "RLIMIT_NOFILE", hard: 16384, soft: 16384}]
        | .mounts += [{destination: "/var/lib/fairbell", type: "tmpfs", source: "tmpfs", options: ["uid=10001", "gid=10001", "nosuid", "nodev"]},
                      {destination: "/sample", type: "bind", source: $sample, options: ["bind", "ro"]}]
        ' "$bundle/config.first.json" >"$bundle/config.json"
    runc --root "$work/runc" run --bundle "$bundle" "fairbell-image-$$" </dev/null
}

# A fresh Debian with what the role and the package need, made once.
fresh_debian() {
    debian mmdebstrap mmdebstrap
    [[ -e $work/debian.tar ]] || nice mmdebstrap --quiet --format=tar --variant=minbase --aptopt='APT::Install-Recommends "false"' \
        --include=systemd,udev,python3,python3-apt,chrony,procps,kmod,iproute2,ethtool bookworm "$work/debian.tar.part"
    [[ -e $work/debian.tar ]] || mv "$work/debian.tar.part" "$work/debian.tar"
    rm -rf "${1:?}"
    mkdir -p "$1"
    tar -xf "$work/debian.tar" -C "$1" --exclude='./dev/*'
    mkdir -p "$1/dev"
    mknod -m 666 "$1/dev/null" c 1 3
    mknod -m 666 "$1/dev/zero" c 1 5
    mknod -m 444 "$1/dev/urandom" c 1 9
}

# Every file of a root folder with mode, owner and content, but for what the package manager writes about itself.
traces() {
    local left=(\( -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path './etc/*-' -o -path ./dev -o -path ./proc
        -o -path ./sys \) -prune -o)
    (cd "$1" && find . "${left[@]}" -printf '%p %M %u:%g %l\n' | sort)
    (cd "$1" && find . "${left[@]}" -type f -print0 | xargs -0 sha256sum | sort)
    # Names of the package in its lists.
    grep -rls fairbell "$1/var/lib/dpkg/info" "$1/var/lib/dpkg/status" || true
}

check_debian() {
    [[ -d $work/package ]] || check_package
    local root=$work/fresh deb
    fresh_debian "$root"
    deb=$(basename "$work"/package/*.deb)
    traces "$root" >"$work/before"
    cp "$work/package/$deb" "$root/opt/"
    inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
    inside dpkg -i "/opt/$deb" >"$work/install.log" 2>&1 || fail "dpkg -i: $(cat "$work/install.log")"
    inside dpkg --verify fairbell
    inside fairbell --version
    inside fairbell check config --config /usr/share/fairbell/fairbell.toml >/dev/null
    inside getent passwd fairbell
    [[ $(stat -c %U:%G:%a "$root/etc/fairbell/keys") == "root:$(stat -c %G "$root/etc/fairbell"):750" ]] || fail "folder of keys"
    systemd-analyze verify --man=no --root="$root" fairbell-node@edge-3.service fairbell-probe.service fairbell-up.service
    # A second time changes nothing; nor is what an operator has put there lost when it is removed and purged.
    inside dpkg -i "/opt/$deb" >/dev/null
    mkdir "$root/etc/fairbell/keys/edge-3"
    echo secret >"$root/etc/fairbell/keys/edge-3/gate.key"
    inside dpkg --purge fairbell >"$work/purge.log" 2>&1
    grep -q 'kept, for what is in it: /etc/fairbell' "$work/purge.log" || fail "purge says nothing of keys"
    [[ -e $root/etc/fairbell/keys/edge-3/gate.key ]] || fail "purge took keys"
    inside dpkg -i "/opt/$deb" >/dev/null
    rm -r "$root/etc/fairbell/keys/edge-3"
    # Control: while it is installed there are traces.
    traces "$root" >"$work/between"
    ! cmp -s "$work/before" "$work/between" || fail "no trace of an installed package: what is compared?"
    inside dpkg --purge fairbell >/dev/null 2>&1
    rm "$root/opt/$deb"
    traces "$root" >"$work/after"
    diff "$work/before" "$work/after" || fail "purging leaves traces"
    echo "$deb: installed, verified, purged; $(grep -c '^[.]/' "$work/after") files and folders as before"
    rm -rf "$root"
}

check_wheel() {
    [[ -d $work/package ]] || check_package
    local at=$work/wheel
    rm -rf "$at"
    python3 -m venv "$at"
    "$at/bin/pip" install --quiet --disable-pip-version-check 'pytest>=8' 'setuptools>=77' httpx websockets
    cp -r sdk/python "$at/sdk"
    "$at/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$at/sdk"
    cat >"$at/test_trade.py" <<'T'
"""A user's own test: an exchange of the SDK's fixture, which runs the wheel's program, trades."""

import time


def test_two_accounts_trade(fairbell_exchange):
    buyer, seller = (fairbell_exchange.sync_client(number) for number in (0, 1))
    with buyer, seller:
        seller.new_order("BTCUSD", "sell", "0.5", "100")
        bought = buyer.new_order("BTCUSD", "buy", "0.5", "100")
        end = time.monotonic() + 10
        while not buyer.fills() and time.monotonic() < end:
            time.sleep(0.05)
        assert [fill.client_order_id for fill in buyer.fills()] == [bought.client_order_id]
T
    # Control: without the wheel there is no program to start.
    refuses in_environment -m pytest -q -p no:cacheprovider test_trade.py
    grep -q 'BinaryNotFound' "$work/refused.log" || fail "the fixture without a program: $(tail -5 "$work/refused.log")"
    "$at/bin/pip" install --quiet --disable-pip-version-check --no-index "$work"/package/*.whl
    "$at/bin/fairbell" --version
    # Both are there: neither took the other one's place.
    in_environment -c 'import fairbell.testing'
    in_environment -m pytest -q -p no:cacheprovider test_trade.py | tail -1
    "$at/bin/pip" uninstall --quiet --yes fairbell-program
    [[ ! -e $at/bin/fairbell ]] || fail "pip leaves the program"
    in_environment -c 'import fairbell.testing'
    rm -rf "$at"
}

# Python in the wheel's environment, with a PATH that has no program of ours.
in_environment() {
    (cd "$work/wheel" && env -u FAIRBELL_BIN PATH=/usr/bin:/bin bin/python "$@")
}

# What ansible-lint says of the role.
check_rules() {
    tools_rules
    local lint=("$work/lint/bin/ansible-lint" --offline --nocolor --profile production)
    (cd deploy/ansible && PATH=$work/lint/bin:$PATH "${lint[@]}") >"$work/lint.log" 2>&1 || fail "ansible-lint: $(cat "$work/lint.log")"
    tail -1 "$work/lint.log"
    # Control: a file whose rights nobody says.
    rm -rf "$work/ansible-broken"
    cp -r deploy/ansible "$work/ansible-broken"
    sed -i '0,/    mode: .*/s///' "$work/ansible-broken/roles/fairbell/tasks/install.yml"
    ! (cd "$work/ansible-broken" && PATH=$work/lint/bin:$PATH "${lint[@]}") >"$work/refused.log" 2>&1 || fail "ansible-lint finds nothing"
    grep -q risky-file-permissions "$work/refused.log" || fail "ansible-lint: $(tail "$work/refused.log")"
}

check_ansible() {
    [[ -d $work/package ]] || check_package
    have_binary
    debian shellcheck shellcheck
    tools_ansible
    local root=$work/managed deb
    fresh_debian "$root"
    deb=$(echo "$work"/package/*.deb)
    venue_of_one "$work/venue"
    traces "$root" >"$work/before"
    cat >"$work/inventory.yml" <<I
all:
  children:
    fairbell:
      hosts:
        root-1:
          ansible_connection: community.general.chroot
          ansible_host: $root
          ansible_become: false
          fairbell_package: $deb
          fairbell_cluster_dir: $work/venue
          fairbell_data_plane: [tc-clone, af_xdp, udp]
          fairbell_ring_group: fairbell-feed
          fairbell_isolated_cores: 2-3,6
          fairbell_housekeeping_cores: 0-1
          fairbell_interface: card0
          fairbell_queues: 2
          fairbell_receive_ring: 4096
          fairbell_coalesce_us: 0
          fairbell_busy_poll_us: 50
          fairbell_max_cstate: 1
          fairbell_huge_pages: 64
          fairbell_clocksource: tsc
          fairbell_clock: huygens
          fairbell_ntp_servers: [169.254.169.123]
          fairbell_phc: /dev/ptp0
I
    mkdir -p "$root/proc"
    mount -t proc proc "$root/proc"
    trap 'umount "$work/managed/proc" 2>/dev/null || true' EXIT
    play site.yml
    [[ $(recap changed) -gt 5 ]] || fail "the first run changed $(recap changed)"
    echo "first run: $(recap changed) changes"
    play site.yml
    [[ $(recap changed) == 0 ]] || fail "the second run changed $(recap changed): $(grep -B9 '^changed' "$work/play.log")"
    echo "second run: 0 changes"
    # Controls: what somebody has changed is changed back; what contradicts itself is refused.
    echo '# mine' >>"$root/etc/sysctl.d/61-fairbell.conf"
    play site.yml
    [[ $(recap changed) == 1 ]] || fail "a file that was changed by hand: $(recap changed) changes"
    local wrong
    for wrong in fairbell_clock=sundial 'fairbell_clock=phc fairbell_phc='; do
        refuses env ANSIBLE_CONFIG=deploy/ansible/ansible.cfg ansible-playbook -i "$work/inventory.yml" \
            deploy/ansible/site.yml -e "$wrong"
        grep -q 'phc needs fairbell_phc' "$work/refused.log" || fail "$wrong is refused, but not for that"
    done
    shellcheck "$root/usr/local/sbin/fairbell-tune"
    systemd-analyze verify --man=no --root="$root" fairbell-node@root-1.service fairbell-tune.service
    umount "$root/proc"
    tuned_and_back "$root"
    mount -t proc proc "$root/proc"
    play undo.yml
    umount "$root/proc"
    trap - EXIT
    rm -rf "$root/etc/fairbell/keys/root-1" "$root"/{etc/fairbell/*.toml,etc/fairbell/*.pem,root/.ansible} "$root/var/lib/fairbell-tune"
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg --purge fairbell >/dev/null 2>&1
    traces "$root" >"$work/after"
    diff "$work/before" "$work/after" || fail "undo leaves traces"
    echo "undone and purged: $(grep -c '^[.]/' "$work/after") files and folders as before"
    rm -rf "$root"
}

# Keys and files of a venue of one root, whose names need no DNS.
venue_of_one() {
    rm -rf "$1"
    "$binary" cluster init --name lab --roots 1 --edges 1 --depth 1 --fanout 1 --standby 0 --out "$1" >/dev/null
    sed -i -e 's/^address = "root-1"/address = "127.0.77.1"\nbind = "127.0.77.1"/' \
        -e 's/^address = "edge-1"/address = "127.0.77.2"\nbind = "127.0.77.2"/' "$1/cluster.toml"
    "$binary" cluster issue --all --cluster "$1/cluster.toml" >/dev/null
}

play() {
    ANSIBLE_NOCOLOR=1 ANSIBLE_REMOTE_TEMP=/var/cache/ansible ANSIBLE_CONFIG=deploy/ansible/ansible.cfg ansible-playbook -i "$work/inventory.yml" \
        "deploy/ansible/$1" >"$work/play.log" 2>&1 || fail "ansible-playbook $1: $(tail -30 "$work/play.log")"
}

recap() {
    sed -nE "/^PLAY RECAP/,\$ s/.* $1=([0-9]+).*/\1/p" "$work/play.log"
}

# The tuning script in a root folder whose /proc and /sys are plain files: it sets what it says, and puts it back.
tuned_and_back() {
    local root=$1 file
    local files=(sys/devices/system/clocksource/clocksource0/current_clocksource sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
        proc/irq/24/smp_affinity_list sys/class/net/card0/queues/rx-0/rps_cpus)
    for file in "${files[@]}"; do
        mkdir -p "$root/$(dirname "$file")"
        echo "as it was" >"$root/$file"
    done
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/local/sbin/fairbell-tune >/dev/null 2>&1
    [[ $(cd "$root" && cat "${files[@]}" | tr '\n' ' ') == "tsc performance 0-1 0 " ]] ||
        fail "the tuning script: $(cd "$root" && cat "${files[@]}")"
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/local/sbin/fairbell-tune undo
    for file in "${files[@]}"; do
        [[ $(cat "$root/$file") == "as it was" ]] || fail "$file is not as it was"
    done
    rm -rf "$root"/{sys,proc}/*
    echo "fairbell-tune: ${#files[@]} settings set, and put back"
}

in_helm() {
    "$work/helm/bin/python" deploy/helm/chart.py "$@"
}

check_helm() {
    have_binary
    tools_helm
    local chart=deploy/helm/fairbell schemas release rendered=$work/helm.yaml settings
    in_helm lint "$chart"
    # Control: a template that names a value that there is not.
    rm -rf "$work/chart-broken"
    cp -r "$chart" "$work/chart-broken"
    echo '{{ .Values.scale.enabled.at.night }}' >>"$work/chart-broken/templates/scale.yaml"
    refuses in_helm lint "$work/chart-broken"
    rm -rf "$work/chart-venue"
    "$binary" cluster init --name lab --roots 3 --edges 4 --depth 2 --fanout 2 --out "$work/chart-venue" >/dev/null
    PYTHONDONTWRITEBYTECODE=1 "$work/helm/bin/python" deploy/helm/test.py "$work/chart-venue/keys"
    python3 deploy/helm/schemas.py "$work/schemas" 1.33.0 1.35.0 1.37.0
    schemas=$work/schemas
    # One stream of all objects, so that each version reads its schemas once.
    for settings in '{}' '{"scale": {"enabled": true}, "roles": {"edge": {"most": 9}}}' '{"shards": 2, "roles": {"root": {"replicas": 6}}}' '{"hostNetwork": true, "service": {"type": "LoadBalancer"}, "roles": {"proxy": {"dataPlane": ["tc-clone", "udp"]}}}'; do
        echo "$settings" >"$work/values.json"
        in_helm template "$chart" "$work/values.json"
    done >"$rendered"
    for release in 1.33.0 1.35.0 1.37.0; do
        kubeconform -strict -summary -kubernetes-version "$release" \
            -schema-location "$schemas/v$release/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$rendered"
    done
    # Control: a field that Kubernetes does not have.
    sed 's/^  podManagementPolicy:/  podManagementPolitics:/' "$rendered" >"$work/broken.yaml"
    refuses kubeconform -strict -kubernetes-version 1.37.0 \
        -schema-location "$schemas/v1.37.0/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$work/broken.yaml"
    grep -q podManagementPolitics "$work/refused.log" || fail "kubeconform: $(cat "$work/refused.log")"
}

# Leaves out what would reach for this machine's clock, kernel or devices.
without_hardware() {
    local root=$1 unit
    for unit in chrony systemd-sysctl systemd-modules-load systemd-udevd systemd-udev-trigger systemd-remount-fs systemd-timesyncd \
        systemd-logind systemd-hwdb-update systemd-binfmt getty@tty1; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
    done
}

# The package's units under a systemd that is the first process of namespaces of its own.
check_boot() {
    [[ -d $work/package ]] || check_package
    have_binary
    local root=$work/booted
    fresh_debian "$root"
    cp "$work"/package/*.deb "$root/opt/fairbell.deb"
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -i /opt/fairbell.deb >/dev/null 2>&1
    venue_of_one "$work/boot-venue"
    cp "$work"/boot-venue/{cluster,venue}.toml "$work/boot-venue/authority.pem" "$root/etc/fairbell/"
    cp -r "$work"/boot-venue/keys/{root-1,edge-1} "$root/etc/fairbell/keys/"
    head -c 32 /dev/urandom | base64 >"$root/etc/fairbell/probe.key"
    chroot "$root" /bin/sh -c 'chgrp fairbell /etc/fairbell/*.toml /etc/fairbell/*.pem; chmod 640 /etc/fairbell/*.toml /etc/fairbell/*.pem
        chown -R fairbell: /etc/fairbell/keys/*; chgrp fairbell /etc/fairbell/probe.key; chmod 640 /etc/fairbell/probe.key'
    without_hardware "$root"
    cp deploy/systemd/booted.sh "$root/booted.sh"
    printf '[Unit]\nWants=fairbell-check.service\n' >"$root/etc/systemd/system/fairbell-check.target"
    printf '[Unit]\nAfter=systemd-journald.service\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/booted.sh\n' \
        >"$root/etc/systemd/system/fairbell-check.service"
    deploy/systemd/boot.sh "$root" 300 | tee "$work/boot.log"
    diff "$work/boot.log" - <<'R' || fail "units under systemd: not what they should be"
fairbell-node@root-1: active, restarts 0, exit 0
fairbell-node@edge-1: active, restarts 0, exit 0
fairbell-probe: active
fairbell-node@root-1 has CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2
fairbell-node@edge-1 has CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2
fairbell-probe has CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2
fairbell-node@edge-1: active, restarts 1, exit 0
fairbell-node@nobody: failed, restarts 0, exit 2
without its drop-in: 1 refusal or more
fairbell-node@root-1: active, restarts 0, exit 0
with tc-clone.conf CapEff:000000c000001000 NoNewPrivs:1 Seccomp:2
fairbell-node@root-1: inactive, restarts 0, exit 0
fairbell-node@edge-1: inactive, restarts 1, exit 0
programs left: 0
R
    rm -rf "$root"
}
