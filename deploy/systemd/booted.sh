#!/bin/bash
# What deploy/check.sh asks a systemd that runs Fairbell's units; this is run inside by boot.sh, and writes /result.
set -u

# Lines of a node's log that have a word in them.
said() {
    journalctl -q -o cat -u "fairbell-node@$1" | grep -c "$2"
}

until_said() {
    for _ in {1..90}; do
        [[ $(said "$1" "$2") -ge $3 ]] && return
        sleep 1
    done
}

is() {
    echo "fairbell-node@$1: $(systemctl show -P ActiveState "fairbell-node@$1"), restarts $(systemctl show -P NRestarts "fairbell-node@$1"), exit $(systemctl show -P ExecMainStatus "fairbell-node@$1")"
}

{
    systemctl start fairbell-node@root-1 fairbell-node@edge-1 fairbell-probe
    until_said edge-1 ': in, after' 1
    is root-1
    is edge-1
    echo "fairbell-probe: $(systemctl show -P ActiveState fairbell-probe)"
    for unit in fairbell-node@root-1 fairbell-node@edge-1 fairbell-probe; do
        pid=$(systemctl show -P MainPID "$unit")
        echo "$unit has$(awk '/^(CapEff|CapBnd|NoNewPrivs|Seccomp):/ { printf " %s%s", $1, $2 }' "/proc/$pid/status")"
        # What it sees of the machine.
        nsenter -t "$pid" -m -U --preserve-credentials touch /etc/fairbell/written /usr/written 2>/dev/null && echo "$unit writes to /etc"
    done
    # Killed: back within a second or so, and in again.
    systemctl kill --signal=KILL fairbell-node@edge-1
    until_said edge-1 ': in, after' 2
    is edge-1
    # A node that is not in the file: tried once.
    systemctl start fairbell-node@nobody
    sleep 3
    is nobody
    # A data plane with the rights of its drop-in, in the sandbox; root-1 would end without it.
    sed -i 's/^name = "root-1"/&\ndata_plane = ["tc-clone"]/' /etc/fairbell/cluster.toml
    mkdir /etc/systemd/system/fairbell-node@root-1.service.d
    systemctl restart fairbell-node@root-1
    until_said root-1 'data plane tc-clone: ' 1
    echo "without its drop-in: $(said root-1 'data plane tc-clone: ') refusals or more" | sed 's/ [1-9][0-9]* refusals/ 1 refusal/'
    cp /usr/share/fairbell/drop-ins/tc-clone.conf /etc/systemd/system/fairbell-node@root-1.service.d/
    systemctl daemon-reload
    systemctl restart fairbell-node@root-1
    sleep 10
    is root-1
    echo "with tc-clone.conf$(awk '/^(CapEff|NoNewPrivs|Seccomp):/ { printf " %s%s", $1, $2 }' "/proc/$(systemctl show -P MainPID fairbell-node@root-1)/status")"
    # Removing the package stops what runs.
    systemctl enable -q fairbell-node@root-1 fairbell-node@edge-1
    dpkg --remove fairbell >/dev/null 2>&1
    is root-1
    is edge-1
    echo "programs left: $(pgrep -c fairbell)"
} >/result.part 2>&1
mv /result.part /result
