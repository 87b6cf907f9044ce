#!/usr/bin/env python3
"""Schemas of the provider hashicorp/aws for those resources that a module has, out of the npm package @cdktf/provider-aws, whose
TypeScript declarations are made of them.

    schema.py MODULE PACKAGE OUT      MODULE: a folder of *.tf; PACKAGE: the unpacked npm package; OUT: the file for provider.py
"""

import json
import re
import sys
from pathlib import Path

# A property of an interface, and the name that the provider has for it, which the link of its comment ends with.
PROPERTY = re.compile(r"/\*\*(?P<said>(?:(?!\*/).)*)\*/\s*readonly (?P<name>\w+)(?P<maybe>\??): (?P<type>[^;]+);", re.S)
INTERFACE = re.compile(r"^export interface (\w+)[^{]*\{(.*?)^\}", re.S | re.M)
RESULT = re.compile(r"^    get (\w+)\(\): ([^;]+);", re.M)
SIMPLE = {"string": "string", "number": "number", "boolean": "bool", "string[]": ["list", "string"], "number[]": ["list", "number"]}


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def kind(declared, interfaces):
    """A type of the provider's for one of TypeScript."""
    plain = re.sub(r"\s*\|\s*cdktf\.IResolvable", "", declared).strip()
    if plain in SIMPLE:
        return SIMPLE[plain]
    if plain == "cdktf.IResolvable":
        return "bool"
    of = re.fullmatch(r"\{\[key: string\]: \(?(string|number|boolean)\)?\}", plain)
    if of or plain == "cdktf.StringMap":
        return ["map", SIMPLE[of[1]] if of else "string"]
    # Rules of a security group are an attribute that is written in blocks: a set of objects.
    if plain.endswith("[]") and plain[:-2] in interfaces:
        inner = block(interfaces, plain[:-2])
        return ["set", ["object", {name: is_["type"] for name, is_ in inner["attributes"].items()}]]
    # Results whose parts nobody names here.
    return ["list", ["map", "string"]]


def block(interfaces, name):
    """What may stand in a block that an interface declares."""
    attributes, blocks = {}, {}
    for found in PROPERTY.finditer(interfaces[name]):
        said, declared = found["said"], found["type"]
        link = re.search(r"#(\w+) \w+#(\w+)\}", said)
        its = link[2] if link else snake(found["name"])
        required = not found["maybe"]
        inner = re.match(r"(\w+)(\[\])?", declared)
        if re.search(rf"^\s*\*?\s*{its} block", said, re.M) and inner[1] in interfaces:
            blocks[its] = {"block": block(interfaces, inner[1]), "required": required, "one": not inner[2]}
        else:
            attributes[its] = {"type": kind(declared, interfaces), "required": required, "optional": True}
    return {"attributes": attributes, "blocks": blocks}


def resource(folder):
    """A resource's or data source's arguments and results."""
    source = (folder / "index.d.ts").read_text(encoding="utf-8")
    # Where a declaration is large its structures lie in a file of their own.
    for more in sorted(folder.glob("index-structs/**/*.d.ts")):
        source += more.read_text(encoding="utf-8")
    # A map's type has a semicolon of its own.
    source = re.sub(r"\{\s*\[key: string\]: ([^;{}]+);\s*\}", r"{[key: string]: \1}", source)
    interfaces = dict(INTERFACE.findall(source))
    top = re.search(r"^export interface (\w+Config) extends cdktf\.TerraformMetaArguments", source, re.M)
    out = block(interfaces, top[1])
    body = source[re.search(r"^export declare class \w+ extends cdktf\.Terraform(?:Resource|DataSource)", source, re.M).start():]
    for name, declared in RESULT.findall(body):
        its = snake(name)
        if not its.endswith("_input") and its not in out["attributes"] and its not in out["blocks"]:
            out["attributes"][its] = {"type": kind(declared, {}), "required": False, "optional": False}
    out["attributes"].setdefault("id", {"type": "string", "required": False, "optional": True})
    return out


def main():
    module, package, out = map(Path, sys.argv[1:])
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(module.glob("*.tf")))
    known = {"resources": {}, "data": {}}
    for word, of in sorted(set(re.findall(r'^(resource|data) "aws_(\w+)"', text, re.M))):
        prefix = "data-aws-" if word == "data" else ""
        folder = package / "lib" / (prefix + of.replace("_", "-"))
        known["data" if word == "data" else "resources"][f"aws_{of}"] = resource(folder)
    out.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    version = re.search(r"hashicorp/aws/([0-9.]+)/", (package / "lib" / "vpc" / "index.d.ts").read_text(encoding="utf-8"))[1]
    count = sum(len(of["attributes"]) for kinds in known.values() for of in kinds.values())
    print(f"schema: {len(known['resources'])} resources, {len(known['data'])} data sources, {count} arguments and results of hashicorp/aws {version}")


main()
