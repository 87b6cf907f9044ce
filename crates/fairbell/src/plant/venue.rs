//! A venue of ours as the plant's lines: its feed heard from two edges, as a participant hears it.
//!
//! Each side is a session at an edge's subscription door. When one ends, its door is asked again and
//! again, then a spare edge, if there are any; the other side goes on meanwhile, and what both lacked is
//! repaired.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use feed::plant::{StreamHealth, VenueFeed};
use feed::{CatchUpConfig, ListenerConfig};
use host::failure::Failure;
use host::sockets::{ANYWHERE, io, udp_anywhere};
use host::subscriber::{Session, hear};
use net::{ClientTls, Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr};
use serde_json::{Value, json};
use types::{Channel, Nanos, NodeId, Side};
use wire::moldudp;
use wire::subscription::{Subscribed, Way};

use super::outlet::Outlet;
use super::serve::ServeArgs;
use super::{now, wait};
use crate::options::TlsArgs;
use crate::report::numbers::grouped;

/// Options of `fairbell feed serve` for a venue of ours.
#[derive(Args, Clone, Debug, Default)]
pub struct VenueArgs {
    /// Subscription door of an edge: the first is side A, the second side B, further ones are spare
    #[arg(id = "venues", long = "venue", value_name = "HOST:PORT", requires = "login")]
    pub venues: Vec<String>,
    /// Credentials at the doors
    #[arg(long, value_name = "USER:PASSWORD", requires = "venues")]
    pub login: Option<String>,
    /// TLS with the doors.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Where to hear the feed of each side; port 0 takes a free one [default: 0.0.0.0:0]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "venues", num_args = 1)]
    pub listen: Vec<SocketAddr>,
    /// Have it sent to this multicast group of the edge instead; again for side B
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "venues",
        conflicts_with = "listen",
        num_args = 1
    )]
    pub group: Vec<SocketAddr>,
}

/// The node of the feed.
const PLANT: NodeId = NodeId(60_003);
/// The socket of each side.
const SIDES: [Channel; 2] = [Channel::FEED, Channel(2)];
/// Between two attempts to subscribe.
const RETRY: Duration = Duration::from_millis(500);
/// Between two lines of print.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Attempts at the own door before a spare one is asked.
const OWN_ATTEMPTS: usize = 3;

