"""What a stream tells, and the iterators that hand it out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from .errors import FairbellError, SlowConsumer
from .models import Fill, Level, Order, Ticker, Trade, TradingStatus

__all__ = [
    "BookChanged",
    "Connected",
    "Disconnected",
    "Event",
    "EventIterator",
    "FillBroken",
    "FillEvent",
    "OrderEvent",
    "Resync",
    "StatusEvent",
    "TickerEvent",
    "TradeEvent",
]


@dataclass(frozen=True, slots=True)
class BookChanged:
    """A book of :attr:`fairbell.Stream.books` has changed."""

    symbol: str
    seq: int
    snapshot: bool
    """The whole book came anew: at first, or after a gap or a new connection."""
    bids: tuple[Level, ...] = ()
    """All bids of a snapshot; else those that changed, with absolute quantities, 0 where a level is gone."""
    asks: tuple[Level, ...] = ()
    """Likewise the asks."""
    time_ns: int | None = None
    """When the exchange made the last change, ns since midnight UTC; ``None``: it was not told."""


@dataclass(frozen=True, slots=True)
class TradeEvent:
    """A public trade."""

    symbol: str
    trade: Trade
    snapshot: bool
    """It was traded before, or while there was no connection."""


@dataclass(frozen=True, slots=True)
class TickerEvent:
    """Best prices or the last trade have changed."""

    ticker: Ticker


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """The state of trading has changed."""

    symbol: str
    status: TradingStatus


@dataclass(frozen=True, slots=True)
class OrderEvent:
    """An order of the account has changed."""

    order: Order
    snapshot: bool
    """It was so already when the snapshot was made, or changed while there was no connection."""


@dataclass(frozen=True, slots=True)
class FillEvent:
    """A trade of the account; each is told once, those of a time without connection included."""

    fill: Fill


@dataclass(frozen=True, slots=True)
class FillBroken:
    """A trade of the account was broken or corrected."""

    trade_id: str
    corrected: Fill | None


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream has a connection; ``times`` counts them."""

    times: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is gone; the stream makes another one."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resync:
    """Something was missed and is fetched again; of a book with ``symbol``, else of all channels."""

    reason: str
    symbol: str | None = None


Event = (
    BookChanged
    | TradeEvent
    | TickerEvent
    | StatusEvent
    | OrderEvent
    | FillEvent
    | FillBroken
    | Connected
    | Disconnected
    | Resync
)


class EventIterator(AsyncIterator[Event]):
    """Events from its making on; ends when the stream is closed, raises what made the stream fail.

    When ``limit`` events wait it takes no more and raises :class:`~fairbell.errors.SlowConsumer` behind
    them; the stream and its books go on.
    """

    def __init__(self, limit: int) -> None:
        self._waiting: deque[Event] = deque()
        self._limit = limit
        self._wake: asyncio.Future[None] | None = None
        self._end: FairbellError | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        """It takes no more."""
        return self._ended

    def put(self, event: Event) -> None:
        """Takes an event."""
        if self._ended:
            return
        if len(self._waiting) >= self._limit:
            self.end(SlowConsumer(f"{self._limit} events were waiting"))
            return
        self._waiting.append(event)
        self._ring()

    def end(self, error: FairbellError | None) -> None:
        """Nothing comes behind what waits, but this error."""
        if not self._ended:
            self._ended, self._end = True, error
            self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def __aiter__(self) -> EventIterator:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._ended:
                if self._end is not None:
                    raise self._end
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return self._waiting.popleft()

    def close(self) -> None:
        """No more events are wanted."""
        self._waiting.clear()
        self.end(None)
