//! What is said over control channels: JSON, one value per frame.
//!
//! There are three jobs and no way to name another; an order is checked as a whole before anything
//! starts ([`Order::check`]).

use core::net::{IpAddr, SocketAddr};

use planner::campaign::{Heard, JobKind, JobReport};
use planner::schema::{PROBES_MAX, VMS_MAX};
use planner::tree::Shape;
use serde::{Deserialize, Serialize};
use types::Nanos;

/// Longest job, warm-up included, ns.
const JOB_MAX_NS: u64 = 3_600 * Nanos::SECOND;
/// Longest time before a job starts, and after it to collect reports, ns.
const WAIT_MAX_NS: u64 = 600 * Nanos::SECOND;
/// Longest error text, bytes.
const WHY_MAX: usize = 200;

/// A job as the leader and the members get it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Number of the job: random, never used again.
    pub job: u64,
    /// Kind of the measurement to make.
    pub kind: JobKind,
    /// Index among the members of the agent that gets the order; 0 is the leader.
    pub place: usize,
    /// Control and probe address of every member, as text like `10.0.0.1:7400` or `[fd00::1]:7400`.
    pub members: Vec<SocketAddr>,
    /// Number of each member in the pool.
    pub vms: Vec<usize>,
    /// Number of children per member of a tree; 0: the job has no tree.
    pub fanout: usize,
    /// Number of probes sent per second.
    pub rate: u32,
    /// Length of the job, warm-up included, ns.
    pub duration_ns: u64,
    /// Time from the start during which probes are not counted, ns.
    pub warmup_ns: u64,
    /// Start of the job, ns since the epoch; 0 in an order to a leader, which sets it.
    pub start_ns: u64,
    /// Longest wait of the leader for the members' reports after the end, ns.
    pub gather_ns: u64,
}

impl Order {
    /// What makes the order one that can't be carried out.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self) -> Result<(), &'static str> {
        let members = self.members.len();
        if !(2..=VMS_MAX).contains(&members) || self.vms.len() != members {
            return Err("a job has 2 to 1024 members, each with an address and a number");
        }
        if self.place >= members {
            return Err("the receiver's place is beyond the members");
        }
        if !self.members.iter().all(is_host) {
            return Err(
                "a member's address is no host's: unspecified, a group, link-local, or port 0",
            );
        }
        if self.rate == 0 || self.duration_ns == 0 || self.duration_ns > JOB_MAX_NS {
            return Err("rate and duration must be above 0, the duration at most an hour");
        }
        if self.warmup_ns >= self.duration_ns || self.gather_ns > WAIT_MAX_NS {
            return Err("the warm-up must be shorter than the job, gathering at most 10 minutes");
        }
        if self.probes() > PROBES_MAX {
            return Err("more than 1048576 probes");
        }
        let tree = self.kind == JobKind::Mcast;
        if tree && !self.is_tree() {
            return Err("the members are no complete tree of this fan-out");
        }
        Ok(())
    }

    fn is_tree(&self) -> bool {
        let whole = |depth| Shape::new(depth, self.fanout).map(|shape| shape.positions());
        (1..=VMS_MAX).map_while(whole).any(|positions| positions == self.members.len())
    }

    /// Number of probes that a sender sends, warm-up included.
    pub fn probes(&self) -> u64 {
        (u128::from(self.rate) * u128::from(self.duration_ns) / u128::from(Nanos::SECOND))
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// Number of probes that are sent in the warm-up and not counted.
    pub fn uncounted(&self) -> u64 {
        let probes = u128::from(self.rate) * u128::from(self.warmup_ns);
        (probes / u128::from(Nanos::SECOND)).try_into().unwrap_or(u64::MAX)
    }

    /// When the last probe is sent, at most.
    pub fn end(&self) -> Nanos {
        Nanos(self.start_ns).after(self.duration_ns)
    }
}

/// Whether a host can be there whose address means the same to everybody.
fn is_host(at: &SocketAddr) -> bool {
    let ip = at.ip().to_canonical();
    let local = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(at.port() == 0 || ip.is_unspecified() || ip.is_multicast() || local)
}

