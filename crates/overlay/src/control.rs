//! Datagrams from one node to the next that are nobody else's business: what a parent tells its
//! children about the orders they send, and who stands in for a dead proxy.
//!
//! A family of their own: the first byte tells them from [`crate::frame`]s, so that a node which
//! does not know them refuses them as another version.

use types::{NodeId, Outbox, limits::DATAGRAM_MAX};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// First byte of a control datagram.
pub const CONTROL_VERSION: u8 = 0x81;
/// Arrivals in one hop report at most.
pub const ARRIVALS_MAX: usize = 128;

/// What a control datagram says.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum ControlKind {
    /// Parent to child: [`HopReportBody`] + arrivals.
    HopReport = 1,
    /// Root to everybody: [`DetourBody`].
    Detour = 2,
}

/// First 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ControlHeader {
    /// [`CONTROL_VERSION`].
    pub version: u8,
    /// What follows.
    pub kind: ControlKind,
    /// Who sent it; a claim until datagrams are sealed.
    pub sender: NodeId,
    /// Tree epoch the sender lives in.
    pub epoch: u32,
    /// Stream number.
    pub stream: u16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// How a child's orders arrive, and how many more it may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HopReportBody {
    /// Highest hop number heard.
    pub highest: u16,
    /// With credits: the hop number it may go to.
    pub limit: u16,
    /// Arrivals that follow.
    pub count: u16,
    /// 1: credits are granted.
    pub credits: u16,
}

/// One order's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HopArrival {
    /// Its hop number.
    pub number: u16,
    /// Zero.
    pub reserved: u16,
    /// How long it took, in ns.
    pub owd_ns: u32,
}

/// A proxy is dead, or back; numbered so that old news does not undo newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DetourBody {
    /// Grows with every message of its kind in an epoch.
    pub number: u64,
    /// Bit i of word w: node `first + 64 w + i` is dead.
    pub dead: [u64; 4],
    /// Node of the first bit.
    pub first: NodeId,
    /// Zero.
    pub reserved: [u8; 6],
}

const _: () = {
    assert!(size_of::<ControlHeader>() == 16);
    assert!(
        16 + size_of::<HopReportBody>() + ARRIVALS_MAX * size_of::<HopArrival>() <= DATAGRAM_MAX
    );
};

impl ControlHeader {
    /// A header of this version.
    pub fn new(kind: ControlKind, sender: NodeId, epoch: u32, stream: u16) -> ControlHeader {
        let version = CONTROL_VERSION;
        ControlHeader { version, kind, sender, epoch, stream, reserved: [0; 6] }
    }

    /// Whether a datagram is of this family.
    pub fn is_control(datagram: &[u8]) -> bool {
        datagram.first() == Some(&CONTROL_VERSION)
    }

    /// Reads the header; the rest is the body and what follows it.
    pub fn read(datagram: &[u8]) -> Option<(ControlHeader, &[u8])> {
        if datagram.len() > DATAGRAM_MAX {
            return None;
        }
        let (header, rest) = ControlHeader::try_read_from_prefix(datagram).ok()?;
        (header.version == CONTROL_VERSION && header.reserved == [0; 6]).then_some((header, rest))
    }
}

/// Queues a control datagram.
pub fn send<B: IntoBytes + Immutable>(
    out: &mut Outbox,
    to: NodeId,
    header: ControlHeader,
    body: &B,
    tail: &[u8],
) {
    let bytes = out.write(|buffer| {
        buffer.extend_from_slice(header.as_bytes());
        buffer.extend_from_slice(body.as_bytes());
        buffer.extend_from_slice(tail);
    });
    out.datagram(types::Channel::OVERLAY, types::Peer::Node(to), bytes);
}

/// Reads a hop report and its arrivals.
pub fn hop_report(rest: &[u8]) -> Option<(HopReportBody, impl Iterator<Item = HopArrival> + '_)> {
    let (body, tail) = HopReportBody::read_from_prefix(rest).ok()?;
    let size = size_of::<HopArrival>();
    let whole =
        usize::from(body.count) <= ARRIVALS_MAX && tail.len() == usize::from(body.count) * size;
    let arrivals = |tail: &'_ [u8]| HopArrival::read_from_bytes(tail).ok();
    whole.then(|| (body, tail.chunks_exact(size).filter_map(arrivals)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameError, HopHeader};
    use proptest::prelude::*;

    #[test]
    fn frames_and_control_are_told_apart() {
        let header = ControlHeader::new(ControlKind::HopReport, NodeId(3), 7, 1);
        let bytes = header.as_bytes();
        assert!(ControlHeader::is_control(bytes));
        assert_eq!(ControlHeader::read(bytes), Some((header, &[][..])));
        assert_eq!(HopHeader::read(bytes), Err(FrameError::Version));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), ours in any::<bool>(),
        ) {
            if let Some(first) = bytes.first_mut().filter(|_| ours) {
                *first = CONTROL_VERSION;
            }
            if let Some((_, rest)) = ControlHeader::read(&bytes) {
                let _ = hop_report(rest).map(|(_, arrivals)| arrivals.count());
            }
            let _ = hop_report(&bytes).map(|(_, arrivals)| arrivals.count());
        }
    }
}
