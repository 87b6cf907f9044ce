"""Every dependency's licence, from `cargo metadata`, against a list of those we may ship with."""

import json
import re
import subprocess

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def allowed(expression):
    """Whether an SPDX expression can be met with ALLOWED alone; AND binds tighter than OR."""
    spaced = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    spaced = re.sub(r"(\S+)\s+WITH\s+(\S+)", r"\1_WITH_\2", spaced)
    words = spaced.split()

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word != "(":
            return word.replace("_WITH_", " WITH ") in ALLOWED
        met = either()
        if words.pop(0) != ")":
            raise ValueError(expression)
        return met

    try:
        met = either()
    except (IndexError, ValueError):
        return False
    return met and not words


def main():
    assert allowed("MIT/Apache-2.0") and allowed("(MIT OR GPL-2.0) AND Unicode-3.0")
    assert not allowed("GPL-3.0") and not allowed("MIT AND GPL-2.0") and not allowed("")
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = metadata["packages"]
    bad = [p for p in packages if not allowed(p["license"] or "")]
    for package in bad:
        print(f"licences: {package['name']} {package['version']}: {package['license']}")
    if bad:
        raise SystemExit(f"licences: {len(bad)} of {len(packages)} packages are not allowed")
    print(f"licences: all {len(packages)} packages are allowed")


if __name__ == "__main__":
    main()
