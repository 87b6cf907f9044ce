//! Sealed datagrams (corners 18 and 19): what is not from who has the key never gets past here.
//!
//! A sealed datagram is a [`SealHeader`], the hop part, the end-to-end part, and two tags of 16
//! bytes. The end-to-end part (body and payload of a frame) is encrypted once by its source and
//! goes through proxies untouched; the hop part (the frame header, what each node rewrites) has a
//! tag of its own under the hop key, which also covers the ciphertext's tag, so that parts of two
//! datagrams can't be joined. Nodes open the hop part, source and destination the other too.
//!
//! Nonces are (part, stream, number). Keys are of a life of their source ([`crate::lives`]), so
//! numbers may begin anew with it, and are never used twice within one ([`Sealer`] counts them
//! itself). A repeated datagram is forwarded as it was sealed. Opening comes before everything else,
//! the duplicate filter above all: one forged huge id would make it deaf. A window of
//! [`REPLAY_WINDOW`] numbers per source refuses copies where copies are not meant to be; market
//! data, sent several times on purpose, leaves that to its filter.
//!
//! A key that many hold proves membership, not the source: one of each publisher's life for market
//! data downwards, one of each gateway's upwards.

#[cfg(feature = "aead")]
pub mod aes_gcm;
pub mod epochs;
pub mod key_ring;
pub mod lives;
pub mod sealed_link;
pub mod sealed_pair;
pub mod tap;

use types::{NodeId, limits::DATAGRAM_MAX};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Length of an authentication tag, bytes.
pub const TAG_LEN: usize = 16;
/// Length of a nonce, bytes.
pub const NONCE_LEN: usize = 12;
/// First byte of a sealed datagram.
pub const SEALED_VERSION: u8 = 0x82;
/// Numbers behind the highest that may still come.
pub const REPLAY_WINDOW: u64 = 1_024;
/// Number of bytes that sealing adds to a datagram.
pub const OVERHEAD: usize = size_of::<SealHeader>() + 2 * TAG_LEN;

/// An authenticated cipher with associated data; the nonce is never repeated under one key.
pub trait Aead {
    /// Encrypts in place; the tag covers `associated` too.
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts in place when the tag is right; otherwise the bytes are worthless.
    #[must_use]
    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool;

    /// As [`Aead::open`], with the result written to another buffer of the same length.
    #[must_use]
    fn open_into(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        (bytes, tag): (&[u8], &[u8; TAG_LEN]),
        into: &mut [u8],
    ) -> bool {
        into.copy_from_slice(bytes);
        self.open(nonce, associated, into, tag)
    }
}

/// Clear part: what a nonce is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SealHeader {
    /// Version of the layout: [`SEALED_VERSION`].
    pub version: u8,
    /// Padding; zero.
    pub reserved: u8,
    /// Stream: which key and number space of the source.
    pub stream: u16,
    /// Which life of the source: [`crate::lives::Life::tag`].
    pub life: u32,
    /// Number of the end-to-end part within (life, stream).
    pub number: u64,
    /// The node that sealed the hop part.
    pub hop: NodeId,
    /// Length of the hop part, bytes.
    pub hop_len: u16,
    /// Which key of the hop's two nodes: [`crate::lives::Session::tag`].
    pub link: u32,
    /// Number of the hop part.
    pub hop_number: u64,
}

const _: () = assert!(size_of::<SealHeader>() == 32);

/// Why a datagram was refused when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealError {
    /// The datagram is not in the sealed format.
    Format,
    /// The hop tag is wrong: not from a node with the hop key, or changed on the way.
    HopTag,
    /// The tag of the end-to-end part is wrong.
    Tag,
    /// This number of this source came before, or is too old to tell.
    Replay,
    /// The datagram is from a node for which there is no key.
    Stranger,
    /// Authentic, but nothing that its sender may send.
    Forbidden,
    /// Sealed in a life of its sender or source that is not known here, or is over.
    Life,
}

/// Where the nonces of one kind of part come from; kinds never share a nonce.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Hop,
}

fn nonce(part: Part, stream: u16, number: u64) -> [u8; NONCE_LEN] {
    // 4 bytes that tell parts, 2 of stream, 6 of number.
    let mut nonce = [0; NONCE_LEN];
    nonce[0] = u8::from(part == Part::Hop);
    nonce[4..6].copy_from_slice(&stream.to_le_bytes());
    nonce[6..].copy_from_slice(&number.to_le_bytes()[..6]);
    nonce
}

