//! `fairbell subscribe`: follows a venue's feed as a participant does, from an edge of its choice.
//!
//! A session at the edge's subscription door has the feed sent here; a listener builds the books and
//! repairs what the network lost. When the session ends the next edge is asked, and the books go on.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use feed::{CatchUpConfig, ListenerConfig, ListenerCounters, Subscriber};
use host::failure::Failure;
use host::feed_ring::{self, RingCounters, RingListener};
use host::sockets::{ANYWHERE, io, udp_anywhere};
use host::subscriber::{Session, hear};
use net::packet_ring::PacketRingReader;
use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr};
use serde_json::{Value, json};
use types::{Channel, FeedSeq, NodeId, Peer, Side};
use wire::moldudp;
use wire::subscription::{EdgeLoad, NOWHERE, NOWHERE_V6, Subscribed, Way};

use crate::options::{TlsArgs, duration};
use crate::report::numbers;

/// Options of `fairbell subscribe`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell subscribe --address edge-1:7014 --tls --ca authority.pem --server-name lab --login TEST01:PASSWORD\n  \
    fairbell subscribe --address edge-1:7014 --address edge-2:7014 ... --listen 0.0.0.0:7100 --json\n  \
    fairbell subscribe --address edge-1:7014 ... --group 239.1.1.3:7100\n  \
    fairbell subscribe --address 127.0.0.1:7014 ... --ring   on the edge's machine, from shared memory\n  \
    fairbell subscribe --address edge-1:7014 ... --edges     only name the edges, least loaded first\n\n\
    A line a second and the books at the end; Ctrl-C ends it. Exit code 1: refused, or no edge is left.")]
pub struct SubscribeArgs {
    /// Subscription door of an edge; again for further ones, asked in turn when one is lost
    #[arg(long = "address", value_name = "HOST:PORT", required = true)]
    pub addresses: Vec<String>,
    /// Credentials
    #[arg(long, value_name = "USER:PASSWORD")]
    pub login: String,
    /// TLS with the doors.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Where to hear the feed, of the door's version of IP; port 0 takes a free one. Without it a free
    /// port of every address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Have it sent to this multicast group of the edge instead
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "listen")]
    pub group: Option<SocketAddr>,
    /// Read it from the edge's ring in shared memory instead; on the edge's machine only
    #[arg(long, conflicts_with = "group")]
    pub ring: bool,
    /// How long a ring that has nothing new is left alone
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "50us", requires = "ring")]
    pub poll: Duration,
    /// Begin with the next message: books lack what rests already
    #[arg(long)]
    pub from_now: bool,
    /// How long; until Ctrl-C without it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Only name the edges that take participants, least loaded first
    #[arg(long)]
    pub edges: bool,
    /// Print JSON: one document a second, and one at the end
    #[arg(long)]
    pub json: bool,
}

/// The listener's node.
const LISTENER: NodeId = NodeId(60_002);
/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Between two attempts to subscribe.
const RETRY: Duration = Duration::from_millis(500);
/// Attempts in a row that may fail once the feed has come.
const ATTEMPTS: usize = 20;

/// Subscribes and prints.
pub fn run(args: &SubscribeArgs) -> Result<(), Failure> {
    let (user, password) = args
        .login
        .split_once(':')
        .ok_or_else(|| Failure::Usage("--login: write USER:PASSWORD".to_string()))?;
    let places = args.addresses.iter().map(|text| crate::load::resolve(text));
    let places = places.collect::<Result<Vec<_>, Failure>>()?;
    let tls = args.tls.client(args.addresses.first().map_or("", String::as_str))?;
    let open = |at: SocketAddr| Session::open(at, (user, password), tls.as_ref());
    let first = first_of(&places, &open)?;
    if args.edges {
        let (age_ms, edges) = first.edges();
        print_edges(args.json, age_ms, edges);
        return Ok(());
    }
    follow(args, &places, first, &open)
}

