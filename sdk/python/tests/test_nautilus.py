"""The NautilusTrader adapter: its own testers and example strategies, unmodified, on a local exchange."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from nautilus_trader.config import (
    InstrumentProviderConfig,
    LiveExecEngineConfig,
    LoggingConfig,
    TradingNodeConfig,
)
from nautilus_trader.core.uuid import UUID4
from nautilus_trader.examples.strategies.ema_cross import EMACross, EMACrossConfig
from nautilus_trader.examples.strategies.orderbook_imbalance import (
    OrderBookImbalance,
    OrderBookImbalanceConfig,
)
from nautilus_trader.execution.messages import (
    GenerateFillReports,
    GenerateOrderStatusReports,
    GeneratePositionStatusReports,
)
from nautilus_trader.live.node import TradingNode
from nautilus_trader.model.data import BarType, QuoteTick, TradeTick
from nautilus_trader.model.enums import OrderSide, OrderStatus, TimeInForce
from nautilus_trader.model.identifiers import ClientOrderId, InstrumentId, TraderId
from nautilus_trader.model.objects import Price, Quantity
from nautilus_trader.test_kit.strategies.tester_data import DataTester, DataTesterConfig
from nautilus_trader.test_kit.strategies.tester_exec import ExecTester, ExecTesterConfig
from nautilus_trader.trading.strategy import Strategy

from fairbell import nautilus
from fairbell.nautilus.ids import base_of, leg_id, split
from fairbell.testing import LocalExchange

BTC, GENA = (InstrumentId.from_str(f"{symbol}.FAIRBELL") for symbol in ("BTCUSD", "GENA"))


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What a condition gives as soon as it is true."""
    for _ in range(int(seconds * 50)):
        if value := condition():
            return value
        await asyncio.sleep(0.02)
    raise AssertionError("not in time")


@asynccontextmanager
async def trading(
    exchange: LocalExchange,
    *strategies: Any,
    actors: tuple[Any, ...] = (),
    trader: str = "TESTER-001",
    account: int = 0,
) -> AsyncIterator[TradingNode]:
    """A node of NautilusTrader that trades on the exchange with these strategies; it stops at the end."""
    key = exchange.keys[account]
    door = {
        "url": exchange.url,
        "api_key": key.name,
        "api_secret": key.secret,
        "instrument_provider": InstrumentProviderConfig(load_all=True),
    }
    config = TradingNodeConfig(
        trader_id=TraderId(trader),
        logging=LoggingConfig(log_level="WARNING", log_colors=False),
        exec_engine=LiveExecEngineConfig(reconciliation_startup_delay_secs=0.1),
        data_clients={"FAIRBELL": nautilus.FairbellDataClientConfig(**door)},
        exec_clients={"FAIRBELL": nautilus.FairbellExecClientConfig(**door, starting_cash="1000000")},
        timeout_connection=10.0,
        timeout_reconciliation=10.0,
        timeout_portfolio=10.0,
        timeout_disconnection=5.0,
        timeout_post_stop=0.3,
    )
    node = TradingNode(config, loop=asyncio.get_running_loop())
    node.add_data_client_factory("FAIRBELL", nautilus.FairbellLiveDataClientFactory)
    node.add_exec_client_factory("FAIRBELL", nautilus.FairbellLiveExecClientFactory)
    for strategy in strategies:
        node.trader.add_strategy(strategy)
    for actor in actors:
        node.trader.add_actor(actor)
    node.build()
    running = asyncio.ensure_future(node.run_async())
    try:
        await until(lambda: node.trader.is_running)
        yield node
    finally:
        await node.stop_async()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def market(exchange: LocalExchange, account: int, symbol: str, seed: int, stop: asyncio.Event) -> None:
    """Both sides of a book around a price that walks, from a seed, and takers in it."""
    rng, middle = random.Random(seed), Decimal(100)
    async with exchange.client(3) as far:
        # Far away there is always something, so that no market order finds nothing.
        await far.new_order(symbol, "buy", 100_000, 50)
        await far.new_order(symbol, "sell", 100_000, 150)
    async with exchange.client(account) as client:
        while not stop.is_set():
            middle += Decimal(rng.choice((-3, -2, -1, 1, 2, 3))) / 4
            await client.cancel_all(symbol)
            size = rng.choice((5, 20, 150))
            await client.new_order(symbol, "buy", size, middle - Decimal("0.25"))
            await client.new_order(symbol, "sell", 155 - size, middle + Decimal("0.25"))
            async with exchange.client(account + 1) as other:
                await other.new_order(symbol, rng.choice(("buy", "sell")), 1)
            await asyncio.sleep(0.05)
        await client.cancel_all(symbol)


