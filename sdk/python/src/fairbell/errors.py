"""What can go wrong, as exceptions.

Everything raised on purpose is a :class:`FairbellError`. Refusals of the exchange's web door are
:class:`ApiError` with the door's ``code`` (see docs/web.md), the HTTP ``status`` and a ``message`` for
people; each family of codes has a class of its own, and codes that this version does not know get the
class of their HTTP status.
"""

from __future__ import annotations

import re

__all__ = [
    "ApiError",
    "AuthenticationError",
    "BadRequest",
    "BookGap",
    "Busy",
    "CancelRejected",
    "ChecksumMismatch",
    "ClientOrderIdUsed",
    "Conflict",
    "ConnectionFailed",
    "FairbellError",
    "NotFound",
    "NotOpen",
    "OrderPending",
    "OrderRejected",
    "PermissionDenied",
    "ProtocolError",
    "SessionDown",
    "SlowConsumer",
    "StreamClosed",
    "TooManyRequests",
    "Unavailable",
    "api_error",
]


class FairbellError(Exception):
    """Base of all exceptions of this package."""


class ConnectionFailed(FairbellError):
    """The door could not be reached, or the connection broke and the request may not be repeated."""


class ProtocolError(FairbellError):
    """The door sent something that its documentation does not allow; the message names the field."""


class BookGap(FairbellError):
    """A book update does not follow the one before it: the book has to be fetched again."""


class ChecksumMismatch(FairbellError):
    """The book's checksum is not the one that the door told."""


class SlowConsumer(FairbellError):
    """An event iterator had more events waiting than its limit; those behind the limit are gone."""


class StreamClosed(FairbellError):
    """The stream or client was closed, by its owner or by an error that a new connection does not mend."""


class OrderPending(FairbellError):
    """The exchange's answer has not come; whether the order was entered is not known yet.

    Ask with ``client.order(client_order_id)``, or send the same order with the same id again: it counts
    once.
    """

    def __init__(self, client_order_id: str) -> None:
        super().__init__(f"no answer yet for order {client_order_id}: ask for it, or send it again")
        self.client_order_id = client_order_id


class ApiError(FairbellError):
    """A refusal by the door."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        """For programs; the list is in docs/web.md."""
        self.message = message
        """For people; may change."""
        self.status = status
        """HTTP status; 0 for refusals over WebSocket of codes that are not known."""


class BadRequest(ApiError):
    """The request itself is wrong: body, field, method, size."""


class AuthenticationError(ApiError):
    """Key, signature or timestamp."""


class PermissionDenied(ApiError):
    """The key may not do this, or not from this address."""


class NotFound(ApiError):
    """No such path, symbol or order."""


class Conflict(ApiError):
    """The request does not fit the order's state."""


class ClientOrderIdUsed(Conflict):
    """An order of other terms has this client order id."""


class NotOpen(Conflict):
    """The order is not open any more."""


class CancelRejected(Conflict):
    """The exchange has nothing to cancel there."""


class OrderRejected(ApiError):
    """The exchange refuses the order."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(code, message, status)
        found = re.match(r"0x([0-9A-Fa-f]{1,8})\b", message)
        self.reason_code: int | None = int(found.group(1), 16) if found else None
        """OUCH's reject code."""
        self.client_order_id: str | None = None
        """Which order, where it is known."""


class TooManyRequests(ApiError):
    """The key's credits are used up."""


class Unavailable(ApiError):
    """Not just now."""


class Busy(Unavailable):
    """Too much waits at the door."""


class SessionDown(Unavailable):
    """The account's session at the exchange is not up; the message says why."""


# Code: class and HTTP status.
_CODES: dict[str, tuple[type[ApiError], int]] = {
    "bad_json": (BadRequest, 400),
    "missing_field": (BadRequest, 400),
    "bad_field": (BadRequest, 400),
    "missing_header": (AuthenticationError, 401),
    "unknown_key": (AuthenticationError, 401),
    "key_expired": (AuthenticationError, 401),
    "bad_signature": (AuthenticationError, 401),
    "late_timestamp": (AuthenticationError, 401),
    "replayed": (AuthenticationError, 401),
    "wrong_scope": (PermissionDenied, 403),
    "wrong_address": (PermissionDenied, 403),
    "not_found": (NotFound, 404),
    "method_not_allowed": (BadRequest, 405),
    "timeout": (BadRequest, 408),
    "client_order_id_used": (ClientOrderIdUsed, 409),
    "not_open": (NotOpen, 409),
    "cancel_rejected": (CancelRejected, 409),
    "too_large": (BadRequest, 413),
    "rejected": (OrderRejected, 422),
    "too_many_requests": (TooManyRequests, 429),
    "busy": (Busy, 503),
    "session_down": (SessionDown, 503),
}

_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    422: OrderRejected,
    429: TooManyRequests,
    503: Unavailable,
}


def api_error(code: str, message: str, status: int | None = None) -> ApiError:
    """The exception of a refusal; ``status`` is the HTTP status if there was one."""
    known = _CODES.get(code)
    if known is not None:
        kind, usual = known
        return kind(code, message, usual if status is None else status)
    if status is None:
        return ApiError(code, message, 0)
    kind = _STATUS.get(status, BadRequest if 400 <= status < 500 else ApiError)
    return kind(code, message, status)
