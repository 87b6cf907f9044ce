"""The book against a naive model, and against the book class of another library."""

from __future__ import annotations

import random
import zlib
from decimal import Decimal
from typing import Any

import pytest
from ccxt.async_support.base.ws.order_book import OrderBook as OtherBook
from hypothesis import given
from hypothesis import strategies as st

from fairbell import Applied, Book, BookGap, ChecksumMismatch, Level, ProtocolError, checksum

Levels = dict[str, str]


def naive_checksum(bids: Levels, asks: Levels) -> int:
    """By the text of docs/web.md, from the texts on the wire."""
    best_asks = sorted(asks.items(), key=lambda of: Decimal(of[0]))[:10]
    best_bids = sorted(bids.items(), key=lambda of: -Decimal(of[0]))[:10]
    text = ""
    for price, qty in best_asks + best_bids:
        for number in (price, qty):
            text += number.replace(".", "").lstrip("0")
    return zlib.crc32(text.encode())


class Venue:
    """A model of the door: a book of texts, and the messages of its changes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sides: tuple[Levels, Levels] = ({}, {})
        self.seq = 1

    def _price(self, side: int) -> str:
        tick = self.rng.randint(1, 30)
        units = 1_000_000 + 5 * tick if side else 1_000_000 - 5 * tick
        whole, part = divmod(units, 10_000)
        return f"{whole}.{part:04}" if part else str(whole)

    def update(self) -> dict[str, Any]:
        changes: tuple[list[list[str]], list[list[str]]] = ([], [])
        for side, levels in enumerate(self.sides):
            for price in {self._price(side) for _ in range(self.rng.randint(0, 3))}:
                lots = self.rng.randint(0, 4)
                if lots == 0 and price not in levels:
                    continue
                qty = "0" if lots == 0 else ["0.5", "1", "2.25", "0.00000001"][lots - 1]
                changes[side].append([price, qty])
                if lots == 0:
                    del levels[price]
                else:
                    levels[price] = qty
        prev, self.seq = self.seq, self.seq + self.rng.randint(1, 5)
        message = self._message("update", changes)
        message["prev_seq"] = prev
        return message

    def snapshot(self) -> dict[str, Any]:
        return self._message("snapshot", tuple([list(of) for of in side.items()] for side in self.sides))

    def _message(self, kind: str, sides: tuple[Any, ...]) -> dict[str, Any]:
        return {
            "channel": "book",
            "type": kind,
            "symbol": "AAA",
            "seq": self.seq,
            "bids": sides[0],
            "asks": sides[1],
            "checksum": naive_checksum(*self.sides),
        }

    def levels(self) -> tuple[list[Level], list[Level]]:
        bids, asks = ([Level(Decimal(p), Decimal(q)) for p, q in side.items()] for side in self.sides)
        return sorted(bids, reverse=True), sorted(asks)


@given(st.integers(0, 2**32), st.integers(0, 40), st.booleans())
def test_a_rebuilt_book_is_the_model_book(seed: int, joins_at: int, loses: bool) -> None:
    """It joins late, hears old updates again, and loses one: then it says so until the next snapshot."""
    venue, book = Venue(seed), Book("AAA")
    past: list[dict[str, Any]] = [venue.update() for _ in range(joins_at)]
    assert book.apply(venue.snapshot()) is Applied.SNAPSHOT
    for message in past[-3:]:
        assert book.apply(message) is Applied.OLD
    for step in range(30):
        message = venue.update()
        if loses and step == 15:
            following = venue.update()
            with pytest.raises(BookGap):
                book.apply(following)
            assert not book.ready
            with pytest.raises(BookGap):
                book.apply(venue.update())
            assert book.apply(venue.snapshot()) is Applied.SNAPSHOT
        else:
            assert book.apply(message) is Applied.UPDATE
        assert (book.bids(), book.asks()) == venue.levels()
        assert (book.seq, book.ready) == (venue.seq, True)
        assert book.bids(2) == book.bids()[:2]
        assert book.best_bid == next(iter(book.bids()), None)
        assert book.copy() == book


def test_the_book_of_another_library_agrees() -> None:
    print("seed 28")
    venue, book = Venue(28), Book("AAA")
    book.apply(venue.snapshot())
    other = OtherBook({})
    for _ in range(1000):
        message = venue.update()
        book.apply(message)
        for side in ("bids", "asks"):
            for price, qty in message[side]:
                other[side].store(float(price), float(qty))
        for side, levels in (("bids", book.bids()), ("asks", book.asks())):
            assert [list(of) for of in other[side]] == [[float(p), float(q)] for p, q in levels]


def test_the_checksum_is_that_of_the_documented_example() -> None:
    """The vector of the door's own test: 100 and 0.1, 100.0500 and 2; 99.9900 and 5."""
    asks = [Level(Decimal("100"), Decimal("0.1")), Level(Decimal("100.0500"), Decimal("2"))]
    bids = [Level(Decimal("99.9900"), Decimal("5"))]
    assert checksum(asks, bids) == zlib.crc32(b"10011000500" + b"2" + b"9999005")
    # Trailing zeros count: they are written.
    bids = [Level(Decimal("99.99"), Decimal("5"))]
    assert checksum(asks, bids) != zlib.crc32(b"10011000500" + b"2" + b"9999005")


@given(st.integers(0, 2**32), st.data())
def test_a_changed_level_is_found_by_the_checksum(seed: int, data: st.DataObject) -> None:
    venue, book = Venue(seed), Book("AAA")
    for _ in range(10):
        venue.update()
    message = venue.snapshot()
    side = data.draw(st.sampled_from([of for of in ("bids", "asks") if message[of]] or [""]))
    if not side:
        return
    best = sorted(message[side], key=lambda of: Decimal(of[0]), reverse=side == "bids")[:10]
    place = message[side].index(data.draw(st.sampled_from(best)))
    message[side][place][1] = "77"
    with pytest.raises(ChecksumMismatch):
        book.apply(message)
    assert not book.ready
    # Deliberately not looked at.
    assert book.apply(message, check=False) is Applied.SNAPSHOT


def test_numbers_that_begin_anew_with_a_day_are_followed() -> None:
    venue, book = Venue(1), Book("AAA")
    venue.seq = 1_000_000
    book.apply(venue.snapshot())
    message = venue.update()
    message["seq"] = venue.seq = 3
    assert book.apply(message) is Applied.UPDATE
    assert book.apply(venue.update()) is Applied.UPDATE


GOOD = Venue(7).update()


@given(
    st.sampled_from(sorted(GOOD)),
    st.none()
    | st.integers()
    | st.text()
    | st.lists(st.lists(st.text(max_size=5) | st.integers(), max_size=3), max_size=3)
    | st.just([["1", "-1"]])
    | st.just([["1" * 90, "1"]])
    | st.dictionaries(st.text(), st.text()),
)
def test_what_is_no_book_message_is_refused(field: str, value: object) -> None:
    book = Book("AAA")
    venue = Venue(7)
    book.apply(venue.snapshot())
    before = (book.bids(), book.asks(), book.seq)
    try:
        book.apply({**venue.update(), field: value})
    except ProtocolError:
        assert (book.bids(), book.asks(), book.seq) == before, "whole or not at all"
    except (BookGap, ChecksumMismatch):
        assert not book.ready


def test_a_book_is_bounded() -> None:
    levels = [[str(price), "1"] for price in range(1, 10_003)]
    message = {**Venue(1).snapshot(), "bids": levels}
    with pytest.raises(ProtocolError, match="more than 10000"):
        Book("AAA").apply(message)