@asynccontextmanager
async def moving(exchange: LocalExchange, symbol: str = "GENA", seed: int = 28) -> AsyncIterator[None]:
    """A market that moves meanwhile."""
    print(f"seed {seed}")
    stop = asyncio.Event()
    running = asyncio.ensure_future(market(exchange, 1, symbol, seed, stop))
    try:
        yield
    finally:
        stop.set()
        await running


def test_ids_are_found_again_without_a_table() -> None:
    for place in range(200):
        given = ClientOrderId(f"O-20261126-103000-001-000-{place}")
        base = base_of(given)
        assert len(leg_id(base, 999)) <= 14
        assert split(leg_id(base, place)) == (base, place)
    assert split("desk.1-7") == ("desk.1-7", 0)
    assert split("ABCDEFGHIJ.01") == ("ABCDEFGHIJ.01", 0)
    with pytest.raises(ValueError, match="leg"):
        leg_id("ABCDEFGHIJ", 1_000)


def test_its_data_tester_hears_books_quotes_trades_and_states(fairbell_exchange: LocalExchange) -> None:
    heard: dict[str, list[Any]] = {"quotes": [], "trades": [], "deltas": [], "status": [], "bars": []}

    class Listening(DataTester):
        """NautilusTrader's tester, which only shows what it hears, with a list beside it."""

        def on_quote_tick(self, quote: Any) -> None:
            heard["quotes"].append(quote)

        def on_trade_tick(self, trade: Any) -> None:
            heard["trades"].append(trade)

        def on_order_book_deltas(self, deltas: Any) -> None:
            super().on_order_book_deltas(deltas)
            heard["deltas"].append(deltas)

        def on_instrument_status(self, data: Any) -> None:
            heard["status"].append(data)

        def on_historical_data(self, data: Any) -> None:
            heard["bars"].append(data)

    async def run() -> None:
        tester = Listening(
            DataTesterConfig(
                instrument_ids=[GENA],
                bar_types=[BarType.from_str("GENA.FAIRBELL-1-SECOND-LAST-EXTERNAL")],
                subscribe_book_deltas=True,
                manage_book=True,
                subscribe_quotes=True,
                subscribe_trades=True,
                subscribe_instrument=True,
                subscribe_instrument_status=True,
                request_instruments=True,
                request_trades=True,
                request_bars=True,
                log_data=False,
            )
        )
        async with moving(fairbell_exchange):
            await asyncio.sleep(1.2)
            async with trading(fairbell_exchange, actors=(tester,)) as node:
                await until(lambda: min(len(heard[of]) for of in ("quotes", "trades", "deltas")) >= 20)
                assert heard["status"][0].trading_event == "trading"
                assert node.cache.instrument(GENA).price_increment == Price.from_str("0.01")
                assert node.cache.instrument(BTC).size_precision == 8
                # Whatever the last messages were, NautilusTrader's book is the exchange's.
                async with fairbell_exchange.client(1) as client:
                    await until(lambda: node.cache.order_book(GENA) is not None)
                    for _ in range(100):
                        told = await client.book("GENA")
                        shown = node.cache.order_book(GENA)
                        theirs = [
                            [(level.price.as_decimal(), Decimal(str(level.size()))) for level in side]
                            for side in (shown.bids(), shown.asks())
                        ]
                        if theirs == [[tuple(of) for of in side] for side in (told.bids(), told.asks())]:
                            break
                        await asyncio.sleep(0.01)
                    else:
                        raise AssertionError(f"{theirs} is not {told}")
        assert all(isinstance(of, QuoteTick) and of.bid_price < of.ask_price for of in heard["quotes"])
        trades = [of for of in heard["trades"] if isinstance(of, TradeTick)]
        assert len({of.trade_id for of in trades}) == len(trades), "each is told once"

    asyncio.run(run())


