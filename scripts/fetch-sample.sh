#!/usr/bin/env bash
# Fetches the real order-flow sample into .cache/, once. Without it generated flow runs alone, so
# a failure is a notice and not an error.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.cache/ob-analytics-0.1.0
files="orders.csv.gz trades.csv"

complete() { for file in $files; do [ -s "$folder/$file" ] || return 1; done; }
complete && exit 0

mkdir -p .cache
scratch=.cache/fetch.$$
mkdir "$scratch"
trap 'rm -rf "$scratch"' EXIT

echo "sample: fetching ob-analytics 0.1.0 through pip"
if ! timeout 180 python3 -m pip download --quiet --disable-pip-version-check --no-input \
    --no-deps --only-binary :all: --require-hashes --retries 2 --timeout 20 \
    --requirement scripts/sample.txt --dest "$scratch" >"$scratch/log" 2>&1; then
    reason=$(grep -m 1 ERROR "$scratch/log" || true)
    echo "sample: NOTICE: it could not be fetched (${reason:-no answer in time})"
    echo "sample: NOTICE: generated flow runs alone; figures about the venue's trades are left out"
    exit 0
fi

python3 - "$scratch" $files <<'PY'
import pathlib, sys, zipfile

scratch, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
(wheel,) = scratch.glob("*.whl")
unpacked = scratch / "unpacked"
unpacked.mkdir()
with zipfile.ZipFile(wheel) as archive:
    for name in names:
        (unpacked / name).write_bytes(archive.read(f"ob_analytics/_sample_data/{name}"))
PY

# Moved as a whole: a fetch that was interrupted never leaves half a sample behind.
rm -rf "$folder"
mv "$scratch/unpacked" "$folder"
echo "sample: $folder is ready"
