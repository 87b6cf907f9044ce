"""Fairbell in the shape of the library ccxt, for programs that are written for it.

::

    from fairbell import ccxt_adapter

    exchange = ccxt_adapter.fairbell({"apiKey": "desk1", "secret": "...", "url": "http://127.0.0.1:8080"})
    exchange.create_order("BTC/USD", "limit", "buy", 0.5, 78000)

:class:`fairbell` is the synchronous exchange, :class:`fairbell_async` the asyncio one;
:class:`fairbell.ccxt_pro.fairbell_pro` has ``watch*`` methods, too. :func:`register` makes them known to
ccxt by the id ``fairbell``, so that programs which choose an exchange by its name find it. Requests go
through ccxt's own HTTP, throttle and error classes.

What differs from other venues: an order's ``id`` is its client order id; a symbol that does not end in
the quote currency (option ``quote``, USD) is taken for a base traded against it; balances are positions,
which may be negative, and cash is what came of trading on top of the option ``startingCash``; numbers
are ccxt's floats. Times of trades are told by the door since midnight UTC: they are taken to be of the
last 24 hours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import ccxt
import ccxt.async_support
from ccxt.base.decimal_to_precision import TICK_SIZE
from ccxt.base.errors import (
    ArgumentsRequired,
    AuthenticationError,
    BadRequest,
    BadSymbol,
    DuplicateOrderId,
    ExchangeError,
    ExchangeNotAvailable,
    InvalidNonce,
    InvalidOrder,
    OnMaintenance,
    OrderNotFound,
    PermissionDenied,
    RateLimitExceeded,
    RequestTimeout,
)
from ccxt.base.types import Entry

from .signing import new_client_order_id, new_nonce, signature
from .times import epoch_ns

__all__ = ["fairbell", "fairbell_async", "register"]

# How often a request that the exchange has not answered yet is repeated; the door waits 3 s each time.
_TRIES = 4

# A method's steps: it yields requests and gets their answers, on both kinds of exchange.
Steps = Generator[tuple[str, dict[str, Any]], Any, Any]

_API: dict[str, tuple[str, str, str]] = {
    "public_get_time": ("time", "public", "GET"),
    "public_get_instruments": ("instruments", "public", "GET"),
    "public_get_book_symbol": ("book/{symbol}", "public", "GET"),
    "public_get_trades_symbol": ("trades/{symbol}", "public", "GET"),
    "public_get_ticker_symbol": ("ticker/{symbol}", "public", "GET"),
    "public_get_status_symbol": ("status/{symbol}", "public", "GET"),
    "private_get_orders": ("orders", "private", "GET"),
    "private_get_orders_id": ("orders/{id}", "private", "GET"),
    "private_post_orders": ("orders", "private", "POST"),
    "private_put_orders_id": ("orders/{id}", "private", "PUT"),
    "private_delete_orders_id": ("orders/{id}", "private", "DELETE"),
    "private_delete_orders": ("orders", "private", "DELETE"),
    "private_get_positions": ("positions", "private", "GET"),
    "private_get_fills": ("fills", "private", "GET"),
    "private_post_cancel_after": ("cancel_after", "private", "POST"),
}

_STATES = {
    "pending": "open",
    "open": "open",
    "filled": "closed",
    "cancelled": "canceled",
    "replaced": "canceled",
    "rejected": "rejected",
}


class _Shape:
    """What both kinds have in common; the methods that ask something are generators of requests."""

    # Of ccxt's base class.
    safe_string: Callable[..., str | None]
    safe_order: Callable[..., dict[str, Any]]
    safe_trade: Callable[..., dict[str, Any]]
    extend: Callable[..., dict[str, Any]]

    def describe(self) -> Any:
        """ccxt's description of an exchange."""
        inherited = super().describe()  # type: ignore[misc]
        own = {
            "id": "fairbell",
            "name": "Fairbell",
            "countries": [],
            "version": "v1",
            "rateLimit": 10,
            "certified": False,
            "pro": False,
            "precisionMode": TICK_SIZE,
            "requiredCredentials": {"apiKey": True, "secret": True},
            "options": {"quote": "USD", "timeDifference": 0, "startingCash": "0"},
            "urls": {"api": {"rest": "http://127.0.0.1:8080"}, "doc": []},
            "fees": {"trading": {"maker": 0, "taker": 0, "percentage": True, "tierBased": False}},
            "has": {
                "spot": True,
                "margin": False,
                "swap": False,
                "future": False,
                "option": False,
                "cancelAllOrders": True,
                "cancelAllOrdersAfter": True,
                "cancelOrder": True,
                "createOrder": True,
                "createMarketOrder": True,
                "createLimitOrder": True,
                "createPostOnlyOrder": True,
                "editOrder": True,
                "fetchBalance": True,
                "fetchMarkets": True,
                "fetchMyTrades": True,
                "fetchOpenOrders": True,
                "fetchOrder": True,
                "fetchOrderBook": True,
                "fetchStatus": True,
                "fetchTicker": True,
                "fetchTime": True,
                "fetchTrades": True,
            },
            "exceptions": {
                "exact": {
                    "bad_json": BadRequest,
                    "missing_field": ArgumentsRequired,
                    "bad_field": BadRequest,
                    "missing_header": AuthenticationError,
                    "unknown_key": AuthenticationError,
                    "key_expired": AuthenticationError,
                    "bad_signature": AuthenticationError,
                    "late_timestamp": InvalidNonce,
                    "replayed": InvalidNonce,
                    "wrong_scope": PermissionDenied,
                    "wrong_address": PermissionDenied,
                    "method_not_allowed": BadRequest,
                    "timeout": RequestTimeout,
                    "client_order_id_used": DuplicateOrderId,
                    "not_open": OrderNotFound,
                    "cancel_rejected": OrderNotFound,
                    "too_large": BadRequest,
                    "rejected": InvalidOrder,
                    "too_many_requests": RateLimitExceeded,
                    "busy": ExchangeNotAvailable,
                    "session_down": OnMaintenance,
                },
                "broad": {},
            },
        }
        return self.deep_extend(inherited, own)  # type: ignore[attr-defined]

    def _address(self) -> str:
        # As a setting of its own, for addresses differ from run to run.
        of: Any = self
        url: str = getattr(of, "url", None) or of.urls["api"]["rest"]
        return url.rstrip("/").removesuffix("/v1")

    def sign(
        self,
        path: str,
        api: Any = "public",
        method: str = "GET",
        params: Any = None,
        headers: Any = None,
        body: Any = None,
    ) -> dict[str, Any]:
        """A request with its signature."""
        of: Any = self
        params = params or {}
        target = "/v1/" + of.implode_params(path, params)
        query = of.omit(params, of.extract_params(path))
        content = ""
        if method in ("POST", "PUT"):
            content = of.json(query)
        elif query:
            target += "?" + of.urlencode(query)
        headers = {"content-type": "application/json"} if content else {}
        if api == "private" or api == ["private"]:
            of.check_required_credentials()
            timestamp = str(of.milliseconds() - int(of.options.get("timeDifference", 0)))
            nonce = new_nonce()
            signed = signature(of.secret, timestamp, nonce, method, target, content.encode())
            headers |= {
                "FB-KEY": of.apiKey,
                "FB-TIMESTAMP": timestamp,
                "FB-NONCE": nonce,
                "FB-SIGN": signed,
            }
        return {
            "url": self._address() + target,
            "method": method,
            "body": content or None,
            "headers": headers,
        }

    def handle_errors(
        self,
        code: int,
        reason: str,
        url: str,
        method: str,
        headers: Any,
        body: str,
        response: Any,
        request_headers: Any,
        request_body: Any,
    ) -> None:
        """Raises what a refusal says."""
        of: Any = self
        error = response.get("error") if isinstance(response, dict) else None
        if not isinstance(error, dict):
            return
        name, feedback = of.safe_string(error, "code"), f"{of.id} {body}"
        if name == "not_found":
            kind = OrderNotFound if "/v1/orders" in url and "no symbol" not in body else BadSymbol
            raise kind(feedback)
        of.throw_exactly_matched_exception(of.exceptions["exact"], name, feedback)
        raise ExchangeError(feedback)

    # Requests.

    def _fetch_markets(self, params: Any) -> Steps:
        told = yield "public_get_instruments", params
        return [self._market(of) for of in told["instruments"]]

    def _market(self, told: dict[str, Any]) -> dict[str, Any]:
        of: Any = self
        name, quote = told["symbol"], of.options["quote"]
        base = name.removesuffix(quote) or name
        base, quote = of.safe_currency_code(base), of.safe_currency_code(quote)
        number = of.safe_number
        market: dict[str, Any] = of.safe_market_structure(
            {
                "id": name,
                "symbol": f"{base}/{quote}",
                "base": base,
                "quote": quote,
                "baseId": base,
                "quoteId": quote,
                "type": "spot",
                "spot": True,
                "margin": False,
                "swap": False,
                "future": False,
                "option": False,
                "contract": False,
                "active": True,
                "taker": of.parse_number("0"),
                "maker": of.parse_number("0"),
                "precision": {"amount": number(told, "lot"), "price": number(told, "tick")},
                "limits": {
                    "amount": {"min": number(told, "qty_min"), "max": number(told, "qty_max")},
                    "price": {"min": number(told, "tick"), "max": number(told, "price_max")},
                    "cost": {"min": None, "max": None},
                    "leverage": {"min": None, "max": None},
                },
                "info": told,
            }
        )
        return market

    def _timestamp(self, told: dict[str, Any]) -> int:
        of: Any = self
        return epoch_ns(int(told["time_ns"]), of.milliseconds() * 1_000_000) // 1_000_000

    def _fetch_order_book(self, symbol: str, limit: Any, params: Any) -> Steps:
        of: Any = self
        market = of.market(symbol)
        asked = {"symbol": market["id"]} | ({} if limit is None else {"depth": min(limit, 500)})
        told = yield "public_get_book_symbol", of.extend(asked, params)
        book = of.parse_order_book(told, market["symbol"], of.milliseconds())
        book["nonce"] = of.safe_integer(told, "seq")
        return book

    def _fetch_ticker(self, symbol: str, params: Any) -> Steps:
        of: Any = self
        market = of.market(symbol)
        told = yield "public_get_ticker_symbol", of.extend({"symbol": market["id"]}, params)
        return of.parse_ticker(told.get("ticker") or {}, market)

    def parse_ticker(self, ticker: Any, market: Any = None) -> dict[str, Any]:
        """A ticker in ccxt's form."""
        of: Any = self
        now = of.milliseconds()
        bid, ask = ticker.get("bid") or [None, None], ticker.get("ask") or [None, None]
        parsed: dict[str, Any] = of.safe_ticker(
            {
                "symbol": of.safe_symbol(ticker.get("symbol"), market),
                "timestamp": now,
                "datetime": of.iso8601(now),
                "bid": bid[0],
                "bidVolume": bid[1],
                "ask": ask[0],
                "askVolume": ask[1],
                "last": ticker.get("last"),
                "close": ticker.get("last"),
                "baseVolume": ticker.get("volume"),
                "info": ticker,
            },
            market,
        )
        return parsed

    def _fetch_trades(self, symbol: str, since: Any, limit: Any, params: Any) -> Steps:
        of: Any = self
        market = of.market(symbol)
        # As many as there are, since broken ones are left out before the rest is counted.
        asked = {"symbol": market["id"], "limit": 1000}
        told = yield "public_get_trades_symbol", of.extend(asked, params)
        broken = {trade["trade_id"] for trade in told["trades"] if trade["broken"]}
        trades = [trade for trade in told["trades"] if trade["trade_id"] not in broken]
        return of.parse_trades(trades, market, since, limit)

    def parse_trade(self, trade: Any, market: Any = None) -> dict[str, Any]:
        """A trade in ccxt's form, public or own."""
        of: Any = self
        at = self._timestamp(trade)
        parsed: dict[str, Any] = of.safe_trade(
            {
                "id": trade["trade_id"],
                "order": trade.get("client_order_id"),
                "timestamp": at,
                "datetime": of.iso8601(at),
                "symbol": of.safe_symbol(trade.get("symbol"), market),
                "type": None,
                "side": trade.get("side", trade.get("aggressor")),
                "takerOrMaker": None if "side" in trade else "taker",
                "price": trade["price"],
                "amount": trade["qty"],
                "cost": None,
                "fee": {"currency": of.options["quote"], "cost": "0"} if "side" in trade else None,
                "info": trade,
            },
            market,
        )
        return parsed

    def _fetch_my_trades(self, symbol: Any, since: Any, limit: Any, params: Any) -> Steps:
        of: Any = self
        market = None if symbol is None else of.market(symbol)
        told = yield "private_get_fills", of.extend({"limit": 10_000}, params)
        fills = [of_one for of_one in told["fills"] if market is None or of_one["symbol"] == market["id"]]
        return of.parse_trades(fills, market, since, limit)

    def _fetch_balance(self, params: Any) -> Steps:
        of: Any = self
        told = yield "private_get_positions", params
        result: dict[str, Any] = {"info": told, "timestamp": None, "datetime": None}
        cash = str(of.options["startingCash"])
        for position in told["positions"]:
            market = of.safe_market(position["symbol"])
            result[market["base"]] = {"used": "0", "total": position["position"]}
            cash = ccxt.Precise.string_add(cash, position["cash"])
        result[of.options["quote"]] = {"used": "0", "total": cash}
        return of.safe_balance(result)

    def parse_order(self, order: Any, market: Any = None) -> dict[str, Any]:
        """An order in ccxt's form."""
        of: Any = self
        # ccxt has no name for those of a day.
        lives = {"gtc": "GTC", "ioc": "IOC", "fok": "FOK"}.get(order.get("time_in_force"))
        parsed: dict[str, Any] = of.safe_order(
            {
                "id": order["client_order_id"],
                "clientOrderId": order["client_order_id"],
                "timestamp": None,
                "datetime": None,
                "lastTradeTimestamp": None,
                "symbol": of.safe_symbol(order["symbol"], market),
                "type": "market" if order["price"] is None else "limit",
                "timeInForce": lives,
                "postOnly": None,
                "side": order["side"],
                "price": order["price"],
                "amount": order["qty"],
                "filled": order["filled"],
                "remaining": order["open"],
                "status": _STATES.get(order["state"]),
                "fee": None,
                "trades": None,
                "info": order,
            },
            market,
        )
        # An order says how much of it traded and not at which prices: ccxt would take its limit for them.
        if order["filled"] != "0":
            parsed["cost"] = parsed["average"] = None
        return parsed

    def _patiently(self, name: str, asked: dict[str, Any]) -> Steps:
        """A request that may be repeated, until the exchange has answered."""
        of: Any = self
        for _ in range(_TRIES):
            told = yield name, asked
            if told.get("client_order_id") is not None:
                if told["state"] == "rejected" and not name.startswith("private_get"):
                    raise InvalidOrder(f"{of.id} {told['reason']}")
                return of.parse_order(told)
        raise RequestTimeout(f"{of.id} has not answered yet: ask for the order, {of.json(asked)}")

    def _create_order(self, symbol: str, kind: str, side: str, amount: Any, price: Any, params: Any) -> Steps:
        of: Any = self
        market = of.market(symbol)
        if kind not in ("limit", "market"):
            raise InvalidOrder(f"{of.id} type: limit or market, not {kind}")
        post_only, params = of.handle_post_only(kind == "market", False, params)
        named = of.safe_string(params, "clientOrderId") or new_client_order_id()
        lives = of.safe_string_lower(params, "timeInForce")
        if lives is None or lives == "po":
            lives = "gtc" if kind == "limit" else "ioc"
        asked = {
            "symbol": market["id"],
            "side": side,
            "type": kind,
            "qty": of.amount_to_precision(symbol, amount),
            "time_in_force": lives,
            "post_only": post_only,
            "client_order_id": named,
        }
        if kind == "limit":
            if price is None:
                raise ArgumentsRequired(f"{of.id} create_order: a limit order has a price")
            asked["price"] = of.price_to_precision(symbol, price)
        rest = of.omit(params, ["clientOrderId", "timeInForce", "postOnly"])
        return (yield from self._patiently("private_post_orders", of.extend(asked, rest)))

    def _edit_order(self, id: str, symbol: str, kind: Any, amount: Any, price: Any, params: Any) -> Steps:
        of: Any = self
        if kind not in (None, "limit"):
            raise InvalidOrder(f"{of.id} edit_order: type: limit, not {kind}")
        if amount is None or price is None:
            raise ArgumentsRequired(f"{of.id} edit_order: amount and price")
        asked = {
            "id": id,
            "qty": of.amount_to_precision(symbol, amount),
            "price": of.price_to_precision(symbol, price),
            "client_order_id": of.safe_string(params, "clientOrderId") or new_client_order_id(),
        }
        rest = of.omit(params, ["clientOrderId"])
        return (yield from self._patiently("private_put_orders_id", of.extend(asked, rest)))

    def _cancel_order(self, id: str, params: Any) -> Steps:
        of: Any = self
        return (yield from self._patiently("private_delete_orders_id", of.extend({"id": id}, params)))

    def _cancel_all_orders(self, symbol: Any, params: Any) -> Steps:
        of: Any = self
        asked = {} if symbol is None else {"symbol": of.market(symbol)["id"]}
        told = yield "private_delete_orders", of.extend(asked, params)
        return [of.safe_order({"info": told})]

    def _cancel_all_orders_after(self, timeout: Any, params: Any) -> Steps:
        of: Any = self
        return (yield "private_post_cancel_after", of.extend({"timeout_ms": timeout}, params))

    def _fetch_order(self, id: str, params: Any) -> Steps:
        of: Any = self
        return (yield from self._patiently("private_get_orders_id", of.extend({"id": id}, params)))

    def _fetch_open_orders(self, symbol: Any, since: Any, limit: Any, params: Any) -> Steps:
        of: Any = self
        market = None if symbol is None else of.market(symbol)
        told = yield "private_get_orders", params
        orders = [order for order in told["orders"] if market is None or order["symbol"] == market["id"]]
        return of.parse_orders(orders, market, since, limit)

    def _fetch_time(self, params: Any) -> Steps:
        of: Any = self
        told = yield "public_get_time", params
        return of.safe_integer(told, "time_ms")

    def _fetch_status(self, params: Any) -> Steps:
        told = yield "public_get_time", params
        return {"status": "ok", "updated": told["time_ms"], "eta": None, "url": None, "info": told}


