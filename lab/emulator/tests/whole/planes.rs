//! What all data planes have in common, over a cable: each receiver gets its own datagrams, whole, once, in
//! order, whatever they look like and whatever happens to the plane meanwhile.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use emulator::{Cable, CableConfig};
use net::plane::{
    COPIES_DIFFER_AT_MOST, DataPlane, DuplicateFilter, DuplicateKey, Learning, PlaneKind,
};
use net::{Clock, Directory, Loop, LoopConfig};
use types::{Channel, ClockReading, DatagramName, DroppedCopy, Nanos, Node, NodeId, Outbox, Peer};

/// A cable; `None` where it is refused.
fn cable(config: CableConfig) -> Option<Cable> {
    match Cable::lay(config) {
        Ok(cable) => Some(cable),
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Ends of a test: a sender and receivers of so many addresses.
struct Ends {
    sender: UdpSocket,
    receivers: Vec<(SocketAddr, UdpSocket)>,
}

impl Ends {
    fn new(cable: &Cable, is_v6: bool, count: u16) -> Ends {
        let sender = cable.left().enter(|| UdpSocket::bind((Cable::left_address(is_v6), 0)));
        let bind = |number: u16| {
            let at = SocketAddr::new(Cable::receiver(is_v6, number), 0);
            let socket = cable.right().enter(|| UdpSocket::bind(at)).unwrap().unwrap();
            let at = socket.local_addr().unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            (at, socket)
        };
        Ends { sender: sender.unwrap().unwrap(), receivers: (0..count).map(bind).collect() }
    }

    fn plane(&self, cable: &Cable, kind: PlaneKind) -> DataPlane {
        let peers: Vec<SocketAddr> = self.receivers.iter().map(|(at, _)| *at).collect();
        let open = || DataPlane::open(kind, &self.sender, &peers);
        cable.left().enter(open).unwrap().unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a receiver gets until there is nothing more.
    fn heard(&self, receiver: usize, count: usize) -> Vec<Vec<u8>> {
        let socket = &self.receivers[receiver].1;
        let mut heard = Vec::new();
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            assert_eq!(from, self.sender.local_addr().unwrap());
            heard.push(bytes[..len].to_vec());
            if heard.len() == count {
                socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            }
        }
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        heard
    }
}

/// The datagram of a round for a receiver: copies of a round differ at their ends.
fn copy(round: usize, receiver: usize, length: usize) -> Vec<u8> {
    let (head, tail) = COPIES_DIFFER_AT_MOST;
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7 + round) as u8).collect();
    for (at, byte) in bytes.iter_mut().enumerate() {
        if at < head || at + tail >= length {
            *byte = byte.wrapping_mul(31).wrapping_add((receiver * 101 + round * 3 + at) as u8);
        }
    }
    bytes
}

fn each(mut test: impl FnMut(&Cable, bool, PlaneKind)) {
    for sums_offloaded in [true, false] {
        let Some(cable) = cable(CableConfig { sums_offloaded, ..CableConfig::default() }) else {
            return;
        };
        for is_v6 in [false, true] {
            for kind in PlaneKind::built() {
                test(&cable, is_v6, kind);
            }
        }
    }
}

#[test]
fn each_receiver_gets_its_own_datagrams_whole_once_and_in_order() {
    const RECEIVERS: u16 = 7;
    const ROUNDS: usize = 60;
    each(|cable, is_v6, kind| {
        let ends = Ends::new(cable, is_v6, RECEIVERS);
        let mut plane = ends.plane(cable, kind);
        let mut wanted = vec![Vec::new(); RECEIVERS.into()];
        for round in 0..ROUNDS {
            // From what is too short for a copy to what fills a packet; odd lengths, too.
            let length = [40, 64, 65, 128, 333, 1_000, 1_401, 1_452][round % 8];
            for (receiver, (at, _)) in ends.receivers.iter().enumerate() {
                // Some rounds leave some out, and some datagrams are like no others.
                if (round * 5 + receiver) % 11 == 0 {
                    continue;
                }
                let mut bytes = copy(round, receiver, length);
                if (round + receiver) % 13 == 0 {
                    bytes[length / 2] ^= 0xFF;
                }
                plane.send(&ends.sender, *at, &bytes).unwrap();
                wanted[receiver].push(bytes);
            }
            plane.flush(&ends.sender).unwrap();
            if round == 0 {
                // Opening a device may have the kernel forget who has an address: soon it knows again.
                std::thread::sleep(Duration::from_millis(150));
            }
        }
        for (receiver, wanted) in wanted.iter().enumerate() {
            let heard = ends.heard(receiver, wanted.len());
            assert!(
                heard == *wanted,
                "{kind} v6 {is_v6}, receiver {receiver}: {} of {}",
                heard.len(),
                wanted.len()
            );
        }
        let figures = plane.figures();
        let sent: usize = wanted.iter().map(Vec::len).sum();
        assert_eq!(figures.copies as usize, sent, "{kind}: {figures:?}");
        assert_eq!(figures.dropped, 0);
        if kind != PlaneKind::Udp {
            assert!(figures.clones as usize > sent / 2, "{figures:?}");
        }
    });
}

