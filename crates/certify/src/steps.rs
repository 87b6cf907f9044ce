//! The script of a certification: what a client is asked to do, and how each step is judged.

use types::Nanos;

use crate::{
    Protocol,
    certifier::Interventions,
    counter::Counter,
    facts::{Facts, Key},
};

/// A step of the script; steps are taken in the order of the variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The client connects and logs in.
    Logon,
    /// The client enters an order that rests.
    Order,
    /// Part of an order of the client trades.
    PartialFill,
    /// The client replaces an order.
    Replace,
    /// The client cancels an order.
    Cancel,
    /// A good-till-date order of the client ends by itself.
    Expiry,
    /// FIX: a stop order of the client is triggered.
    Trigger,
    /// Part of an order of the client trades in an auction.
    Auction,
    /// An order of the client is refused.
    Reject,
    /// The client is never silent for longer than agreed.
    Heartbeats,
    /// FIX: the client answers a TestRequest(1).
    TestRequest,
    /// FIX: a message of the exchange is lost, and the client asks for it.
    Gap,
    /// FIX: a message of the client is lost, and the client sends it again.
    Resend,
    /// The connection is cut, an order trades meanwhile, and the client comes back.
    Return,
    /// The connection stays cut until the exchange has cancelled all orders.
    CancelOnDisconnect,
    /// The client logs out.
    Logout,
}

/// What can be said about a step at this moment.
pub enum Verdict {
    Wait,
    Passed(String),
    Failed(String),
}

/// Silence before the connection is cut, so that no message is on its way, ns.
const QUIET_NS: u64 = 200 * Nanos::MILLI;
/// Time in which a client shows that it accepts what it was told, ns.
const SETTLE_NS: u64 = 300 * Nanos::MILLI;
/// Time between two tries to trade against the client, ns.
const TRY_NS: u64 = 500 * Nanos::MILLI;
/// Time from the trade during the client's absence to its return, ns.
const AWAY_NS: u64 = 300 * Nanos::MILLI;
/// Time after which the exchange has cancelled the orders of an absent client, ns.
const CANCELLED_NS: u64 = 2_500 * Nanos::MILLI;
/// Most tries to trade while the client is away.
const TRIES_MAX: u32 = 5;
/// Stage of a step whose aim has been reached.
const SETTLING: u32 = 99;
/// Heartbeats are late beyond 1.2 intervals and a second for the way.
const LATE_PERMILLE: u64 = 1_200;

impl Step {
    /// All steps, in the order of the script.
    pub const ALL: [Step; 16] = [
        Step::Logon,
        Step::Order,
        Step::PartialFill,
        Step::Replace,
        Step::Cancel,
        Step::Expiry,
        Step::Trigger,
        Step::Auction,
        Step::Reject,
        Step::Heartbeats,
        Step::TestRequest,
        Step::Gap,
        Step::Resend,
        Step::Return,
        Step::CancelOnDisconnect,
        Step::Logout,
    ];

