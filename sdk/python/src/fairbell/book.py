"""A book that is kept from a snapshot and the updates behind it.

Rules of the channel ``book`` (docs/web.md): an update applies when its ``prev_seq`` is the ``seq`` of the
book; one whose ``seq`` is not above the book's is in the snapshot already and is passed over; anything
else is a gap. Quantities are absolute, 0 takes a level away. ``checksum`` is compared each time.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from . import models, wire
from .errors import BookGap, ChecksumMismatch, ProtocolError
from .models import Level

__all__ = ["Applied", "Book", "checksum"]

LEVELS_MAX = 10_000
"""Levels of a side that are kept at most; the door tells 500."""
CHECKED = 10
"""Levels of a side that the checksum covers."""


class Applied(Enum):
    """What a message did to a book."""

    SNAPSHOT = "snapshot"
    UPDATE = "update"
    OLD = "old"
    """Nothing: the book has it already."""


def _digits(value: Decimal) -> str:
    return "".join(map(str, value.as_tuple().digits)).lstrip("0")


def checksum(asks: Iterable[Level], bids: Iterable[Level]) -> int:
    """CRC32 of the ten best asks, then the ten best bids: digits of price and quantity as written.

    The levels have to be decimals as the door wrote them, trailing zeros included.
    """
    parts: list[str] = []
    for side in (asks, bids):
        for place, (price, qty) in enumerate(side):
            if place >= CHECKED:
                break
            parts += (_digits(price), _digits(qty))
    return zlib.crc32("".join(parts).encode())


class _Half:
    """One side, by price from low to high."""

    __slots__ = ("best_is_high", "prices", "qty")

    def __init__(self, best_is_high: bool) -> None:
        self.best_is_high = best_is_high
        self.prices: list[Decimal] = []
        self.qty: dict[Decimal, Level] = {}

    def set(self, level: Level) -> None:
        """Absolute quantity of a price."""
        known = level.price in self.qty
        if level.qty == 0:
            if known:
                del self.qty[level.price]
                del self.prices[bisect_left(self.prices, level.price)]
            return
        if not known:
            if len(self.prices) >= LEVELS_MAX:
                raise ProtocolError(f"book: more than {LEVELS_MAX} levels")
            insort(self.prices, level.price)
        self.qty[level.price] = level

    def levels(self, depth: int) -> list[Level]:
        """The best levels, best first."""
        if depth <= 0:
            return []
        chosen = self.prices[: -depth - 1 : -1] if self.best_is_high else self.prices[:depth]
        return [self.qty[price] for price in chosen]


class Book:
    """Levels of an instrument, best first, as they stood after message ``seq`` of the feed."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.seq = 0
        """Number of the feed's message that the book stands after."""
        self.time_ns: int | None = None
        """Time of that message, ns since midnight UTC; ``None``: it was not told."""
        self.ready = False
        """A snapshot has come, and nothing is missing behind it."""
        self.changes: tuple[tuple[Level, ...], tuple[Level, ...]] = ((), ())
        """Bids and asks of the last message that was applied: absolute quantities, 0 of a level that went."""
        self._bids = _Half(best_is_high=True)
        self._asks = _Half(best_is_high=False)

    def bids(self, depth: int = LEVELS_MAX) -> list[Level]:
        """The best bids, best first."""
        return self._bids.levels(depth)

    def asks(self, depth: int = LEVELS_MAX) -> list[Level]:
        """The best asks, best first."""
        return self._asks.levels(depth)

    @property
    def best_bid(self) -> Level | None:
        """The highest bid."""
        return next(iter(self.bids(1)), None)

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask."""
        return next(iter(self.asks(1)), None)

    @property
    def mid(self) -> Decimal | None:
        """Half way between the best prices."""
        bid, ask = self.best_bid, self.best_ask
        return None if bid is None or ask is None else (bid.price + ask.price) / 2

    def checksum(self) -> int:
        """The checksum of its best levels."""
        return checksum(self.asks(CHECKED), self.bids(CHECKED))

    def copy(self) -> Book:
        """A book that stays as this one is now."""
        copied = Book(self.symbol)
        copied.seq, copied.time_ns, copied.ready = self.seq, self.time_ns, self.ready
        copied.changes = self.changes
        for of, to in ((self._bids, copied._bids), (self._asks, copied._asks)):
            to.prices, to.qty = list(of.prices), dict(of.qty)
        return copied

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Book):
            return NotImplemented
        mine = (self.symbol, self.seq, self.bids(), self.asks())
        return mine == (other.symbol, other.seq, other.bids(), other.asks())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = f"{len(self._bids.prices)} bids, {len(self._asks.prices)} asks"
        return f"<Book {self.symbol} seq {self.seq}: {sizes}>"

    def invalidate(self) -> None:
        """The book is not to be trusted until the next snapshot."""
        self.ready = False

    def apply(self, message: Mapping[str, Any], *, check: bool = True) -> Applied:
        """Takes a snapshot or an update.

        :raises BookGap: the update does not follow the book.
        :raises ChecksumMismatch: the book is not the one the door has.
        :raises ProtocolError: the message is none of the channel.

        After an exception ``ready`` is false, until the next snapshot.
        """
        try:
            return self._apply(message, check)
        except Exception:
            self.ready = False
            raise

    def _apply(self, message: Mapping[str, Any], check: bool) -> Applied:
        kind, symbol = wire.text(message, "type"), wire.text(message, "symbol")
        if symbol != self.symbol:
            raise ProtocolError(f"symbol: {self.symbol} expected, got {symbol[:80]!r}")
        seq, due = wire.integer(message, "seq"), wire.integer(message, "checksum")
        time_ns = None if message.get("time_ns") is None else wire.integer(message, "time_ns")
        bids, asks = (
            tuple(models.level(of) for of in wire.array(message, side)) for side in ("bids", "asks")
        )
        if kind == "snapshot":
            self._bids, self._asks = _Half(best_is_high=True), _Half(best_is_high=False)
            done = Applied.SNAPSHOT
        elif kind == "update":
            prev = wire.integer(message, "prev_seq")
            # What follows counts whatever its number: numbers begin anew with each trading day.
            if not self.ready or prev != self.seq:
                if self.ready and seq <= self.seq:
                    return Applied.OLD
                raise BookGap(f"{symbol}: the book stands at {self.seq}, the update follows {prev}")
            done = Applied.UPDATE
        else:
            raise ProtocolError(f"type: snapshot or update expected, got {kind[:80]!r}")
        for half, levels in zip((self._bids, self._asks), (bids, asks), strict=True):
            for level in levels:
                half.set(level)
        if check and self.checksum() != due:
            raise ChecksumMismatch(f"{symbol}: checksum {self.checksum()} at {seq}, due {due}")
        self.seq, self.time_ns, self.ready, self.changes = seq, time_ns, True, (bids, asks)
        return done
