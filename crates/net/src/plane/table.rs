//! What the program of a cloning data plane is told: who gets a copy, and how the copies differ.
//!
//! A table is plain words in memory that the kernel reads, too. Datagrams may share one when they are of
//! the same length and all but their first [`HEAD`] and last [`TAIL`] bytes are the same, as copies of one
//! sealed message are: each has the key of its own two nodes, and what is under it is at the two ends.
//! Nothing here knows what the bytes mean.
//!
//! The table ends with the receiver whose datagram is given to the socket: the carrier. The program makes
//! it the datagram of one after the other and clones it each time; last it is its own again. What a
//! change adds to the sums of UDP and IP is computed here, so that the program only has to add.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes at the start of a datagram that may differ between copies.
pub const HEAD: usize = 48;
/// Bytes at its end that may differ.
pub const TAIL: usize = 16;
/// Receivers of one table. More at once would not fit the queues behind an interface, which nobody empties
/// while a program runs: 256 packets of a pair of virtual interfaces, 512 to 1,024 of a card.
pub const COPIES_MAX: usize = 128;

/// Words of an entry, and of what stands before the first one.
pub(crate) const ENTRY_WORDS: usize = 16;
/// Bytes of the same.
pub(crate) const ENTRY: usize = ENTRY_WORDS * 8;
/// Bytes of a table.
pub(crate) const TABLE: usize = ENTRY * (COPIES_MAX + 1);

/// Byte offsets in what stands first.
pub(crate) const ARMED: usize = 0;
pub(crate) const COUNT: usize = 4;
pub(crate) const FRAME_LEN: usize = 8;
pub(crate) const IP_MINUS: usize = 12;
pub(crate) const CLONED: usize = 16;
/// Byte offsets in an entry.
pub(crate) const E_HARDWARE: usize = 0;
pub(crate) const E_ADDRESS: usize = 8;
pub(crate) const E_PORT: usize = 24;
pub(crate) const E_IP_PLUS: usize = 26;
pub(crate) const E_PSEUDO: usize = 28;
pub(crate) const E_REST: usize = 32;
pub(crate) const E_HEAD: usize = 40;
pub(crate) const E_TAIL: usize = E_HEAD + HEAD;

const _: () = assert!(E_TAIL + TAIL <= ENTRY && HEAD.is_multiple_of(8) && TAIL == 16);

/// The sum of 16-bit words of RFC 1071, not folded; an odd byte is the first of a word.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let all: u64 = fours.iter().map(|four| u64::from(u32::from_ne_bytes(*four))).sum();
    let (twos, last) = rest.as_chunks::<2>();
    let twos: u64 = twos.iter().map(|two| u64::from(u16::from_ne_bytes(*two))).sum();
    let last = last.first().map_or(0, |byte| u64::from(u16::from_ne_bytes([*byte, 0])));
    all + twos + last
}

/// A sum in 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    sum as u16
}

/// What to add to a sum where `old` is replaced by `new`.
fn change(old: u16, new: u16) -> u32 {
    u32::from(new) + u32::from(!old)
}

/// The sums of what differs between two copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    address: u16,
    rest: u16,
}

impl Sums {
    fn of(to: SocketAddr, bytes: &[u8]) -> Sums {
        let address = match to.ip() {
            IpAddr::V4(ip) => sum(&ip.octets()),
            IpAddr::V6(ip) => sum(&ip.octets()),
        };
        let ends = bytes.first_chunk::<HEAD>().zip(bytes.last_chunk::<TAIL>());
        let ends = ends.map_or(0, |(head, tail)| {
            // Words of the sum begin at the start of the datagram.
            let odd = !(bytes.len() - TAIL).is_multiple_of(2);
            let tail = fold(sum(tail));
            sum(head) + u64::from(if odd { tail.swap_bytes() } else { tail })
        });
        let port = u64::from(u16::from_ne_bytes(to.port().to_be_bytes()));
        Sums { address: fold(address), rest: fold(ends + port) }
    }
}

/// Copies being gathered into a table.
#[derive(Default)]
pub(crate) struct Gathered {
    to: Vec<SocketAddr>,
    /// The datagram of the last one.
    bytes: Vec<u8>,
    first: Sums,
    last: Sums,
}

impl Gathered {
    /// Room for as many as a table takes.
    pub fn new() -> Gathered {
        Gathered {
            to: Vec::with_capacity(COPIES_MAX),
            bytes: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            ..Gathered::default()
        }
    }

    /// Who gets one, in order; the carrier's last.
    pub fn receivers(&self) -> &[SocketAddr] {
        &self.to
    }

