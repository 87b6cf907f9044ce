//! ZeroMQ over TCP, without a broker as the source has it: REQ, which waits for the engine's answer
//! before it sends the next order, and DEALER, which waits for nothing.
//!
//! REQ is answered by REP; libzmq refuses a connection of REQ to DEALER. Of DEALERs there is a pair
//! for orders and one for answers, because a socket belongs to one thread and the gateway's sender
//! sleeps by its timetable while its listener sleeps by the socket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;
use zmq::{Context, Socket, SocketType};

use super::tally::{PATIENCE, Slice, Start, Tally, Timetable};
use super::{TransportsArgs, engine_host};
use host::failure::Failure;

/// How often a side that waits looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// One order at a time.
///
/// # Errors
/// What ZeroMQ refuses, or a thread that panicked.
pub fn play_req(_: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    // A context for each side, with an I/O thread each, as two processes have it.
    let (of_engine, of_gateway) = (Context::new(), Context::new());
    let (engine, gateway) =
        pair((&of_engine, zmq::REP, LOOK), (&of_gateway, zmq::REQ, PATIENCE)).map_err(failed)?;
    let (mut host, clock) = engine_of(timetable)?;
    let stop = AtomicBool::new(false);
    let (asked, served) = thread::scope(|scope| {
        let stop = &stop;
        let serving = scope.spawn(move || {
            serve(&engine, stop, |order| engine.send(host.handle(clock.now(), order), 0))
        });
        net::sharpen_timers();
        let asked = ask(&gateway, timetable);
        stop.store(true, Ordering::Relaxed);
        (asked, serving.join())
    });
    served.map_err(panicked)?.map_err(failed)?;
    asked.map_err(failed)
}

/// As many orders on their way as are due.
///
/// # Errors
/// What ZeroMQ refuses, or a thread that panicked.
pub fn play_dealer(_: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    let (of_engine, of_gateway) = (Context::new(), Context::new());
    let dealer = |of| (of, zmq::DEALER, LOOK);
    let (orders_in, orders_out) = pair(dealer(&of_engine), dealer(&of_gateway)).map_err(failed)?;
    let (answers_out, answers_in) =
        pair(dealer(&of_engine), dealer(&of_gateway)).map_err(failed)?;
    let (mut host, clock) = engine_of(timetable)?;
    let stop = AtomicBool::new(false);
    let start = Start::soon(timetable);
    let (sent, received, served) = thread::scope(|scope| {
        let stop = &stop;
        let serving = scope.spawn(move || {
            serve(&orders_in, stop, |order| answers_out.send(host.handle(clock.now(), order), 0))
        });
        let sending = scope.spawn(move || send(&orders_out, timetable, start));
        let received = receive(&answers_in, timetable, start);
        stop.store(true, Ordering::Relaxed);
        (sending.join(), received, serving.join())
    });
    sent.map_err(panicked)?.map_err(failed)?;
    served.map_err(panicked)?.map_err(failed)?;
    received.map_err(failed)
}

/// Two sockets connected over loopback, the bound one first; each waits so long to receive.
fn pair(
    (of_bound, bound, patience): (&Context, SocketType, Duration),
    (of_other, other, other_patience): (&Context, SocketType, Duration),
) -> Result<(Socket, Socket), zmq::Error> {
    let (bound, other) = (of_bound.socket(bound)?, of_other.socket(other)?);
    for (socket, patience) in [(&bound, patience), (&other, other_patience)] {
        socket.set_rcvtimeo(i32::try_from(patience.as_millis()).unwrap_or(i32::MAX))?;
        socket.set_linger(0)?;
        // What waits to be sent must not be dropped.
        socket.set_sndhwm(0)?;
        socket.set_rcvhwm(0)?;
    }
    bound.bind("tcp://127.0.0.1:*")?;
    let endpoint = bound.get_last_endpoint()?.map_err(|_| zmq::Error::EADDRNOTAVAIL)?;
    other.connect(&endpoint)?;
    Ok((bound, other))
}

fn engine_of(timetable: Timetable) -> Result<(engine_host::Host, net::Clock), Failure> {
    let clock = net::Clock::start(0);
    Ok((engine_host::Host::new(&engine_host::exchange(&clock, timetable.requests))?, clock))
}

fn serve(
    orders: &Socket,
    stop: &AtomicBool,
    mut answer: impl FnMut(&[u8]) -> Result<(), zmq::Error>,
) -> Result<(), zmq::Error> {
    while !stop.load(Ordering::Relaxed) {
        match orders.recv_bytes(0) {
            Ok(order) => answer(&order)?,
            Err(zmq::Error::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ask(gateway: &Socket, timetable: Timetable) -> Result<Slice, zmq::Error> {
    let mut tally = Tally::new(timetable);
    let start = Start::soon(timetable);
    for number in 1..=timetable.requests {
        start.wait_for(number);
        gateway.send(engine_host::command(number).as_bytes(), 0)?;
        match gateway.recv_bytes(0) {
            Ok(answer) => tally.take(&answer, start.elapsed_ns()),
            // Whoever asks with REQ cannot go on without an answer.
            Err(zmq::Error::EAGAIN) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(tally.finish())
}

fn send(orders: &Socket, timetable: Timetable, start: Start) -> Result<(), zmq::Error> {
    net::sharpen_timers();
    for number in 1..=timetable.requests {
        start.wait_for(number);
        orders.send(engine_host::command(number).as_bytes(), 0)?;
    }
    Ok(())
}

fn receive(answers: &Socket, timetable: Timetable, start: Start) -> Result<Slice, zmq::Error> {
    let mut tally = Tally::new(timetable);
    while !tally.is_done() && Instant::now() < start.end() {
        match answers.recv_bytes(0) {
            Ok(answer) => tally.take(&answer, start.elapsed_ns()),
            Err(zmq::Error::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tally.finish())
}

fn failed(error: zmq::Error) -> Failure {
    Failure::Run(format!("ZeroMQ: {error}"))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Failure {
    Failure::Run("a thread of the measurement panicked".to_string())
}
