//! Redis lists between gateway and engine: the gateway pushes orders, the engine takes them, one at
//! a time with LMOVE into a list of what is in work, or many at a time with pipelined LPOPs; answers
//! come back through a list of their own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use telemetry::Recorder;
use zerocopy::IntoBytes;

use super::resp::{Redis, Reply};
use super::{PATIENCE, Slice, Timetable, TransportsArgs, host};
use crate::Failure;

const ORDERS: &[u8] = b"fairbell:orders";
const IN_WORK: &[u8] = b"fairbell:in_work";
const ANSWERS: &[u8] = b"fairbell:answers";
/// LPOPs of one pipeline.
const PIPELINE: usize = 16;
/// Answers taken at a time.
const ANSWERS_AT_ONCE: &[u8] = b"64";

/// One order at a time, kept in a second list until it is answered.
pub fn play_lmove(args: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    play(args, timetable, take_lmove)
}

/// Many orders at a time, kept nowhere.
pub fn play_lpop(args: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    play(args, timetable, take_lpop)
}

type Take = fn(&mut Redis, &mut host::Host, &net::Clock) -> io::Result<()>;

fn take_lmove(to: &mut Redis, host: &mut host::Host, clock: &net::Clock) -> io::Result<()> {
    let order = to.ask(&[b"LMOVE", ORDERS, IN_WORK, b"LEFT", b"RIGHT"])?.elements();
    let Some(order) = order.first() else { return Ok(()) };
    to.push(&[b"RPUSH", ANSWERS, host.handle(clock.now(), order)]);
    to.push(&[b"LPOP", IN_WORK]);
    to.send().map(drop)
}

fn take_lpop(to: &mut Redis, host: &mut host::Host, clock: &net::Clock) -> io::Result<()> {
    for _ in 0..PIPELINE {
        to.push(&[b"LPOP", ORDERS]);
    }
    let orders: Vec<Vec<u8>> = to.send()?.into_iter().flat_map(Reply::elements).collect();
    for order in &orders {
        to.push(&[b"RPUSH", ANSWERS, host.handle(clock.now(), order)]);
    }
    if orders.is_empty() { Ok(()) } else { to.send().map(drop) }
}

/// The gateway's side: sends what is due and takes the answers there are, in one exchange with
/// Redis; asking again and again is its only way of waiting, so that two cores are enough.
struct Gateway {
    redis: Redis,
    timetable: Timetable,
    start: Instant,
    sent: u32,
    answered: u32,
    latency: Recorder,
}

impl Gateway {
    fn due(&self, number: u32) -> Instant {
        self.start + Duration::from_nanos(self.timetable.due_ns(number))
    }

    fn turn(&mut self) -> io::Result<()> {
        while self.sent < self.timetable.requests && self.due(self.sent + 1) <= Instant::now() {
            self.sent += 1;
            self.redis.push(&[b"RPUSH", ORDERS, host::command(self.sent).as_bytes()]);
        }
        self.redis.push(&[b"LPOP", ANSWERS, ANSWERS_AT_ONCE]);
        let replies = self.redis.send()?;
        let now = Instant::now();
        for answer in replies.into_iter().flat_map(Reply::elements) {
            if let Some(number) = host::answered(&answer) {
                self.answered += 1;
                let waited = now.saturating_duration_since(self.due(number));
                self.latency.record(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        Ok(())
    }

    fn play(&mut self) -> io::Result<()> {
        let end = self.due(self.timetable.requests) + PATIENCE;
        while self.answered < self.timetable.requests && Instant::now() < end {
            self.turn()?;
        }
        Ok(())
    }
}

fn play(args: &TransportsArgs, timetable: Timetable, take: Take) -> Result<Slice, Failure> {
    let failed = |error: io::Error| Failure::Run(format!("Redis at {}: {error}", args.redis));
    let connect = || Redis::connect(&args.redis).map_err(failed);
    let (mut redis, mut engine) = (connect()?, connect()?);
    redis.ask(&[b"DEL", ORDERS, IN_WORK, ANSWERS]).map_err(failed)?;
    let clock = net::Clock::start(0);
    let mut host = host::Host::new(&host::exchange(&clock))?;
    let stop = AtomicBool::new(false);
    let start = Instant::now() + Duration::from_millis(20);
    let latency = Recorder::new();
    let mut gateway = Gateway { redis, timetable, start, sent: 0, answered: 0, latency };
    let (played, served) = thread::scope(|scope| {
        let engine = scope.spawn(|| -> io::Result<()> {
            while !stop.load(Ordering::Relaxed) {
                take(&mut engine, &mut host, &clock)?;
            }
            Ok(())
        });
        let played = gateway.play();
        stop.store(true, Ordering::Relaxed);
        (played, engine.join())
    });
    served.map_err(|_| Failure::Run("a thread panicked".to_string()))?.map_err(failed)?;
    played.map_err(failed)?;
    let lost = u64::from(timetable.requests - gateway.answered);
    Ok(Slice { latency: gateway.latency, lost })
}
