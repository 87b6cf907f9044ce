#!/usr/bin/env bash
# Gateway to engine over our transport, Redis lists and ZeroMQ: installs what is missing of
# redis-server and libzmq (Debian packages), builds fairbell-lab with the feature `transports`, starts a
# Redis server of its own on a free port, measures, and ends it. Options go to
# `fairbell-lab bench transports`, like --slices 9 --json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
{ command -v redis-server && command -v redis-cli; } >/dev/null || missing+=(redis-server)
pkg-config --exists libzmq 2>/dev/null || missing+=(libzmq3-dev pkg-config)
if ((${#missing[@]})); then
    scripts/apt-install.sh "${missing[@]}"
fi

cargo build --locked --release --quiet --package fairbell-lab --features transports

folder=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# Nothing is written to disk: Redis as fast as it goes.
redis-server --bind 127.0.0.1 --port "$port" --save "" --appendonly no --dir "$folder" \
    --daemonize no >"$folder/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
up=no
for _ in $(seq 100); do
    redis-cli -p "$port" ping >/dev/null 2>&1 && up=yes && break
    sleep 0.05
done
if [[ $up = no ]]; then
    echo "redis-server did not start:" >&2
    cat "$folder/log" >&2
    exit 1
fi
"${CARGO_TARGET_DIR:-target}/release/fairbell-lab" bench transports --redis "127.0.0.1:$port" "$@"
