"""The local exchange for tests: scenarios, states that are taken up again, many at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fairbell import Level, OrderRejected, Side
from fairbell.testing import ExchangeFailed, LocalExchange

SCENARIO = """
seed = {seed}
[[order]]
at = "0"
id = "a"
symbol = "GENA"
side = "sell"
qty = "9"
price = "101"
[[replace]]
at = "300ms"
id = "a"
by = "b"
qty = "7"
price = "100.5"
[[order]]
at = "600ms"
id = "c"
account = 2
symbol = "GENA"
side = "buy"
qty = "2"
[[flow]]
at = "100ms"
for = "1s"
symbol = "BTCUSD"
rate = 200
price = "78000"
[[fault]]
at = "1200ms"
kind = "halt"
of = "GENA"
[[fault]]
at = "3s"
kind = "resume"
of = "GENA"
"""


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What a condition gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)
    return value


def played(seed: int) -> list[tuple[Decimal, Decimal, Side | None]]:
    """Plays the scenario, checks what is told of it by hand, and gives its trades in BTCUSD."""
    print(f"seed {seed}")
    exchange = LocalExchange(scenario=SCENARIO.format(seed=seed), participants=2)
    with exchange, exchange.sync_client(0) as client:
        trade = until(lambda: client.trades("GENA"))[0]
        assert (trade.price, trade.qty, trade.aggressor) == (Decimal("100.5"), 2, Side.BUY)
        until(lambda: client.status("GENA").value == "halted")
        assert client.book("GENA").asks() == [Level(Decimal("100.5"), Decimal(5))]
        with pytest.raises(OrderRejected):
            client.new_order("GENA", "buy", 1, "1")
        until(lambda: client.status("GENA").value == "trading")
        client.new_order("GENA", "buy", 1, "1")
        return [(of.price, of.qty, of.aggressor) for of in client.trades("BTCUSD", 1_000)]


def test_a_scenario_plays_the_same_each_time() -> None:
    first = played(7)
    assert len(first) > 3
    assert first == played(7)
    assert first != played(8), "another seed is another flow"


def test_a_scenario_that_can_not_be_is_named() -> None:
    wrong = SCENARIO.format(seed=1).replace('symbol = "GENA"', 'symbol = "NONE"', 1)
    with pytest.raises(ExchangeFailed, match="no instrument"):
        LocalExchange(scenario=wrong, participants=2).start()
    with pytest.raises(ExchangeFailed, match="account: 1 to 1"):
        LocalExchange(scenario=SCENARIO.format(seed=1)).start()


def test_a_state_is_taken_up_by_several_at_once(tmp_path: Path) -> None:
    first = LocalExchange(durable=True).start()
    with first.sync_client(0) as one, first.sync_client(1) as other:
        one.new_order("GENA", "sell", 9, "101", client_order_id="rests")
        other.new_order("GENA", "buy", 4, "101")
        until(lambda: other.positions().get("GENA"))
    first.stop(save=tmp_path / "state")
    exchanges = [LocalExchange(state=tmp_path / "state") for _ in range(3)]
    try:
        for exchange in exchanges:
            exchange.start()
        assert len({exchange.url for exchange in exchanges}) == 3
        for place, exchange in enumerate(exchanges):
            with exchange.sync_client(0) as one, exchange.sync_client(1) as other:
                order = one.order("rests")
                assert (order.state.value, int(order.filled), int(order.open)) == ("open", 4, 5)
                assert other.positions()["GENA"].position == 4
                # Each goes its own way from there.
                other.new_order("GENA", "buy", 1 + place, "101")
                until(lambda: one.order("rests").filled == 5 + place)  # noqa: B023
    finally:
        for exchange in exchanges:
            exchange.stop()
    with pytest.raises(ValueError, match="durable"):
        LocalExchange().stop(save=tmp_path / "other")
    with pytest.raises(ExchangeFailed, match="nothing"):
        LocalExchange(state=tmp_path / "nothing").start()


def test_a_folder_that_exists_is_refused_while_the_exchange_runs(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with LocalExchange(durable=True) as exchange:
        for name in ("there", "link"):
            with pytest.raises(ValueError, match=name):
                exchange.stop(save=tmp_path / name)
        assert exchange.running
        with exchange.sync_client() as client:
            assert client.open_orders() == []
        exchange.stop(save=tmp_path / "state")
    assert list((tmp_path / "state").iterdir())


def test_a_state_that_could_not_be_saved_is_kept_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    exchange = LocalExchange(durable=True).start()
    with exchange.sync_client() as client:
        client.new_order("GENA", "sell", 9, "101", client_order_id="rests")
    folder = exchange.folder
    assert folder is not None
    try:
        with pytest.raises(ExchangeFailed, match="could not be saved") as caught:
            exchange.stop(save=tmp_path / "file" / "state")
        assert str(folder / "journal") in str(caught.value)
        assert not exchange.running
        with LocalExchange(state=folder / "journal") as again, again.sync_client() as client:
            assert client.order("rests").open == 9
    finally:
        shutil.rmtree(folder)


PROGRAM = """
import os, signal, sys, threading
from fairbell.testing import LocalExchange
made = []
# In a thread that ends: the exchange is the program's, not the thread's.
thread = threading.Thread(target=lambda: made.append(LocalExchange().start()))
thread.start()
thread.join()
print(made[0]._process.pid, made[0].folder, flush=True)
sys.stdin.readline()
assert made[0].running
how = sys.argv[1]
if how == "ended":
    # It has ended by itself, and its number may be another program's.
    os.kill(made[0]._process.pid, signal.SIGKILL)
    while made[0].running:
        pass
    print("ended", flush=True)
    sys.stdin.readline()
if how == "stopped":
    # It hears nothing of a polite signal.
    os.kill(made[0]._process.pid, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "ended", "stopped"])
def test_an_exchange_ends_with_its_program(how: str) -> None:
    command = [sys.executable, "-c", PROGRAM, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        pid, folder = program.stdout.readline().split()
        assert alive(int(pid))
        program.stdin.write("\n")
        program.stdin.flush()
        if how == "ended":
            assert program.stdout.readline() == "ended\n"
            assert Path(folder).exists()
            program.stdin.write("\n")
            program.stdin.flush()
    until(lambda: not alive(int(pid)) and not Path(folder).exists(), 40)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and that nobody has waited for is none.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
