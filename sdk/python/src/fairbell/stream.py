"""The WebSocket stream: books that keep themselves, public and private events.

One task reads. When a connection breaks, another one is made, with waits that double up to a bound, and
everything that was subscribed to is subscribed to again; nothing that can be fetched again is lost:
books, open orders and fills are completed from the snapshots, fills and orders beyond them over REST.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import websockets
from websockets.asyncio.client import ClientConnection, connect

from . import events as ev
from . import models, wire
from .book import Applied, Book
from .errors import (
    AuthenticationError,
    BookGap,
    ChecksumMismatch,
    ConnectionFailed,
    FairbellError,
    NotFound,
    PermissionDenied,
    ProtocolError,
    StreamClosed,
    TooManyRequests,
    api_error,
)
from .models import Fill, Order, OrderState, Ticker, Trade, TradingStatus
from .scopes import AsyncClosing

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Stream"]

PUBLIC = ("book", "trades", "ticker", "status")
PRIVATE = ("orders", "fills")
# Largest message that is taken, bytes.
_MESSAGE_MAX = 32 * 1024 * 1024
# Symbols of one subscription; the door's bound is 256.
_SYMBOLS_MAX = 200
# Trades and fills that are remembered, so that each is told once.
_SEEN_MAX = 200_000
# Open orders of one message of the door: where a snapshot has as many, more may follow.
_ORDERS_MESSAGE = 20_000
# Fills that the door tells over REST, and in a snapshot.
_FILLS_MAX, _FILLS_SNAPSHOT = 10_000, 100
# Snapshots of a book in a row that may be wrong before the connection is given up.
_WRONG_MAX = 3
# A connection that lasted so long, seconds, was a good one: the next wait is the first again.
_LASTED = 5.0
# Before a private channel whose snapshot could not be had is asked for again, seconds.
_AGAIN = 0.5


class _Op:
    """A message to the door that waits for `ok` or `error`."""

    __slots__ = ("done", "message", "settle")

    def __init__(
        self, message: Callable[[], dict[str, Any]], settle: Callable[[], None] | None = None
    ) -> None:
        self.message = message
        self.settle = settle
        """What is true once it is done."""
        self.done: asyncio.Future[None] | None = None


class _Seen:
    """Keys that have come, the last ones."""

    def __init__(self) -> None:
        self._keys: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: tuple[str, ...]) -> bool:
        return key in self._keys

    def add(self, *key: str) -> bool:
        """Whether it is new."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _SEEN_MAX:
            self._keys.popitem(last=False)
        return True


