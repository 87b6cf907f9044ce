"""Signatures, decimals, errors and refusals, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairbell
from fairbell import errors, models, signing, wire
from fairbell.client import read_answer

URL = "http://127.0.0.1:1"
ORDER = {
    "client_order_id": "a",
    "order_id": "1",
    "order_ref": "7",
    "symbol": "AAA",
    "side": "buy",
    "type": "limit",
    "qty": "1",
    "filled": "0",
    "open": "1",
    "price": "2.5000",
    "time_in_force": "day",
    "state": "open",
    "reason": None,
    "replaces": None,
}


# Each made by another tool: printf '%s' TEXT | openssl dgst -sha256 -hmac SECRET
@pytest.mark.parametrize(
    ("secret", "parts", "body", "due"),
    [
        (
            "0123456789abcdef",
            ("1790000000000", "", "GET", "/v1/orders"),
            b"",
            "1224a3997327f812678cf7a7439702689e6e30c86e3da0fad5ee0632e5b59a9d",
        ),
        (
            "0123456789abcdef",
            ("1790000000000", "n-1", "POST", "/v1/orders"),
            b'{"symbol":"BTCUSD"}',
            "c7da93cffa908c2d59acf0b0a34d37316fe888c0a7c719b7a2e5404e36b6ec02",
        ),
        (
            "sécret-of-16-bytes",
            ("1", "", "DELETE", "/v1/orders?symbol=AAA"),
            b"",
            "f5d38a2d94dde5ccb63e91c9eff02f7d80857ebeea13bb413ab554ac482f52e5",
        ),
    ],
)
def test_signatures_are_those_of_another_tool(
    secret: str, parts: tuple[str, str, str, str], body: bytes, due: str
) -> None:
    assert fairbell.signature(secret, *parts, body) == due


def test_ids_and_nonces_are_new_each_time() -> None:
    ids = {signing.new_client_order_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(of) == 14 and of.isalnum() for of in ids)
    assert signing.new_nonce() != signing.new_nonce()


@pytest.mark.parametrize(
    ("given_as", "due"),
    [
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-8"), "0.00000001"),
        (7, "7"),
        ("78000.25", "78000.25"),
        (Decimal(100), "100"),
    ],
)
def test_decimals_are_written_exactly(given_as: wire.Number, due: str) -> None:
    assert wire.decimal_text(given_as, "qty") == due


@pytest.mark.parametrize("wrong", [1.5, True, None, float("nan")])
def test_floats_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="price: give a Decimal"):
        wire.decimal_text(wrong, "price")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["1e3", "", " 1", "1,5", "NaN", Decimal("NaN"), Decimal("1e99"), "\u0661"])
def test_what_is_no_decimal_is_refused(wrong: wire.Number) -> None:
    with pytest.raises(ValueError, match="qty"):
        wire.decimal_text(wrong, "qty")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**9, places=8))
def test_decimals_come_back(number: Decimal) -> None:
    assert Decimal(wire.decimal_text(number, "qty")) == number


# Every code of docs/web.md.
CODES = {
    "bad_json": (400, errors.BadRequest),
    "missing_field": (400, errors.BadRequest),
    "bad_field": (400, errors.BadRequest),
    "missing_header": (401, errors.AuthenticationError),
    "unknown_key": (401, errors.AuthenticationError),
    "key_expired": (401, errors.AuthenticationError),
    "bad_signature": (401, errors.AuthenticationError),
    "late_timestamp": (401, errors.AuthenticationError),
    "replayed": (401, errors.AuthenticationError),
    "wrong_scope": (403, errors.PermissionDenied),
    "wrong_address": (403, errors.PermissionDenied),
    "not_found": (404, errors.NotFound),
    "method_not_allowed": (405, errors.BadRequest),
    "timeout": (408, errors.BadRequest),
    "client_order_id_used": (409, errors.ClientOrderIdUsed),
    "not_open": (409, errors.NotOpen),
    "cancel_rejected": (409, errors.CancelRejected),
    "too_large": (413, errors.BadRequest),
    "rejected": (422, errors.OrderRejected),
    "too_many_requests": (429, errors.TooManyRequests),
    "busy": (503, errors.Busy),
    "session_down": (503, errors.SessionDown),
}


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_its_exception(code: str) -> None:
    status, kind = CODES[code]
    body = json.dumps({"error": {"code": code, "message": "why"}}).encode()
    with pytest.raises(errors.ApiError) as caught:
        read_answer(status, body)
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status, caught.value.message) == (code, status, "why")
    assert type(errors.api_error(code, "")) is kind
    assert errors.api_error(code, "").status == status


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, errors.AuthenticationError), (418, errors.BadRequest), (500, errors.ApiError)],
)
def test_codes_of_a_newer_door_go_by_their_status(status: int, kind: type[errors.ApiError]) -> None:
    body = b'{"error": {"code": "of_tomorrow", "message": ""}}'
    with pytest.raises(errors.ApiError) as caught:
        read_answer(status, body)
    assert type(caught.value) is kind
    with pytest.raises(errors.ApiError, match="http_502"):
        read_answer(502, b"<html>a proxy")
    with pytest.raises(errors.ProtocolError):
        read_answer(302, b"")


def test_a_reject_has_its_number() -> None:
    error = errors.api_error("rejected", "0x000A capacity reached", 422)
    assert isinstance(error, errors.OrderRejected)
    assert error.reason_code == 10


def client_of(answer: Callable[[httpx.Request], httpx.Response], patience: float = 5.0) -> fairbell.Client:
    client = fairbell.Client(URL, "k", "0123456789abcdef", patience=patience)
    client._http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return client


def test_an_order_is_repeated_until_it_is_answered_and_signed_anew() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            raise httpx.ReadError("the connection broke")
        if len(seen) == 2:
            return httpx.Response(202, json={"state": "pending"})
        if len(seen) == 3:
            return httpx.Response(503, json={"error": {"code": "busy", "message": ""}})
        return httpx.Response(200, json=ORDER, headers={"FB-CREDITS-LEFT": "12"})

    async def run() -> None:
        client = client_of(answer)
        order = await client.new_order("AAA", "buy", 1, "2.5")
        assert order.price == Decimal("2.5")
        assert client.credits_left == 12
        await client.close()

    asyncio.run(run())
    assert len(seen) == 4
    assert len({request.content for request in seen}) == 1, "one id, one order"
    assert len({request.headers["FB-NONCE"] for request in seen}) == 4
    for request in seen:
        due = signing.signature(
            "0123456789abcdef",
            request.headers["FB-TIMESTAMP"],
            request.headers["FB-NONCE"],
            request.method,
            request.url.raw_path.decode(),
            request.content,
        )
        assert request.headers["FB-SIGN"] == due


def test_a_mass_cancel_is_not_repeated_when_it_may_have_been_done() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            raise httpx.ConnectError("nobody listens")
        raise httpx.ReadError("the connection broke")

    async def run() -> None:
        client = client_of(answer)
        with pytest.raises(errors.ConnectionFailed):
            await client.cancel_all()
        await client.close()

    asyncio.run(run())
    assert len(seen) == 2, "once more after nothing was sent, not after something was"


def test_patience_ends() -> None:
    async def run() -> None:
        client = client_of(lambda _: httpx.Response(202, json={"state": "pending"}), patience=0.1)
        with pytest.raises(errors.OrderPending) as caught:
            await client.new_order("AAA", "buy", 1, 2, client_order_id="mine")
        assert caught.value.client_order_id == "mine"
        await client.close()

    asyncio.run(run())


def refusal(status: int, code: str, message: str = "") -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": message}})


LOST = [httpx.ReadTimeout(""), httpx.ReadError(""), httpx.RemoteProtocolError("hung up"), None]


@pytest.mark.parametrize("lost", LOST, ids=["late", "broken", "hung up", "no answer yet"])
@pytest.mark.parametrize(
    "later",
    [
        None,
        httpx.ConnectError("nobody listens"),
        refusal(503, "busy"),
        refusal(429, "too_many_requests"),
        refusal(401, "key_expired"),
        refusal(403, "wrong_address"),
    ],
    ids=["the same", "refused", "busy", "credits", "key", "address"],
)
def test_an_order_that_may_be_there_is_pending_whatever_is_said_later(
    lost: Exception | None, later: Exception | httpx.Response | None
) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        told = lost if len(seen) == 1 or later is None else later
        if isinstance(told, Exception):
            raise told
        return told or httpx.Response(202, json={"state": "pending"})

    async def run() -> None:
        client = client_of(answer, patience=0.12)
        for asked in (
            client.new_order("AAA", "buy", 1, 2, client_order_id="mine"),
            client.replace("old", 1, 2, new_client_order_id="mine"),
            client.cancel("mine"),
        ):
            seen.clear()
            with pytest.raises(errors.OrderPending, match="mine") as caught:
                await asked
            assert caught.value.client_order_id == "mine"
            assert isinstance(caught.value.__cause__, errors.FairbellError), "what was said last"
            assert len(seen) > 1
        await client.close()

    asyncio.run(run())


def test_an_order_that_was_not_sent_or_is_refused_is_not_pending() -> None:
    seen: list[httpx.Request] = []

    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens")

    def known(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            raise httpx.ReadError("")
        return refusal(409, "client_order_id_used")

    async def run() -> None:
        client = client_of(nobody, patience=0.1)
        with pytest.raises(errors.ConnectionFailed, match="nobody listens"):
            await client.new_order("AAA", "buy", 1, 2)
        busy = client_of(lambda _: refusal(503, "busy"), patience=0.1)
        with pytest.raises(errors.Busy):
            await busy.new_order("AAA", "buy", 1, 2)
        other = client_of(known)
        with pytest.raises(errors.ClientOrderIdUsed):
            await other.new_order("AAA", "buy", 1, 2)
        for one in (client, busy, other):
            await one.close()

    asyncio.run(run())


def test_a_failed_connection_says_how_it_failed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    async def run() -> None:
        client = client_of(answer, patience=0.01)
        with pytest.raises(errors.ConnectionFailed, match="GET /v1/orders: ReadTimeout"):
            await client.open_orders()
        await client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "told",
    [
        refusal(422, "rejected", "0x0015 unknown order"),
        refusal(409, "not_open", "it is filled"),
        httpx.Response(200, json={**ORDER, "state": "rejected", "reason": "0x0015 unknown order"}),
    ],
    ids=["by the exchange", "by the door", "asked again"],
)
def test_a_replace_of_an_order_that_is_over_is_not_open(told: httpx.Response) -> None:
    """Also if it ended while the replace was under way: the exchange itself refuses it then."""

    async def run() -> None:
        client = client_of(lambda _: told)
        with pytest.raises(errors.NotOpen) as caught:
            await client.replace("a", 1, 2)
        assert (caught.value.code, caught.value.status) == ("not_open", 409)
        assert caught.value.message
        await client.close()

    asyncio.run(run())


def test_a_replace_that_is_refused_otherwise_is_rejected() -> None:
    async def run() -> None:
        client = client_of(lambda _: refusal(422, "rejected", "0x000A price"))
        with pytest.raises(errors.OrderRejected) as caught:
            await client.replace("a", 1, 2, new_client_order_id="b")
        assert (caught.value.reason_code, caught.value.client_order_id) == (10, "b")
        # What an order is refused for is another matter.
        client._http = httpx.AsyncClient(
            transport=httpx.MockTransport(lambda _: refusal(422, "rejected", "0x0015 x"))
        )
        with pytest.raises(errors.OrderRejected):
            await client.new_order("AAA", "buy", 1, 2)
        await client.close()

    asyncio.run(run())


def test_a_closed_client_says_so() -> None:
    async def run() -> None:
        client = client_of(lambda _: httpx.Response(200, json={**ORDER, "orders": []}))
        await client.open_orders()
        await client.close()
        await client.close()
        for asked in (client.open_orders(), client.instruments(), client.new_order("AAA", "buy", 1, 1)):
            with pytest.raises(errors.StreamClosed, match="client is closed"):
                await asked

    asyncio.run(run())


def test_a_repeated_order_that_was_rejected_is_rejected_again() -> None:
    rejected = {**ORDER, "state": "rejected", "reason": "0x0007 price"}

    async def run() -> None:
        client = client_of(lambda _: httpx.Response(200, json=rejected))
        with pytest.raises(errors.OrderRejected) as caught:
            await client.new_order("AAA", "buy", 1, 2, client_order_id="a")
        assert (caught.value.reason_code, caught.value.client_order_id) == (7, "a")
        # Asking for it is no rejection.
        assert (await client.order("a")).state is models.OrderState.REJECTED
        await client.close()

    asyncio.run(run())


def test_a_clock_that_is_off_is_set_once() -> None:
    seen: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/time":
            return httpx.Response(200, json={"time_ms": 1_000_000})
        seen.append(int(request.headers["FB-TIMESTAMP"]))
        if abs(seen[-1] - 1_000_000) > 5_000:
            return httpx.Response(401, json={"error": {"code": "late_timestamp", "message": ""}})
        return httpx.Response(200, json={"seq": 1, "orders": []})

    async def run() -> None:
        client = client_of(answer)
        assert await client.open_orders() == []
        await client.close()
        always = {"error": {"code": "late_timestamp", "message": ""}}
        wrong = client_of(
            lambda request: (
                httpx.Response(200, json={"time_ms": 1})
                if request.url.path == "/v1/time"
                else httpx.Response(401, json=always)
            )
        )
        with pytest.raises(errors.AuthenticationError):
            await wrong.open_orders()
        await wrong.close()

    asyncio.run(run())
    assert len(seen) == 2


@pytest.mark.parametrize("wrong", ["", ".", "..", "a/b", "a b", "a" * 15, "é", "a?x", "a\n"])
def test_ids_that_would_be_another_path_are_refused(wrong: str) -> None:
    async def run() -> None:
        client = client_of(lambda _: httpx.Response(200, json=ORDER))
        with pytest.raises(ValueError, match="client_order_id"):
            await client.cancel(wrong)
        with pytest.raises(ValueError, match="client_order_id"):
            await client.new_order("AAA", "buy", 1, 1, client_order_id=wrong)
        await client.close()

    asyncio.run(run())


def test_wrong_use_is_told_before_anything_is_sent() -> None:
    async def run() -> None:
        def never(request: httpx.Request) -> httpx.Response:
            raise AssertionError(request)

        client = client_of(never)
        with pytest.raises(ValueError, match="'up'"):
            await client.new_order("AAA", "up", 1, 1)
        with pytest.raises(TypeError):
            await client.new_order("AAA", "buy", 1.5, 1)  # type: ignore[arg-type]
        for seconds in (0, -1, 0.0001, float("inf"), float("-inf"), float("nan"), 1e308):
            with pytest.raises(ValueError, match="timeout"):
                await client.cancel_after(seconds)
        public = fairbell.Client(URL)
        with pytest.raises(ValueError, match="key"):
            await public.open_orders()
        await client.close()
        await public.close()

    asyncio.run(run())
    for url in ("127.0.0.1:80", "ftp://x", "http://"):
        with pytest.raises(ValueError, match="url"):
            fairbell.Client(url)
    with pytest.raises(ValueError, match="both"):
        fairbell.Client(URL, "k")


# Whatever comes, it is a value or a ProtocolError.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["buy", "open", "1.5", "snapshot", "update", "-1", "1e5", "9" * 60]),
    lambda of: st.lists(of, max_size=4) | st.dictionaries(st.sampled_from([*ORDER, "error", "code"]), of),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        assert isinstance(wire.parse(raw), dict)
    except errors.ProtocolError:
        pass


def test_deep_and_long_messages_are_refused() -> None:
    for raw in (
        '{"a":' * 100_000,
        "[" * 100_000,
        '{"a": ' + "9" * 10_000 + "}",
        '{"a": NaN}',
        '{"a": 1e999999}',
    ):
        try:
            wire.parse(raw)
        except errors.ProtocolError:
            continue
        assert raw.endswith("999999}"), raw[:20]


@given(st.dictionaries(st.sampled_from(list(ORDER)), JSON), st.sampled_from(list(ORDER)), JSON)
def test_records_are_read_or_refused(record: dict[str, object], field: str, value: object) -> None:
    readers = (
        models.Order.read,
        models.Fill.read,
        models.Trade.read,
        models.Ticker.read,
        models.Position.read,
        models.Instrument.read,
    )
    for of in (record, {**ORDER, field: value}):
        for read in readers:
            try:
                read(of)
            except errors.ProtocolError:
                continue


@given(st.integers(100, 599), JSON)
def test_answers_are_read_or_refused(status: int, value: object) -> None:
    for content in (json.dumps(value).encode(), json.dumps({"error": value}).encode()):
        try:
            read_answer(status, content)
        except errors.FairbellError:
            continue
