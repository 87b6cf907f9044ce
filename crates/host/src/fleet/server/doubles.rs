//! Two processes that go by one node's name: a copied key, or one started twice.
//!
//! Each process of a node is a life in the log, and its connections are of that life. One that was started
//! again leaves no life behind that still speaks: where an earlier one is heard of after a later one has
//! come, both run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Caller, Server, lock};

/// How long after a life has come an earlier one may still be heard of: what was on its way.
const LEFT_OVER: Duration = Duration::from_secs(2);
/// A life that said nothing for so long does not count: each speaks every second.
const SPEAKS: Duration = Duration::from_secs(3);
/// It is over when only one was heard of for so long.
const OVER: Duration = Duration::from_secs(10);

/// A life with open connections.
#[derive(Clone, Copy, Debug)]
struct Open {
    life: u32,
    at: SocketAddr,
    connections: u32,
    since: Instant,
    heard: Instant,
}

/// Lives by node, as far as they are connected here.
#[derive(Default)]
pub(super) struct Doubles {
    open: BTreeMap<u16, Vec<Open>>,
    /// When two of a node were last heard of.
    seen: BTreeMap<u16, Instant>,
}

impl Doubles {
    /// A life has a connection, or one more, from an address.
    pub(super) fn enter(&mut self, now: Instant, (number, life): (u16, u32), at: SocketAddr) {
        let lives = self.open.entry(number).or_default();
        match lives.iter_mut().find(|one| one.life == life) {
            Some(one) => (one.connections, one.at) = (one.connections + 1, at),
            None => lives.push(Open { life, at, connections: 1, since: now, heard: now }),
        }
    }

    /// One of its connections has ended.
    pub(super) fn leave(&mut self, (number, life): (u16, u32)) {
        let lives = self.open.entry(number).or_default();
        lives.iter_mut().filter(|one| one.life == life).for_each(|one| one.connections -= 1);
        lives.retain(|one| one.connections > 0);
    }

    /// A life has said something; where it and another one are, if both speak.
    fn hear(&mut self, now: Instant, (number, life): (u16, u32)) -> Option<[SocketAddr; 2]> {
        let lives = self.open.get_mut(&number)?;
        let own = lives.iter_mut().find(|one| one.life == life)?;
        own.heard = now;
        let own = *own;
        let both = |other: &&Open| {
            let (earlier, later) =
                if own.since <= other.since { (&own, *other) } else { (*other, &own) };
            other.life != life
                && now.duration_since(other.heard) <= SPEAKS
                && earlier.heard.duration_since(later.since) >= LEFT_OVER
        };
        let other = lives.iter().find(both)?.at;
        self.seen.insert(number, now);
        Some([own.at, other])
    }

    /// Nodes of which two were heard, and only one lately: each is told once.
    fn over(&mut self, now: Instant) -> Vec<u16> {
        let over = self.seen.extract_if(.., |_, seen| now.duration_since(*seen) >= OVER);
        over.map(|(number, _)| number).collect()
    }
}

fn key(name: &str) -> String {
    format!("doubled-{name}")
}

impl Server {
    /// A node has spoken: an alarm when another process with its name does, too.
    pub(super) fn tell_doubled(&self, caller: &Caller, life: u32) {
        let heard = lock(&self.doubles).hear(Instant::now(), (caller.number, life));
        if let Some([one, other]) = heard {
            let name = &caller.name;
            let text = format!(
                "two processes are {name}, at {one} and {other}: end one; if it is not yours, its keys \
                 were copied: `fairbell cluster revoke {name}`"
            );
            self.alarms.raise(&key(name), text);
        }
    }

    /// Ends alarms of nodes that are one again.
    pub(super) fn tell_single(&self) {
        for number in lock(&self.doubles).over(Instant::now()) {
            let name = self.venue.file.numbered(number).map_or("", |node| &node.name[..]);
            let text = format!("no second {name} was heard of for {} s", OVER.as_secs());
            self.alarms.clear(&key(name), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn two_that_speak_are_told_of_until_one_is_silent() {
        let (mut doubles, start) = (Doubles::default(), Instant::now());
        doubles.enter(start, (4, 1), at(1));
        doubles.enter(start + SECOND, (4, 2), at(2));
        let mut both = Vec::new();
        for second in 1..=6 {
            let now = start + second * SECOND;
            both.extend(doubles.hear(now, (4, 1)).map(|both| (second, both)));
            // The later one ends after four seconds.
            if second <= 4 {
                both.extend(doubles.hear(now, (4, 2)).map(|both| (second, both)));
            }
            if second == 4 {
                doubles.leave((4, 2));
            }
        }
        let (first, second) = ([at(1), at(2)], [at(2), at(1)]);
        assert_eq!(both, [(3, first), (3, second), (4, first), (4, second)]);
        assert!(doubles.over(start + 13 * SECOND).is_empty());
        assert_eq!(doubles.over(start + 14 * SECOND), [4]);
        assert!(doubles.over(start + 15 * SECOND).is_empty(), "told once");
    }

    #[test]
    fn a_process_that_was_started_again_is_one_also_while_its_old_connection_stays() {
        let (mut doubles, start) = (Doubles::default(), Instant::now());
        doubles.enter(start, (4, 1), at(1));
        assert_eq!(doubles.hear(start + SECOND, (4, 1)), None);
        // What the first one had sent may come late; a connection more is none of another life.
        let again = start + 2 * SECOND;
        doubles.enter(again, (4, 2), at(2));
        doubles.enter(again, (4, 2), at(3));
        assert_eq!(doubles.hear(again + SECOND, (4, 1)), None);
        for second in 1..20 {
            assert_eq!(doubles.hear(again + second * SECOND, (4, 2)), None, "second {second}");
        }
        doubles.leave((4, 2));
        doubles.enter(again, (5, 1), at(4));
        assert_eq!(doubles.hear(again + 30 * SECOND, (5, 1)), None, "another node");
    }
}
