//! What paths do to packets: they arrive, late as they should, or not, or twice.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use emulator::{Config, Profile};

use crate::{received, socket, start};

#[test]
fn two_hosts_reach_each_other_by_ipv4_and_ipv6_at_once() {
    let Some((network, _alone)) = start(Config::new(2, Profile::clean())) else { return };
    let [left, right] = network.hosts() else { panic!("two hosts") };
    let families: [[IpAddr; 2]; 2] =
        [[left.v4().into(), right.v4().into()], [left.v6().into(), right.v6().into()]];
    for [here, there] in families {
        let (ping, pong) = (socket(left, here), socket(right, there));
        ping.send_to(b"ping", pong.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        let (length, from) = pong.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from), (&b"ping"[..], ping.local_addr().unwrap()));
        pong.send_to(b"pong", from).unwrap();
        assert_eq!(ping.recv(&mut bytes).unwrap(), 4);
        assert_eq!(&bytes[..4], b"pong");
    }
    let counters = network.counters(0, 1);
    assert_eq!((counters.packets, counters.delivered, counters.bytes), (2, 2, 32 + 52));
    assert!(network.is_running());
}

#[test]
fn tcp_carries_everything_over_a_lossy_path() {
    let profile = Profile { loss_ppm: 20_000, duplicate_ppm: 10_000, ..Profile::lossy() };
    let Some((network, _alone)) = start(Config::new(2, profile)) else { return };
    let [left, right] = network.hosts() else { panic!("two hosts") };
    let listener = right.enter(|| TcpListener::bind((right.v4(), 0))).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..400_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let mut client = left.enter(|| TcpStream::connect(address)).unwrap().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).unwrap();
            drop(client);
        });
        server.read_to_end(&mut got).unwrap();
    });
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    let total = network.total();
    assert!(total.packets > 300 && total.lost > 0 && total.duplicated > 0, "{total:?}");
}

#[test]
fn a_clean_path_takes_as_long_as_it_should_and_a_slow_host_longer() {
    let Some((network, _alone)) = start(Config::new(3, Profile::clean())) else { return };
    let check = network.check(300).unwrap();
    assert_eq!((check.samples, check.lost), (300, 0));
    let added = check.delay.p50 as i64 - check.floor.p50 as i64;
    assert!((40_000..65_000).contains(&added), "{check:?}");
    network.slow(1, 2_000_000);
    let slowed = network.check(90).unwrap();
    // Host 1 is an end of four of the six pairs.
    assert!(slowed.delay.p50 > 2_000_000 && slowed.delay.min < 1_500_000, "{slowed:?}");
    network.slow(1, 0);
    assert!(network.check(90).unwrap().delay.p50 < 1_500_000);
}

#[test]
fn delays_follow_the_profile_and_what_it_does_not_know_is_seen() {
    let Some((network, _alone)) = start(Config::new(4, Profile::table1())) else { return };
    // Other work on the machine makes the relay late; what that explains is allowed for.
    for _ in 0..3 {
        let check = network.check(2_000).unwrap();
        println!("{check:?}");
        assert!(check.relay_distance < 0.05 + check.late_share, "{check:?}");
        if check.late_share < 0.02 {
            break;
        }
    }
    // Controls: 100 us on every path, and 5 us.
    for (extra_ns, least) in [(50_000, 0.9), (2_500, 0.1)] {
        network.hosts().iter().for_each(|host| network.slow(host.index(), extra_ns));
        let control = network.check(1_000).unwrap();
        assert!(control.relay_distance > least, "{control:?}");
        assert!(control.end_to_end_distance > 0.05, "{control:?}");
    }
}

