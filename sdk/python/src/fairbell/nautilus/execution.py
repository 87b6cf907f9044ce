"""Execution: orders in, their lives out, and reports for NautilusTrader's reconciliation.

What became of an order is learned from the answer to the request and from the account's stream, whichever is
sooner; each is told once. An order's venue order id is its base (see ``ids``), which stays over replacements.

Each order has a lock, so that a replacement and a cancel of it go one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from nautilus_trader.core.uuid import UUID4
from nautilus_trader.execution.reports import FillReport, OrderStatusReport, PositionStatusReport
from nautilus_trader.live.execution_client import LiveExecutionClient
from nautilus_trader.model.enums import (
    AccountType,
    ContingencyType,
    LiquiditySide,
    OmsType,
    OrderSide,
    OrderStatus,
    OrderType,
    PositionSide,
)
from nautilus_trader.model.enums import TimeInForce as NautilusTimeInForce
from nautilus_trader.model.identifiers import (
    AccountId,
    ClientId,
    ClientOrderId,
    InstrumentId,
    TradeId,
    VenueOrderId,
)
from nautilus_trader.model.objects import AccountBalance, Currency, Money, Price, Quantity

from .. import events as ev
from ..client import Client
from ..errors import (
    ApiError,
    ConnectionFailed,
    FairbellError,
    NotFound,
    OrderPending,
    OrderRejected,
    SlowConsumer,
)
from ..models import Fill, Order, OrderState, Side, TimeInForce
from ..stream import Stream
from ..times import epoch_ns
from .config import FairbellExecClientConfig
from .ids import FAIRBELL, FAIRBELL_VENUE, LEGS_MAX, base_of, leg_id, split
from .provider import FairbellInstrumentProvider, instrument_id

__all__ = ["FairbellExecutionClient"]

_WAITING_MAX, _FILLS_MAX = 100_000, 10_000

_TIMES = {
    NautilusTimeInForce.GTC: TimeInForce.GTC,
    NautilusTimeInForce.DAY: TimeInForce.DAY,
    NautilusTimeInForce.IOC: TimeInForce.IOC,
    NautilusTimeInForce.FOK: TimeInForce.FOK,
}
_TIMES_BACK = {ours: theirs for theirs, ours in _TIMES.items()} | {TimeInForce.OTHER: NautilusTimeInForce.GTC}
_SIDES = {OrderSide.BUY: Side.BUY, OrderSide.SELL: Side.SELL}
_SIDES_BACK = {ours: theirs for theirs, ours in _SIDES.items()}
_STATUS = {
    OrderState.PENDING: OrderStatus.SUBMITTED,
    OrderState.OPEN: OrderStatus.ACCEPTED,
    OrderState.FILLED: OrderStatus.FILLED,
    OrderState.CANCELLED: OrderStatus.CANCELED,
    OrderState.REPLACED: OrderStatus.CANCELED,
    OrderState.REJECTED: OrderStatus.REJECTED,
}
_IMMEDIATE = (NautilusTimeInForce.IOC, NautilusTimeInForce.FOK)


@dataclass(slots=True)
class _Life:
    """What was told of an order of ours."""

    client_order_id: ClientOrderId
    base: str
    leg: int = 0
    """The leg that is at the door."""
    next_leg: int = 1
    """The leg that comes next: an id is used once, whatever became of it."""
    accepted: bool = False
    ended: bool = False
    filled: Decimal = Decimal(0)
    """Quantity of the fills that were told."""
    trades: set[str] = field(default_factory=set)
    cancelled: Order | None = None
    """It was cancelled, and fills from before that have not come yet."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def door_id(self) -> str:
        """What names it at the door."""
        return leg_id(self.base, self.leg)

    @property
    def venue_order_id(self) -> VenueOrderId:
        """What names it in NautilusTrader, beside its client order id."""
        return VenueOrderId(self.base)