/// A session at the first door that lets us in.
fn first_of(
    places: &[SocketAddr],
    open: &impl Fn(SocketAddr) -> Result<Session, Failure>,
) -> Result<Session, Failure> {
    let mut last = Failure::Usage("--address: none".to_string());
    for at in places {
        match open(*at) {
            Ok(session) => return Ok(session),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

fn print_edges(as_json: bool, age_ms: u16, edges: &[EdgeLoad]) {
    if as_json {
        let edge = |edge: &EdgeLoad| {
            let [ouch, fix, subscriptions] = edge.ports;
            json!({ "host": edge.host, "ouch": ouch, "fix": fix, "subscriptions": subscriptions,
                    "sessions": edge.sessions, "requests_per_s": edge.requests_per_s })
        };
        let edges: Vec<Value> = edges.iter().map(edge).collect();
        println!("{:#}", json!({ "age_ms": age_ms, "edges": edges }));
    } else if edges.is_empty() {
        println!("the edge knows nothing recent of others");
    } else {
        println!("least loaded first, {age_ms} ms ago:");
        for edge in edges {
            let [ouch, fix, subscriptions] = edge.ports;
            println!(
                "{}: OUCH {ouch}, FIX {fix}, subscriptions {subscriptions}; {} sessions, {} requests/s",
                edge.host, edge.sessions, edge.requests_per_s
            );
        }
    }
}

/// How the books and the stream stand.
#[derive(Clone, Default)]
struct Seen {
    next: Vec<u64>,
    counters: ListenerCounters,
    ring: RingCounters,
    snapshots: u64,
    resting: usize,
    books: Vec<(String, Option<feed::Level>, Option<feed::Level>)>,
    ended: bool,
}

impl Seen {
    fn of(listener: &RingListener) -> Seen {
        let subscriber = listener.subscriber();
        let mut seen = Seen {
            counters: subscriber.counters(),
            ring: listener.counters(),
            snapshots: subscriber.catch_up().loaded,
            ended: subscriber.ended(),
            ..Seen::default()
        };
        for channel in subscriber.channels() {
            let image = channel.image();
            seen.next.push(channel.next_seq().0);
            seen.resting += image.resting();
            let best = |id, side| image.best(id, side);
            let books = image.instruments().map(|(id, symbol)| {
                (symbol.to_string(), best(id, Side::Buy), best(id, Side::Sell))
            });
            seen.books.extend(books);
        }
        seen
    }

    fn line(&self) -> String {
        let side = |level: &Option<feed::Level>| {
            level.map_or("-".to_string(), |level| level.price.to_string())
        };
        let books: Vec<String> = self
            .books
            .iter()
            .map(|(symbol, bid, offer)| format!("{symbol} {}/{}", side(bid), side(offer)))
            .collect();
        let ListenerCounters { messages, gaps, repaired, .. } = self.counters;
        let late = match self.ring {
            RingCounters { attached: 0, .. } => String::new(),
            RingCounters { lost, .. } => format!(", {} lost in the ring", numbers::grouped(lost)),
        };
        format!(
            "{} messages, {} gaps, {} repaired, {} snapshots{late}; {} orders rest; {}",
            numbers::grouped(messages),
            numbers::grouped(gaps),
            numbers::grouped(repaired),
            self.snapshots,
            numbers::grouped(self.resting as u64),
            books.join("  ")
        )
    }

    fn json(&self, edge: SocketAddr, sessions: u64) -> Value {
        let side = |level: &Option<feed::Level>| {
            level.map(|level| {
                json!({ "price": level.price.to_string(), "lots": level.qty.0,
                                      "orders": level.orders })
            })
        };
        let book = |(symbol, bid, offer): &(String, Option<_>, Option<_>)| json!({ "symbol": symbol, "bid": side(bid), "offer": side(offer) });
        let of = &self.counters;
        json!({
            "edge": edge.to_string(), "subscriptions": sessions, "next": self.next,
            "packets": of.packets, "messages": of.messages, "gaps": of.gaps,
            "requests": of.requests, "repaired": of.repaired, "duplicates": of.duplicates,
            "foreign": of.foreign, "parse_errors": of.parse_errors,
            "image_errors": of.image_errors, "snapshots": self.snapshots,
            "ring_packets": self.ring.packets, "ring_lost": self.ring.lost,
            "rings": self.ring.attached,
            "orders": self.resting, "books": self.books.iter().map(book).collect::<Vec<_>>(),
            "ended": self.ended,
        })
    }
}

/// Who the feed of a subscription comes from.
fn source(told: &Subscribed) -> Peer {
    if told.way == Way::Ring { Peer::RING } else { peer_addr(told.from) }
}

/// A subscription as an edge has granted it.
struct Granted {
    told: Subscribed,
    ring: Option<PacketRingReader>,
}

/// What a listener of this subscription is told at its start.
fn settings(args: &SubscribeArgs, told: &Subscribed) -> ListenerConfig {
    let servers = told.repair.iter().map(|at| peer_addr(*at)).collect();
    let mut settings = ListenerConfig::new(moldudp::Session([b' '; 10]), servers, Vec::new());
    settings.sources = Some(vec![source(told)]);
    settings.orders_max = 1 << 20;
    if let Some(first) = told.snapshots.first() {
        let mut catch_up = CatchUpConfig::new(peer_addr(*first));
        catch_up.servers = told.snapshots.iter().map(|at| peer_addr(*at)).collect();
        settings.catch_up = Some(catch_up);
    }
    if args.from_now {
        // With one stream; with several each begins where it is heard first.
        settings.first = FeedSeq(told.streams.iter().map(|(_, next)| *next).min().unwrap_or(1));
        settings.catch_up = None;
    }
    settings
}

fn follow(
    args: &SubscribeArgs,
    places: &[SocketAddr],
    mut session: Session,
    open: &impl Fn(SocketAddr) -> Result<Session, Failure>,
) -> Result<(), Failure> {
    let socket = match args.listen {
        None if args.group.is_none() => udp_anywhere(),
        listen => hear(listen.unwrap_or(ANYWHERE), args.group, session.local()),
    };
    let socket = socket.map_err(io)?;
    let heard = socket.local_addr().map_err(io)?;
    let subscribe = |session: &mut Session| {
        let (own, at) = (session.local(), session.at());
        let hears_all = heard.ip() == Ipv6Addr::UNSPECIFIED;
        let told = match args.group {
            _ if args.ring && own.is_ipv6() => session.subscribe(Way::Ring, NOWHERE_V6),
            _ if args.ring => session.subscribe(Way::Ring, NOWHERE),
            Some(group) => session.subscribe(Way::Group, group),
            None if !hears_all && own.is_ipv6() != heard.is_ipv6() => {
                return Err(Failure::Usage(format!(
                    "--listen {}: the feed of {at} comes to {own}: listen at an address of that \
                     version of IP, or at [::], which is both",
                    heard.ip()
                )));
            }
            None => session.subscribe(Way::Unicast, SocketAddr::new(own, heard.port())),
        }?;
        let ring = told.ring.as_ref().map(feed_ring::open).transpose()?;
        Ok(Granted { told, ring })
    };
    let Granted { told, ring } = subscribe(&mut session)?;
    let channels: Vec<_> =
        told.streams.iter().map(|(name, _)| (moldudp::Session(*name), Vec::new())).collect();
    let subscriber = Subscriber::new(&settings(args, &told), channels);
    let poll_ns = u64::try_from(args.poll.as_nanos()).unwrap_or(u64::MAX);
    let mut listener = RingListener::new(subscriber, poll_ns);
    ring.into_iter().for_each(|ring| listener.attach(ring));
    let habits =
        LoopConfig { wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 }, ..LoopConfig::default() };
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), habits).map_err(io)?;
    of.add_node(LISTENER, listener, vec![(Channel::FEED, socket)], None).map_err(io)?;
    let (handle, over) = (of.handle(), AtomicBool::new(false));
    if !args.json {
        let to = told.ring.as_ref().map_or(told.to.to_string(), |ring| ring.path.clone());
        println!("{}: {to} from message {:?}", session.at(), first_messages(&told));
    }
    let interrupted = crate::options::interrupted()?;
    let until = args.duration.map(|time| Instant::now() + time);
    let wanted =
        || !interrupted.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until);
    thread::scope(|scope| {
        let running =
            scope.spawn(|| of.run(&over, Duration::from_secs(3_600), |_, _| {}).map(drop));
        let mut lines = Lines { args, handle: &handle, at: Instant::now(), sessions: 1 };
        let mut ended = Ok(());
        while wanted() && ended.is_ok() && !running.is_finished() {
            let turn = session.turn();
            lines.show(session.at(), false);
            if let Err(why) = turn {
                eprintln!("fairbell: {why}");
                ended = again(places, open, &subscribe, &wanted).map(|(other, granted)| {
                    lines.sessions += 1;
                    listen_to(&handle, granted);
                    session = other;
                });
            }
        }
        let at = session.at();
        session.leave();
        lines.show(at, true);
        over.store(true, Ordering::Relaxed);
        let ran = running.join().map_err(|_| Failure::Run("the listener panicked".to_string()))?;
        ran.map_err(io)?;
        ended
    })
}

