"""The examples as a user runs them."""

from __future__ import annotations

import asyncio
import csv
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import IO

import pyarrow.parquet
import pytest

from fairbell import errors
from fairbell.testing import LocalExchange

EXAMPLES = Path(__file__).parent.parent / "examples"


def command(exchange: LocalExchange, account: int, name: str, *line: str) -> subprocess.Popen[str]:
    key = exchange.keys[account]
    keys = {"FAIRBELL_URL": exchange.url, "FAIRBELL_KEY": key.name, "FAIRBELL_SECRET": key.secret}
    return subprocess.Popen(
        [sys.executable, os.fspath(EXAMPLES / name), *line],
        env={**os.environ, **keys},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


class Said:
    """Lines that a process prints, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.lines: list[str] = []
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, out: IO[str]) -> None:
        with out:
            self.lines.extend(out)

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        """Waits up to a minute."""
        until = time.monotonic() + 60
        while not condition(self.lines):
            assert time.monotonic() < until, self.lines
            time.sleep(0.05)


def test_the_quickstart_runs(fairbell_shared_exchange: LocalExchange) -> None:
    said = ended(command(fairbell_shared_exchange, 1, "quickstart.py"))
    assert "OPEN" in said
    assert "CANCELLED" in said


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_maker_and_recorder_work(fairbell_exchange: LocalExchange, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"market.{kind}"
    exchange = fairbell_exchange
    recorder = command(exchange, 3, "recorder.py", "GENA", "--out", os.fspath(file))
    maker = command(exchange, 0, "market_maker.py", "GENA", "--size", "5")
    for process, due in ((recorder, "recording GENA\n"), (maker, "quoting GENA\n")):
        assert process.stdout is not None
        assert process.stdout.readline() == due
    said = Said(maker)
    dealt = 0
    rng = random.Random(30)

    async def take() -> None:
        nonlocal dealt
        async with exchange.client(1) as client:
            for _ in range(1000):
                book = await client.book("GENA")
                if len(book.bids()) and len(book.asks()):
                    try:
                        await client.new_order("GENA", rng.choice(["buy", "sell"]), rng.randint(1, 5))
                        dealt += 1
                    except errors.OrderRejected:
                        continue
                if dealt == 10:
                    break
                await asyncio.sleep(0.05)

    asyncio.run(take())
    assert dealt == 10, said.lines
    with exchange.sync_client(0) as client:
        fills = client.fills()
        assert fills, "its quotes were dealt at"
        said.wait_for(lambda lines: sum(" at " in line for line in lines) >= len(fills))
        # For what is on its way to the recorder, who says nothing of trades.
        time.sleep(3)
        maker.send_signal(signal.SIGINT)
        assert maker.wait(60) == 0, said.lines
        recorder.send_signal(signal.SIGINT)
        recorded = ended(recorder)
        assert client.open_orders() == [], "its quotes went with it"
        position = client.positions()["GENA"].position
    total = f"{len(fills)} fills, position {position}\n"
    said.wait_for(lambda lines: lines[-1:] == [total])
    assert "0 gaps" in recorded
    if kind == "csv":
        with file.open(newline="") as of:
            rows = list(csv.DictReader(of))
    else:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    traded = {
        (int(row["seq"]), Decimal(row["price"]), Decimal(row["qty"]))
        for row in rows
        if row["kind"] == "trade"
    }
    assert traded == {(int(fill.trade_id), fill.price, fill.qty) for fill in fills}
    assert any(row["kind"] == "level" for row in rows)
