"""``with`` and ``async with`` for what has to be closed."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

__all__ = ["AsyncClosing", "Closing"]

C = TypeVar("C", bound="Closing")
A = TypeVar("A", bound="AsyncClosing")


class Closing:
    """Closes itself at the end of a ``with``."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing:
    """Closes itself at the end of an ``async with``."""

    async def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
