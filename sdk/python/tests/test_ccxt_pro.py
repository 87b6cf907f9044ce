"""The ``watch*`` methods: ccxt's own tests of them, run unmodified, and what they say against REST."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal
from typing import Any

import ccxt
import ccxt.pro
import pytest
from ccxt.pro.test.Exchange.test_watch_my_trades import test_watch_my_trades as check_watch_my_trades
from ccxt.pro.test.Exchange.test_watch_order_book import test_watch_order_book as check_watch_order_book
from ccxt.pro.test.Exchange.test_watch_orders import test_watch_orders as check_watch_orders
from ccxt.pro.test.Exchange.test_watch_ticker import test_watch_ticker as check_watch_ticker
from ccxt.pro.test.Exchange.test_watch_trades import test_watch_trades as check_watch_trades
from test_ccxt import UNTOLD, settings_of
from test_units import ORDER

from fairbell import ccxt_adapter
from fairbell.testing import LocalExchange

ccxt_adapter.register()


async def churn(exchange: LocalExchange, account: int, stop: asyncio.Event, seed: int) -> None:
    """Orders on both sides, and trades, from a seed."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    async with exchange.client(account) as one, exchange.client(account + 1) as other:
        while not stop.is_set():
            price = 100 + Decimal(rng.randrange(-40, 40)) / 100
            await one.new_order("GENA", "buy", rng.randrange(1, 30), price - 1)
            await one.new_order("GENA", "sell", rng.randrange(1, 30), price + 1)
            await other.new_order("GENA", rng.choice(("buy", "sell")), rng.randrange(1, 5))
            if rng.random() < 0.1:
                await one.cancel_all("GENA")
            await asyncio.sleep(0.01)


def faster(exchange: Any, times: int) -> None:
    """Lets an exchange's clock run faster from now on: ccxt's tests watch for 15 s by it."""
    since = ccxt.Exchange.milliseconds()
    exchange.milliseconds = lambda: since + (ccxt.Exchange.milliseconds() - since) * times


def test_it_passes_the_watch_tests_of_ccxt(fairbell_exchange: LocalExchange) -> None:
    async def run() -> None:
        exchange = ccxt.pro.fairbell(settings_of(fairbell_exchange, 0))
        mine = ccxt.pro.fairbell(settings_of(fairbell_exchange, 1))
        stop = asyncio.Event()
        churning = asyncio.ensure_future(churn(fairbell_exchange, 1, stop, 7))
        try:
            await asyncio.gather(exchange.load_markets(), mine.load_markets())
            for one in (exchange, mine):
                faster(one, 5)
            # The clock is in the future: trades may be older than it says.
            skipped = {**UNTOLD, "timestamp": "the clock runs faster"}
            await asyncio.gather(
                check_watch_order_book(exchange, skipped, "GENA/USD"),
                check_watch_ticker(exchange, skipped, "GENA/USD"),
                check_watch_trades(exchange, skipped, "GENA/USD"),
                check_watch_orders(mine, skipped, "GENA/USD"),
                check_watch_my_trades(mine, skipped, "GENA/USD"),
            )
        finally:
            stop.set()
            await churning
            await exchange.close()
            await mine.close()

    asyncio.run(run())


