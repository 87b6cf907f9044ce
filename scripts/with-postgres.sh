#!/usr/bin/env bash
# Runs a command with a PostgreSQL server of its own: in a temporary folder, on a free port of loopback, gone
# with the command. Its address is in FAIRBELL_POSTGRES. Installs Debian's server where there is none.
#   scripts/with-postgres.sh cargo test -p store
set -euo pipefail

if [ $# = 0 ]; then
    echo "usage: scripts/with-postgres.sh COMMAND..." >&2
    exit 2
fi
if [ -n "${FAIRBELL_POSTGRES:-}" ]; then
    exec "$@"
fi

# The newest version's programs; Debian has them off the path.
programs() {
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$found" ] && command -v initdb >/dev/null; then found=$(dirname "$(command -v initdb)"); fi
    echo "$found"
}

bin=$(programs)
if [ -z "$bin" ]; then
    "$(dirname "$0")/apt-install.sh" postgresql
    bin=$(programs)
fi

# The server refuses to run as root.
user=$(id -un)
as_user=()
if [ "$(id -u)" = 0 ]; then
    user=postgres
    if ! id "$user" >/dev/null 2>&1; then user=nobody; fi
    as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi

dir=$(mktemp -d)
chmod 711 "$dir"
mkdir "$dir/data"
if [ "$(id -u)" = 0 ]; then chown "$user" "$dir/data"; fi
stop() {
    "${as_user[@]}" "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap stop EXIT
cd / # somewhere that the server's user may be in
"${as_user[@]}" "$bin/initdb" -D "$dir/data" -U fairbell -A trust -E UTF8 --locale C -N >/dev/null

# A port that is free now may be taken a moment later: another one is tried.
for _ in 1 2 3 4 5; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    options="-c listen_addresses=127.0.0.1 -p $port -c unix_socket_directories= -c fsync=off -c max_connections=100"
    if "${as_user[@]}" "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/log" -o "$options" -w start >/dev/null; then
        export FAIRBELL_POSTGRES="postgres://fairbell@127.0.0.1:$port/postgres"
        cd "$OLDPWD"
        "$@" &
        command=$!
        # Whoever ends this ends the command first.
        trap 'kill "$command" 2>/dev/null; wait "$command"; exit 143' INT TERM
        wait "$command"
        exit
    fi
done
cat "$dir/data/log" >&2
exit 1
