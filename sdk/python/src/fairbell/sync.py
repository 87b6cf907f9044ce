"""The client without asyncio: the same methods, which return when they are done.

An event loop runs in a thread of its own. Objects may be used from several threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, TypeVar

from . import client as aio
from . import events as ev
from .book import Book
from .errors import StreamClosed
from .models import (
    Fill,
    Instrument,
    Order,
    Position,
    Side,
    Ticker,
    TimeInForce,
    Trade,
    TradingStatus,
)
from .stream import Stream as AsyncStream
from .wire import Number

__all__ = ["Client", "Stream"]

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fairbell", daemon=True)
        self._thread.start()

    def run(self, of: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs a coroutine there, and waits for its result."""
        if threading.current_thread() is self._thread:
            of.close()
            raise RuntimeError("not from the client's own thread")
        if self._loop.is_closed():
            of.close()
            raise StreamClosed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(of, self._loop)
        try:
            return future.result(timeout)
        except FutureTimeout:
            future.cancel()
            raise
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Ends the thread."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _made(url: str, key: str | None, secret: str | None, **how: float) -> aio.Client:
    return aio.Client(url, key, secret, **how)


class Client:
    """As :class:`fairbell.Client`, without asyncio."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        secret: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 10.0,
    ) -> None:
        self._loop = _Loop()
        try:
            made = _made(url, key, secret, timeout=timeout, patience=patience)
            self._client = self._loop.run(made)
        except BaseException:
            self._loop.stop()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections and its thread."""
        try:
            self._loop.run(self._client.close())
        except StreamClosed:
            return
        self._loop.stop()

    @property
    def url(self) -> str:
        """Address of the door."""
        return self._client.url

    @property
    def credits_left(self) -> int | None:
        """Requests that the key may still make at once, as last told."""
        return self._client.credits_left

    def time_ms(self) -> int:
        """The door's clock, ms since the epoch."""
        return self._loop.run(self._client.time_ms())

    def instruments(self) -> dict[str, Instrument]:
        """All instruments by symbol."""
        return self._loop.run(self._client.instruments())

    def book(self, symbol: str, depth: int = 100) -> Book:
        """The book as it stands."""
        return self._loop.run(self._client.book(symbol, depth))

    def trades(self, symbol: str, limit: int = 100) -> list[Trade]:
        """The last trades, newest first."""
        return self._loop.run(self._client.trades(symbol, limit))

    def ticker(self, symbol: str) -> Ticker | None:
        """Best prices and the last trade."""
        return self._loop.run(self._client.ticker(symbol))

    def status(self, symbol: str) -> TradingStatus:
        """State of trading."""
        return self._loop.run(self._client.status(symbol))

    def new_order(
        self,
        symbol: str,
        side: Side | str,
        qty: Number,
        price: Number | None = None,
        *,
        time_in_force: TimeInForce | str = TimeInForce.DAY,
        post_only: bool = False,
        client_order_id: str | None = None,
    ) -> Order:
        """Enters an order; see :meth:`fairbell.Client.new_order`."""
        asked = self._client.new_order(
            symbol,
            side,
            qty,
            price,
            time_in_force=time_in_force,
            post_only=post_only,
            client_order_id=client_order_id,
        )
        return self._loop.run(asked)

    def replace(
        self,
        client_order_id: str,
        qty: Number,
        price: Number,
        *,
        new_client_order_id: str | None = None,
    ) -> Order:
        """Puts an order of another id in the place of one; see :meth:`fairbell.Client.replace`."""
        asked = self._client.replace(client_order_id, qty, price, new_client_order_id=new_client_order_id)
        return self._loop.run(asked)

    def cancel(self, client_order_id: str) -> Order:
        """Cancels an order."""
        return self._loop.run(self._client.cancel(client_order_id))

    def cancel_all(self, symbol: str | None = None) -> int:
        """Cancels all orders of the account, or those of one symbol; how many."""
        return self._loop.run(self._client.cancel_all(symbol))

    def cancel_after(self, timeout: float | None) -> None:
        """Dead man's switch; see :meth:`fairbell.Client.cancel_after`."""
        self._loop.run(self._client.cancel_after(timeout))

    def order(self, client_order_id: str) -> Order:
        """An order, whatever became of it."""
        return self._loop.run(self._client.order(client_order_id))

    def open_orders(self) -> list[Order]:
        """Orders of the account that are open, oldest first."""
        return self._loop.run(self._client.open_orders())

    def positions(self) -> dict[str, Position]:
        """Positions by symbol."""
        return self._loop.run(self._client.positions())

    def fills(self, limit: int = 100) -> list[Fill]:
        """The account's last trades, newest first."""
        return self._loop.run(self._client.fills(limit))

    def stream(self, *, cancel_on_disconnect: bool = False) -> Stream:
        """A WebSocket stream."""
        return Stream(self, cancel_on_disconnect=cancel_on_disconnect)


class Stream:
    """As :class:`fairbell.Stream`, without asyncio; books are copies that stay as they are."""

    def __init__(self, client: Client, *, cancel_on_disconnect: bool = False) -> None:
        self._loop = client._loop

        async def made() -> AsyncStream:
            return client._client.stream(cancel_on_disconnect=cancel_on_disconnect)

        self._stream = self._loop.run(made())

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream."""
        self._loop.run(self._stream.close())

    def subscribe(self, *channels: str, symbols: Iterable[str] = ()) -> None:
        """Subscribes to channels; returns when their snapshots are here."""
        self._loop.run(self._stream.subscribe(*channels, symbols=list(symbols)))

    def unsubscribe(self, *channels: str, symbols: Iterable[str] = ()) -> None:
        """No longer hears channels."""
        self._loop.run(self._stream.unsubscribe(*channels, symbols=list(symbols)))

    def book(self, symbol: str, timeout: float = 10.0) -> Book:
        """A copy of the book of a symbol, as it stands now; subscribes to it the first time."""

        async def copied() -> Book:
            return (await self._stream.book(symbol, timeout)).copy()

        return self._loop.run(copied())

    def orders(self) -> dict[str, Order]:
        """Open orders by client order id, with the channel ``orders``."""

        async def copied() -> dict[str, Order]:
            return dict(self._stream.orders)

        return self._loop.run(copied())

    def events(self, timeout: float | None = None, limit: int = 10_000) -> Iterator[ev.Event]:
        """Events from now on; ends with the stream, or when none comes within ``timeout`` seconds."""

        async def made() -> ev.EventIterator:
            return self._stream.events(limit)

        iterator = self._loop.run(made())
        return self._events(iterator, timeout)

    def _events(self, iterator: ev.EventIterator, timeout: float | None) -> Iterator[ev.Event]:
        async def following() -> ev.Event | None:
            try:
                return await asyncio.wait_for(iterator.__anext__(), timeout)
            except (StopAsyncIteration, asyncio.TimeoutError):
                return None

        async def closed() -> None:
            iterator.close()

        try:
            while (event := self._loop.run(following())) is not None:
                yield event
        finally:
            try:
                self._loop.run(closed())
            except StreamClosed:
                pass  # With the client.
