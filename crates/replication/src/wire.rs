//! What replicas send one another.
//!
//! Envelope, little-endian: magic `FBRP` · version u8 · kind u8 · from u8 · to u8 · checksum u32 of
//! everything else · group u64 · body. Kinds: 1 consensus, 2 digest (position u64, digest u64), 3
//! offer of a snapshot (term of the leader, position, term there, chain, bytes, digest u64 each), 4
//! part wanted (position, digest, offset u64 each; offset of all ones: its digest does not fit), 5
//! part (position, digest, offset u64 each, bytes), 6 greeting (oldest and newest version spoken u8
//! each; later ones may say more), which is of version 3 whatever its sender speaks, 7 to whoever was
//! removed from the group (number of the membership that it is not in, u64), 8 something that the leader
//! says beside the log (term, number u64 each, bytes) and 9 that it was heard (term, number u64 each), from
//! version 4 on, 10 question of one that was started (start, lives, term u64 each) and 11 answer to it
//! (start, 1 for a sender that is sure of its own disk, its term, then what it knows of whoever asked: lives,
//! term, position u64 each), both of version 5 whatever their sender speaks. An offer and an answer end
//! with who was in the group at the snapshot, or is, as the log has it; nothing for those it was made with.
//! Body of consensus: type u8 · flags u8 (1: reject) · 6 bytes 0 · term, log term, index, commit, commit term,
//! reject hint u64 each · context length u32 · entries u32 · context · per entry term u64,
//! length u32 (with its highest bit: a change of who is in the group), bytes. Entries have positions in
//! a row from index + 1.
//!
//! Bounds: [`ENTRIES_MAX`] entries, [`BYTES_MAX`] bytes in all, [`CONTEXT_MAX`] of context,
//! [`PART_MAX`] bytes of a snapshot, [`NOTICE_MAX`] of a notice. A version that is not spoken is refused; one that adds something
//! gets a new number. All versions from [`OLDEST`] on are spoken: see `versions`.

use journal::SnapshotInfo;
use raft::eraftpb::{Entry, EntryData, EntryType, Message, MessageType};

use crate::{Membership, ReplicaId, consensus::TERM_MAX};

/// The newest version: 2 has snapshots, 3 has greetings and changes of who is in the group, 4 has what
/// a leader says beside the log, 5 has questions of those that were started.
pub const VERSION: u8 = 5;
/// The oldest version that is spoken.
pub const OLDEST: u8 = 2;
/// First version with greetings.
const GREETING: u8 = 3;
/// First version with questions and answers about promises.
pub(crate) const QUESTIONS: u8 = 5;
/// First version with changes of the membership.
pub(crate) const CHANGES: u8 = 3;
/// First version with notices.
pub(crate) const NOTICES: u8 = 4;
/// Longest contents of a notice, bytes.
pub const NOTICE_MAX: usize = 4 << 10;
/// Most bytes of a snapshot in one message.
pub const PART_MAX: usize = 256 << 10;
/// Most entries in one message.
pub(crate) const ENTRIES_MAX: usize = 1 << 16;
/// Longest message, bytes.
pub(crate) const BYTES_MAX: usize = 16 << 20;
/// Longest context of a message of the library, bytes.
pub(crate) const CONTEXT_MAX: usize = 64;

const MAGIC: &[u8; 4] = b"FBRP";
const HEADER: usize = 20;
const CRC: usize = 8;
const REJECT: u8 = 1;
/// Bit in the length of an entry that says that the entry changes the membership.
const CHANGE: u32 = 1 << 31;

/// Why a message can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The bytes are not from a replica, or were damaged on the way.
    Envelope,
    /// The message has a version that is not spoken here.
    Version(u8),
    /// The message is of another group, whose number is given.
    Group(u64),
    /// The message is not for this replica, or not from a member of the group.
    Address,
    /// The body cannot be decoded as its kind says.
    Body,
}