/// A message between controller and agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Message {
    /// Controller to leader: carry out this job.
    Lead(Order),
    /// Leader to member: take part in this job.
    Join(Order),
    /// Member to leader: what the member heard.
    Heard {
        /// Number of the job that the member took part in.
        job: u64,
        /// What was heard, one entry for each sender.
        heard: Vec<Heard>,
        /// Delays probe by probe, in nanoseconds, of a tree's leaf; `i32::MIN` is lost.
        series: Vec<i32>,
    },
    /// Leader to controller: what all members heard.
    Done {
        /// Number of the job that is done.
        job: u64,
        /// The report of all members.
        report: JobReport,
    },
    /// An order was refused; sent to the one that gave it.
    Refused {
        /// Number of the job; 0: not known.
        job: u64,
        /// Reason of the refusal, for people.
        why: String,
    },
}

impl Message {
    /// The message as JSON, the payload of a frame.
    pub fn encode(&self) -> Vec<u8> {
        // Fails only on maps with keys that are no text; there are none.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From the bytes of a frame.
    ///
    /// # Errors
    /// What does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Message, String> {
        serde_json::from_slice(bytes).map_err(|error| {
            let mut why = error.to_string();
            while why.len() > WHY_MAX {
                why.pop();
            }
            why
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    pub fn order() -> Order {
        Order {
            job: 7,
            kind: JobKind::Mcast,
            place: 2,
            members: (1..=7).map(|host| SocketAddr::from(([127, 0, 0, host], 9_000))).collect(),
            vms: (0..7).collect(),
            fanout: 2,
            rate: 1_000,
            duration_ns: Nanos::SECOND,
            warmup_ns: 100 * Nanos::MILLI,
            start_ns: 5,
            gather_ns: Nanos::SECOND,
        }
    }

    #[test]
    fn orders_are_checked_as_a_whole() {
        assert_eq!((order().check(), order().probes(), order().uncounted()), (Ok(()), 1_000, 100));
        let refused = |change: fn(&mut Order)| {
            let mut order = order();
            change(&mut order);
            order.check().is_err()
        };
        assert!(refused(|o| o.members.clear()));
        assert!(refused(|o| o.vms.truncate(3)));
        assert!(refused(|o| o.place = 7));
        for bad in [
            "127.0.0.1:0",
            "0.0.0.0:9",
            "[::]:9",
            "239.1.1.3:9",
            "[ff15::3]:9",
            "[fe80::1]:9",
            "[fe80::1%2]:9",
            "[::ffff:0.0.0.0]:9",
            "255.255.255.255:9",
        ] {
            let mut order = order();
            order.members[1] = bad.parse().unwrap();
            assert!(order.check().is_err(), "{bad}");
            // Control: a host of either version.
            for good in ["10.1.2.3:9", "[fd00::1]:9", "[::1]:9"] {
                order.members[1] = good.parse().unwrap();
                assert_eq!(order.check(), Ok(()), "{good}");
            }
        }
        assert!(refused(|o| o.rate = 0));
        assert!(refused(|o| o.rate = u32::MAX));
        assert!(refused(|o| o.duration_ns = u64::MAX));
        assert!(refused(|o| o.warmup_ns = o.duration_ns));
        assert!(refused(|o| o.gather_ns = u64::MAX));
        assert!(refused(|o| o.fanout = 0));
        assert!(refused(|o| o.fanout = 3));
    }

    #[test]
    fn messages_read_back_and_other_jobs_do_not_exist() {
        let message = Message::Join(order());
        assert_eq!(Message::decode(&message.encode()), Ok(message.clone()));
        let text = String::from_utf8(message.encode()).unwrap();
        for (what, with) in [("MCAST", "SHELL"), ("\"rate\"", "\"run\""), ("join", "execute")] {
            let changed = text.replace(what, with);
            assert!(Message::decode(changed.as_bytes()).is_err(), "{with}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn altered_messages_are_messages_or_refused(at in any::<usize>(), to in any::<u8>()) {
            let mut bytes = Message::Join(order()).encode();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(Message::Join(order)) = Message::decode(&bytes) {
                let _ = (order.check(), order.probes(), order.uncounted(), order.end());
            }
        }
    }
}
