//! Phases of a market (9).

use types::{CancelReason, OrderRef, Phase};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::NIL;

impl<S: Sink> BookOps<'_, S> {
    /// Changes the phase by command. The caller settles afterwards.
    pub(crate) fn set_phase(&mut self, phase: Phase) {
        let left = self.market.phase;
        if phase == left {
            return;
        }
        if left == Phase::Continuous {
            self.park_pegs();
        }
        if matches!(phase, Phase::Continuous | Phase::Closed) || left == Phase::Batch {
            self.uncross();
        }
        self.enter_phase(phase);
        match phase {
            Phase::ClosingCall => self.end_waiting(),
            Phase::Closed => {
                while self.market.waiting.head != NIL {
                    self.cancel_rest(self.market.waiting.head, CancelReason::AuctionOver);
                }
            }
            _ => {}
        }
    }

    /// Trading stopped at the collar: a volatility call begins.
    pub(crate) fn interrupt(&mut self) {
        self.park_pegs();
        self.enter_phase(Phase::VolatilityCall);
    }

    fn enter_phase(&mut self, phase: Phase) {
        self.market.phase = phase;
        self.market.pegs.due = true;
        self.market.settle_fast();
    }

    /// The orders that wait for the closing call enter the book.
    fn end_waiting(&mut self) {
        while self.market.waiting.head != NIL {
            let slot = self.market.waiting.head;
            self.take_out(slot);
            self.enter(slot, OrderRef(0));
        }
    }
}
