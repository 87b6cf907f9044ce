//! What a queue on the way up has to know of an order: account, instrument and urgency. It is read
//! from the payload (a `types::Command`), the rest of which stays opaque. A payload that cannot be
//! read belongs to no account and is not urgent: it passes in its turn, and the root judges it.

use types::{Command, CommandKind, OrderType, Side};
use zerocopy::TryFromBytes;

/// What a queue has to know of an order message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderFacts {
    /// Number of the account that sent the message.
    pub account: u16,
    /// Number of the instrument that the message is about.
    pub instrument: u16,
    /// Class of the order, which decides what it may overtake.
    pub kind: OrderKind,
    /// Order this message brings into being, by the account's own number.
    pub creates: Option<u32>,
    /// Order it is about: it must not overtake that one.
    pub about: Option<u32>,
}

/// Class of a message, for the order in which messages leave a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderKind {
    /// A buy at most at this price; the dearer, the more critical.
    Bid(i64),
    /// A sale at least at this price; the cheaper, the more critical.
    Ask(i64),
    /// Cancels and other messages without a price.
    Plain,
    /// About all orders of the account: waits for all its earlier messages, and all later ones wait
    /// for it.
    Barrier,
}

/// Reads the facts of a payload; `None` when it is no command of a participant.
pub fn read(payload: &[u8]) -> Option<OrderFacts> {
    let command = Command::try_read_from_bytes(payload).ok()?;
    let price = match command.order_type {
        OrderType::Market | OrderType::MarketToLimit => None,
        _ => Some(command.price.0),
    };
    let priced = match command.side {
        Side::Buy => OrderKind::Bid(price.unwrap_or(i64::MAX)),
        Side::Sell => OrderKind::Ask(price.unwrap_or(i64::MIN)),
    };
    let own = Some(command.user_ref.0);
    let (kind, creates, about) = match command.kind {
        CommandKind::NewOrder => (priced, own, None),
        CommandKind::Cancel => (OrderKind::Plain, None, own),
        // A replace names neither side nor type, so it is as urgent as a cancel.
        CommandKind::Replace => (OrderKind::Plain, own, Some(command.orig_user_ref.0)),
        CommandKind::MassCancel => (OrderKind::Barrier, None, None),
        _ => (OrderKind::Plain, None, None),
    };
    let (account, instrument) = (command.account.0, command.instrument.0);
    Some(OrderFacts { account, instrument, kind, creates, about })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{AccountId, Price, UserRefNum};
    use zerocopy::IntoBytes;

    #[test]
    fn tells_side_price_and_what_a_message_is_about() {
        let mut command = Command::new(CommandKind::NewOrder);
        command.account = AccountId(7);
        command.price = Price(500);
        command.user_ref = UserRefNum(3);
        command.side = Side::Sell;
        let facts = read(command.as_bytes()).unwrap();
        assert_eq!((facts.account, facts.kind), (7, OrderKind::Ask(500)));
        assert_eq!((facts.creates, facts.about), (Some(3), None));
        command.order_type = OrderType::Market;
        assert_eq!(read(command.as_bytes()).unwrap().kind, OrderKind::Ask(i64::MIN));
        command.kind = CommandKind::Cancel;
        let facts = read(command.as_bytes()).unwrap();
        assert_eq!((facts.kind, facts.about), (OrderKind::Plain, Some(3)));
        assert_eq!(read(b"short"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_payloads_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
            let _ = read(&bytes);
        }
    }
}
