#!/usr/bin/env bash
# Checks everything in deploy/ that can be checked without a cloud. Missing tools are installed, or it fails: nothing is
# left out in silence. Needs root, for a fresh Debian and a container. docs/deploy.md says what each stage shows.
#   deploy/check.sh [--binary PATH] [STAGE...]      stages: see STAGES; without one: all
#   deploy/check.sh [--binary PATH] short           those that need no release build and no fresh Debian: part of .ci/run
set -euo pipefail
cd "$(dirname "$0")/.."
SHORT=(scripts rules helm provision)
STAGES=(scripts rules systemd build guests package image debian boot fleet wheel ansible helm provision module packer)
binary=${FAIRBELL_BINARY:-}
if [[ ${1:-} == --binary ]]; then
    binary=$2
    shift 2
fi
[[ $# -gt 0 ]] && STAGES=("$@")
[[ ${STAGES[*]} != short ]] || STAGES=("${SHORT[@]}")
work=${FAIRBELL_DEPLOY_DIR:-$PWD/target/deploy}
mkdir -p "$work/bin"
export PATH=$work/venv/bin:$work/bin:$PATH
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Tools write their own folders here, not into the home of whoever runs this.
export ANSIBLE_HOME=$work/ansible-home

fail() {
    echo "deploy/check.sh: $*" >&2
    exit 1
}

# The command $1 of the Debian package $2.
debian() {
    command -v "$1" >/dev/null && return
    scripts/apt-install.sh --no-install-recommends "$2"
    command -v "$1" >/dev/null || fail "$2 has no command $1"
}

# Packages of PyPI in an environment of their own; asked for once more only when what is asked for has changed.
python() {
    python_in venv "$@"
}

# The same in the environment $1, for what can not be in one with others.
python_in() {
    local at=$work/$1 asked
    shift
    asked=$(printf '%s\n' "$@" | sort)
    if [[ ! -x $at/bin/pip ]]; then
        python3 -m venv "$at"
        # The shell remembers where it has found python3 before.
        hash -r
    fi
    ! grep -qxF "$(tr '\n' ' ' <<<"$asked")" "$at/asked" 2>/dev/null || return 0
    "$at/bin/pip" install --quiet --disable-pip-version-check "$@"
    tr '\n' ' ' <<<"$asked" >>"$at/asked"
    echo >>"$at/asked"
}

# The command $1, which is folder $3 of the Go module $2: built in a copy of the module, because `go install` refuses modules that
# replace others.
go_tool() {
    command -v "$1" >/dev/null && return
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || fail "$1 needs Go, of a later version than Debian 12 has"
    debian jq jq
    local folder=$work/source-of-$1
    rm -rf "$folder"
    cp -r --no-preserve=mode "$(go mod download -json "$2" | jq -r .Dir)" "$folder"
    (cd "$folder" && go build -trimpath -o "$work/bin/$1" "./$3")
    rm -rf "$folder"
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
# shellcheck source=deploy/clouds.sh
source deploy/clouds.sh
# shellcheck source=deploy/fleet.sh
source deploy/fleet.sh

begin=$SECONDS
for stage in "${STAGES[@]}"; do
    start=$SECONDS
    echo "== $stage"
    "check_$stage"
    echo "== $stage: $((SECONDS - start)) s"
done
echo "${#STAGES[@]} passed, 0 failed"
echo "deploy: ${STAGES[*]}: $((SECONDS - begin)) s"
