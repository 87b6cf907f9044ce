"""The asyncio client: REST requests, and :meth:`Client.stream` for the WebSocket.

Requests that may be repeated without harm are repeated until they are answered: reads, and everything
about an order that has a client order id, because the exchange counts each id once. So a broken
connection or a busy door neither loses an order nor enters one twice.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import httpx

from . import models, signing, wire
from .book import CHECKED, Book
from .errors import (
    AuthenticationError,
    ConnectionFailed,
    FairbellError,
    NotOpen,
    OrderPending,
    OrderRejected,
    PermissionDenied,
    ProtocolError,
    StreamClosed,
    TooManyRequests,
    Unavailable,
    api_error,
)
from .models import (
    Fill,
    Instrument,
    Order,
    OrderState,
    Position,
    Side,
    Ticker,
    TimeInForce,
    Trade,
    TradingStatus,
)
from .scopes import AsyncClosing
from .wire import Number

if TYPE_CHECKING:
    from .stream import Stream

__all__ = ["Client"]

_ID = re.compile(r"[A-Za-z0-9._-]{1,14}", re.ASCII)
_SYMBOL = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)
# OUCH's reject code of a replace of an order that is unknown, done or somebody else's.
_NOTHING_TO_REPLACE = 0x0015
# Waits between two tries, seconds: the first, and the longest.
_WAIT_FIRST, _WAIT_MAX = 0.05, 1.0


def _checked(value: str, name: str, form: re.Pattern[str], due: str) -> str:
    # Paths of dots alone mean other paths to HTTP libraries.
    if not form.fullmatch(value) or not value.strip("."):
        raise ValueError(f"{name}: {value!r} is not {due}")
    return value


def _order_id(value: str) -> str:
    return _checked(value, "client_order_id", _ID, "1 to 14 of letters, digits, - _ and .")


def _symbol(value: str) -> str:
    return _checked(value, "symbol", _SYMBOL, "a symbol")


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine itself; proxies of the environment are not asked then."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class Client(AsyncClosing):
    """A client of the exchange's web door.

    ::

        async with Client("http://127.0.0.1:8080", key="desk1", secret="...") as client:
            order = await client.new_order("BTCUSD", "buy", "0.5", "78000")

    :param url: address of the door, with or without ``/v1``.
    :param key: name of the key; without one only public data can be had.
    :param secret: the key's secret.
    :param timeout: longest wait for one HTTP answer, seconds.
    :param patience: how long a request is repeated that may be repeated, seconds.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        secret: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 10.0,
    ) -> None:
        if (key is None) != (secret is None):
            raise ValueError("give both key and secret, or neither")
        base = url.rstrip("/").removesuffix("/v1")
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {url!r} is no address like http://127.0.0.1:8080")
        self.url = base
        """Address of the door, without ``/v1``."""
        self.key = key
        self._secret = secret
        self._patience = patience
        self._timeout = timeout
        self._local = is_loopback(parts.hostname)
        # Certificates are read from the disk only where they are needed; redirects are not followed.
        self._http = httpx.AsyncClient(
            timeout=timeout, trust_env=not self._local, verify=parts.scheme == "https"
        )
        self._clock_off_ms = 0
        self.credits_left: int | None = None
        """Requests that the key may still make at once, as last told."""

    @classmethod
    def from_env(cls, *, timeout: float = 10.0, patience: float = 10.0) -> Client:
        """With address, key and secret of FAIRBELL_URL, FAIRBELL_KEY and FAIRBELL_SECRET."""
        url = os.environ.get("FAIRBELL_URL")
        if not url:
            raise ValueError("FAIRBELL_URL is not set: the address that `fairbell up --web` prints")
        key, secret = os.environ.get("FAIRBELL_KEY"), os.environ.get("FAIRBELL_SECRET")
        return cls(url, key or None, secret or None, timeout=timeout, patience=patience)

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"<Client {self.url} key {self.key}>"

    def stream(self, *, cancel_on_disconnect: bool = False) -> Stream:
        """A WebSocket stream of this client's key; see :class:`fairbell.Stream`."""
        from .stream import Stream

        return Stream(self, cancel_on_disconnect=cancel_on_disconnect)

    def need_key(self) -> str:
        """The key's secret.

        :raises ValueError: the client has no key.
        """
        if self._secret is None:
            raise ValueError("this needs a key: Client(url, key=..., secret=...)")
        return self._secret

    # Public data.

    async def time_ms(self) -> int:
        """The door's clock, ms since the epoch."""
        return wire.integer(await self._get("/v1/time"), "time_ms")

    async def instruments(self) -> dict[str, Instrument]:
        """All instruments by symbol."""
        told = models.objects(await self._get("/v1/instruments"), "instruments")
        read = [Instrument.read(of) for of in told]
        return {instrument.symbol: instrument for instrument in read}

    async def book(self, symbol: str, depth: int = 100) -> Book:
        """The book as it stands, up to ``depth`` levels a side (1 to 500)."""
        told = await self._get(f"/v1/book/{_symbol(symbol)}", {"depth": depth})
        book = Book(symbol)
        book.apply(told, check=depth >= CHECKED)
        return book

    async def trades(self, symbol: str, limit: int = 100) -> list[Trade]:
        """The last trades, newest first, up to ``limit`` (1 to 1,000)."""
        told = await self._get(f"/v1/trades/{_symbol(symbol)}", {"limit": limit})
        return [Trade.read(of) for of in models.objects(told, "trades")]

    async def ticker(self, symbol: str) -> Ticker | None:
        """Best prices and the last trade; ``None``: the door has heard nothing of it yet."""
        told = await self._get(f"/v1/ticker/{_symbol(symbol)}")
        return None if told.get("ticker") is None else Ticker.read(wire.mapping(told, "ticker"))

    async def status(self, symbol: str) -> TradingStatus:
        """State of trading."""
        told = await self._get(f"/v1/status/{_symbol(symbol)}")
        return models.status(wire.text(told, "status"))

    # Orders.

    async def new_order(
        self,
        symbol: str,
        side: Side | str,
        qty: Number,
        price: Number | None = None,
        *,
        time_in_force: TimeInForce | str = TimeInForce.DAY,
        post_only: bool = False,
        client_order_id: str | None = None,
    ) -> Order:
        """Enters an order and waits for the exchange's answer; without a price it is a market order.

        With the id and terms of an order that is known nothing is entered, and that order's state is the
        result.

        :raises OrderRejected: the exchange refuses it, or has refused the order of this id before.
        :raises ClientOrderIdUsed: an order of other terms has this id.
        :raises OrderPending: it may be at the exchange, but no answer came; the exception has the id to ask
            for.
        """
        if client_order_id is None:
            client_order_id = signing.new_client_order_id()
        body: dict[str, Any] = {
            "symbol": symbol,
            "side": Side(side).value,
            "qty": wire.decimal_text(qty, "qty"),
            "type": "limit" if price is not None else "market",
            "time_in_force": TimeInForce(time_in_force).value,
            "post_only": post_only,
            "client_order_id": _order_id(client_order_id),
        }
        if price is not None:
            body["price"] = wire.decimal_text(price, "price")
        return await self._order("POST", "/v1/orders", client_order_id, body)

    async def replace(
        self,
        client_order_id: str,
        qty: Number,
        price: Number,
        *,
        new_client_order_id: str | None = None,
    ) -> Order:
        """Puts an order of another id in the place of one.

        :param qty: the total quantity, what has traded of the replaced order included.
        :raises NotOpen: the order is over.
        """
        if new_client_order_id is None:
            new_client_order_id = signing.new_client_order_id()
        body = {
            "client_order_id": _order_id(new_client_order_id),
            "qty": wire.decimal_text(qty, "qty"),
            "price": wire.decimal_text(price, "price"),
        }
        path = f"/v1/orders/{_order_id(client_order_id)}"
        return await self._order("PUT", path, new_client_order_id, body)

    async def cancel(self, client_order_id: str) -> Order:
        """Cancels an order; an order that is cancelled already is the result as well.

        :raises NotOpen: it is over otherwise.
        :raises NotFound: there is none of this id.
        """
        path = f"/v1/orders/{_order_id(client_order_id)}"
        return await self._order("DELETE", path, client_order_id, None)

    async def cancel_all(self, symbol: str | None = None) -> int:
        """Cancels all orders of the account, or those of one symbol; how many."""
        query = None if symbol is None else {"symbol": _symbol(symbol)}
        told = await self._signed("DELETE", "/v1/orders", query, repeatable=False)
        return wire.integer(told, "cancelled")

    async def cancel_after(self, timeout: float | None) -> None:
        """Dead man's switch: cancels all orders in ``timeout`` seconds (0.5 to a day) unless called again.

        ``None`` turns it off.
        """
        exact = 0 if timeout is None else timeout * 1000
        # What is no number, or infinite, has no whole ms.
        ms = round(exact) if 0 < exact < math.inf else 0
        if timeout is not None and ms == 0:
            raise ValueError(f"timeout: {timeout!r} is not 0.5 seconds to a day; None for off")
        await self._signed("POST", "/v1/cancel_after", body={"timeout_ms": ms}, repeatable=False)

    async def order(self, client_order_id: str) -> Order:
        """An order, whatever became of it."""
        return Order.read(await self._signed("GET", f"/v1/orders/{_order_id(client_order_id)}"))

    async def open_orders(self) -> list[Order]:
        """Orders of the account that are open, oldest first."""
        told = await self._signed("GET", "/v1/orders")
        return [Order.read(of) for of in models.objects(told, "orders")]

    async def positions(self) -> dict[str, Position]:
        """Positions by symbol, of all that was ever traded."""
        told = await self._signed("GET", "/v1/positions")
        read = [Position.read(of) for of in models.objects(told, "positions")]
        return {position.symbol: position for position in read}

    async def fills(self, limit: int = 100) -> list[Fill]:
        """The account's last trades, newest first, up to ``limit`` (1 to 10,000)."""
        told = await self._signed("GET", "/v1/fills", {"limit": limit})
        return [Fill.read(of) for of in models.objects(told, "fills")]

    # How it is asked.

    async def _order(self, method: str, path: str, order_id: str, body: Mapping[str, Any] | None) -> Order:
        tries = _Tries()
        try:
            order = Order.read(await self._signed(method, path, body=body, tries=tries))
            # A request that is repeated is answered with the order's state.
            if order.state is OrderState.REJECTED and method != "DELETE":
                raise OrderRejected("rejected", order.reason or "", 422)
        except OrderRejected as error:
            # The door knows the order: it ended while the replace was on its way to the exchange.
            if method == "PUT" and error.reason_code == _NOTHING_TO_REPLACE:
                raise NotOpen("not_open", error.message, 409) from error
            error.client_order_id = order_id
            raise
        except _OF_ONE_TRY as error:
            # They say nothing about the tries before.
            if tries.lost:
                raise OrderPending(order_id) from error
            raise
        return order

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await self._ask("GET", path, query, None, signed=False, repeatable=True)

    async def _signed(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        repeatable: bool = True,
        tries: _Tries | None = None,
    ) -> dict[str, Any]:
        self.need_key()
        return await self._ask(method, path, query, body, signed=True, repeatable=repeatable, tries=tries)

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        *,
        signed: bool,
        repeatable: bool,
        tries: _Tries | None = None,
    ) -> dict[str, Any]:
        tries = tries or _Tries()
        target = path if not query else f"{path}?{urlencode(query)}"
        content = b"" if body is None else json.dumps(body).encode()
        end = time.monotonic() + self._patience
        wait, clock_set = _WAIT_FIRST, False
        while True:
            failure: FairbellError
            try:
                answer = await self._once(method, target, content, signed)
            except httpx.TransportError as error:
                failure = ConnectionFailed(f"{method} {target}: {str(error) or type(error).__name__}")
                # Nothing was sent when there was no connection.
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                tries.lost = tries.lost or not unsent
                if not (repeatable or unsent):
                    raise failure from error
            except Unavailable as error:
                # The door refused it before it went to the exchange.
                failure = error
            except AuthenticationError as error:
                if error.code != "late_timestamp" or clock_set:
                    raise
                clock_set = True
                await self.set_clock()
                continue
            else:
                if answer is not None:
                    return answer
                tries.lost = True
                failure = _Unanswered(f"{method} {target}: no answer of the exchange yet")
                if not repeatable:
                    raise failure
            if time.monotonic() + wait >= end:
                raise failure
            await asyncio.sleep(wait)
            wait = min(2 * wait, _WAIT_MAX)

    async def _once(self, method: str, target: str, content: bytes, signed: bool) -> dict[str, Any] | None:
        """One request; ``None``: the exchange has not answered yet."""
        if self._http.is_closed:
            raise StreamClosed("the client is closed")
        headers = {"content-type": "application/json"} if content else {}
        if signed:
            headers |= self._headers(method, target, content)
        response = await self._http.request(
            method, self.url + target, content=content or None, headers=headers
        )
        left = response.headers.get("fb-credits-left", "")
        if left.isascii() and left.isdigit():
            self.credits_left = int(left[:9])
        return read_answer(response.status_code, response.content)

    def _headers(self, method: str, target: str, content: bytes) -> dict[str, str]:
        timestamp, nonce, sign = self.sign(method, target, content)
        key = self.key or ""
        return {"FB-KEY": key, "FB-TIMESTAMP": timestamp, "FB-NONCE": nonce, "FB-SIGN": sign}

    def sign(self, method: str, target: str, content: bytes = b"") -> tuple[str, str, str]:
        """Timestamp, nonce and signature of a request, by the door's clock as far as it is known."""
        timestamp, nonce = str(_now_ms() + self._clock_off_ms), signing.new_nonce()
        sign = signing.signature(self.need_key(), timestamp, nonce, method, target, content)
        return timestamp, nonce, sign

    async def set_clock(self) -> None:
        """Learns how far the door's clock is from this machine's; done by itself when it matters."""
        self._clock_off_ms = await self.time_ms() - _now_ms()


class _Unanswered(FairbellError):
    """The exchange has not answered within the door's time."""


# What one try of a request ends with, whatever became of the request itself.
_OF_ONE_TRY = (
    _Unanswered,
    ConnectionFailed,
    StreamClosed,
    Unavailable,
    TooManyRequests,
    AuthenticationError,
    PermissionDenied,
)


class _Tries:
    """What is known of the tries of a request."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = False
        """One of them may have reached the exchange, and its answer did not come."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_answer(status: int, content: bytes) -> dict[str, Any] | None:
    """What an HTTP answer says; ``None``: the exchange has not answered yet.

    :raises ApiError: a refusal.
    :raises ProtocolError: nothing that the door sends.
    """
    if status == 202:
        return None
    if status == 200:
        return wire.parse(content)
    try:
        error = wire.mapping(wire.parse(content), "error")
        code, message = wire.text(error, "code"), wire.text(error, "message")
    except ProtocolError:
        shown = content[:200].decode(errors="replace")
        if status < 400:
            raise ProtocolError(f"HTTP {status}: {shown}") from None
        code, message = f"http_{status}", shown
    raise api_error(code, message, status)
