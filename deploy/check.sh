#!/usr/bin/env bash
# Checks everything in deploy/ that can be checked without a cloud. Missing tools are installed, or it fails: nothing is
# left out in silence. Needs root, for a fresh Debian and a container. docs/deploy.md says what each stage shows.
#   deploy/check.sh [--binary PATH] [STAGE...]      stages: see STAGES; without one: all
set -euo pipefail
cd "$(dirname "$0")/.."
STAGES=(scripts systemd package image debian boot wheel ansible helm provision)
binary=${FAIRBELL_BINARY:-}
if [[ ${1:-} == --binary ]]; then
    binary=$2
    shift 2
fi
[[ $# -gt 0 ]] && STAGES=("$@")
work=${FAIRBELL_DEPLOY_DIR:-$PWD/target/deploy}
mkdir -p "$work/bin"
export PATH=$work/venv/bin:$work/bin:$PATH
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Tools write their own folders here, not into the home of whoever runs this.
export ANSIBLE_HOME=$work/ansible-home HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm

fail() {
    echo "deploy/check.sh: $*" >&2
    exit 1
}

# The command $1 of the Debian package $2.
debian() {
    command -v "$1" >/dev/null && return
    DEBIAN_FRONTEND=noninteractive apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
    command -v "$1" >/dev/null || fail "$2 has no command $1"
}

# Packages of PyPI, exact versions, in an environment of their own.
python() {
    [[ -x $work/venv/bin/pip ]] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# The command $1 of the Go module $2.
go_tool() {
    command -v "$1" >/dev/null && return
    command -v go >/dev/null || debian go golang-go
    GOBIN=$work/bin go install "$2"
}

# A command that has to end with something else than 0.
refuses() {
    if "$@" >"$work/refused.log" 2>&1; then
        cat "$work/refused.log" >&2
        fail "not refused: $*"
    fi
}

# shellcheck source=deploy/checks.sh
source deploy/checks.sh

begin=$SECONDS
for stage in "${STAGES[@]}"; do
    start=$SECONDS
    echo "== $stage"
    "check_$stage"
    echo "== $stage: $((SECONDS - start)) s"
done
echo "${#STAGES[@]} passed, 0 failed"
echo "deploy: ${STAGES[*]}: $((SECONDS - begin)) s"
