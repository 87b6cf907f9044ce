"""The WebSocket half of the ccxt exchange: ``watch*`` methods as ccxt.pro exchanges have them.

::

    from fairbell import ccxt_adapter

    ccxt_adapter.register()
    exchange = ccxt.pro.fairbell({"apiKey": "desk1", "secret": "...", "url": "http://127.0.0.1:8080"})
    while True:
        book = await exchange.watch_order_book("BTC/USD")

ccxt's own WebSocket client, caches and order book are used. A book that has a gap or a wrong checksum is
subscribed to again by itself; a lost connection fails the calls that wait with ``NetworkError``, and the
next call connects anew, as with every exchange of ccxt. The account's channels are heard on a connection
of their own, which is signed in first.
"""

from __future__ import annotations

from typing import Any

from ccxt.async_support.base.ws.cache import ArrayCache, ArrayCacheBySymbolById
from ccxt.base.errors import ExchangeError

from . import ccxt_adapter
from .book import Applied, Book
from .errors import BookGap, ChecksumMismatch, ProtocolError
from .signing import new_nonce, signature

__all__ = ["fairbell_pro"]

_SIGNED_IN = "authenticated"


class fairbell_pro(ccxt_adapter.fairbell_async):
    """The asyncio exchange with ``watch*`` methods."""

    # Of ccxt's base class.
    orders: Any
    myTrades: Any

    def describe(self) -> Any:
        """ccxt's description of an exchange."""
        own = {
            "pro": True,
            "has": {
                "ws": True,
                "watchOrderBook": True,
                "watchTrades": True,
                "watchTicker": True,
                "watchOrders": True,
                "watchMyTrades": True,
            },
            "options": {"tradesLimit": 1000, "ordersLimit": 1000},
            "streaming": {"keepAlive": 5000},
        }
        return self.deep_extend(super().describe(), own)

    def _ws_address(self, private: bool = False) -> str:
        scheme, rest = self._address().split("://", 1)
        # The query, which the door does not read, makes it a connection of its own.
        return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws{'?private' if private else ''}"

    # Public channels.

    async def _hear(self, channel: str, symbol: str, name: str) -> Any:
        await self.load_markets()
        market = self.market(symbol)
        name = f"{name}:{market['symbol']}"
        asked = {"op": "subscribe", "channels": [channel], "symbols": [market["id"]]}
        return await self.watch(self._ws_address(), name, asked, name)

    async def watch_order_book(self, symbol: str, limit: Any = None, params: Any = {}) -> Any:
        """The book after its next change; ``nonce`` is the feed's number."""
        book = await self._hear("book", symbol, "orderbook")
        if limit is None:
            return book
        return self.extend(book, {side: list(book[side][:limit]) for side in ("bids", "asks")})

    async def watch_ticker(self, symbol: str, params: Any = {}) -> Any:
        """Best prices and the last trade, when one of them changes."""
        return await self._hear("ticker", symbol, "ticker")

    async def watch_trades(self, symbol: str, since: Any = None, limit: Any = None, params: Any = {}) -> Any:
        """Trades since the last call; the first call tells past ones, too."""
        trades = await self._hear("trades", symbol, "trades")
        if self.newUpdates:
            limit = trades.getLimit(self.symbol(symbol), limit)
        return self.filter_by_since_limit(trades, since, limit, "timestamp", True)

    # The account's channels.

    async def _hear_own(self, channel: str, name: str, symbol: Any) -> Any:
        await self.load_markets()
        url = self._ws_address(private=True)
        client = self.client(url)
        if client.subscriptions.get(_SIGNED_IN) != "done":
            await self.watch(url, _SIGNED_IN, self._sign_in(), _SIGNED_IN)
        if symbol is not None:
            name = f"{name}:{self.symbol(symbol)}"
        return await self.watch(url, name, {"op": "subscribe", "channels": [channel]}, channel)

    def _sign_in(self) -> dict[str, Any]:
        self.check_required_credentials()
        timestamp = str(self.milliseconds() - int(self.options.get("timeDifference", 0)))
        nonce = new_nonce()
        signed = signature(self.secret, timestamp, nonce, "GET", "/v1/ws")
        parts = {"timestamp": timestamp, "nonce": nonce, "signature": signed}
        return {"op": "auth", "key": self.apiKey, **parts}

    async def watch_orders(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """Orders of the account that have changed since the last call."""
        orders = await self._hear_own("orders", "orders", symbol)
        if self.newUpdates:
            limit = orders.getLimit(None if symbol is None else self.symbol(symbol), limit)
        return self.filter_by_symbol_since_limit(orders, symbol, since, limit, True)

    async def watch_my_trades(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """Trades of the account since the last call."""
        trades = await self._hear_own("fills", "myTrades", symbol)
        if self.newUpdates:
            limit = trades.getLimit(None if symbol is None else self.symbol(symbol), limit)
        return self.filter_by_symbol_since_limit(trades, symbol, since, limit, True)

    # Messages.

    def handle_message(self, client: Any, message: Any) -> None:
        """Takes a message of the door."""
        channel = message.get("channel") if isinstance(message, dict) else None
        takers = {
            "ok": self._take_ok,
            "error": self._take_error,
            "book": self._take_book,
            "ticker": self._take_ticker,
            "trades": self._take_trades,
            "orders": self._take_orders,
            "fills": self._take_fills,
        }
        # Others, heartbeats among them, say nothing that is watched.
        if channel in takers:
            takers[channel](client, message)

    def _take_ok(self, client: Any, message: Any) -> None:
        if _SIGNED_IN in client.futures:
            client.subscriptions[_SIGNED_IN] = "done"
            client.resolve(True, _SIGNED_IN)

    def _take_error(self, client: Any, message: Any) -> None:
        told = message.get("error") or {}
        code, feedback = told.get("code"), f"{self.id} {self.json(told)}"
        kind = self.exceptions["exact"].get(code, ExchangeError)
        # It does not say which request it answers: all are asked for again by whoever still wants them.
        for name in list(client.subscriptions):
            if client.subscriptions[name] != "done":
                del client.subscriptions[name]
        client.reject(kind(feedback))

    def _of(self, told: dict[str, Any]) -> Any:
        return self.safe_market(told.get("symbol"))

    def _take_book(self, client: Any, message: Any) -> None:
        symbol = self._of(message)["symbol"]
        name = f"orderbook:{symbol}"
        if name not in client.subscriptions:
            return
        books = self.options.setdefault("books", {})
        book = books.get(symbol)
        if book is None:
            book = books[symbol] = Book(message["symbol"])
        if message.get("type") != "snapshot" and not book.ready:
            # A snapshot is on its way.
            return
        try:
            done = book.apply(message)
        except (BookGap, ChecksumMismatch, ProtocolError) as error:
            self.log(f"{self.id} {error}: the book is fetched again")
            asked = {"op": "subscribe", "channels": ["book"], "symbols": [message["symbol"]]}
            self.spawn(client.send, asked)
            return
        if done is Applied.OLD:
            return
        if done is Applied.SNAPSHOT or symbol not in self.orderbooks:
            self.orderbooks[symbol] = self.order_book({"symbol": symbol})
        shown = self.orderbooks[symbol]
        for side, levels in zip(("bids", "asks"), book.changes, strict=True):
            for price, qty in levels:
                shown[side].storeArray([float(price), float(qty)])
        shown["nonce"] = book.seq
        shown["timestamp"] = self.milliseconds()
        shown["datetime"] = self.iso8601(shown["timestamp"])
        client.resolve(shown, name)

    def _take_ticker(self, client: Any, message: Any) -> None:
        told = message.get("ticker")
        if told is None:
            return
        ticker = self.parse_ticker(told, self._of(told))
        self.tickers[ticker["symbol"]] = ticker
        client.resolve(ticker, f"ticker:{ticker['symbol']}")

    def _keep(self, cache: Any, rows: list[dict[str, Any]]) -> bool:
        """Appends what is new; whether anything is."""
        known = {row["id"] for row in cache}
        new = [row for row in rows if row["id"] not in known]
        for row in new:
            cache.append(row)
        return bool(new)

    def _take_trades(self, client: Any, message: Any) -> None:
        market = self._of(message)
        told = message["trades"][::-1] if message.get("type") == "snapshot" else [message["trade"]]
        rows = [self.parse_trade(trade, market) for trade in told if not trade.get("broken")]
        cache = self.trades.setdefault(market["symbol"], ArrayCache(self.options["tradesLimit"]))
        if self._keep(cache, rows):
            client.resolve(cache, f"trades:{market['symbol']}")

    def _take_orders(self, client: Any, message: Any) -> None:
        listed = message.get("type") in ("snapshot", "more")
        told = message["orders"] if listed else [message["order"]]
        if self.orders is None:
            self.orders = ArrayCacheBySymbolById(self.options["ordersLimit"])
        rows = [self.parse_order(order) for order in told]
        for row in rows:
            self.orders.append(row)
        self._resolve_own(client, self.orders, "orders", rows)

    def _take_fills(self, client: Any, message: Any) -> None:
        if message.get("broken") is not None:
            return
        told = message["fills"][::-1] if message.get("type") == "snapshot" else [message["fill"]]
        if self.myTrades is None:
            self.myTrades = ArrayCacheBySymbolById(self.options["tradesLimit"])
        rows = [self.parse_trade(fill, self._of(fill)) for fill in told]
        if self._keep(self.myTrades, rows):
            self._resolve_own(client, self.myTrades, "myTrades", rows)

    def _resolve_own(self, client: Any, cache: Any, name: str, rows: list[dict[str, Any]]) -> None:
        for symbol in {row["symbol"] for row in rows}:
            client.resolve(cache, f"{name}:{symbol}")
        if rows:
            client.resolve(cache, name)
