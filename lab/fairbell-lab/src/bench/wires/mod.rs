//! `fairbell-lab bench pingpong` and `bench rate`: what the exchange's transports cost, on its own loop.
//!
//! Caller and receivers are nodes on loops of their own threads over loopback. Both commands go
//! through every transport and size in turn; the same two ends measure all of them.

mod node;

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use net::{
    ClientTls, Clients, Clock, Directory, Identity, Loop, LoopConfig, ServerTls, WaitStrategy,
    peer_addr,
};
use serde_json::{Value, json};
use telemetry::{LatencySummary, Recorder};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer};

use host::failure::Failure;
use host::sockets::io;
use node::{Answerer, Caller, Terms, Transport};

const CALLER: NodeId = NodeId(1);
const FIRST_RECEIVER: u16 = 2;
/// Largest message: with its sealing it fills a datagram.
const SIZE_MAX: usize = 1_400;

/// Options of `fairbell-lab bench pingpong`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench pingpong                              every transport, 8 to 1400 bytes\n  \
    fairbell-lab bench pingpong --transport sealed --size 256 --time 10s --json")]
pub struct PingpongArgs {
    /// What is measured
    #[command(flatten)]
    pub common: WiresArgs,
}

/// Options of `fairbell-lab bench rate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench rate                                  every transport and size, one receiver\n  \
    fairbell-lab bench rate --transport udp --receivers 2 --json")]
pub struct RateArgs {
    /// What is measured
    #[command(flatten)]
    pub common: WiresArgs,
    /// Who gets every message
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=2))]
    pub receivers: u16,
}

/// Options of both.
#[derive(Args, Clone, Debug)]
pub struct WiresArgs {
    /// Transports, several times for several [default: all]
    #[arg(long = "transport", value_name = "NAME")]
    pub transports: Vec<Transport>,
    /// Bytes of a message, several times for several [default: 8, 64, 256, 1024, 1400]
    #[arg(long = "size", value_name = "BYTES", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Time for each transport and size
    #[arg(long, value_name = "TIME", value_parser = fairbell::options::duration, default_value = "1s")]
    pub time: Duration,
    /// Look again and again instead of sleeping; for machines with a core per thread
    #[arg(long)]
    pub spin: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| (8..=SIZE_MAX).contains(size));
    size.ok_or_else(|| format!("8 to {SIZE_MAX} bytes"))
}

/// Measures and prints round trips.
///
/// # Errors
/// No sockets.
pub fn pingpong(args: &PingpongArgs) -> Result<(), Failure> {
    all(&args.common, true, 1)
}

/// Measures and prints rates.
///
/// # Errors
/// No sockets.
pub fn rate(args: &RateArgs) -> Result<(), Failure> {
    all(&args.common, false, args.receivers)
}

/// Median and 99th percentile of a datagram's round trips between loops that look again and again, ns.
///
/// # Errors
/// No sockets.
pub(crate) fn round_trip(size: usize, time: Duration) -> Result<[f64; 2], Failure> {
    let found = measure(Terms::of_datagrams(size, true, time), 1, true)?;
    Ok([found.round_trips.p50, found.round_trips.p99].map(|ns| ns as f64))
}

/// Datagrams that each receiver gets in a second, and median and 99th percentile of the time between two, ns.
///
/// # Errors
/// No sockets.
pub(crate) fn stream(size: usize, receivers: u16, time: Duration) -> Result<[f64; 3], Failure> {
    let found = measure(Terms::of_datagrams(size, false, time), receivers, false)?;
    Ok([found.rate(), found.gaps.p50 as f64, found.gaps.p99 as f64])
}

/// Either end.
enum End {
    Caller(Box<Caller>),
    Answerer(Box<Answerer>),
}

impl End {
    fn node(&mut self) -> &mut dyn Node {
        match self {
            End::Caller(node) => node.as_mut(),
            End::Answerer(node) => node.as_mut(),
        }
    }
}

