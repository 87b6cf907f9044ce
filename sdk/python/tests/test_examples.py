"""The examples as a user runs them."""

from __future__ import annotations

import asyncio
import csv
import os
import random
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

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
    # For what is on its way to both.
    time.sleep(1)
    maker.send_signal(signal.SIGINT)
    said = ended(maker)
    recorder.send_signal(signal.SIGINT)
    recorded = ended(recorder)
    assert dealt == 10, said
    assert "fills, position" in said
    assert not said.endswith("\n0 fills, position 0\n"), said
    with exchange.sync_client(0) as client:
        assert client.open_orders() == [], "its quotes went with it"
        fills = client.fills()
        position = client.positions()["GENA"].position
    assert f"{len(fills)} fills, position {position}" in said
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
