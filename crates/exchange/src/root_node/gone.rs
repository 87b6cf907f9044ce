//! Orders of accounts whose gateway is gone; see `crate::dead_gateway_cancels`.

use types::{ClockReading, Outbox};

use super::Root;
use crate::dead_gateway_cancels::DeadGatewayCancels;

impl Root {
    /// A deliberate fault, for tests of the checks that have to find it: no order goes with its
    /// gateway.
    #[doc(hidden)]
    pub fn forget_lost(&mut self) {
        self.dead_gateway_cancels = DeadGatewayCancels::new(std::iter::empty(), 0);
    }

    /// Cancels the orders of accounts that want it and whose gateway is gone.
    pub(super) fn cancel_lost(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.ended || now.now < self.dead_gateway_cancels.next_timeout() {
            return;
        }
        let Root { dead_gateway_cancels, private, engine, .. } = self;
        let trades =
            |account| engine.standing(account).is_some_and(|standing| standing.open_orders > 0);
        for command in
            dead_gateway_cancels.take(now.now, |account| private.heard_at(account), trades)
        {
            self.counters.lost_cancels += 1;
            self.command(now, command, out);
        }
    }
}