    /// Short name of the step, as commands take it.
    pub fn name(self) -> &'static str {
        match self {
            Step::Logon => "logon",
            Step::Order => "order",
            Step::PartialFill => "partial-fill",
            Step::Replace => "replace",
            Step::Cancel => "cancel",
            Step::Expiry => "expiry",
            Step::Trigger => "trigger",
            Step::Auction => "auction",
            Step::Reject => "reject",
            Step::Heartbeats => "heartbeats",
            Step::TestRequest => "test-request",
            Step::Gap => "gap",
            Step::Resend => "resend",
            Step::Return => "return",
            Step::CancelOnDisconnect => "cancel-on-disconnect",
            Step::Logout => "logout",
        }
    }

    /// What the client, or its operator, is asked to do.
    pub fn asked(self) -> &'static str {
        match self {
            Step::Logon => "connect and log in, numbers from the beginning",
            Step::Order => "enter a limit order that rests",
            Step::PartialFill => "have an order of 2 lots or more open; one lot of it is traded",
            Step::Replace => "replace an open order",
            Step::Cancel => "cancel an open order",
            Step::Expiry => "enter a good-till-date order that ends within seconds, and let it end",
            Step::Trigger => "enter a stop order; something trades at its stop price",
            Step::Auction => {
                "the market is in a call: enter a limit order; one lot of it is traded by the \
                 auction"
            }
            Step::Reject => "enter an order; it is refused on purpose, and the session goes on",
            Step::Heartbeats => "nothing; be heard in the agreed intervals",
            Step::TestRequest => "nothing; answer the exchange's TestRequest",
            Step::Gap => "nothing; a message gets lost, ask for it",
            Step::Resend => "go on; a message of yours gets lost, do as the exchange asks",
            Step::Return => {
                "have an order of 2 lots or more open; the line is cut: come back with \
                             the right number and get what happened meanwhile"
            }
            Step::CancelOnDisconnect => {
                "have an order open; the line stays cut for seconds: come \
                                         back and take note of what was cancelled"
            }
            Step::Logout => "log out",
        }
    }

    /// The step with this short name; `None`: there is none.
    pub fn named(name: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == name)
    }

    /// Whether clients of the protocol are asked to do the step.
    pub fn applies(self, protocol: Protocol) -> bool {
        let of_fix = matches!(self, Step::Trigger | Step::TestRequest | Step::Gap | Step::Resend);
        protocol == Protocol::Fix || !of_fix
    }

    /// Longest time for the step, ns: the patience with the client, and the time its heartbeats
    /// take.
    pub fn timeout_ns(self, patience_ns: u64, heartbeat_ns: u64) -> u64 {
        let beats = match self {
            Step::Heartbeats | Step::TestRequest | Step::Gap => 3,
            _ => 0,
        };
        patience_ns.saturating_add(heartbeat_ns.saturating_mul(beats))
    }
}

/// How far the step that is being done has got.
#[derive(Debug)]
pub struct Progress {
    pub step: Step,
    pub began: Nanos,
    stage: u32,
    at: Nanos,
    base: Facts,
    kept: Vec<Key>,
    traded: u64,
    tries: u32,
}

impl Progress {
    /// Begins a step: what of it has to be prepared on the line is.
    pub fn new(
        step: Step,
        now: Nanos,
        facts: &mut Facts,
        interventions: &mut Interventions,
    ) -> Progress {
        (facts.test, facts.asked_from, facts.resend) = (None, None, None);
        facts.silence_ns = 0;
        interventions.let_go();
        match step {
            Step::Auction => interventions.call = true,
            Step::Reject => interventions.spoil = true,
            Step::TestRequest => interventions.hold = true,
            Step::Gap => interventions.lose_out = true,
            Step::Resend => interventions.lose_in = true,
            _ => {}
        }
        let base = facts.clone();
        Progress { step, began: now, stage: 0, at: now, base, kept: vec![], traded: 0, tries: 0 }
    }

