//! ZeroMQ over TCP as the source has it: the gateway's REQ socket sends an order and waits for the
//! answer of the engine's DEALER before it sends the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use telemetry::Recorder;
use zerocopy::IntoBytes;

use super::{PATIENCE, Slice, Timetable, TransportsArgs, host};
use crate::Failure;

/// How often the engine's side looks whether it is over, ms.
const LOOK_MS: i32 = 20;

/// Plays one slice.
pub fn play(_: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    let failed = |error: zmq::Error| Failure::Run(format!("ZeroMQ: {error}"));
    let context = zmq::Context::new();
    let engine = context.socket(zmq::DEALER).map_err(failed)?;
    engine.set_rcvtimeo(LOOK_MS).map_err(failed)?;
    engine.set_linger(0).map_err(failed)?;
    engine.bind("tcp://127.0.0.1:*").map_err(failed)?;
    let endpoint = engine.get_last_endpoint().map_err(failed)?;
    let endpoint = endpoint.map_err(|_| Failure::Run("ZeroMQ: no endpoint".to_string()))?;
    let gateway = context.socket(zmq::REQ).map_err(failed)?;
    gateway.set_rcvtimeo(PATIENCE.as_millis() as i32).map_err(failed)?;
    gateway.set_linger(0).map_err(failed)?;
    gateway.connect(&endpoint).map_err(failed)?;
    let clock = net::Clock::start(0);
    let mut host = host::Host::new(&host::exchange(&clock))?;
    let stop = AtomicBool::new(false);
    let start = Instant::now() + Duration::from_millis(20);
    thread::scope(|scope| {
        let serving = scope.spawn(|| -> Result<(), zmq::Error> {
            let engine = engine;
            while !stop.load(Ordering::Relaxed) {
                let parts = match engine.recv_multipart(0) {
                    Ok(parts) => parts,
                    Err(zmq::Error::EAGAIN) => continue,
                    Err(error) => return Err(error),
                };
                // An empty frame, then the order.
                if let [_, order] = parts.as_slice() {
                    let answer = host.handle(clock.now(), order);
                    engine.send_multipart([&b""[..], answer], 0)?;
                }
            }
            Ok(())
        });
        let played = ask(&gateway, timetable, start).map_err(failed);
        stop.store(true, Ordering::Relaxed);
        let served = serving.join().map_err(|_| Failure::Run("a thread panicked".to_string()))?;
        served.map_err(failed)?;
        played
    })
}

fn ask(gateway: &zmq::Socket, timetable: Timetable, start: Instant) -> Result<Slice, zmq::Error> {
    let (mut latency, mut lost) = (Recorder::new(), 0);
    for number in 1..=timetable.requests {
        let due = start + Duration::from_nanos(timetable.due_ns(number));
        while Instant::now() < due {
            // Two cores have to do for both ends and ZeroMQ's own threads.
            thread::yield_now();
        }
        gateway.send(host::command(number).as_bytes(), 0)?;
        let answer = gateway.recv_bytes(0)?;
        match host::answered(&answer) {
            Some(answered) if answered == number => latency.record(due.elapsed().as_nanos() as u64),
            _ => lost += 1,
        }
    }
    Ok(Slice { latency, lost })
}
