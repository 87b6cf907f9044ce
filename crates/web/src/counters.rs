//! What the door has counted, and the keys that it refused, for whoever tells it to operators.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::ApiError;

/// Refused keys that are remembered one by one until they are told; the rest is a count.
const REFUSED_MAX: usize = 64;
/// Bytes of a key's name that are told.
const NAME_MAX: usize = 32;
/// Codes of refusals that say that somebody is not whom they say they are.
const UNPROVED: [&str; 7] = [
    "unknown_key",
    "key_expired",
    "bad_signature",
    "late_timestamp",
    "replayed",
    "wrong_address",
    "bad_token",
];

/// How requests come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By HTTP; also what asks for a WebSocket.
    Rest,
    /// As a message of a WebSocket.
    Socket,
}

/// Counts of a door since it was made, and how many it has of what it holds now.
#[derive(Default, Debug)]
pub struct Counters {
    connections: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    sockets: AtomicU64,
    subscriptions: AtomicU64,
    answers: [[AtomicU64; 5]; 2],
    no_credits: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    slow: AtomicU64,
    resyncs: AtomicU64,
    unproved: Mutex<Unproved>,
}

/// Keys that were refused since they were last told.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Unproved {
    /// Who from where and why, and how many times.
    pub lines: BTreeMap<String, u64>,
    /// Times beyond those.
    pub more: u64,
}

/// The same at one time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Connections now.
    pub connections: u64,
    /// Connections that were taken.
    pub accepted: u64,
    /// Connections that were closed at once, because there or of their address were too many.
    pub refused: u64,
    /// WebSockets now.
    pub sockets: u64,
    /// Public and private channels that WebSockets are subscribed to now, each symbol by itself.
    pub subscriptions: u64,
    /// Answers by HTTP, by the first digit of their status, from 1.
    pub rest: [u64; 5],
    /// Answers to messages of WebSockets, by the first digit of their status, from 1; a batch is one.
    pub socket: [u64; 5],
    /// Answers with the status 429: no credits were left.
    pub no_credits: u64,
    /// Bytes of requests, without TLS.
    pub received: u64,
    /// Bytes of answers and updates, without TLS.
    pub sent: u64,
    /// Connections that were closed because their client took nothing for too long.
    pub slow: u64,
    /// Times that a WebSocket was so far behind that it was told how everything stands.
    pub resyncs: u64,
}

fn one(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

fn less(of: &AtomicU64, by: usize) {
    of.fetch_sub(by as u64, Ordering::Relaxed);
}

impl Counters {
    /// A connection was taken.
    pub(crate) fn begun(&self) {
        one(&self.accepted);
        one(&self.connections);
    }

    /// One has ended.
    pub(crate) fn ended(&self) {
        less(&self.connections, 1);
    }

    pub(crate) fn refused(&self) {
        one(&self.refused);
    }

    pub(crate) fn socket_begun(&self) {
        one(&self.sockets);
    }

    /// A WebSocket with so many subscriptions has ended.
    pub(crate) fn socket_ended(&self, subscriptions: usize) {
        less(&self.sockets, 1);
        less(&self.subscriptions, subscriptions);
    }

    pub(crate) fn subscribed(&self) {
        one(&self.subscriptions);
    }

    pub(crate) fn unsubscribed(&self) {
        less(&self.subscriptions, 1);
    }

    /// A request was answered with an HTTP status.
    pub(crate) fn answered(&self, way: Way, status: u16) {
        let of = &self.answers[usize::from(way == Way::Socket)];
        if let Some(class) = usize::from(status / 100).checked_sub(1).and_then(|at| of.get(at)) {
            one(class);
        }
        if status == 429 {
            one(&self.no_credits);
        }
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn slow(&self) {
        one(&self.slow);
    }

    pub(crate) fn resynced(&self) {
        one(&self.resyncs);
    }

    /// Somebody was refused who had this key or, where that is empty, a token.
    pub(crate) fn unproved(&self, (key, from): (&str, IpAddr), why: &ApiError) {
        if !UNPROVED.contains(&why.code) {
            return;
        }
        let name = key.as_bytes().get(..NAME_MAX).unwrap_or(key.as_bytes()).escape_ascii();
        let line = match key {
            "" => format!("somebody from {from}: {}", why.code),
            _ => format!("{name} from {from}: {}", why.code),
        };
        let mut unproved = self.unproved.lock().unwrap_or_else(PoisonError::into_inner);
        if unproved.lines.len() >= REFUSED_MAX && !unproved.lines.contains_key(&line) {
            unproved.more += 1;
            return;
        }
        *unproved.lines.entry(line).or_default() += 1;
    }

    /// Takes the keys that were refused since the last time.
    pub fn take_unproved(&self) -> Unproved {
        std::mem::take(&mut self.unproved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All of them now.
    pub fn figures(&self) -> Figures {
        let now = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let classes = |of: &[AtomicU64; 5]| of.each_ref().map(now);
        Figures {
            connections: now(&self.connections),
            accepted: now(&self.accepted),
            refused: now(&self.refused),
            sockets: now(&self.sockets),
            subscriptions: now(&self.subscriptions),
            rest: classes(&self.answers[0]),
            socket: classes(&self.answers[1]),
            no_credits: now(&self.no_credits),
            received: now(&self.received),
            sent: now(&self.sent),
            slow: now(&self.slow),
            resyncs: now(&self.resyncs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_keys_are_told_once_escaped_and_bounded() {
        let (counters, from) = (Counters::default(), IpAddr::from([192, 0, 2, 1]));
        let refused = |code| ApiError::new(code, "why");
        for _ in 0..3 {
            counters.unproved(("k", from), &refused("bad_signature"));
        }
        counters.unproved(("", from), &refused("bad_token"));
        counters.unproved(("a\x1b[2Jé", from), &refused("unknown_key"));
        // Of whoever is who they say they are nothing is told.
        counters.unproved(("k", from), &refused("too_many_requests"));
        let told = counters.take_unproved();
        let lines: Vec<(&str, u64)> =
            told.lines.iter().map(|(line, times)| (line.as_str(), *times)).collect();
        let due = [
            ("a\\x1b[2J\\xc3\\xa9 from 192.0.2.1: unknown_key", 1),
            ("k from 192.0.2.1: bad_signature", 3),
            ("somebody from 192.0.2.1: bad_token", 1),
        ];
        assert_eq!((&lines[..], told.more), (&due[..], 0));
        assert_eq!(counters.take_unproved(), Unproved::default());
        for number in 0..1_000 {
            counters.unproved((&format!("{number:0100}"), from), &refused("unknown_key"));
            counters.unproved((&format!("k{number}"), from), &refused("unknown_key"));
        }
        let told = counters.take_unproved();
        assert_eq!((told.lines.len(), told.lines.values().sum::<u64>() + told.more), (64, 2_000));
        assert!(told.lines.keys().all(|line| line.len() < 100));
    }
}
