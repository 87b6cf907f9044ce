"""Pytest fixtures; the package's entry point for pytest names this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .local import LocalExchange


@pytest.fixture
def fairbell_exchange_factory() -> Iterator[Callable[..., LocalExchange]]:
    """Starts exchanges with the options of :class:`LocalExchange`; all stop with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> LocalExchange:
            return stack.enter_context(LocalExchange(**options))

        yield start


@pytest.fixture
def fairbell_exchange(
    fairbell_exchange_factory: Callable[..., LocalExchange],
) -> LocalExchange:
    """An exchange of this test's own."""
    return fairbell_exchange_factory()


@pytest.fixture(scope="session")
def fairbell_shared_exchange() -> Iterator[LocalExchange]:
    """One exchange for all tests of the run that ask for it."""
    with LocalExchange() as exchange:
        yield exchange