fn first_messages(told: &Subscribed) -> Vec<u64> {
    told.streams.iter().map(|(_, next)| *next).collect()
}

/// Another subscription, at whichever edge lets us in; the first that failed is asked again at last.
fn again(
    places: &[SocketAddr],
    open: &impl Fn(SocketAddr) -> Result<Session, Failure>,
    subscribe: &impl Fn(&mut Session) -> Result<Granted, Failure>,
    wanted: &impl Fn() -> bool,
) -> Result<(Session, Granted), Failure> {
    let mut last = Failure::Run("interrupted".to_string());
    for at in places.iter().cycle().take(ATTEMPTS.max(places.len())) {
        if !wanted() {
            break;
        }
        let attempt = open(*at).and_then(|mut session| {
            let granted = subscribe(&mut session)?;
            Ok((session, granted))
        });
        match attempt {
            Ok(subscribed) => return Ok(subscribed),
            Err(failure) => last = failure,
        }
        thread::sleep(RETRY);
    }
    Err(last)
}

/// The feed comes from another edge now.
fn listen_to(handle: &LoopHandle<RingListener>, granted: Granted) {
    let source = source(&granted.told);
    // The loop runs: it takes the call.
    let _ = handle.call(LISTENER, move |listener: &mut RingListener, _, _| {
        listener.subscriber_mut().set_sources(vec![source]);
        granted.ring.into_iter().for_each(|ring| listener.attach(ring));
    });
}

/// A line a second.
struct Lines<'a> {
    args: &'a SubscribeArgs,
    handle: &'a LoopHandle<RingListener>,
    at: Instant,
    sessions: u64,
}

impl Lines<'_> {
    fn show(&mut self, edge: SocketAddr, last: bool) {
        if !last && self.at.elapsed() < LINE_EVERY {
            return;
        }
        self.at = Instant::now();
        let (to, from) = sync_channel(1);
        let asked = self.handle.call(LISTENER, move |listener: &mut RingListener, _, _| {
            let _ = to.try_send(Seen::of(listener));
        });
        let Some(seen) = asked.ok().and_then(|()| from.recv_timeout(LINE_EVERY).ok()) else {
            return;
        };
        match self.args.json {
            true => println!("{}", seen.json(edge, self.sessions)),
            false => println!("{}", seen.line()),
        }
    }
}
