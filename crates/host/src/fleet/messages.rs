//! What nodes and roots tell one another over a control connection: JSON behind its length (4 bytes,
//! big-endian, at most [`MESSAGE_MAX`]), inside TLS 1.3.
//!
//! A field that is not known is passed over, and one that is new has a default: machines are upgraded one
//! after another, so those of the version before have to read what these say, and the other way round.

use std::io::{ErrorKind, Read, Write};

use super::observer::Observation;
use super::plan::{PlanRequest, ProbeOrder, Probed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest message, bytes.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Version of these messages; another one is refused.
pub const VERSION: u16 = 2;

/// From a node, or from an operator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FromNode {
    /// The first message: who it is.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// The cluster's id.
        cluster: u64,
        /// [`super::file::venue_digest`] of its settings.
        venue: u64,
        /// Its name, as in its certificate.
        name: String,
        /// Drawn when its process started; the same on every connection of this process.
        boot: u32,
        /// Whose clock it follows.
        follows: Followed,
        /// The last plan that a root told it to remember: JSON of a [`super::plan::PlanReport`].
        #[serde(default)]
        plan: Option<String>,
    },
    /// How it is, every second.
    Health(Health),
    /// What its nodes saw of sampled datagrams of the feed, [`OBSERVED_MAX`] at most.
    Observed(Observed),
    /// What it heard of the probes of others.
    Probed(Probed),
    /// What an operator wants done.
    Operate(Operation),
}

/// Observations of a message at most.
pub const OBSERVED_MAX: usize = 512;

/// What the nodes of a machine saw.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// In the order of time.
    pub seen: Vec<Observation>,
    /// Observations that had no room since the message before.
    pub lost: u64,
}

/// Whose clock a machine follows, and since which appointment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Followed {
    /// The reference's number; 0: nobody's yet.
    pub number: u16,
    /// Higher for each reference that is appointed.
    pub epoch: u64,
}

/// How a node is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// CLOCK_MONOTONIC of its machine, ns: what `clock_now_ns` was read at.
    pub monotonic_ns: u64,
    /// Its clock then, ns since 1970.
    pub clock_now_ns: u64,
    /// Largest error that the clock claims, ns.
    pub clock_bound_ns: u64,
    /// Whose clock it follows.
    pub follows: Followed,
    /// The epoch of the keys that it seals with.
    pub key_epoch: u32,
    /// Connections of participants that are logged on.
    pub sessions: u64,
    /// Requests of participants so far.
    pub requests: u64,
    /// Datagrams of the overlay sealed and opened so far.
    pub sealed: u64,
    /// See `sealed`.
    pub opened: u64,
    /// Datagrams refused so far: forged, replayed, forbidden or in clear.
    pub refused: u64,
    /// Copies of market data dropped in front of its stack so far, and told to its node.
    pub filtered: u64,
    /// Of what was dropped there, copies that its node was not told of: it counts them as missing.
    pub untold: u64,
    /// Packets that the kernel stamped so far.
    pub stamped: u64,
    /// How long they waited for the node all together, ns: what of one-way delays is the machine's.
    pub waited_ns: u64,
    /// Messages of the feed that its receiver released so far.
    pub released: u64,
    /// Of those, packets released after their deadline.
    pub late: u64,
    /// Its clock claims too large an error: nobody waits for it, and what it releases isn't fair.
    pub quarantined: bool,
    /// Alarms that stand on its machine, a line each.
    pub alarms: Vec<String>,
    /// It takes orders to probe others.
    pub probes: bool,
    /// It remembers plans: [`FromRoot::Planned`].
    pub plans: bool,
    /// It ends some of its sessions when it is told to: [`FromRoot::Shed`].
    pub sheds: bool,
}

/// What an operator wants done; each is a command of the log that names who asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Operation {
    /// How everybody is.
    Status,
    /// How the replica that is asked stands, whether it leads or not.
    Replica,
    /// Refuse the present certificate of a node, and change all keys.
    Revoke {
        /// Its name.
        node: String,
        /// Generations up to this one are refused.
        generation: u32,
    },
    /// Change all keys.
    Rotate,
    /// Put proxies that stand by at the places of others, in one change of the tree.
    Replace {
        /// Names of those that leave.
        nodes: Vec<String>,
        /// Names of those that come, in the same order; empty: whoever answers soonest.
        by: Vec<String>,
    },
    /// Measure the pool, say which trees there could be, and perhaps have the best one.
    Plan(PlanRequest),
    /// What the last plan came to.
    LastPlan,
    /// Give a node a one-time token to join with.
    Token {
        /// Its name.
        node: String,
        /// Of the token's secret ([`super::token::secret_digest`]), 32 hexadecimal digits.
        digest: String,
        /// How long it is good.
        valid_s: u64,
    },
    /// Have a root lead.
    Lead {
        /// Its name.
        node: String,
    },
    /// Have a node end its sessions and stop.
    Drain {
        /// Its name.
        node: String,
        /// False: not any more.
        on: bool,
    },
}

