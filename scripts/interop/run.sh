#!/usr/bin/env bash
# The doors with other people's libraries, in one run of the exchange:
# - the released feed, captured, through the ITCH 5.0 parser of PyPI's itchfeed, and a snapshot of the
#   books in the middle of it that joins the feed;
# - the same feed, live, through Maven Central's Nassau (MoldUDP64, with packets lost on purpose) and
#   Juncture (ITCH 5.0), while its participant trades by OUCH over Nassau's SoupBinTCP.
# Before that the samples of examples/python are run against a small exchange of their own.
# The second half needs a JDK (17 or later) and Maven; without them it is left out and says so, and
# fails where FAIRBELL_PEERS=required.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.cache/interop-venv
pins=scripts/interop/requirements.txt
if ! cmp -s "$pins" "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes \
        --no-deps --only-binary :all: --requirement "$pins"
    cp "$pins" "$venv/installed.txt"
fi
"$venv/bin/python" scripts/interop/check.py --self-test
"$venv/bin/python" scripts/interop/snapshot.py --self-test
"$venv/bin/python" scripts/interop/quotes.py --self-test

java_too=yes
if ! command -v mvn >/dev/null || ! command -v java >/dev/null; then
    echo "left out: Nassau and Juncture need java and mvn"
    [[ "${FAIRBELL_PEERS:-}" != required ]]
    java_too=
else
    built=$PWD/.cache/interop-nassau
    mkdir -p "$built"
    mvn --quiet --batch-mode --file scripts/interop/nassau/pom.xml compile \
        dependency:build-classpath -Dmdep.outputFile="$built/classpath.txt"
fi

out=.cache/interop
base=31400
mkdir -p "$out"
rm -f "$out/feed.pcap" "$out/feed.pcap.bbo.json" "$out/snapshot.bin" "$out/quotes.csv"
# The tests' own binary, when they have just built it.
fairbell=${FAIRBELL_BINARY:-}
if [ -z "$fairbell" ]; then
    cargo build --locked --quiet --package fairbell
    fairbell=${CARGO_TARGET_DIR:-target}/debug/fairbell
fi
python3 scripts/interop/samples.py "$fairbell" .cache/interop-samples
"$venv/bin/python" scripts/interop/snapshot.py fetch 127.0.0.1:"$((base + 299))" 5 \
    "$out/snapshot.bin" &
client=$!
if [ "$java_too" ]; then
    timeout 120 java -cp "$built/classes:$(cat "$built/classpath.txt")" Market "$base" \
        "$out/quotes.csv" &
    market=$!
fi
# Nassau can neither pad its requests nor show a token: the exchange knows its address.
sed 's/^known = "none" /known = "127.0.0.1" /' fairbell.toml >"$out/known.toml"
"$fairbell" up --config "$out/known.toml" --once --duration 10s --port-base "$base" --quiet \
    --capture "$out/feed.pcap" --out "$out" >"$out/report.txt" || {
    tail -n 5 "$out/report.txt"
    exit 1
}
wait "$client"
"$venv/bin/python" scripts/interop/check.py "$out/feed.pcap"
"$venv/bin/python" scripts/interop/snapshot.py join "$out/snapshot.bin" "$out/feed.pcap"
if [ "$java_too" ]; then
    wait "$market"
    "$venv/bin/python" scripts/interop/quotes.py "$out/feed.pcap.bbo.json" "$out/quotes.csv"
fi
