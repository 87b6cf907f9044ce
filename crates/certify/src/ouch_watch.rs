//! Observes an OUCH session over SoupBinTCP, and alters orders on their way.

use types::{CancelReason, Nanos, Price, Side, limits::PRICE_MARKET};
use wire::ouch::{self, EnterOrder, Inbound, Outbound};
use wire::soupbin::{ClientPacket, HEARTBEAT_NS, ServerPacket, SessionName};

use crate::facts::{Facts, Open};

/// Offset of the price in a packet with an Enter Order, bytes.
const ENTER_PRICE: usize = 1 + 18;

/// What was seen of the session so far.
#[derive(Debug, Default)]
pub struct OuchWatch {
    /// SoupBinTCP session that was joined last.
    session: Option<SessionName>,
}

impl OuchWatch {
    /// Takes note of a packet that the client sends.
    pub fn client_sends(&mut self, now: Nanos, frame: &[u8], facts: &mut Facts) {
        facts.heard(now);
        match ClientPacket::parse(frame) {
            Ok(ClientPacket::Login(login)) => {
                let known = self
                    .session
                    .is_none_or(|name| login.session == name || login.session == [b' '; 10]);
                if facts.logons > 0 && login.sequence != facts.next_told {
                    let (asked, due) = (login.sequence, facts.next_told);
                    facts.fault(format!("came back asking for message {asked}, {due} was due"));
                } else if !known {
                    facts.fault("came back asking for another session".to_string());
                }
                facts.heartbeat_ns = HEARTBEAT_NS;
            }
            Ok(ClientPacket::Unsequenced(message)) => match ouch::parse_inbound(message) {
                Ok(_) => {}
                Err(error) => facts.fault(format!("sent what is no OUCH message: {error}")),
            },
            Ok(ClientPacket::Logout) => facts.logouts += 1,
            Ok(ClientPacket::Heartbeat | ClientPacket::Debug(_)) => {}
            Err(error) => facts.fault(format!("sent what is no packet of a client: {error}")),
        }
    }

    /// Takes note of a packet that the client is sent.
    pub fn client_hears(&mut self, frame: &[u8], facts: &mut Facts) {
        match ServerPacket::parse(frame) {
            Ok(ServerPacket::LoginAccepted { session, sequence }) => {
                self.session = Some(session);
                facts.next_told = sequence;
                facts.logged_on = true;
                facts.logons += 1;
            }
            Ok(ServerPacket::Sequenced(message)) => {
                facts.next_told += 1;
                told(message, facts);
            }
            Ok(ServerPacket::Unsequenced(message)) => told(message, facts),
            _ => {}
        }
    }
}

fn told(message: &[u8], facts: &mut Facts) {
    let Ok(message) = ouch::parse_outbound(message) else { return };
    match message {
        Outbound::OrderAccepted(m, _) => {
            facts.accepted += 1;
            let live = if m.order_state == b'L' { m.quantity.get() } else { 0 };
            let open = open(m.side, live, m.price.get());
            facts.opened(&m.user_ref.get().to_be_bytes(), open);
        }
        Outbound::OrderReplaced(m, _) => {
            facts.replaced += 1;
            facts.open.remove(m.orig_user_ref.get().to_be_bytes().as_slice());
            let live = if m.order_state == b'L' { m.quantity.get() } else { 0 };
            let open = open(m.side, live, m.price.get());
            facts.opened(&m.user_ref.get().to_be_bytes(), open);
        }
        Outbound::OrderCanceled(m, _) => {
            let key = m.user_ref.get().to_be_bytes();
            let reason = ouch::cancel_reason(m.reason);
            let asked = reason == Some(CancelReason::Requested);
            facts.expired += u64::from(reason == Some(CancelReason::Expired));
            facts.canceled += u64::from(asked);
            facts.removed += u64::from(!asked);
            let leaves = left_of(facts, &key, m.quantity.get());
            facts.left(&key, leaves);
        }
        Outbound::OrderExecuted(m, _) => {
            let key = m.user_ref.get().to_be_bytes();
            let leaves = left_of(facts, &key, m.quantity.get());
            facts.traded(&key, leaves);
        }
        Outbound::OrderRejected(..) => facts.rejected += 1,
        _ => {}
    }
}

fn open(side: ouch::Side, lots: u32, price: u64) -> Open {
    let side = if side == ouch::Side::Buy { Side::Buy } else { Side::Sell };
    Open { side, leaves: lots.into(), price: Price(i64::try_from(price).unwrap_or(0)) }
}

fn left_of(facts: &Facts, key: &[u8], lots: u32) -> u64 {
    facts.open.get(key).map_or(0, |open| open.leaves.saturating_sub(lots.into()))
}

/// The same order at a price that is no multiple of any tick above 0.0001; `None` for what is no
/// order with a price.
pub fn off_the_tick(frame: &[u8]) -> Option<Vec<u8>> {
    let Ok(ClientPacket::Unsequenced(message)) = ClientPacket::parse(frame) else { return None };
    let price = match ouch::parse_inbound(message).ok()? {
        Inbound::EnterOrder(EnterOrder { price, .. }, _) => price.get(),
        _ => return None,
    };
    let odd = price.checked_add(1).filter(|odd| *odd != PRICE_MARKET && price != PRICE_MARKET)?;
    let mut out = frame.to_vec();
    out.get_mut(ENTER_PRICE..ENTER_PRICE + 8)?.copy_from_slice(&odd.to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{ClOrdId, Qty, Symbol, TimeInForce, UserRefNum};

    #[test]
    fn an_altered_price_is_the_only_change() {
        let order = |price| ouch::NewOrder {
            user_ref: UserRefNum(7),
            side: Side::Buy,
            qty: Qty(5),
            symbol: Symbol::new("CERTA").unwrap(),
            price: Some(Price(price)),
            time_in_force: TimeInForce::Day,
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        let frame = |price| {
            let mut frame = b"U".to_vec();
            ouch::encode_enter_order(&order(price), &mut frame).unwrap();
            frame
        };
        assert_eq!(off_the_tick(&frame(1_000)), Some(frame(1_001)));
        assert_eq!(off_the_tick(b"R"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            kind in prop::sample::select(b"+AJSUHZLRO?".to_vec()),
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let frame = [&[kind], bytes.as_slice()].concat();
            let _ = off_the_tick(&frame);
            let (mut watch, mut facts) = (OuchWatch::default(), Facts::default());
            watch.client_sends(Nanos(1), &frame, &mut facts);
            watch.client_hears(&frame, &mut facts);
        }
    }
}