#[test]
fn the_same_datagram_twice_comes_twice_and_one_that_is_too_long_is_refused_alone() {
    each(|cable, is_v6, kind| {
        let ends = Ends::new(cable, is_v6, 3);
        let mut plane = ends.plane(cable, kind);
        let bytes = copy(1, 0, 200);
        // The kernel's own answer on who has an address takes a moment.
        for (at, _) in &ends.receivers {
            plane.send(&ends.sender, *at, &bytes).unwrap();
            plane.send(&ends.sender, *at, &bytes).unwrap();
        }
        plane.flush(&ends.sender).unwrap();
        rustix_probe(&ends.sender, is_v6);
        let too_long = vec![7; 1_480];
        let mut refused = 0;
        for (at, _) in &ends.receivers {
            refused += usize::from(plane.send(&ends.sender, *at, &too_long).is_err());
        }
        refused += usize::from(plane.flush(&ends.sender).is_err());
        assert!(refused > 0, "{kind}: longer than the interface's packets");
        for (at, _) in &ends.receivers {
            plane.send(&ends.sender, *at, &bytes).unwrap();
        }
        plane.flush(&ends.sender).unwrap();
        for receiver in 0..3 {
            assert_eq!(ends.heard(receiver, 3), vec![bytes.clone(); 3], "{kind} v6 {is_v6}");
        }
    });
}

/// Datagrams are never cut, as the loop has its sockets.
fn rustix_probe(socket: &UdpSocket, is_v6: bool) {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    };
    if is_v6 {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE).unwrap();
    }
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE).unwrap();
}

#[test]
fn a_program_that_is_taken_away_and_a_cable_that_is_pulled_lose_nothing_of_what_could_be_sent() {
    for kind in PlaneKind::built() {
        let Some(cable) = cable(CableConfig::default()) else { return };
        let ends = Ends::new(&cable, false, 4);
        let mut plane = ends.plane(&cable, kind);
        let mut sent = vec![Vec::new(); 4];
        let mut round = 0;
        let mut play = |plane: &mut DataPlane, rounds: usize, sent: &mut Vec<Vec<Vec<u8>>>| {
            // In the network of the sender, as a node is: what is opened again is opened there.
            let rounds = || {
                for _ in 0..rounds {
                    for (receiver, (at, _)) in ends.receivers.iter().enumerate() {
                        let bytes = copy(round, receiver, 150);
                        plane.send(&ends.sender, *at, &bytes).unwrap();
                        sent[receiver].push(bytes);
                    }
                    plane.flush(&ends.sender).unwrap();
                    round += 1;
                }
            };
            cable.left().enter(rounds).unwrap();
        };
        play(&mut plane, 20, &mut sent);
        plane.detach().unwrap();
        play(&mut plane, 20, &mut sent);
        std::thread::sleep(Duration::from_millis(600));
        play(&mut plane, 20, &mut sent);
        // What is on its way gets there first.
        std::thread::sleep(Duration::from_millis(100));
        // What is sent while there is no cable is refused, and nobody waits for it.
        cable.left().set_up(false).unwrap();
        let bytes = copy(0, 0, 151);
        let refused = ends.receivers.iter().map(|(at, _)| plane.send(&ends.sender, *at, &bytes));
        let refused = refused.filter(Result::is_err).count();
        assert!(refused > 0 || plane.flush(&ends.sender).is_err(), "{kind}");
        cable.left().set_up(true).unwrap();
        let begun = Instant::now();
        let (first, _) = ends.receivers[0];
        while ends.sender.send_to(b"is there anybody", first).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
        assert!(ends.receivers[0].1.peek(&mut [0; 9]).is_ok());
        play(&mut plane, 20, &mut sent);
        std::thread::sleep(Duration::from_millis(600));
        play(&mut plane, 20, &mut sent);
        for (receiver, sent) in sent.iter().enumerate() {
            let mut heard = ends.heard(receiver, sent.len() + usize::from(receiver == 0));
            heard.retain(|bytes| bytes.len() == 150);
            assert!(
                heard == *sent,
                "{kind} receiver {receiver}: {} of {}",
                heard.len(),
                sent.len()
            );
        }
        if kind != PlaneKind::Udp {
            let figures = plane.figures();
            assert!(figures.missed > 0 && figures.attached_again > 0, "{figures:?}");
        }
    }
}