/// A door, and how to get in.
struct Doors {
    places: Vec<SocketAddr>,
    user: String,
    password: String,
    tls: Option<ClientTls>,
    /// Which of `places` each side has or asks.
    held: Mutex<[Option<usize>; 2]>,
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Doors {
    /// Takes the door that is the side's turn: its own first, then the spare ones.
    fn turn(&self, side: usize, attempt: usize) -> SocketAddr {
        let mut held = locked(&self.held);
        let other = held.get(1 - side).copied().flatten();
        let spare = self.places.len().saturating_sub(2);
        let place = match attempt.checked_sub(OWN_ATTEMPTS) {
            Some(later) if spare > 0 => match later % (spare + 1) {
                0 => side,
                spare => spare + 1,
            },
            _ => side,
        };
        // Two sides of one edge would be one.
        let place = if other == Some(place) { side } else { place };
        if let Some(held) = held.get_mut(side) {
            *held = Some(place);
        }
        self.places.get(place).copied().unwrap_or(ANYWHERE)
    }

    fn open(&self, at: SocketAddr) -> Result<Session, Failure> {
        Session::open(at, (&self.user, &self.password), self.tls.as_ref())
    }
}

/// How a side is subscribed to.
struct Route {
    group: Option<SocketAddr>,
    /// Where it is heard.
    port: u16,
}

impl Route {
    fn subscribe(&self, session: &mut Session) -> Result<Subscribed, Failure> {
        match self.group {
            Some(group) => session.subscribe(Way::Group, group),
            None => {
                let to = SocketAddr::new(session.local(), self.port);
                session.subscribe(Way::Unicast, to)
            }
        }
    }
}

/// What the lines are told at their start.
fn settings(args: &ServeArgs, told: &[&Subscribed]) -> ListenerConfig {
    let mut settings = ListenerConfig::new(moldudp::Session([b' '; 10]), Vec::new(), Vec::new());
    let mut snapshots = Vec::new();
    for told in told {
        for at in &told.repair {
            let server = peer_addr(*at);
            if !settings.servers.contains(&server) {
                settings.servers.push(server);
            }
        }
        for at in &told.snapshots {
            let server = peer_addr(*at);
            if !snapshots.contains(&server) {
                snapshots.push(server);
            }
        }
    }
    settings.orders_max = 1 << 20;
    settings.reorder_max = 1 << 14;
    // First the other side has its time.
    settings.request_delay_ns = args.wait_us.saturating_mul(1_000);
    if let Some(first) = snapshots.first() {
        let mut catch_up = CatchUpConfig::new(*first);
        catch_up.servers = snapshots;
        settings.catch_up = Some(catch_up);
    }
    settings
}

/// Runs `fairbell feed serve --venue`.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let of = &args.venue;
    let login = of.login.as_deref().unwrap_or_default();
    let (user, password) = login
        .split_once(':')
        .ok_or_else(|| Failure::Usage("--login: write USER:PASSWORD".to_string()))?;
    let places = of.venues.iter().map(|text| crate::load::resolve(text));
    let doors = Doors {
        places: places.collect::<Result<_, Failure>>()?,
        user: user.to_string(),
        password: password.to_string(),
        tls: of.tls.client(of.venues.first().map_or("", String::as_str))?,
        held: Mutex::new([None; 2]),
    };
    let sides = doors.places.len().min(2);
    let (mut sessions, mut sockets, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    let mut told: Vec<Option<Subscribed>> = Vec::new();
    let mut refused = None;
    for (side, channel) in (0..sides).zip(SIDES) {
        let session = doors.open(doors.turn(side, 0));
        let local = session.as_ref().map_or(ANYWHERE.ip(), Session::local);
        let group = of.group.get(side).or(of.group.first()).copied();
        let listen = of.listen.get(side).copied();
        // One group for both sides is one socket.
        let shared = side > 0 && group.is_some() && of.group.len() < 2;
        let port = match shared {
            true => 0,
            false => {
                let socket = match listen {
                    None if group.is_none() => udp_anywhere(),
                    listen => hear(listen.unwrap_or(ANYWHERE), group, local),
                };
                let socket = socket.map_err(io)?;
                let port = socket.local_addr().map_err(io)?.port();
                sockets.push((channel, socket));
                port
            }
        };
        let way = Route { group, port };
        let subscribed = session.and_then(|mut session| {
            let told = way.subscribe(&mut session)?;
            Ok((session, told))
        });
        ways.push(way);
        match subscribed {
            Ok((session, answer)) => {
                sessions.push(Some(session));
                told.push(Some(answer));
            }
            Err(why) => {
                sessions.push(None);
                told.push(None);
                refused = Some(why);
            }
        }
    }
    let there: Vec<&Subscribed> = told.iter().flatten().collect();
    let Some(first) = there.first() else {
        return Err(refused.unwrap_or_else(|| Failure::Usage("--venue: none".to_string())));
    };
    if let Some(why) = refused {
        eprintln!("fairbell: {why}; asked again");
    }
    let names = names(first);
    if there.iter().any(|other| self::names(other) != names) {
        let why = "the edges tell of different sessions: they are not of one venue".to_string();
        return Err(Failure::Usage(why));
    }
    let epoch = now();
    let outlet = Arc::new(Mutex::new(Outlet::open(&args.outlet(), epoch)?));
    let channels = names.iter().map(|name| (moldudp::Session(*name), Vec::new()));
    let silence = (Nanos(Nanos::SECOND), Nanos(args.quiet_ms.saturating_mul(Nanos::MILLI)));
    let mut feed = VenueFeed::new(&settings(args, &there), channels, silence, epoch);
    for (side, told) in told.iter().enumerate() {
        feed.set_side(side, told.as_ref().map(|told| peer_addr(told.from)));
    }
    let habits =
        LoopConfig { wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 }, ..LoopConfig::default() };
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), habits).map_err(io)?;
    of.add_node(PLANT, feed, sockets, None).map_err(io)?;
    let updates = Arc::new(AtomicU64::new(0));
    let (mut new, to, count) = (Vec::new(), Arc::clone(&outlet), Arc::clone(&updates));
    of.after_each_call(move |feed: &mut VenueFeed| {
        feed.take_updates(&mut new);
        if !new.is_empty() {
            count.fetch_add(new.len() as u64, Ordering::Relaxed);
            locked(&to).publish(&mut new);
        }
    });
    let interrupted = crate::options::interrupted()?;
    let (handle, over) = (of.handle(), AtomicBool::new(false));
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    if !args.json {
        let sides: Vec<String> = told
            .iter()
            .zip(&doors.places)
            .map(|(told, at)| told.as_ref().map_or(format!("{at} (not yet)"), |_| at.to_string()))
            .collect();
        let streams: Vec<String> =
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        println!("{} from {}, requests to {}", streams.join(", "), sides.join(" and "), args.desk);
    }
    let plant = Plant { args, handle, outlet: &outlet, updates: &updates, names: &names };
    let over = &over;
    thread::scope(|scope| {
        let running =
            scope.spawn(move || of.run(over, Duration::from_secs(3_600), |_, _| {}).map(drop));
        for (side, (session, way)) in sessions.into_iter().zip(ways).enumerate() {
            let (plant, doors) = (&plant, &doors);
            scope.spawn(move || plant.hold(side, session, &way, doors, over));
        }
        let wanted = || {
            !interrupted.load(Ordering::Relaxed)
                && until.is_none_or(|until| Instant::now() < until)
                && !running.is_finished()
        };
        let last = plant.keep(&wanted);
        over.store(true, Ordering::Relaxed);
        let ran = running.join().map_err(|_| Failure::Run("the plant panicked".to_string()))?;
        let finished = locked(&outlet).finish();
        plant.print(last.as_ref(), true);
        ran.map_err(io)?;
        finished
    })
}

