//! The retransmission servers of a listener, asked in turn: the next one when one is silent or no
//! longer has what is missing.

use types::Peer;
use wire::moldudp::{TOKEN_LEN, Token};

/// What is known of one server.
#[derive(Debug)]
struct Server {
    peer: Peer,
    /// Number of the first message that the server still has, as far as it has said.
    begins: u64,
    /// Token that the server gave; zeros ask for one.
    token: Token,
}

/// The servers, and whose turn it is to be asked.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<Server>,
    turn: usize,
}

impl Servers {
    pub fn new(peers: Vec<Peer>) -> Servers {
        let server = |peer| Server { peer, begins: 0, token: [0; TOKEN_LEN] };
        Servers { all: peers.into_iter().map(server).collect(), turn: 0 }
    }

    /// Number of servers.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The server whose turn it is; `None`: there are none.
    pub fn asked(&self) -> Option<Peer> {
        self.all.get(self.turn).map(|server| server.peer)
    }

    /// Token to be shown to the server whose turn it is.
    pub fn token(&self) -> Token {
        self.all.get(self.turn).map_or([0; TOKEN_LEN], |server| server.token)
    }

    /// Whether `from` is one of the servers.
    pub fn has(&self, from: Peer) -> bool {
        self.all.iter().any(|server| server.peer == from)
    }

    /// `from` gives a token; true when it is a new one of the one whose turn it is.
    pub fn give_token(&mut self, from: Peer, token: Token) -> bool {
        let Some(place) = self.all.iter().position(|server| server.peer == from) else {
            return false;
        };
        let known = self.all.get_mut(place);
        let new = known.is_some_and(|known| std::mem::replace(&mut known.token, token) != token);
        new && place == self.turn
    }

    /// It is the turn of the next one that may have message `seq`, of the next one when none has.
    pub fn go_on(&mut self, seq: u64) {
        let count = self.all.len();
        let mut after = (1..=count).map(|step| (self.turn + step) % count);
        let may_have = after.clone().find(|place| self.all[*place].begins <= seq);
        self.turn = may_have.or_else(|| after.next()).unwrap_or(0);
    }

    /// `from` says that `first` is the first message it has; false when it is no server.
    pub fn note(&mut self, from: Peer, first: u64) -> bool {
        let known = self.all.iter_mut().find(|server| server.peer == from);
        known.map(|server| server.begins = server.begins.max(first)).is_some()
    }

    /// Forgets what the servers said they have.
    pub fn forget(&mut self) {
        self.all.iter_mut().for_each(|server| server.begins = 0);
    }

    /// Whether all of them said that they no longer have message `seq`.
    pub fn none_has(&self, seq: u64) -> bool {
        !self.all.is_empty() && self.all.iter().all(|server| server.begins > seq)
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
        assert!(servers.asked() == Some(a) && servers.token() == [0; 16]);
        assert!(servers.give_token(a, [1; 16]) && !servers.give_token(a, [1; 16]));
        assert!(!servers.give_token(b, [2; 16]) && !servers.give_token(Peer::Addr(4), [3; 16]));
        assert_eq!(servers.token(), [1; 16]);
        let mut none = Servers::new(Vec::new());
        none.go_on(1);
        assert_eq!((none.asked(), none.none_has(1)), (None, false));
    }
}
