"""Names: the venue, and client order ids, which are longer in NautilusTrader than the door takes.

An order of NautilusTrader has one client order id for its life; at the door each replacement has an id of
its own. Both are bridged without a table, so that a program that starts anew finds its orders: the *base*,
ten letters of the SHA-256 of NautilusTrader's id, is the venue order id, and the legs of the order are
``BASE.0``, ``BASE.1``, ... at the door.
"""

from __future__ import annotations

import base64
import hashlib
import re

from nautilus_trader.model.identifiers import ClientOrderId, Venue

__all__ = ["FAIRBELL", "FAIRBELL_VENUE", "LEGS_MAX", "base_of", "leg_id", "split"]

FAIRBELL = "FAIRBELL"
FAIRBELL_VENUE = Venue(FAIRBELL)

LEGS_MAX = 1_000
"""Legs of an order: itself and its replacements."""

_LEG = re.compile(r"([A-Z2-7]{10})\.(0|[1-9][0-9]{0,2})", re.ASCII)


def base_of(client_order_id: ClientOrderId) -> str:
    """The base of an order: 50 bits of the hash of its id."""
    digest = hashlib.sha256(client_order_id.value.encode()).digest()
    return base64.b32encode(digest).decode()[:10]


def leg_id(base: str, leg: int) -> str:
    """The client order id of a leg at the door."""
    if not 0 <= leg < LEGS_MAX:
        raise ValueError(f"leg {leg}: an order has {LEGS_MAX} at most")
    return f"{base}.{leg}"


def split(door_id: str) -> tuple[str, int]:
    """Base and leg of an id of the door; an order that was not entered here is a base of its own."""
    match = _LEG.fullmatch(door_id)
    return (match[1], int(match[2])) if match else (door_id, 0)
