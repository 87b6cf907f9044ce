//! The output gate: where the log is kept durably, inputs wait in it until they are (corner 9).
//!
//! What the root has not applied nobody can hear of: no report, no tick, no grant, no
//! acknowledgement. So the gate stands before the engine; applying is a small part of the time that
//! a write takes, and doing it earlier would need every way out to be held back by itself. Outputs
//! leave in log order because inputs are applied in it. At most a fixed number of inputs wait; then
//! orders stay in the sequencer, and their gateways are not acknowledged.

use engine::log::{Draft, InputLog};
use types::{ClockReading, GatewayId, Input, Outbox, Phase, Seq};
use zerocopy::IntoBytes;

use super::{PUMP_MAX, Root};

/// Inputs that may wait for their write.
const GATE_MAX: u64 = 16_384;

const _: () = assert!(GATE_MAX < InputLog::MEMORY_MIN as u64, "what waits is in memory");
const _: () = assert!(PUMP_MAX as u64 <= GATE_MAX, "one pass through does not fill the gate");

/// What of the log is where.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Inputs given to the journal.
    given: u64,
    /// Of them, those that are durable.
    durable: u64,
    /// By gateway: the boot nonce that a grant in the log, not applied yet, is for.
    granting: Vec<Option<u32>>,
}

impl Gate {
    /// The gate of a log whose inputs so far are all durable.
    pub(super) fn new(durable: u64, gateways: usize) -> Gate {
        Gate { given: durable, durable, granting: vec![None; gateways + 1] }
    }

    /// Inputs given are durable up to a position.
    pub(super) fn open_to(&mut self, position: u64) {
        self.durable = self.durable.max(position.min(self.given));
        self.assert_order();
    }

    /// Nothing is durable that was not given to the journal.
    fn assert_order(&self) {
        assert!(self.durable <= self.given);
    }

    /// Nothing is applied before it is durable, nothing is given that was not logged.
    pub(super) fn assert_between(&self, applied: u64, logged: u64) {
        self.assert_order();
        assert!(applied <= self.durable, "an input is applied when it is durable");
        assert!(self.given <= logged, "an input is given when it is logged");
    }

    /// An input that somebody else has made durable.
    pub(super) fn pass(&mut self, position: u64) {
        assert!(position > self.given, "it is the next one, and none waits before it");
        (self.given, self.durable) = (position, position);
    }

    /// Whether another input may wait.
    pub(super) fn has_room(&self, logged: u64) -> bool {
        logged.saturating_sub(self.durable) < GATE_MAX
    }

    /// Whether an input may be applied.
    pub(super) fn lets(&self, input: &Input) -> bool {
        input.seq <= Seq(self.durable)
    }

    /// A grant is asked for; false when one for this start of the gateway is on its way.
    pub(super) fn begin_grant(&mut self, gateway: GatewayId, nonce: u32) -> bool {
        match self.granting.get_mut(usize::from(gateway.0)) {
            Some(granting) => granting.replace(nonce) != Some(nonce),
            None => false,
        }
    }

    /// A grant was applied.
    pub(super) fn end_grant(&mut self, gateway: GatewayId, nonce: u32) {
        if let Some(granting) = self.granting.get_mut(usize::from(gateway.0))
            && *granting == Some(nonce)
        {
            *granting = None;
        }
    }
}

/// Why a root can't go on from a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumeError {
    /// The log holds more than there is room for.
    LogFull,
    /// The input with this number does not follow the one before it.
    Order(Seq),
    /// It has inputs of its own already.
    Started,
}

impl std::fmt::Display for ResumeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ResumeError::LogFull => {
                f.write_str("there is no room for all of the log (engine.log_capacity, the disk)")
            }
            ResumeError::Order(seq) => write!(f, "input {} does not follow the one before", seq.0),
            ResumeError::Started => f.write_str("the root has inputs of its own already"),
        }
    }
}

impl std::error::Error for ResumeError {}

impl Root {
    /// Gives the journal what it does not have yet.
    pub(super) fn give_journal(&mut self, out: &mut Outbox) {
        if let Some(gate) = &mut self.gate {
            let (before, due) = (out.journaled().len(), self.log.len() as u64 - gate.given);
            self.log.after(Seq(gate.given)).for_each(|input| out.journal(input.as_bytes()));
            let bytes = out.journaled().len() - before;
            assert!(bytes as u64 == due * size_of::<Input>() as u64, "no input is left out");
            gate.given = self.log.len() as u64;
        }
    }

