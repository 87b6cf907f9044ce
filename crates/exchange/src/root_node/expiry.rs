//! Good-till-date orders end at their time, by a command in the log where nothing else is.
//!
//! An order ends with the first input whose time is not before its end: the engine sees to that, so
//! that an input that comes late, a replay, a restart and a root that follows find the same. All that
//! is left for a timer is the time in which no input comes. The command asks for nothing: its time is
//! what it says. An input that waits for its write ends as much when it is applied, and then none is
//! given. Like orders it waits for room: the log's reserve is for those who steer the market, and
//! while no order is taken nothing trades.

use types::{ClOrdId, ClockReading, Command, CommandKind, Nanos, Outbox};

use super::Root;

/// Least time between two such commands: an order ends so much late at most, where the root is well.
const EVERY_NS: u64 = Nanos::MILLI;
/// What names them in the log.
const EXPIRY: ClOrdId = ClOrdId(*b"EXPIRY        ");

impl Root {
    /// When the next command is due; [`Nanos::NEVER`] where what is in the log does it, there is
    /// nothing to end, or this root is not to say so.
    pub(super) fn expiry_due(&self) -> Nanos {
        let end = self.engine.next_expiry();
        let done = end <= self.log.last_t_seq();
        if done || end == Nanos::NEVER || self.schedule.ended || self.follows() {
            return Nanos::NEVER;
        }
        end.max(self.schedule.expires_from)
    }

    /// Ends the orders whose time has come.
    pub(super) fn expire_orders(&mut self, now: ClockReading, out: &mut Outbox) {
        let at = self.venue_clock.at(now.now);
        if at < self.expiry_due() || !self.gate_has_room() || !self.has_room() {
            return;
        }
        self.schedule.expires_from = at.after(EVERY_NS);
        let command = Command { cl_ord_id: EXPIRY, ..Command::new(CommandKind::ExpireOrders) };
        self.command(now, command, out);
    }

    /// A deliberate fault, for tests of the checks that have to find it: orders stay beyond their
    /// end.
    #[doc(hidden)]
    pub fn forget_expiry(&mut self) {
        self.engine.forget_expiry();
    }
}
