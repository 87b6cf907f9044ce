//! TLS handshakes of one loop: begun, bounded, served one at a time, ended.

use types::{Nanos, Remote};

use crate::conn::{Conn, Incoming, Phase};
use crate::io::{Io, Notice};
use crate::secure::Secure;
use crate::tls::{ClientTls, ServerTls};

/// Handshakes served before everybody else gets a turn: each costs as much as hundreds of messages.
const HANDSHAKES_PER_TURN: usize = 1;

impl Io {
    /// A connection just accepted by a door that speaks TLS.
    pub fn begin_handshake(&mut self, slot: u32, tls: &ServerTls, now: Nanos) {
        let secure = Secure::server(tls, self.config.handshake_bytes_max);
        self.enter_handshake(slot, secure, now);
    }

    /// A connection just opened by a node that speaks TLS.
    pub fn begin_client_handshake(&mut self, slot: u32, tls: &ClientTls, now: Nanos) {
        let secure = Secure::client(tls, self.config.handshake_bytes_max);
        self.enter_handshake(slot, secure, now);
        self.handshakes_ready.push_back(slot);
    }

    fn enter_handshake(&mut self, slot: u32, secure: Option<Secure>, now: Nanos) {
        let deadline = now.after(self.config.handshake_ns);
        let Io { conns, hosts, .. } = self;
        let Some(Some(conn)) = conns.get_mut(slot as usize) else { return };
        conn.phase = Phase::Handshaking;
        conn.secure = secure.map(Box::new);
        let (serial, from) = (conn.serial, conn.address);
        let own = hosts.get_mut(conn.host).filter(|_| from.is_some());
        let goes = own.and_then(|own| own.handshakes.arrive(now, slot, from));
        self.handshaking.push_back((deadline, slot, serial));
        if let Some(slot) = goes {
            self.counters.handshakes_refused.add(1);
            self.drop_conn(slot);
        }
    }

    /// Goes on with handshakes that have news.
    pub fn shake_hands(&mut self, buffer: &mut [u8], now: Nanos) {
        for _ in 0..HANDSHAKES_PER_TURN.min(self.handshakes_ready.len()) {
            let Some(slot) = self.handshakes_ready.pop_front() else { return };
            let Io { conns, sealed, .. } = self;
            let Some(Some(conn)) = conns.get_mut(slot as usize) else { continue };
            if conn.phase != Phase::Handshaking {
                continue;
            }
            let over = step(conn, buffer, sealed);
            if over.is_none() && conn.readable {
                self.handshakes_ready.push_back(slot);
            }
            self.flush(slot);
            match over {
                Some(true) => self.open(slot),
                Some(false) => {
                    self.counters.handshakes_failed.add(1);
                    self.fail(slot, now);
                }
                None => {}
            }
        }
    }

    /// The node gets to know the connection.
    fn open(&mut self, slot: u32) {
        let Io { conns, hosts, .. } = self;
        let Some(Some(conn)) = conns.get_mut(slot as usize) else { return };
        conn.phase = Phase::Open;
        // The first clear bytes may have come with the end of the handshake.
        conn.readable = true;
        let (host, id) = (conn.host, conn.id);
        let notice = match conn.address {
            Some(from) => {
                if let Some(own) = hosts.get_mut(host) {
                    own.handshakes.leave(slot);
                }
                let certificate = conn.secure.as_ref().and_then(|secure| secure.certificate());
                let remote = Remote { address: Some(from), certificate };
                Notice::Accepted { host, conn: id, remote }
            }
            None => Notice::Connected { host, conn: id },
        };
        self.counters.handshakes.add(1);
        self.notices.push_back(notice);
        self.requeue_conn(slot);
    }

    /// The other side may still read why, within the linger time; the node of an accepted
    /// connection never knew of it.
    fn fail(&mut self, slot: u32, now: Nanos) {
        let Some(conn) = self.conn(slot) else { return };
        let (host, id, address) = (conn.host, conn.id, conn.address);
        match (address, self.hosts.get_mut(host)) {
            (Some(_), Some(own)) => {
                own.handshakes.leave(slot);
            }
            _ => self.notices.push_back(Notice::Closed { host, conn: id }),
        }
        self.begin_closing(slot, now);
    }

    /// Cuts handshakes that have taken too long.
    pub fn reap_handshakes(&mut self, now: Nanos) {
        while let Some(&(deadline, slot, serial)) = self.handshaking.front() {
            let current = self
                .conn(slot)
                .is_some_and(|conn| conn.serial == serial && conn.phase == Phase::Handshaking);
            if current && deadline > now {
                return;
            }
            self.handshaking.pop_front();
            if current {
                self.counters.handshakes_late.add(1);
                self.lose(slot);
            }
        }
    }
}

/// One read's worth of a handshake; whether it has come to a good or a bad end.
fn step(conn: &mut Conn, buffer: &mut [u8], sealed: &mut [u8]) -> Option<bool> {
    let Some(secure) = &mut conn.secure else { return Some(false) };
    // A client speaks first.
    secure.drain(&mut conn.out);
    if !conn.readable {
        return None;
    }
    // Clear bytes that come with the end of the handshake must wait for the node to know of the
    // connection: they stay where TLS keeps them.
    let incoming = conn.read(buffer.get_mut(..0).unwrap_or(&mut []), sealed, usize::MAX);
    match incoming {
        Incoming::Bytes(_) | Incoming::Nothing => {
            let open = conn.secure.as_ref().is_some_and(|secure| !secure.is_handshaking());
            open.then_some(true)
        }
        Incoming::Ended | Incoming::Failed => Some(false),
    }
}