#[test]
fn a_cut_path_loses_one_direction_until_it_is_healed() {
    let Some((network, _alone)) = start(Config::new(3, Profile::clean())) else { return };
    let sockets: Vec<_> =
        network.hosts().iter().map(|host| socket(host, IpAddr::from(host.v4()))).collect();
    let arrives = |from: usize, to: usize| {
        let target = sockets[to].local_addr().unwrap();
        sockets[from].send_to(&7u32.to_le_bytes(), target).unwrap();
        !received(&sockets[to]).is_empty()
    };
    network.cut(0, 1);
    assert_eq!([arrives(0, 1), arrives(1, 0), arrives(0, 2)], [false, true, true]);
    network.heal(0, 1);
    assert!(arrives(0, 1));
    network.isolate(2);
    assert_eq!([arrives(0, 2), arrives(2, 1), arrives(0, 1)], [false, false, true]);
    network.rejoin(2);
    assert_eq!([arrives(0, 2), arrives(2, 1)], [true, true]);
    assert_eq!(network.counters(0, 1).cut, 1);
    // A packet that is under way when the path is cut is lost as well.
    network.slow(0, 50_000_000);
    sockets[0].send_to(&1u32.to_le_bytes(), sockets[1].local_addr().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    network.cut(0, 1);
    assert!(received(&sockets[1]).is_empty());
    network.heal_all();
    network.slow(0, 0);
    assert!(arrives(0, 1));
}

#[test]
fn losses_duplicates_and_overflow_are_counted_as_they_are_seen() {
    let profile = Profile { duplicate_ppm: 200_000, ..Profile::clean() };
    let config = Config { held_bytes_max: 20_000, ..Config::new(2, profile) };
    let Some((network, _alone)) = start(config) else { return };
    let [left, right] = network.hosts() else { panic!("two hosts") };
    let (here, there) = (socket(left, left.v4()), socket(right, right.v4()));
    here.connect(there.local_addr().unwrap()).unwrap();
    let send = |count: u32| {
        // Read meanwhile: the receiver's kernel keeps some 250 small packets.
        let mut got = std::thread::scope(|scope| {
            let reader = scope.spawn(|| received(&there));
            for number in 0..count {
                here.send(&number.to_le_bytes()).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
            reader.join().unwrap()
        });
        let all = got.len() as u64;
        assert!(got.is_sorted(), "a path keeps its order");
        got.dedup();
        (got.len() as u64, all)
    };
    network.set_loss(0, 1, 300_000);
    let (different, all) = send(500);
    let counters = network.counters(0, 1);
    assert_eq!(counters.packets, 500);
    assert_eq!((different, all), (500 - counters.lost, counters.delivered));
    assert_eq!(counters.duplicated, all - different);
    assert!((100..200).contains(&counters.lost), "{counters:?}");
    assert!((40..100).contains(&counters.duplicated), "{counters:?}");
    // Of 4 + 28 bytes each, 625 fit into what a sender may have on its way.
    network.set_loss(0, 1, 0);
    network.slow(0, 300_000_000);
    for number in 0..1_000u32 {
        here.send(&number.to_le_bytes()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let overflowed = network.counters(0, 1).overflowed;
    let copies = 1_000 + network.counters(0, 1).duplicated - counters.duplicated;
    assert_eq!(overflowed, copies - 625);
    assert_eq!(left.interface_drops().unwrap(), 0);
}

#[test]
fn a_senders_copies_leave_one_after_another_and_order_is_a_choice() {
    let profile = Profile { copy_ns: 1_000_000, ..Profile::clean() };
    let Some((network, alone)) = start(Config::new(2, profile)) else { return };
    let [left, right] = network.hosts() else { panic!("two hosts") };
    let (here, there) = (socket(left, left.v4()), socket(right, right.v4()));
    let target = there.local_addr().unwrap();
    let started = Instant::now();
    for number in 0..20u32 {
        here.send_to(&number.to_le_bytes(), target).unwrap();
    }
    for _ in 0..20 {
        there.recv(&mut [0; 8]).unwrap();
    }
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(20) && took < Duration::from_millis(200), "{took:?}");
    drop((network, alone));

    let wild = Profile { median_ns: 500_000, sigma: 1.0, ..Profile::clean() };
    let config = Config { in_order: false, ..Config::new(2, wild) };
    let Some((network, _alone)) = start(config) else { return };
    let [left, right] = network.hosts() else { panic!("two hosts") };
    let (here, there) = (socket(left, left.v6()), socket(right, right.v6()));
    for number in 0..100u32 {
        here.send_to(&number.to_le_bytes(), there.local_addr().unwrap()).unwrap();
    }
    let mut got = received(&there);
    assert!(!got.is_sorted(), "some overtake others");
    got.sort_unstable();
    assert_eq!(got, (0..100).collect::<Vec<u32>>());
}

#[test]
fn zones_and_directions_are_seen_end_to_end() {
    let profile = Profile { asymmetry_ns: 2_000_000, ..Profile::two_zones() };
    let profile = Profile { zone_ns: 5_000_000, ..profile };
    let Some((network, _alone)) = start(Config::new(3, profile)) else { return };
    let sockets: Vec<_> = network.hosts().iter().map(|host| socket(host, host.v4())).collect();
    let quickest_ms = |from: usize, to: usize| {
        let takes = |_| {
            let sent_at = Instant::now();
            sockets[from].send_to(&[0; 8], sockets[to].local_addr().unwrap()).unwrap();
            sockets[to].recv(&mut [0; 8]).unwrap();
            sent_at.elapsed()
        };
        (0..20).map(takes).min().unwrap().as_millis()
    };
    assert_eq!(network.hosts().iter().map(|host| host.zone()).collect::<Vec<_>>(), [0, 1, 0]);
    let takes = [quickest_ms(0, 2), quickest_ms(2, 0), quickest_ms(0, 1), quickest_ms(1, 0)];
    assert_eq!(takes, [2, 0, 7, 5]);
}