fn names(told: &Subscribed) -> Vec<[u8; 10]> {
    told.streams.iter().map(|(name, _)| *name).collect()
}

/// A book as it stands.
#[derive(Clone, Debug)]
struct Book {
    symbol: String,
    line: usize,
    bid: Option<feed::Level>,
    offer: Option<feed::Level>,
    digest: u64,
}

/// Lines and books at a time.
#[derive(Clone, Debug)]
struct Seen {
    streams: Vec<StreamHealth>,
    books: Vec<Book>,
    resting: usize,
}

impl Seen {
    fn of(feed: &VenueFeed) -> Seen {
        let (mut books, mut resting) = (Vec::new(), 0);
        for (line, client) in feed.subscriber().channels().iter().enumerate() {
            let image = client.image();
            resting += image.resting();
            books.extend(image.instruments().map(|(id, symbol)| Book {
                symbol: symbol.to_string(),
                line,
                bid: image.best(id, Side::Buy),
                offer: image.best(id, Side::Sell),
                digest: image.digest(id),
            }));
        }
        Seen { streams: feed.health(), books, resting }
    }
}

struct Plant<'a> {
    args: &'a ServeArgs,
    handle: LoopHandle<VenueFeed>,
    outlet: &'a Mutex<Outlet>,
    updates: &'a AtomicU64,
    names: &'a [[u8; 10]],
}