/// Largest counter of a (life, stream).
pub const NUMBER_MAX: u64 = (1 << 47) - 1;

/// What names one end-to-end part: never the same twice under one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin {
    /// Which key and number space.
    pub stream: u16,
    /// Which life of the source: [`crate::lives::Life::tag`].
    pub life: u32,
    /// Number of the datagram among those of its source.
    pub number: u64,
}

/// Seals hop parts of one node for another; counts its numbers.
#[derive(Clone, Debug)]
pub struct Sealer {
    node: NodeId,
    link: u32,
    number: u64,
}

impl Sealer {
    /// The sealer of `node`, which has not used its hop keys before; `link` names the key.
    pub fn new(node: NodeId, link: u32) -> Sealer {
        Sealer { node, link, number: 0 }
    }

    /// Goes on under another key; numbers are never taken back.
    pub fn relink(&mut self, link: u32) {
        self.link = link;
    }

    /// Appends a sealed datagram: `hop` under the hop key, `body` under the end-to-end key. `false`,
    /// and nothing is appended, when it would be too long or numbers have run out.
    pub fn seal(
        &mut self,
        keys: (&impl Aead, &impl Aead),
        origin: Origin,
        (hop, body): (&[u8], &[u8]),
        out: &mut Vec<u8>,
    ) -> bool {
        let fits = OVERHEAD + hop.len() + body.len() <= DATAGRAM_MAX;
        if !fits || origin.number > NUMBER_MAX {
            return false;
        }
        let start = out.len();
        let Some(header) = self.header(origin, hop.len()) else { return false };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(hop);
        let body_at = out.len();
        seal_body(keys.1, origin, body, out);
        self.tag_hop(keys.0, start, body_at, out);
        true
    }

    /// Appends `sealed`, which a node opened by [`open_hop`], with another hop part: the end-to-end
    /// part stays as its source sealed it.
    pub fn forward(
        &mut self,
        key: &impl Aead,
        opened: &OpenedHop<'_>,
        hop: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if size_of::<SealHeader>() + hop.len() + opened.sealed.len() + TAG_LEN > DATAGRAM_MAX {
            return false;
        }
        let start = out.len();
        let Some(header) = self.header(opened.origin, hop.len()) else { return false };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(hop);
        let body_at = out.len();
        out.extend_from_slice(opened.sealed);
        self.tag_hop(key, start, body_at, out);
        true
    }

    fn header(&mut self, origin: Origin, hop_len: usize) -> Option<SealHeader> {
        if self.number >= NUMBER_MAX {
            return None;
        }
        self.number += 1;
        let Origin { stream, life, number } = origin;
        Some(SealHeader {
            version: SEALED_VERSION,
            reserved: 0,
            stream,
            life,
            number,
            hop: self.node,
            hop_len: hop_len as u16,
            link: self.link,
            hop_number: self.number,
        })
    }

    /// The hop tag covers the clear header, the hop part and the end-to-end tag.
    fn tag_hop(&self, key: &impl Aead, start: usize, body_at: usize, out: &mut Vec<u8>) {
        let tag = {
            let (head, body) = out[start..].split_at_mut(body_at - start);
            let (head, hop) = head.split_at_mut(size_of::<SealHeader>());
            let end = body.len().saturating_sub(TAG_LEN);
            let associated = associated(head, &body[end..]);
            let nonce = nonce(Part::Hop, self.node.0, self.number);
            key.seal(nonce, &associated, hop)
        };
        out.extend_from_slice(&tag);
    }
}

/// Appends an end-to-end part and its tag, for [`Sealer::forward`]; an origin is used once.
pub(crate) fn seal_body(key: &impl Aead, origin: Origin, body: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(body);
    let nonce = nonce(Part::Whole, origin.stream, origin.number);
    let tag = key.seal(nonce, &origin_bytes(origin), &mut out[at..]);
    out.extend_from_slice(&tag);
}

fn origin_bytes(origin: Origin) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[..2].copy_from_slice(&origin.stream.to_le_bytes());
    bytes[2..6].copy_from_slice(&origin.life.to_le_bytes());
    bytes[6..].copy_from_slice(&origin.number.to_le_bytes());
    bytes
}

/// Associated data of a hop: header and end-to-end tag, both of fixed lengths.
fn associated(head: &[u8], tag: &[u8]) -> [u8; size_of::<SealHeader>() + TAG_LEN] {
    let mut bytes = [0; size_of::<SealHeader>() + TAG_LEN];
    let (for_head, for_tag) = bytes.split_at_mut(size_of::<SealHeader>());
    copy(head, for_head);
    copy(tag, for_tag);
    bytes
}

fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() == to.len() {
        to.copy_from_slice(from);
    }
}

/// A datagram whose hop part was authentic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedHop<'a> {
    /// Node that sent it on this hop.
    pub sender: NodeId,
    /// That node's number of this hop.
    pub number: u64,
    /// Node that the end-to-end part comes from, and its number there.
    pub origin: Origin,
    /// The hop part in clear: the header.
    pub header: &'a [u8],
    /// The end-to-end part as it was sealed, its tag last.
    pub sealed: &'a [u8],
}

/// What a datagram says of itself, true or not; `None` where it is not sealed.
pub(crate) fn read_header(bytes: &[u8]) -> Option<SealHeader> {
    let (header, _) = SealHeader::read_from_prefix(bytes).ok()?;
    (header.version == SEALED_VERSION).then_some(header)
}

/// Authenticates a datagram and opens its hop part in place.
pub fn open_hop<'a>(key: &impl Aead, bytes: &'a mut [u8]) -> Result<OpenedHop<'a>, SealError> {
    if bytes.len() > DATAGRAM_MAX {
        return Err(SealError::Format);
    }
    let (head, rest) =
        bytes.split_at_mut_checked(size_of::<SealHeader>()).ok_or(SealError::Format)?;
    let header = SealHeader::read_from_bytes(head).map_err(|_| SealError::Format)?;
    if header.version != SEALED_VERSION || header.reserved != 0 || header.number > NUMBER_MAX {
        return Err(SealError::Format);
    }
    let (hop, rest) = rest.split_at_mut_checked(header.hop_len.into()).ok_or(SealError::Format)?;
    if rest.len() < 2 * TAG_LEN || header.hop_number > NUMBER_MAX {
        return Err(SealError::Format);
    }
    let (sealed, hop_tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(SealError::Format)?;
    let associated = associated(head, &sealed[sealed.len() - TAG_LEN..]);
    let nonce = nonce(Part::Hop, header.hop.0, header.hop_number);
    if !key.open(nonce, &associated, hop, hop_tag) {
        return Err(SealError::HopTag);
    }
    let SealHeader { stream, life, number, .. } = header;
    let origin = Origin { stream, life, number };
    let number = header.hop_number;
    Ok(OpenedHop { sender: header.hop, number, origin, header: hop, sealed })
}

/// Opens an end-to-end part into `into`, which is cleared first.
pub fn open_body(
    key: &impl Aead,
    opened: &OpenedHop<'_>,
    into: &mut Vec<u8>,
) -> Result<(), SealError> {
    into.clear();
    append_body(key, opened, into)
}

/// As [`open_body`], behind what is there.
pub(crate) fn append_body(
    key: &impl Aead,
    opened: &OpenedHop<'_>,
    into: &mut Vec<u8>,
) -> Result<(), SealError> {
    let (body, tag) = opened.sealed.split_last_chunk::<TAG_LEN>().ok_or(SealError::Format)?;
    let at = into.len();
    into.resize(at + body.len(), 0);
    let nonce = nonce(Part::Whole, opened.origin.stream, opened.origin.number);
    match key.open_into(nonce, &origin_bytes(opened.origin), (body, tag), &mut into[at..]) {
        true => Ok(()),
        false => {
            into.truncate(at);
            Err(SealError::Tag)
        }
    }
}

/// Refuses what a source sent before: a sliding window of numbers under one key. Only for what has
/// been authenticated.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    highest: u64,
    seen: [u64; (REPLAY_WINDOW / 64) as usize],
}

impl ReplayWindow {
    /// Accepts a number that is new and inside the window, and records it.
    pub fn accept(&mut self, number: u64) -> Result<(), SealError> {
        let bit = |number: u64| {
            let place = number % REPLAY_WINDOW;
            ((place / 64) as usize, 1u64 << (place % 64))
        };
        if number > self.highest {
            let from = self.highest.saturating_add(1).max(number.saturating_sub(REPLAY_WINDOW - 1));
            for passed in from..=number {
                let (word, mask) = bit(passed);
                self.seen[word] &= !mask;
            }
            self.highest = number;
        } else if self.highest - number >= REPLAY_WINDOW {
            return Err(SealError::Replay);
        }
        let (word, mask) = bit(number);
        if self.seen[word] & mask != 0 {
            return Err(SealError::Replay);
        }
        self.seen[word] |= mask;
        Ok(())
    }
}