    /// What can be said by now; may take a hand in it.
    pub fn judge(
        &mut self,
        now: Nanos,
        facts: &mut Facts,
        interventions: &mut Interventions,
        counter: &mut Counter,
        trade: &mut Vec<u8>,
    ) -> Verdict {
        let left = facts.logons > 0 && !facts.logged_on;
        let told = |now_told: u64, before: u64, what: &str| match now_told > before {
            true => Verdict::Passed(what.to_string()),
            false => Verdict::Wait,
        };
        match self.step {
            Step::Logon if facts.logged_on => Verdict::Passed("logged in".to_string()),
            Step::Logon => Verdict::Wait,
            Step::Order => told(facts.accepted, self.base.accepted, "an order was accepted"),
            Step::Replace => told(facts.replaced, self.base.replaced, "an order was replaced"),
            Step::Cancel => told(facts.canceled, self.base.canceled, "an order was cancelled"),
            Step::Logout => told(facts.logouts, self.base.logouts, "said goodbye"),
            Step::Return => self.away(now, facts, interventions, counter, trade),
            Step::CancelOnDisconnect => self.long_away(now, facts, interventions),
            _ if left => Verdict::Failed("left in the middle of it".to_string()),
            Step::PartialFill => self.partial_fill(now, facts, counter, trade),
            Step::Expiry => {
                self.settled(now, facts.expired > self.base.expired, "an order ended at its time")
            }
            Step::Trigger => self.trigger(now, facts, counter, trade),
            Step::Auction => self.auction(now, facts, interventions, counter, trade),
            Step::Reject => self.reject(facts),
            Step::Heartbeats => self.heartbeats(now, facts),
            Step::TestRequest => match &facts.test {
                Some((_, true)) => Verdict::Passed("answered with the identifier".to_string()),
                _ => Verdict::Wait,
            },
            Step::Gap => gap(facts, interventions),
            Step::Resend => match (interventions.lose_in, &facts.resend) {
                (false, Some((from, true))) => {
                    Verdict::Passed(format!("filled the gap from message {from}"))
                }
                _ => Verdict::Wait,
            },
        }
    }

    fn partial_fill(
        &mut self,
        now: Nanos,
        facts: &Facts,
        counter: &mut Counter,
        trade: &mut Vec<u8>,
    ) -> Verdict {
        let traded = facts.partial > self.base.partial;
        if !traded
            && let Some(open) = facts.tradable()
            && counter.is_active()
            && now >= self.at
        {
            counter.take_one(now, &open, trade);
            self.at = now.after(TRY_NS);
        }
        self.settled(now, traded, "one lot traded, the rest stayed open")
    }

    /// Passed a while after it was so, in which the client shows that it takes it.
    fn settled(&mut self, now: Nanos, so: bool, what: &str) -> Verdict {
        if self.stage != SETTLING && so {
            (self.stage, self.at) = (SETTLING, now);
        }
        match self.stage == SETTLING && now.since(self.at) >= SETTLE_NS {
            true => Verdict::Passed(what.to_string()),
            false => Verdict::Wait,
        }
    }

    /// Trades at the stop price of an order of the client, until the client is told.
    fn trigger(
        &mut self,
        now: Nanos,
        facts: &Facts,
        counter: &mut Counter,
        trade: &mut Vec<u8>,
    ) -> Verdict {
        let triggered = facts.triggered > self.base.triggered;
        if !triggered
            && let Some(price) = facts.stops.values().next()
            && counter.is_active()
            && now >= self.at
        {
            counter.trade_at(now, *price, trade);
            self.at = now.after(TRY_NS);
        }
        self.settled(now, triggered, "a stop order was triggered")
    }

    /// An order against the client's in a call, and the end of the call.
    fn auction(
        &mut self,
        now: Nanos,
        facts: &Facts,
        interventions: &mut Interventions,
        counter: &mut Counter,
        trade: &mut Vec<u8>,
    ) -> Verdict {
        match self.stage {
            0 if facts.accepted > self.base.accepted && counter.is_active() => {
                if let Some(open) = facts.best(1) {
                    counter.rest_against(now, &open, trade);
                    (self.stage, self.at) = (1, now);
                }
            }
            1 if now.since(self.at) >= QUIET_NS => {
                interventions.call = false;
                (self.stage, self.at) = (2, now);
            }
            2 | SETTLING => {
                let traded = facts.executed > self.base.executed;
                return self.settled(now, traded, "traded in an auction");
            }
            _ => {}
        }
        Verdict::Wait
    }

    fn reject(&mut self, facts: &Facts) -> Verdict {
        if self.stage == 0 && facts.rejected > self.base.rejected {
            (self.stage, self.traded) = (1, facts.messages);
        }
        match self.stage == 1 && facts.messages > self.traded {
            true => Verdict::Passed("was refused and went on".to_string()),
            false => Verdict::Wait,
        }
    }

