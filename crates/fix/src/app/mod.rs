//! The exchange's application messages, typed.
//!
//! [`request`] reads what participants send; [`Ledger`] gives orders their numbers, turns requests
//! into engine commands and engine reports into what FIX wants to know besides (cumulative and
//! average, status, previous identifiers); [`report`] and [`market`] write messages in the words
//! of each version. All of it is a function of the account's stream and the requests, so another
//! gateway that replays the stream says the same.

mod execution;
pub mod fix_application;
mod index;
pub mod ledger;
pub mod market;
mod orders;
mod questions;
mod refused;
pub mod report;
pub mod request;
mod trades;

use types::{Instrument, InstrumentId, Symbol};

use crate::session::MsgType;

pub use fix_application::{FixApplication, Wanted};
pub use ledger::{Execution, Ledger, LedgerLimits};
pub use request::{Refusal, Request};

macro_rules! msg_types {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        $(
            $(#[$doc])*
            pub const $name: MsgType = match MsgType::of($text) {
                Some(msg_type) => msg_type,
                None => panic!("a message type has one to three characters"),
            };
        )*
    };
}

msg_types! {
    /// ExecutionReport(8): an event or the status of an order.
    EXECUTION_REPORT b"8",
    /// OrderCancelReject(9): a cancel or a replace was refused.
    ORDER_CANCEL_REJECT b"9",
    /// OrderMassCancelReport(r): the answer to a mass cancel.
    ORDER_MASS_CANCEL_REPORT b"r",
    /// BusinessMessageReject(j): a valid message that is not served.
    BUSINESS_MESSAGE_REJECT b"j",
    /// MarketDataSnapshotFullRefresh(W): the book of one instrument.
    MARKET_DATA_SNAPSHOT b"W",
    /// MarketDataIncrementalRefresh(X): changes of books, and trades.
    MARKET_DATA_INCREMENTAL b"X",
    /// MarketDataRequestReject(Y): a market data request was refused.
    MARKET_DATA_REQUEST_REJECT b"Y",
    /// SecurityList(y): the instruments of the exchange.
    SECURITY_LIST b"y",
    /// SecurityStatus(f): the trading state of one instrument.
    SECURITY_STATUS b"f",
    /// TradingSessionStatus(h): the trading state, for a request about sessions.
    TRADING_SESSION_STATUS b"h",
}

/// Instruments by name and by number.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    by_name: Vec<Instrument>,
    by_id: Vec<Option<Symbol>>,
}

impl Symbols {
    /// The table of `instruments`; of two with one name or number the first is found.
    pub fn new(instruments: &[Instrument]) -> Symbols {
        let mut by_id: Vec<Option<Symbol>> = Vec::new();
        for instrument in instruments {
            let slot = usize::from(instrument.id.0);
            if by_id.len() <= slot {
                by_id.resize(slot + 1, None);
            }
            if let Some(name @ None) = by_id.get_mut(slot) {
                *name = Some(instrument.symbol);
            }
        }
        let mut by_name = instruments.to_vec();
        by_name.sort_by_key(|instrument| instrument.symbol);
        by_name.dedup_by_key(|instrument| instrument.symbol);
        Symbols { by_name, by_id }
    }

    /// The instrument with the symbol `name`, without padding; `None`: there is none.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Instrument> {
        let mut padded = [b' '; 8];
        padded.get_mut(..name.len()).filter(|_| !name.is_empty())?.copy_from_slice(name);
        let key = u64::from_be_bytes(padded);
        let order = |instrument: &Instrument| u64::from_be_bytes(instrument.symbol.0);
        let found = self.by_name.binary_search_by_key(&key, order).ok()?;
        self.by_name.get(found)
    }

    /// The symbol of an instrument; `None`: there is no such number.
    pub fn name(&self, id: InstrumentId) -> Option<&Symbol> {
        self.by_id.get(usize::from(id.0))?.as_ref()
    }

    /// All instruments in the order of their symbols.
    pub fn all(&self) -> &[Instrument] {
        &self.by_name
    }
}
