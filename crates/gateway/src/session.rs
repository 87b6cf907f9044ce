//! A connection at any door: what a gateway does with it, whichever protocol it speaks.
//!
//! Where the protocols differ is decided here, by [`Session`]; the rest of the gateway does not
//! ask which one it is.

use overlay::private_receiver::PrivateEvent;
use types::{AccountId, ClockReading, ConnId, ExecutionReport, Nanos, Outbox, ShardId};

use crate::{
    access::Refusal,
    context::GatewayContext,
    fix::door::FixDoor,
    gateway::{FIX_DOOR, Gateway, SUBSCRIPTION_DOOR},
    operate::SessionInfo,
    ouch::door::OuchDoor,
    ouch::session::{self as ouch, OuchSession},
    subscriptions::{self, SubscriptionDoor},
};

/// A connection, by its protocol.
pub(crate) enum Session<'a> {
    /// One connection is one session.
    Ouch(&'a mut OuchSession),
    /// All connections share one acceptor, which knows this one too.
    Fix(&'a mut FixDoor),
    /// All connections of the door, which has no orders.
    Subscription(&'a mut SubscriptionDoor),
}

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Its credentials are right, but the account may not come in now; access control knows.
    Refused(Refusal),
    /// It has to go without a word and uncounted.
    Dropped,
    /// Something that only OUCH connections end with.
    Ouch(ouch::Ending),
    /// Something that only FIX connections end with.
    Fix(fix::session::Ending),
    /// Something that only subscriptions end with.
    Subscription(subscriptions::Ending),
}

/// What bytes, answers or records of a connection have led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Right credentials were given: whose, and the first message of the account's stream wanted.
    pub(crate) wants_in: Option<(AccountId, u64)>,
    /// It ends; after it was let in, if it wants that too.
    pub(crate) ending: Option<Ending>,
}

/// Why a session is ended from this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dismissal {
    /// Too much is left unread.
    Slow,
    /// The operator wants it.
    Operator,
}

/// Who left with a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Left {
    /// The account it had the stream of, or had asked for.
    pub(crate) account: Option<AccountId>,
    /// It was logged on.
    pub(crate) live: bool,
}

/// All connections of a gateway.
pub(crate) struct Sessions {
    pub(crate) ouch: OuchDoor,
    pub(crate) fix: FixDoor,
    pub(crate) subscriptions: SubscriptionDoor,
}

impl Sessions {
    /// The connection, if it is open.
    pub(crate) fn get(&mut self, conn: ConnId) -> Option<Session<'_>> {
        match conn.door() {
            FIX_DOOR => self.fix.has(conn).then_some(Session::Fix(&mut self.fix)),
            SUBSCRIPTION_DOOR => (self.subscriptions.has(conn))
                .then_some(Session::Subscription(&mut self.subscriptions)),
            _ => self.ouch.get(conn).map(Session::Ouch),
        }
    }

    /// Connections now open.
    pub(crate) fn len(&self) -> usize {
        self.ouch.len() + self.fix.connections() + self.subscriptions.len()
    }

    /// A connection has come.
    pub(crate) fn connect(&mut self, now: Nanos, conn: ConnId, context: &GatewayContext) {
        match conn.door() {
            FIX_DOOR => self.fix.connect(now, conn),
            SUBSCRIPTION_DOOR => self.subscriptions.connect(now, conn),
            _ => self.ouch.connect(now, conn, context),
        }
    }

    /// Whether bytes of the connection are taken now; of one that is not open, whether a stranger's
    /// would be.
    pub(crate) fn wants_input(&self, conn: ConnId, context: &GatewayContext) -> bool {
        if let Some(session) = self.ouch.peek(conn) {
            return session.is_read(context);
        }
        if self.subscriptions.has(conn) {
            return true;
        }
        let account = self.fix.account_of(conn);
        account.map_or_else(|| context.reads_strangers(), |account| context.wants(account))
            && self.fix.wants_input(conn)
    }

    /// Everybody who is logged on, OUCH before FIX.
    pub(crate) fn logged_on(&self) -> Vec<SessionInfo> {
        self.ouch.logged_on().chain(self.fix.logged_on()).collect()
    }

    /// When a session next needs attention; may be early.
    pub(crate) fn next_timeout(&self) -> Nanos {
        let orders = self.ouch.next_timeout().min(self.fix.next_timeout());
        orders.min(self.subscriptions.next_timeout())
    }

    /// Takes a connection out that is gone or about to be closed.
    fn remove(&mut self, conn: ConnId) -> Option<Left> {
        if self.subscriptions.remove(conn) {
            return Some(Left::default());
        }
        if !self.fix.has(conn) {
            return self.ouch.remove(conn).map(|session| session.left());
        }
        let (account, live) = self.fix.close(conn).unzip();
        Some(Left { account, live: live == Some(true) })
    }
}