#[test]
fn all_addresses_of_the_right_end_answer() {
    let Some(cable) = cable(CableConfig::default()) else { return };
    for is_v6 in [false, true] {
        let ends = Ends::new(&cable, is_v6, 16);
        for (at, _) in &ends.receivers {
            ends.sender.send_to(b"word", *at).unwrap();
        }
        for receiver in 0..16 {
            assert_eq!(ends.heard(receiver, 1), [b"word".to_vec()]);
        }
        let distinct: std::collections::BTreeSet<IpAddr> =
            (0..16).map(|number| Cable::receiver(is_v6, number)).collect();
        assert_eq!(distinct.len(), 16);
    }
}

#[test]
fn a_second_owner_of_a_queue_is_refused_in_a_line_and_takes_the_next_plane() {
    let Some(cable) = cable(CableConfig::default()) else { return };
    let ends = Ends::new(&cable, false, 2);
    let first = ends.plane(&cable, PlaneKind::AfXdp);
    let peers: Vec<SocketAddr> = ends.receivers.iter().map(|(at, _)| *at).collect();
    let mut told = Vec::new();
    let second = cable.left().enter(|| {
        let other = UdpSocket::bind((Cable::left_address(false), 0)).unwrap();
        let kinds = [PlaneKind::AfXdp, PlaneKind::TcClone];
        DataPlane::first_of(&kinds, &other, &peers, |line| told.push(line.to_string()))
    });
    assert_eq!(second.unwrap().expect("the next one").kind(), PlaneKind::TcClone);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("has a socket of AF_XDP already") && !told[0].contains('\n'),
        "{told:?}"
    );
    assert!(told[0].ends_with("tc-clone is used instead"), "{told:?}");
    drop(first);
    ends.plane(&cable, PlaneKind::AfXdp);
}

