//! Records: what is kept of each request, of each sampled datagram of the feed, and of each request of the
//! web door. 32 bytes each, little-endian.
//!
//! | bytes | order | release | web |
//! |---|---|---|---|
//! | 0 | 8 input: position in the log | 1 point, 1 zero, 2 node, 4 zero | 8 came: time at the door, ns since 1970 |
//! | 8 | 8 came: time at the gateway, ns since 1970 | 8 message: shard, stream and id | 8 logged: time of the log, ns since 1970; 0: unknown |
//! | 16 | 8 logged: time of the log, ns since 1970 | 8 at: ns since 1970 on the node's clock | 4 sent, 4 answered: ns after it came, at most 2^32 - 1 |
//! | 24 | 2 gateway, 2 account, 2 instrument, 1 command, 1 flags | 8 deadline, ns since 1970; 0: none | 4 request, 2 account, 1 command, 1 flags |

/// Bytes of a record.
pub const RECORD: usize = 32;

/// A record as it lies in queues, streams and files.
pub type Bytes = [u8; RECORD];

/// What the records of a stream are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordKind {
    /// [`Order`].
    Orders,
    /// [`Release`].
    Releases,
    /// [`Web`].
    Web,
}

impl RecordKind {
    /// Every kind of record, each of which has a stream of its own.
    pub const ALL: [RecordKind; 3] = [RecordKind::Orders, RecordKind::Releases, RecordKind::Web];

    /// Its number in entries.
    pub fn number(self) -> u8 {
        match self {
            RecordKind::Orders => 1,
            RecordKind::Releases => 2,
            RecordKind::Web => 3,
        }
    }

    /// The kind of that number.
    pub fn of(number: u8) -> Option<RecordKind> {
        RecordKind::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            RecordKind::Orders => "orders",
            RecordKind::Releases => "releases",
            RecordKind::Web => "web",
        }
    }
}

/// A request in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// Position in the log, from 1.
    pub input: u64,
    /// When it came to its gateway, ns since 1970 on that one's clock.
    pub came: u64,
    /// The time that the log gave it, ns since 1970.
    pub logged: u64,
    /// Its gateway.
    pub gateway: u16,
    /// Whose it is.
    pub account: u16,
    /// Of which instrument; 0: none or all.
    pub instrument: u16,
    /// What it asks for, as in the log.
    pub command: u8,
    /// Bit 0: after one that had come later; bit 1: its time at the gateway was not believed.
    pub flags: u8,
}

impl Order {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        let mut bytes = [0; RECORD];
        bytes[0..8].copy_from_slice(&self.input.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.came.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.logged.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.gateway.to_le_bytes());
        bytes[26..28].copy_from_slice(&self.account.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.instrument.to_le_bytes());
        bytes[30] = self.command;
        bytes[31] = self.flags;
        bytes
    }

    /// Of bytes.
    pub fn decode(bytes: &Bytes) -> Order {
        Order {
            input: u64_at(bytes, 0),
            came: u64_at(bytes, 8),
            logged: u64_at(bytes, 16),
            gateway: u16_at(bytes, 24),
            account: u16_at(bytes, 26),
            instrument: u16_at(bytes, 28),
            command: bytes[30],
            flags: bytes[31],
        }
    }
}

/// What a node saw of a datagram of the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Release {
    /// See [`POINTS`].
    pub point: u8,
    /// Who saw it.
    pub node: u16,
    /// Which datagram: the shard from bit 56, the stream from bit 48, its id below.
    pub message: u64,
    /// When, ns since 1970 on the node's clock.
    pub at: u64,
    /// When it was to be released, ns since 1970; 0: at once.
    pub deadline: u64,
}

/// Names of [`Release::point`].
pub const POINTS: [&str; 5] = ["published", "arrived", "released", "released_late", "blocked"];

impl Release {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        let mut bytes = [0; RECORD];
        bytes[0] = self.point;
        bytes[2..4].copy_from_slice(&self.node.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.message.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.at.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.deadline.to_le_bytes());
        bytes
    }

    /// Of bytes.
    pub fn decode(bytes: &Bytes) -> Release {
        Release {
            point: bytes[0],
            node: u16_at(bytes, 2),
            message: u64_at(bytes, 8),
            at: u64_at(bytes, 16),
            deadline: u64_at(bytes, 24),
        }
    }
}

/// A request of the web door that the exchange has answered, on the door's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Web {
    /// When it came from its client, ns since 1970.
    pub came: u64,
    /// The time that the log gave it, ns since 1970; 0: the answer does not say.
    pub logged: u64,
    /// When it went to its gateway, ns after it came; [`u32::MAX`]: then or later.
    pub sent: u32,
    /// When the exchange's answer came, as `sent`.
    pub answered: u32,
    /// Its number in the account's session (UserRefNum); of a cancel, that of the order.
    pub request: u32,
    /// Place of the account among those of the door, from 1.
    pub account: u16,
    /// What it asks for, as in the log.
    pub command: u8,
    /// Bit 0: it was refused.
    pub flags: u8,
}

impl Web {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        let mut bytes = [0; RECORD];
        bytes[0..8].copy_from_slice(&self.came.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.logged.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sent.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.answered.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.request.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.account.to_le_bytes());
        bytes[30] = self.command;
        bytes[31] = self.flags;
        bytes
    }

    /// Of bytes.
    pub fn decode(bytes: &Bytes) -> Web {
        Web {
            came: u64_at(bytes, 0),
            logged: u64_at(bytes, 8),
            sent: u32_at(bytes, 16),
            answered: u32_at(bytes, 20),
            request: u32_at(bytes, 24),
            account: u16_at(bytes, 28),
            command: bytes[30],
            flags: bytes[31],
        }
    }
}

fn u32_at(bytes: &Bytes, at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u16_at(bytes: &Bytes, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &Bytes, at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_have_these_bytes() {
        let order = Order {
            input: 0x0102,
            came: 3,
            logged: 4,
            gateway: 5,
            account: 6,
            instrument: 7,
            command: 8,
            flags: 1,
        };
        let mut expected = [0; RECORD];
        for (at, byte) in
            [(0, 2), (1, 1), (8, 3), (16, 4), (24, 5), (26, 6), (28, 7), (30, 8), (31, 1)]
        {
            expected[at] = byte;
        }
        assert_eq!(order.encode(), expected);
        let release = Release { point: 2, node: 0x0304, message: 5, at: 6, deadline: 7 };
        let mut expected = [0; RECORD];
        for (at, byte) in [(0, 2), (2, 4), (3, 3), (8, 5), (16, 6), (24, 7)] {
            expected[at] = byte;
        }
        assert_eq!(release.encode(), expected);
        let web = Web {
            came: 1,
            logged: 2,
            sent: 3,
            answered: 4,
            request: 0x0506,
            account: 7,
            command: 8,
            flags: 1,
        };
        let mut expected = [0; RECORD];
        for (at, byte) in
            [(0, 1), (8, 2), (16, 3), (20, 4), (24, 6), (25, 5), (28, 7), (30, 8), (31, 1)]
        {
            expected[at] = byte;
        }
        assert_eq!(web.encode(), expected);
    }

    proptest! {
        #[test]
        fn records_are_read_as_written(bytes: [u8; RECORD]) {
            prop_assert_eq!(Order::decode(&bytes).encode(), bytes);
            prop_assert_eq!(Web::decode(&bytes).encode(), bytes);
            let release = Release::decode(&bytes);
            prop_assert_eq!(Release::decode(&release.encode()), release);
        }
    }
}
