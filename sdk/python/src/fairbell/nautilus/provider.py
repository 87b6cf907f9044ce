"""Instruments of the door as NautilusTrader's."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from nautilus_trader.common.providers import InstrumentProvider
from nautilus_trader.config import InstrumentProviderConfig
from nautilus_trader.model.identifiers import InstrumentId, Symbol
from nautilus_trader.model.instruments import CurrencyPair
from nautilus_trader.model.objects import Currency, Price, Quantity

from ..client import Client
from ..models import Instrument
from .ids import FAIRBELL_VENUE

__all__ = ["FairbellInstrumentProvider", "currency_pair", "instrument_id"]

# The largest price and quantity that NautilusTrader holds are above all of the door's.
_ZERO = Decimal(0)


def instrument_id(symbol: str) -> InstrumentId:
    """The id of a symbol of the door."""
    return InstrumentId(Symbol(symbol), FAIRBELL_VENUE)


def places(step: Decimal) -> int:
    """Digits behind the point that a step needs."""
    exponent = step.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _floor(value: Decimal, step: Decimal) -> str:
    """The largest multiple of a step that is not above a value."""
    whole = (value / step).to_integral_value(ROUND_FLOOR) * step
    return f"{whole:.{places(step)}f}"


def currency_pair(of: Instrument, quote: str, now_ns: int) -> CurrencyPair:
    """An instrument: its base is the symbol, without the quote currency if it ends in it."""
    base = of.symbol.removesuffix(quote) or of.symbol
    tick, lot = f"{of.tick:.{places(of.tick)}f}", f"{of.lot:.{places(of.lot)}f}"
    return CurrencyPair(
        instrument_id=instrument_id(of.symbol),
        raw_symbol=Symbol(of.symbol),
        base_currency=Currency.from_str(base),
        quote_currency=Currency.from_str(quote),
        price_precision=places(of.tick),
        size_precision=places(of.lot),
        price_increment=Price.from_str(tick),
        size_increment=Quantity.from_str(lot),
        lot_size=Quantity.from_str(lot),
        max_quantity=Quantity.from_str(_floor(of.qty_max, of.lot)),
        min_quantity=Quantity.from_str(lot),
        max_price=Price.from_str(_floor(of.price_max, of.tick)),
        min_price=Price.from_str(tick),
        margin_init=_ZERO,
        margin_maint=_ZERO,
        maker_fee=_ZERO,
        taker_fee=_ZERO,
        ts_event=now_ns,
        ts_init=now_ns,
    )


class FairbellInstrumentProvider(InstrumentProvider):
    """Loads instruments; there are no filters."""

    def __init__(
        self, client: Client, clock: Any, quote: str = "USD", config: InstrumentProviderConfig | None = None
    ) -> None:
        super().__init__(config=config)
        self._client = client
        self._clock = clock
        self._quote = quote

    async def load_all_async(self, filters: Mapping[str, Any] | None = None) -> None:
        """Loads all instruments."""
        await self._load(None, filters)

    async def load_ids_async(
        self, instrument_ids: list[InstrumentId], filters: Mapping[str, Any] | None = None
    ) -> None:
        """Loads these instruments.

        :raises ValueError: one is of another venue, or the exchange does not have it.
        """
        await self._load(set(instrument_ids), filters)

    async def load_async(self, instrument_id: InstrumentId, filters: Mapping[str, Any] | None = None) -> None:
        """Loads an instrument; errors as of several."""
        await self._load({instrument_id}, filters)

    async def _load(self, wanted: set[InstrumentId] | None, filters: Mapping[str, Any] | None) -> None:
        if filters:
            raise ValueError(f"filters: Fairbell has none, got {sorted(filters)}")
        told = await self._client.instruments()
        loaded = [currency_pair(of, self._quote, self._clock.timestamp_ns()) for of in told.values()]
        if wanted is not None:
            missing = wanted - {instrument.id for instrument in loaded}
            if missing:
                raise ValueError(f"no instruments {', '.join(sorted(map(str, missing)))} at Fairbell")
        for instrument in loaded:
            if wanted is None or instrument.id in wanted:
                self.add_currency(instrument.base_currency)
                self.add_currency(instrument.quote_currency)
                self.add(instrument)
