"""What documents show, run as it stands: the quickstart of the main README, and the notebook."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(os.environ["FAIRBELL_ROOT"])
NOTEBOOK = Path(__file__).parent.parent / "examples" / "market.ipynb"


def test_the_quickstart_of_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```\n\n(?:[^`]*?)```\n(.*?)```", text, re.DOTALL)
    assert found is not None, "README.md: a block of Python, and one of what it prints"
    program, due = found[1], found[2]
    assert len([line for line in program.splitlines() if line.strip()]) == 10
    (tmp_path / "quickstart.py").write_text(program)
    said = subprocess.run(
        [sys.executable, "quickstart.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    first, fill = said.stdout.splitlines()
    assert f"{first}\n" == due
    assert "symbol='GENA', side=<Side.BUY: 'buy'>, qty=Decimal('2'), price=Decimal('101.25" in fill


def test_the_notebook_runs_and_draws() -> None:
    """Its pictures are left in FAIRBELL_PICTURES, if that is set."""
    book = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "it is kept without outputs"
    done = nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    pictures = [base64.b64decode(of.data["image/png"]) for of in outputs if "image/png" in of.get("data", {})]
    assert len(pictures) == 3
    assert all(of.startswith(b"\x89PNG") and len(of) > 8_000 for of in pictures)
    if folder := os.environ.get("FAIRBELL_PICTURES"):
        for place, picture in enumerate(pictures):
            (Path(folder) / f"notebook-{place}.png").write_bytes(picture)
    said = "".join(output.get("text", "") for output in outputs)
    trades = re.search(r"(\d+) trades", said)
    assert trades is not None
    assert int(trades[1]) > 5


def test_a_notebooks_failure_is_not_passed_over() -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("raise SystemError('on purpose')")])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="on purpose"):
        nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
