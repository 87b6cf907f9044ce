#!/bin/sh
# The same orders, bit for bit, from a strategy that trades in a running exchange and from the same module in a backtest:
# runs an exchange with the module in it, has clients trade there, and tells the module once more what it heard.
#   scripts/strategy-live.sh FAIRBELL FAIRBELL_LAB MODULE [TIME] [RATE] [SETTINGS]
# FAIRBELL and FAIRBELL_LAB are the two programs. Ends with 0 only if all requests are the same.
set -eu
fairbell=$(realpath "$1") lab=$(realpath "$2") module=$(realpath "$3")
time=${4:-300s} rate=${5:-4000} settings=${6:-lots=100000 offset=100 most=1000000}
folder=$(mktemp -d)
exchange=
trap '[ -z "$exchange" ] || kill "$exchange"; rm -rf "$folder"' EXIT
cd "$folder"
cp "$module" strategy.wasm
account() {
    printf '[[account]]\nname = "%s"\nusername = "%s"\npassword = "secret"\n' "$1" "$1"
}
"$fairbell" strategy key guest.key >key.txt
{
    # Nobody plays but the clients and the module.
    printf 'doors.plain = true\n[day]\nauctions = false\n[overlay]\nreceivers = 2\n'
    printf '[flow]\nparticipants = 1\nrate = 1\ngenerated_rate = 0\n'
    for name in IDLE L1 L2 L3 L4 L5 L6 L7 L8 GUEST; do account "$name"; done
    "$fairbell" strategy sign strategy.wasm --account GUEST --key guest.key
    printf 'settings = "%s"\nrecord = "strategy.heard"\n' "$settings"
} >venue.toml
"$fairbell" strategy check --config venue.toml
"$fairbell" up --config venue.toml --port-base 0 --out out >up.txt 2>&1 &
exchange=$!
until door=$(sed -n 's/^OUCH 5.0 over SoupBinTCP: \([^ ]*\).*/\1/p' up.txt) && [ -n "$door" ]; do
    kill -0 "$exchange" || { cat up.txt; exit 1; }
    sleep 0.2
done
"$fairbell" load --protocol ouch --address "$door" --login 'L{n}:secret' --clients 8 --rate "$rate" --duration "$time" \
    --symbol GENA --price 100 || true
kill -INT "$exchange"
wait "$exchange" || true
exchange=
sed -n -e 's/^Notice: strategy/strategy/p' -e '/^PASS/p' -e '/^FAIL/p' up.txt
"$lab" backtest out/strategy.heard --strategy-wasm strategy.wasm --strategy-settings "$settings"
