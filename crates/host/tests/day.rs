//! A replica that stands alone follows the venue's calendar by itself, from the beginning of a day to
//! its end, and does nothing of it again when it is started once more.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exchange::Role;
use host::config::Config;
use host::deployment::clock;
use host::fleet::credentials::{self, DAYS, RootSecret};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole};
use host::replica::checkpoints::Begin;
use host::replica::cluster::Cluster;
use host::replica::node::{Host, Sockets};
use net::Clock;
use types::{ClOrdId, CommandKind, Nanos, Phase};

/// How the commands of a calendar are named in the log.
const SCHEDULE: ClOrdId = ClOrdId(*b"schedule      ");
/// A day is a few seconds long; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sockets() -> Sockets {
    let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP port");
    let link = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a TCP port");
    Sockets { overlay: udp(), feed: udp(), link, shards: None }
}

/// What is due by a calendar, and when after the start of the test, in seconds of which there are
/// few in a day that begins at noon.
fn calendar(config: &mut Config, now: Nanos) {
    let second = now.0 / Nanos::SECOND % 86_400;
    let hour = second / 3_600;
    let ahead = 12 - hour as i64;
    let sign = if ahead < 0 { '-' } else { '+' };
    let calendar = &mut config.calendar;
    calendar.zone = format!("{sign}{:02}:00", ahead.abs());
    calendar.weekdays = "mon tue wed thu fri sat sun".to_string();
    let at = |after: u64| {
        let second = second % 3_600 + after;
        format!("{:02}:{:02}:{:02}", 12 + second / 3_600, second / 60 % 60, second % 60)
    };
    calendar.pre_open = at(1);
    calendar.opening_call = at(2);
    calendar.open = at(3);
    calendar.halts = format!("{}-{}", at(4), at(5));
    calendar.closing_call = at(6);
    calendar.close = at(7);
    calendar.end = at(8);
}

/// What the calendar did, by the log of a replica.
fn done(role: &Role) -> Vec<(CommandKind, u8, u16, Nanos)> {
    let Some(root) = role.as_root() else { return Vec::new() };
    let scheduled = root.log().records().filter(|input| input.command.cl_ord_id == SCHEDULE);
    let facts = |input: types::Input| {
        let command = input.command;
        (command.kind, command.param, command.instrument.0, input.t_seq)
    };
    scheduled.map(facts).collect()
}

/// Runs the replica until its day has ended or `until` is over; what the calendar did.
fn life(
    config: &Config,
    cluster: &Cluster,
    dir: &Path,
    until: Duration,
) -> Vec<(CommandKind, u8, u16, Nanos)> {
    let clock = clock(config);
    let settings = (config, cluster);
    let mut host = Host::with(sockets(), settings, (1, dir), clock, Begin::Inputs).expect("a host");
    host.use_alarms(&host::alarms::Alarms::default());
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let look = |role: &Role| {
        let ended = done(role).iter().any(|(kind, ..)| *kind == CommandKind::EndOfDay);
        if ended && until == PATIENCE || begun.elapsed() > until {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let role = host.run_watched(&stop, look).expect("it serves");
    done(&role)
}

#[test]
fn a_lone_replica_opens_and_closes_its_day_by_its_calendar() {
    let scratch =
        Scratch(std::env::temp_dir().join(format!("fairbell-day-{}", std::process::id())));
    let dir = scratch.0.join("replica-1");
    std::fs::create_dir_all(&dir).expect("a folder");
    let mut config = Config::default();
    config.journal.durability = "replicated".to_string();
    config.instruments.0[1].batch_ms = 1_000;
    let now = Clock::start(0).now();
    calendar(&mut config, now);
    let root = NodeEntry::new("root-1", "127.0.0.1", vec![NodeRole::Root]);
    let file = ClusterFile::new(&scratch.0.join("cluster.toml"), "day", now, vec![root]);
    let file = file.expect("a file");
    credentials::found(&file).expect("an authority");
    let keys = credentials::issue(&file, "root-1", DAYS).expect("certificates");
    let secret = RootSecret::read(&keys).and_then(|secret| secret.epoch(0)).expect("a secret");
    let cluster = Cluster {
        replicas: vec![sockets().place().expect("addresses")],
        ..Cluster::of((&file, &file.nodes[0]), &[], secret, &keys).expect("a group")
    };

    let seen = life(&config, &cluster, &dir, PATIENCE);
    let phase = |phase: Phase| (CommandKind::SetPhase, phase as u8);
    let steps: Vec<((CommandKind, u8), u16, u64)> = vec![
        ((CommandKind::ExpireOrders, 0), 0, 1),
        ((CommandKind::StartOfDay, 1), 0, 1),
        (phase(Phase::OpeningCall), 0, 2),
        (phase(Phase::Continuous), 0, 3),
        (phase(Phase::Batch), 2, 3),
        (phase(Phase::Halt), 0, 4),
        (phase(Phase::Continuous), 0, 5),
        (phase(Phase::Batch), 2, 5),
        (phase(Phase::ClosingCall), 0, 6),
        (phase(Phase::Closed), 0, 7),
        ((CommandKind::EndOfDay, 0), 0, 8),
    ];
    let what = |seen: &[(CommandKind, u8, u16, Nanos)]| -> Vec<((CommandKind, u8), u16)> {
        seen.iter().map(|(kind, param, instrument, _)| ((*kind, *param), *instrument)).collect()
    };
    let expected: Vec<_> = steps.iter().map(|(what, instrument, _)| (*what, *instrument)).collect();
    assert_eq!(what(&seen), expected);
    let second = now.0 - now.0 % Nanos::SECOND;
    for ((what, _, after), (.., at)) in steps.iter().zip(&seen) {
        assert!(at.0 >= second + after * Nanos::SECOND, "{what:?} before its time");
    }

    // The next start finds the day done.
    let again = life(&config, &cluster, &dir, Duration::from_secs(2));
    assert_eq!(what(&again), expected);
}
