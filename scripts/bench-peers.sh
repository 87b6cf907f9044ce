#!/usr/bin/env bash
# Order books of crates.io and Maven Central, and QuickFIX/J's codec, beside ours: builds bench-peers (a workspace of its own,
# outside the product's dependency tree) and prints the ratios of one run. The Java peers need a JDK
# (17 or later) and Maven and are left out without them. Options go to the program, like
# --workload w1 --runs 9.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../bench-peers"
cargo build --locked --release --quiet

java=()
if command -v mvn >/dev/null && command -v java >/dev/null; then
    mvn --quiet --batch-mode --file java/pom.xml compile \
        dependency:build-classpath -Dmdep.outputFile=target/classpath.txt
    java=(--java "java/target/classes:$(cat java/target/classpath.txt)")
else
    echo "exchange-core and QuickFIX/J are left out: they need java and mvn" >&2
fi
exec "${CARGO_TARGET_DIR:-target}/release/bench-peers" "${java[@]}" "$@"
