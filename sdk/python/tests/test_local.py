"""The local exchange for tests: scenarios, states that are taken up again, many at once."""

from __future__ import annotations

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