    /// The datagram of the last one.
    pub fn carrier(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a datagram may be a copy with the others: of one version of IP, equal but for its ends.
    pub fn fits(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        let middle = |bytes: &'_ [u8]| -> std::ops::Range<usize> { HEAD..bytes.len() - TAIL };
        (HEAD + TAIL..=types::limits::DATAGRAM_MAX).contains(&bytes.len())
            && match self.to.first() {
                None => true,
                Some(first) => {
                    self.to.len() < COPIES_MAX
                        && first.is_ipv4() == to.is_ipv4()
                        && self.bytes.len() == bytes.len()
                        && self.bytes[middle(&self.bytes)] == bytes[middle(bytes)]
                }
            }
    }

    /// Adds one that fits to the table.
    pub fn add(&mut self, table: &[AtomicU64], to: SocketAddr, hardware: [u8; 6], bytes: &[u8]) {
        assert!(self.fits(to, bytes), "only copies of the same");
        let at = self.to.len();
        let sums = Sums::of(to, bytes);
        let mut entry = [0u8; ENTRY];
        entry[E_HARDWARE..E_HARDWARE + 6].copy_from_slice(&hardware);
        match to.ip() {
            IpAddr::V4(ip) => entry[E_ADDRESS..E_ADDRESS + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => entry[E_ADDRESS..E_ADDRESS + 16].copy_from_slice(&ip.octets()),
        }
        entry[E_PORT..E_PORT + 2].copy_from_slice(&to.port().to_be_bytes());
        entry[E_IP_PLUS..E_IP_PLUS + 2].copy_from_slice(&sums.address.to_ne_bytes());
        if at > 0 {
            set_changes(&mut entry, self.last, sums);
        }
        entry[E_HEAD..E_HEAD + HEAD].copy_from_slice(&bytes[..HEAD]);
        entry[E_TAIL..E_TAIL + TAIL].copy_from_slice(&bytes[bytes.len() - TAIL..]);
        let words = entry_of(table, at);
        for (word, eight) in words.iter().zip(entry.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*eight), Relaxed);
        }
        match at {
            0 => {
                self.first = sums;
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
            }
            _ => {
                self.bytes[..HEAD].copy_from_slice(&bytes[..HEAD]);
                let end = bytes.len() - TAIL;
                self.bytes[end..].copy_from_slice(&bytes[end..]);
            }
        }
        self.last = sums;
        self.to.push(to);
    }

    /// Tells the program that the next such packet is the carrier; `before` are the bytes of a packet
    /// before its datagram.
    pub fn arm(&self, table: &[AtomicU64], before: usize) {
        // The program begins with the carrier's own, which is the last one's.
        let mut entry = [0u8; ENTRY];
        set_changes(&mut entry, self.last, self.first);
        let word = |at: usize| {
            entry[at..].first_chunk::<8>().map_or(0, |eight| u64::from_ne_bytes(*eight))
        };
        let first = entry_of(table, 0);
        let kept = first[E_PORT / 8].load(Relaxed) & low_half();
        first[E_PORT / 8].store(kept | word(E_PORT) & !low_half(), Relaxed);
        first[E_REST / 8].store(word(E_REST), Relaxed);
        let minus = u64::from(!self.last.address);
        let length = (before + self.bytes.len()) as u64;
        table[CLONED / 8].store(0, Relaxed);
        table[FRAME_LEN / 8].store(halves(length, minus), Relaxed);
        table[ARMED / 8].store(halves(1, self.to.len() as u64), Release);
    }

    /// Whether the program took the carrier, and how many clones went on their way; it takes none later.
    pub fn disarm(table: &[AtomicU64]) -> Option<usize> {
        let word = table[ARMED / 8].load(Acquire);
        let armed = word & low_half();
        if armed != 0 {
            table[ARMED / 8].store(0, Release);
            return None;
        }
        Some((table[CLONED / 8].load(Acquire) & low_half()) as usize)
    }

    /// The datagram of the one at a place, as it was gathered.
    pub fn datagram(&self, table: &[AtomicU64], at: usize, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.bytes);
        let words = entry_of(table, at);
        let eight = |word: &AtomicU64| word.load(Relaxed).to_ne_bytes();
        for (to, word) in into.as_chunks_mut::<8>().0.iter_mut().zip(&words[E_HEAD / 8..E_TAIL / 8])
        {
            *to = eight(word);
        }
        let end = into.len() - TAIL;
        let tail = &words[E_TAIL / 8..(E_TAIL + TAIL) / 8];
        for (to, word) in into[end..].as_chunks_mut::<8>().0.iter_mut().zip(tail) {
            *to = eight(word);
        }
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.to.clear();
        self.bytes.clear();
    }
}

/// The half of a word that has the lower address.
fn low_half() -> u64 {
    u64::from_ne_bytes([0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0])
}

