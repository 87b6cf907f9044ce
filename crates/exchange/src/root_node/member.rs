//! A root that is one of a group: it follows what the group has committed, and leads when told to.
//!
//! What it follows it applies at once, and sends nothing: its books, its private streams and the
//! feed's messages are those of the leader, position by position, so that it can go on with them.
//! When it leads it takes orders and gives its inputs to [`types::Outbox::journal`] as a root does
//! that keeps its log durably; durable means committed by the group. When it leads no more, what
//! was not committed is taken back: nobody has heard of it.
//!
//! Of the feed it gives out, also as a follower, what the leader has told to be released
//! ([`Root::learn_releases`]); see `overlay::publisher`.

use types::{ClockReading, Digest, FeedSeq, GatewayId, Input, Nanos, Outbox, Packer, Seq};

use engine::log::Draft;

use super::{Gate, Root};

/// What a root of a group does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Follows,
    Leads,
}

/// What the group committed is not what this root can have next: a defect, or its log is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogGap {
    /// The input.
    pub seq: Seq,
    /// Inputs that this root has.
    pub held: u64,
}

impl std::fmt::Display for LogGap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LogGap { seq: Seq(seq), held } = self;
        write!(f, "input {seq} does not go on from the {held} inputs before, or the log is full")
    }
}

impl std::error::Error for LogGap {}

impl Root {
    /// Makes it one of a group, of which it follows. Before its first input.
    pub fn join_group(&mut self) {
        self.group = Some(Standing::Follows);
        self.shards.iter_mut().for_each(|shards| shards.follow());
        self.downlinks.follow();
        self.keep_durably();
    }

    /// Appends what a leader tells its followers of release times. It changes with
    /// [`Root::datagrams`].
    pub fn write_releases(&self, now: Nanos, bytes: &mut Vec<u8>) {
        self.downlinks.write_releases(now, &mut Packer::new(bytes));
    }

    /// Datagrams of the feed so far.
    pub fn datagrams(&self) -> u64 {
        self.downlinks.datagrams()
    }

    /// By stream of the feed: one past the last message sent.
    pub fn sent(&self) -> Vec<FeedSeq> {
        self.downlinks.sent()
    }

    /// It led when it had sent so far: the public may have it once it is released. Whether that is
    /// news.
    pub fn confirm_sent(&mut self, ends: &[FeedSeq]) -> bool {
        self.downlinks.confirm(ends)
    }

    /// Takes what a leader has told of release times; false for anything that none tells.
    pub fn learn_releases(&mut self, now: ClockReading, bytes: &[u8]) -> bool {
        self.downlinks.learn_releases(now, bytes).is_some()
    }

    /// Whether it is one of a group, and another one leads.
    pub fn follows(&self) -> bool {
        self.group == Some(Standing::Follows)
    }

    /// The group has committed an input. A follower applies it; a leader, whose own it is, does
    /// with the next [`types::Node::handle_durable`]. `nobody` is cleared.
    ///
    /// # Errors
    /// [`LogGap`]; the root must not be used then.
    pub fn commit(
        &mut self,
        now: ClockReading,
        input: &Input,
        nobody: &mut Outbox,
    ) -> Result<(), LogGap> {
        let held = self.log.len() as u64;
        let gap = LogGap { seq: input.seq, held };
        if input.source.gateway == GatewayId(0) {
            self.schedule.committed(input.t_seq, &input.command);
        }
        if input.seq.0 <= held {
            let same = self.log.get(input.seq) == Some(input);
            return if same { Ok(()) } else { Err(gap) };
        }
        let Input { t_in, source, flags, command, .. } = *input;
        let entered = self.log.append(input.t_seq, Draft { t_in, source, flags, command });
        if entered.ok().as_ref() != Some(input) {
            return Err(gap);
        }
        if let Some(gate) = &mut self.gate {
            gate.pass(input.seq.0);
        }
        nobody.clear();
        self.apply_logged(now, nobody);
        assert_eq!(self.engine.applied(), input.seq.0, "a follower applies what is committed");
        self.downlinks.flush(now, nobody);
        nobody.clear();
        Ok(())
    }

    /// It leads no more: takes back what was not applied, and forgets what came since.
    ///
    /// # Errors
    /// [`LogGap`] when the log can't be taken back so far; the root must not be used then.
    pub fn follow(&mut self) -> Result<(), LogGap> {
        let applied = self.engine.applied();
        if !self.log.cut(applied as usize) {
            return Err(LogGap { seq: Seq(applied), held: self.log.len() as u64 });
        }
        self.gate = Some(Gate::new(applied, self.inbound.gateways.len()));
        self.inbound.forget(self.trees.epoch);
        self.private.forget_attachments();
        self.group = Some(Standing::Follows);
        self.shards.iter_mut().for_each(|shards| shards.follow());
        self.downlinks.follow();
        self.adopt_record();
        assert_eq!(self.waiting(), 0, "what nobody has committed is gone");
        self.assert_applied();
        Ok(())
    }

    /// It leads from now on, in this term, and has applied all that was committed before. Gateways
    /// are told to attach their streams anew; receivers hear where the feed stands.
    pub fn lead(&mut self, now: ClockReading, term: u64, out: &mut Outbox) {
        self.group = Some(Standing::Leads);
        // What another one has given is not given again; what this one gave and nobody committed
        // is.
        self.schedule.timetable = self.schedule.planned.clone();
        self.resume_ingress();
        self.dead_gateway_cancels.begin(now.now);
        self.adopt_record();
        self.lead_shards();
        self.inbound.owe_all(self.trees.epoch);
        self.inbound.acks.begin_term(term);
        self.downlinks.begin_term(now, term);
        for gateway in &self.inbound.gateways {
            self.private.ask_anew(*gateway, out);
        }
        self.pump(now, out);
    }

    /// Digest of all that its log has made of it: books, identities, phases, and what it said.
    pub fn state_digest(&self) -> u64 {
        let mut digest = Digest(self.engine.state_digest());
        self.router().next().iter().for_each(|next| digest.fold(next.0));
        digest.0
    }
}
