//! The plant itself: loops that read lines, one that keeps the desk and deals lines to loops.
//!
//! Any loop may read any line; a line's lock keeps its packets in order while it changes hands. The
//! lines are dealt anew when the busiest loop has more than a fifth above its share.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use feed::ArbiterConfig;
use feed::plant::{Format, Line, LineConfig, LineHealth, Update, deal, imbalance};
use types::Nanos;

use super::outlet::{Outlet, OutletConfig};
use super::venue::VenueArgs;
use super::{LINES_MAX, line_address, listen, now, wait};
use host::failure::Failure;

/// Options of `fairbell feed serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell feed serve --ring /dev/shm/ticks            24 lines on 127.0.0.1, ports 16000 and 17000 on\n  \
    fairbell feed serve --a 233.43.202.1:45000 --b 233.43.202.129:46000 --format opra\n  \
    fairbell feed serve --lines 2 --loops 1 --seconds 10 --json --ticks /var/lib/ticks\n  \
    fairbell feed serve --venue edge-1:7014 --venue edge-2:7014 --tls --ca authority.pem --server-name lab \\\n      \
        --login TEST01:PASSWORD --ring /dev/shm/ticks --ticks /var/lib/ticks      a venue of ours")]
pub struct ServeArgs {
    /// Lines
    #[arg(long, value_name = "N", default_value_t = 24, conflicts_with = "venues",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(LINES_MAX)))]
    pub lines: u16,
    /// Where side A of the first line comes to; the other lines on the ports after it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:16000",
        conflicts_with = "venues"
    )]
    pub a: SocketAddr,
    /// The same for side B
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:17000",
        conflicts_with = "venues"
    )]
    pub b: SocketAddr,
    /// What the packets are
    #[arg(long, value_name = "FORMAT", default_value = "opra-fast-v2", conflicts_with = "venues")]
    pub format: PlantFormat,
    /// Hosts whose packets are taken; others are counted and dropped. Anybody's without it
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', conflicts_with = "venues")]
    pub from: Vec<IpAddr>,
    /// Threads that read lines
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "venues",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub loops: u16,
    /// Where subscribers ask for symbols
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18000")]
    pub desk: SocketAddr,
    /// Also publish to this ring in shared memory
    #[arg(long, value_name = "FILE")]
    pub ring: Option<PathBuf>,
    /// Updates for which the ring has room
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    pub ring_records: u64,
    /// How long to wait for the other side, in microseconds
    #[arg(long, value_name = "US", default_value_t = 10_000)]
    pub wait_us: u64,
    /// Silence of a line after which its prices are stale, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pub quiet_ms: u64,
    /// Write ticks to Parquet files in this folder, for `fairbell query ticks`
    #[arg(long, value_name = "DIR")]
    pub ticks: Option<PathBuf>,
    /// Ticks of a file
    #[arg(long, value_name = "N", default_value_t = 1 << 20, requires = "ticks",
          value_parser = clap::value_parser!(u32).range(1_000..))]
    pub tick_rows: u32,
    /// Files kept, the last ones; 0: all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "ticks")]
    pub tick_files: u32,
    /// A venue of ours instead of lines.
    #[command(flatten)]
    pub venue: VenueArgs,
    /// End after so many seconds; until interrupted without it
    #[arg(long, value_name = "S")]
    pub seconds: Option<u64>,
    /// Print one JSON document at the end
    #[arg(long)]
    pub json: bool,
}

/// What the packets of the lines are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantFormat {
    /// FAST for OPRA, version 2
    OpraFastV2,
    /// OPRA's binary blocks
    Opra,
}

impl ServeArgs {
    /// Where updates go.
    pub(super) fn outlet(&self) -> OutletConfig<'_> {
        OutletConfig {
            desk: self.desk,
            ring: self.ring.as_deref(),
            ring_records: self.ring_records,
            ticks: self.ticks.as_deref(),
            tick_rows: self.tick_rows as usize,
            tick_files: self.tick_files as usize,
        }
    }
}

/// A line, its sockets, and who reads it.
struct Seat {
    line: Mutex<Line>,
    sides: [UdpSocket; 2],
    owner: AtomicUsize,
    /// Messages so far.
    load: AtomicU64,
}

struct Plant {
    seats: Vec<Seat>,
    outlet: Mutex<Outlet>,
    /// Who may send; anybody when there is nobody.
    from: Vec<IpAddr>,
    /// Packets of others.
    foreign: AtomicU64,
    stop: AtomicBool,
    updates: AtomicU64,
}

/// A lock whose holder has panicked is not worth more panics.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packets of a side that are read before another one has its turn.
const TURN: usize = 32;
/// Between two looks at what a line waits for.
const POLL: Nanos = Nanos(500_000);