/// A word whose halves are these numbers, the first at the lower address.
fn halves(first: u64, second: u64) -> u64 {
    let [a, b, c, d] = (first as u32).to_ne_bytes();
    let [e, f, g, h] = (second as u32).to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn set_changes(entry: &mut [u8; ENTRY], old: Sums, new: Sums) {
    let pseudo = change(old.address, new.address);
    entry[E_PSEUDO..E_PSEUDO + 4].copy_from_slice(&pseudo.to_ne_bytes());
    entry[E_REST..E_REST + 4].copy_from_slice(&change(old.rest, new.rest).to_ne_bytes());
}

fn entry_of(table: &[AtomicU64], at: usize) -> &[AtomicU64] {
    &table[(at + 1) * ENTRY_WORDS..(at + 2) * ENTRY_WORDS]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Vec<AtomicU64> {
        (0..TABLE / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn bytes_of(table: &[AtomicU64], at: usize) -> Vec<u8> {
        entry_of(table, at).iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    fn u16_in(bytes: &[u8], at: usize) -> u16 {
        u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
    }

    /// The sum in a UDP header, without what does not change.
    fn whole(to: SocketAddr, bytes: &[u8]) -> u16 {
        let address = match to.ip() {
            IpAddr::V4(ip) => sum(&ip.octets()),
            IpAddr::V6(ip) => sum(&ip.octets()),
        };
        !fold(address + u64::from(to.port().to_be()) + sum(bytes))
    }

    fn replaced(sum: u16, by: u32) -> u16 {
        !fold(u64::from(!sum) + u64::from(by))
    }

    #[derive(Clone, Debug)]
    struct Copies {
        middle: Vec<u8>,
        ends: Vec<([u8; HEAD], [u8; TAIL], SocketAddr)>,
    }

    fn copies() -> impl Strategy<Value = Copies> {
        let ends = |v6: bool| {
            let one = (any::<[u8; HEAD]>(), any::<[u8; TAIL]>(), any::<[u8; 16]>(), any::<u16>());
            prop::collection::vec(one, 1..12).prop_map(move |all| {
                let at = |ip: [u8; 16], port| match v6 {
                    true => SocketAddr::new(IpAddr::from(ip), port),
                    false => SocketAddr::new(IpAddr::from([ip[0], ip[1], ip[2], ip[3]]), port),
                };
                all.into_iter().map(|(head, tail, ip, port)| (head, tail, at(ip, port))).collect()
            })
        };
        let middle = prop::collection::vec(any::<u8>(), 0..200);
        (middle, any::<bool>())
            .prop_flat_map(move |(middle, v6)| (Just(middle), ends(v6)))
            .prop_map(|(middle, ends)| Copies { middle, ends })
    }

    proptest! {
        /// What the program does with the table, done here: each copy is what was to be sent, with the
        /// sum that it would have had from the start.
        #[test]
        fn each_copy_is_what_was_gathered_and_its_sums_are_right(sent in copies()) {
            let table = table();
            let mut gathered = Gathered::new();
            let all: Vec<(SocketAddr, Vec<u8>)> = sent
                .ends
                .iter()
                .map(|(head, tail, to)| (*to, [&head[..], &sent.middle, &tail[..]].concat()))
                .collect();
            for (to, bytes) in &all {
                prop_assert!(gathered.fits(*to, bytes));
                gathered.add(&table, *to, [7; 6], bytes);
            }
            gathered.arm(&table, 42);
            let length = table[FRAME_LEN / 8].load(Relaxed) & low_half();
            prop_assert_eq!(length as usize, 42 + all[0].1.len());
            let (last_to, last) = all.last().expect("at least one");
            let mut udp = whole(*last_to, last);
            let mut datagram = Vec::new();
            for (at, (to, bytes)) in all.iter().enumerate() {
                gathered.datagram(&table, at, &mut datagram);
                prop_assert_eq!(&datagram, bytes);
                let entry = bytes_of(&table, at);
                let ends = (&entry[E_HEAD..E_TAIL], &entry[E_TAIL..E_TAIL + TAIL]);
                prop_assert_eq!(ends, (&bytes[..HEAD], &bytes[bytes.len() - TAIL..]));
                let four = |at: usize| u32::from_ne_bytes(entry[at..at + 4].try_into().unwrap());
                udp = replaced(replaced(udp, four(E_PSEUDO)), four(E_REST));
                let wanted = whole(*to, bytes);
                // Two ways to write zero.
                prop_assert!(udp == wanted || (udp.wrapping_add(1) < 2 && wanted.wrapping_add(1) < 2));
                prop_assert_eq!(u16::from_be_bytes([entry[E_PORT], entry[E_PORT + 1]]), to.port());
                let plus = u16_in(&entry, E_IP_PLUS);
                prop_assert_eq!(plus, Sums::of(*to, bytes).address);
            }
            prop_assert_eq!(Gathered::disarm(&table), None, "nobody has taken it");
            prop_assert_eq!(Gathered::disarm(&table), Some(0));
        }

        #[test]
        fn what_differs_in_the_middle_or_in_length_is_no_copy(
            sent in copies(), at in 0usize..200, other in 1u8..,
        ) {
            let (table, mut gathered) = (table(), Gathered::new());
            let (head, tail, to) = sent.ends[0];
            let mut bytes = [&head[..], &sent.middle, &tail[..]].concat();
            gathered.add(&table, to, [0; 6], &bytes);
            prop_assert!(gathered.fits(to, &bytes));
            bytes.push(0);
            prop_assert!(!gathered.fits(to, &bytes));
            bytes.pop();
            if !sent.middle.is_empty() {
                bytes[HEAD + at % sent.middle.len()] ^= other;
                prop_assert!(!gathered.fits(to, &bytes));
            }
            prop_assert!(!gathered.fits(to, &bytes[..HEAD + TAIL - 1]));
        }
    }
}
