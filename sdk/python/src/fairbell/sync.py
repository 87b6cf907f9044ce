"""The client without asyncio: the same methods, which return when they are done.

An event loop runs in a thread of its own. Objects may be used from several threads.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import client as aio
from . import events as ev
from .book import Book
from .errors import StreamClosed
from .models import Order
from .scopes import Closing
from .stream import Stream as AsyncStream

__all__ = ["Client", "Stream"]

T = TypeVar("T")
P = ParamSpec("P")


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


def _waiting(
    method: Callable[Concatenate[aio.Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """A method of the asyncio client that returns when it is done."""

    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._client, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Client(Closing):
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

    time_ms = _waiting(aio.Client.time_ms)
    instruments = _waiting(aio.Client.instruments)
    book = _waiting(aio.Client.book)
    trades = _waiting(aio.Client.trades)
    ticker = _waiting(aio.Client.ticker)
    status = _waiting(aio.Client.status)
    new_order = _waiting(aio.Client.new_order)
    replace = _waiting(aio.Client.replace)
    cancel = _waiting(aio.Client.cancel)
    cancel_all = _waiting(aio.Client.cancel_all)
    cancel_after = _waiting(aio.Client.cancel_after)
    order = _waiting(aio.Client.order)
    open_orders = _waiting(aio.Client.open_orders)
    positions = _waiting(aio.Client.positions)
    fills = _waiting(aio.Client.fills)

    def stream(self, *, cancel_on_disconnect: bool = False) -> Stream:
        """A WebSocket stream."""
        return Stream(self, cancel_on_disconnect=cancel_on_disconnect)


class Stream(Closing):
    """As :class:`fairbell.Stream`, without asyncio; books are copies that stay as they are."""

    def __init__(self, client: Client, *, cancel_on_disconnect: bool = False) -> None:
        self._loop = client._loop

        async def made() -> AsyncStream:
            return client._client.stream(cancel_on_disconnect=cancel_on_disconnect)

        self._stream = self._loop.run(made())

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
