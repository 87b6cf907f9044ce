#!/usr/bin/env bash
# Installs Debian packages and starts none of their services. Other installations are waited for, five minutes at most.
#   scripts/apt-install.sh [OPTION] PACKAGE...     options of apt-get install
set -euo pipefail
if ! command -v apt-get >/dev/null; then
    echo "apt-install: no apt-get here, please install: $*" >&2
    exit 1
fi
as_root=()
((EUID == 0)) || as_root=(sudo -n)
# In that run level invoke-rc.d starts no service.
apt() {
    "${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
}
echo "apt-install: $*" >&2
# The lists have a lock of their own, which apt-get does not wait for.
while ! said=$(apt update 2>&1); do
    if [[ $said != *"Could not get lock"* ]] || ((SECONDS >= 300)); then
        echo "$said" >&2
        exit 1
    fi
    sleep 2
done
apt install -y "$@" >/dev/null
