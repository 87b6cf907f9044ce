#!/usr/bin/env python3
"""Compares the arguments and blocks of a module's resources with the provider's schema: whether each is one that there is, and whether
none that is needed is missing. Values are judged by nobody here.

    arguments.py MODULE SCHEMA     MODULE: a folder of *.tf; SCHEMA: what schema.py has written
"""

import json
import sys
from pathlib import Path

import hcl2

# What OpenTofu itself takes in a resource.
OWN = {"for_each", "count", "depends_on", "provider", "lifecycle", "provisioner", "connection"}


def plain(text):
    """Names as they are: some versions of the parser keep the quotes."""
    return text.strip('"')


def bodies(value):
    """The bodies of a block that is written once or several times."""
    return [body for body in (value if isinstance(value, list) else [value]) if isinstance(body, dict)]


def judge(body, schema, where):
    """Complaints about a body, and how many names were compared."""
    complaints, seen, count = [], set(), 0

    def inner(name, body):
        nonlocal count
        if name in schema["blocks"]:
            more, compared = judge(body, schema["blocks"][name]["block"], f"{where}.{name}")
            complaints.extend(more)
            count += compared
        elif isinstance(schema["attributes"].get(name, {}).get("type"), list):
            # An attribute that is written in blocks: a set of objects.
            names = schema["attributes"][name]["type"][1][1]
            complaints.extend(f"{where}.{name}: no argument {of}" for of in map(plain, body) if not of.startswith("__") and of not in names)

    for name, value in body.items():
        name = plain(name)
        if name.startswith("__") or (name in OWN and "." not in where.split("/")[-1]):
            continue
        written = [(name, value)]
        if name == "dynamic":
            written = [(plain(of), one["content"]) for each in bodies(value) for of, one in each.items() if not of.startswith("__")]
        for name, value in written:
            count += 1
            seen.add(name)
            if name not in schema["attributes"] and name not in schema["blocks"]:
                complaints.append(f"{where}: no argument {name}")
                continue
            if name in schema["blocks"] or "object" in json.dumps(schema["attributes"][name]["type"]):
                for one in bodies(value):
                    inner(name, one)
    needed = {name for kind in ("attributes", "blocks") for name, of in schema[kind].items() if of["required"]}
    complaints.extend(f"{where}: {name} is missing" for name in sorted(needed - seen))
    return complaints, count


def main():
    module, known = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    complaints, resources, count = [], 0, 0
    for path in sorted(module.glob("*.tf")):
        parsed = hcl2.loads(path.read_text(encoding="utf-8"))
        for word, kind in (("resource", "resources"), ("data", "data")):
            for block in parsed.get(word, []):
                for of, named in block.items():
                    for name, body in named.items():
                        if name.startswith("__"):
                            continue
                        more, compared = judge(body, known[kind][plain(of)], f"{path.name}/{plain(of)} {plain(name)}")
                        complaints, resources, count = complaints + more, resources + 1, count + compared
    print("\n".join(complaints) or f"arguments: {count} of {resources} resources and data sources, all known to the provider")
    sys.exit(bool(complaints) or count == 0)


main()
