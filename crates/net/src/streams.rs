//! TCP connections of one loop: opening, reading, bounded writing, closing in good order.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use types::{Address, ConnId, Nanos, Peer, Remote};

use crate::addr::{address_of, peer_addr};

use crate::conn::{Conn, Incoming, Phase, WriteBuffer};
use crate::io::{Io, Notice, Token};

/// Ids of accepted connections start here, those a node chooses must stay below.
const ACCEPTED_BASE: u32 = 1 << 31;

const _: () = assert!((ConnId::DOORS as u32) << ConnId::DOOR_SHIFT <= ACCEPTED_BASE, "no id twice");
/// Connections of one listener accepted in a row while others wait.
const ACCEPTS_PER_TURN: usize = 16;
/// So long a listener is left alone when no descriptor is free.
const LISTENER_REST_NS: u64 = 100 * Nanos::MILLI;

impl Conn {
    /// Whether "writable" is news.
    pub fn awaits_write(&self) -> bool {
        self.phase == Phase::Connecting || !self.out.is_empty()
    }
}

impl Io {
    pub fn conn(&self, slot: u32) -> Option<&Conn> {
        self.conns.get(slot as usize)?.as_ref()
    }

    fn conn_mut(&mut self, slot: u32) -> Option<&mut Conn> {
        self.conns.get_mut(slot as usize)?.as_mut()
    }

    fn slot_of(&self, host: usize, id: ConnId) -> Option<u32> {
        let conns = &self.hosts.get(host)?.conns;
        let at = conns.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        conns.get(at).map(|&(_, slot)| slot)
    }

