//! A bounded buffer of packets that came before their turn.

use std::collections::BTreeMap;

/// Packets by the number of their first message. When full, the furthest one goes: it is the last
/// to be of use, and a forged number far ahead cannot push the near ones out.
#[derive(Debug, Default)]
pub(crate) struct Reorder {
    packets: BTreeMap<u64, Vec<u8>>,
    spare: Vec<Vec<u8>>,
    max: usize,
}

impl Reorder {
    pub fn new(max: usize) -> Reorder {
        Reorder { packets: BTreeMap::new(), spare: Vec::new(), max }
    }

    /// Number of the first message of the first packet kept; `None`: none is kept.
    pub fn first(&self) -> Option<u64> {
        self.packets.keys().next().copied()
    }

    /// Keeps a packet; false when another one (or this one) had to go.
    pub fn insert(&mut self, seq: u64, bytes: &[u8]) -> bool {
        if let Some(kept) = self.packets.get_mut(&seq) {
            // The longer of two packets with one start tells more.
            if kept.len() < bytes.len() {
                kept.clear();
                kept.extend_from_slice(bytes);
            }
            return true;
        }
        let full = self.packets.len() >= self.max;
        if full {
            match self.packets.last_key_value() {
                Some((&last, _)) if last > seq => {
                    let removed = self.packets.remove(&last);
                    removed.into_iter().for_each(|packet| self.recycle(packet));
                }
                _ => return false,
            }
        }
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.extend_from_slice(bytes);
        self.packets.insert(seq, packet);
        !full
    }

    /// The first packet and where it starts, when that is at or before `next`; give it back to
    /// [`Reorder::recycle`].
    pub fn take_ready(&mut self, next: u64) -> Option<(u64, Vec<u8>)> {
        let first = self.packets.first_entry()?;
        (*first.key() <= next).then(|| first.remove_entry())
    }

    /// Keeps the buffer of a packet for the next one.
    pub fn recycle(&mut self, mut packet: Vec<u8>) {
        packet.clear();
        self.spare.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::Reorder;

    #[test]
    fn the_near_packets_stay() {
        let mut reorder = Reorder::new(2);
        assert!(reorder.insert(u64::MAX, b"forged"));
        assert!(reorder.insert(20, b"b"));
        assert!(!reorder.insert(10, b"a"));
        assert!(!reorder.insert(30, b"c"));
        assert!(reorder.insert(10, b"longer"));
        assert_eq!((reorder.first(), reorder.take_ready(9)), (Some(10), None));
        assert_eq!(reorder.take_ready(10), Some((10, b"longer".to_vec())));
        assert_eq!(reorder.take_ready(25), Some((20, b"b".to_vec())));
        assert_eq!(reorder.take_ready(u64::MAX), None);
    }
}
