"""The stream against a door of the test's own, which can do what a good door does not: lose, lie, hang up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_book import Venue
from test_units import JSON, ORDER
from websockets.asyncio.server import ServerConnection, serve

import fairbell
from fairbell import errors

SECRET = "0123456789abcdef"
Script = Callable[["Session"], Awaitable[None]]
FILL = {
    "trade_id": "1",
    "order_id": "1",
    "client_order_id": "a",
    "symbol": "AAA",
    "side": "buy",
    "qty": "1",
    "price": "2",
    "time_ns": "5",
}


class Session:
    """One connection to the door."""

    def __init__(self, socket: ServerConnection, number: int) -> None:
        self.socket, self.number = socket, number

    async def heard(self, op: str) -> dict[str, Any]:
        """The next message, which is this operation."""
        message: dict[str, Any] = json.loads(await self.socket.recv())
        assert message["op"] == op, message
        return message

    async def tell(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message))

    async def ok(self, *snapshots: dict[str, Any]) -> None:
        await self.tell(*snapshots, {"channel": "ok"})

    async def refuse(self, code: str) -> None:
        await self.tell({"channel": "error", "error": {"code": code, "message": ""}})


class Door:
    """Serves scripts: the first connection the first one, and so on; the last one again and again."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = scripts
        self.connections = 0
        self.failures: list[BaseException] = []

    async def serve(self, socket: ServerConnection) -> None:
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            await script(Session(socket, self.connections))
        except AssertionError as error:
            self.failures.append(error)


def rest(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"not asked for: {request.url}")