/// From a root.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FromRoot {
    /// The node is in.
    Welcome {
        /// The replica that leads, from 1, and its term.
        leader: u8,
        /// See `leader`.
        term: u64,
        /// Starts of the node, this one included.
        life: u32,
        /// Secret of the claims that it will hear, hexadecimal.
        claims: String,
        /// Its keys.
        keys: Keys,
    },
    /// Other keys, from now on.
    Keys(Keys),
    /// Another clock is to be followed from now on.
    Reference(Followed),
    /// It is to send probes to others and to time theirs.
    Probe(ProbeOrder),
    /// The last plan, for a root's machine to remember as it is: a replica that comes to lead hears of it
    /// by [`FromNode::Hello`].
    Planned {
        /// JSON of a [`super::plan::PlanReport`].
        plan: String,
    },
    /// It is to end its sessions and stop.
    Drain,
    /// It is to end so many of its sessions, which go on at edges with fewer.
    Shed {
        /// How many.
        sessions: u64,
    },
    /// For an edge: those that take participants, least loaded first.
    Edges {
        /// Since the one that was heard of longest ago said how it is, ms.
        age_ms: u64,
        /// At most [`wire::subscription::EDGES_MAX`].
        edges: Vec<EdgeHint>,
    },
    /// It is not in, for this reason.
    Refused {
        /// One line.
        why: String,
        /// It may be otherwise in a moment.
        again: bool,
    },
    /// Another replica leads, from 1; 0: nobody at present.
    Elsewhere {
        /// Its number.
        leader: u8,
    },
    /// What came of an operation.
    Answer {
        /// Lines for people.
        text: String,
        /// The same for machines.
        data: serde_json::Value,
    },
}

/// An edge's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeHint {
    /// Its number in the file.
    pub node: u16,
    /// Sessions of participants.
    pub sessions: u64,
    /// Their requests per second, over the last second or so.
    pub requests_per_s: u64,
}

/// The keys of a node in one epoch.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Keys {
    /// How many times the keys were changed before, from 0.
    pub epoch: u32,
    /// For each overlay node of the machine, and the root's own id 0 for a replica: its key ring and
    /// its life in this epoch.
    pub rings: Vec<Ring>,
    /// Of its clock agent.
    pub clock: Option<Ring>,
}

/// Key ring and life of one node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ring {
    /// Its id.
    pub node: u16,
    /// The ring, hexadecimal.
    pub ring: String,
    /// The life, 32 hexadecimal digits.
    pub life: String,
}

/// Writes a message.
///
/// # Errors
/// The stream's; a message that is too long.
pub fn write(stream: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MESSAGE_MAX {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&text);
    stream.write_all(&bytes)?;
    stream.flush()
}

/// Takes messages off a stream that says now and then that there is nothing yet.
#[derive(Default)]
pub struct Reader {
    kept: Vec<u8>,
}

impl Reader {
    /// The next message; `None`: not yet.
    ///
    /// # Errors
    /// The stream's and its end; a message that is too long or none.
    pub fn next<M: DeserializeOwned>(
        &mut self,
        stream: &mut impl Read,
    ) -> std::io::Result<Option<M>> {
        if let Some(message) = self.take()? {
            return Ok(Some(message));
        }
        let mut buffer = [0; 1 << 14];
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => self.kept.extend_from_slice(buffer.get(..len).unwrap_or(&[])),
            Err(error) if is_patience(&error) => {}
            Err(error) => return Err(error),
        }
        self.take()
    }

    fn take<M: DeserializeOwned>(&mut self) -> std::io::Result<Option<M>> {
        let Some((head, rest)) = self.kept.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*head) as usize;
        if len > MESSAGE_MAX {
            return Err(std::io::Error::other(format!("a message of {len} bytes")));
        }
        let Some(text) = rest.get(..len) else { return Ok(None) };
        let message = serde_json::from_slice(text).map_err(std::io::Error::other)?;
        self.kept.drain(..4 + len);
        Ok(Some(message))
    }
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn hello() -> FromNode {
        FromNode::Hello {
            version: VERSION,
            cluster: 7,
            venue: 9,
            name: "edge-3".to_string(),
            boot: 4,
            follows: Followed { number: 2, epoch: 1 << 16 },
            plan: None,
        }
    }

    fn all(mut bytes: &[u8]) -> std::io::Result<Vec<FromNode>> {
        let (mut reader, mut messages) = (Reader::default(), Vec::new());
        loop {
            match reader.next::<FromNode>(&mut bytes) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(messages),
                Err(error) => return Err(error),
            }
        }
    }

    #[test]
    fn messages_are_read_as_written_and_others_end_the_stream() {
        let sent = [
            hello(),
            FromNode::Health(Health { clock_bound_ns: 900, ..Health::default() }),
            FromNode::Operate(Operation::Drain { node: "edge-1".to_string(), on: true }),
        ];
        let mut bytes = Vec::new();
        sent.iter().for_each(|message| write(&mut bytes, message).expect("written"));
        assert_eq!(all(&bytes).expect("read"), sent);
        for bad in [&b"\0\0\0\x02{}"[..], b"\0\0\0\x0f{\"is\":\"nobody\"}", b"\xff\xff\xff\xff"] {
            assert!(all(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_what_an_older_one_lacks_is_usual() {
        let text = br#"{"is":"health","clock_bound_ns":900,"mood":{"is":"good"}}"#;
        let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(text);
        let health = Health { clock_bound_ns: 900, ..Health::default() };
        assert_eq!(all(&bytes).expect("read"), [FromNode::Health(health)]);
    }

    proptest! {
        #[test]
        fn changed_bytes_never_panic_and_keep_no_more_than_a_message(
            changes in vec((0usize..200, any::<u8>()), 0..6), cut in 0usize..200,
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, &hello()).expect("written");
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            let _ = all(&bytes);
        }
    }
}
