//! The retransmission servers of a listener, asked in turn: the next one when one is silent or no
//! longer has what is missing.

use types::Peer;

/// Who is asked now, and what each said it has.
#[derive(Debug)]
pub(super) struct Servers {
    peers: Vec<Peer>,
    /// The first message that each still has, as far as it said.
    begins: Vec<u64>,
    turn: usize,
}

impl Servers {
    pub fn new(peers: Vec<Peer>) -> Servers {
        Servers { begins: vec![0; peers.len()], peers, turn: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.peers.len() as u32
    }

    /// The one whose turn it is; `None` when there are none.
    pub fn asked(&self) -> Option<Peer> {
        self.peers.get(self.turn).copied()
    }

    /// It is the turn of the next one that may have message `seq`, of the next one when none has.
    pub fn go_on(&mut self, seq: u64) {
        let count = self.peers.len();
        let mut after = (1..=count).map(|step| (self.turn + step) % count);
        let may_have = after.clone().find(|place| self.begins[*place] <= seq);
        self.turn = may_have.or_else(|| after.next()).unwrap_or(0);
    }

    /// `from` says that `first` is the first message it has; false when it is no server.
    pub fn begins(&mut self, from: Peer, first: u64) -> bool {
        let place = self.peers.iter().position(|peer| *peer == from);
        let begins = place.and_then(|place| self.begins.get_mut(place));
        let known = begins.map(|begins| *begins = first.max(*begins));
        known.is_some()
    }

    /// What they said no longer counts.
    pub fn forget(&mut self) {
        self.begins.fill(0);
    }

    /// Whether all of them said that they no longer have message `seq`.
    pub fn none_has(&self, seq: u64) -> bool {
        !self.begins.is_empty() && self.begins.iter().all(|begins| *begins > seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_pass_over_those_who_lack_it() {
        let [a, b, c] = [1, 2, 3].map(Peer::Addr);
        let mut servers = Servers::new(vec![a, b, c]);
        let turns = |servers: &mut Servers, count| {
            let turn = |_| {
                servers.go_on(10);
                servers.asked().expect("three")
            };
            (0..count).map(turn).collect::<Vec<_>>()
        };
        assert_eq!(turns(&mut servers, 4), [b, c, a, b]);
        assert!(
            servers.begins(c, 11) && servers.begins(b, 10) && !servers.begins(Peer::Addr(4), 99)
        );
        assert_eq!(turns(&mut servers, 3), [a, b, a]);
        assert!(servers.begins(a, 12) && servers.begins(b, 11) && servers.none_has(10));
        assert!(!servers.none_has(11));
        assert_eq!(turns(&mut servers, 3), [b, c, a]);
        servers.forget();
        assert!(!servers.none_has(10));
        let mut none = Servers::new(Vec::new());
        none.go_on(1);
        assert_eq!((none.asked(), none.none_has(1)), (None, false));
    }
}
