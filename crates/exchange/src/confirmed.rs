//! Market data that a node has opened lately, for copies of it that a filter drops in front of the node.
//!
//! What the filter says of a copy is what stands in clear: the number under which the datagram was sealed. Here
//! is kept which message of the tree that was, so that the node's own account of its parents' copies, by
//! which those that lose are found, goes on as if each copy had come.

use overlay::{
    frame::{self, DataBody, FrameKind, HopHeader},
    seal::Origin,
    topology::ROOT,
};
use types::DatagramName;

/// Datagrams that are remembered: those of some tenths of a second of the busiest feeds.
const KEPT: usize = 8_192;

#[derive(Clone, Copy)]
struct Kept {
    name: DatagramName,
    epoch: u32,
    body: DataBody,
}

/// The last of them, by number.
pub(crate) struct Confirmed {
    kept: Box<[Option<Kept>]>,
}

impl Default for Confirmed {
    fn default() -> Self {
        Confirmed { kept: vec![None; KEPT].into_boxed_slice() }
    }
}

impl Confirmed {
    /// Epoch and body of a clear datagram that is market data.
    pub fn market_data(clear: &[u8]) -> Option<(u32, DataBody)> {
        let (header, rest) = HopHeader::read(clear).ok()?;
        let is_data = header.kind == FrameKind::Data;
        let (body, _) = frame::body::<DataBody>(rest).ok().filter(|_| is_data)?;
        Some((header.epoch, body))
    }

    /// Remembers one that the root sealed; by which name copies of it may be dropped.
    pub fn keep(&mut self, origin: Origin, (epoch, body): (u32, DataBody)) -> Option<DatagramName> {
        let name = DatagramName { epoch: origin.life, number: origin.number };
        let place = self.kept.get_mut(origin.number as usize % KEPT)?;
        if origin.stream != ROOT.0 || place.is_some_and(|kept| kept.name == name) {
            return None;
        }
        *place = Some(Kept { name, epoch, body });
        Some(name)
    }

    /// Tree epoch and body of one; of its number the lower half is enough.
    pub fn of(&self, name: DatagramName) -> Option<(u32, DataBody)> {
        let kept = (*self.kept.get(name.number as usize % KEPT)?)?;
        let same = kept.name.number as u32 == name.number as u32 && kept.name.epoch == name.epoch;
        same.then_some((kept.epoch, kept.body))
    }
}

#[cfg(test)]
mod tests {
    use types::Nanos;

    use super::*;

    fn body(id: u64) -> DataBody {
        DataBody {
            id,
            t_sent: Nanos(1),
            deadline: Nanos(2),
            bound_ns: 0,
            stream: 0,
            hedge: 0,
            flags: 0,
        }
    }

    #[test]
    fn what_the_root_sealed_is_known_by_life_and_number_until_something_has_its_place() {
        let mut confirmed = Confirmed::default();
        let of = |life, number| Origin { stream: ROOT.0, life, number };
        let far = (5 << 32) + 7;
        let named = confirmed.keep(of(3, far), (9, body(70))).expect("new");
        assert_eq!(named, DatagramName { epoch: 3, number: far });
        assert_eq!(confirmed.keep(of(3, far), (9, body(70))), None, "once");
        let half = DatagramName { epoch: 3, number: 7 };
        assert_eq!(confirmed.of(half).map(|(epoch, body)| (epoch, body.id)), Some((9, 70)));
        for name in [(4, 7), (3, 8), (3, 7 + KEPT as u64)] {
            assert!(confirmed.of(DatagramName { epoch: name.0, number: name.1 }).is_none());
        }
        assert_eq!(
            confirmed.keep(Origin { stream: 4, ..of(3, 1) }, (9, body(1))),
            None,
            "a proxy's"
        );
        confirmed.keep(of(3, far + KEPT as u64), (9, body(71))).expect("new");
        assert!(confirmed.of(half).is_none());
    }

    #[test]
    fn only_market_data_is_read_as_such_and_any_bytes_are_refused_or_read() {
        let frame = |kind| {
            let mut bytes = Vec::new();
            frame::encode(&mut bytes, HopHeader::new(kind, ROOT, 6), &body(5), b"packet");
            bytes
        };
        let data = Confirmed::market_data(&frame(FrameKind::Data)).expect("market data");
        assert_eq!((data.0, data.1.id), (6, 5));
        assert!(Confirmed::market_data(&frame(FrameKind::Repair)).is_none());
        let mut random = types::SplitMix64::new(1);
        for _ in 0..2_000 {
            let length = random.next_u64() as usize % 60;
            let mut bytes = frame(FrameKind::Data);
            bytes.truncate(length);
            if let Some(byte) = bytes.get_mut(random.next_u64() as usize % 60) {
                *byte = random.next_u64() as u8;
            }
            assert!(Confirmed::market_data(&bytes).is_none_or(|_| length >= 48));
        }
    }
}