    fn heartbeats(&self, now: Nanos, facts: &mut Facts) -> Verdict {
        let beat = facts.heartbeat_ns;
        if beat == 0 {
            return Verdict::Failed("asked for no heartbeats".to_string());
        }
        facts.look(now);
        let (longest, most) = (facts.silence_ns, beat / 1_000 * LATE_PERMILLE + Nanos::SECOND);
        let seconds = longest as f64 / 1e9;
        if longest > most {
            return Verdict::Failed(format!("silent for {seconds:.1} s"));
        }
        match now.since(self.began) >= 2 * beat + 3 * Nanos::SECOND {
            true => Verdict::Passed(format!("silent for {seconds:.1} s at most")),
            false => Verdict::Wait,
        }
    }

    /// Quiet, cut, a trade behind the client's back, and its return.
    fn away(
        &mut self,
        now: Nanos,
        facts: &Facts,
        interventions: &mut Interventions,
        counter: &mut Counter,
        trade: &mut Vec<u8>,
    ) -> Verdict {
        match self.stage {
            0 if facts.tradable().is_some() && counter.is_active() && facts.logged_on => {
                interventions.mute = true;
                (self.stage, self.at) = (1, now);
            }
            1 if now.since(self.at) >= QUIET_NS => {
                (interventions.cut, interventions.closed, self.traded) =
                    (true, true, counter.executions());
                (self.stage, self.at) = (2, now);
            }
            2 if counter.executions() > self.traded => (self.stage, self.at) = (3, now),
            2 if now >= self.at && self.tries < TRIES_MAX => {
                if let Some(open) = facts.tradable() {
                    counter.take_one(now, &open, trade);
                }
                (self.tries, self.at) = (self.tries + 1, now.after(QUIET_NS));
            }
            2 if now >= self.at => (self.stage, self.at) = (3, now),
            3 if now.since(self.at) >= AWAY_NS => {
                interventions.closed = false;
                self.stage = 4;
            }
            4 if facts.logged_on && facts.executed > self.base.executed => {
                (self.stage, self.at) = (5, now);
            }
            5 if now.since(self.at) >= SETTLE_NS => {
                let next = facts.next_told;
                return Verdict::Passed(format!("back, up to message {}", next.saturating_sub(1)));
            }
            _ => {}
        }
        Verdict::Wait
    }

    fn long_away(
        &mut self,
        now: Nanos,
        facts: &Facts,
        interventions: &mut Interventions,
    ) -> Verdict {
        match self.stage {
            0 if !facts.open.is_empty() && facts.logged_on => {
                interventions.mute = true;
                (self.stage, self.at) = (1, now);
            }
            1 if now.since(self.at) >= QUIET_NS => {
                (interventions.cut, interventions.closed) = (true, true);
                self.kept = facts.open.keys().cloned().collect();
                (self.stage, self.at) = (2, now);
            }
            2 if now.since(self.at) >= CANCELLED_NS => {
                interventions.closed = false;
                self.stage = 3;
            }
            3 if facts.logged_on && self.kept.iter().all(|key| !facts.open.contains_key(key)) => {
                (self.stage, self.at) = (4, now);
            }
            4 if now.since(self.at) >= SETTLE_NS => {
                return Verdict::Passed(format!("back, {} orders cancelled", self.kept.len()));
            }
            _ => {}
        }
        Verdict::Wait
    }
}

fn gap(facts: &Facts, interventions: &Interventions) -> Verdict {
    let (Some(lost), Some(asked)) = (interventions.lost, facts.asked_from) else {
        return Verdict::Wait;
    };
    if asked > lost {
        return Verdict::Failed(format!("asked from message {asked}, {lost} is missing"));
    }
    match facts.next_told > lost {
        true => Verdict::Passed(format!("asked from message {asked} and got it")),
        false => Verdict::Wait,
    }
}
