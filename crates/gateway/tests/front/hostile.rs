//! No bytes of participants and no frames panic, grow memory, or reach a connection that is over.

use overlay::{
    frame::{self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody},
    private_receiver::first_token,
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use types::{AccountId, GatewayId, Incarnation, NodeId, SplitMix64};
use wire::soupbin::{ClientPacket, LoginRequest};
use zerocopy::{Immutable, IntoBytes};

use crate::bench::{Bench, CONNECTIONS, MS, enter, packets, report, symbol};

const WAIT_MAX: u64 = 65_536;

/// One thing that happens to a gateway.
#[derive(Clone, Debug)]
enum Step {
    Connect(u32),
    Close(u32),
    /// What a client says next, a login or orders; one byte changed or none, cut somewhere.
    Talk {
        conn: u32,
        account: u8,
        change: Option<(usize, u8)>,
        cut: usize,
    },
    Bytes(u32, Vec<u8>),
    /// A frame of [`frame_of`], one byte of it changed or none, cut somewhere.
    Frame {
        seed: u64,
        change: Option<(usize, u8)>,
        cut: usize,
    },
    Noise(Vec<u8>),
    Watermark(u64),
    Wait(u64),
    Record(u16, u32, u64),
    /// The root answers or not.
    Root {
        grants: bool,
        acks: bool,
        attach: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let conn = || 1..=CONNECTIONS as u32 + 1;
    let change = |p| prop::option::weighted(p, (0usize..300, any::<u8>()));
    let cut = || prop_oneof![9 => Just(usize::MAX), 1 => 0usize..300];
    let noise = || prop::collection::vec(any::<u8>(), 0..200);
    let attach = prop_oneof![4 => Just(1u16), 1 => 0u16..5];
    prop_oneof![
        5 => conn().prop_map(Step::Connect),
        1 => conn().prop_map(Step::Close),
        12 => (conn(), 0u8..5, change(0.2), cut())
            .prop_map(|(conn, account, change, cut)| Step::Talk { conn, account, change, cut }),
        1 => (conn(), noise()).prop_map(|(conn, bytes)| Step::Bytes(conn, bytes)),
        6 => (any::<u64>(), change(0.4), cut())
            .prop_map(|(seed, change, cut)| Step::Frame { seed, change, cut }),
        1 => noise().prop_map(Step::Noise),
        1 => (0u64..20).prop_map(Step::Watermark),
        1 => (0u64..3_000).prop_map(Step::Wait),
        4 => (1u16..4, 1u32..100, 0u64..20).prop_map(|(a, n, p)| Step::Record(a, n, p)),
        1 => (any::<bool>(), any::<bool>(), attach)
            .prop_map(|(grants, acks, attach)| Step::Root { grants, acks, attach }),
    ]
}

fn mutated(mut bytes: Vec<u8>, change: Option<(usize, u8)>, cut: usize) -> Vec<u8> {
    if let Some((at, value)) = change
        && !bytes.is_empty()
    {
        let at = at % bytes.len();
        bytes[at] = value;
    }
    bytes.truncate(cut);
    bytes
}

/// The login of an account, of which 0 and 4 do not exist.
fn login(account: u8) -> Vec<u8> {
    let mut login = LoginRequest {
        username: *b"USER0 ",
        password: *b"secret0   ",
        session: [b' '; 10],
        sequence: u64::from(account) % 2,
    };
    (login.username[4], login.password[6]) = (b'0' + account, b'0' + account);
    let mut bytes = Vec::new();
    ClientPacket::Login(login).encode(&mut bytes).expect("fits");
    bytes
}

/// A frame that a gateway takes, for tokens and positions that may be in use.
fn frame_of(seed: u64) -> Vec<u8> {
    fn bytes<B: IntoBytes + Immutable>(kind: FrameKind, body: &B, payload: &[u8]) -> Vec<u8> {
        let mut buffer = Vec::new();
        frame::encode(&mut buffer, HopHeader::new(kind, NodeId(0), 7), body, payload);
        buffer
    }
    let mut rng = SplitMix64::new(seed);
    let account = AccountId(1 + rng.below(3) as u16);
    let (token, n) = (first_token(Incarnation(3)) + rng.below(5) as u32, rng.below(4));
    match rng.below(4) {
        0 => {
            let incarnation = Incarnation(3 + n as u32 / 3);
            let (gateway, boot_nonce) = (GatewayId(2), 99);
            let grant = GrantBody { gateway, reserved: 0, boot_nonce, incarnation };
            bytes(FrameKind::Grant, &grant, &[])
        }
        1 => {
            let selective = [rng.next_u64(), u64::MAX, 0, 1];
            let incarnation = Incarnation(3);
            let ack = OrderAckBody {
                contiguous: n,
                selective,
                held: [rng.next_u64(), 0, u64::MAX, 1],
                incarnation,
                echo: rng.next_u64() as u32,
                useful: rng.next_u64() as u32,
                term: 0,
            };
            bytes(FrameKind::OrderAck, &ack, &[])
        }
        2 => {
            let status = 1 + rng.below(3) as u16;
            let reply = AttachReplyBody { account, status, token, from: n, next: n + 3 };
            bytes(FrameKind::AttachReply, &reply, &[])
        }
        _ => {
            let records = [report(account.0, 1, 0), report(account.0, 2, 30)];
            let body = PrivateBody { account, count: 2, token, first: 1 + n };
            bytes(FrameKind::Private, &body, records.as_bytes())
        }
    }
}

fn take(bench: &mut Bench, step: Step) {
    match step {
        Step::Connect(conn) => {
            // A driver names no two live connections alike.
            if bench.clients.get(&types::ConnId(conn)).is_none_or(|client| client.closed) {
                bench.connect(conn, "USER1", "secret1");
                // What it hears is checked by its own session, which must expect an answer.
                let now = bench.now.now;
                let _ = bench.client_mut(conn).soup.connect(now, &mut Vec::new());
            }
        }
        Step::Close(conn) => {
            if bench.clients.get(&types::ConnId(conn)).is_some_and(|client| !client.closed) {
                bench.close(conn);
            }
        }
        Step::Talk { conn, account, change, cut } => {
            let client = bench.clients.get(&types::ConnId(conn));
            let orders = || packets(&[enter(1, symbol()), enter(2, symbol())]);
            let inside = client.is_some_and(|client| client.soup.is_active());
            let bytes = if inside { orders() } else { login(account) };
            bench.write(conn, &mutated(bytes, change, cut));
        }
        Step::Bytes(conn, bytes) => bench.write(conn, &bytes),
        Step::Frame { seed, change, cut } => {
            bench.frame(&mutated(frame_of(seed), change, cut));
            bench.settle();
        }
        Step::Noise(bytes) => {
            bench.frame(&bytes);
            bench.settle();
        }
        Step::Watermark(watermark) => {
            // Others are ahead of the receiver here.
            bench.public(watermark.saturating_add(5));
            bench.watermark(watermark);
        }
        Step::Wait(ms) => bench.run(ms * MS),
        Step::Record(account, user_ref, public_after) => {
            bench.root.tell(report(account, user_ref, public_after));
            bench.settle();
        }
        Step::Root { grants, acks, attach } => {
            (bench.root.grants, bench.root.acks, bench.root.attach) = (grants, acks, attach);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_panics_and_nothing_piles_up(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::waiting(crate::bench::config());
        for step in steps {
            take(&mut bench, step);
            let open = bench.clients.values().filter(|client| !client.closed).count();
            prop_assert_eq!(bench.gateway.connections(), open);
            prop_assert!(open <= CONNECTIONS);
            let counters = bench.gateway.counters();
            let waiting = counters.requests - bench.gateway.uplink().counters().sent;
            prop_assert!(waiting <= WAIT_MAX);
        }
    }

    #[test]
    fn cuts_do_not_matter(cuts in prop::collection::vec(1usize..40, 1..40)) {
        let orders: Vec<Vec<u8>> = (1..=8).map(|n| enter(n, symbol())).collect();
        let bytes = packets(&orders);
        let mut bench = Bench::new();
        bench.login(1, 1);
        let mut rest = bytes.as_slice();
        for cut in cuts.into_iter().cycle() {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            bench.write(1, piece);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        let refs: Vec<u32> = bench.root.orders.iter().map(|(_, o)| o.user_ref.0).collect();
        prop_assert_eq!(refs, (1..=8).collect::<Vec<_>>());
    }
}

/// The steps above get past the doors: a test that only ever meets strangers would show little.
#[test]
fn the_steps_reach_what_they_are_to_break() {
    let (mut runner, steps) = (TestRunner::deterministic(), prop::collection::vec(step(), 80));
    let (mut logins, mut refused, mut requests, mut violations) = (0, 0, 0, 0);
    let (mut taken_over, mut reports, mut overdue, mut malformed) = (0, 0, 0, 0);
    for _ in 0..192 {
        let mut bench = Bench::waiting(crate::bench::config());
        let steps = steps.new_tree(&mut runner).expect("steps").current();
        steps.into_iter().for_each(|step| take(&mut bench, step));
        let counters = bench.gateway.counters();
        logins += counters.logins;
        refused += counters.logins_refused;
        requests += counters.requests;
        violations += counters.violations;
        taken_over += counters.taken_over;
        reports += counters.reports;
        overdue += counters.overdue;
        malformed += counters.malformed;
    }
    let all = [logins, refused, requests, violations, taken_over, reports, overdue, malformed];
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
}
