#!/usr/bin/env python3
"""The chart by Helm's own library, which the package helm-python-sdk carries: nothing has to be built for it.

    chart.py lint CHART              ends with 1 when `helm lint --strict` would
    chart.py template CHART VALUES   prints what `helm template venue --namespace lab` makes of the values in the file VALUES
"""

import json
import sys
from pathlib import Path

import yaml
from helm_python import Chart
from helm_python.chart import lint
from helm_python.errors import HelmError

# Severities of findings.
WARNING = 2


def template(folder, values):
    """All objects as YAML, values judged by the chart's schema; ValueError with what Helm says of them."""
    try:
        with Chart.load(folder) as chart:
            chart.validate_schema(values)
            made = chart.render(values, name="venue", namespace="lab")
    except HelmError as error:
        raise ValueError(str(error)) from error
    return "".join(f"---\n{text}\n" for path, text in sorted(made.items()) if path.endswith(".yaml"))


def main():
    if sys.argv[1] == "lint":
        told = lint(sys.argv[2], {}, strict=True)
        wrong = [f"{of['path']}: {of['error']}" for of in told["messages"] if of["severity"] >= WARNING] + told["errors"]
        print("\n".join(wrong) or "helm lint --strict: nothing to say")
        sys.exit(bool(wrong) or told["total_charts_linted"] != 1)
    text = Path(sys.argv[3]).read_text(encoding="utf-8")
    values = json.loads(text) if sys.argv[3].endswith(".json") else yaml.safe_load(text)
    print(template(sys.argv[2], values), end="")


if __name__ == "__main__":
    main()
