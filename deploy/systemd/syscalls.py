#!/usr/bin/env python3
"""Whether a unit's SystemCallFilter lets through what the program was seen to call.

    syscalls.py UNIT[,DROP-IN...] SUMMARY...

A SUMMARY is what `strace -f -c -o SUMMARY PROGRAM` writes. Prints calls that the filter refuses; ends
with 1 if there is one, or if the summaries name fewer than ten calls, for then nothing was looked at.
"""

import subprocess
import sys

# Calls that only happen before the program's own first instruction, or to other architectures.
BEFORE = {"syscall", "total"}


def members(name, seen):
    """The calls of a set of systemd's, sets within it included."""
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", name],
        check=True, capture_output=True, text=True,
    ).stdout
    found = set()
    for line in shown.splitlines()[1:]:
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if not word.startswith("@"):
            found.add(word)
        elif word not in seen:
            found |= members(word, seen | {word})
    return found


def allowed(paths):
    """What the lines of the unit and its drop-ins leave, in the order of the lines."""
    left = set()
    for path in paths:
        with open(path, encoding="utf-8") as unit:
            lines = [line.strip() for line in unit]
        for line in lines:
            if not line.startswith("SystemCallFilter="):
                continue
            words = line.removeprefix("SystemCallFilter=").split()
            taken = words and words[0].startswith("~")
            words = [word.removeprefix("~") for word in words]
            for word in words:
                calls = members(word, {word}) if word.startswith("@") else {word}
                left = left - calls if taken else left | calls
    return left


def called(path):
    """The calls of a summary: the last word of each line of figures."""
    with open(path, encoding="utf-8") as summary:
        rows = [line.split() for line in summary]
    return {row[-1] for row in rows if len(row) >= 5 and row[0][0].isdigit()} - BEFORE


def main():
    units, summaries = sys.argv[1].split(","), sys.argv[2:]
    seen = set().union(*(called(path) for path in summaries))
    refused = sorted(seen - allowed(units))
    print(f"{len(seen)} calls seen, {len(refused)} refused by {units[0]}: {' '.join(refused)}")
    sys.exit(bool(refused) or len(seen) < 10)


main()
