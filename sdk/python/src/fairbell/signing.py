"""Signatures of requests: hexadecimal HMAC-SHA256 under the key's secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["new_client_order_id", "new_nonce", "signature"]

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def signature(secret: str, timestamp: str, nonce: str, method: str, path: str, body: bytes = b"") -> str:
    """The signature of ``timestamp + nonce + method + path + body``.

    ``timestamp`` is in milliseconds since the epoch as sent in FB-TIMESTAMP, ``nonce`` as in FB-NONCE
    (empty without one), ``method`` in capitals, ``path`` with its query.
    """
    head = f"{timestamp}{nonce}{method}{path}".encode()
    return hmac.new(secret.encode(), head + body, hashlib.sha256).hexdigest()


def new_nonce() -> str:
    """A nonce that no other request has."""
    return secrets.token_hex(12)


def new_client_order_id() -> str:
    """A client order id that no other order has: 14 letters and digits, 83 random bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(14))
