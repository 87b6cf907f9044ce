//! A strategy as a program of its own in an enclave: [`run`] is its `main`, which [`strategy!`](crate::strategy!) writes.
//!
//! Its standard input is the stream to its host, its standard output that to an attestor: a nonce and a public key in one frame
//! make a document in another. It may make no system call but a few: no file, no socket, no thread, no process.

mod link;

use std::io::{Error, Result, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use link::Link;

use crate::{
    Action, Book, Instrument, Level, OwnOrder, Report, ReportKind, Setup, Side, Strategy,
    Trade,
};

/// Runs a strategy until its host is gone.
pub fn run<T: Strategy>() {
    // The host has closed the stream, or has not believed the attestation: there is nobody to tell.
    let _ = serve::<T>();
}

fn stream(of: BorrowedFd<'_>) -> Result<UnixStream> {
    Ok(UnixStream::from(of.try_clone_to_owned()?))
}

fn serve<T: Strategy>() -> Result<()> {
    let mut attestor = stream(stdout().as_fd())?;
    let attest = |nonce: &[u8], public: &[u8]| {
        let mut frame = Vec::new();
        link::write(&mut attestor, &mut frame, &[nonce, public].concat())?;
        link::read(&mut attestor, &mut frame)?;
        Ok(frame)
    };
    let mut link = Link::open(stream(stdin().as_fd())?, attest)?;
    let mut running: Option<T> = None;
    let mut answer = Vec::new();
    loop {
        let told = link.receive()?;
        let heard = now_ns();
        answer.clear();
        tell(&mut running, told, heard, &mut answer).ok_or_else(|| Error::other("no news"))?;
        link.send(&answer)?;
    }
}

/// Time of the machine's clock since it began, ns: of measurements of the boundary alone.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Tells the strategy; `None`: it was no news.
fn tell<T: Strategy>(
    running: &mut Option<T>,
    told: &[u8],
    heard: u64,
    answer: &mut Vec<u8>,
) -> Option<()> {
    let mut from = Reader(told);
    let actions = match from.u8()? {
        0 => match T::start(from.setup()?) {
            Ok(started) => {
                *running = Some(started);
                Vec::new()
            }
            Err(why) => {
                answer.push(1);
                answer.extend_from_slice(why.as_bytes());
                return Some(());
            }
        },
        1 => running.as_mut()?.on_book(from.book()?),
        2 => running.as_mut()?.on_trade(from.trade()?),
        3 => running.as_mut()?.on_report(from.report()?),
        4 => {
            answer.push(2);
            answer.extend_from_slice(&heard.to_le_bytes());
            return Some(());
        }
        _ => return None,
    };
    answer.push(0);
    for action in &actions {
        put(answer, action);
    }
    Some(())
}

fn put(to: &mut Vec<u8>, action: &Action) {
    match action {
        Action::Cancel(id) => {
            to.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            to.extend_from_slice(&id.to_le_bytes());
            to.extend_from_slice(&[0; 8]);
        }
        Action::Order(order) => {
            let rests = u8::from(order.post_only);
            to.extend_from_slice(&[0, order.side as u8, order.life as u8, rests]);
            to.extend_from_slice(&order.instrument.to_le_bytes());
            to.extend_from_slice(&[0; 2]);
            to.extend_from_slice(&order.lots.to_le_bytes());
            to.extend_from_slice(&order.price.to_le_bytes());
        }
    }
}

/// Reads what the host tells.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    fn side(&mut self) -> Option<Side> {
        [Side::Buy, Side::Sell].get(usize::from(self.u8()?)).copied()
    }

    fn setup(&mut self) -> Option<Setup> {
        let price_decimals = self.u8()?;
        let count = self.u16()?;
        let instruments: Option<_> = (0..count).map(|_| self.instrument()).collect();
        let settings = String::from_utf8_lossy(self.0).into_owned();
        Some(Setup { instruments: instruments?, price_decimals, settings })
    }

    fn instrument(&mut self) -> Option<Instrument> {
        let (id, tick, lot_decimals) = (self.u16()?, self.i64()?, self.u8()?);
        let symbol = String::from_utf8_lossy(&self.take::<8>()?).trim_end().to_string();
        Some(Instrument { id, symbol, tick, lot_decimals })
    }

    fn levels(&mut self, count: u8) -> Option<Vec<Level>> {
        (0..count).map(|_| Some(Level { price: self.i64()?, lots: self.u64()? })).collect()
    }

    fn book(&mut self) -> Option<Book> {
        let (time_ns, instrument, held) = (self.u64()?, self.u16()?, self.i64()?);
        let (bids, asks) = (self.u8()?, self.u8()?);
        let (bids, asks) = (self.levels(bids)?, self.levels(asks)?);
        let mut orders = Vec::new();
        while !self.0.is_empty() {
            let (id, price, open, side) = (self.u32()?, self.i64()?, self.u64()?, self.side()?);
            let (working, leaving) = (self.u8()? != 0, self.u8()? != 0);
            orders.push(OwnOrder { id, side, price, open, working, leaving });
        }
        Some(Book { time_ns, instrument, bids, asks, held, orders })
    }

    fn trade(&mut self) -> Option<Trade> {
        let (time_ns, happened_ns, instrument) = (self.u64()?, self.u64()?, self.u16()?);
        let (price, lots) = (self.i64()?, self.u64()?);
        Some(Trade { time_ns, happened_ns, instrument, price, lots, aggressor: self.side() })
    }

    fn report(&mut self) -> Option<Report> {
        let (time_ns, happened_ns, instrument) = (self.u64()?, self.u64()?, self.u16()?);
        let (id, price, lots, left) = (self.u32()?, self.i64()?, self.u64()?, self.u64()?);
        let kind = match self.u8()? {
            0 => ReportKind::Accepted,
            1 => ReportKind::Executed,
            2 => ReportKind::Rejected,
            3 => ReportKind::CancelRejected,
            4 => ReportKind::Changed,
            5 => ReportKind::Ended,
            _ => return None,
        };
        let (side, rested) = (self.side()?, self.u8()? != 0);
        Some(Report { time_ns, happened_ns, instrument, id, kind, side, price, lots, left, rested })
    }
}