impl Node for End {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.node().handle_datagram(now, channel, from, bytes, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.node().handle_timeout(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        match self {
            End::Caller(node) => node.next_timeout(),
            End::Answerer(node) => node.next_timeout(),
        }
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.node().handle_connect(now, conn, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.node().handle_stream(now, conn, bytes, out);
    }
}

/// What one measurement found.
struct Found {
    terms: Terms,
    receivers: u16,
    sent: u64,
    received: u64,
    /// By the receiver that took longest.
    span_ns: u64,
    round_trips: LatencySummary,
    gaps: LatencySummary,
}

impl Found {
    /// Messages each receiver got in a second.
    fn rate(&self) -> f64 {
        let each = self.received as f64 / f64::from(self.receivers);
        each * 1e9 / self.span_ns.max(1) as f64
    }
}

fn all(args: &WiresArgs, pingpong: bool, receivers: u16) -> Result<(), Failure> {
    let every = [Transport::Udp, Transport::Sealed, Transport::Tcp, Transport::Tls];
    let transports = if args.transports.is_empty() { &every[..] } else { &args.transports };
    let sizes = if args.sizes.is_empty() { &[8, 64, 256, 1_024, 1_400][..] } else { &args.sizes };
    let duration_ns = u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX / 4);
    let (mut documents, mut last) = (Vec::new(), None);
    for &transport in transports {
        for &size in sizes {
            let terms = Terms { transport, size, pingpong, duration_ns };
            let found = measure(terms, receivers, args.spin)?;
            if args.json {
                documents.push(document(&found));
                continue;
            }
            if last != Some(transport) {
                heading(pingpong);
            }
            last = Some(transport);
            line(&found);
        }
    }
    if args.json {
        let name = if pingpong { "pingpong" } else { "rate" };
        println!("{:#}", json!({ "bench": name, "spin": args.spin, "measurements": documents }));
    }
    Ok(())
}

fn heading(pingpong: bool) {
    if pingpong {
        println!("transport bytes  round trips       p50       p99     p99.9 us");
    } else {
        println!("transport bytes receivers   messages/s     lost   between two: p50      p99 us");
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn line(found: &Found) {
    let (name, size) = (found.terms.transport.name(), found.terms.size);
    if found.terms.pingpong {
        let LatencySummary { count, p50, p99, p999, .. } = found.round_trips;
        let (p50, p99, p999) = (us(p50), us(p99), us(p999));
        println!("{name:<9} {size:>5} {count:>12} {p50:>9.2} {p99:>9.2} {p999:>9.2}");
    } else {
        let (receivers, rate) = (found.receivers, found.rate());
        let lost = found.sent.saturating_sub(found.received);
        let (p50, p99) = (us(found.gaps.p50), us(found.gaps.p99));
        println!(
            "{name:<9} {size:>5} {receivers:>9} {rate:>12.0} {lost:>8} {p50:>18.2} {p99:>8.2}"
        );
    }
}

fn document(found: &Found) -> Value {
    let summary = |s: &LatencySummary| {
        json!({ "count": s.count, "min_ns": s.min, "p50_ns": s.p50, "p90_ns": s.p90,
                "p99_ns": s.p99, "p999_ns": s.p999, "max_ns": s.max })
    };
    let mut document = json!({
        "transport": found.terms.transport.name(),
        "size_bytes": found.terms.size,
        "receivers": found.receivers,
        "sent": found.sent,
        "received": found.received,
    });
    if found.terms.pingpong {
        document["round_trip"] = summary(&found.round_trips);
    } else {
        document["messages_per_s"] = json!(found.rate());
        document["between_two"] = summary(&found.gaps);
    }
    document
}

/// A receiver's address, and what it listens on.
struct Place {
    sockets: Vec<(Channel, UdpSocket)>,
    listener: Option<TcpListener>,
    at: Peer,
}

fn place(transport: Transport) -> Result<Place, Failure> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let (sockets, listener, at) = if transport.is_stream() {
        let listener = TcpListener::bind(any).map_err(io)?;
        let at = listener.local_addr().map_err(io)?;
        (Vec::new(), Some(listener), at)
    } else {
        let socket = UdpSocket::bind(any).map_err(io)?;
        let at = socket.local_addr().map_err(io)?;
        (vec![(Channel(0), socket)], None, at)
    };
    Ok(Place { sockets, listener, at: peer_addr(at) })
}

/// Both ends' TLS, under an authority of this measurement.
fn tls() -> Result<(ServerTls, ClientTls), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(error.to_string());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]);
    let made = made.map_err(|error| failed(&error))?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity { chain: chain.as_bytes(), key: key.as_bytes() };
    let server = ServerTls::new(identity, Clients::Any).map_err(|error| failed(&error))?;
    let client = ClientTls::new(chain.as_bytes(), "localhost", None);
    Ok((server, client.map_err(|error| failed(&error))?))
}

