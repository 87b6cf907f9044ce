#!/usr/bin/env bash
# The FIX samples of examples/fix, quickfixgo and QuickFIX/J, trade against a running exchange; see
# scripts/interop/kit.py. Needs Go (1.19 or later), and a JDK (17 or later) with Maven; what is
# missing is left out and says so, and fails where FAIRBELL_PEERS=required. Half a minute.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=.cache/interop-kit
rm -rf "$out"
mkdir -p "$out"
samples=()
left_out() {
    echo "left out: $1"
    [[ "${FAIRBELL_PEERS:-}" != required ]]
}

if go=$(command -v go || command -v /usr/local/go/bin/go); then
    (cd examples/fix/go && "$go" build -o "$OLDPWD/$out/sample" .)
    stock=$(cd examples/fix/go && "$go" list -m -f '{{.Dir}}/spec' github.com/quickfixgo/quickfix)
    samples+=(--go "$out/sample" "$stock")
else
    left_out "quickfixgo needs go"
fi
if command -v mvn >/dev/null && command -v java >/dev/null; then
    built=$PWD/.cache/interop-kit-java
    mvn --quiet --batch-mode --file examples/fix/java/pom.xml -Dbuilt="$built" compile \
        dependency:build-classpath -Dmdep.outputFile="$built/classpath.txt"
    samples+=(--java "$built/classes:$(cat "$built/classpath.txt")")
else
    left_out "the QuickFIX/J sample needs java and mvn"
fi
[ "${#samples[@]}" -gt 0 ] || exit 0

fairbell=${FAIRBELL_BINARY:-}
if [ -z "$fairbell" ]; then
    cargo build --locked --quiet --package fairbell
    fairbell=${CARGO_TARGET_DIR:-target}/debug/fairbell
fi
python3 scripts/interop/kit.py "$fairbell" "$out" "${samples[@]}"