def test_its_execution_tester_keeps_orders_at_a_distance(fairbell_exchange: LocalExchange) -> None:
    """It enters post-only orders beside the market and moves them along with it."""

    async def run() -> None:
        tester = ExecTester(
            ExecTesterConfig(
                instrument_id=GENA,
                order_qty=Decimal(3),
                tob_offset_ticks=500,
                use_post_only=True,
                modify_orders_to_maintain_tob_offset=True,
                open_position_on_start_qty=Decimal(3),
                close_positions_on_stop=True,
                log_data=False,
            )
        )
        async with moving(fairbell_exchange, seed=5):
            async with trading(fairbell_exchange, tester) as node:
                await until(lambda: len(node.cache.orders_open(instrument_id=GENA)) == 2)
                updated = lambda: max(  # noqa: E731
                    sum(type(event).__name__ == "OrderUpdated" for event in order.events)
                    for order in node.cache.orders(instrument_id=GENA)
                )
                await until(lambda: updated() >= 5)
                await until(lambda: node.cache.positions_open(instrument_id=GENA))
                bought = node.cache.positions_open(instrument_id=GENA)[0]
                assert (bought.side.name, bought.quantity) == ("LONG", quantity(3))
                account = node.portfolio.account(bought.instrument_id.venue)
                assert account is not None
            # It has cancelled its orders and closed its position.
            assert node.cache.orders_open(instrument_id=GENA) == []
            assert node.cache.positions_open(instrument_id=GENA) == []
            assert not [of for of in node.cache.orders() if of.status == OrderStatus.REJECTED]
            async with fairbell_exchange.client(0) as client:
                assert await client.open_orders() == []
                assert (await client.positions())["GENA"].position == 0
                fills = {of.trade_id for of in await client.fills()}
            told = {trade.value for order in node.cache.orders() for trade in order.trade_ids}
            assert told == fills, "NautilusTrader knows each fill of the account"

    asyncio.run(run())


@pytest.mark.parametrize("which", ["ema", "imbalance"])
def test_an_example_strategy_of_its_trades(fairbell_exchange: LocalExchange, which: str) -> None:
    strategy: Strategy
    if which == "ema":
        strategy = EMACross(
            EMACrossConfig(
                instrument_id=GENA,
                bar_type=BarType.from_str("GENA.FAIRBELL-200-MILLISECOND-MID-INTERNAL"),
                trade_size=Decimal(2),
                fast_ema_period=2,
                slow_ema_period=4,
                subscribe_quote_ticks=True,
            )
        )
    else:
        strategy = OrderBookImbalance(
            OrderBookImbalanceConfig(
                instrument_id=GENA,
                max_trade_size=Decimal(10),
                trigger_min_size=10.0,
                min_seconds_between_triggers=0.1,
            )
        )

    async def run() -> None:
        async with moving(fairbell_exchange, seed=11):
            async with trading(fairbell_exchange, strategy) as node:
                filled = lambda: [of for of in node.cache.orders() if of.filled_qty > 0]  # noqa: E731
                await until(lambda: len(filled()) >= 3, 40.0)
            async with fairbell_exchange.client(0) as client:
                theirs = {of.trade_id for of in await client.fills(1_000)}
                position = (await client.positions())["GENA"].position
        told = {trade.value for order in node.cache.orders() for trade in order.trade_ids}
        assert told == theirs, "the strategy knows each fill of its account, and no other"
        signed = sum(
            of.filled_qty.as_decimal() * (1 if of.side == OrderSide.BUY else -1) for of in node.cache.orders()
        )
        assert signed == position

    asyncio.run(run())


