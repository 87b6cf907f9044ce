"""Fairbell for NautilusTrader: instruments, market data and execution of the web door.

::

    from fairbell import nautilus
    from nautilus_trader.config import InstrumentProviderConfig, TradingNodeConfig
    from nautilus_trader.live.node import TradingNode

    door = {"url": "http://127.0.0.1:8080", "api_key": "desk1", "api_secret": "...",
            "instrument_provider": InstrumentProviderConfig(load_all=True)}
    node = TradingNode(TradingNodeConfig(
        data_clients={"FAIRBELL": nautilus.FairbellDataClientConfig(**door)},
        exec_clients={"FAIRBELL": nautilus.FairbellExecClientConfig(**door, starting_cash="1000000")},
    ))
    node.add_data_client_factory("FAIRBELL", nautilus.FairbellLiveDataClientFactory)
    node.add_exec_client_factory("FAIRBELL", nautilus.FairbellLiveExecClientFactory)

Instruments are ``SYMBOL.FAIRBELL``. What differs from other venues is told in docs/sdk.md.
"""

from .config import FairbellDataClientConfig, FairbellExecClientConfig
from .data import FairbellDataClient
from .execution import FairbellExecutionClient
from .factories import FairbellLiveDataClientFactory, FairbellLiveExecClientFactory
from .ids import FAIRBELL, FAIRBELL_VENUE
from .provider import FairbellInstrumentProvider

__all__ = [
    "FAIRBELL",
    "FAIRBELL_VENUE",
    "FairbellDataClient",
    "FairbellDataClientConfig",
    "FairbellExecClientConfig",
    "FairbellExecutionClient",
    "FairbellInstrumentProvider",
    "FairbellLiveDataClientFactory",
    "FairbellLiveExecClientFactory",
]