class FairbellExecutionClient(LiveExecutionClient):
    """An execution client of the door; made by :class:`FairbellLiveExecClientFactory`.

    Limit and market orders; GTC, DAY, IOC and FOK; post-only. Positions are netted and may be short.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: Client,
        msgbus: Any,
        cache: Any,
        clock: Any,
        instrument_provider: FairbellInstrumentProvider,
        config: FairbellExecClientConfig,
        name: str | None = None,
    ) -> None:
        super().__init__(
            loop=loop,
            client_id=ClientId(name or FAIRBELL),
            venue=FAIRBELL_VENUE,
            oms_type=OmsType.NETTING,
            account_type=AccountType.MARGIN,
            base_currency=None,
            instrument_provider=instrument_provider,
            msgbus=msgbus,
            cache=cache,
            clock=clock,
        )
        self._client = client
        self._config = config
        self._currency = Currency.from_str(config.quote)
        self._cash = Decimal(config.starting_cash)
        self._set_account_id(AccountId(f"{name or FAIRBELL}-{client.key or 'public'}"))
        self._stream: Stream | None = None
        self._events: ev.EventIterator | None = None
        self._lives: dict[str, _Life] = {}
        # Orders of others that were open at the start: reconciliation tells them.
        self._at_start: set[str] = set()
        self._stale = False
        self._refreshing = False

    # Connections.

    async def _connect(self) -> None:
        await self._instrument_provider.initialize()
        for instrument in self._instrument_provider.list_all():
            self._cache.add_instrument(instrument)
        for order in self._cache.orders(venue=FAIRBELL_VENUE):
            self._know(order)
        await self._tell_account()
        await self._await_account_registered()
        self._stream = self._client.stream(cancel_on_disconnect=self._config.cancel_on_disconnect)
        self._events = self._stream.events(_WAITING_MAX)
        await self._stream.subscribe("orders", "fills")
        self._at_start = set(self._stream.orders)
        self.create_task(self._follow())
        if self._config.cancel_after_secs is not None:
            await self._client.cancel_after(self._config.cancel_after_secs)
            self.create_task(self._stay_alive(self._config.cancel_after_secs))

    async def _disconnect(self) -> None:
        if self._stream is not None:
            if self._config.cancel_after_secs is not None:
                await self._client.cancel_after(None)
            await self._stream.close()
        await self._client.close()

    async def _stay_alive(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            try:
                await self._client.cancel_after(seconds)
            except FairbellError as error:
                self._log.error(f"the dead man's switch was not set again: {error}")

    async def _follow(self) -> None:
        """Takes the account's events, until the stream is closed."""
        while self._events is not None and self._stream is not None:
            try:
                async for event in self._events:
                    if isinstance(event, ev.OrderEvent):
                        self._take_order(event.order, event.snapshot)
                    elif isinstance(event, ev.FillEvent):
                        self._take_fill(event.fill)
                    elif isinstance(event, ev.FillBroken):
                        self._log.error(f"{event}: NautilusTrader knows no broken trades; see the position")
                        self._refresh_account()
                    elif isinstance(event, ev.Disconnected | ev.Resync):
                        self._log.warning(repr(event))
                return
            except SlowConsumer as error:
                self._log.error(f"{error}: open orders are asked for")
                self._events = self._stream.events(_WAITING_MAX)
                for fill in reversed(await self._client.fills(_FILLS_MAX)):
                    self._take_fill(fill)
                for life in [of for of in self._lives.values() if not of.ended]:
                    if (told := await self._latest(life.base)) is not None:
                        self._take_order(told, snapshot=True)
            except FairbellError as error:
                self._log.error(f"the stream has ended: {error}")
                return

    # What is known.

    def _know(self, order: Any) -> _Life:
        """The life of an order of NautilusTrader; one that is in the cache already was told so far."""
        base = base_of(order.client_order_id)
        life = self._lives.get(base)
        if life is None:
            life = self._lives[base] = _Life(order.client_order_id, base)
            life.accepted = order.venue_order_id is not None
            life.ended = order.is_closed
            life.filled = order.filled_qty.as_decimal()
            life.trades = {trade.value for trade in order.trade_ids}
        return life

    def _found(self, door_id: str) -> tuple[_Life, Any, int] | None:
        """The life, the order in the cache and the leg of an id of the door, if it was entered here."""
        base, leg = split(door_id)
        life = self._lives.get(base)
        order = None if life is None else self._cache.order(life.client_order_id)
        return None if life is None or order is None else (life, order, leg)

    def _names(self, order: Any) -> dict[str, Any]:
        return {
            "strategy_id": order.strategy_id,
            "instrument_id": order.instrument_id,
            "client_order_id": order.client_order_id,
        }

    # What comes.

    def _take_order(self, told: Order, snapshot: bool = False) -> None:
        found = self._found(told.client_order_id)
        if found is None:
            if not (snapshot and told.client_order_id in self._at_start):
                self._send_order_status_report(self._status_report(told, None))
            return
        life, order, leg = found
        # Refusals are told by who asked; a leg that was replaced has nothing more to say.
        if life.ended or leg < life.leg or told.state in (OrderState.REJECTED, OrderState.PENDING):
            return
        if not life.accepted:
            self._accept(life, order)
        if leg > life.leg:
            life.leg, life.next_leg = leg, max(life.next_leg, leg + 1)
            self._updated(life, order, told)
        if told.state is OrderState.CANCELLED:
            life.cancelled = told
            self._end_if_cancelled(life, order)
        elif told.state is OrderState.FILLED and life.filled >= told.qty:
            life.ended = True

    def _accept(self, life: _Life, order: Any) -> None:
        life.accepted = True
        now = self._clock.timestamp_ns()
        self.generate_order_accepted(**self._names(order), venue_order_id=life.venue_order_id, ts_event=now)

    def _updated(self, life: _Life, order: Any, told: Order) -> None:
        instrument = self._instrument_provider.find(order.instrument_id)
        price = order.price if told.price is None else _price(told.price, instrument)
        self.generate_order_updated(
            **self._names(order),
            venue_order_id=life.venue_order_id,
            quantity=_quantity(told.qty, instrument),
            price=price,
            trigger_price=None,
            ts_event=self._clock.timestamp_ns(),
        )

    def _end_if_cancelled(self, life: _Life, order: Any) -> None:
        """Tells that an order was cancelled once all its fills were told."""
        if life.cancelled is None or life.ended or life.filled < life.cancelled.filled:
            return
        life.ended = True
        now = self._clock.timestamp_ns()
        self.generate_order_canceled(**self._names(order), venue_order_id=life.venue_order_id, ts_event=now)

    def _take_fill(self, fill: Fill) -> None:
        self._refresh_account()
        found = None if fill.client_order_id is None else self._found(fill.client_order_id)
        if found is None:
            if self._instrument_provider.find(instrument_id(fill.symbol)) is not None:
                self._send_fill_report(self._fill_report(fill, None, None))
            return
        life, order, _ = found
        if fill.trade_id in life.trades:
            return
        life.trades.add(fill.trade_id)
        if not life.accepted:
            self._accept(life, order)
        instrument = self._instrument_provider.find(order.instrument_id)
        life.filled += fill.qty
        self.generate_order_filled(
            **self._names(order),
            venue_order_id=life.venue_order_id,
            venue_position_id=None,
            trade_id=TradeId(fill.trade_id),
            order_side=order.side,
            order_type=order.order_type,
            last_qty=_quantity(fill.qty, instrument),
            last_px=_price(fill.price, instrument),
            quote_currency=instrument.quote_currency,
            commission=Money(0, instrument.quote_currency),
            liquidity_side=_liquidity(order),
            ts_event=epoch_ns(fill.time_ns, self._clock.timestamp_ns()),
        )
        if life.filled >= order.quantity.as_decimal():
            life.ended = True
        self._end_if_cancelled(life, order)

    # The account.

    async def _tell_account(self) -> None:
        positions = await self._client.positions() if self._client.key is not None else {}
        cash = self._cash + sum((of.cash for of in positions.values()), Decimal(0))
        total, none = Money(cash, self._currency), Money(0, self._currency)
        now = self._clock.timestamp_ns()
        self.generate_account_state([AccountBalance(total, none, total)], [], True, now)

    def _refresh_account(self) -> None:
        """Tells the account anew; several fills at once share one request."""
        self._stale = True
        if not self._refreshing:
            self._refreshing = True
            self.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            while self._stale:
                self._stale = False
                await self._tell_account()
                await asyncio.sleep(0.1)
        except FairbellError as error:
            self._log.warning(f"the account's positions were not told: {error}")
        finally:
            self._refreshing = False

    async def _query_account(self, command: Any) -> None:
        await self._tell_account()

    # Commands.

    def _refusal(self, order: Any) -> str | None:
        """Why an order can't be entered."""
        if order.order_type not in (OrderType.LIMIT, OrderType.MARKET):
            return f"{order.type_string()} orders: there are LIMIT and MARKET"
        if order.time_in_force not in _TIMES:
            return f"{order.tif_string()}: there are GTC, DAY, IOC and FOK"
        if order.is_quote_quantity:
            return "quantities are of the base currency"
        if order.contingency_type != ContingencyType.NO_CONTINGENCY:
            return "contingent orders are not at the exchange"
        resting = order.order_type == OrderType.LIMIT and order.time_in_force not in _IMMEDIATE
        # What trades at once was judged by the risk engine a moment ago.
        if order.is_reduce_only and resting:
            return "reduce-only orders that rest: MARKET, IOC or FOK only"
        if getattr(order, "display_qty", None) is not None:
            return "icebergs are not at this door"
        return None

    async def _submit_order(self, command: Any) -> None:
        await self._submit(command.order)

    async def _submit_order_list(self, command: Any) -> None:
        await asyncio.gather(*[self._submit(order) for order in command.order_list.orders])

    async def _submit(self, order: Any) -> None:
        now = self._clock.timestamp_ns()
        if (why := self._refusal(order)) is not None:
            self.generate_order_denied(**self._names(order), reason=why, ts_event=now)
            return
        life = self._know(order)
        self.generate_order_submitted(**self._names(order), ts_event=now)
        market = order.order_type == OrderType.MARKET
        lives = TimeInForce.IOC if market else _TIMES[order.time_in_force]
        if market and order.time_in_force == NautilusTimeInForce.FOK:
            lives = TimeInForce.FOK
        asked = self._client.new_order(
            order.instrument_id.symbol.value,
            _SIDES[order.side],
            str(order.quantity),
            None if market else str(order.price),
            time_in_force=lives,
            post_only=not market and order.is_post_only,
            client_order_id=life.door_id,
        )
        async with life.lock:
            why = await self._asked(asked, life)
        if why is not None and not life.accepted:
            life.ended = True
            self.generate_order_rejected(
                **self._names(order),
                reason=why,
                ts_event=self._clock.timestamp_ns(),
                due_post_only=not market and order.is_post_only and "post" in why.lower(),
            )

    async def _asked(self, request: Coroutine[Any, Any, Order], life: _Life) -> str | None:
        """Takes the answer to a request; why it was refused, ``None``: it was not, as far as is known."""
        try:
            self._take_order(await request)
        except OrderRejected as error:
            return error.message or str(error)
        except ApiError as error:
            # Nothing was entered: the door refused it, or said for as long as it was asked that it can't.
            return str(error)
        except (OrderPending, ConnectionFailed) as error:
            # The stream tells, or the engine's check of orders in flight asks.
            self._log.warning(f"{life.client_order_id}: no answer yet: {error}")
        except FairbellError as error:
            self._log.error(f"{life.client_order_id}: {error}")
        return None

    async def _modify_order(self, command: Any) -> None:
        order = self._cache.order(command.client_order_id)
        if order is None:
            self._log.error(f"no order {command.client_order_id} to modify")
            return
        life = self._know(order)
        why: str | None = None
        if order.order_type != OrderType.LIMIT:
            why = "only LIMIT orders can be modified"
        elif life.next_leg >= LEGS_MAX:
            why = f"it was modified {LEGS_MAX - 1} times: cancel it and enter another one"
        else:
            async with life.lock:
                leg, life.next_leg = life.next_leg, life.next_leg + 1
                asked = self._client.replace(
                    life.door_id,
                    str(command.quantity or order.quantity),
                    str(command.price or order.price),
                    new_client_order_id=leg_id(life.base, leg),
                )
                why = await self._asked(asked, life)
        if why is not None and not order.is_closed:
            self.generate_order_modify_rejected(
                **self._names(order),
                venue_order_id=life.venue_order_id,
                reason=why,
                ts_event=self._clock.timestamp_ns(),
            )

    async def _cancel_order(self, command: Any) -> None:
        order = self._cache.order(command.client_order_id)
        if order is None:
            self._log.error(f"no order {command.client_order_id} to cancel")
            return
        await self._cancel(order)

    async def _cancel(self, order: Any) -> None:
        life = self._know(order)
        # An order that was entered by somebody else has the id that it was given at the door.
        entered_here = order.venue_order_id is None or order.venue_order_id.value == life.base
        door_id = life.door_id if entered_here else order.venue_order_id.value
        async with life.lock:
            door_id = life.door_id if entered_here else door_id
            why = await self._asked(self._client.cancel(door_id), life)
        if why is not None and not order.is_closed:
            self.generate_order_cancel_rejected(
                **self._names(order),
                venue_order_id=order.venue_order_id or life.venue_order_id,
                reason=why,
                ts_event=self._clock.timestamp_ns(),
            )

    async def _cancel_all_orders(self, command: Any) -> None:
        which = {
            "venue": None,
            "instrument_id": command.instrument_id,
            "strategy_id": command.strategy_id,
            "side": command.order_side,
        }
        orders = self._cache.orders_open(**which) + self._cache.orders_inflight(**which)
        # Those of this strategy alone: others may trade the same account.
        wanted = {order.client_order_id: order for order in orders}
        await asyncio.gather(*[self._cancel(order) for order in wanted.values()])

    async def _batch_cancel_orders(self, command: Any) -> None:
        await asyncio.gather(*[self._cancel_order(cancel) for cancel in command.cancels])

    # Reports.

    async def _latest(self, base: str) -> Order | None:
        """The last leg of an order of ours, or an order of another one's id."""
        life = self._lives.get(base)
        if life is None:
            return await self._asked_for(base)
        told = None
        for leg in range(life.leg, LEGS_MAX):
            of = await self._asked_for(leg_id(base, leg))
            if of is None:
                break
            if of.state is not OrderState.REJECTED or told is None:
                told = of
            if of.state is not OrderState.REPLACED and leg + 1 >= life.next_leg:
                break
        return told

    async def _asked_for(self, door_id: str) -> Order | None:
        try:
            return await self._client.order(door_id)
        except (NotFound, ValueError):
            return None

    def _status_report(
        self, told: Order, client_order_id: ClientOrderId | None, paid: Decimal | None = None
    ) -> OrderStatusReport:
        """:param paid: average price of what was filled, if it is known."""
        instrument = self._instrument_provider.find(instrument_id(told.symbol))
        now, status = self._clock.timestamp_ns(), _STATUS[told.state]
        if told.state is OrderState.OPEN and told.filled > 0:
            status = OrderStatus.PARTIALLY_FILLED
        return OrderStatusReport(
            account_id=self.account_id,
            instrument_id=instrument.id,
            venue_order_id=VenueOrderId(split(told.client_order_id)[0]),
            client_order_id=client_order_id,
            order_side=_SIDES_BACK[told.side],
            order_type=OrderType.MARKET if told.price is None else OrderType.LIMIT,
            time_in_force=_TIMES_BACK[told.time_in_force],
            order_status=status,
            quantity=_quantity(told.qty, instrument),
            filled_qty=_quantity(told.filled, instrument),
            price=None if told.price is None else _price(told.price, instrument),
            avg_px=paid,
            cancel_reason=told.reason,
            report_id=UUID4(),
            ts_accepted=now,
            ts_last=now,
            ts_init=now,
        )

    def _fill_report(self, fill: Fill, client_order_id: ClientOrderId | None, order: Any) -> FillReport:
        instrument = self._instrument_provider.find(instrument_id(fill.symbol))
        now = self._clock.timestamp_ns()
        return FillReport(
            account_id=self.account_id,
            instrument_id=instrument.id,
            venue_order_id=VenueOrderId(split(fill.client_order_id or f"#{fill.order_id}")[0]),
            trade_id=TradeId(fill.trade_id),
            order_side=_SIDES_BACK[fill.side],
            last_qty=_quantity(fill.qty, instrument),
            last_px=_price(fill.price, instrument),
            commission=Money(0, instrument.quote_currency),
            liquidity_side=LiquiditySide.NO_LIQUIDITY_SIDE if order is None else _liquidity(order),
            client_order_id=client_order_id,
            report_id=UUID4(),
            ts_event=epoch_ns(fill.time_ns, now),
            ts_init=now,
        )

    def _ours(self, door_id: str | None) -> tuple[ClientOrderId | None, Any]:
        found = None if door_id is None else self._found(door_id)
        return (None, None) if found is None else (found[0].client_order_id, found[1])

    async def _with_prices(self, orders: Iterable[Order]) -> list[OrderStatusReport]:
        """Reports of orders; what is filled of them with its average price."""
        orders = list(orders)
        paid: dict[str, tuple[Decimal, Decimal]] = {}
        if any(of.filled > 0 for of in orders):
            for fill in await self._client.fills(_FILLS_MAX):
                base = split(fill.client_order_id or "")[0]
                qty, value = paid.get(base, (Decimal(0), Decimal(0)))
                paid[base] = (qty + fill.qty, value + fill.qty * fill.price)
        reports = []
        for of in orders:
            qty, value = paid.get(split(of.client_order_id)[0], (Decimal(0), Decimal(0)))
            average = value / qty if qty else None
            reports.append(self._status_report(of, self._ours(of.client_order_id)[0], average))
        return reports

    async def generate_order_status_report(self, command: Any) -> OrderStatusReport | None:
        """An order's report; ``None``: the exchange does not know it."""
        if command.client_order_id is not None:
            base = base_of(command.client_order_id)
            if base not in self._lives and command.venue_order_id is not None:
                base = command.venue_order_id.value
        elif command.venue_order_id is not None:
            base = command.venue_order_id.value
        else:
            return None
        told = await self._latest(base)
        return None if told is None else (await self._with_prices([told]))[0]

    async def generate_order_status_reports(self, command: Any) -> list[OrderStatusReport]:
        """Reports of all open orders, and unless ``open_only`` of those that the cache takes to be open."""
        told = {split(of.client_order_id)[0]: of for of in await self._client.open_orders()}
        if not command.open_only:
            for life in [of for of in self._lives.values() if not of.ended and of.base not in told]:
                if (latest := await self._latest(life.base)) is not None:
                    told[life.base] = latest
        wanted = [of for of in told.values() if _of(of.symbol, command.instrument_id)]
        return await self._with_prices(wanted)

    async def generate_fill_reports(self, command: Any) -> list[FillReport]:
        """Reports of the last 10,000 fills, oldest first."""
        reports = []
        for fill in reversed(await self._client.fills(_FILLS_MAX)):
            if not _of(fill.symbol, command.instrument_id):
                continue
            report = self._fill_report(fill, *self._ours(fill.client_order_id))
            if command.venue_order_id not in (None, report.venue_order_id):
                continue
            if command.start is not None and report.ts_event < command.start.timestamp() * 1e9:
                continue
            if command.end is not None and report.ts_event > command.end.timestamp() * 1e9:
                continue
            reports.append(report)
        return reports

    async def generate_position_status_reports(self, command: Any) -> list[PositionStatusReport]:
        """Reports of positions; of an instrument that is asked for also when there is none."""
        reports, now = [], self._clock.timestamp_ns()
        for symbol, position in (await self._client.positions()).items():
            if not _of(symbol, command.instrument_id):
                continue
            instrument = self._instrument_provider.find(instrument_id(symbol))
            side = PositionSide.LONG if position.position > 0 else PositionSide.SHORT
            if position.position == 0:
                side = PositionSide.FLAT
            reports.append(
                PositionStatusReport(
                    account_id=self.account_id,
                    instrument_id=instrument.id,
                    position_side=side,
                    quantity=_quantity(abs(position.position), instrument),
                    report_id=UUID4(),
                    ts_last=now,
                    ts_init=now,
                )
            )
        if not reports and command.instrument_id is not None:
            instrument = self._instrument_provider.find(command.instrument_id)
            if instrument is not None:
                flat = PositionStatusReport.create_flat
                reports.append(flat(self.account_id, instrument.id, instrument.size_precision, now))
        return reports


def _of(symbol: str, wanted: InstrumentId | None) -> bool:
    return wanted is None or instrument_id(symbol) == wanted


def _price(value: Decimal, instrument: Any) -> Price:
    return Price.from_str(f"{value:.{instrument.price_precision}f}")


def _quantity(value: Decimal, instrument: Any) -> Quantity:
    return Quantity.from_str(f"{value:.{instrument.size_precision}f}")


def _liquidity(order: Any) -> LiquiditySide:
    """Maker or taker, where the order's kind says so: the door does not."""
    if order.order_type == OrderType.MARKET or order.time_in_force in _IMMEDIATE:
        return LiquiditySide.TAKER
    return LiquiditySide.MAKER if order.is_post_only else LiquiditySide.NO_LIQUIDITY_SIDE