class Stream(AsyncClosing):
    """A stream; made by :meth:`fairbell.Client.stream`, used with ``async with``.

    ::

        async with client.stream() as stream:
            book = await stream.book("BTCUSD")
            events = stream.events()
            await stream.subscribe("trades", symbols=["BTCUSD"])
            async for event in events: ...
    """

    def __init__(self, client: Client, *, cancel_on_disconnect: bool = False) -> None:
        self._client = client
        self._cancel_on_disconnect = cancel_on_disconnect
        scheme = "wss" if client.url.startswith("https") else "ws"
        self.url = f"{scheme}://{client.url.split('://', 1)[1]}/v1/ws"
        """Where it connects; may be changed before the first subscription."""
        self.books: dict[str, Book] = {}
        """Books subscribed to; each is right as long as its ``ready`` is true."""
        self.tickers: dict[str, Ticker] = {}
        """Last known ticker by symbol."""
        self.statuses: dict[str, TradingStatus] = {}
        """Last known state of trading by symbol."""
        self.orders: dict[str, Order] = {}
        """Open orders by client order id, with the channel ``orders``."""
        self.connected = False
        """There is a connection now."""
        self.connections = 0
        """Connections made."""
        self.resyncs = 0
        """Times that something was missed and fetched again."""
        self.backoff = (0.1, 10.0)
        """First and longest wait between two attempts to connect, seconds."""
        self.silence = 15.0
        """Longest silence of the door, seconds; it sends a heartbeat every 5 s."""
        self._topics: set[tuple[str, str]] = set()
        self._private: set[str] = set()
        self._authenticated = False
        self._unsent: list[_Op] = []
        self._waiting: deque[_Op] = deque()
        self._iterators: list[ev.EventIterator] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._fills = _Seen()
        self._fills_known = False
        self._trades: dict[str, _Seen] = {}
        self._private_seq = {"orders": 0}
        self._opened: set[str] | None = None
        """Client order ids of a snapshot of orders of which more may follow."""
        self._resyncing: dict[str, int] = {}
        self._ws: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()
        self._late = False
        self._failure: FairbellError | None = None
        self._closed = False

    async def close(self) -> None:
        """Ends the stream and its iterators."""
        self._closed = True
        tasks = [*self._helpers, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end(None)

    # What is asked of it.

    def events(self, limit: int = 10_000) -> ev.EventIterator:
        """An iterator over all events from now on, up to ``limit`` of which may wait."""
        self._check()
        iterator = ev.EventIterator(limit)
        self._iterators = [of for of in self._iterators if not of.ended] + [iterator]
        return iterator

    async def subscribe(self, *channels: str, symbols: Iterable[str] = ()) -> None:
        """Subscribes to channels; returns when their snapshots are here.

        :param channels: ``book``, ``trades``, ``ticker`` and ``status`` of ``symbols``; ``orders`` and
            ``fills`` of the client's key.
        """
        symbols = list(symbols)
        public, private = self._channels(channels, symbols)
        if private:
            self._client.need_key()
            await self._authenticate()
        ops: list[_Op] = []
        for start in range(0, len(symbols) if public else 0, _SYMBOLS_MAX):
            some = symbols[start : start + _SYMBOLS_MAX]
            ops.append(self._subscription(public, some))
        if private:
            ops.append(self._subscription(private, []))
        await asyncio.gather(*[self._ask(op) for op in ops])

    async def unsubscribe(self, *channels: str, symbols: Iterable[str] = ()) -> None:
        """No longer hears channels; their books go."""
        symbols = list(symbols)
        public, private = self._channels(channels, symbols)
        gone = {(channel, symbol) for channel in public for symbol in symbols}
        self._topics -= gone
        self._private -= set(private)
        for channel, symbol in gone:
            if channel == "book":
                self.books.pop(symbol, None)
            elif channel == "trades":
                self._trades.pop(symbol, None)
        message = {"op": "unsubscribe", "channels": list(channels), "symbols": symbols}
        await self._ask(_Op(lambda: message))

    async def book(self, symbol: str, timeout: float = 10.0) -> Book:
        """The book of a symbol, subscribed to and complete; it goes on changing by itself."""
        if ("book", symbol) not in self._topics:
            await asyncio.wait_for(self.subscribe("book", symbols=[symbol]), timeout)
        await self.until(lambda: self.books[symbol].ready, timeout)
        return self.books[symbol]

    async def until(self, condition: Callable[[], bool], timeout: float | None = None) -> None:
        """Waits until a condition on the stream's books, orders and so on holds; asks after each message.

        :raises TimeoutError: it does not hold in time (``asyncio.TimeoutError`` before Python 3.11).
        """

        async def wait() -> None:
            while not condition():
                self._check()
                changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._watchers.append(changed)
                await changed

        await asyncio.wait_for(wait(), timeout)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StreamClosed("the stream is closed")

    def _channels(self, channels: tuple[str, ...], symbols: list[str]) -> tuple[list[str], list[str]]:
        self._check()
        for channel in channels:
            if channel not in PUBLIC + PRIVATE:
                raise ValueError(f"no channel {channel!r}; there are {', '.join(PUBLIC + PRIVATE)}")
        public = [channel for channel in channels if channel in PUBLIC]
        if not channels or (public and not symbols):
            raise ValueError("name a channel, and for public ones symbols")
        return public, [channel for channel in channels if channel in PRIVATE]

    def _subscription(self, channels: list[str], symbols: list[str]) -> _Op:
        def settle() -> None:
            if symbols:
                self._topics |= {(channel, symbol) for channel in channels for symbol in symbols}
            else:
                self._private |= set(channels)

        message = {"op": "subscribe", "channels": channels, "symbols": symbols}
        return _Op(lambda: message, settle)

    async def _authenticate(self) -> None:
        if self._authenticated:
            return

        def settle() -> None:
            self._authenticated = True

        await self._ask(_Op(self._auth_message, settle))
        if self._cancel_on_disconnect:
            await self._ask(_Op(_cancels_message))

    def _auth_message(self) -> dict[str, Any]:
        timestamp, nonce, sign = self._client.sign("GET", "/v1/ws")
        parts = {"timestamp": timestamp, "nonce": nonce, "signature": sign}
        return {"op": "auth", "key": self._client.key, **parts}

    async def _ask(self, op: _Op) -> None:
        self._check()
        op.done = asyncio.get_running_loop().create_future()
        self._unsent.append(op)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._ws is not None and self.connected:
            await self._send_unsent(self._ws)
        await op.done

    # Connections.

    async def _run(self) -> None:
        wait, longest = self.backoff
        while True:
            since = time.monotonic()
            try:
                await self._connection()
                reason = "the door closed the connection"
            except (AuthenticationError, PermissionDenied, NotFound, StreamClosed) as error:
                # Another connection would not mend these.
                self._end(error)
                return
            except (FairbellError, websockets.WebSocketException, OSError) as error:
                reason = f"{type(error).__name__}: {error}"
            except asyncio.TimeoutError:
                reason = f"silent for {self.silence} s"
            except Exception as error:
                self._end(StreamClosed(f"{type(error).__name__}: {error}"))
                raise
            if self._closed:
                return
            self._dropped(reason)
            if time.monotonic() - since > _LASTED:
                wait = self.backoff[0]
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, longest)

    async def _connection(self) -> None:
        proxy: Literal[True] | None = None if self._client._local else True
        async with connect(
            self.url, max_size=_MESSAGE_MAX, compression=None, open_timeout=10, proxy=proxy
        ) as ws:
            self._ws = ws
            # What was agreed on, then what waits.
            again: list[_Op] = []
            if self._authenticated:
                again.append(_Op(self._auth_message))
                if self._cancel_on_disconnect:
                    again.append(_Op(_cancels_message))
            for channel in PUBLIC:
                symbols = sorted(symbol for of, symbol in self._topics if of == channel)
                for start in range(0, len(symbols), _SYMBOLS_MAX):
                    some = symbols[start : start + _SYMBOLS_MAX]
                    again.append(self._subscription([channel], some))
            if self._private:
                again.append(self._subscription(sorted(self._private), []))
            self._unsent = again + self._unsent
            self.connected = True
            self.connections += 1
            self._tell(ev.Connected(self.connections))
            await self._send_unsent(ws)
            while True:
                raw = await asyncio.wait_for(ws.recv(), self.silence)
                # Before Python 3.12 a cancellation may be lost there.
                if self._closed:
                    return
                await self._take(wire.parse(raw))
                self._wake()

    async def _send_unsent(self, ws: ClientConnection) -> None:
        while self._unsent and ws is self._ws:
            op = self._unsent.pop(0)
            self._waiting.append(op)
            try:
                await ws.send(json.dumps(op.message()))
            except websockets.ConnectionClosed:
                # The reader sees it, too, and sends again what waits.
                return

    def _dropped(self, reason: str) -> None:
        self._ws, self.connected = None, False
        # Questions of callers are asked again; the others are made anew.
        self._unsent = [op for op in [*self._waiting, *self._unsent] if op.done is not None]
        self._waiting.clear()
        self._resyncing.clear()
        self._opened = None
        for book in self.books.values():
            book.invalidate()
        self._tell(ev.Disconnected(reason))
        self._wake()

    def _end(self, failure: FairbellError | None) -> None:
        self._ws, self.connected = None, False
        self._failure = self._failure or failure
        error = self._failure or StreamClosed("the stream is closed")
        for op in [*self._waiting, *self._unsent]:
            if op.done is not None and not op.done.done():
                op.done.set_exception(error)
        self._waiting.clear()
        self._unsent.clear()
        for book in self.books.values():
            book.invalidate()
        for iterator in self._iterators:
            iterator.end(self._failure)
        self._iterators.clear()
        self._wake()

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _tell(self, event: ev.Event) -> None:
        for iterator in self._iterators:
            iterator.put(event)

    def _resend(self, op: _Op, after: float = 0.0) -> None:
        """Asks for something that nobody waits for, on this connection only."""
        ws = self._ws

        async def send() -> None:
            await asyncio.sleep(after)
            if ws is not None and ws is self._ws:
                self._unsent.append(op)
                await self._send_unsent(ws)

        task = asyncio.create_task(send())
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)

    # Messages.

    async def _take(self, message: dict[str, Any]) -> None:
        channel = wire.text(message, "channel")
        if self._opened is not None and (channel, message.get("type")) != ("orders", "more"):
            # The parts of a snapshot come one behind the other.
            opened, self._opened = self._opened, None
            await self._take_ended(opened)
        if channel == "ok":
            op = self._answered()
            if op.settle is not None:
                op.settle()
            if op.done is not None and not op.done.done():
                op.done.set_result(None)
        elif channel == "error":
            await self._take_error(message)
        elif channel == "book":
            self._take_book(message)
        elif channel == "trades":
            self._take_trades(message)
        elif channel == "ticker":
            if message.get("ticker") is not None:
                ticker = Ticker.read(wire.mapping(message, "ticker"))
                self.tickers[ticker.symbol] = ticker
                self._tell(ev.TickerEvent(ticker))
        elif channel == "status":
            symbol = wire.text(message, "symbol")
            status = models.status(wire.text(message, "status"))
            self.statuses[symbol] = status
            self._tell(ev.StatusEvent(symbol, status))
        elif channel == "orders":
            await self._take_orders(message)
        elif channel == "fills":
            await self._take_fills(message)
        elif channel == "resync_required":
            # Snapshots follow; a book that missed something would see the gap.
            self.resyncs += 1
            self._tell(ev.Resync(wire.optional_text(message, "reason") or "resync_required"))
        # Others, heartbeats among them, say that the door lives, which the read has told.

    def _answered(self) -> _Op:
        if not self._waiting:
            raise ProtocolError("an answer to nothing")
        return self._waiting.popleft()

    async def _take_error(self, message: dict[str, Any]) -> None:
        body = wire.mapping(message, "error")
        error = api_error(wire.text(body, "code"), wire.text(body, "message"))
        if error.code in ("session_down", "busy"):
            # A private channel could not be begun: it is asked for again, by the same operation.
            self._resend(self._answered(), _AGAIN)
            return
        if error.code == "timeout":
            raise error
        op = self._answered()
        if error.code == "late_timestamp":
            # Once more, on a new connection, by the door's clock.
            if self._late:
                raise error
            self._late = True
            await self._client.set_clock()
            self._waiting.appendleft(op)
            raise ConnectionFailed(str(error))
        if isinstance(error, TooManyRequests):
            await asyncio.sleep(_AGAIN)
            self._waiting.appendleft(op)
            raise ConnectionFailed(str(error))
        if op.done is None:
            raise error
        if not op.done.done():
            op.done.set_exception(error)

    def _take_book(self, message: dict[str, Any]) -> None:
        symbol = wire.text(message, "symbol")
        snapshot = message.get("type") == "snapshot"
        book = self.books.get(symbol)
        if book is None:
            if not snapshot:
                return
            book = self.books[symbol] = Book(symbol)
        elif not snapshot and not book.ready:
            # A snapshot is on its way.
            return
        try:
            done = book.apply(message)
        except (BookGap, ChecksumMismatch) as error:
            self.resyncs += 1
            wrong = self._resyncing.get(symbol, 0) + 1
            if wrong > _WRONG_MAX:
                raise
            self._resyncing[symbol] = wrong
            self._tell(ev.Resync(str(error), symbol))
            self._resend(self._subscription(["book"], [symbol]))
            return
        if done is not Applied.OLD:
            if done is Applied.UPDATE:
                self._resyncing.pop(symbol, None)
            snapshot = done is Applied.SNAPSHOT
            self._tell(ev.BookChanged(symbol, book.seq, snapshot, *book.changes, book.time_ns))

    def _take_trades(self, message: dict[str, Any]) -> None:
        symbol = wire.text(message, "symbol")
        known = symbol in self._trades
        seen = self._trades.setdefault(symbol, _Seen())
        snapshot = message.get("type") == "snapshot"
        if snapshot:
            trades = [Trade.read(of) for of in reversed(models.objects(message, "trades"))]
        else:
            trades = [Trade.read(wire.mapping(message, "trade"))]
        keys = [(trade.trade_id, str(trade.broken)) for trade in trades]
        if snapshot and known and len(seen) and keys and not any(key in seen for key in keys):
            self.resyncs += 1
            self._tell(ev.Resync("trades before the snapshot are not known", symbol))
        for key, trade in zip(keys, trades, strict=True):
            if seen.add(*key):
                self._tell(ev.TradeEvent(symbol, trade, snapshot))

    async def _take_orders(self, message: dict[str, Any]) -> None:
        seq = wire.integer(message, "seq")
        kind = message.get("type")
        if kind not in ("snapshot", "more"):
            order = Order.read(wire.mapping(message, "order"))
            # The snapshot has it already; but what a gateway refused has the number of the message before.
            if seq > self._private_seq["orders"] or order.state is OrderState.REJECTED:
                self._put(order, snapshot=False)
            return
        orders = [Order.read(of) for of in models.objects(message, "orders")]
        opened = {order.client_order_id for order in orders}
        if kind == "more":
            if self._opened is not None:
                self._opened |= opened
        elif len(orders) >= _ORDERS_MESSAGE:
            self._opened = opened
        else:
            await self._take_ended(opened)
        for order in orders:
            if self.orders.get(order.client_order_id) != order:
                self._put(order, snapshot=True)
        self._private_seq["orders"] = seq

    async def _take_ended(self, opened: set[str]) -> None:
        """Asks what became of those that were open and are not."""
        for client_order_id in [of for of in self.orders if of not in opened]:
            try:
                self._put(await self._client.order(client_order_id), snapshot=True)
            except NotFound:
                del self.orders[client_order_id]

    def _put(self, order: Order, *, snapshot: bool) -> None:
        if order.state.is_over:
            self.orders.pop(order.client_order_id, None)
        else:
            self.orders[order.client_order_id] = order
        self._tell(ev.OrderEvent(order, snapshot))

    async def _take_fills(self, message: dict[str, Any]) -> None:
        if message.get("type") == "snapshot":
            fills = [Fill.read(of) for of in models.objects(message, "fills")]
            keys = [(fill.trade_id, fill.order_id) for fill in fills]
            full = len(fills) >= _FILLS_SNAPSHOT and not any(key in self._fills for key in keys)
            if self._fills_known and full:
                fills = await self._client.fills(_FILLS_MAX)
            for fill in reversed(fills):
                # What was before the first snapshot is history.
                if self._fills.add(fill.trade_id, fill.order_id) and self._fills_known:
                    self._tell(ev.FillEvent(fill))
            self._fills_known = True
        elif message.get("broken") is not None:
            right = message.get("corrected")
            corrected = None if right is None else Fill.read(wire.mapping(message, "corrected"))
            self._tell(ev.FillBroken(wire.text(message, "broken"), corrected))
        else:
            fill = Fill.read(wire.mapping(message, "fill"))
            if self._fills.add(fill.trade_id, fill.order_id):
                self._tell(ev.FillEvent(fill))


def _cancels_message() -> dict[str, Any]:
    return {"op": "cancel_on_disconnect", "enabled": True}
