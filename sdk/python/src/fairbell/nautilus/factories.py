"""Factories for a TradingNode."""

from __future__ import annotations

import asyncio
from typing import Any

from nautilus_trader.live.factories import LiveDataClientFactory, LiveExecClientFactory

from .config import FairbellDataClientConfig, FairbellExecClientConfig, client_of
from .data import FairbellDataClient
from .execution import FairbellExecutionClient
from .provider import FairbellInstrumentProvider

__all__ = ["FairbellLiveDataClientFactory", "FairbellLiveExecClientFactory"]


def _parts(config: Any, clock: Any) -> dict[str, Any]:
    client = client_of(config)
    provider = FairbellInstrumentProvider(client, clock, config.quote, config.instrument_provider)
    return {"client": client, "instrument_provider": provider, "config": config, "clock": clock}


class FairbellLiveDataClientFactory(LiveDataClientFactory):
    """Makes data clients."""

    @staticmethod
    def create(
        loop: asyncio.AbstractEventLoop,
        name: str,
        config: FairbellDataClientConfig,
        msgbus: Any,
        cache: Any,
        clock: Any,
    ) -> FairbellDataClient:
        """A data client; see the base class."""
        parts = _parts(config, clock)
        return FairbellDataClient(loop=loop, name=name, msgbus=msgbus, cache=cache, **parts)


class FairbellLiveExecClientFactory(LiveExecClientFactory):
    """Makes execution clients."""

    @staticmethod
    def create(
        loop: asyncio.AbstractEventLoop,
        name: str,
        config: FairbellExecClientConfig,
        msgbus: Any,
        cache: Any,
        clock: Any,
    ) -> FairbellExecutionClient:
        """An execution client; see the base class."""
        parts = _parts(config, clock)
        return FairbellExecutionClient(loop=loop, name=name, msgbus=msgbus, cache=cache, **parts)
