"""Times of the door, which are of a day, as times since the epoch."""

from __future__ import annotations

import time

__all__ = ["DAY_NS", "epoch_ns"]

DAY_NS = 86_400 * 1_000_000_000
# How far a clock of the exchange may be ahead of this one, ns.
_AHEAD_NS = 60 * 1_000_000_000


def epoch_ns(time_ns: int, now_ns: int | None = None) -> int:
    """The time since the epoch, ns, of a time since a midnight UTC: the last such one before now.

    The door tells trades and fills with the time of day alone, so what is older than a day is taken to be
    of today. A minute is left for clocks that differ.

    :param time_ns: ns since midnight UTC; whole days are left out.
    :param now_ns: ns since the epoch; by default now.
    """
    now = time.time_ns() if now_ns is None else now_ns
    at = now - now % DAY_NS + time_ns % DAY_NS
    if at > now + _AHEAD_NS:
        return at - DAY_NS
    # Midnight lies between the exchange's clock and this one.
    return at + DAY_NS if at + DAY_NS <= now + _AHEAD_NS else at