def play(
    test: Callable[[fairbell.Stream], Awaitable[None]],
    *scripts: Script,
    answer: Callable[[httpx.Request], httpx.Response] = rest,
) -> Door:
    """Runs a test on a stream to a door of these scripts."""
    door = Door(*scripts)

    async def run() -> None:
        async with serve(door.serve, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            client = fairbell.Client(f"http://127.0.0.1:{port}", "k", SECRET)
            client._http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
            async with client, client.stream() as stream:
                stream.backoff = (0.01, 0.05)
                await asyncio.wait_for(test(stream), 30)

    asyncio.run(run())
    assert not door.failures, door.failures
    return door


async def forever(session: Session) -> None:
    await session.socket.wait_closed()


def test_a_gap_and_a_wrong_checksum_are_mended_by_a_snapshot() -> None:
    venue = Venue(3)
    for _ in range(20):
        venue.update()

    async def script(session: Session) -> None:
        await session.heard("subscribe")
        await session.ok(venue.snapshot())
        await session.tell(venue.update())
        venue.update()  # Lost.
        await session.tell(venue.update())
        again = await session.heard("subscribe")
        assert again["channels"] == ["book"]
        # What was on its way is passed over.
        await session.tell(venue.update())
        await session.ok(venue.snapshot())
        await session.tell({**venue.update(), "checksum": 1})
        await session.heard("subscribe")
        await session.ok(venue.snapshot())
        await session.tell(venue.update())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        book = await stream.book("AAA")
        await stream.until(lambda: book.ready and stream.resyncs == 2 and book.seq == venue.seq, 10)
        assert (book.bids(), book.asks()) == venue.levels()
        kinds = [await anext(events) for _ in range(8)]
        names = [
            "snapshot" if isinstance(of, fairbell.BookChanged) and of.snapshot else type(of).__name__
            for of in kinds
        ]
        mended = ["Resync", "snapshot"]
        assert names == ["Connected", "snapshot", "BookChanged", *mended, *mended, "BookChanged"]

    assert play(test, script).connections == 1


def test_a_door_that_never_gets_it_right_is_left() -> None:
    """And the book is not ready meanwhile."""
    venue = Venue(4)
    venue.update()

    async def liar(session: Session) -> None:
        while True:
            await session.heard("subscribe")
            await session.ok({**venue.snapshot(), "checksum": 1})

    async def honest(session: Session) -> None:
        await session.heard("subscribe")
        await session.ok(venue.snapshot())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        await stream.subscribe("book", symbols=["AAA"])
        assert not stream.books["AAA"].ready
        await stream.until(lambda: stream.books["AAA"].ready, 10)

    assert play(test, liar, honest).connections == 2


def test_connections_that_break_are_made_anew_with_all_that_was_asked_for() -> None:
    venue = Venue(5)
    for _ in range(20):
        venue.update()
    closed = {**ORDER, "client_order_id": "gone", "state": "filled", "open": "0"}
    other = {**ORDER, "client_order_id": "b"}
    trades = [
        {"trade_id": str(n), "price": "1", "qty": "1", "aggressor": None, "time_ns": "1", "broken": False}
        for n in range(5)
    ]

    def told(*which: int) -> dict[str, Any]:
        newest_first = [trades[n] for n in sorted(which, reverse=True)]
        return {"channel": "trades", "type": "snapshot", "symbol": "AAA", "trades": newest_first}

    def orders(seq: int, *open_orders: dict[str, Any]) -> dict[str, Any]:
        return {"channel": "orders", "type": "snapshot", "seq": seq, "orders": list(open_orders)}

    def fills(*which: str) -> dict[str, Any]:
        listed = [{**FILL, "trade_id": of} for of in which]
        return {"channel": "fills", "type": "snapshot", "seq": 1, "fills": listed}

    async def first(session: Session) -> None:
        assert (await session.heard("subscribe"))["channels"] == ["book", "trades"]
        await session.ok(venue.snapshot(), told(0, 1))
        auth = await session.heard("auth")
        parts = (auth["timestamp"], auth["nonce"], "GET", "/v1/ws")
        assert auth["signature"] == fairbell.signature(SECRET, *parts)
        await session.ok()
        await session.heard("subscribe")
        gone = {**ORDER, "client_order_id": "gone"}
        await session.ok(orders(10, ORDER, gone), fills("1"))
        await session.tell(
            # In the snapshot already, then news.
            {"channel": "orders", "seq": 9, "order": {**gone, "state": "filled"}},
            # Refused by the gateway, which counts nothing.
            {
                "channel": "orders",
                "seq": 10,
                "order": {**ORDER, "client_order_id": "refused", "state": "rejected"},
            },
            {"channel": "orders", "seq": 11, "order": {**ORDER, "filled": "0.5"}},
            {"channel": "fills", "seq": 11, "fill": {**FILL, "trade_id": "2"}},
        )
        await asyncio.sleep(0.05)

    async def second(session: Session) -> None:
        return  # Hangs up at once.

    async def third(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        assert (await session.heard("subscribe"))["channels"] == ["book"]
        await session.ok(venue.snapshot())
        assert (await session.heard("subscribe"))["channels"] == ["trades"]
        await session.ok(told(0, 1, 2, 3))
        assert (await session.heard("subscribe"))["channels"] == ["fills", "orders"]
        await session.ok(fills("3", "2", "1"), orders(20, other))
        await session.tell({"channel": "trades", "symbol": "AAA", "seq": 9, "trade": trades[4]})
        await forever(session)

    def answer(request: httpx.Request) -> httpx.Response:
        # What became of those that are not open any more.
        name = request.url.path.rsplit("/", 1)[1]
        if name == "gone":
            return httpx.Response(200, json=closed)
        return httpx.Response(404, json={"error": {"code": "not_found", "message": name}})

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        await stream.subscribe("book", "trades", symbols=["AAA"])
        await stream.subscribe("orders", "fills")
        await stream.until(lambda: "b" in stream.orders, 10)
        assert set(stream.orders) == {"b"}
        assert stream.books["AAA"].ready
        seen: list[fairbell.Event] = []
        async for event in events:
            seen.append(event)
            if isinstance(event, fairbell.TradeEvent) and event.trade.trade_id == "4":
                break
        assert [of.fill.trade_id for of in seen if isinstance(of, fairbell.FillEvent)] == ["2", "3"]
        assert [of.trade.trade_id for of in seen if isinstance(of, fairbell.TradeEvent)] == list("01234")
        states = [
            (of.order.client_order_id, of.order.state.value, str(of.order.filled), of.snapshot)
            for of in seen
            if isinstance(of, fairbell.OrderEvent)
        ]
        assert states == [
            ("a", "open", "0", True),
            ("gone", "open", "0", True),
            ("refused", "rejected", "0", False),
            ("a", "open", "0.5", False),
            ("gone", "filled", "0", True),
            ("b", "open", "0", True),
        ]

    assert play(test, first, second, third, answer=answer).connections == 3


def test_open_orders_beyond_the_first_message_are_of_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairbell.stream._ORDERS_MESSAGE", 2)
    asked: list[str] = []

    def orders(kind: str, seq: int, *names: str) -> dict[str, Any]:
        told = [{**ORDER, "client_order_id": name} for name in names]
        return {"channel": "orders", "type": kind, "seq": seq, "orders": told}

    async def first(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        messages = (("snapshot", "a", "b"), ("more", "c", "d"), ("more", "e"))
        await session.ok(*(orders(kind, 10, *names) for kind, *names in messages))

    async def second(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        # `b` has gone; `e` is in the last message.
        await session.ok(orders("snapshot", 20, "a", "c"), orders("more", 20, "d", "e"))
        changed = {**ORDER, "client_order_id": "e", "filled": "0.5"}
        await session.tell({"channel": "orders", "seq": 21, "order": changed})
        # As after `resync_required`: nothing says that nothing more follows but the next message.
        await session.tell(orders("snapshot", 30, "a", "c"), orders("more", 30, "e"))
        await session.tell({"channel": "heartbeat", "count": 1})
        await forever(session)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path.rsplit("/", 1)[1])
        return httpx.Response(200, json={**ORDER, "client_order_id": asked[-1], "state": "filled"})

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        await stream.subscribe("orders")
        assert list(stream.orders) == list("abcde")
        await stream.until(lambda: stream.connections == 2 and set(stream.orders) == set("ace"), 10)
        told: list[tuple[str, str, bool]] = []
        while ("d", "filled", True) not in told:
            event = await anext(events)
            if isinstance(event, fairbell.OrderEvent):
                told.append((event.order.client_order_id, event.order.state.value, event.snapshot))
        assert told == [
            *((name, "open", True) for name in "abcde"),
            ("b", "filled", True),
            ("e", "open", False),
            ("e", "open", True),
            ("d", "filled", True),
        ]

    assert play(test, first, second, answer=answer).connections == 2
    assert asked == ["b", "d"], "those that are in no message"


def test_fills_beyond_the_snapshot_are_asked_for() -> None:
    def fills(first: int, last: int) -> list[dict[str, Any]]:
        return [{**FILL, "trade_id": str(n)} for n in range(last, first - 1, -1)]

    def snapshot(first: int, last: int) -> dict[str, Any]:
        return {"channel": "fills", "type": "snapshot", "seq": 1, "fills": fills(first, last)}

    async def first(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        await session.ok(snapshot(1, 10))

    async def second(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        await session.ok(snapshot(201, 300))
        await forever(session)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/fills"
        return httpx.Response(200, json={"seq": 1, "fills": fills(1, 301)})

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        await stream.subscribe("fills")
        told: list[int] = []
        async for event in events:
            if isinstance(event, fairbell.FillEvent):
                told.append(int(event.fill.trade_id))
                if told[-1] == 301:
                    break
        assert told == list(range(11, 302)), "each once, oldest first"

    play(test, first, second, answer=answer)


@pytest.mark.parametrize("code", ["unknown_key", "bad_signature", "key_expired", "wrong_address"])
def test_a_wrong_key_ends_the_stream(code: str) -> None:
    async def script(session: Session) -> None:
        await session.heard("auth")
        await session.refuse(code)
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        with pytest.raises(errors.ApiError) as caught:
            await stream.subscribe("orders")
        assert caught.value.code == code

    assert play(test, script).connections == 1


def test_a_key_that_ends_while_the_stream_lives_ends_it() -> None:
    async def first(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        await session.ok({"channel": "fills", "type": "snapshot", "seq": 1, "fills": []})

    async def second(session: Session) -> None:
        await session.heard("auth")
        await session.refuse("key_expired")
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        await stream.subscribe("fills")
        with pytest.raises(errors.AuthenticationError):
            async for _ in events:
                pass
        with pytest.raises(errors.AuthenticationError):
            await stream.subscribe("orders")

    assert play(test, first, second).connections == 2


def test_a_client_that_is_closed_ends_its_stream_when_it_is_needed() -> None:
    def orders(*open_orders: dict[str, Any]) -> dict[str, Any]:
        return {"channel": "orders", "type": "snapshot", "seq": 1, "orders": list(open_orders)}

    async def first(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        await session.ok(orders(ORDER))

    async def second(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        # What became of the order?
        await session.ok(orders())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        await stream.subscribe("orders")
        await stream._client.close()
        with pytest.raises(errors.StreamClosed, match="client is closed"):
            await stream.until(lambda: False, 10)

    assert play(test, first, second).connections == 2


def test_a_session_that_is_down_is_asked_again() -> None:
    async def script(session: Session) -> None:
        await session.heard("auth")
        await session.ok()
        await session.heard("subscribe")
        await session.refuse("session_down")
        assert (await session.heard("subscribe"))["channels"] == ["orders", "fills"]
        await session.ok(
            {"channel": "orders", "type": "snapshot", "seq": 1, "orders": [ORDER]},
            {"channel": "fills", "type": "snapshot", "seq": 1, "fills": []},
        )
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        await stream.subscribe("orders", "fills")
        await stream.until(lambda: "a" in stream.orders, 10)

    play(test, script)


def test_wrong_symbols_and_channels_are_told() -> None:
    async def script(session: Session) -> None:
        await session.heard("subscribe")
        await session.refuse("not_found")
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        with pytest.raises(errors.NotFound):
            await stream.subscribe("book", symbols=["ZZZ"])
        with pytest.raises(ValueError, match="no channel"):
            await stream.subscribe("candles", symbols=["AAA"])
        with pytest.raises(ValueError, match="symbols"):
            await stream.subscribe("book")
        assert stream.connected, "the stream goes on"

    play(test, script)


def test_a_slow_consumer_is_told_and_the_books_go_on() -> None:
    venue = Venue(6)

    async def script(session: Session) -> None:
        await session.heard("subscribe")
        await session.ok(venue.snapshot())
        for _ in range(50):
            await session.tell(venue.update())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        slow, quick = stream.events(limit=5), stream.events()
        book = await stream.book("AAA")
        await stream.until(lambda: book.seq == venue.seq and book.ready, 10)
        for _ in range(5):
            await anext(slow)
        with pytest.raises(errors.SlowConsumer):
            await anext(slow)
        for _ in range(52):
            await anext(quick)

    play(test, script)


def test_silence_ends_a_connection() -> None:
    async def script(session: Session) -> None:
        await session.heard("subscribe")
        await session.ok(Venue(1).snapshot())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        stream.silence = 0.1
        await stream.book("AAA")
        await stream.until(lambda: stream.connections >= 2 and stream.books["AAA"].ready, 10)

    assert play(test, script).connections >= 2


def test_closing_ends_iterators_and_waits() -> None:
    async def script(session: Session) -> None:
        await session.heard("subscribe")
        await session.ok(Venue(1).snapshot())
        await forever(session)

    async def test(stream: fairbell.Stream) -> None:
        events = stream.events()
        await stream.book("AAA")
        waiting = asyncio.create_task(stream.until(lambda: False))
        await asyncio.sleep(0)
        await stream.close()
        with pytest.raises(errors.StreamClosed):
            await waiting
        assert len([event async for event in events]) == 2
        with pytest.raises(errors.StreamClosed):
            await stream.subscribe("trades", symbols=["AAA"])
        with pytest.raises(errors.StreamClosed):
            stream.events()

    play(test, script)


CHANNELS = ["book", "trades", "ticker", "status", "orders", "fills", "ok", "error", "resync_required", "x"]
MESSAGES = st.builds(
    lambda channel, base, rest: {**base, **rest, "channel": channel},
    st.sampled_from(CHANNELS),
    st.sampled_from([{}, Venue(7).update(), Venue(7).snapshot(), {"seq": 3, "order": ORDER, "fill": FILL}]),
    st.dictionaries(
        st.sampled_from(["type", "symbol", "seq", "orders", "fills", "order", "trade", "ticker", "error"]),
        JSON,
        max_size=2,
    ),
)


@given(st.lists(MESSAGES, max_size=6))
@settings(max_examples=150)
def test_whatever_comes_is_taken_or_refused(messages: list[dict[str, Any]]) -> None:
    async def run() -> None:
        client = fairbell.Client("http://127.0.0.1:1", "k", SECRET, patience=0.01)
        # Requests about orders and fills fail, as they may.
        client._http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500)))
        async with client, client.stream() as stream:
            stream.events()
            for message in messages:
                try:
                    await stream._take(fairbell.wire.parse(json.dumps(message)))
                except errors.FairbellError:
                    continue

    asyncio.run(run())