/// Contents of a message of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body<'a> {
    Consensus(&'a [u8]),
    Digest {
        position: u64,
        digest: u64,
    },
    /// The leader of a term offers a snapshot.
    Offer {
        term: u64,
        info: SnapshotInfo,
        group: &'a [u8],
    },
    /// Asks for bytes of a snapshot from an offset on, or says that it is unfit ([`UNFIT`]).
    Want {
        part: Part,
    },
    /// Bytes of a snapshot from an offset on.
    Bytes {
        part: Part,
        bytes: &'a [u8],
    },
    /// What the leader of a term tells its followers beside the log.
    Notice {
        term: u64,
        number: u64,
        bytes: &'a [u8],
    },
    /// Confirms a notice; its sender knows of no later term.
    Noticed {
        term: u64,
        number: u64,
    },
    /// Lowest and highest version that the sender speaks.
    Hello(Spoken),
    /// Tells the recipient that it is no member any more, from a membership of this number on.
    Removed {
        number: u64,
    },
    /// The sender was started, and asks what is known of its promises.
    Ask(Ask),
    /// Answer: what is known of the asker's promises.
    Told {
        told: Told,
        group: &'a [u8],
    },
}

/// Question of a replica that was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// Number of the asker's start.
    pub(crate) start: u64,
    pub(crate) lives: u64,
    pub(crate) term: u64,
}

/// Answer to an [`Ask`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    /// Number of the asker's start, as in the question.
    pub(crate) start: u64,
    /// Whether the sender knows what it has promised itself.
    pub(crate) sure: bool,
    /// Newest term that the sender knows.
    pub(crate) term: u64,
    pub(crate) mark: Mark,
}

/// How far a replica's log was, by its own word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) lives: u64,
    pub(crate) term: u64,
    /// Position up to which the replica had the log of that term's leader.
    pub(crate) position: u64,
}

/// The versions that a replica speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spoken {
    pub(crate) oldest: u8,
    pub(crate) newest: u8,
}

/// Range of bytes of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) position: u64,
    pub(crate) digest: u64,
    pub(crate) offset: u64,
}

/// Offset in a request that says: the snapshot came whole and does not fit its digest.
pub(crate) const UNFIT: u64 = u64::MAX;

impl Part {
    fn words(&self) -> [u64; 3] {
        [self.position, self.digest, self.offset]
    }

    fn read(reader: &mut Reader<'_>) -> Option<Part> {
        let [position, digest, offset] = reader.words()?;
        Some(Part { position, digest, offset })
    }
}

fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

