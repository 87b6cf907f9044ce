//! Messages that a stream is known to have: what a root sent, and what edges hand on before any root was seen
//! to send it.

use types::Nanos;
use wire::moldudp::Packet;

use super::{Checker, Delivery, Published, Watch};

impl Watch {
    /// The next messages of a stream are known, and who published them when.
    pub(super) fn append<'a>(
        &mut self,
        at: Nanos,
        place: usize,
        published: Published,
        messages: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        let first = published.seq;
        stream.published.push(published);
        stream.deliveries.push(Delivery { at, first: Nanos::NEVER, last: at, receivers: 0 });
        let messages: Vec<&[u8]> = messages.collect();
        for message in &messages {
            stream.digest.push(message);
            stream.messages.push((*message).into());
        }
        self.read_trades(place, first, &messages);
        self.publish_ahead(place);
    }

    /// An edge hands on what no root was seen to send: a root that was cut off published it, and what
    /// it sent later carries it as parity. At the end a root must have owned up to it.
    pub(super) fn take_unseen(&mut self, at: Nanos, of: usize, packet: &Packet<'_>) {
        let (seq, end) = (packet.seq(), packet.next_seq());
        self.unseen.extend((seq..end).map(|number| (of, number)));
        let published = Published { seq, end, deadline: Nanos(0), bound_ns: 0 };
        self.append(at, of, published, packet.messages());
    }

    /// A root says that it published these messages.
    pub(super) fn owned_up(&mut self, of: usize, (seq, end): (u64, u64)) {
        self.unseen.retain(|(stream, number)| *stream != of || !(seq..end).contains(number));
    }

    /// What a root sends again is what was published before.
    pub(super) fn compare(&mut self, of: usize, packet: &Packet<'_>) {
        let Some(stream) = self.streams.get(of) else { return };
        let known =
            |number: u64| stream.messages.get(usize::try_from(number).ok()?.checked_sub(1)?);
        let mut numbered = (packet.seq()..).zip(packet.messages());
        let other =
            numbered.find(|(number, message)| known(*number).is_some_and(|k| k[..] != **message));
        self.failures.check(Checker::FeedEqual, other.is_none(), || {
            let number = other.map_or(0, |(number, _)| number);
            format!("a root sent message {number} of stream {of} again, and it was another one")
        });
    }
}
