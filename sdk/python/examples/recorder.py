"""Records books and trades of instruments into a CSV or, with pyarrow, a Parquet file.

    FAIRBELL_URL=http://127.0.0.1:8080 python recorder.py BTCUSD GENA --out market.parquet --duration 60

A row is a level of a book after a change, or a trade: kind, symbol, seq, side, place, price, qty. Prices and
quantities are decimals as text in CSV and decimal128(38, 12) in Parquet. ``local_ns`` is the local clock.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import signal
import time
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

from fairbell import BookChanged, Client, Disconnected, EventIterator, Resync, Stream, TradeEvent

COLUMNS = ("local_ns", "kind", "symbol", "seq", "side", "place", "price", "qty")
Row = tuple[int, str, str, int, str, int, Decimal, Decimal]
# Rows of a row group.
GROUP = 10_000


class Csv:
    """A CSV file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", newline="")
        self._csv = csv.writer(self._file)
        self._csv.writerow(COLUMNS)

    def write(self, rows: list[Row]) -> None:
        """Appends rows."""
        self._csv.writerows((*row[:6], format(row[6], "f"), format(row[7], "f")) for row in rows)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


class Parquet:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._arrow: Any = pyarrow
        number, text = pyarrow.decimal128(38, 12), pyarrow.string()
        kinds = (pyarrow.int64(), text, text, pyarrow.int64(), text, pyarrow.int32(), number, number)
        self._schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
        self._file: Any = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: list[Row]) -> None:
        """Appends a row group."""
        columns = [
            self._arrow.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._file.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


class Recorder:
    """Collects rows, and writes them in groups."""

    def __init__(self, path: Path, depth: int) -> None:
        self._file: Csv | Parquet = Parquet(path) if path.suffix == ".parquet" else Csv(path)
        self._rows: list[Row] = []
        self._depth = depth
        self._over = asyncio.Event()
        self.written = 0
        self.gaps = 0

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()
        self._file.close()

    def flush(self) -> None:
        """Writes what is collected."""
        if self._rows:
            self._file.write(self._rows)
            self.written += len(self._rows)
            self._rows = []

    def add(self, row: Row) -> None:
        """Collects a row."""
        self._rows.append(row)
        if len(self._rows) >= GROUP:
            self.flush()

    def stop(self) -> None:
        """Has it end with what has arrived."""
        self._over.set()

    async def run(self, client: Client, symbols: list[str], duration: float | None = None) -> None:
        """For so many seconds, or until it is stopped."""
        async with client.stream() as stream:
            events = stream.events(limit=100_000)
            await stream.subscribe("book", "trades", symbols=symbols)
            print(f"recording {' '.join(symbols)}", flush=True)
            recording = asyncio.create_task(self._record(stream, events))
            over = asyncio.create_task(self._over.wait())
            await asyncio.wait({recording, over}, timeout=duration, return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
            # Behind what waits the events end.
            await stream.close()
            await recording

    async def _record(self, stream: Stream, events: EventIterator) -> None:
        async for event in events:
            now = time.time_ns()
            if isinstance(event, BookChanged):
                book = stream.books[event.symbol]
                for side, levels in (("bid", book.bids(self._depth)), ("ask", book.asks(self._depth))):
                    for place, (price, qty) in enumerate(levels):
                        self.add((now, "level", book.symbol, book.seq, side, place, price, qty))
            elif isinstance(event, TradeEvent) and not event.trade.broken:
                trade = event.trade
                side = "" if trade.aggressor is None else trade.aggressor.value
                number = int(trade.trade_id)
                self.add((now, "trade", event.symbol, number, side, 0, trade.price, trade.qty))
            elif isinstance(event, Resync | Disconnected):
                self.gaps += 1


async def main(settings: argparse.Namespace) -> Recorder:
    """Records for the duration."""
    with Recorder(Path(settings.out), settings.depth) as recorder:
        async with Client.from_env() as client:
            # Ctrl-C ends it as the duration does.
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, recorder.stop)
            await recorder.run(client, settings.symbols, settings.duration)
    print(f"{recorder.written} rows in {settings.out}, {recorder.gaps} gaps")
    return recorder


def arguments(line: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("symbols", nargs="+")
    parser.add_argument("--out", default="market.csv", help="a .parquet or any other file")
    parser.add_argument("--depth", type=int, default=10, help="levels of a side after each change")
    parser.add_argument("--duration", type=float, help="seconds; else until Ctrl-C")
    return parser.parse_args(line)


if __name__ == "__main__":
    asyncio.run(main(arguments()))