/// Puts a body into its envelope, of a version that both speak.
pub(crate) fn seal(
    (group, version): (u64, u8),
    from: ReplicaId,
    to: ReplicaId,
    body: &Body<'_>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 64);
    bytes.extend_from_slice(MAGIC);
    let version = match body {
        Body::Hello(_) => GREETING,
        Body::Ask(_) | Body::Told { .. } => QUESTIONS,
        _ => version,
    };
    let kind = match body {
        Body::Consensus(_) => 1,
        Body::Digest { .. } => 2,
        Body::Offer { .. } => 3,
        Body::Want { .. } => 4,
        Body::Bytes { .. } => 5,
        Body::Hello(_) => 6,
        Body::Removed { .. } => 7,
        Body::Notice { .. } => 8,
        Body::Noticed { .. } => 9,
        Body::Ask(_) => 10,
        Body::Told { .. } => 11,
    };
    bytes.extend_from_slice(&[version, kind, from.0, to.0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&group.to_le_bytes());
    match body {
        Body::Consensus(body) => bytes.extend_from_slice(body),
        Body::Digest { position, digest } => put_words(&mut bytes, &[*position, *digest]),
        Body::Offer { term, info, group } => {
            let SnapshotInfo { position, term: there, chain, bytes: len, digest } = *info;
            put_words(&mut bytes, &[*term, position, there, chain, len, digest]);
            bytes.extend_from_slice(group);
        }
        Body::Want { part } => put_words(&mut bytes, &part.words()),
        Body::Bytes { part, bytes: some } => {
            put_words(&mut bytes, &part.words());
            bytes.extend_from_slice(some);
        }
        Body::Hello(Spoken { oldest, newest }) => bytes.extend_from_slice(&[*oldest, *newest]),
        Body::Removed { number } => put_words(&mut bytes, &[*number]),
        Body::Notice { term, number, bytes: some } => {
            put_words(&mut bytes, &[*term, *number]);
            bytes.extend_from_slice(some);
        }
        Body::Noticed { term, number } => put_words(&mut bytes, &[*term, *number]),
        Body::Ask(Ask { start, lives, term }) => put_words(&mut bytes, &[*start, *lives, *term]),
        Body::Told { told: Told { start, sure, term, mark }, group } => {
            let Mark { lives, term: of, position } = *mark;
            put_words(&mut bytes, &[*start, u64::from(*sure), *term, lives, of, position]);
            bytes.extend_from_slice(group);
        }
    }
    let crc = checksum(&bytes).to_le_bytes();
    if let Some(place) = bytes.get_mut(CRC..CRC + 4) {
        place.copy_from_slice(&crc);
    }
    bytes
}

/// Opens an envelope: who sent it, in which version, and what it says. `newest` is the newest version
/// that is spoken here.
pub(crate) fn open(
    (group, newest): (u64, u8),
    to: ReplicaId,
    bytes: &[u8],
) -> Result<(ReplicaId, u8, Body<'_>), DecodeError> {
    let mut reader = Reader(bytes);
    let magic = reader.take(4).ok_or(DecodeError::Envelope)?;
    let [version, kind, from, addressed] = reader.array().ok_or(DecodeError::Envelope)?;
    let crc = reader.u32().ok_or(DecodeError::Envelope)?;
    let of = reader.u64().ok_or(DecodeError::Envelope)?;
    if magic != MAGIC || bytes.len() > BYTES_MAX || crc != checksum(bytes) {
        return Err(DecodeError::Envelope);
    }
    if !(OLDEST..=newest).contains(&version) {
        return Err(DecodeError::Version(version));
    }
    if of != group {
        return Err(DecodeError::Group(of));
    }
    if addressed != to.0 || from == 0 || from == to.0 {
        return Err(DecodeError::Address);
    }
    let body = body_of(kind, &mut reader).ok_or(DecodeError::Body)?;
    Ok((ReplicaId(from), version, body))
}

fn body_of<'a>(kind: u8, reader: &mut Reader<'a>) -> Option<Body<'a>> {
    let body = match kind {
        1 => return Some(Body::Consensus(reader.0)),
        2 => {
            let [position, digest] = reader.words()?;
            // Later ones may say more.
            return Some(Body::Digest { position, digest });
        }
        3 => {
            let [term, position, there, chain, bytes, digest] = reader.words()?;
            let info = SnapshotInfo { position, term: there, chain, bytes, digest };
            let group = reader.take(reader.0.len())?;
            let known = group.is_empty() || Membership::read(group).is_some();
            return Some(Body::Offer { term, info, group }).filter(|_| known);
        }
        4 => Body::Want { part: Part::read(reader)? },
        5 => {
            let part = Part::read(reader)?;
            let bytes = reader.take(reader.0.len()).filter(|bytes| bytes.len() <= PART_MAX)?;
            Body::Bytes { part, bytes }
        }
        6 => {
            let [oldest, newest] = reader.array()?;
            let spoken = Spoken { oldest, newest };
            // Later ones may say more.
            return Some(Body::Hello(spoken)).filter(|_| oldest <= newest);
        }
        7 => {
            let [number] = reader.words()?;
            Body::Removed { number }
        }
        8 => {
            let [term, number] = reader.words()?;
            let bytes = reader.take(reader.0.len()).filter(|bytes| bytes.len() <= NOTICE_MAX)?;
            Body::Notice { term, number, bytes }
        }
        9 => {
            let [term, number] = reader.words()?;
            Body::Noticed { term, number }
        }
        10 => {
            let [start, lives, term] = reader.words()?;
            Body::Ask(Ask { start, lives, term })
        }
        11 => {
            let [start, sure, of, lives, term, position] = reader.words()?;
            let mark = Mark { lives, term, position };
            let told = Told { start, sure: sure == 1, term: of, mark };
            let group = reader.take(reader.0.len())?;
            let known = of < TERM_MAX && (group.is_empty() || Membership::read(group).is_some());
            return Some(Body::Told { told, group }).filter(|_| known && sure <= 1);
        }
        _ => return None,
    };
    reader.0.is_empty().then_some(body)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..CRC).unwrap_or(&[]));
    hasher.update(bytes.get(CRC + 4..).unwrap_or(&[]));
    hasher.finalize()
}

