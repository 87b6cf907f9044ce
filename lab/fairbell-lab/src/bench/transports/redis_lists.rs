//! Redis lists between gateway and engine: the gateway pushes orders, the engine takes them, one at
//! a time with LMOVE into a list of what is in work, or many at a time with pipelined LPOPs; answers
//! come back through a list of their own.
//!
//! Each as quick as it can be made: what the engine says and asks shares an exchange with Redis, the
//! gateway sends and listens on connections and threads of their own, and whoever finds a list empty
//! waits inside Redis (BLMOVE, BLPOP, BLMPOP) instead of asking again and again, which takes cores
//! that others need.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use zerocopy::IntoBytes;

use super::resp::{Redis, Reply};
use super::tally::{Slice, Start, Tally, Timetable};
use super::{TransportsArgs, engine_host};
use host::failure::Failure;

const ORDERS: &[u8] = b"fairbell:orders";
const IN_WORK: &[u8] = b"fairbell:in_work";
const ANSWERS: &[u8] = b"fairbell:answers";
/// LPOPs of one pipeline.
const PIPELINE: usize = 16;
/// Answers taken at a time.
const ANSWERS_AT_ONCE: &[u8] = b"64";
/// How long Redis may keep somebody waiting, in seconds; whether it is over is seen after that.
const WAIT_S: &[u8] = b"0.05";

/// One order at a time, kept in a second list until it is answered.
///
/// # Errors
/// No Redis there, or one that refuses.
pub fn play_lmove(args: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    play(args, timetable, serve_lmove)
}

/// Many orders at a time, kept nowhere.
///
/// # Errors
/// No Redis there, or one that refuses.
pub fn play_lpop(args: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    play(args, timetable, serve_lpop)
}

/// The engine's side.
struct Engine {
    redis: Redis,
    host: engine_host::Host,
    clock: net::Clock,
}

type Serve = fn(&mut Engine, &AtomicBool) -> io::Result<()>;

fn serve_lmove(engine: &mut Engine, stop: &AtomicBool) -> io::Result<()> {
    let Engine { redis, host, clock } = engine;
    while !stop.load(Ordering::Relaxed) {
        redis.push(&[b"BLMOVE", ORDERS, IN_WORK, b"LEFT", b"RIGHT", WAIT_S]);
        // Behind an answer come its own reply, that of the list of what is in work, and this one.
        let order = redis.send()?.pop().map_or(Vec::new(), Reply::elements);
        if let Some(order) = order.first() {
            redis.push(&[b"RPUSH", ANSWERS, host.handle(clock.now(), order)]);
            redis.push(&[b"LPOP", IN_WORK]);
        }
    }
    Ok(())
}

fn serve_lpop(engine: &mut Engine, stop: &AtomicBool) -> io::Result<()> {
    let Engine { redis, host, clock } = engine;
    let mut orders: Vec<Vec<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for order in &orders {
            redis.push(&[b"RPUSH", ANSWERS, host.handle(clock.now(), order)]);
        }
        for _ in 0..PIPELINE {
            redis.push(&[b"LPOP", ORDERS]);
        }
        orders = redis.send()?.into_iter().flat_map(Reply::elements).collect();
        if orders.is_empty() {
            orders = taken(redis.ask(&[b"BLPOP", ORDERS, WAIT_S])?);
        }
    }
    Ok(())
}

/// What a blocking pop took: the name of its list comes first.
fn taken(reply: Reply) -> Vec<Vec<u8>> {
    let mut elements = reply.elements();
    elements.drain(..elements.len().min(1));
    elements
}

/// Sends what is due, everything that is in one exchange.
fn send(redis: &mut Redis, timetable: Timetable, start: Start) -> io::Result<()> {
    let mut next = 1;
    while next <= timetable.requests {
        start.wait_for(next);
        while next <= timetable.requests && start.due(next) <= Instant::now() {
            redis.push(&[b"RPUSH", ORDERS, engine_host::command(next).as_bytes()]);
            next += 1;
        }
        redis.send()?;
    }
    Ok(())
}

fn receive(redis: &mut Redis, timetable: Timetable, start: Start) -> io::Result<Slice> {
    let mut tally = Tally::new(timetable);
    while !tally.is_done() && Instant::now() < start.end() {
        let words: &[&[u8]] =
            &[b"BLMPOP", WAIT_S, b"1", ANSWERS, b"LEFT", b"COUNT", ANSWERS_AT_ONCE];
        let answers = taken(redis.ask(words)?);
        let now_ns = start.elapsed_ns();
        answers.iter().for_each(|answer| tally.take(answer, now_ns));
    }
    Ok(tally.finish())
}

fn play(args: &TransportsArgs, timetable: Timetable, serve: Serve) -> Result<Slice, Failure> {
    let failed = |error: io::Error| Failure::Run(format!("Redis at {}: {error}", args.redis));
    let connect = || Redis::connect(&args.redis).map_err(failed);
    let (mut sending, mut receiving, serving) = (connect()?, connect()?, connect()?);
    let clear: &[&[u8]] = &[b"DEL", ORDERS, IN_WORK, ANSWERS];
    sending.ask(clear).map_err(failed)?;
    let clock = net::Clock::start(0);
    let host = engine_host::Host::new(&engine_host::exchange(&clock, timetable.requests))?;
    let mut engine = Engine { redis: serving, host, clock };
    let stop = AtomicBool::new(false);
    let start = Start::soon(timetable);
    let (sent, received, served) = thread::scope(|scope| {
        let served = scope.spawn(|| serve(&mut engine, &stop));
        let sent = scope.spawn(|| {
            net::sharpen_timers();
            send(&mut sending, timetable, start)
        });
        let received = receive(&mut receiving, timetable, start);
        stop.store(true, Ordering::Relaxed);
        (sent.join(), received, served.join())
    });
    let panicked = |_| Failure::Run("a thread of the measurement panicked".to_string());
    sent.map_err(panicked)?.map_err(failed)?;
    served.map_err(panicked)?.map_err(failed)?;
    receiving.ask(clear).map_err(failed)?;
    received.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::list_server::ListServer;
    use super::*;

    #[test]
    fn a_slice_of_either_answers_every_request() {
        let server = ListServer::start();
        for play in [play_lmove, play_lpop] {
            let args = TransportsArgs { redis: server.address(), ..TransportsArgs::of_a_test() };
            let timetable = Timetable { rate: 1_000, requests: 300 };
            let slice = play(&args, timetable).unwrap();
            assert_eq!((slice.unanswered, slice.wrong), (0, 0));
            assert_eq!(slice.latency.count(), timetable.timed());
        }
        assert_eq!(server.left(), 0);
    }

    #[test]
    fn without_a_server_the_address_is_named() {
        let args = TransportsArgs { redis: "127.0.0.1:1".into(), ..TransportsArgs::of_a_test() };
        let timetable = Timetable { rate: 1_000, requests: 2 };
        let failure = play_lmove(&args, timetable).err().unwrap();
        assert!(failure.to_string().starts_with("Redis at 127.0.0.1:1: "), "{failure}");
    }
}
