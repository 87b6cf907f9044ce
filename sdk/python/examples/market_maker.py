"""A market maker: quotes both sides around the middle, leans against its position, follows its fills.

    FAIRBELL_URL=... FAIRBELL_KEY=... FAIRBELL_SECRET=... python market_maker.py GENA --reference 100

Its quotes are cancelled when it ends, when its connection breaks, and when it hangs (dead man's switch).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from decimal import Decimal

import fairbell
from fairbell import BookChanged, Client, FillEvent, Order, Side


class MarketMaker:
    """One instrument's quotes."""

    def __init__(self, client: Client, of: fairbell.Instrument, settings: argparse.Namespace) -> None:
        self.client, self.instrument, self.settings = client, of, settings
        self.quotes: dict[Side, Order] = {}
        self.position = Decimal(0)
        self.fills = 0

    def prices(self, book: fairbell.Book) -> dict[Side, Decimal]:
        """Where the quotes belong: around the middle of the others' prices, moved against the position."""
        tick, spread = self.instrument.tick, self.settings.spread
        middle = self._middle(book)
        lean = self.position / self.settings.size * tick
        bid = ((middle - lean) / tick - Decimal(spread) / 2).to_integral_value() * tick
        return {Side.BUY: max(bid, tick), Side.SELL: max(bid, tick) + spread * tick}

    def _middle(self, book: fairbell.Book) -> Decimal:
        """Of the best prices that are not its own alone; else the reference."""
        best: list[Decimal] = []
        for side, levels in ((Side.BUY, book.bids(5)), (Side.SELL, book.asks(5))):
            own = self.quotes.get(side)
            for level in levels:
                if own is None or level.price != own.price or level.qty > own.open:
                    best.append(level.price)
                    break
        return sum(best, Decimal(0)) / 2 if len(best) == 2 else self.settings.reference

    async def quote(self, book: fairbell.Book) -> None:
        """Enters or moves what is not where it belongs."""
        for side, price in self.prices(book).items():
            own = self.quotes.get(side)
            try:
                if own is None:
                    self.quotes[side] = await self.client.new_order(
                        self.instrument.symbol, side, self.settings.size, price, post_only=True
                    )
                elif own.price is None or abs(own.price - price) > self.instrument.tick:
                    total = own.filled + self.settings.size
                    self.quotes[side] = await self.client.replace(own.client_order_id, total, price)
            except (fairbell.NotOpen, fairbell.OrderRejected) as error:
                # It has traded meanwhile, or would take: anew with the next change of the book.
                self.quotes.pop(side, None)
                print(f"{side.value}: {error}", flush=True)

    async def run(self) -> None:
        """Until it is stopped."""
        symbol = self.instrument.symbol
        async with self.client.stream(cancel_on_disconnect=True) as stream:
            events = stream.events()
            await stream.subscribe("orders", "fills")
            book = await stream.book(symbol)
            await self.quote(book)
            print(f"quoting {symbol}", flush=True)
            async for event in events:
                if isinstance(event, FillEvent) and event.fill.symbol == symbol:
                    fill = event.fill
                    self.position += fill.qty if fill.side is Side.BUY else -fill.qty
                    self.fills += 1
                    print(f"{fill.side.value} {fill.qty} at {fill.price}: {self.position}", flush=True)
                elif isinstance(event, BookChanged) and book.ready:
                    live = stream.orders
                    self.quotes = {
                        side: live[own.client_order_id]
                        for side, own in self.quotes.items()
                        if own.client_order_id in live
                    }
                    await self.quote(book)

    async def stay_alive(self) -> None:
        """As long as this runs the exchange keeps the quotes."""
        while True:
            await self.client.cancel_after(5)
            await asyncio.sleep(1)


async def main(settings: argparse.Namespace) -> MarketMaker:
    """Quotes for the duration, then cancels."""
    async with Client.from_env() as client:
        instrument = (await client.instruments())[settings.symbol]
        maker = MarketMaker(client, instrument, settings)
        working = asyncio.gather(maker.run(), maker.stay_alive())
        # Ctrl-C ends it as the duration does.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, working.cancel)
        try:
            await asyncio.wait_for(working, settings.duration)
        except (asyncio.TimeoutError, asyncio.CancelledError):
            pass
        finally:
            await client.cancel_all(settings.symbol)
            await client.cancel_after(None)
        print(f"{maker.fills} fills, position {maker.position}")
        return maker


def arguments(line: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("symbol")
    parser.add_argument("--reference", type=Decimal, default=Decimal(100), help="price in an empty book")
    parser.add_argument("--spread", type=int, default=4, help="ticks between bid and offer")
    parser.add_argument("--size", type=Decimal, default=Decimal(10), help="quantity of a quote")
    parser.add_argument("--duration", type=float, help="seconds; else until Ctrl-C")
    return parser.parse_args(line)


if __name__ == "__main__":
    asyncio.run(main(arguments()))
