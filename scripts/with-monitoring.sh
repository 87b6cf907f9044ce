#!/usr/bin/env bash
# Runs a command where tests find a Redis server and Prometheus: Debian's, installed where they are missing,
# without starting their services. The programs are in FAIRBELL_REDIS_SERVER, FAIRBELL_PROMETHEUS and
# FAIRBELL_PROMTOOL; tests start what they need, on free ports of loopback.
#   scripts/with-monitoring.sh cargo test -p fairbell --test telemetry
set -euo pipefail

if [ $# = 0 ]; then
    echo "usage: scripts/with-monitoring.sh COMMAND..." >&2
    exit 2
fi

missing=()
for pair in redis-server:redis-server prometheus:prometheus promtool:prometheus; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if [ ${#missing[@]} != 0 ]; then
    "$(dirname "$0")/apt-install.sh" --no-install-recommends "${missing[@]}"
fi

FAIRBELL_REDIS_SERVER=$(command -v redis-server)
FAIRBELL_PROMETHEUS=$(command -v prometheus)
FAIRBELL_PROMTOOL=$(command -v promtool)
export FAIRBELL_REDIS_SERVER FAIRBELL_PROMETHEUS FAIRBELL_PROMTOOL
exec "$@"
