"""Against a real exchange: orders, fills, books over the WebSocket, broken connections, wrong keys."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

import fairbell
from fairbell import Client, OrderState, Side, TimeInForce, errors
from fairbell.testing import BinaryNotFound, ExchangeFailed, InstrumentSpec, LocalExchange

SYMBOLS = ("GENA", "BTCUSD")


def with_clients(
    exchange: LocalExchange, test: Callable[[Client, Client], Awaitable[None]], first: int = 0
) -> None:
    """Runs a test with clients of two accounts."""

    async def run() -> None:
        async with exchange.client(first) as one, exchange.client(first + 1) as two:
            await asyncio.wait_for(test(one, two), 120)
            await one.cancel_all()
            await two.cancel_all()

    asyncio.run(run())


def test_two_clients_trade_with_each_other(fairbell_exchange: LocalExchange) -> None:
    async def test(maker: Client, taker: Client) -> None:
        instruments = await maker.instruments()
        assert instruments["BTCUSD"].lot == Decimal("0.00000001")
        assert await maker.status("GENA") is fairbell.TradingStatus.TRADING
        resting = await maker.new_order("GENA", Side.SELL, 10, "100.25", client_order_id="maker-1")
        assert (resting.state, resting.open, resting.price) == (
            OrderState.OPEN,
            Decimal(10),
            Decimal("100.25"),
        )
        taking = await taker.new_order("GENA", "buy", 4, "101", time_in_force=TimeInForce.IOC)
        # Told at once or as soon as the fill is in the account's stream.
        for _ in range(200):
            taking = await taker.order(taking.client_order_id)
            if taking.state is OrderState.FILLED:
                break
            await asyncio.sleep(0.02)
        assert (taking.state, taking.filled) == (OrderState.FILLED, Decimal(4))
        (bought,), (sold,) = await taker.fills(), await maker.fills()
        assert (bought.price, bought.qty, bought.side) == (Decimal("100.25"), Decimal(4), Side.BUY)
        assert (sold.trade_id, sold.client_order_id) == (bought.trade_id, "maker-1")
        assert (await taker.positions())["GENA"].position == 4
        assert (await maker.positions())["GENA"].cash == Decimal("401.00")
        # Exact, also where floats are not.
        small = await taker.new_order("BTCUSD", "buy", Decimal("0.00000003"), 1)
        assert small.qty == Decimal("0.00000003")
        moved = await taker.replace(small.client_order_id, "0.00000007", 2)
        assert (moved.qty, moved.price, moved.replaces) == (Decimal("0.00000007"), Decimal(2), small.order_id)
        with pytest.raises(errors.NotOpen):
            await taker.replace(small.client_order_id, 1, 1)
        assert [of.client_order_id for of in await taker.open_orders()] == [moved.client_order_id]
        assert await taker.cancel_all("GENA") == 0
        assert await taker.cancel_all() == 1
        assert (await taker.order(moved.client_order_id)).state is OrderState.CANCELLED
        ticker = await taker.ticker("GENA")
        assert ticker is not None
        assert (ticker.last, ticker.trades) == (Decimal("100.25"), 1)
        (trade,) = await taker.trades("GENA")
        assert (trade.price, trade.qty, trade.aggressor) == (Decimal("100.25"), Decimal(4), Side.BUY)

    with_clients(fairbell_exchange, test)


def test_an_order_of_one_id_counts_once(fairbell_shared_exchange: LocalExchange) -> None:
    async def test(client: Client, _: Client) -> None:
        name = fairbell.new_client_order_id()
        asked = [client.new_order("GENA", "buy", 3, "50", client_order_id=name) for _ in range(5)]
        orders = await asyncio.gather(*asked)
        assert len({order.order_id for order in orders}) == 1
        assert len(await client.open_orders()) == 1
        with pytest.raises(errors.ClientOrderIdUsed):
            await client.new_order("GENA", "buy", 4, "50", client_order_id=name)
        again = {(await client.cancel(name)).order_id, (await client.cancel(name)).order_id}
        assert again == {orders[0].order_id}
        with pytest.raises(errors.NotFound):
            await client.cancel("never-entered")
        with pytest.raises(errors.NotOpen):
            await client.replace(name, 1, 1)

    with_clients(fairbell_shared_exchange, test)


def test_refusals_have_their_codes(fairbell_shared_exchange: LocalExchange) -> None:
    async def test(client: Client, _: Client) -> None:
        for (symbol, side, qty, price), code in (
            (("ZZZ", "buy", 1, 1), "not_found"),
            (("GENA", "buy", "1.5", 1), "bad_field"),
            (("GENA", "buy", 0, 1), "bad_field"),
            (("GENA", "buy", 1, "1.00001"), "bad_field"),
            # Off the tick.
            (("GENA", "buy", 1, "1.0001"), "bad_field"),
        ):
            with pytest.raises(errors.ApiError) as caught:
                await client.new_order(symbol, side, qty, price)
            assert caught.value.code == code
        # The exchange itself refuses, and again when it is repeated.
        await client.new_order("GENA", "sell", 1, "60")
        for _attempt in range(2):
            with pytest.raises(errors.OrderRejected) as rejected:
                await client.new_order("GENA", "buy", 1, "60", post_only=True, client_order_id="takes")
            assert rejected.value.reason_code is not None
        with pytest.raises(errors.NotFound):
            await client.book("ZZZ")
        with pytest.raises(errors.BadRequest):
            await client.book("GENA", depth=501)

    with_clients(fairbell_shared_exchange, test)


def test_a_wrong_key_is_refused(fairbell_shared_exchange: LocalExchange) -> None:
    exchange = fairbell_shared_exchange
    key = exchange.keys[0]

    async def run() -> None:
        for name, secret, code in (
            (key.name, "x" * 32, "bad_signature"),
            ("nobody", key.secret, "unknown_key"),
        ):
            async with Client(exchange.url, name, secret) as client:
                with pytest.raises(errors.AuthenticationError) as caught:
                    await client.open_orders()
                assert caught.value.code == code
                async with client.stream() as stream:
                    with pytest.raises(errors.AuthenticationError):
                        await stream.subscribe("orders")
        # A clock that is off is set by itself, on both ways.
        async with exchange.client() as client:
            client._clock_off_ms = 60_000
            assert isinstance(await client.open_orders(), list)
            client._clock_off_ms = -60_000
            async with client.stream() as stream:
                await stream.subscribe("orders")

    asyncio.run(run())


async def churn(clients: list[Client], rng: random.Random, count: int) -> None:
    """Orders into both books, some of which trade."""
    live: list[tuple[Client, str]] = []
    for _ in range(count):
        client, roll = rng.choice(clients), rng.random()
        if live and roll < 0.3:
            owner, name = live.pop(rng.randrange(len(live)))
            try:
                await owner.cancel(name)
            except errors.Conflict:
                continue
        else:
            symbol, side = rng.choice(SYMBOLS), rng.choice(list(Side))
            middle, tick = (10_000, Decimal("0.01")) if symbol == "GENA" else (10_000, Decimal(1))
            away = rng.randint(-2, 15) * (-1 if side is Side.BUY else 1)
            qty = rng.randint(1, 9) * (Decimal(1) if symbol == "GENA" else Decimal("0.00000001"))
            order = await client.new_order(symbol, side, qty, (middle + away) * tick)
            live.append((client, order.client_order_id))


async def settled(stream: fairbell.Stream, client: Client) -> list[fairbell.Book]:
    """The books of REST once the stream has the very same; the public hears a little later than accounts."""
    for _ in range(200):
        books = [await client.book(symbol, depth=500) for symbol in SYMBOLS]
        if all(stream.books[book.symbol].ready and stream.books[book.symbol] == book for book in books):
            return books
        await asyncio.sleep(0.05)
    raise AssertionError(f"{books} and {stream.books}")


def test_books_over_the_websocket_are_those_of_rest(fairbell_exchange: LocalExchange) -> None:
    """While orders come, at as many places of the sequence as both have seen; and at the end."""
    seed = 28
    print("seed", seed)
    compared = 0

    async def test(one: Client, two: Client) -> None:
        nonlocal compared
        history: dict[tuple[str, int], fairbell.Book] = {}
        async with one.stream() as stream:
            for symbol in SYMBOLS:
                await stream.book(symbol)
            events = stream.events()

            async def remember() -> None:
                async for event in events:
                    if isinstance(event, fairbell.BookChanged):
                        book = stream.books[event.symbol]
                        assert book.ready
                        history[book.symbol, book.seq] = book.copy()

            remembering = asyncio.create_task(remember())
            snapshots: list[fairbell.Book] = []
            rng = random.Random(seed)
            while len(snapshots) < 50:
                working = asyncio.create_task(churn([one, two], rng, 60))
                while not working.done():
                    snapshots += [await two.book(symbol, depth=500) for symbol in SYMBOLS]
                    await asyncio.sleep(0.01)
                await working
            last = await settled(stream, two)
            await asyncio.sleep(0)
            remembering.cancel()
            for book in [*snapshots, *last]:
                known = history.get((book.symbol, book.seq))
                if known is not None:
                    assert known == book
                    compared += 1
            for book in last:
                assert stream.books[book.symbol] == book
                assert book.bids()
            assert (stream.resyncs, stream.connections) == (0, 1)

    with_clients(fairbell_exchange, test)
    assert compared >= 10, f"{compared} places compared"


@asynccontextmanager
async def relay(url: str) -> AsyncIterator[tuple[str, Callable[[], int]]]:
    """A way to the door that can be cut: an address, and what cuts all connections and says how many."""
    host, port = url.removeprefix("http://").split(":")
    writers: set[asyncio.StreamWriter] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writers.discard(writer)
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, away = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, away), pump(to, writer))

    def cut() -> int:
        for writer in list(writers):
            writer.transport.abort()
        return len(writers)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cut
    finally:
        server.close()
        cut()


def test_broken_connections_lose_nothing(fairbell_exchange: LocalExchange) -> None:
    """Both ways to the door are cut again and again: each order counts once, each fill is told once."""
    seed = 29
    print("seed", seed)
    key = fairbell_exchange.keys[1]

    async def test(one: Client, direct: Client) -> None:
        async with (
            relay(fairbell_exchange.url) as (url, cut),
            Client(url, key.name, key.secret) as two,
            two.stream() as stream,
        ):
            stream.backoff = (0.02, 0.2)
            events = stream.events()
            await stream.subscribe("orders", "fills")
            for symbol in SYMBOLS:
                await stream.book(symbol)
            cuts, rng = 0, random.Random(seed)
            # On a slow machine the first round may be cut so often that nothing trades in it.
            while cuts < 4 or not await direct.fills(1):
                working = asyncio.create_task(churn([one, two], rng, 40))
                while not working.done():
                    await asyncio.sleep(0.2)
                    cuts += cut() > 0
                await working
            await settled(stream, direct)
            for _ in range(200):
                opened = {order.client_order_id: order for order in await direct.open_orders()}
                if stream.orders == opened:
                    break
                await asyncio.sleep(0.05)
            assert stream.orders == opened
            due = {(fill.trade_id, fill.order_id) for fill in await direct.fills(10_000)}
            assert stream.connections >= 2
            told: list[tuple[str, str]] = []
            while len(told) < len(due):
                event = await asyncio.wait_for(anext(events), 10)
                if isinstance(event, fairbell.FillEvent):
                    told.append((event.fill.trade_id, event.fill.order_id))
            assert len(told) == len(set(told)) == len(due) > 0
            assert set(told) == due

    with_clients(fairbell_exchange, test)


def test_orders_go_when_the_client_does(fairbell_shared_exchange: LocalExchange) -> None:
    async def test(client: Client, watcher: Client) -> None:
        async with client.stream(cancel_on_disconnect=True) as stream:
            await stream.subscribe("orders")
            order = await client.new_order("GENA", "buy", 1, "40")
        for _ in range(200):
            if (await client.order(order.client_order_id)).state is OrderState.CANCELLED:
                break
            await asyncio.sleep(0.05)
        assert (await client.order(order.client_order_id)).state is OrderState.CANCELLED
        # Dead man's switch, and that it can be turned off.
        kept = await watcher.new_order("GENA", "buy", 1, "40")
        await watcher.cancel_after(0.5)
        await watcher.cancel_after(None)
        order = await client.new_order("GENA", "buy", 1, "40")
        await client.cancel_after(0.5)
        for _ in range(200):
            if (await client.order(order.client_order_id)).state is OrderState.CANCELLED:
                break
            await asyncio.sleep(0.05)
        assert (await client.order(order.client_order_id)).state is OrderState.CANCELLED
        assert (await watcher.order(kept.client_order_id)).state is OrderState.OPEN

    with_clients(fairbell_shared_exchange, test, first=2)


def test_without_asyncio_it_is_the_same(fairbell_shared_exchange: LocalExchange) -> None:
    exchange = fairbell_shared_exchange
    with exchange.sync_client(2) as maker, exchange.sync_client(3) as taker, maker.stream() as stream:
        stream.subscribe("fills", "orders")
        events = stream.events(timeout=10)
        order = maker.new_order("BTCUSD", "sell", "0.5", 70_000)
        assert order.client_order_id in {of.client_order_id for of in maker.open_orders()}
        # The public hears of it a little later than the account.
        for _ in range(500):
            if stream.book("BTCUSD").best_ask is not None:
                break
            time.sleep(0.01)
        assert stream.book("BTCUSD").best_ask == (Decimal(70_000), Decimal("0.5"))
        taker.new_order("BTCUSD", "buy", "0.5", 70_000)
        fill = next(event.fill for event in events if isinstance(event, fairbell.FillEvent))
        assert (fill.client_order_id, fill.qty) == (order.client_order_id, Decimal("0.5"))
        with pytest.raises(errors.NotOpen):
            maker.cancel(order.client_order_id)
        assert maker.time_ms() > 0
    with pytest.raises(errors.StreamClosed):
        maker.open_orders()


def test_exchanges_stand_side_by_side(
    fairbell_exchange_factory: Callable[..., LocalExchange],
) -> None:
    one = fairbell_exchange_factory()
    two = fairbell_exchange_factory(
        instruments=[InstrumentSpec("XYZ", tick="0.5", lot_decimals=2)], accounts=1
    )
    assert one.url != two.url
    print(f"ready in {one.started_in:.2f} s and {two.started_in:.2f} s")
    with one.sync_client() as first, two.sync_client() as second:
        assert set(first.instruments()) == set(SYMBOLS)
        assert second.instruments()["XYZ"].tick == Decimal("0.5")
        first.new_order("GENA", "buy", 1, 1)
        assert second.open_orders() == []
    folder = two.folder
    two.stop()
    assert folder is not None
    assert not folder.exists()
    assert one.running
    assert not two.running


def test_an_exchange_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExchangeFailed, match="no_such_section"):
        LocalExchange(settings="[no_such_section]\nx = 1").start()
    with pytest.raises(BinaryNotFound):
        LocalExchange(binary="no/such/program")
    monkeypatch.setenv("FAIRBELL_BIN", "no/such/program")
    with pytest.raises(BinaryNotFound, match="FAIRBELL_BIN"):
        LocalExchange()
    monkeypatch.delenv("FAIRBELL_BIN")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BinaryNotFound, match="install"):
        LocalExchange()