#[test]
fn the_filter_drops_on_the_way_in_what_has_passed_and_has_one_owner() {
    let Some(cable) = cable(CableConfig { queues: 2, ..CableConfig::default() }) else { return };
    let ends = Ends::new(&cable, false, 1);
    let key = DuplicateKey { version: 0x82, stream: (2, 0), epoch: 4, number: 8, sender: 16 };
    let port = ends.receivers[0].0.port();
    let attach = |learning| {
        cable.right().enter(|| {
            let any = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            let index = rustix::net::netdevice::name_to_index(&any, cable.right().interface());
            DuplicateFilter::attach(index.unwrap(), port, key, learning)
        })
    };
    let datagram = |epoch: u32, number: u64, stream: u16| {
        let mut bytes = vec![0x82; 60];
        bytes[2..4].copy_from_slice(&stream.to_le_bytes());
        bytes[4..8].copy_from_slice(&epoch.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    let filter = attach(Learning::Passing).unwrap().expect("a filter");
    let second = attach(Learning::Passing).unwrap().map(drop).expect_err("one owner");
    assert!(second.to_string().contains("attached to the interface already"), "{second}");
    let (to, _) = ends.receivers[0];
    let mut wanted = Vec::new();
    // Twice each, and again in another life; another stream is not filtered, nor number 0.
    for epoch in [7, 3] {
        for number in [1u64, 2, 900, 5, 65_537] {
            for _ in 0..2 {
                ends.sender.send_to(&datagram(epoch, number, 0), to).unwrap();
            }
            wanted.push(datagram(epoch, number, 0));
        }
    }
    for _ in 0..2 {
        ends.sender.send_to(&datagram(7, 4, 1), to).unwrap();
        ends.sender.send_to(&datagram(7, 0, 0), to).unwrap();
        wanted.extend([datagram(7, 4, 1), datagram(7, 0, 0)]);
    }
    assert!(ends.heard(0, wanted.len()) == wanted);
    let figures = filter.figures();
    assert_eq!((figures.first, figures.duplicates, figures.other), (10, 10, 4), "{figures:?}");
    drop(filter);
    std::thread::sleep(Duration::from_millis(50));

    // One that believes its node alone drops nothing of its own accord.
    let filter = attach(Learning::Confirmed).unwrap().expect("the place is free again");
    let forged = datagram(7, 77, 0);
    for _ in 0..2 {
        ends.sender.send_to(&forged, to).unwrap();
    }
    assert_eq!(ends.heard(0, 2), vec![forged.clone(); 2]);
    filter.confirm(7, 77);
    ends.sender.send_to(&forged, to).unwrap();
    ends.sender.send_to(&datagram(7, 78, 0), to).unwrap();
    assert_eq!(ends.heard(0, 1), [datagram(7, 78, 0)]);
    assert_eq!(filter.figures().duplicates, 1);
}

/// Notes what comes, and confirms it.
#[derive(Default)]
struct Ear {
    is_filtered: bool,
    heard: Vec<u64>,
    told: Vec<(u64, u16)>,
}

impl Node for Ear {
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        _channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let epoch = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        let number = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        self.heard.push(number);
        out.confirm(DatagramName { epoch, number });
    }

    fn handle_timeout(&mut self, _now: ClockReading, _out: &mut Outbox) {}

    fn next_timeout(&self) -> Nanos {
        Nanos::NEVER
    }

    fn expect_filter(&mut self) {
        self.is_filtered = true;
    }

    fn handle_dropped(&mut self, now: ClockReading, copies: &[DroppedCopy]) {
        for copy in copies {
            assert!(copy.came <= now.now && now.now - copy.came < Nanos::SECOND, "{copy:?}");
            self.told.push((copy.name.number, copy.sender.0));
        }
    }
}

/// Its node hears each datagram once, and of each other copy that it came; the program goes with its
/// interface and comes again.
#[test]
fn a_node_behind_a_filter_hears_once_and_is_told_of_all_other_copies() {
    let Some(cable) = cable(CableConfig { queues: 2, ..CableConfig::default() }) else { return };
    let ends = Ends::new(&cable, false, 0);
    let at = SocketAddr::new(Cable::receiver(false, 0), 0);
    let node = NodeId(7);
    let (of, to) = cable
        .right()
        .enter(|| {
            let socket = UdpSocket::bind(at).unwrap();
            let to = socket.local_addr().unwrap();
            let peer = ends.sender.local_addr().unwrap();
            let directory = Directory::new(&[(node, to), (NodeId(1), peer)]).expect("two nodes");
            let config = LoopConfig { kernel_stamps: true, ..LoopConfig::default() };
            let mut of = Loop::new(Clock::start(0), Arc::new(directory), config).unwrap();
            of.add_node(node, Ear::default(), vec![(Channel::OVERLAY, socket)], None).unwrap();
            let key =
                DuplicateKey { version: 0x82, stream: (2, 0), epoch: 4, number: 8, sender: 16 };
            assert!(of.filter_duplicates(key, |why| panic!("{why}")));
            // Control: a second owner has no place, is told so, and goes on without.
            let mut told = Vec::new();
            assert!(!of.filter_duplicates(key, |why| told.push(why.to_string())));
            assert!(told.len() == 1 && told[0].contains("attached to the interface"), "{told:?}");
            assert!(told[0].ends_with("duplicates reach the node"), "{told:?}");
            (of, to)
        })
        .unwrap();
    let datagram = |number: u64, sender: u16| {
        let mut bytes = vec![0x82; 60];
        bytes[2..4].fill(0);
        bytes[4..8].copy_from_slice(&5u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..18].copy_from_slice(&sender.to_le_bytes());
        bytes
    };
    let handle = of.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&stop);
    let detach = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let detach = &detach;
        let cable = &cable;
        let running = scope.spawn(move || {
            let each = Duration::from_millis(1);
            // A program is attached again where the loop runs.
            let inside = || {
                of.run(&over, each, |of, _| {
                    if detach.swap(false, Ordering::Relaxed) {
                        of.detach_filters().unwrap();
                    }
                })
            };
            cable.right().enter(inside).unwrap()
        });
        let counts = || {
            let (sender, counted) = mpsc::channel();
            handle
                .call(node, move |ear: &mut Ear, _, _| {
                    sender.send((ear.is_filtered, ear.heard.len(), ear.told.len())).unwrap();
                })
                .unwrap();
            counted.recv().unwrap()
        };
        let wait_for = |heard: usize, told: usize| {
            let begun = Instant::now();
            while counts() != (true, heard, told) {
                assert!(begun.elapsed() < Duration::from_secs(5), "{:?} {heard} {told}", counts());
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        for number in 1..=200 {
            ends.sender.send_to(&datagram(number, 1), to).unwrap();
        }
        wait_for(200, 0);
        for number in 1..=200 {
            for sender in [2, 900] {
                ends.sender.send_to(&datagram(number, sender), to).unwrap();
            }
        }
        wait_for(200, 400);
        // Taken away: duplicates reach the node, until it is there again.
        detach.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while counts().1 == 200 {
            assert!(begun.elapsed() < Duration::from_secs(5));
            ends.sender.send_to(&datagram(1, 2), to).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun = Instant::now();
        while counts().2 < 420 {
            assert!(begun.elapsed() < Duration::from_secs(5), "attached again after a second");
            ends.sender.send_to(&datagram(2, 3), to).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let figures = handle.counters();
        assert!(figures.copies_filtered >= 420 && figures.datagrams_stamped >= 200);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap()
    });
    let ear = &ended[0].1;
    assert_eq!(ear.heard[..200], (1..=200).collect::<Vec<u64>>());
    let mut told = ear.told[..400].to_vec();
    told.sort_unstable();
    assert_eq!(told, (1..=200).flat_map(|n| [(n, 2), (n, 900)]).collect::<Vec<_>>());
}
