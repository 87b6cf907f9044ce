//! Decodes ITCH 5.0 messages into the market events they were encoded from.

use types::{InstrumentId, MarketEvent, MatchNumber, OrderRef, Price, Qty, Symbol};
use zerocopy::big_endian::{U32, U64};

use super::field::{Printable, cross_kind, imbalance_side};
use super::messages::Message;

impl Message<'_> {
    /// The event this exchange encodes as such a message; `None` for what it never sends.
    pub fn to_event(&self) -> Option<MarketEvent> {
        let instrument = InstrumentId(self.header().locate.get());
        Some(match self {
            Message::SystemEvent(m) => MarketEvent::SystemEvent { code: m.code.into() },
            Message::StockDirectory(_) => MarketEvent::Directory { instrument },
            Message::StockTradingAction(m) => {
                MarketEvent::TradingAction { instrument, state: m.state.into() }
            }
            Message::LuldAuctionCollar(m) => MarketEvent::Collar {
                instrument,
                reference: price(m.reference_price),
                upper: price(m.upper_price),
                lower: price(m.lower_price),
                extension: m.extension.get(),
            },
            Message::NetOrderImbalance(m) => MarketEvent::Imbalance {
                instrument,
                paired: Qty(m.paired_shares.get()),
                imbalance: Qty(m.imbalance_shares.get()),
                side: imbalance_side(m.direction)?,
                far: price(m.far_price),
                near: price(m.near_price),
                reference: price(m.reference_price),
                kind: cross_kind(m.cross_type)?,
            },
            Message::AddOrder(m) => MarketEvent::AddOrder {
                instrument,
                order_ref: OrderRef(m.order_ref.get()),
                side: m.side.into(),
                qty: qty(m.shares),
                price: price(m.price),
            },
            Message::OrderCancel(m) => MarketEvent::OrderCancel {
                instrument,
                order_ref: OrderRef(m.order_ref.get()),
                qty: qty(m.shares),
            },
            Message::OrderDelete(m) => {
                MarketEvent::OrderDelete { instrument, order_ref: OrderRef(m.order_ref.get()) }
            }
            Message::OrderReplace(m) => MarketEvent::OrderReplace {
                instrument,
                old_ref: OrderRef(m.old_ref.get()),
                new_ref: OrderRef(m.new_ref.get()),
                qty: qty(m.shares),
                price: price(m.price),
            },
            _ => return self.to_trade(),
        })
    }

    /// The part of [`Message::to_event`] that is about trades.
    fn to_trade(self) -> Option<MarketEvent> {
        let instrument = InstrumentId(self.header().locate.get());
        Some(match self {
            Message::OrderExecuted(m) => MarketEvent::OrderExecuted {
                instrument,
                order_ref: OrderRef(m.order_ref.get()),
                qty: qty(m.shares),
                match_number: number(m.match_number),
            },
            Message::OrderExecutedWithPrice(m) => MarketEvent::OrderExecutedWithPrice {
                instrument,
                order_ref: OrderRef(m.order_ref.get()),
                qty: qty(m.shares),
                match_number: number(m.match_number),
                printable: m.printable == Printable::Yes,
                price: price(m.price),
            },
            Message::Trade(m) => MarketEvent::Trade {
                instrument,
                side: m.side.into(),
                qty: qty(m.shares),
                price: price(m.price),
                match_number: number(m.match_number),
            },
            Message::CrossTrade(m) => MarketEvent::CrossTrade {
                instrument,
                qty: Qty(m.shares.get()),
                price: price(m.price),
                match_number: number(m.match_number),
                kind: cross_kind(m.cross_type)?,
            },
            Message::BrokenTrade(m) => {
                MarketEvent::BrokenTrade { instrument, match_number: number(m.match_number) }
            }
            _ => return None,
        })
    }

    /// The symbol, for messages that carry one.
    pub fn symbol(&self) -> Option<Symbol> {
        let stock = match self {
            Message::StockDirectory(m) => m.stock,
            Message::StockTradingAction(m) => m.stock,
            Message::LuldAuctionCollar(m) => m.stock,
            Message::NetOrderImbalance(m) => m.stock,
            Message::AddOrder(m) => m.stock,
            Message::AddOrderMpid(m) => m.stock,
            Message::Trade(m) => m.stock,
            Message::CrossTrade(m) => m.stock,
            _ => return None,
        };
        Some(Symbol(stock))
    }
}

fn qty(shares: U32) -> Qty {
    Qty(u64::from(shares.get()))
}

fn price(price: U32) -> Price {
    Price(i64::from(price.get()))
}

fn number(match_number: U64) -> MatchNumber {
    MatchNumber(match_number.get())
}