impl Session<'_> {
    /// Bytes came.
    pub(crate) fn handle_bytes(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        bytes: &[u8],
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        match self {
            Session::Ouch(session) => session.handle_bytes(now, bytes, context, conn, out),
            Session::Fix(door) => door.handle_bytes(now, conn, bytes, context, out),
            Session::Subscription(door) => door.handle_bytes(now.now, conn, bytes, context, out),
        }
    }

    /// Access control knows about the credentials that waited.
    pub(crate) fn handle_answer(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        match self {
            Session::Ouch(session) => session.handle_answer(now.now, conn, context),
            Session::Fix(door) => door.try_again(now, conn, context, out),
            Session::Subscription(door) => door.handle_answer(now.now, conn, context),
        }
    }

    /// The root is asked for the stream of its account, from this message on.
    fn attach(&mut self, account: AccountId, from: u64) {
        match self {
            Session::Ouch(session) => session.attach(account, from),
            // Its state has said so since the Logon; a subscription has no stream.
            Session::Fix(_) | Session::Subscription(_) => {}
        }
    }

    /// The next record of its account's stream.
    pub(crate) fn push(
        &mut self,
        now: Nanos,
        account: AccountId,
        (shard, report): (ShardId, ExecutionReport),
    ) {
        match self {
            Session::Ouch(session) => session.hold.push(now, shard, report),
            Session::Fix(door) => door.push(now, account, (shard, report)),
            Session::Subscription(_) => {}
        }
    }

    /// Ends it from this side, in the protocol's way: at once, or after the client has answered.
    fn dismiss(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        why: Dismissal,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Option<Ending> {
        match (self, why) {
            (Session::Ouch(_), Dismissal::Slow) => Some(Ending::Ouch(ouch::Ending::Slow)),
            (Session::Ouch(_), Dismissal::Operator) => Some(Ending::Ouch(ouch::Ending::Operator)),
            (Session::Subscription(_), Dismissal::Slow) => {
                Some(Ending::Subscription(subscriptions::Ending::Slow))
            }
            (Session::Subscription(_), Dismissal::Operator) => {
                Some(Ending::Subscription(subscriptions::Ending::Operator))
            }
            (Session::Fix(door), Dismissal::Slow) => {
                let told = door.log_out(now, conn, "Too much left unread", context, out);
                context.counters.slow_consumers += u64::from(told);
                None
            }
            (Session::Fix(door), Dismissal::Operator) => {
                context.counters.disconnected += 1;
                let why = "Session ended by the operator";
                // Not logged on yet, or asked to leave before: nothing to wait for.
                (!door.log_out(now, conn, why, context, out)).then_some(Ending::Dropped)
            }
        }
    }

    /// Counts why it ends, tells access control and the client.
    fn say_goodbye(
        &mut self,
        now: Nanos,
        conn: ConnId,
        ending: Ending,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) {
        match (self, ending) {
            (_, Ending::Dropped) => {}
            (Session::Ouch(session), Ending::Refused(Refusal::Locked)) => {
                session.end(now, ouch::Ending::NotAuthorized, context, conn, out);
            }
            (Session::Ouch(session), Ending::Refused(_)) => {
                session.end(now, ouch::Ending::Unavailable, context, conn, out);
            }
            (Session::Ouch(session), Ending::Ouch(ending)) => {
                session.end(now, ending, context, conn, out);
            }
            (Session::Fix(door), Ending::Refused(Refusal::Locked)) => {
                door.count(fix::session::Ending::NotAuthorized);
            }
            (Session::Fix(door), Ending::Refused(_)) => {
                door.count(fix::session::Ending::AlreadyLoggedOn);
            }
            (Session::Fix(door), Ending::Fix(ending)) => {
                door.count(ending);
                door.note_refusal(now, conn, ending, context);
            }
            (Session::Subscription(door), Ending::Subscription(ending)) => {
                door.say_goodbye(now, conn, ending, context, out);
            }
            _ => debug_assert!(false, "{ending:?} of another protocol"),
        }
    }
}

