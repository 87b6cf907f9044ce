"""Configurations of the data and the execution client."""

from __future__ import annotations

import os

from nautilus_trader.config import LiveDataClientConfig, LiveExecClientConfig

from ..client import Client

__all__ = ["FairbellDataClientConfig", "FairbellExecClientConfig", "client_of"]


class FairbellDataClientConfig(LiveDataClientConfig, frozen=True):  # type: ignore[call-arg]
    """Of :class:`FairbellDataClient`.

    :param url: address of the web door; else FAIRBELL_URL.
    :param api_key: name of the key; not needed for data.
    :param api_secret: its secret.
    :param quote: the currency that instruments are taken to be traded against.
    """

    url: str | None = None
    api_key: str | None = None
    api_secret: str | None = None
    quote: str = "USD"


class FairbellExecClientConfig(LiveExecClientConfig, frozen=True):  # type: ignore[call-arg]
    """Of :class:`FairbellExecutionClient`.

    :param url: address of the web door; else FAIRBELL_URL.
    :param api_key: name of the key; else FAIRBELL_KEY.
    :param api_secret: its secret; else FAIRBELL_SECRET.
    :param quote: the currency that instruments are taken to be traded against.
    :param starting_cash: what the account had before it traded, for the door tells positions only.
    :param cancel_on_disconnect: all orders of the account are cancelled when the connection ends.
    :param cancel_after_secs: dead man's switch: all orders are cancelled when nothing was heard of this
        client for so long; 0.5 or more.
    """

    url: str | None = None
    api_key: str | None = None
    api_secret: str | None = None
    quote: str = "USD"
    starting_cash: str = "0"
    cancel_on_disconnect: bool = False
    cancel_after_secs: float | None = None


def client_of(config: FairbellDataClientConfig | FairbellExecClientConfig) -> Client:
    """The client of a configuration.

    :raises ValueError: there is no address, or half a key.
    """
    url = config.url or os.environ.get("FAIRBELL_URL")
    if not url:
        raise ValueError("url is not set, and FAIRBELL_URL neither: the address of the web door")
    key = config.api_key or os.environ.get("FAIRBELL_KEY") or None
    secret = config.api_secret or os.environ.get("FAIRBELL_SECRET") or None
    return Client(url, key, secret)
