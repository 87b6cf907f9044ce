//! The retransmission servers of a listener, asked in turn: the next one when one is silent or no
//! longer has what is missing.

use types::Peer;

/// Who is asked now, and what each said it has.
#[derive(Debug)]
pub(super) struct Servers {
    /// Each with the first message that it still has, as far as it said.
    all: Vec<(Peer, u64)>,
    turn: usize,
}

impl Servers {
    pub fn new(peers: Vec<Peer>) -> Servers {
        Servers { all: peers.into_iter().map(|peer| (peer, 0)).collect(), turn: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The one whose turn it is; `None` when there are none.
    pub fn asked(&self) -> Option<Peer> {
        self.all.get(self.turn).map(|(peer, _)| *peer)
    }

    /// It is the turn of the next one that may have message `seq`, of the next one when none has.
    pub fn go_on(&mut self, seq: u64) {
        let count = self.all.len();
        let mut after = (1..=count).map(|step| (self.turn + step) % count);
        let may_have = after.clone().find(|place| self.all[*place].1 <= seq);
        self.turn = may_have.or_else(|| after.next()).unwrap_or(0);
    }

    /// `from` says that `first` is the first message it has; false when it is no server.
    pub fn note(&mut self, from: Peer, first: u64) -> bool {
        let Some((_, begins)) = self.all.iter_mut().find(|(peer, _)| *peer == from) else {
            return false;
        };
        *begins = first.max(*begins);
        true
    }

    /// What they said no longer counts.
    pub fn forget(&mut self) {
        self.all.iter_mut().for_each(|(_, begins)| *begins = 0);
    }

    /// Whether all of them said that they no longer have message `seq`.
    pub fn none_has(&self, seq: u64) -> bool {
        !self.all.is_empty() && self.all.iter().all(|(_, begins)| *begins > seq)
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
        assert!(servers.note(c, 11) && servers.note(b, 10) && !servers.note(Peer::Addr(4), 99));
        assert_eq!(turns(&mut servers, 3), [a, b, a]);
        assert!(servers.note(a, 12) && servers.note(b, 11) && servers.none_has(10));
        assert!(!servers.none_has(11));
        assert_eq!(turns(&mut servers, 3), [b, c, a]);
        servers.forget();
        assert!(!servers.none_has(10));
        let mut none = Servers::new(Vec::new());
        none.go_on(1);
        assert_eq!((none.asked(), none.none_has(1)), (None, false));
    }
}