def test_a_watched_book_is_the_one_of_rest_through_gaps_and_lost_connections(
    fairbell_exchange: LocalExchange,
) -> None:
    async def run() -> None:
        exchange = ccxt.pro.fairbell(settings_of(fairbell_exchange, 0))
        taken, losing = exchange.handle_message, False

        def lossy(client: Any, message: Any) -> None:
            nonlocal losing
            if losing and message.get("type") == "update":
                losing = False
            else:
                taken(client, message)

        exchange.handle_message = lossy
        stop = asyncio.Event()
        churning = asyncio.ensure_future(churn(fairbell_exchange, 1, stop, 3))
        equal = lost = 0
        said: list[str] = []
        exchange.log = said.append
        try:
            for step in range(400):
                try:
                    book = await asyncio.wait_for(exchange.watch_order_book("GENA/USD"), 20)
                except ccxt.NetworkError:
                    lost += 1
                    continue
                # A message that never comes: the next one does not follow.
                losing = losing or step % 80 == 40
                if step % 80 == 70:
                    (client,) = exchange.clients.values()
                    client.connection._conn.transport.abort()
                if step % 10 == 5:
                    told = await exchange.fetch_order_book("GENA/USD", 500)
                    shown = exchange.orderbooks["GENA/USD"]
                    if shown["nonce"] == told["nonce"]:
                        equal += 1
                        assert [list(of) for of in shown["bids"]] == told["bids"]
                        assert [list(of) for of in shown["asks"]] == told["asks"]
            assert equal >= 3, "compared at the same number of the feed"
            assert lost >= 3
            assert sum("is fetched again" in of for of in said) >= 3
            short = await exchange.watch_order_book("GENA/USD", 2)
            assert max(len(short["bids"]), len(short["asks"])) <= 2 < len(book["bids"]) + len(book["asks"])
        finally:
            stop.set()
            await churning
            await exchange.close()

    asyncio.run(run())


def test_orders_and_trades_of_the_account_are_watched(fairbell_exchange: LocalExchange) -> None:
    async def run() -> None:
        maker, taker = (ccxt.pro.fairbell(settings_of(fairbell_exchange, of)) for of in (0, 1))
        try:
            watching = asyncio.ensure_future(maker.watch_orders("BTC/USD"))
            filling = asyncio.ensure_future(maker.watch_my_trades())
            await asyncio.sleep(0.5)
            entered = await maker.create_order("BTC/USD", "limit", "sell", 0.5, 78000)
            (seen,) = await asyncio.wait_for(watching, 10)
            assert (seen["id"], seen["status"], seen["remaining"]) == (entered["id"], "open", 0.5)
            changing = asyncio.ensure_future(maker.watch_orders())
            await asyncio.sleep(0)
            await taker.create_order("BTC/USD", "market", "buy", 0.125)
            (fill,) = await asyncio.wait_for(filling, 10)
            assert (fill["order"], fill["amount"], fill["cost"]) == (entered["id"], 0.125, 9750)
            (changed,) = await asyncio.wait_for(changing, 10)
            assert (changed["filled"], changed["status"]) == (0.125, "open")
        finally:
            await maker.close()
            await taker.close()

    asyncio.run(run())


def test_open_orders_of_a_second_message_are_watched() -> None:
    async def run() -> None:
        exchange = ccxt.pro.fairbell({"apiKey": "k", "secret": "s", "url": "http://127.0.0.1:1"})
        market = {"id": "AAA", "symbol": "AAA/USD", "base": "AAA", "quote": "USD", "spot": True}
        exchange.set_markets([market])
        client = exchange.client("ws://127.0.0.1:1")
        try:
            for kind, name in (("snapshot", "a"), ("more", "b")):
                told = [{**ORDER, "client_order_id": name}]
                message = {"channel": "orders", "type": kind, "seq": 1, "orders": told}
                exchange.handle_message(client, message)
            assert [order["id"] for order in exchange.orders] == ["a", "b"]
        finally:
            await exchange.close()

    asyncio.run(run())


def test_a_wrong_secret_is_told_to_whoever_watches(fairbell_shared_exchange: LocalExchange) -> None:
    async def run() -> None:
        wrong = ccxt.pro.fairbell({**settings_of(fairbell_shared_exchange, 0), "secret": "x" * 16})
        try:
            for _ in range(2):
                with pytest.raises(ccxt.AuthenticationError):
                    await asyncio.wait_for(wrong.watch_orders(), 10)
            # Public channels are another connection.
            async with fairbell_shared_exchange.client(2) as client:
                await client.new_order("GENA", "buy", 1, "5")
                while (await asyncio.wait_for(wrong.watch_ticker("GENA/USD"), 10))["bid"] != 5:
                    pass
                await client.cancel_all()
        finally:
            await wrong.close()

    asyncio.run(run())