    pub(super) fn gate_has_room(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.has_room(self.log.len() as u64))
    }

    /// Inputs that wait for their write, and how many may; `None` where the log is not kept durably.
    pub(crate) fn gate_room(&self) -> Option<(u64, u64)> {
        self.gate.as_ref().map(|_| (self.waiting(), GATE_MAX))
    }

    /// Keeps the log durably from now on: every input goes to [`Outbox::journal`] as its
    /// `size_of::<Input>()` bytes, and nothing of it leaves before [`types::Node::handle_durable`] has
    /// said that it is. Positions there are those of the log.
    pub fn keep_durably(&mut self) {
        self.gate = Some(Gate::new(self.log.len() as u64, self.inbound.gateways.len()));
    }

    /// The inputs of the log that it has applied. What waits for its write at the end of a run is in no
    /// log: nobody has heard of it.
    pub fn applied(&self) -> impl Iterator<Item = Input> {
        let applied = self.engine.applied();
        self.log.records().take_while(move |input| input.seq.0 <= applied)
    }

    /// An input is logged, given to the journal, durable and applied, one after the other; what the
    /// feed says goes on from what the engine has said.
    pub(super) fn assert_applied(&self) {
        let (applied, logged) = (self.engine.applied(), self.log.len() as u64);
        assert!(applied <= logged, "only what is logged is applied");
        if let Some(gate) = &self.gate {
            gate.assert_between(applied, logged);
        }
        if let [next] = self.downlinks.router().next() {
            assert!(*next == self.engine.feed_next(), "the only stream has the engine's positions");
        }
    }

    /// Inputs that wait at the gate for their write.
    pub fn waiting(&self) -> u64 {
        let (applied, logged) = (self.engine.applied(), self.log.len() as u64);
        assert!(applied <= logged, "only what is logged is applied");
        logged - applied
    }

    /// Takes up where a log ends: everything in it is applied again, nothing of it is sent; feed
    /// and private streams go on with the numbers after it, and have what was before for whoever
    /// asks, the feed once it is public whenever an earlier life sent it. Before the first timeout, and before [`Root::keep_durably`].
    ///
    /// # Errors
    /// [`ResumeError`]; the root must not be used then.
    pub fn resume(
        &mut self,
        now: ClockReading,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Result<(), ResumeError> {
        if !self.log.is_empty() {
            return Err(ResumeError::Started);
        }
        let mut nobody = Outbox::default();
        self.downlinks.follow();
        for input in inputs {
            let Input { t_in, source, flags, command, .. } = input;
            let draft = Draft { t_in, source, flags, command };
            let mut entered = self.log.append(input.t_seq, draft);
            if entered.is_err() && self.wait_for_room() {
                entered = self.log.append(input.t_seq, draft);
            }
            if entered.map_err(|_| ResumeError::LogFull)? != input {
                return Err(ResumeError::Order(input.seq));
            }
            self.schedule.timetable.passed_by_calendar(input.t_seq, &input.command);
            self.apply_logged(now, &mut nobody);
            self.downlinks.flush(now, &mut nobody);
            self.recycle();
            nobody.clear();
        }
        assert_eq!(self.waiting(), 0, "all of the log is applied again");
        self.downlinks.take_over(now, false);
        self.lead_shards();
        self.resume_ingress();
        if self.engine.is_open() {
            // The day has begun before; its opening call may still have to be ended.
            let ids = self.engine.config().instruments.iter().map(|instrument| instrument.id);
            let calls = ids.into_iter().any(|id| self.engine.phase(id) == Some(Phase::OpeningCall));
            self.schedule.timetable.has_begun(calls);
        }
        Ok(())
    }

    /// What the log has of each gateway's life is what came.
    pub(super) fn resume_ingress(&mut self) {
        for number in 1..=self.inbound.gateways.len() {
            let gateway = GatewayId(number as u16);
            let (incarnation, logged) = self.engine.received(gateway);
            if self.inbound.granted[number].is_some() {
                self.inbound.ingress.resume(gateway, incarnation, logged);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        let mut gate = Gate::new(3, 1);
        gate.pass(4);
        gate.given = 6;
        gate.open_to(5);
        gate.assert_between(5, 6);
        gate
    }

    #[test]
    #[should_panic(expected = "an input is applied when it is durable")]
    fn control_nothing_is_applied_before_it_is_durable() {
        gate().assert_between(6, 6);
    }

    #[test]
    #[should_panic(expected = "an input is given when it is logged")]
    fn control_nothing_is_given_that_is_not_logged() {
        gate().assert_between(5, 5);
    }

    #[test]
    #[should_panic(expected = "it is the next one, and none waits before it")]
    fn control_no_input_passes_those_that_wait() {
        gate().pass(6);
    }
}
