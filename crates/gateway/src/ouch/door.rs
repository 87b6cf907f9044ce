//! The gateway's OUCH door: its connections, their timers, their accounts' streams.

use std::collections::BTreeMap;

use overlay::private_receiver::PrivateEvent;
use types::{ClockReading, ConnId, Nanos, Outbox};

use crate::{
    access::Refusal,
    context::{Ahead, GatewayContext},
    gateway::Gateway,
    operate::SessionInfo,
    ouch::session::{self, OuchSession, State},
    session::Ending,
};

/// All OUCH connections of a gateway.
pub(crate) struct OuchDoor {
    sessions: BTreeMap<ConnId, OuchSession>,
    /// No session is due before this; may be early.
    due: Nanos,
}

impl Default for OuchDoor {
    fn default() -> OuchDoor {
        OuchDoor { sessions: BTreeMap::new(), due: Nanos::NEVER }
    }
}

impl OuchDoor {
    /// Connections now open.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// An open connection.
    pub(crate) fn get(&mut self, conn: ConnId) -> Option<&mut OuchSession> {
        self.sessions.get_mut(&conn)
    }

    /// An open connection, to be looked at.
    pub(crate) fn peek(&self, conn: ConnId) -> Option<&OuchSession> {
        self.sessions.get(&conn)
    }

    /// A connection has come.
    pub(crate) fn connect(&mut self, now: Nanos, conn: ConnId, context: &GatewayContext) {
        let session = OuchSession::new(now);
        self.due = self.due.min(session.next_timeout(context));
        self.sessions.insert(conn, session);
    }

    /// A connection has gone.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<OuchSession> {
        self.sessions.remove(&conn)
    }

    /// When a session next needs attention; may be early.
    pub(crate) fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// Sessions that are logged on.
    pub(crate) fn logged_on(&self) -> impl Iterator<Item = SessionInfo> {
        self.sessions.iter().filter_map(|(conn, session)| match session.state {
            State::Live(account) => Some(session.tally.info(account, *conn, session.hold.len())),
            _ => None,
        })
    }

    /// Tells all that requests are refused from now on, or no longer.
    pub(crate) fn tell_suspended(&mut self, suspended: bool, out: &mut Outbox) {
        for (conn, session) in &mut self.sessions {
            session.tell_suspended(suspended, *conn, out);
        }
    }
}

impl Gateway {
    /// Lets out what may be told of a session's records.
    pub(crate) fn release_ouch(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        let door = &mut self.sessions.ouch;
        let Some(session) = door.sessions.get_mut(&conn) else { return };
        session.release(now.now, &self.watermarks, &mut self.context, conn, out);
        door.due = door.due.min(session.next_timeout(&self.context));
        session.settle_pause(&mut self.streams);
    }

    /// All sessions' records whose tick may have become public.
    pub(crate) fn release_all_ouch(&mut self, now: ClockReading, out: &mut Outbox) {
        for (conn, session) in &mut self.sessions.ouch.sessions {
            if !session.hold.is_empty() {
                session.release(now.now, &self.watermarks, &mut self.context, *conn, out);
                session.settle_pause(&mut self.streams);
            }
        }
    }

    /// Timers of the door.
    pub(crate) fn serve_ouch(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.sessions.ouch.due {
            return;
        }
        let mut over = Vec::new();
        for (conn, session) in &mut self.sessions.ouch.sessions {
            session.release(now.now, &self.watermarks, &mut self.context, *conn, out);
            session.settle_pause(&mut self.streams);
            session.note_reading(now.now, &self.context);
            if let Some(ending) = session.handle_timeout(now.now, *conn, out) {
                over.push((*conn, ending));
            }
        }
        for (conn, ending) in over {
            self.end(now, conn, Ending::Ouch(ending), out);
        }
        let door = &mut self.sessions.ouch;
        let due = door.sessions.values().map(|session| session.next_timeout(&self.context)).min();
        door.due = due.unwrap_or(Nanos::NEVER);
    }

    /// Word about the stream of an account whose login came on `conn`.
    pub(crate) fn handle_ouch_event(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        event: &PrivateEvent<'_>,
        out: &mut Outbox,
    ) {
        let (door, context) = (&mut self.sessions.ouch, &mut self.context);
        let (sessions, due) = (&mut door.sessions, &mut door.due);
        let cancel_on_disconnect = &mut self.cancel_on_disconnect;
        let mut ending = None;
        let Some(session) = sessions.get_mut(&conn) else { return };
        match *event {
            // What was told is not in the log: to go on would pass over that in silence.
            PrivateEvent::Attached { account, next, .. } if session.asked_from > next => {
                let asked = session.asked_from;
                context.refuse_ahead(now.now, conn, Ahead { account, asked, next });
                ending = Some(session::Ending::Ahead { asked, next });
            }
            PrivateEvent::Attached { account, from, .. } => {
                cancel_on_disconnect.forget(account);
                session.accept(now.now, account, from, context, conn, out);
                *due = session.next_timeout(context).min(*due);
            }
            PrivateEvent::Behind { account, asked, next } => {
                context.refuse_ahead(now.now, conn, Ahead { account, asked, next });
                ending = Some(session::Ending::Ahead { asked, next });
            }
            PrivateEvent::Detached { .. } if matches!(session.state, State::Live(_)) => {
                ending = Some(session::Ending::TakenOver);
            }
            PrivateEvent::Refused { account } | PrivateEvent::Detached { account } => {
                // It is logged in elsewhere.
                cancel_on_disconnect.forget(account);
                context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                ending = Some(session::Ending::Unavailable);
            }
            PrivateEvent::Record { .. } => {}
        }
        if let Some(ending) = ending {
            self.end(now, conn, Ending::Ouch(ending), out);
        }
    }
}
