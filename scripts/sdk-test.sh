#!/usr/bin/env bash
# The Python SDK as a user gets it: a fresh environment with pinned versions, the package installed into it, then
# ruff, mypy --strict and all tests, those against a real exchange included. Nothing is skipped: what is missing fails.
# Usage: scripts/sdk-test.sh [BINARY] [pytest options], or scripts/sdk-test.sh --prepare, which makes the environment
# alone; BINARY is a `fairbell` that knows `up --web`, by default
# target/debug/fairbell. PYTHON names the Python to use (3.10 or newer; default python3).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

work=$PWD/target/sdk-venv
pins=sdk/python/requirements-test.txt
mkdir -p "$work"
# Made anew when the pins or the Python change.
want=$(cat "$pins" scripts/sdk-test.sh | sha256sum; "${PYTHON:-python3}" --version)
if [[ "$(cat "$work/made-of" 2>/dev/null)" != "$want" ]]; then
    rm -rf "$work/venv"
    "${PYTHON:-python3}" -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$pins"
    echo "$want" >"$work/made-of"
fi
bin=$work/venv/bin
if [[ "${1:-}" == --prepare ]]; then
    exit 0
fi

binary=${1:-target/debug/fairbell}
shift || true
if [[ ! -x "$binary" ]]; then
    echo "sdk-test: no program $binary: cargo build --locked --package fairbell, or name one" >&2
    exit 1
fi
binary=$(realpath "$binary")
help=$("$binary" up --help)
if [[ "$help" != *--web* ]]; then
    echo "sdk-test: $binary does not know \`up --web\`: build it with the feature web" >&2
    exit 1
fi
start=$SECONDS

# Of copies, so that nothing is written into the tree; building leaves things behind, so it has one of its own.
rm -rf "$work/package" "$work/python"
cp -r sdk/python "$work/package"
cp -r sdk/python "$work/python"
"$bin/pip" uninstall --quiet --yes fairbell 2>/dev/null || true
"$bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$work/package"
"$bin/python" - <<'PYTHON'
example = open("sdk/python/examples/quickstart.py").read().split('"""', 2)[2].strip()
assert example in open("docs/sdk.md").read(), "the quickstart of docs/sdk.md is not examples/quickstart.py"
PYTHON
cd "$work/python"
installed=$("$bin/python" -c 'import fairbell; print(fairbell.__file__)')
if [[ "$installed" != "$work/venv/"* ]]; then
    echo "sdk-test: tests would import $installed, not what was installed" >&2
    exit 1
fi

"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy"
FAIRBELL_BIN=$binary FAIRBELL_ROOT=$root "$bin/python" -m pytest --import-mode=append -p no:cacheprovider "$@"
echo "sdk-test: $((SECONDS - start)) s"