impl Plant {
    /// Reads the lines of one loop until the end.
    fn read(&self, owner: usize) {
        let mut bytes = vec![0; 2_048];
        let mut updates = Vec::new();
        let mut polled = Nanos(0);
        while !self.stop.load(Ordering::Relaxed) {
            let time = now();
            let due = time.0.saturating_sub(polled.0) >= POLL.0;
            if due {
                polled = time;
            }
            let mine =
                || self.seats.iter().filter(|seat| seat.owner.load(Ordering::Relaxed) == owner);
            let mut busy = false;
            for seat in mine() {
                let mut line = locked(&seat.line);
                for (side, socket) in seat.sides.iter().enumerate() {
                    for _ in 0..TURN {
                        let Ok((len, sender)) = socket.recv_from(&mut bytes) else { break };
                        busy = true;
                        if !self.from.is_empty() && !self.from.contains(&sender.ip().to_canonical())
                        {
                            self.foreign.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        line.packet(now(), side, bytes.get(..len).unwrap_or(&[]), &mut updates);
                    }
                }
                if due {
                    line.poll(time, &mut updates);
                }
                seat.load.store(line.load(), Ordering::Relaxed);
                // The line is still locked, so that its updates go out in order.
                self.publish(&mut updates);
            }
            if !busy {
                wait(mine().flat_map(|seat| &seat.sides), Duration::from_micros(500));
            }
        }
    }

    fn publish(&self, updates: &mut Vec<Update>) {
        if updates.is_empty() {
            return;
        }
        self.updates.fetch_add(updates.len() as u64, Ordering::Relaxed);
        locked(&self.outlet).publish(updates);
    }

    /// Requests, heartbeats, and the dealing of lines, until the end; how often lines were dealt anew.
    fn keep(&self, loops: usize, until: Option<Instant>, interrupted: &AtomicBool) -> u64 {
        let socket = locked(&self.outlet).socket.try_clone();
        let mut loads = self.loads();
        let (mut dealt, mut count) = (Instant::now(), 0);
        while !interrupted.load(Ordering::Relaxed) && until.is_none_or(|end| Instant::now() < end) {
            match &socket {
                Ok(socket) => wait(std::iter::once(socket), Duration::from_millis(50)),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
            locked(&self.outlet).keep();
            if dealt.elapsed() >= Duration::from_secs(1) {
                dealt = Instant::now();
                count += u64::from(self.balance(&mut loads, loops));
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        count
    }

    fn loads(&self) -> Vec<u64> {
        self.seats.iter().map(|seat| seat.load.load(Ordering::Relaxed)).collect()
    }

    /// Deals the lines anew by what they had to do since the last time, when that is worth it.
    fn balance(&self, before: &mut Vec<u64>, loops: usize) -> bool {
        let after = self.loads();
        let done: Vec<u64> =
            after.iter().zip(&*before).map(|(now, then)| now.saturating_sub(*then)).collect();
        *before = after;
        let owners = self.owners();
        let better = deal(&done, loops);
        let (was, is) = (imbalance(&done, &owners, loops), imbalance(&done, &better, loops));
        if done.iter().sum::<u64>() < 1_000 || was <= 1_200 || is + 50 > was {
            return false;
        }
        for (seat, owner) in self.seats.iter().zip(better) {
            seat.owner.store(owner, Ordering::Relaxed);
        }
        true
    }

    fn owners(&self) -> Vec<usize> {
        self.seats.iter().map(|seat| seat.owner.load(Ordering::Relaxed)).collect()
    }
}

fn plant(args: &ServeArgs, epoch: Nanos) -> Result<Plant, Failure> {
    let outlet = Outlet::open(&args.outlet(), epoch)?;
    let format = match args.format {
        PlantFormat::OpraFastV2 => Format::OpraFastV2,
        PlantFormat::Opra => Format::OpraBinary,
    };
    let wait = Nanos(args.wait_us.saturating_mul(1_000));
    let config = LineConfig {
        format,
        arbiter: ArbiterConfig { wait, ..ArbiterConfig::default() },
        quiet: Nanos(args.quiet_ms.saturating_mul(1_000_000)),
        series_max: 1 << 20,
    };
    let seat = |number: u16, owner: usize| {
        let side = |base| listen(line_address(base, number)?);
        Ok(Seat {
            line: Mutex::new(Line::new(number as u8, config, epoch)),
            sides: [side(args.a)?, side(args.b)?],
            owner: AtomicUsize::new(owner),
            load: AtomicU64::new(0),
        })
    };
    let owners = deal(&vec![0; args.lines.into()], args.loops.into());
    let seats = (0..args.lines).zip(owners).map(|(number, owner)| seat(number, owner));
    Ok(Plant {
        seats: seats.collect::<Result<_, Failure>>()?,
        outlet: Mutex::new(outlet),
        from: args.from.clone(),
        foreign: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        updates: AtomicU64::new(0),
    })
}

/// Runs the command.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    if !args.venue.venues.is_empty() {
        return super::venue::run(args);
    }
    let interrupted = crate::options::interrupted()?;
    let plant = plant(args, now())?;
    if !args.json {
        println!(
            "{} lines on {} and {}, {} loops, requests to {}",
            args.lines, args.a, args.b, args.loops, args.desk
        );
    }
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let dealt = std::thread::scope(|scope| {
        for owner in 0..usize::from(args.loops) {
            let plant = &plant;
            scope.spawn(move || plant.read(owner));
        }
        plant.keep(args.loops.into(), until, &interrupted)
    });
    let finished = locked(&plant.outlet).finish();
    print(args, &plant, dealt);
    finished
}

/// What a side is behind the first copies, on average, in microseconds.
fn behind(health: &LineHealth, side: usize) -> f64 {
    let side = health.sides.get(side).copied().unwrap_or_default();
    side.behind_sum as f64 / side.behind_count.max(1) as f64 / 1e3
}

fn print(args: &ServeArgs, plant: &Plant, dealt: u64) {
    let lines: Vec<LineHealth> =
        plant.seats.iter().map(|seat| locked(&seat.line).health()).collect();
    let outlet = locked(&plant.outlet);
    let counters = outlet.desk.counters();
    let written = outlet.written();
    let updates = plant.updates.load(Ordering::Relaxed);
    let sum = |pick: fn(&LineHealth) -> u64| lines.iter().map(pick).sum::<u64>();
    if args.json {
        let owners = plant.owners();
        let line = |(health, owner): (&LineHealth, &usize)| {
            let [a, b] = health.sides;
            serde_json::json!({
                "loop": owner, "messages": health.messages, "updates": health.updates,
                "lost": health.stats.lost, "gaps": health.stats.gaps, "stale": health.stale,
                "duplicates": health.stats.duplicates, "errors": health.errors.total(),
                "series": health.series,
                "a": {"packets": a.packets, "first": a.first, "missing": a.missing,
                      "dead": a.stale, "behind_us": behind(health, 0)},
                "b": {"packets": b.packets, "first": b.first, "missing": b.missing,
                      "dead": b.stale, "behind_us": behind(health, 1)},
            })
        };
        let document = serde_json::json!({
            "lines": lines.iter().zip(&owners).map(line).collect::<Vec<_>>(),
            "messages": sum(|line| line.messages),
            "lost": sum(|line| line.stats.lost),
            "errors": sum(|line| line.errors.total()),
            "updates": updates, "ring_records": written, "dealt_anew": dealt,
            "foreign": plant.foreign.load(Ordering::Relaxed),
            "desk": {"requests": counters.requests, "refused": counters.refused,
                     "expired": counters.expired, "datagrams": counters.datagrams,
                     "updates": counters.updates, "unsent": outlet.unsent},
            "ticks": outlet.ticks_json(),
        });
        println!("{document:#}");
        return;
    }
    println!(
        "{:>4} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "line",
        "messages",
        "lost",
        "A first",
        "B first",
        "A missing",
        "B missing",
        "A us",
        "B us",
        "errors"
    );
    for (number, health) in lines.iter().enumerate() {
        let [a, b] = health.sides;
        println!(
            "{number:>4} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9.1} {:>9.1} {:>7}{}",
            health.messages,
            health.stats.lost,
            a.first,
            b.first,
            a.missing,
            b.missing,
            behind(health, 0),
            behind(health, 1),
            health.errors.total(),
            if health.stale { "  stale" } else { "" },
        );
    }
    println!(
        "{} messages, {} lost, {updates} updates, {written} in the ring, {} in {} datagrams to \
         subscribers, {} not sent; lines dealt anew {dealt} times",
        sum(|line| line.messages),
        sum(|line| line.stats.lost),
        counters.updates,
        counters.datagrams,
        outlet.unsent,
    );
    if let Some(line) = outlet.ticks_line() {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_dealt_anew_when_one_loop_has_too_much() {
        let args = ServeArgs {
            from: Vec::new(),
            lines: 6,
            a: "127.0.0.1:26400".parse().unwrap(),
            b: "127.0.0.1:26500".parse().unwrap(),
            format: PlantFormat::OpraFastV2,
            loops: 2,
            desk: "127.0.0.1:0".parse().unwrap(),
            ring: None,
            ring_records: 0,
            wait_us: 10_000,
            quiet_ms: 2_000,
            ticks: None,
            tick_rows: 1 << 20,
            tick_files: 0,
            venue: VenueArgs::default(),
            seconds: None,
            json: false,
        };
        let plant = plant(&args, Nanos(0)).unwrap();
        let mut loads = plant.loads();
        assert!(!plant.balance(&mut loads, 2), "a control: nothing to do");
        let owners = plant.owners();
        for seat in plant.seats.iter().filter(|seat| seat.owner.load(Ordering::Relaxed) == 0) {
            seat.load.store(10_000, Ordering::Relaxed);
        }
        assert!(plant.balance(&mut loads, 2));
        assert_ne!(plant.owners(), owners);
        assert!(!plant.balance(&mut loads, 2), "a control: nothing new");
    }
}
