"""Market data in the form of hftbacktest: events with the exchange's and the local time.

::

    python -m fairbell.hftbacktest BTCUSD --out btcusd.npz --duration 600

    async with fairbell.Client.from_env() as client:
        recording = await hftbacktest.record(client, "BTCUSD", duration=600)
        recording.save("btcusd.npz")

The file is what ``BacktestAsset().data([...])`` of hftbacktest reads. Each book begins with a snapshot, and
a new one follows after a gap or a new connection; the door joins what changes within 10 ms, so an event's
exchange time is that of the last change in it. Prices and quantities are floats there.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from bisect import bisect_right
from collections.abc import Iterable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from . import events as ev
from .client import Client
from .errors import ProtocolError
from .models import Level, Side
from .times import epoch_ns

__all__ = ["EVENT_DTYPE", "Recording", "record"]

# As hftbacktest's manual, "Data", tells them.
DEPTH, TRADE, DEPTH_CLEAR, DEPTH_SNAPSHOT = 1, 2, 3, 4
EXCH, LOCAL, BUY, SELL = 1 << 31, 1 << 30, 1 << 29, 1 << 28

EVENT_DTYPE = np.dtype(
    [
        ("ev", "u8"),
        ("exch_ts", "i8"),
        ("local_ts", "i8"),
        ("px", "f8"),
        ("qty", "f8"),
        ("order_id", "u8"),
        ("ival", "i8"),
        ("fval", "f8"),
    ],
    align=True,
)
"""An event of hftbacktest 2."""


class _Row(NamedTuple):
    kind: int
    exch_ns: int
    local_ns: int
    price: float
    qty: float


class Recording:
    """Events of one instrument, as they were heard.

    :param symbol: the instrument; events of others are passed over.
    """

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self._rows: list[_Row] = []
        self.snapshots = 0
        """Times that the book came whole."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, event: ev.Event, local_ns: int | None = None) -> None:
        """Takes an event of a :class:`fairbell.Stream`; others than books and trades are passed over.

        :param local_ns: when it was heard, ns since the epoch; by default now.
        :raises ProtocolError: the door does not tell the book's times.
        """
        local = time.time_ns() if local_ns is None else local_ns
        if isinstance(event, ev.BookChanged) and event.symbol == self.symbol:
            if event.time_ns is None:
                raise ProtocolError(f"{event.symbol}: the door tells no time of its books")
            exch = epoch_ns(event.time_ns, local)
            kind = DEPTH
            if event.snapshot:
                kind, exch = DEPTH_SNAPSHOT, max(exch, self._last_exch())
                self.snapshots += 1
                for side in (BUY, SELL):
                    self._rows.append(_Row(DEPTH_CLEAR | side, exch, local, float("nan"), 0.0))
            self._levels(kind | BUY, exch, local, event.bids)
            self._levels(kind | SELL, exch, local, event.asks)
        elif isinstance(event, ev.TradeEvent) and event.symbol == self.symbol:
            trade = event.trade
            # What was traded before the recording began is no event of it.
            if trade.broken or (event.snapshot and self.snapshots <= 1):
                return
            side = {Side.BUY: BUY, Side.SELL: SELL, None: 0}[trade.aggressor]
            at = epoch_ns(trade.time_ns, local)
            self._rows.append(_Row(TRADE | side, at, local, float(trade.price), float(trade.qty)))

    def _last_exch(self) -> int:
        return self._rows[-1].exch_ns if self._rows else 0

    def _levels(self, kind: int, exch: int, local: int, levels: Iterable[Level]) -> None:
        for price, qty in levels:
            self._rows.append(_Row(kind, exch, local, float(price), float(qty)))

    def array(self, base_latency_ns: int = 0) -> Any:
        """The events as an array of :data:`EVENT_DTYPE`, ordered as hftbacktest wants them.

        Events in the order in which they were heard, each at the exchange and here. One that the exchange
        made before another one that was heard sooner is two: at the exchange, in its place by time, and here.
        Where this machine's clock is behind the exchange's, all local times are moved on by as much, so that
        nothing is heard before it happened.

        :param base_latency_ns: the least latency then, ns.
        """
        late = min((row.local_ns - row.exch_ns for row in self._rows), default=0)
        shift = base_latency_ns - late if late < 0 else 0
        here: list[_Row] = []
        # Exchange times of what is in `here` at both places, and what belongs before a place of it.
        times: list[int] = []
        places: list[int] = []
        before: dict[int, list[_Row]] = {}
        for row in sorted(self._rows, key=lambda of: of.local_ns):
            row = row._replace(local_ns=row.local_ns + shift)
            if times and row.exch_ns < times[-1]:
                found = bisect_right(times, row.exch_ns)
                before.setdefault(places[found], []).append(row._replace(kind=row.kind | EXCH))
                here.append(row._replace(kind=row.kind | LOCAL))
            else:
                times.append(row.exch_ns)
                places.append(len(here))
                here.append(row._replace(kind=row.kind | EXCH | LOCAL))
        ordered: list[_Row] = []
        for place, row in enumerate(here):
            ordered += sorted(before.get(place, []), key=lambda of: of.exch_ns)
            ordered.append(row)
        made = np.zeros(len(ordered), EVENT_DTYPE)
        for field, column in (
            ("ev", "kind"),
            ("exch_ts", "exch_ns"),
            ("local_ts", "local_ns"),
            ("px", "price"),
            ("qty", "qty"),
        ):
            made[field] = [getattr(row, column) for row in ordered]
        return made

    def save(self, path: str | PathLike[str], base_latency_ns: int = 0) -> None:
        """Writes the events into an ``.npz`` file; see :meth:`array`."""
        np.savez_compressed(path, data=self.array(base_latency_ns))


async def record(
    client: Client, symbol: str, duration: float | None = None, recording: Recording | None = None
) -> Recording:
    """Records an instrument for ``duration`` seconds, or until the task is cancelled.

    :param recording: what events are added to, to be looked at meanwhile; by default a new one.
    """
    recording = Recording(symbol) if recording is None else recording

    async def follow() -> None:
        async with client.stream() as stream:
            events = stream.events(limit=1_000_000)
            await stream.subscribe("book", "trades", symbols=[symbol])
            async for event in events:
                recording.add(event)

    following = asyncio.ensure_future(follow())
    try:
        await asyncio.wait_for(following, duration)
    except (asyncio.TimeoutError, asyncio.CancelledError):
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return recording


async def _main(settings: argparse.Namespace) -> None:
    async with Client.from_env() as client:
        recording = asyncio.ensure_future(record(client, settings.symbol, settings.duration))
        # Ctrl-C ends it as the duration does.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, recording.cancel)
        done = await recording
    done.save(settings.out, settings.base_latency_ns)
    print(f"{len(done)} events in {settings.out}, {done.snapshots} snapshots")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairbell.hftbacktest", description=__doc__)
    parser.add_argument("symbol")
    parser.add_argument("--out", required=True, help="an .npz file")
    parser.add_argument("--duration", type=float, help="seconds; else until Ctrl-C")
    parser.add_argument("--base-latency-ns", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
