#!/usr/bin/env bash
# The planner beside scipy's FAQ: ratios of one run, and gaps on QAPLIB instances when their folder
# is in FAIRBELL_QAPLIB_DIR. PYTHON names an interpreter that has numpy and scipy. Options go to the
# program, like --clouds 20.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-python3}"
options=()
if "$python" -c "import numpy, scipy" 2>/dev/null; then
    options+=(--peer "$python scripts/faq_peer.py")
else
    echo "scipy is left out: $python does not have it (PYTHON names another interpreter)" >&2
fi
qaplib="${FAIRBELL_QAPLIB_DIR:-../shared/data/qaplib}"
if [[ -d "$qaplib" ]]; then
    options+=(--qaplib "$qaplib")
else
    echo "QAPLIB is left out: no folder $qaplib" >&2
fi
exec cargo run --locked --release --package fairbell-lab -- bench plan "${options[@]}" "$@"
