#!/usr/bin/env bash
# The page's tests: its models under node, then the page in Chromium beside a feed that makes mistakes and on a real
# exchange. Nothing is passed over: what is missing and can't be installed is a failure. Needs node 20 or later, npm,
# Python 3.9 or later, and apt-get where there is no Chromium; what it installs else is under target/web-test.
#   scripts/web-test.sh [PROGRAM]     (else FAIRBELL_BINARY, else it is built)
#   scripts/web-test.sh --prepare     installs what is missing, and tests nothing
# About two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
    command -v "$1" >/dev/null || { echo "web-test: please install $2" >&2; exit 1; }
}
need node "node, 20 or later"
need npm npm
need python3 "Python, 3.9 or later"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' \
    || { echo "web-test: node $(node --version) is too old: 20 or later" >&2; exit 1; }

chromium=${FAIRBELL_CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -z "$chromium" ]; then
    scripts/apt-install.sh chromium
    chromium=$(command -v chromium)
fi

there=target/web-test
mkdir -p "$there"
# A stamp of what was asked for: an installation that was broken off is made again.
if ! cmp -s web/test/requirements.txt "$there/python.stamp"; then
    python3 -m venv "$there/python"
    "$there/python/bin/pip" install --quiet --disable-pip-version-check --requirement web/test/requirements.txt
    cp web/test/requirements.txt "$there/python.stamp"
fi
axe=4.14.1
if [ ! -f "$there/axe-$axe/package/axe.min.js" ]; then
    mkdir -p "$there/axe-$axe"
    npm pack --silent --pack-destination "$there" "axe-core@$axe" >/dev/null
    tar --extract --gzip --file "$there/axe-core-$axe.tgz" --directory "$there/axe-$axe"
fi

if [ "${1:-}" = --prepare ]; then
    exit 0
fi
binary=${1:-${FAIRBELL_BINARY:-}}
if [ -z "$binary" ]; then
    cargo build --locked --quiet --package fairbell
    binary=${CARGO_TARGET_DIR:-target}/debug/fairbell
fi
[ -x "$binary" ] || { echo "web-test: no program $binary" >&2; exit 1; }

start=$SECONDS
node --test web/test/*.test.js

export FAIRBELL_BINARY=$binary FAIRBELL_CHROMIUM=$chromium
export FAIRBELL_AXE=$there/axe-$axe/package/axe.min.js FAIRBELL_PICTURES=${FAIRBELL_PICTURES:-$there/pictures}
"$there/python/bin/python" -m pytest -p no:cacheprovider -rA --tb=short web/test
echo "web-test: $((SECONDS - start)) s; pictures in $FAIRBELL_PICTURES"