def test_what_was_before_is_reconciled_and_refusals_are_told(fairbell_exchange: LocalExchange) -> None:
    exchange = fairbell_exchange

    class Idle(Strategy):
        """Does what the test asks for."""

    async def run() -> None:
        async with exchange.client(0) as mine, exchange.client(1) as other:
            # Before NautilusTrader starts: a position, an order of somebody else's program, a fill.
            await other.new_order("GENA", "sell", 7, "100")
            await mine.new_order("GENA", "buy", 7, "100")
            resting = await mine.new_order("GENA", "sell", 3, "105", client_order_id="by-hand")
            idle = Idle()
            async with trading(exchange, idle) as node:
                (known,) = node.cache.orders_open(instrument_id=GENA)
                assert (known.venue_order_id.value, known.quantity) == ("by-hand", quantity(3))
                assert node.portfolio.net_position(GENA) == 7
                # Orders: rests, is modified, trades in part, is cancelled.
                order = idle.order_factory.limit(GENA, OrderSide.BUY, quantity(10), Price.from_str("90.00"))
                idle.submit_order(order)
                await until(lambda: order.status == OrderStatus.ACCEPTED)
                assert order.venue_order_id.value == base_of(order.client_order_id)
                idle.modify_order(order, quantity=quantity(12), price=Price.from_str("91.00"))
                await until(lambda: order.price == Price.from_str("91.00"))
                await other.new_order("GENA", "sell", 4, "91", time_in_force="ioc")
                await until(lambda: order.filled_qty == 4)
                assert (order.quantity, order.leaves_qty) == (quantity(12), quantity(8))
                idle.cancel_order(order)
                await until(lambda: order.status == OrderStatus.CANCELED)
                # Refusals: post-only that would take, kinds that are not there, a cancel of what is over.
                await other.new_order("GENA", "sell", 1, "99")
                crossing = idle.order_factory.limit(
                    GENA, OrderSide.BUY, quantity(1), Price.from_str("99.00"), post_only=True
                )
                idle.submit_order(crossing)
                await until(lambda: crossing.is_closed)
                assert crossing.status in (OrderStatus.REJECTED, OrderStatus.CANCELED)
                assert crossing.filled_qty == 0
                stop = idle.order_factory.stop_market(
                    GENA, OrderSide.SELL, quantity(1), Price.from_str("50.00")
                )
                idle.submit_order(stop)
                await until(lambda: stop.status == OrderStatus.DENIED)
                # A fill-or-kill order that finds too little is over at once.
                killed = idle.order_factory.limit(
                    GENA,
                    OrderSide.BUY,
                    quantity(5),
                    Price.from_str("99.00"),
                    time_in_force=TimeInForce.FOK,
                )
                idle.submit_order(killed)
                await until(lambda: killed.is_closed)
                assert killed.filled_qty == 0
                # The stranger's order is cancelled by its own name.
                idle.cancel_order(known)
                await until(lambda: known.status == OrderStatus.CANCELED)
            assert (await mine.order(resting.client_order_id)).state == "cancelled"
            assert (await mine.positions())["GENA"].position == 11

    asyncio.run(run())


def test_a_broken_connection_loses_no_event(fairbell_exchange: LocalExchange) -> None:
    exchange = fairbell_exchange

    class Idle(Strategy):
        """Does what the test asks for."""

    async def run() -> None:
        idle = Idle()
        async with trading(exchange, idle) as node, exchange.client(1) as other:
            (client,) = (of for of in _clients(node) if isinstance(of, nautilus.FairbellExecutionClient))
            order = idle.order_factory.limit(GENA, OrderSide.BUY, quantity(10), Price.from_str("90.00"))
            idle.submit_order(order)
            await until(lambda: order.status == OrderStatus.ACCEPTED)
            for part in range(1, 5):
                # Traded while there is no connection.
                cut(client)
                await other.new_order("GENA", "sell", 1, "90", time_in_force="ioc")
                await until(functools.partial(filled, order, part))
            idle.cancel_order(order)
            await until(lambda: order.status == OrderStatus.CANCELED)
            now = node.kernel.clock.timestamp_ns()
            about = {"instrument_id": GENA, "start": None, "end": None, "command_id": UUID4(), "ts_init": now}
            fills = await client.generate_fill_reports(GenerateFillReports(venue_order_id=None, **about))
            assert [of.client_order_id for of in fills] == [order.client_order_id] * 4
            assert {of.trade_id for of in fills} == set(order.trade_ids)
            orders = await client.generate_order_status_reports(
                GenerateOrderStatusReports(open_only=True, **about)
            )
            assert orders == []
            (position,) = await client.generate_position_status_reports(
                GeneratePositionStatusReports(**about)
            )
            assert position.signed_decimal_qty == 4

    asyncio.run(run())


def quantity(value: int) -> Any:
    """A quantity of whole lots."""
    return Quantity.from_str(str(value))


def filled(order: Any, qty: int) -> bool:
    """Whether so much of an order has traded."""
    return bool(order.filled_qty == qty)


def cut(client: Any) -> None:
    """Breaks a client's connection, without a word."""
    client._stream._ws.transport.abort()


def _clients(node: TradingNode) -> list[Any]:
    engine = node.kernel.exec_engine
    return [engine._clients[of] for of in engine.registered_clients]
