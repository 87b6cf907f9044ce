#!/usr/bin/env bash
# Runs a root folder's own systemd as first process of namespaces of its own, until the service fairbell-check.service there
# has ended, and prints what that wrote to /result. FOLDER.pid has the number of that first process.
#   boot.sh FOLDER SECONDS [NETWORK]      NETWORK: the file of a network namespace [default: a new one, of loopback alone]
# Clock, kernel settings and devices of this machine are out of its reach: it has neither the capabilities nor the files.
set -euo pipefail
root=$(realpath "$1") seconds=$2 network=${3:-}
enter=(unshare --net)
[[ -z $network ]] || enter=(nsenter "--net=$network")
group=$(findmnt -n -o TARGET -t cgroup2 | head -1)/fairbell-boot-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true' EXIT

# In the namespaces: a root folder with /proc, /sys and /dev of its own; the old one goes.
inner() {
    mount --bind "$1" "$1"
    cd "$1"
    mkdir -p proc sys run dev
    mount -t proc proc proc
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    local node
    for node in null zero full random urandom tty; do
        touch "dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    ip link set lo up
    mkdir -p before
    pivot_root . before
    exec env -i container=fairbell-check PATH=/usr/sbin:/usr/bin chroot . /bin/sh -c 'umount -l /before
        exec setpriv --bounding-set=-sys_time,-sys_module,-sys_boot,-sys_rawio,-syslog /lib/systemd/systemd \
            --unit=fairbell-check.target --log-target=console --show-status=no' </dev/null
}
export -f inner

rm -f "$root/result"
# shellcheck disable=SC2016 # words of the inner shell
timeout --signal=KILL "$seconds" bash -c 'echo $$ >"$1/cgroup.procs"
    exec "${@:3}" unshare --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
        bash -euc "inner \"\$1\"" inner "$2"' outer "$group" "$root" "${enter[@]}" >"$root/console" 2>&1 &
first=$!
# What namespaces are made for runs in a child.
while kill -0 "$first" 2>/dev/null; do
    outer=$(pgrep -P "$first") && pgrep -P "$outer" >"$root.pid" && break
    sleep 0.1
done
for ((n = 0; n < seconds; n++)); do
    [[ ! -e $root/result ]] || break
    kill -0 "$first" 2>/dev/null || break
    sleep 1
done
kill -KILL "$(pgrep -P "$first")" 2>/dev/null || true
wait "$first" 2>/dev/null || true
# The kernel takes some time to end all that was in it.
sleep 1
if [[ ! -e $root/result ]]; then
    tail -40 "$root/console" >&2
    echo "boot.sh: no result after $seconds s" >&2
    exit 1
fi
cat "$root/result"