impl Gateway {
    /// Lets a connection in, or ends it, as its outcome says.
    pub(crate) fn settle(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        outcome: Outcome,
        out: &mut Outbox,
    ) {
        let Outcome { wants_in, mut ending } = outcome;
        if let Some((account, _)) = wants_in.filter(|_| self.sessions.subscriptions.has(conn)) {
            ending = ending.or_else(|| self.admit_subscriber(now, conn, account, out));
        } else if let Some((account, from)) = wants_in {
            let locked = self.is_locked(account);
            let refused = match self.conn_of.get_mut(usize::from(account.0)) {
                _ if locked => Some(Refusal::Locked),
                Some(slot @ None) => {
                    *slot = Some(conn);
                    None
                }
                _ => Some(Refusal::SecondLogon),
            };
            if let Some(refusal) = refused {
                self.context.access.refuse(now.now, conn, account, refusal, "");
                ending = Some(Ending::Refused(refusal));
            } else {
                if let Some(mut session) = self.sessions.get(conn) {
                    session.attach(account, from);
                }
                self.context.access.enter(conn);
                let again = now.now.after(self.context.config.cancel_grace_ns);
                self.cancel_on_disconnect.interrupt(account, again);
                let whole = matches!(self.sessions.get(conn), Some(Session::Fix(_)));
                let routes = &mut self.context.routes;
                self.streams.attach(now, account, (from, whole), routes, out);
            }
        }
        if let Some(ending) = ending {
            self.end(now, conn, ending, out);
        }
    }

    /// Closes a connection, with the reason.
    pub(crate) fn end(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        ending: Ending,
        out: &mut Outbox,
    ) {
        let Some(mut session) = self.sessions.get(conn) else { return };
        session.say_goodbye(now.now, conn, ending, &mut self.context, out);
        self.leave(now, conn, ending == Ending::Ouch(ouch::Ending::TakenOver), out);
        out.close(conn);
    }

    /// Ends a session from this side.
    pub(crate) fn dismiss(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        why: Dismissal,
        out: &mut Outbox,
    ) {
        let Some(mut session) = self.sessions.get(conn) else { return };
        if let Some(ending) = session.dismiss(now, conn, why, &mut self.context, out) {
            self.end(now, conn, ending, out);
        }
    }

    /// A connection is gone, or closed now: gives its account's stream back, and cancels its orders
    /// after a while if they go with it. Those of a session that goes on elsewhere stay.
    pub(crate) fn leave(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        taken_over: bool,
        out: &mut Outbox,
    ) {
        if let Some(Left { account: Some(account), live }) = self.sessions.remove(conn) {
            if live && !taken_over && self.context.config.cancels_on_disconnect(account) {
                let due = now.now.after(self.context.config.cancel_grace_ns);
                self.cancel_on_disconnect.put(account, due);
            }
            if self.conn(account) == Some(conn) {
                self.conn_of[usize::from(account.0)] = None;
                self.context.drop_held(account);
                self.streams.detach(now, account, out);
            }
        }
        self.context.access.forget(conn);
    }

    /// Word about the stream of an account whose session is `conn`.
    pub(crate) fn handle_event_of(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        event: &PrivateEvent<'_>,
        out: &mut Outbox,
    ) {
        match self.sessions.get(conn) {
            Some(Session::Fix(_)) => self.handle_fix_event(now, conn, event, out),
            Some(Session::Ouch(_) | Session::Subscription(_)) | None => {
                self.handle_ouch_event(now, conn, event, out);
            }
        }
    }

    /// Lets out what may be told of an account's records, or pauses its stream.
    pub(crate) fn release(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        account: AccountId,
        out: &mut Outbox,
    ) {
        match self.sessions.get(conn) {
            Some(Session::Ouch(_)) => self.release_ouch(now, conn, out),
            Some(Session::Fix(_) | Session::Subscription(_)) | None => {
                self.release_fix(now, account, out);
            }
        }
    }
}
