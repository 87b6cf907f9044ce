//! A participant's request the way it takes through a gateway: OUCH bytes, parsed and checked.

use types::{
    Command, CommandKind, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, Side,
};
use wire::SymbolTable;
use wire::ouch::{self, NewOrder, ReplaceRequest, Terms};

/// Encodes and decodes requests of one exchange.
pub struct Entry {
    symbols: SymbolTable,
    bytes: Vec<u8>,
}

impl Entry {
    /// For these instruments.
    pub fn new(instruments: &[types::Instrument]) -> Entry {
        Entry { symbols: SymbolTable::new(instruments), bytes: Vec::with_capacity(128) }
    }

    /// The command that a gateway makes of the request; `None` when OUCH can't carry it or a
    /// gateway would refuse it.
    pub fn pass(&mut self, command: &Command, now: Nanos) -> Option<Command> {
        self.bytes.clear();
        self.encode(command)?;
        let message = ouch::parse_inbound(&self.bytes).ok()?;
        let decoded = ouch::to_command(&message, &self.symbols, now).ok()?;
        // The account is the session's.
        Some(Command { account: command.account, ..decoded })
    }

    fn encode(&mut self, command: &Command) -> Option<()> {
        let symbol = self.symbols.symbol(command.instrument);
        let has = |flag: u8| command.flags & flag != 0;
        let terms = Terms {
            order_type: command.order_type,
            slide: has(ORDER_POST_ONLY_SLIDE),
            hidden: has(ORDER_HIDDEN),
            display_qty: command.display_qty,
            min_qty: command.min_qty,
            stop_price: command.stop_price,
            live_s: 0,
            expire_at: command.expire_at,
            self_trade: command.self_trade,
        };
        let post_only = has(ORDER_POST_ONLY);
        let out = &mut self.bytes;
        match command.kind {
            CommandKind::NewOrder => {
                let order = NewOrder {
                    user_ref: command.user_ref,
                    side: command.side,
                    qty: command.qty,
                    symbol: symbol?,
                    price: Some(command.price).filter(|price| price.0 > 0),
                    time_in_force: command.time_in_force,
                    post_only,
                    cl_ord_id: command.cl_ord_id,
                };
                ouch::encode_enter_order_with(&order, &terms, out).ok()
            }
            CommandKind::Replace => {
                let request = ReplaceRequest {
                    orig_user_ref: command.orig_user_ref,
                    user_ref: command.user_ref,
                    qty: command.qty,
                    price: command.price,
                    time_in_force: command.time_in_force,
                    post_only,
                    cl_ord_id: command.cl_ord_id,
                };
                ouch::encode_replace_with(&request, &terms, out).ok()
            }
            CommandKind::Cancel => ouch::encode_cancel(command.user_ref, command.qty, out).ok(),
            CommandKind::MassCancel => {
                let side = [None, Some(Side::Buy), Some(Side::Sell)];
                let side = side.get(usize::from(command.param)).copied().flatten();
                ouch::encode_mass_cancel(command.user_ref, symbol, side, out);
                Some(())
            }
            _ => None,
        }
    }
}
