#!/usr/bin/env python3
"""Schemas of Kubernetes for kubeconform, out of the package kubernetes-validate, which has those of all versions.

    schemas.py FOLDER VERSION...

Writes FOLDER/vVERSION/KIND.json, strict, each with all definitions that it refers to: kubeconform reads no second file.
"""

import json
import sys
from pathlib import Path

import kubernetes_validate

KINDS = ["service-v1", "statefulset-apps-v1", "poddisruptionbudget-policy-v1", "networkpolicy-networking-v1", "serviceaccount-v1",
         "role-rbac-v1", "rolebinding-rbac-v1"]


def main():
    out, versions = Path(sys.argv[1]), sys.argv[2:]
    for version in versions:
        source = Path(kubernetes_validate.__path__[0]) / "kubernetes-json-schema" / f"v{version}-local-strict"
        definitions = json.loads((source / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
        folder = out / f"v{version}"
        folder.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            schema = json.loads((source / f"{kind}.json").read_text(encoding="utf-8")) | {"$defs": definitions}
            schema.pop("$id", None)
            text = json.dumps(schema).replace("/api/_definitions.json#", "#")
            (folder / f"{kind}.json").write_text(text, encoding="utf-8")


main()