class fairbell(_Shape, ccxt.Exchange):
    """The synchronous exchange."""

    def _do(self, steps: Steps, markets: bool = True) -> Any:
        """Carries steps out."""
        if markets:
            self.load_markets()
        told = None
        while True:
            try:
                method, params = steps.send(told)
            except StopIteration as done:
                return done.value
            told = getattr(self, method)(params)

    def fetch_markets(self, params: Any = {}) -> Any:
        """Instruments."""
        return self._do(self._fetch_markets(params), markets=False)

    def fetch_time(self, params: Any = {}) -> Any:
        """The door's clock, ms since the epoch."""
        return self._do(self._fetch_time(params), markets=False)

    def fetch_status(self, params: Any = {}) -> Any:
        """Whether the door answers."""
        return self._do(self._fetch_status(params), markets=False)

    def fetch_order_book(self, symbol: str, limit: Any = None, params: Any = {}) -> Any:
        """Levels, best first; ``nonce`` is the feed's number."""
        return self._do(self._fetch_order_book(symbol, limit, params))

    def fetch_ticker(self, symbol: str, params: Any = {}) -> Any:
        """Best prices and the last trade."""
        return self._do(self._fetch_ticker(symbol, params))

    def fetch_trades(self, symbol: str, since: Any = None, limit: Any = None, params: Any = {}) -> Any:
        """The last trades, without broken ones."""
        return self._do(self._fetch_trades(symbol, since, limit, params))

    def fetch_balance(self, params: Any = {}) -> Any:
        """Positions as balances; negative ones are short."""
        return self._do(self._fetch_balance(params))

    def fetch_my_trades(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """The account's own trades."""
        return self._do(self._fetch_my_trades(symbol, since, limit, params))

    def fetch_open_orders(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """Open orders."""
        return self._do(self._fetch_open_orders(symbol, since, limit, params))

    def fetch_order(self, id: str, symbol: Any = None, params: Any = {}) -> Any:
        """An order, whatever became of it."""
        return self._do(self._fetch_order(id, params))

    def create_order(
        self, symbol: str, type: Any, side: Any, amount: Any, price: Any = None, params: Any = {}
    ) -> Any:
        """Enters an order; params: clientOrderId, timeInForce, postOnly."""
        return self._do(self._create_order(symbol, type, side, amount, price, params))

    def edit_order(
        self,
        id: str,
        symbol: str,
        type: Any,
        side: Any,
        amount: Any = None,
        price: Any = None,
        params: Any = {},
    ) -> Any:
        """Replaces an order: the result has another id."""
        return self._do(self._edit_order(id, symbol, type, amount, price, params))

    def cancel_order(self, id: str, symbol: Any = None, params: Any = {}) -> Any:
        """Cancels an order."""
        return self._do(self._cancel_order(id, params))

    def cancel_all_orders(self, symbol: Any = None, params: Any = {}) -> Any:
        """Cancels all orders, of one symbol or all."""
        return self._do(self._cancel_all_orders(symbol, params))

    def cancel_all_orders_after(self, timeout: Any, params: Any = {}) -> Any:
        """Dead man's switch: ms until all orders are cancelled; 0: off."""
        return self._do(self._cancel_all_orders_after(timeout, params), markets=False)


class fairbell_async(_Shape, ccxt.async_support.Exchange):
    """The asyncio exchange."""

    async def _do(self, steps: Steps, markets: bool = True) -> Any:
        """Carries steps out."""
        if markets:
            await self.load_markets()
        told = None
        while True:
            try:
                method, params = steps.send(told)
            except StopIteration as done:
                return done.value
            told = await getattr(self, method)(params)

    async def fetch_markets(self, params: Any = {}) -> Any:
        """Instruments."""
        return await self._do(self._fetch_markets(params), markets=False)

    async def fetch_time(self, params: Any = {}) -> Any:
        """The door's clock, ms since the epoch."""
        return await self._do(self._fetch_time(params), markets=False)

    async def fetch_status(self, params: Any = {}) -> Any:
        """Whether the door answers."""
        return await self._do(self._fetch_status(params), markets=False)

    async def fetch_order_book(self, symbol: str, limit: Any = None, params: Any = {}) -> Any:
        """Levels, best first; ``nonce`` is the feed's number."""
        return await self._do(self._fetch_order_book(symbol, limit, params))

    async def fetch_ticker(self, symbol: str, params: Any = {}) -> Any:
        """Best prices and the last trade."""
        return await self._do(self._fetch_ticker(symbol, params))

    async def fetch_trades(self, symbol: str, since: Any = None, limit: Any = None, params: Any = {}) -> Any:
        """The last trades, without broken ones."""
        return await self._do(self._fetch_trades(symbol, since, limit, params))

    async def fetch_balance(self, params: Any = {}) -> Any:
        """Positions as balances; negative ones are short."""
        return await self._do(self._fetch_balance(params))

    async def fetch_my_trades(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """The account's own trades."""
        return await self._do(self._fetch_my_trades(symbol, since, limit, params))

    async def fetch_open_orders(
        self, symbol: Any = None, since: Any = None, limit: Any = None, params: Any = {}
    ) -> Any:
        """Open orders."""
        return await self._do(self._fetch_open_orders(symbol, since, limit, params))

    async def fetch_order(self, id: str, symbol: Any = None, params: Any = {}) -> Any:
        """An order, whatever became of it."""
        return await self._do(self._fetch_order(id, params))

    async def create_order(
        self, symbol: str, type: Any, side: Any, amount: Any, price: Any = None, params: Any = {}
    ) -> Any:
        """Enters an order; params: clientOrderId, timeInForce, postOnly."""
        return await self._do(self._create_order(symbol, type, side, amount, price, params))

    async def edit_order(
        self,
        id: str,
        symbol: str,
        type: Any,
        side: Any,
        amount: Any = None,
        price: Any = None,
        params: Any = {},
    ) -> Any:
        """Replaces an order: the result has another id."""
        return await self._do(self._edit_order(id, symbol, type, amount, price, params))

    async def cancel_order(self, id: str, symbol: Any = None, params: Any = {}) -> Any:
        """Cancels an order."""
        return await self._do(self._cancel_order(id, params))

    async def cancel_all_orders(self, symbol: Any = None, params: Any = {}) -> Any:
        """Cancels all orders, of one symbol or all."""
        return await self._do(self._cancel_all_orders(symbol, params))

    async def cancel_all_orders_after(self, timeout: Any, params: Any = {}) -> Any:
        """Dead man's switch: ms until all orders are cancelled; 0: off."""
        return await self._do(self._cancel_all_orders_after(timeout, params), markets=False)


for _name, (_path, _api, _method) in _API.items():
    for _kind in (fairbell, fairbell_async):
        _entry: Any = Entry(_path, _api, _method, {"cost": 1})
        _entry.__set_name__(_kind, _name)
        setattr(_kind, _name, _entry)


def register() -> None:
    """Makes it known by the id ``fairbell`` to ccxt, ``ccxt.async_support`` and ``ccxt.pro``."""
    import ccxt.pro

    from .ccxt_pro import fairbell_pro

    ccxt.fairbell = fairbell
    ccxt.async_support.fairbell = fairbell_async
    ccxt.pro.fairbell = fairbell_pro
    for known in (ccxt.exchanges, ccxt.async_support.exchanges, ccxt.pro.exchanges):
        if "fairbell" not in known:
            known.append("fairbell")
