//! Orders of accounts whose gateway is gone; see `crate::dead_gateway_cancels`.

use types::{ClockReading, Outbox};

use super::Root;

impl Root {
    /// Cancels the orders of accounts that want it and whose gateway is gone.
    pub(super) fn cancel_lost(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.schedule.ended || now.now < self.dead_gateway_cancels.next_timeout() {
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
