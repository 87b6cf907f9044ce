//! Once warm, an order's journey through edge and root and back allocates nothing.
//!
//! Counts allocations, hence a test binary of its own.

mod common;

use common::{MS, Outside, Pair, config, enter};
use types::{ConnId, Node, Peer, Side};
use wire::soupbin::{ClientPacket, LoginRequest};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Counts and forgets.
#[derive(Default)]
struct Tally {
    packets: u64,
    writes: u64,
}

impl Outside for Tally {
    fn to_root(&mut self, _bytes: &[u8]) {}

    fn to_edge(&mut self, _bytes: &[u8]) -> bool {
        true
    }

    fn feed(&mut self, _to: Peer, _bytes: &[u8]) {
        self.packets += 1;
    }

    fn stream(&mut self, _conn: ConnId, _bytes: &[u8]) {
        self.writes += 1;
    }

    fn closed(&mut self, conn: ConnId) {
        panic!("{conn:?} was closed");
    }
}

struct Day {
    pair: Pair,
    tally: Tally,
    message: Vec<u8>,
    bytes: Vec<u8>,
}

impl Day {
    fn write(&mut self, conn: u32) {
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_stream(*now, ConnId(conn), &self.bytes, edge_out);
        self.pair.settle(&mut self.tally);
        let end = self.pair.now.now.after(MS);
        self.pair.run(end, &mut self.tally);
    }

    fn login(&mut self, account: u8) {
        let mut login = LoginRequest {
            username: *b"USER0 ",
            password: *b"secret0   ",
            session: [b' '; 10],
            sequence: 1,
        };
        (login.username[4], login.password[6]) = (b'0' + account, b'0' + account);
        self.bytes.clear();
        ClientPacket::Login(login).encode(&mut self.bytes).expect("fits");
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_connect(*now, ConnId(account.into()), edge_out);
        self.write(account.into());
    }

    fn order(&mut self, account: u32, user_ref: u32, side: Side) {
        self.message.clear();
        self.bytes.clear();
        enter(user_ref, side, 100, 1, &mut self.message);
        ClientPacket::Unsequenced(&self.message).encode(&mut self.bytes).expect("fits");
        self.write(account);
    }

    /// One sells, the other buys: two acceptances, one trade.
    fn step(&mut self, n: u32) {
        self.order(1, n, Side::Sell);
        self.order(2, n, Side::Buy);
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let (message, bytes) = (Vec::new(), Vec::new());
    let mut day = Day { pair: Pair::new(&config()), tally: Tally::default(), message, bytes };
    let end = day.pair.now.now.after(100 * MS);
    day.pair.run(end, &mut day.tally);
    day.login(1);
    day.login(2);
    // Measured between two growths of log and record store: the log's second chunk begins with
    // input 4,097; the store's chunk lists double at 32 and 64 chunks of 64 records an account.
    (1..=1_100).for_each(|n| day.step(n));
    let before = counting::allocations();
    (1_101..=2_000).for_each(|n| day.step(n));
    let allocations = counting::allocations() - before;
    let counters = day.pair.root.engine().counters();
    assert_eq!((counters.accepted, day.pair.root.engine().open_orders()), (4_000, 0));
    assert_eq!(day.pair.edge.gateway().counters().reports, 8_000);
    assert_eq!(day.pair.edge.gateway().counters().overdue, 0);
    assert!(day.tally.packets >= 4_000 && day.tally.writes >= 4_000);
    assert_eq!(allocations, 0, "in 1,800 orders and 900 trades");
}