fn measure(terms: Terms, receivers: u16, spin: bool) -> Result<Found, Failure> {
    let wait = match spin {
        true => WaitStrategy::default(),
        false => WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
    };
    let clock = Clock::start(0);
    let habits = LoopConfig { wait, ..LoopConfig::default() };
    let host = || Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io);
    let tls = (terms.transport == Transport::Tls).then(tls).transpose()?;
    let mut loops = Vec::new();
    let mut addresses = Vec::new();
    for number in 0..receivers {
        let (mut of, place) = (host()?, place(terms.transport)?);
        let id = NodeId(FIRST_RECEIVER + number);
        let node = End::Answerer(Box::new(Answerer::new(terms, number)));
        of.add_node(id, node, place.sockets, place.listener).map_err(io)?;
        if let Some((server, _)) = &tls {
            of.secure_door(id, 0, server.clone());
        }
        addresses.push(place.at);
        loops.push(of);
    }
    let mut of = host()?;
    let own = match terms.transport.is_stream() {
        true => Vec::new(),
        false => place(terms.transport)?.sockets,
    };
    of.add_node(CALLER, End::Caller(Box::new(Caller::new(terms, &addresses))), own, None)
        .map_err(io)?;
    if let Some((_, client)) = tls {
        of.secure_outgoing(CALLER, client);
    }
    loops.push(of);
    run(terms, receivers, loops)
}

fn run(terms: Terms, receivers: u16, loops: Vec<Loop<End>>) -> Result<Found, Failure> {
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let ended = thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let host = |of: Loop<End>| {
            move || {
                of.run(stop, Duration::from_millis(10), |of, _| {
                    let over = |(_, end): (NodeId, &End)| {
                        matches!(end, End::Caller(caller) if caller.is_done())
                    };
                    if of.nodes().any(over) {
                        done.store(true, Ordering::Relaxed);
                    }
                })
            }
        };
        let threads: Vec<_> = loops.into_iter().map(|of| scope.spawn(host(of))).collect();
        let tries = (terms.duration_ns + 10 * Nanos::SECOND) / (5 * Nanos::MILLI);
        for _ in 0..tries {
            if done.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let mut ended = Vec::new();
        for thread in threads {
            let panicked = |_| Failure::Run("a thread of the measurement panicked".to_string());
            ended.extend(thread.join().map_err(panicked)?.map_err(io)?);
        }
        Ok::<_, Failure>(ended)
    })?;
    let mut found = Found {
        terms,
        receivers,
        sent: 0,
        received: 0,
        span_ns: 0,
        round_trips: LatencySummary::default(),
        gaps: LatencySummary::default(),
    };
    let mut gaps = Recorder::new();
    for (_, end) in ended {
        match end {
            End::Caller(caller) => {
                found.sent = caller.sent();
                found.round_trips = caller.latencies.summary();
            }
            End::Answerer(answerer) => {
                found.received += answerer.count;
                found.span_ns = found.span_ns.max(answerer.span_ns());
                gaps.merge(&answerer.gaps);
            }
        }
    }
    found.gaps = gaps.summary();
    if found.received == 0 {
        let name = terms.transport.name();
        return Err(Failure::Run(format!("{name}: no message came through")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_transport_come_through() {
        for transport in [Transport::Udp, Transport::Sealed, Transport::Tcp, Transport::Tls] {
            for (pingpong, receivers, size) in [(true, 1, 1_400), (false, 1, 8), (false, 2, 256)] {
                let terms = Terms { transport, size, pingpong, duration_ns: 30 * Nanos::MILLI };
                let found = measure(terms, receivers, false).expect("sockets");
                let context = format!("{transport:?} {pingpong} {receivers}");
                assert!(found.received > 0 && found.received <= found.sent, "{context}");
                // The first byte of a message says nothing to the loop.
                assert!(!pingpong || found.sent - found.received <= 2, "{context}");
                assert_eq!(found.round_trips.count > 0, pingpong, "{context}");
                if transport.is_stream() {
                    assert!(found.sent - found.received <= 1_024, "{context}");
                }
            }
        }
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!((size("8"), size("1400")), (Ok(8), Ok(1_400)));
        assert!(["7", "1401", "x", ""].iter().all(|text| size(text).is_err()));
    }
}
