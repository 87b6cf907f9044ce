#!/usr/bin/env python3
"""Parses HCL files, and compares the variables of a module with those that are written for it.

    parse.py TOFU PACKER TFVARS     folders of *.tf and *.pkr.hcl; the variables that `fairbell cluster provision` writes

Each reference has to lead to something, and each variable to be given. Whether resources have these arguments is judged by the stage `module`.
"""

import json
import re
import sys
from pathlib import Path

import hcl2


def plain(text):
    """Names as they are: some versions of the parser keep the quotes."""
    return text.strip('"')


def main():
    tofu, packer, given = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    variables, known, text = {}, set(), ""
    for path in sorted(tofu.glob("*.tf")):
        source = path.read_text(encoding="utf-8")
        text += re.sub(r"#.*", "", source)
        parsed = hcl2.loads(source)
        for block in parsed.get("variable", []):
            variables |= {plain(name): body for name, body in block.items() if not name.startswith("__")}
        for kind in ("resource", "data"):
            for block in parsed.get(kind, []):
                for of, bodies in block.items():
                    prefix = "data." if kind == "data" else ""
                    known |= {f"{prefix}{plain(of)}.{plain(name)}" for name in bodies if not name.startswith("__")}
    used = set(re.findall(r"\bvar\.(\w+)", text))
    assert used == set(variables), f"used {sorted(used)}, declared {sorted(variables)}"
    wanted = {name for name, body in variables.items() if "default" not in body} - {"image"}
    assert wanted <= set(given) <= set(variables), f"given {sorted(given)}, wanted {sorted(wanted)}"
    references = set(re.findall(r"\b((?:data\.)?aws_\w+\.\w+)", text))
    lost = sorted(of for of in references if of not in known)
    assert not lost, f"lead nowhere: {lost}"
    images = [hcl2.loads(path.read_text(encoding="utf-8")) for path in sorted(packer.glob("*.pkr.hcl"))]
    assert images and all("build" in image for image in images), "no image is built"
    print(f"HCL: {len(known)} resources and {len(variables)} variables, {len(references)} references lead to them; {len(images)} image")


main()
