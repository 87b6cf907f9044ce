#!/usr/bin/env bash
# Checks for the tools that building and checking need, and installs those that are missing.
set -euo pipefail

apt_install() {
    "$(dirname "$0")/apt-install.sh" "$@"
}

command -v cc >/dev/null || apt_install gcc libc6-dev
if ! command -v cargo >/dev/null; then
    if ! command -v rustup >/dev/null; then apt_install rustup; fi
    rustup toolchain install stable --profile minimal --component clippy,rustfmt
    rustup default stable
fi
for component in clippy rustfmt; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
done
if ! python3 -c 'import ensurepip, pip, venv' >/dev/null 2>&1; then
    apt_install python3 python3-pip python3-venv
fi
if [ "${FAIRBELL_PEERS:-}" = required ] && ! { command -v java && command -v mvn; } >/dev/null; then
    apt_install default-jdk-headless maven
fi
if [ "${FAIRBELL_PEERS:-}" = required ] && ! [ -x /usr/sbin/chronyd ]; then
    apt_install chrony
fi
# Go 1.19, which Debian 12 has, is new enough for quickfixgo.
if [ "${FAIRBELL_PEERS:-}" = required ] && ! command -v go >/dev/null &&
    ! [ -x /usr/local/go/bin/go ]; then
    apt_install golang-go
fi
