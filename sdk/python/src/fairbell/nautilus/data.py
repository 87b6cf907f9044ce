"""Market data: books, quotes, trades and states of trading from the door's WebSocket.

Books are level 2, as the door tells them. Quotes are the door's best prices; a side that is empty gives no
quote. Bars are made by NautilusTrader (``INTERNAL``); past ones are made of the last 1,000 trades.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from nautilus_trader.live.data_client import LiveMarketDataClient
from nautilus_trader.model.book import OrderBook
from nautilus_trader.model.data import (
    Bar,
    BookOrder,
    InstrumentStatus,
    OrderBookDelta,
    OrderBookDeltas,
    OrderBookDepth10,
    QuoteTick,
    TradeTick,
)
from nautilus_trader.model.enums import (
    AggressorSide,
    BarAggregation,
    BookAction,
    BookType,
    MarketStatusAction,
    OrderSide,
    PriceType,
    RecordFlag,
)
from nautilus_trader.model.identifiers import ClientId, TradeId
from nautilus_trader.model.objects import Price, Quantity

from .. import events as ev
from ..client import Client
from ..errors import FairbellError, SlowConsumer
from ..models import Level, Side, Ticker, Trade, TradingStatus
from ..stream import Stream
from ..times import epoch_ns
from .config import FairbellDataClientConfig
from .ids import FAIRBELL, FAIRBELL_VENUE
from .provider import FairbellInstrumentProvider, instrument_id

__all__ = ["FairbellDataClient", "bars_of"]

# Events that may wait, and past trades that the door tells.
_WAITING_MAX, _TRADES_MAX = 100_000, 1_000
_DEPTH = 10

_ACTIONS = {
    TradingStatus.TRADING: MarketStatusAction.TRADING,
    TradingStatus.QUOTATION: MarketStatusAction.QUOTING,
    TradingStatus.PAUSED: MarketStatusAction.PAUSE,
    TradingStatus.HALTED: MarketStatusAction.HALT,
    TradingStatus.UNKNOWN: MarketStatusAction.NONE,
}
_STEP_NS = {
    BarAggregation.SECOND: 1_000_000_000,
    BarAggregation.MINUTE: 60_000_000_000,
    BarAggregation.HOUR: 3_600_000_000_000,
    BarAggregation.DAY: 86_400_000_000_000,
}


class FairbellDataClient(LiveMarketDataClient):
    """A data client of the door; made by :class:`FairbellLiveDataClientFactory`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: Client,
        msgbus: Any,
        cache: Any,
        clock: Any,
        instrument_provider: FairbellInstrumentProvider,
        config: FairbellDataClientConfig,
        name: str | None = None,
    ) -> None:
        super().__init__(
            loop=loop,
            client_id=ClientId(name or FAIRBELL),
            venue=FAIRBELL_VENUE,
            msgbus=msgbus,
            cache=cache,
            clock=clock,
            instrument_provider=instrument_provider,
        )
        self._client = client
        self._stream: Stream | None = None
        self._events: ev.EventIterator | None = None
        # Symbols whose books go out as changes, and as their ten best levels; quotes as told last.
        self._deltas: set[str] = set()
        self._depths: set[str] = set()
        self._quotes: dict[str, tuple[Level, Level] | None] = {}
        # Trades that were there before the subscription.
        self._past: dict[str, set[str]] = {}

    # Connections.

    async def _connect(self) -> None:
        await self._instrument_provider.initialize()
        for instrument in self._instrument_provider.list_all():
            self._handle_data(instrument)
        self._stream = self._client.stream()
        self._events = self._stream.events(_WAITING_MAX)
        self.create_task(self._follow())

    async def _disconnect(self) -> None:
        if self._stream is not None:
            await self._stream.close()
        await self._client.close()

    def _open(self) -> Stream:
        if self._stream is None:
            raise RuntimeError("the client is not connected")
        return self._stream

    async def _follow(self) -> None:
        """Passes events on, until the stream is closed."""
        while self._events is not None:
            try:
                async for event in self._events:
                    self._take(event)
                return
            except SlowConsumer as error:
                # What waited is lost: books come anew, whole.
                self._log.warning(f"{error}: books are subscribed to again")
                stream = self._open()
                self._events = stream.events(_WAITING_MAX)
                if books := sorted(self._deltas | self._depths):
                    await stream.subscribe("book", symbols=books)
            except FairbellError as error:
                self._log.error(f"the stream has ended: {error}")
                return

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.BookChanged):
            self._take_book(event)
        elif isinstance(event, ev.TickerEvent):
            self._take_ticker(event.ticker)
        elif isinstance(event, ev.TradeEvent):
            self._take_trade(event.symbol, event.trade)
        elif isinstance(event, ev.StatusEvent):
            self._take_status(event)
        elif isinstance(event, ev.Disconnected | ev.Resync):
            self._log.warning(repr(event))

    # What comes.

    def _level(self, symbol: str, level: Level) -> tuple[Price, Quantity]:
        instrument = self._instrument_provider.find(instrument_id(symbol))
        return (
            Price.from_str(f"{level.price:.{instrument.price_precision}f}"),
            Quantity.from_str(f"{level.qty:.{instrument.size_precision}f}"),
        )

    def _orders(self, symbol: str, side: OrderSide, levels: Iterable[Level]) -> list[BookOrder]:
        return [BookOrder(side, *self._level(symbol, level), 0) for level in levels]

    def _take_book(self, event: ev.BookChanged) -> None:
        if event.symbol in self._deltas:
            self._handle_data(self._book_deltas(event))
        if event.symbol in self._depths:
            book = self._open().books.get(event.symbol)
            if book is not None and book.ready:
                depth = self._depth10(event.symbol, event.seq, book.bids(_DEPTH), book.asks(_DEPTH))
                self._handle_data(depth)

    def _book_deltas(self, event: ev.BookChanged) -> OrderBookDeltas:
        now, of = self._clock.timestamp_ns(), instrument_id(event.symbol)
        orders = self._orders(event.symbol, OrderSide.BUY, event.bids)
        orders += self._orders(event.symbol, OrderSide.SELL, event.asks)
        flags = RecordFlag.F_SNAPSHOT if event.snapshot else 0
        deltas = [OrderBookDelta.clear(of, event.seq, now, now)] if event.snapshot else []
        for place, order in enumerate(orders):
            if order.size == 0:
                action = BookAction.DELETE
            else:
                action = BookAction.ADD if event.snapshot else BookAction.UPDATE
            last = RecordFlag.F_LAST if place + 1 == len(orders) else 0
            deltas.append(OrderBookDelta(of, action, order, flags | last, event.seq, now, now))
        return OrderBookDeltas(of, deltas)

    def _depth10(self, symbol: str, seq: int, bids: list[Level], asks: list[Level]) -> OrderBookDepth10:
        now = self._clock.timestamp_ns()
        sides, counts = [], []
        for side, levels in ((OrderSide.BUY, bids), (OrderSide.SELL, asks)):
            missing = [Level(Decimal(0), Decimal(0))] * (_DEPTH - len(levels))
            sides.append(self._orders(symbol, side, [*levels, *missing]))
            # The door tells no number of orders: one at each level at least.
            counts.append([1] * len(levels) + [0] * len(missing))
        flags = RecordFlag.F_SNAPSHOT | RecordFlag.F_LAST
        return OrderBookDepth10(instrument_id(symbol), *sides, *counts, flags, seq, now, now)

    def _take_ticker(self, ticker: Ticker) -> None:
        if ticker.symbol not in self._quotes or ticker.bid is None or ticker.ask is None:
            return
        if self._quotes[ticker.symbol] == (ticker.bid, ticker.ask):
            return
        self._quotes[ticker.symbol] = (ticker.bid, ticker.ask)
        bid, bid_size = self._level(ticker.symbol, ticker.bid)
        ask, ask_size = self._level(ticker.symbol, ticker.ask)
        now = self._clock.timestamp_ns()
        quote = QuoteTick(instrument_id(ticker.symbol), bid, ask, bid_size, ask_size, now, now)
        self._handle_data(quote)

    def _take_trade(self, symbol: str, trade: Trade) -> None:
        past = self._past.get(symbol)
        if past is None or trade.trade_id in past:
            return
        if trade.broken:
            self._log.warning(f"{symbol}: trade {trade.trade_id} was broken")
            return
        self._handle_data(self._trade_tick(symbol, trade))

    def _trade_tick(self, symbol: str, trade: Trade) -> TradeTick:
        now = self._clock.timestamp_ns()
        price, size = self._level(symbol, Level(trade.price, trade.qty))
        sides = {Side.BUY: AggressorSide.BUYER, Side.SELL: AggressorSide.SELLER}
        aggressor = AggressorSide.NO_AGGRESSOR if trade.aggressor is None else sides[trade.aggressor]
        at = epoch_ns(trade.time_ns, now)
        return TradeTick(instrument_id(symbol), price, size, aggressor, TradeId(trade.trade_id), at, now)

    def _take_status(self, event: ev.StatusEvent) -> None:
        now, status = self._clock.timestamp_ns(), event.status
        self._handle_data(
            InstrumentStatus(
                instrument_id(event.symbol),
                _ACTIONS[status],
                now,
                now,
                reason=None,
                trading_event=status.value,
                is_trading=status is TradingStatus.TRADING,
                is_quoting=status in (TradingStatus.TRADING, TradingStatus.QUOTATION),
            )
        )

    # Subscriptions.

    async def _subscribe(self, command: Any) -> None:
        self._log.error(f"Fairbell has no data of {command.data_type}")

    async def _unsubscribe(self, command: Any) -> None:
        self._log.error(f"Fairbell has no data of {command.data_type}")

    async def _subscribe_instruments(self, command: Any) -> None:
        """Instruments do not change while the exchange runs."""

    _subscribe_instrument = _subscribe_instruments
    _unsubscribe_instruments = _subscribe_instruments
    _unsubscribe_instrument = _subscribe_instruments

    async def _subscribe_order_book_deltas(self, command: Any) -> None:
        if command.book_type == BookType.L3_MBO:
            self._log.error("no L3_MBO books: the door tells levels; subscribe to L2_MBP")
            return
        symbol = command.instrument_id.symbol.value
        self._deltas.add(symbol)
        # Once more for a second kind: each begins with a snapshot.
        await self._open().subscribe("book", symbols=[symbol])

    async def _subscribe_order_book_snapshots(self, command: Any) -> None:
        symbol = command.instrument_id.symbol.value
        self._depths.add(symbol)
        await self._open().subscribe("book", symbols=[symbol])

    # The name of later versions.
    _subscribe_order_book_depth = _subscribe_order_book_snapshots

    async def _unsubscribe_order_book_deltas(self, command: Any) -> None:
        await self._leave_book(command, self._deltas)

    async def _unsubscribe_order_book_snapshots(self, command: Any) -> None:
        await self._leave_book(command, self._depths)

    _unsubscribe_order_book_depth = _unsubscribe_order_book_snapshots

    async def _leave_book(self, command: Any, of: set[str]) -> None:
        symbol = command.instrument_id.symbol.value
        of.discard(symbol)
        if symbol not in self._deltas | self._depths:
            await self._open().unsubscribe("book", symbols=[symbol])

    async def _subscribe_quote_ticks(self, command: Any) -> None:
        symbol = command.instrument_id.symbol.value
        self._quotes[symbol] = None
        await self._open().subscribe("ticker", symbols=[symbol])

    async def _unsubscribe_quote_ticks(self, command: Any) -> None:
        symbol = command.instrument_id.symbol.value
        self._quotes.pop(symbol, None)
        await self._open().unsubscribe("ticker", symbols=[symbol])

    async def _subscribe_trade_ticks(self, command: Any) -> None:
        symbol = command.instrument_id.symbol.value
        known = await self._client.trades(symbol, _TRADES_MAX)
        self._past[symbol] = {trade.trade_id for trade in known if not trade.broken}
        await self._open().subscribe("trades", symbols=[symbol])

    async def _unsubscribe_trade_ticks(self, command: Any) -> None:
        symbol = command.instrument_id.symbol.value
        self._past.pop(symbol, None)
        await self._open().unsubscribe("trades", symbols=[symbol])

    async def _subscribe_instrument_status(self, command: Any) -> None:
        await self._open().subscribe("status", symbols=[command.instrument_id.symbol.value])

    async def _unsubscribe_instrument_status(self, command: Any) -> None:
        await self._open().unsubscribe("status", symbols=[command.instrument_id.symbol.value])

    async def _subscribe_bars(self, command: Any) -> None:
        self._log.error(f"{command.bar_type}: the door tells no bars; subscribe to INTERNAL ones")

    async def _unsubscribe_bars(self, command: Any) -> None:
        """There are none."""

    async def _not_there(self, command: Any) -> None:
        self._log.error(f"Fairbell has nothing for {type(command).__name__}: its instruments are spot")

    _subscribe_mark_prices = _subscribe_index_prices = _subscribe_funding_rates = _not_there
    _unsubscribe_mark_prices = _unsubscribe_index_prices = _unsubscribe_funding_rates = _not_there
    _subscribe_instrument_close = _unsubscribe_instrument_close = _not_there

    # Requests.

    async def _request(self, request: Any) -> None:
        self._log.error(f"Fairbell has no data of {request.data_type}")

    async def _request_instrument(self, request: Any) -> None:
        found = self._instrument_provider.find(request.instrument_id)
        if found is None:
            self._log.error(f"no instrument {request.instrument_id} at Fairbell")
            return
        self._handle_instrument(found, request.id, request.start, request.end, request.params)

    async def _request_instruments(self, request: Any) -> None:
        found = self._instrument_provider.list_all()
        self._handle_instruments(request.venue, found, request.id, request.start, request.end, request.params)

    async def _request_order_book_snapshot(self, request: Any) -> None:
        symbol = request.instrument_id.symbol.value
        told = await self._client.book(symbol, min(request.limit or 500, 500))
        event = ev.BookChanged(symbol, told.seq, True, tuple(told.bids()), tuple(told.asks()))
        book = OrderBook(request.instrument_id, BookType.L2_MBP)
        book.apply_deltas(self._book_deltas(event))
        from nautilus_trader.model.data import DataType

        kind = DataType(OrderBook, metadata={"instrument_id": request.instrument_id})
        self._handle_data_response(kind, [book], request.id, request.start, request.end, request.params)

    async def _request_quote_ticks(self, request: Any) -> None:
        self._log.error("the door tells no past quotes: subscribe to them")

    async def _trade_ticks(self, request: Any, of: Any) -> list[TradeTick]:
        """Past trades between the request's times, oldest first."""
        symbol = of.symbol.value
        told = await self._client.trades(symbol, _TRADES_MAX)
        broken = {trade.trade_id for trade in told if trade.broken}
        ticks = [self._trade_tick(symbol, trade) for trade in reversed(told) if trade.trade_id not in broken]
        if request.start is not None:
            ticks = [tick for tick in ticks if tick.ts_event >= request.start.timestamp() * 1e9]
        if request.end is not None:
            ticks = [tick for tick in ticks if tick.ts_event <= request.end.timestamp() * 1e9]
        return ticks

    async def _request_trade_ticks(self, request: Any) -> None:
        ticks = await self._trade_ticks(request, request.instrument_id)
        ticks = ticks[-request.limit :] if request.limit else ticks
        of = request.instrument_id
        self._handle_trade_ticks(of, ticks, request.id, request.start, request.end, request.params)

    async def _request_bars(self, request: Any) -> None:
        kind = request.bar_type
        if kind.spec.price_type != PriceType.LAST or kind.spec.aggregation not in _STEP_NS:
            self._log.warning(f"{kind}: past bars are made of trades: of LAST, by SECOND to DAY")
            bars: list[Bar] = []
        else:
            ticks = await self._trade_ticks(request, kind.instrument_id)
            bars = bars_of(ticks, kind, self._clock.timestamp_ns())
        bars = bars[-request.limit :] if request.limit else bars
        self._handle_bars(kind, bars, request.id, request.start, request.end, request.params)


def bars_of(ticks: Iterable[TradeTick], kind: Any, now_ns: int) -> list[Bar]:
    """Bars of trades, oldest first: those that have ended by now, without empty ones.

    :param kind: a bar type by time, of SECOND, MINUTE, HOUR or DAY.
    """
    step = _STEP_NS[kind.spec.aggregation] * kind.spec.step
    groups: dict[int, list[TradeTick]] = {}
    for tick in ticks:
        groups.setdefault(tick.ts_event // step, []).append(tick)
    bars = []
    for place, group in sorted(groups.items()):
        end = (place + 1) * step
        if end > now_ns:
            break
        prices, first = [tick.price for tick in group], group[0]
        total = sum((tick.size.as_decimal() for tick in group), Decimal(0))
        volume = Quantity.from_str(f"{total:.{first.size.precision}f}")
        bars.append(Bar(kind, prices[0], max(prices), min(prices), prices[-1], volume, end, now_ns))
    return bars
