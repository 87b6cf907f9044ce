"""hftbacktest's files: read by hftbacktest itself, whose book then is the exchange's."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest
from hftbacktest.data import validate_event_order
from hftbacktest.types import event_dtype

from fairbell import BookChanged, Level, ProtocolError, Side, Trade, TradeEvent, hftbacktest
from fairbell.testing import LocalExchange
from fairbell.times import DAY_NS

EXCH, LOCAL = hftbacktest.EXCH, hftbacktest.LOCAL


def test_the_form_of_an_event_is_hftbacktests() -> None:
    assert event_dtype == hftbacktest.EVENT_DTYPE


async def until(condition: Callable[[], Any]) -> None:
    """Waits for it, half a minute at most."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.02)


def traded(data: Any) -> int:
    """Trades that were heard."""
    heard = data["ev"] & LOCAL == LOCAL
    return int((heard & (data["ev"] & 0xFF == hftbacktest.TRADE)).sum())


def test_a_recording_replays_the_market(fairbell_exchange: LocalExchange, tmp_path: Path) -> None:
    """What was traded and how the book stood, played by hftbacktest to a strategy that does nothing."""
    file = tmp_path / "gena.npz"
    seed = 19
    print(f"seed {seed}")

    async def run() -> tuple[Any, Any]:
        rng = random.Random(seed)
        async with fairbell_exchange.client(0) as one, fairbell_exchange.client(1) as other:
            await one.new_order("GENA", "buy", 3, "99.5")
            made = hftbacktest.Recording("GENA")
            recording = asyncio.ensure_future(hftbacktest.record(one, "GENA", recording=made))
            await until(lambda: made.snapshots > 0)
            for _ in range(60):
                price = Decimal(rng.randrange(9_900, 10_100)) / 100
                await one.new_order("GENA", rng.choice(("buy", "sell")), rng.randrange(1, 9), price)
                await other.new_order("GENA", rng.choice(("buy", "sell")), 2, price, time_in_force="ioc")
            # The last order of all, below all others: when its level is heard, all before it was.
            await one.new_order("GENA", "buy", 1, "90")
            # Not sooner: a participant has its own executions before everybody has the trades.
            await until(lambda: (made.array()["px"] == 90).any())
            trades = await one.trades("GENA", 1_000)
            await until(lambda: traded(made.array()) == len(trades))
            recording.cancel()
            (await recording).save(file)
            return await one.book("GENA"), trades

    book, trades = asyncio.run(run())
    data = np.load(file)["data"]
    validate_event_order(data)
    here = data[data["ev"] & LOCAL == LOCAL]
    assert (here["local_ts"] >= here["exch_ts"]).all()
    assert np.median(here["local_ts"] - here["exch_ts"]) < 5_000_000_000, "both are of the same day"
    sold = here[here["ev"] & 0xFF == hftbacktest.TRADE]
    assert sorted(sold["qty"]) == sorted(float(of.qty) for of in trades)
    asset = (
        BacktestAsset()
        .data([str(file)])
        .linear_asset(1.0)
        .constant_order_latency(1_000_000, 1_000_000)
        .risk_adverse_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
        .tick_size(0.01)
        .lot_size(1.0)
        .last_trades_capacity(10_000)
    )
    backtest = HashMapMarketDepthBacktest([asset])
    while backtest.elapse(50_000_000) == 0:
        pass
    depth = backtest.depth(0)
    assert depth.best_bid == pytest.approx(float(book.best_bid.price))
    assert depth.best_ask == pytest.approx(float(book.best_ask.price))
    for price, qty in book.bids(20):
        assert depth.bid_qty_at_tick(round(price * 100)) == float(qty)
    for price, qty in book.asks(20):
        assert depth.ask_qty_at_tick(round(price * 100)) == float(qty)
    assert len(backtest.last_trades(0)) == len(trades)
    backtest.close()


def test_events_out_of_order_are_put_where_they_belong() -> None:
    """Times from a seed, some of them late: hftbacktest's own check takes the order, and nothing is lost."""
    seed = 41
    print(f"seed {seed}")
    rng, midnight = random.Random(seed), time.time_ns() // DAY_NS * DAY_NS
    recording = hftbacktest.Recording("XYZ")
    local = midnight + 3_600_000_000_000
    recording.add(BookChanged("XYZ", 1, True, (Level(Decimal(9), Decimal(1)),), (), 3_599_999_000_000), local)
    for number in range(2, 400):
        local += rng.randrange(0, 1_000_000)
        exch = (local - midnight) - rng.choice((-300_000, 10_000, 50_000, 3_000_000))
        level = Level(Decimal(rng.randrange(1, 50)), Decimal(number))
        if rng.random() < 0.3:
            trade = Trade(
                str(number), level.price, level.qty, rng.choice((Side.BUY, Side.SELL, None)), exch, False
            )
            recording.snapshots = 2
            recording.add(TradeEvent("XYZ", trade, False), local)
        else:
            recording.add(BookChanged("XYZ", number, False, (level,), (), exch), local)
    for base in (0, 250):
        data = recording.array(base)
        validate_event_order(data)
        for place in (EXCH, LOCAL):
            assert ((data["ev"] & place) == place).sum() == len(recording)
        both = data[data["ev"] & (EXCH | LOCAL) == EXCH | LOCAL]
        assert len(both) < len(recording), "some were late"
        assert (data["local_ts"] - data["exch_ts"]).min() >= base
    with pytest.raises(ProtocolError):
        recording.add(BookChanged("XYZ", 999, False, (), ()), local)
    # Control: hftbacktest's check finds what is out of order.
    wrong = recording.array()
    wrong["local_ts"][[5, 200]] = wrong["local_ts"][[200, 5]]
    with pytest.raises(ValueError, match="order"):
        validate_event_order(wrong)
