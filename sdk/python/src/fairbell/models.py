"""What the exchange tells, as immutable values. Prices, quantities and money are exact decimals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from . import wire
from .errors import ProtocolError

__all__ = [
    "Fill",
    "Instrument",
    "Level",
    "Order",
    "OrderState",
    "Position",
    "Side",
    "Ticker",
    "TimeInForce",
    "Trade",
    "TradingStatus",
]


class Side(str, Enum):
    """Side of an order."""

    BUY = "buy"
    SELL = "sell"

    @property
    def opposite(self) -> Side:
        """The other side."""
        return Side.SELL if self is Side.BUY else Side.BUY


class TimeInForce(str, Enum):
    """How long an order lives."""

    DAY = "day"
    GTC = "gtc"
    IOC = "ioc"
    FOK = "fok"
    OTHER = "other"
    """One of another door's, which can not be asked for here."""


class OrderState(str, Enum):
    """What has become of an order."""

    PENDING = "pending"
    OPEN = "open"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    REPLACED = "replaced"

    @property
    def is_over(self) -> bool:
        """Nothing more happens to it."""
        return self not in (OrderState.PENDING, OrderState.OPEN)


class TradingStatus(str, Enum):
    """State of trading in an instrument."""

    TRADING = "trading"
    QUOTATION = "quotation"
    PAUSED = "paused"
    HALTED = "halted"
    UNKNOWN = "unknown"
    """Not told yet, or one that this version does not know."""


def _side(of: Mapping[str, Any], field: str) -> Side:
    try:
        return Side(wire.text(of, field))
    except ValueError:
        raise ProtocolError(f"{field}: no side {of.get(field)!r}") from None


class Level(NamedTuple):
    """A level of a book."""

    price: Decimal
    qty: Decimal


def level(value: object) -> Level:
    """Reads ``[price, qty]``."""
    if not isinstance(value, list) or len(value) != 2:
        raise ProtocolError(f"level: [price, qty] expected, got {repr(value)[:80]}")
    read = Level(wire.as_decimal(value[0], "price"), wire.as_decimal(value[1], "qty"))
    if read.price < 0 or read.qty < 0:
        raise ProtocolError(f"level: negative: {repr(value)[:80]}")
    return read


@dataclass(frozen=True, slots=True)
class Instrument:
    """What can be traded, and in which steps."""

    symbol: str
    tick: Decimal
    """Smallest price step."""
    price_max: Decimal
    """Largest limit price."""
    lot: Decimal
    """Smallest quantity step."""
    qty_max: Decimal
    """Largest quantity of an order."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Instrument:
        """Reads one."""
        number = wire.decimal
        return cls(
            symbol=wire.text(of, "symbol"),
            tick=number(of, "tick"),
            price_max=number(of, "price_max"),
            lot=number(of, "lot"),
            qty_max=number(of, "qty_max"),
        )


@dataclass(frozen=True, slots=True)
class Trade:
    """A public trade."""

    trade_id: str
    price: Decimal
    qty: Decimal
    aggressor: Side | None
    """Side of the order that took; ``None`` in an auction."""
    time_ns: int
    """ns since midnight UTC, by the exchange's clock."""
    broken: bool
    """The trade of this id was broken later; price and quantity are 0 then."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Trade:
        """Reads one."""
        return cls(
            trade_id=wire.text(of, "trade_id"),
            price=wire.decimal(of, "price"),
            qty=wire.decimal(of, "qty"),
            aggressor=None if of.get("aggressor") is None else _side(of, "aggressor"),
            time_ns=wire.integer(of, "time_ns"),
            broken=wire.boolean(of, "broken"),
        )


@dataclass(frozen=True, slots=True)
class Ticker:
    """Best prices and the last trade."""

    symbol: str
    bid: Level | None
    ask: Level | None
    last: Decimal | None
    """Price of the last trade."""
    volume: Decimal
    """Traded quantity."""
    trades: int
    """Number of trades."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Ticker:
        """Reads one."""
        return cls(
            symbol=wire.text(of, "symbol"),
            bid=None if of.get("bid") is None else level(of.get("bid")),
            ask=None if of.get("ask") is None else level(of.get("ask")),
            last=wire.optional_decimal(of, "last"),
            volume=wire.decimal(of, "volume"),
            trades=wire.integer(of, "trades"),
        )


def status(name: str) -> TradingStatus:
    """A state of trading by its name."""
    try:
        return TradingStatus(name)
    except ValueError:
        return TradingStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the account, whole, as it stands."""

    client_order_id: str
    """What names it in requests."""
    order_id: str
    """Its number in the account's session."""
    symbol: str
    side: Side
    qty: Decimal
    """Total quantity, traded parts included."""
    filled: Decimal
    open: Decimal
    """What may still trade."""
    price: Decimal | None
    """Limit; ``None``: a market order."""
    time_in_force: TimeInForce
    state: OrderState
    reason: str | None
    """Why it was rejected or cancelled, for people."""
    replaces: str | None
    """``order_id`` of the order that it replaced."""
    order_ref: str | None
    """Its number in the public feed."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Order:
        """Reads one."""
        try:
            state = OrderState(wire.text(of, "state"))
        except ValueError:
            raise ProtocolError(f"state: no state {of.get('state')!r}") from None
        try:
            lives = TimeInForce(wire.optional_text(of, "time_in_force") or "other")
        except ValueError:
            lives = TimeInForce.OTHER
        return cls(
            client_order_id=wire.text(of, "client_order_id"),
            order_id=wire.text(of, "order_id"),
            symbol=wire.text(of, "symbol"),
            side=_side(of, "side"),
            qty=wire.decimal(of, "qty"),
            filled=wire.decimal(of, "filled"),
            open=wire.decimal(of, "open"),
            price=wire.optional_decimal(of, "price"),
            time_in_force=lives,
            state=state,
            reason=wire.optional_text(of, "reason"),
            replaces=wire.optional_text(of, "replaces"),
            order_ref=wire.optional_text(of, "order_ref"),
        )


@dataclass(frozen=True, slots=True)
class Fill:
    """A trade of the account's own."""

    trade_id: str
    order_id: str
    client_order_id: str | None
    """``None``: the door does not remember the order any more."""
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    time_ns: int
    """ns since midnight UTC of the day the exchange started."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Fill:
        """Reads one."""
        return cls(
            trade_id=wire.text(of, "trade_id"),
            order_id=wire.text(of, "order_id"),
            client_order_id=wire.optional_text(of, "client_order_id"),
            symbol=wire.text(of, "symbol"),
            side=_side(of, "side"),
            qty=wire.decimal(of, "qty"),
            price=wire.decimal(of, "price"),
            time_ns=wire.integer(of, "time_ns"),
        )


@dataclass(frozen=True, slots=True)
class Position:
    """What the account holds in an instrument, over the whole log."""

    symbol: str
    position: Decimal
    """Bought less sold; below 0: short."""
    bought: Decimal
    sold: Decimal
    cash: Decimal
    """Value sold less value bought, in the quote currency."""

    @classmethod
    def read(cls, of: Mapping[str, Any]) -> Position:
        """Reads one."""
        return cls(
            symbol=wire.text(of, "symbol"),
            position=wire.decimal(of, "position"),
            bought=wire.decimal(of, "bought"),
            sold=wire.decimal(of, "sold"),
            cash=wire.decimal(of, "cash"),
        )


def objects(of: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """A list of objects."""
    values = wire.array(of, field)
    if not all(isinstance(value, dict) for value in values):
        raise ProtocolError(f"{field}: a list of objects expected")
    return values
