"""A local exchange for tests: ``fairbell up`` on free ports, with accounts and keys, played by nobody else.

::

    from fairbell.testing import LocalExchange

    with LocalExchange() as exchange:
        exchange.url, exchange.keys[0].name, exchange.keys[0].secret

As pytest fixtures, there as soon as the package is installed: ``fairbell_exchange``,
``fairbell_shared_exchange`` and ``fairbell_exchange_factory`` (:mod:`fairbell.testing.plugin`).
"""

from .local import BinaryNotFound, ExchangeFailed, InstrumentSpec, Key, LocalExchange

__all__ = ["BinaryNotFound", "ExchangeFailed", "InstrumentSpec", "Key", "LocalExchange"]
