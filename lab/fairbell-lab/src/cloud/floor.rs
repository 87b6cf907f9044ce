//! How far apart threads of this machine act that wait for the same instant: the least delivery window
//! that receivers can have here, whatever the exchange does.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::time::Duration;

use host::failure::Failure;
use host::sockets::io;
use net::Clock;
use types::Nanos;

/// Between two instants.
const EVERY_NS: u64 = 4 * Nanos::MILLI;
/// Instants left out: threads start, pages are touched.
const WARM: usize = 25;

/// Spreads between the first and the last of so many threads that read the clock and send a datagram
/// at each of `instants` instants, ns.
///
/// # Errors
/// The system's.
pub fn spreads(threads: usize, instants: usize) -> Result<Vec<u64>, Failure> {
    let clock = Clock::start(0);
    let begin = clock.now().after(50 * Nanos::MILLI);
    let acted = Mutex::new(Vec::new());
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(io)?;
    let to = sink.local_addr().map_err(io)?;
    std::thread::scope(|scope| {
        let one = || -> std::io::Result<()> {
            net::sharpen_timers();
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(to)?;
            let mut own = Vec::with_capacity(instants);
            for instant in 0..instants as u64 {
                let due = begin.after(instant * EVERY_NS);
                let wait = due.since(clock.now());
                std::thread::sleep(Duration::from_nanos(wait));
                own.push(clock.now());
                let _ = socket.send(&[0; 128]);
            }
            acted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(own);
            Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| Failure::Run("a thread panicked".to_string()))?
                .map_err(io)?;
        }
        Ok::<(), Failure>(())
    })?;
    let acted = acted.into_inner().unwrap_or_default();
    let spread = |instant: usize| {
        let times = || acted.iter().filter_map(|own| own.get(instant));
        let (first, last) = (times().min()?, times().max()?);
        Some(last.since(*first))
    };
    Ok((WARM..instants).filter_map(spread).collect())
}
