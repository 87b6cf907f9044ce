//! How this crate puts one datagram into an outbox.

use types::{Channel, NodeId, Outbox, Peer};
use zerocopy::{Immutable, IntoBytes};

use crate::frame::{self, HopHeader};

/// Queues header, body and payload as one overlay datagram to a node.
pub(crate) fn send<B: IntoBytes + Immutable>(
    out: &mut Outbox,
    to: NodeId,
    header: HopHeader,
    body: &B,
    payload: &[u8],
) {
    send_by((out, Channel::OVERLAY), to, header, body, payload);
}

/// As [`send`], by a channel that the caller chooses.
pub(crate) fn send_by<B: IntoBytes + Immutable>(
    (out, channel): (&mut Outbox, Channel),
    to: NodeId,
    header: HopHeader,
    body: &B,
    payload: &[u8],
) {
    let bytes = out.write(|buffer| frame::encode(buffer, header, body, payload));
    out.datagram(channel, Peer::Node(to), bytes);
}