impl Plant<'_> {
    /// Keeps a side subscribed until the end.
    fn hold(
        &self,
        side: usize,
        mut session: Option<Session>,
        way: &Route,
        doors: &Doors,
        over: &AtomicBool,
    ) {
        let name = if side == 0 { "A" } else { "B" };
        let mut attempt = 0;
        while !over.load(Ordering::Relaxed) {
            if let Some(open) = &mut session {
                let Err(why) = open.turn() else { continue };
                eprintln!("fairbell: side {name}: {why}");
                session = None;
                attempt = 0;
                self.set(side, None);
            }
            let at = doors.turn(side, attempt);
            attempt += 1;
            let opened = doors.open(at).and_then(|mut session| {
                let told = way.subscribe(&mut session)?;
                Ok((session, told))
            });
            match opened {
                Ok((_, told)) if names(&told) != self.names => {
                    eprintln!("fairbell: side {name}: {at} tells of other sessions");
                }
                Ok((open, told)) => {
                    eprintln!("fairbell: side {name}: from {at}");
                    self.set(side, Some(told.from));
                    session = Some(open);
                    continue;
                }
                Err(why) if attempt == 1 => eprintln!("fairbell: side {name}: {why}; asked again"),
                Err(_) => {}
            }
            thread::sleep(RETRY);
        }
        if let Some(session) = session {
            session.leave();
        }
    }

    fn set(&self, side: usize, source: Option<SocketAddr>) {
        let source = source.map(peer_addr);
        // The loop runs: it takes the call.
        let _ = self.handle.call(PLANT, move |feed: &mut VenueFeed, _, _| {
            feed.set_side(side, source);
        });
    }

    fn seen(&self) -> Option<Seen> {
        let (to, from) = sync_channel(1);
        let asked = self.handle.call(PLANT, move |feed: &mut VenueFeed, _, _| {
            let _ = to.try_send(Seen::of(feed));
        });
        asked.ok().and_then(|()| from.recv_timeout(LINE_EVERY).ok())
    }

    /// Requests of subscribers, and a line a second, until the end; how everything stood then.
    fn keep(&self, wanted: &impl Fn() -> bool) -> Option<Seen> {
        let socket = locked(self.outlet).socket.try_clone();
        let mut shown = Instant::now();
        while wanted() {
            match &socket {
                Ok(socket) => wait(std::iter::once(socket), Duration::from_millis(50)),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
            locked(self.outlet).keep();
            if shown.elapsed() >= LINE_EVERY {
                shown = Instant::now();
                if !self.args.json {
                    self.print(self.seen().as_ref(), false);
                }
            }
        }
        self.seen()
    }

    fn print(&self, seen: Option<&Seen>, last: bool) {
        let Some(seen) = seen else { return };
        match (self.args.json, last) {
            (true, _) => println!("{:#}", self.json(seen)),
            (false, false) => self.line(seen),
            (false, true) => self.table(seen),
        }
    }

    fn line(&self, seen: &Seen) {
        let sum = |pick: fn(&StreamHealth) -> u64| seen.streams.iter().map(pick).sum::<u64>();
        println!(
            "{} messages, {} gaps, {} asked for, {} snapshots, {} updates; {} orders rest",
            grouped(sum(|of| of.counters.messages)),
            grouped(sum(|of| of.counters.gaps)),
            grouped(sum(|of| of.counters.requests)),
            sum(|of| of.catch_up.loaded),
            grouped(self.updates.load(Ordering::Relaxed)),
            grouped(seen.resting as u64),
        );
    }

    fn table(&self, seen: &Seen) {
        println!(
            "{:<10} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}",
            "session",
            "messages",
            "lost",
            "A first",
            "B first",
            "A missing",
            "B missing",
            "repaired",
            "B us",
            "snapshots"
        );
        for of in &seen.streams {
            let [a, b] = of.sides;
            println!(
                "{:<10} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8.1} {:>9}{}",
                String::from_utf8_lossy(&of.session.0),
                of.counters.messages,
                of.catch_up.skipped,
                a.first,
                b.first,
                a.missing,
                b.missing,
                of.counters.repaired,
                b.behind_sum as f64 / b.behind_count.max(1) as f64 / 1e3,
                of.catch_up.loaded,
                if of.stale { "  stale" } else { "" },
            );
        }
        let side = |level: &Option<feed::Level>| {
            level.map_or("-".to_string(), |level| format!("{} x {}", level.price, level.qty))
        };
        for book in &seen.books {
            println!("{:<10} {} / {}", book.symbol, side(&book.bid), side(&book.offer));
        }
        let outlet = locked(self.outlet);
        let counters = outlet.desk.counters();
        println!(
            "{} updates, {} in the ring, {} in {} datagrams to subscribers, {} not sent",
            self.updates.load(Ordering::Relaxed),
            outlet.written(),
            counters.updates,
            counters.datagrams,
            outlet.unsent,
        );
        if let Some(line) = outlet.ticks_line() {
            println!("{line}");
        }
    }

    fn json(&self, seen: &Seen) -> Value {
        let stream = |of: &StreamHealth| {
            let counters = of.counters;
            let side = |side: usize| {
                let of = of.sides.get(side).copied().unwrap_or_default();
                json!({ "packets": of.packets, "first": of.first, "missing": of.missing,
                        "reordered": of.reordered, "dead": of.stale,
                        "behind_us": of.behind_sum as f64 / of.behind_count.max(1) as f64 / 1e3 })
            };
            json!({
                "session": String::from_utf8_lossy(&of.session.0), "next": of.next,
                "messages": counters.messages, "packets": counters.packets, "gaps": counters.gaps,
                "requests": counters.requests, "repaired": counters.repaired,
                "duplicates": counters.duplicates, "foreign": counters.foreign,
                "malformed": counters.malformed, "parse_errors": counters.parse_errors,
                "image_errors": counters.image_errors, "snapshots": of.catch_up.loaded,
                "never_heard": of.catch_up.skipped, "first": of.joined.map(|joined| joined.first.0),
                "stale": of.stale, "ended": of.ended, "a": side(0), "b": side(1),
            })
        };
        let level = |level: &Option<feed::Level>| {
            level.map(|level| {
                json!({ "price": level.price.to_string(), "lots": level.qty.0,
                        "orders": level.orders })
            })
        };
        let book = |book: &Book| {
            json!({ "symbol": book.symbol, "line": book.line, "bid": level(&book.bid),
                    "offer": level(&book.offer), "digest": format!("{:016x}", book.digest) })
        };
        let outlet = locked(self.outlet);
        let counters = outlet.desk.counters();
        json!({
            "streams": seen.streams.iter().map(stream).collect::<Vec<_>>(),
            "books": seen.books.iter().map(book).collect::<Vec<_>>(),
            "orders": seen.resting,
            "updates": self.updates.load(Ordering::Relaxed),
            "ring_records": outlet.written(),
            "desk": {"requests": counters.requests, "refused": counters.refused,
                     "expired": counters.expired, "datagrams": counters.datagrams,
                     "updates": counters.updates, "unsent": outlet.unsent},
            "ticks": outlet.ticks_json(),
        })
    }
}