    /// Takes what waits at a listener, by its token.
    pub fn accept(&mut self, number: u32, now: Nanos) {
        let (host, door) = place_of(number);
        for _ in 0..ACCEPTS_PER_TURN {
            let own = self.hosts.get(host);
            let Some(listener) = own.and_then(|own| own.listeners.get(door as usize)) else {
                return;
            };
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_starved(&error) => {
                    self.counters.accepts_starved.add(1);
                    return self.rest_listener(number, now);
                }
                Err(_) => {
                    self.counters.stream_errors.add(1);
                    return;
                }
            };
            let from = address_of(from.ip());
            let tls = own.and_then(|own| own.tls_doors.get(door as usize).cloned().flatten());
            let full = self.hosts.get(host).is_none_or(|h| h.accepted >= self.config.accepted_max);
            if full && !self.hurry_one(host) {
                self.counters.refused.add(1);
                continue;
            }
            let id = self.next_accepted_id(host, door);
            match self.add_conn(host, id, stream, Some(from), Phase::Open) {
                Ok(slot) => {
                    self.counters.accepted.add(1);
                    match tls {
                        Some(tls) => self.begin_handshake(slot, &tls, now),
                        None => {
                            let remote = Remote { address: Some(from), certificate: None };
                            self.notices.push_back(Notice::Accepted { host, conn: id, remote });
                        }
                    }
                }
                Err(_) => self.counters.stream_errors.add(1),
            }
        }
    }

    /// Drops an accepted connection of a host that is being closed and has been handed its last words:
    /// whoever does not hang up keeps nobody's place. False: there is none.
    fn hurry_one(&mut self, host: usize) -> bool {
        let closing = self.lingering.iter().find(|(_, slot, serial)| {
            let conn = self.conn(*slot).filter(|conn| conn.serial == *serial);
            conn.is_some_and(|conn| conn.host == host && conn.accepted && conn.out.is_empty())
        });
        let slot = closing.map(|(_, slot, _)| *slot);
        slot.map(|slot| self.drop_conn(slot)).is_some()
    }

    /// Leaves a listener alone for a while: as long as no descriptor is free it would be reported, and
    /// fail, again and again.
    fn rest_listener(&mut self, number: u32, now: Nanos) {
        let (host, door) = place_of(number);
        let listener = self.hosts.get(host).and_then(|own| own.listeners.get(door as usize));
        if listener.is_some_and(|listener| self.poller.remove_listener(listener).is_ok()) {
            self.resting.push_back((now.after(LISTENER_REST_NS), number));
        }
    }

    /// Tries listeners again that have rested.
    fn wake_listeners(&mut self, now: Nanos) {
        while let Some((_, number)) = self.resting.pop_front_if(|(until, _)| *until <= now) {
            let (host, door) = place_of(number);
            let own = self.hosts.get(host);
            let Some(listener) = own.and_then(|own| own.listeners.get(door as usize)) else {
                continue;
            };
            if self.poller.add_listener(listener, Token::Listener(number).pack()).is_err() {
                self.resting.push_back((now.after(LISTENER_REST_NS), number));
                return;
            }
        }
    }

    fn next_accepted_id(&mut self, host: usize, door: u32) -> ConnId {
        let base = ACCEPTED_BASE | door << ConnId::DOOR_SHIFT;
        loop {
            let Some(own) = self.hosts.get_mut(host) else { return ConnId(base) };
            let id = ConnId(base | own.accepted_before);
            let most = (1 << ConnId::DOOR_SHIFT) - 1;
            own.accepted_before = own.accepted_before.wrapping_add(1) & most;
            // Taken only after 268 million connections; fewer than that exist at once.
            if self.slot_of(host, id).is_none() {
                return id;
            }
        }
    }

    fn add_conn(
        &mut self,
        host: usize,
        id: ConnId,
        stream: TcpStream,
        address: Option<Address>,
        phase: Phase,
    ) -> std::io::Result<u32> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let slot = self.free.pop().unwrap_or(self.conns.len() as u32);
        if let Err(error) = self.poller.add_stream(&stream, Token::Conn(slot).pack()) {
            if (slot as usize) < self.conns.len() {
                self.free.push(slot);
            }
            return Err(error);
        }
        self.serials += 1;
        let accepted = address.is_some();
        let conn = Conn {
            stream,
            host,
            id,
            serial: self.serials,
            accepted,
            address,
            written: false,
            phase,
            readable: false,
            hangup: false,
            queued: false,
            dirty: false,
            paused: false,
            crowded: false,
            stamped: accepted && self.config.kernel_stamps,
            held_back: false,
            waited_ns: None,
            out: WriteBuffer::new(self.config.unread_max),
            secure: None,
        };
        match self.conns.get_mut(slot as usize) {
            Some(place) => {
                assert!(place.is_none(), "a slot is of one connection");
                *place = Some(conn);
            }
            None => {
                assert!(slot as usize == self.conns.len(), "slots are dense");
                self.conns.push(Some(conn));
            }
        }
        if let Some(own) = self.hosts.get_mut(host) {
            *if accepted { &mut own.accepted } else { &mut own.opened } += 1;
            let at = own.conns.binary_search_by_key(&id, |&(id, _)| id);
            own.conns.insert(at.expect_err("an id is of one connection"), (id, slot));
        }
        assert!(self.slot_of(host, id) == Some(slot), "a connection is found by its id");
        Ok(slot)
    }

    /// Forgets a connection and closes its socket.
    pub fn drop_conn(&mut self, slot: u32) {
        let Some(conn) = self.conns.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        assert!(self.free.len() <= self.conns.len(), "a slot is free once");
        self.forget_id(conn.host, conn.id, slot);
        if let Some(own) = self.hosts.get_mut(conn.host) {
            let count = if conn.accepted { &mut own.accepted } else { &mut own.opened };
            *count = count.checked_sub(1).expect("each connection is counted once");
            own.paused.retain(|&other| other != slot);
            if conn.phase == Phase::Handshaking {
                own.handshakes.leave(slot);
            }
        }
    }

    fn forget_id(&mut self, host: usize, id: ConnId, slot: u32) {
        if let Some(own) = self.hosts.get_mut(host)
            && let Ok(at) = own.conns.binary_search(&(id, slot))
        {
            own.conns.remove(at);
        }
    }

    /// Drops a connection and tells its node, unless the node closed it itself.
    pub fn lose(&mut self, slot: u32) {
        let Some(conn) = self.conn(slot) else { return };
        let notice = Notice::Closed { host: conn.host, conn: conn.id };
        let unknown = conn.phase == Phase::Handshaking && conn.accepted;
        let told = conn.phase != Phase::Closing && !unknown;
        self.drop_conn(slot);
        if told {
            self.notices.push_back(notice);
        }
    }

    pub fn connect(&mut self, host: usize, id: ConnId, to: Peer) {
        // An id in use (which the contract forbids) must not shadow the other connection.
        if self.slot_of(host, id).is_some() {
            self.counters.stream_errors.add(1);
            return;
        }
        let full = self.hosts.get(host).is_none_or(|own| own.opened >= self.config.opened_max);
        let addr = crate::addr::socket_addr(to);
        let opened = match addr {
            None => {
                self.counters.unroutable.add(1);
                None
            }
            Some(addr) if !full => start_connect(addr).ok(),
            Some(_) => None,
        };
        let added =
            opened.and_then(|stream| self.add_conn(host, id, stream, None, Phase::Connecting).ok());
        if added.is_none() {
            self.counters.stream_errors.add(1);
            self.notices.push_back(Notice::Closed { host, conn: id });
        }
    }

    pub fn write(&mut self, host: usize, id: ConnId, bytes: &[u8]) {
        let slot = self.slot_of(host, id);
        let Some((slot, conn)) =
            slot.and_then(|slot| Some((slot, self.conns.get_mut(slot as usize)?.as_mut()?)))
        else {
            self.counters.stream_strays.add(1);
            return;
        };
        let mut fits = conn.push(bytes);
        if !fits && conn.phase == Phase::Open {
            // One call may write more than the bound: what counts is what the kernel won't take.
            fits = conn.flush().is_ok() && conn.push(bytes);
        }
        if !fits {
            self.counters.slow_consumers.add(1);
            self.lose(slot);
            return;
        }
        self.counters.stream_bytes_out.add(bytes.len() as u64);
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(slot);
        }
    }

    pub fn flush_dirty(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            let Some(conn) = self.conn_mut(slot) else { continue };
            conn.dirty = false;
            self.flush(slot);
            self.note_unread(slot);
        }
    }

    /// Tells the node, once, of a connection whose other side leaves much unread: there is room
    /// left for last words.
    fn note_unread(&mut self, slot: u32) {
        let most = self.config.unread_max / 4 * 3;
        let Some(conn) = self.conn_mut(slot) else { return };
        if conn.out.len() > most && conn.phase == Phase::Open && !conn.crowded {
            conn.crowded = true;
            let notice = Notice::Unread { host: conn.host, conn: conn.id };
            self.notices.push_back(notice);
        }
    }

    /// Writes what is pending; a failure loses the connection.
    pub fn flush(&mut self, slot: u32) {
        let Some(conn) = self.conn_mut(slot) else { return };
        if conn.phase == Phase::Connecting || conn.out.is_empty() {
            return;
        }
        if conn.flush().is_err() {
            self.counters.stream_errors.add(1);
            self.lose(slot);
        }
    }

    /// The node is done with a connection: pending bytes still go out, within the linger time.
    pub fn close(&mut self, host: usize, id: ConnId, now: Nanos) {
        let Some(slot) = self.slot_of(host, id) else { return };
        self.flush(slot);
        // Without last words there is nothing that an abrupt end could destroy.
        let abrupt = |conn: &Conn| conn.phase != Phase::Open || (conn.accepted && !conn.written);
        if self.conn(slot).is_some_and(abrupt) {
            self.drop_conn(slot);
        } else {
            self.begin_closing(slot, now);
        }
        // A failed flush has just told the node about a connection it no longer knows.
        self.notices.retain(|notice| *notice != Notice::Closed { host, conn: id });
    }

    /// From here on the node does not know the connection.
    pub fn begin_closing(&mut self, slot: u32, now: Nanos) {
        let deadline = now.after(self.config.linger_ns);
        let Some(conn) = self.conn_mut(slot) else { return };
        if let Some(secure) = &mut conn.secure {
            secure.end(&mut conn.out);
        }
        conn.phase = Phase::Closing;
        conn.readable = true;
        conn.paused = false;
        let (host, id, serial) = (conn.host, conn.id, conn.serial);
        self.forget_id(host, id, slot);
        if let Some(own) = self.hosts.get_mut(host) {
            own.paused.retain(|&other| other != slot);
        }
        self.lingering.push_back((deadline, slot, serial));
        self.requeue_conn(slot);
    }

    pub fn requeue_conn(&mut self, slot: u32) {
        if let Some(conn) = self.conn_mut(slot)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(Token::Conn(slot));
        }
    }

    /// Goes on with a connection that has news: finishes opening, writes what waits. Returns its
    /// host and id if its node may have bytes to take.
    pub fn serve_conn(
        &mut self,
        slot: u32,
        now: Nanos,
        scratch: &mut [u8],
    ) -> Option<(usize, ConnId)> {
        let conn = self.conn_mut(slot)?;
        conn.queued = false;
        if conn.phase == Phase::Connecting {
            self.finish_connect(slot, now);
        }
        self.flush(slot);
        let conn = self.conn_mut(slot)?;
        match conn.phase {
            Phase::Connecting => None,
            Phase::Handshaking => {
                self.handshakes_ready.push_back(slot);
                None
            }
            Phase::Open => conn.readable.then_some((conn.host, conn.id)),
            Phase::Closing => {
                self.go_on_closing(slot, scratch);
                None
            }
        }
    }

    fn finish_connect(&mut self, slot: u32, now: Nanos) {
        let Some(conn) = self.conn_mut(slot) else { return };
        let failed = !matches!(sockopt::socket_error(&conn.stream), Ok(Ok(())));
        if failed {
            self.counters.stream_errors.add(1);
            self.lose(slot);
        } else if let Ok(peer) = conn.stream.peer_addr() {
            conn.phase = Phase::Open;
            let host = conn.host;
            let notice = Notice::Connected { host, conn: conn.id };
            self.counters.connected.add(1);
            let tls = self.hosts.get(host).and_then(|own| own.tls_to(peer_addr(peer)).cloned());
            match tls {
                Some(tls) => self.begin_client_handshake(slot, &tls, now),
                None => self.notices.push_back(notice),
            }
        }
    }

    fn go_on_closing(&mut self, slot: u32, scratch: &mut [u8]) {
        let Some(conn) = self.conn_mut(slot) else { return };
        if conn.out.is_empty() {
            // Also called again and again: the second shutdown does nothing.
            let _ = conn.stream.shutdown(std::net::Shutdown::Write);
        }
        match conn.read_raw(scratch) {
            Incoming::Bytes(_) if conn.readable => self.requeue_conn(slot),
            Incoming::Bytes(_) | Incoming::Nothing => {}
            // The other side reads no more, or has read all.
            Incoming::Ended if !conn.out.is_empty() => conn.readable = false,
            Incoming::Ended | Incoming::Failed => self.drop_conn(slot),
        }
    }

    /// One read for a node.
    pub fn read(&mut self, slot: u32, buffer: &mut [u8]) -> Incoming {
        let Io { conns, sealed, config, .. } = self;
        let Some(conn) = conns.get_mut(slot as usize).and_then(Option::as_mut) else {
            return Incoming::Nothing;
        };
        let incoming = conn.read(buffer, sealed, config.read_max);
        let more = conn.readable;
        match incoming {
            Incoming::Bytes(n) => self.counters.stream_bytes_in.add(n as u64),
            Incoming::Nothing => {}
            Incoming::Ended | Incoming::Failed => return incoming,
        }
        if more {
            self.requeue_conn(slot);
        }
        self.flush(slot);
        incoming
    }

    /// Leaves bytes where they are until the node wants them.
    pub fn pause(&mut self, slot: u32) {
        let Some(conn) = self.conn_mut(slot) else { return };
        if conn.paused {
            return;
        }
        (conn.paused, conn.held_back) = (true, true);
        let host = conn.host;
        if let Some(own) = self.hosts.get_mut(host) {
            own.paused.push(slot);
        }
    }

    /// Puts paused connections of a host that are wanted again back in line.
    pub fn unpause(&mut self, host: usize, wants: impl Fn(ConnId) -> bool) {
        let Io { hosts, conns, ready, .. } = self;
        let Some(own) = hosts.get_mut(host) else { return };
        own.paused.retain(|&slot| {
            let Some(Some(conn)) = conns.get_mut(slot as usize) else { return false };
            if !wants(conn.id) {
                return true;
            }
            conn.paused = false;
            if !conn.queued {
                conn.queued = true;
                ready.push_back(Token::Conn(slot));
            }
            false
        });
    }

    /// Cuts connections that have lingered long enough, or shaken hands too long.
    pub fn reap(&mut self, now: Nanos) {
        self.wake_listeners(now);
        self.reap_handshakes(now);
        while let Some(&(deadline, slot, serial)) = self.lingering.front() {
            let current = self.conn(slot).is_some_and(|conn| conn.serial == serial);
            if current && deadline > now {
                return;
            }
            self.lingering.pop_front();
            if current {
                self.drop_conn(slot);
            }
        }
    }
}

/// Whose listener a number is, and which of its doors.
pub(crate) fn place_of(number: u32) -> (usize, u32) {
    let doors = u32::from(ConnId::DOORS);
    ((number / doors) as usize, number % doors)
}

/// Whether something could not be had because the process, or the system, has too many of them.
fn is_starved(error: &std::io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// A socket on its way to `addr`, without waiting for it.
fn start_connect(addr: SocketAddr) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = if addr.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &addr) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}
