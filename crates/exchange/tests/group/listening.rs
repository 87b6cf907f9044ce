//! A listener gets what it missed from whichever member runs.

use std::collections::VecDeque;

use exchange::listener;
use feed::Subscriber;
use types::{Channel, ClockReading, Nanos, Node, Op, Outbox, Peer};
use wire::moldudp;

use crate::{
    common::MS,
    plain,
    world::{CALM, Group, MEMBERS},
};

/// Where the retransmission server of member `n` is.
fn server(n: usize) -> Peer {
    Peer::Addr(2_000 + n as u64)
}

const EAR: Peer = Peer::Addr(3_000);

/// A listener that knows these members' servers and heard nothing but how far the feed is asks for all
/// of it. How often it asked each member, and what it knows in the end.
fn late(group: &mut Group, known: &[usize]) -> ([u32; MEMBERS], Subscriber) {
    let servers = known.iter().map(|n| server(*n)).collect();
    let mut ear = Subscriber::new(&listener(&group.config, servers), []);
    let next = group.ears[0].channels()[0].next_seq().0;
    let (mut heartbeat, mut out) = (Vec::new(), Outbox::default());
    moldudp::encode_heartbeat(ear.channels()[0].session(), next, &mut heartbeat);
    let mut now = Nanos(group.now);
    let at = |now| ClockReading { now, bound_ns: 250 };
    ear.handle_datagram(at(now), Channel::FEED, Peer::Addr(1), &heartbeat, &mut out);
    let mut asked = [0; MEMBERS];
    while asked.iter().sum::<u32>() < 1_000 && ear.channels()[0].next_seq().0 < next {
        out.clear();
        now = now.max(ear.next_timeout());
        ear.handle_timeout(at(now), &mut out);
        let mut requests = VecDeque::from(datagrams(&out));
        while let Some((to, request)) = requests.pop_front() {
            let n = (0..MEMBERS).find(|n| server(*n) == to).expect("a member's");
            asked[n] += 1;
            let Some(role) = &mut group.machines[n].role else { continue };
            let mut answer = Outbox::default();
            role.handle_datagram(at(now), Channel::FEED, EAR, &request, &mut answer);
            for (asker, bytes) in datagrams(&answer) {
                assert_eq!(asker, EAR);
                out.clear();
                ear.handle_datagram(at(now), Channel::FEED, to, &bytes, &mut out);
                requests.extend(datagrams(&out));
            }
        }
    }
    (asked, ear)
}

/// The datagrams in it.
fn datagrams(out: &Outbox) -> Vec<(Peer, Vec<u8>)> {
    let datagram = |op: &Op| match op {
        Op::Datagram { to, bytes, .. } => (*to, out.bytes(*bytes).to_vec()),
        op => panic!("{op:?}"),
    };
    out.ops().iter().map(datagram).collect()
}

#[test]
fn every_member_that_runs_serves_what_a_listener_missed() {
    for dead in 0..MEMBERS {
        let mut group = Group::new(&plain(), CALM, 7);
        group.login_all();
        group.trade(200 * MS, 2 * MS);
        group.kill(dead);
        group.run(2_000 * MS);
        group.trade(200 * MS, 2 * MS);
        group.run(1_000 * MS);
        group.check("one is dead");
        let digest = group.ears[0].channels()[0].stream_digest();
        // The dead one is asked once; whoever answered is asked for the rest.
        let order = [dead, (dead + 1) % MEMBERS, (dead + 2) % MEMBERS];
        let (asked, ear) = late(&mut group, &order);
        assert_eq!(ear.channels()[0].stream_digest(), digest, "member {dead} is dead");
        assert_eq!((asked[order[0]], asked[order[2]]), (1, 0), "{asked:?}");
        assert!(asked[order[1]] > 1, "{asked:?}");
        let (asked, ear) = late(&mut group, &[dead]);
        assert_eq!((asked[dead], ear.channels()[0].next_seq().0), (1_000, 1), "nobody answers");
    }
}