/// Writes the body of a message of the library.
pub(crate) fn encode(message: &Message) -> Vec<u8> {
    let sum: usize = message.entries.iter().map(|entry| 12 + entry.data.len()).sum();
    let mut bytes = Vec::with_capacity(64 + message.context.len() + sum);
    bytes.extend_from_slice(&[message.msg_type as u8, u8::from(message.reject) * REJECT]);
    bytes.extend_from_slice(&[0; 6]);
    let Message { term, log_term, index, commit, commit_term, reject_hint, .. } = *message;
    for word in [term, log_term, index, commit, commit_term, reject_hint] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&(message.context.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(message.entries.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&message.context);
    for entry in &message.entries {
        bytes.extend_from_slice(&entry.term.to_le_bytes());
        let change = u32::from(entry.entry_type != EntryType::EntryNormal) * CHANGE;
        bytes.extend_from_slice(&(entry.data.len() as u32 | change).to_le_bytes());
        bytes.extend_from_slice(&entry.data);
    }
    bytes
}

/// What a message of the library says of its sender: a term that it knows durably, and where it has the
/// log of that term's leader, 0 for nothing. Nothing when it asks for a vote in a term to come, or answers that.
pub(crate) fn said(body: &[u8]) -> Option<(u64, u64)> {
    let mut reader = Reader(body);
    let [kind, flags] = reader.array()?;
    let _: [u8; 6] = reader.array()?;
    let [term, _, index] = reader.words()?;
    match MessageType::from_number(kind)? {
        MessageType::MsgRequestPreVote | MessageType::MsgRequestPreVoteResponse => None,
        MessageType::MsgAppendResponse if flags & REJECT == 0 => Some((term, index)),
        _ => Some((term, 0)),
    }
}

/// Types that replicas send one another.
fn travels(message: MessageType) -> bool {
    use MessageType as M;
    matches!(
        message,
        M::MsgAppend
            | M::MsgAppendResponse
            | M::MsgRequestVote
            | M::MsgRequestVoteResponse
            | M::MsgHeartbeat
            | M::MsgHeartbeatResponse
            | M::MsgRequestPreVote
            | M::MsgRequestPreVoteResponse
            | M::MsgTimeoutNow
    )
}

/// Whether a message may be sent: the library also asks for what is not offered.
pub(crate) fn is_offered(message: &Message) -> bool {
    travels(message.msg_type)
}

/// Reads the body of a message of the library.
pub(crate) fn decode(from: ReplicaId, to: ReplicaId, body: &[u8]) -> Result<Message, DecodeError> {
    read(from, to, body).ok_or(DecodeError::Body)
}

fn read(from: ReplicaId, to: ReplicaId, body: &[u8]) -> Option<Message> {
    let mut reader = Reader(body);
    let [kind, flags] = reader.array()?;
    let reserved: [u8; 6] = reader.array()?;
    let msg_type = MessageType::from_number(kind).filter(|kind| travels(*kind))?;
    let [term, log_term, index, commit, commit_term, reject_hint] = reader.words()?;
    // A message of no term would count as one of the replica's own.
    if !(1..TERM_MAX).contains(&term) || flags & !REJECT != 0 || reserved != [0; 6] {
        return None;
    }
    let (context, count) = (reader.u32()? as usize, reader.u32()? as usize);
    if context > CONTEXT_MAX || count > ENTRIES_MAX {
        return None;
    }
    let context = reader.take(context)?.to_vec();
    // As many as there can be, whatever is claimed.
    let mut entries = Vec::with_capacity(count.min(reader.0.len() / 12));
    for place in 1..=count as u64 {
        let (term, len) = (reader.u64()?, reader.u32()?);
        let data: EntryData = reader.take((len & !CHANGE) as usize)?.into();
        let entry_type = match len & CHANGE {
            0 => EntryType::EntryNormal,
            _ => EntryType::EntryConfChangeV2,
        };
        if entry_type != EntryType::EntryNormal && Membership::read(&data).is_none() {
            return None;
        }
        let index = index.checked_add(place)?;
        entries.push(Entry { entry_type, term, index, data, ..Entry::default() });
    }
    let carries = msg_type == MessageType::MsgAppend;
    if !reader.0.is_empty() || (count > 0 && !carries) || !rises(log_term, &entries, term) {
        return None;
    }
    let (from, to) = (u64::from(from.0), u64::from(to.0));
    let reject = flags & REJECT != 0;
    let message = Message {
        msg_type,
        to,
        from,
        term,
        log_term,
        index,
        entries,
        commit,
        commit_term,
        reject,
        reject_hint,
        context,
        ..Message::default()
    };
    Some(message)
}

/// Terms never fall along a log, and none is beyond its leader's.
fn rises(before: u64, entries: &[Entry], term: u64) -> bool {
    let mut last = if entries.is_empty() { 0 } else { before };
    entries.iter().all(|entry| {
        let rises = entry.term >= last && entry.term <= term && entry.term > 0;
        last = entry.term;
        rises
    })
}

/// Asks whoever gets it whether it is there, in words of every version: whether it would vote for somebody
/// with an empty log in term 1. All but those in doubt and those that have to ask first answer that, whoever
/// leads: with no, unless they have never heard of a term. It is no vote and changes nothing.
pub(crate) fn knock() -> Vec<u8> {
    encode(&Message { msg_type: MessageType::MsgRequestPreVote, term: 1, ..Message::default() })
}

/// What a replica that does not compare terms would answer to records of an old leader: that it has
/// them. For simulators, which show that somebody notices.
pub fn unfenced_answer(
    group: u64,
    to: ReplicaId,
    known_term: u64,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let (from, version, body) = open((group, VERSION), to, bytes).ok()?;
    let Body::Consensus(body) = body else { return None };
    let message = decode(from, to, body).ok()?;
    if message.msg_type != MessageType::MsgAppend || message.term >= known_term {
        return None;
    }
    let answer = Message {
        msg_type: MessageType::MsgAppendResponse,
        term: message.term,
        index: message.index + message.entries.len() as u64,
        ..Message::default()
    };
    Some(seal((group, version), to, from, &Body::Consensus(&encode(&answer))))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn words<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64()?;
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: ReplicaId = ReplicaId(1);
    const TWO: ReplicaId = ReplicaId(2);
    const NINE: (u64, u8) = (9, VERSION);

    fn append(entries: &[&[u8]]) -> Message {
        let entry = |(place, data): (usize, &&[u8])| Entry {
            term: 3,
            index: 8 + place as u64,
            data: (*data).into(),
            ..Entry::default()
        };
        Message {
            msg_type: MessageType::MsgAppend,
            from: 1,
            to: 2,
            term: 4,
            log_term: 2,
            index: 7,
            commit: 6,
            entries: entries.iter().enumerate().map(entry).collect(),
            ..Message::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let message = append(&[b"abc", b"", b"0123456789"]);
        let sealed = seal(NINE, ONE, TWO, &Body::Consensus(&encode(&message)));
        let (from, _, body) = open(NINE, TWO, &sealed).unwrap();
        let Body::Consensus(body) = body else { panic!("another kind") };
        assert_eq!((from, decode(from, TWO, body)), (ONE, Ok(message)));
        let digest = Body::Digest { position: 5, digest: u64::MAX };
        assert_eq!(open(NINE, ONE, &seal(NINE, TWO, ONE, &digest)), Ok((TWO, VERSION, digest)));
    }

    #[test]
    fn changes_of_who_is_in_the_group_are_told_from_records() {
        let change = crate::Change::Remove(TWO);
        let founders = Membership::founders(&crate::Config::new(9, ONE, 3));
        let group = founders.after(&change).unwrap().write(&change);
        let mut message = append(&[b"a record", &group]);
        assert_eq!(decode(ONE, TWO, &encode(&message)).as_ref(), Ok(&message));
        message.entries[1].entry_type = EntryType::EntryConfChangeV2;
        assert_eq!(decode(ONE, TWO, &encode(&message)).as_ref(), Ok(&message));
        message.entries[0].entry_type = EntryType::EntryConfChangeV2;
        assert_eq!(decode(ONE, TWO, &encode(&message)), Err(DecodeError::Body), "no membership");
        let info = SnapshotInfo { position: 7, term: 3, chain: 4, bytes: 90_000, digest: 5 };
        let offer = Body::Offer { term: 6, info, group: &group };
        assert_eq!(open(NINE, ONE, &seal(NINE, TWO, ONE, &offer)), Ok((TWO, VERSION, offer)));
        let none = Body::Offer { term: 6, info, group: b"no membership" };
        assert_eq!(open(NINE, ONE, &seal(NINE, TWO, ONE, &none)), Err(DecodeError::Body));
    }

    #[test]
    fn snapshots_go_in_bounded_parts() {
        let info = SnapshotInfo { position: 7, term: 3, chain: 4, bytes: 90_000, digest: 5 };
        let part = Part { position: 7, digest: 5, offset: 65_536 };
        let bytes = [9; PART_MAX];
        let bodies = [
            Body::Offer { term: 6, info, group: &[] },
            Body::Removed { number: 3 },
            Body::Want { part },
            Body::Bytes { part, bytes: &bytes },
            Body::Notice { term: 6, number: 4, bytes: &bytes[..NOTICE_MAX] },
            Body::Noticed { term: 6, number: 4 },
        ];
        for body in bodies {
            let sealed = seal(NINE, TWO, ONE, &body);
            assert_eq!(open(NINE, ONE, &sealed), Ok((TWO, VERSION, body)));
            for longer in [&sealed[..sealed.len() - 1], &[&sealed[..], &[0]].concat()] {
                assert!(open(NINE, ONE, longer).is_err(), "sealed over another length");
            }
        }
        let bytes = [9; PART_MAX + 1];
        for long in [
            Body::Bytes { part, bytes: &bytes },
            Body::Notice { term: 6, number: 4, bytes: &bytes[..=NOTICE_MAX] },
        ] {
            let long = seal(NINE, TWO, ONE, &long);
            assert_eq!(open(NINE, ONE, &long), Err(DecodeError::Body));
        }
    }

    #[test]
    fn a_version_is_named_and_one_that_is_not_spoken_is_refused() {
        let digest = Body::Digest { position: 5, digest: 1 };
        for version in OLDEST..=VERSION {
            let sealed = seal((9, version), ONE, TWO, &digest);
            assert_eq!(open(NINE, TWO, &sealed), Ok((ONE, version, digest)));
            let older = open((9, OLDEST), TWO, &sealed);
            let refused = Err(DecodeError::Version(version));
            assert_eq!(older, if version > OLDEST { refused } else { Ok((ONE, version, digest)) });
        }
        // Whoever has greetings reads those of all later versions.
        let hello = Body::Hello(Spoken { oldest: 7, newest: 9 });
        let sealed = seal((9, 9), ONE, TWO, &hello);
        assert_eq!(open((9, GREETING), TWO, &sealed), Ok((ONE, GREETING, hello)));
        let longer = [&sealed[..], &[1, 2]].concat();
        let crc = checksum(&longer).to_le_bytes();
        let longer = [&longer[..CRC], &crc, &longer[CRC + 4..]].concat();
        assert_eq!(open(NINE, TWO, &longer), Ok((ONE, GREETING, hello)));
        let none = seal(NINE, ONE, TWO, &Body::Hello(Spoken { oldest: 3, newest: 2 }));
        assert_eq!(open(NINE, TWO, &none), Err(DecodeError::Body));
    }

    #[test]
    fn what_is_not_for_us_is_refused() {
        let sealed = seal(NINE, ONE, TWO, &Body::Digest { position: 5, digest: 1 });
        assert_eq!(open((8, VERSION), TWO, &sealed), Err(DecodeError::Group(9)));
        assert_eq!(open(NINE, ReplicaId(3), &sealed), Err(DecodeError::Address));
        let mut other = sealed.clone();
        for version in [OLDEST - 1, VERSION + 1] {
            other[4] = version;
            let crc = checksum(&other).to_le_bytes();
            other[CRC..CRC + 4].copy_from_slice(&crc);
            assert_eq!(open(NINE, TWO, &other), Err(DecodeError::Version(version)));
        }
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(NINE, TWO, &flipped), Err(DecodeError::Envelope), "bit {bit}");
        }
    }

    #[test]
    fn local_messages_and_terms_that_fall_are_refused() {
        let local = Message { msg_type: MessageType::MsgHup, ..append(&[]) };
        assert_eq!(decode(ONE, TWO, &encode(&local)), Err(DecodeError::Body));
        let timeless = Message { term: 0, ..append(&[]) };
        assert_eq!(decode(ONE, TWO, &encode(&timeless)), Err(DecodeError::Body));
        let mut falling = append(&[b"a", b"b"]);
        falling.entries[1].term = 2;
        assert_eq!(decode(ONE, TWO, &encode(&falling)), Err(DecodeError::Body));
        let stray = Message { msg_type: MessageType::MsgHeartbeat, ..append(&[b"a"]) };
        assert_eq!(decode(ONE, TWO, &encode(&stray)), Err(DecodeError::Body));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = open(NINE, TWO, &bytes);
            let _ = decode(ONE, TWO, &bytes);
            let _ = unfenced_answer(9, TWO, 5, &bytes);
        }

        #[test]
        fn no_mutation_makes_it_panic_or_grow(
            lens in proptest::collection::vec(0usize..40, 0..8),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let data = [7; 40];
            let parts: Vec<&[u8]> = lens.iter().map(|len| &data[..*len]).collect();
            let mut bytes = encode(&append(&parts));
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(message) = decode(ONE, TWO, &bytes) {
                prop_assert!(message.entries.len() <= bytes.len() / 12);
                prop_assert_eq!(encode(&message), bytes.clone());
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = decode(ONE, TWO, &bytes);
        }
    }
}
