"""The ccxt adapter: ccxt's own checks of what an exchange returns, and a strategy that knows ccxt only."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import ccxt
import ccxt.async_support
import pytest
from ccxt.test.exchange.base.test_balance import test_balance as check_balance
from ccxt.test.exchange.base.test_market import test_market as check_market
from ccxt.test.exchange.base.test_order import test_order as check_order
from ccxt.test.exchange.base.test_order_book import test_order_book as check_order_book
from ccxt.test.exchange.base.test_ticker import test_ticker as check_ticker
from ccxt.test.exchange.base.test_trade import test_trade as check_trade

from fairbell import ccxt_adapter
from fairbell.testing import LocalExchange

# What the door does not tell: when an order was entered, what the account paid.
UNTOLD = {
    "timestamp": "not told",
    "datetime": "not told",
    "fee": "there are none",
    "fees": "there are none",
    "created": "not told",
    "currencyIdAndCode": "currencies are not listed",
}


def settings_of(exchange: LocalExchange, account: int) -> dict[str, Any]:
    key = exchange.keys[account]
    return {"apiKey": key.name, "secret": key.secret, "url": exchange.url}


def until(condition: Any) -> Any:
    """What a condition gives as soon as it is true; the public hears a little later than the account."""
    for _ in range(500):
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("not within 10 s")


def test_it_passes_the_checks_of_ccxt(fairbell_exchange: LocalExchange) -> None:
    exchange = fairbell_exchange
    maker = ccxt_adapter.fairbell(settings_of(exchange, 0))
    taker = ccxt_adapter.fairbell({**settings_of(exchange, 1), "options": {"startingCash": "10000.5"}})
    markets = maker.load_markets()
    assert set(markets) == {"BTC/USD", "GENA/USD"}
    for market in markets.values():
        check_market(maker, UNTOLD, "fetchMarkets", market)
    now = maker.milliseconds()
    resting = maker.create_order("BTC/USD", "limit", "sell", 0.5, 78000, {"clientOrderId": "c-1"})
    assert (resting["id"], resting["status"], resting["remaining"]) == ("c-1", "open", 0.5)
    check_order(maker, UNTOLD, "createOrder", resting, "BTC/USD", now)
    taken = taker.create_order("BTC/USD", "market", "buy", 0.125)
    taken = until(lambda: (of := taker.fetch_order(taken["id"]))["status"] == "closed" and of)
    assert taken["filled"] == 0.125
    check_order(taker, UNTOLD, "fetchOrder", taken, "BTC/USD", now)
    moved = maker.edit_order("c-1", "BTC/USD", "limit", "sell", 0.75, 78001)
    assert (moved["price"], moved["filled"], moved["remaining"]) == (78001, 0.125, 0.625)
    (listed,) = maker.fetch_open_orders("BTC/USD")
    assert listed["id"] == moved["id"]
    check_order(maker, UNTOLD, "fetchOpenOrders", listed, "BTC/USD", now)
    until(lambda: maker.fetch_order_book("BTC/USD")["asks"] == [[78001, 0.625]])
    check_order_book(maker, {}, "fetchOrderBook", maker.fetch_order_book("BTC/USD", 5), "BTC/USD")
    ticker = maker.fetch_ticker("BTC/USD")
    assert (ticker["last"], ticker["ask"]) == (78000, 78001)
    check_ticker(maker, UNTOLD, "fetchTicker", ticker, "BTC/USD")
    (trade,) = maker.fetch_trades("BTC/USD")
    assert (trade["side"], trade["amount"]) == ("buy", 0.125)
    assert abs(trade["timestamp"] - now) < 60_000
    check_trade(maker, UNTOLD, "fetchTrades", trade, "BTC/USD", now + 60_000, True)
    (own,) = taker.fetch_my_trades("BTC/USD")
    assert (own["order"], own["cost"]) == (taken["id"], 9750)
    check_trade(taker, UNTOLD, "fetchMyTrades", own, "BTC/USD", now + 60_000, False)
    balance = taker.fetch_balance()
    assert (balance["BTC"]["total"], balance["USD"]["total"]) == (0.125, 250.5)
    check_balance(maker, UNTOLD, "fetchBalance", balance)
    with pytest.raises(ccxt.InvalidOrder):
        maker.edit_order(moved["id"], "BTC/USD", "market", "sell", 1, 78000)
    assert maker.cancel_order(moved["id"])["status"] == "canceled"
    # At a better price than its limit, which is told of its trades alone.
    maker.create_order("BTC/USD", "limit", "sell", 0.125, 78000)
    better = taker.create_order("BTC/USD", "limit", "buy", 0.125, 79000)
    better = until(lambda: (of := taker.fetch_order(better["id"]))["status"] == "closed" and of)
    assert (better["filled"], better["cost"], better["average"]) == (0.125, None, None)
    maker.create_order("GENA/USD", "limit", "buy", 3, 1.25)
    maker.cancel_all_orders()
    assert maker.fetch_open_orders() == []
    assert maker.fetch_status()["status"] == "ok"
    assert abs(maker.fetch_time() - now) < 60_000
    # ccxt's other names.
    assert maker.fetchOrderBook("GENA/USD")["bids"] == []
    assert maker.publicGetTime()["time_ms"]


def test_refusals_are_the_errors_of_ccxt(fairbell_shared_exchange: LocalExchange) -> None:
    exchange = ccxt_adapter.fairbell(settings_of(fairbell_shared_exchange, 0))
    order = exchange.create_order("GENA/USD", "limit", "buy", 3, 1.25, {"clientOrderId": "ccxt-1"})
    again = exchange.create_order("GENA/USD", "limit", "buy", 3, 1.25, {"clientOrderId": "ccxt-1"})
    assert again["info"]["order_id"] == order["info"]["order_id"]
    with pytest.raises(ccxt.DuplicateOrderId):
        exchange.create_order("GENA/USD", "limit", "buy", 4, 1.25, {"clientOrderId": "ccxt-1"})
    exchange.cancel_order("ccxt-1")
    with pytest.raises(ccxt.OrderNotFound):
        exchange.edit_order("ccxt-1", "GENA/USD", "limit", "buy", 4, 1.25)
    with pytest.raises(ccxt.OrderNotFound):
        exchange.cancel_order("never")
    with pytest.raises(ccxt.BadSymbol):
        exchange.fetch_ticker("NO/SUCH")
    with pytest.raises(ccxt.InvalidOrder):
        exchange.create_order("GENA/USD", "stop", "buy", 4, 1.25)
    with pytest.raises(ccxt.ArgumentsRequired):
        exchange.create_order("GENA/USD", "limit", "buy", 4)
    with pytest.raises(ccxt.InvalidOrder):
        exchange.create_order("GENA/USD", "limit", "sell", 4, 1.25, {"timeInForce": "FOK", "postOnly": True})
    wrong = ccxt_adapter.fairbell({**settings_of(fairbell_shared_exchange, 0), "secret": "x" * 16})
    with pytest.raises(ccxt.AuthenticationError):
        wrong.fetch_open_orders()


def test_a_strategy_that_knows_only_ccxt_trades(fairbell_exchange: LocalExchange) -> None:
    """It finds the exchange by its id, asks what it can do, and follows one moving average with another."""
    ccxt_adapter.register()

    async def seller(exchange: Any) -> None:
        for step in range(12):
            price = 100 + (step % 6) * 0.25
            await exchange.create_order("GENA/USD", "limit", "sell", 5, price)
            await exchange.create_order("GENA/USD", "limit", "buy", 5, price - 0.5)
            await exchange.cancel_all_orders("GENA/USD") if step % 3 == 2 else None

    async def strategy(exchange: Any) -> int:
        await exchange.load_markets()
        assert exchange.has["createMarketOrder"]
        assert exchange.has["fetchOrderBook"]
        deals, mids = 0, []
        for _ in range(40):
            book = await exchange.fetch_order_book("GENA/USD", 5)
            if book["bids"] and book["asks"]:
                mids.append((book["bids"][0][0] + book["asks"][0][0]) / 2)
                side = "buy" if mids[-1] >= sum(mids[-5:]) / len(mids[-5:]) else "sell"
                await exchange.create_order("GENA/USD", "market", side, 1)
                deals += 1
            await asyncio.sleep(0.02)
        return deals

    async def run() -> None:
        kind = getattr(ccxt.async_support, "fairbell")  # noqa: B009
        one, two = (kind(settings_of(fairbell_exchange, account)) for account in (0, 1))
        try:
            await one.load_markets()
            _, deals = await asyncio.gather(seller(one), strategy(two))
            assert deals > 0
            trades = await two.fetch_my_trades("GENA/USD")
            assert trades
            bought = sum(of["amount"] * (1 if of["side"] == "buy" else -1) for of in trades)
            balance = await two.fetch_balance()
            assert balance["GENA"]["total"] == bought
        finally:
            await one.close()
            await two.close()

    asyncio.run(run())
    assert "fairbell" in ccxt.exchanges
