//! A program behind a boundary: what it is told and answers, as bytes.
//!
//! Numbers are little-endian. The first byte of what it is told: 0 start, 1 book, 2 trade, 3 report, 4 a measurement of
//! the boundary. Of what it answers: 0 actions, 20 bytes each, 1 why it refuses to start, 2 its clock when it
//! heard the measurement. `sdk/strategy` has the other end.

use std::io::{Read, Write};

use feed::Level;
use types::{InstrumentId, Nanos, Price, Side, TimeInForce};

use super::boundary::{Boundary, BoundaryError};
use crate::program::{Action, News, Program};
use crate::strategy::Order;

/// Bytes of an action.
const ACTION_LEN: usize = 20;
/// Actions that are read of an answer at most, whatever an account may do.
const ACTIONS_MAX: usize = 1 << 12;

/// Waits until what was released at a time may go to the enclave.
pub type Hold = Box<dyn FnMut(Nanos) + Send>;

/// A crossing of the boundary and back, ns by the clocks of host and enclave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// Sent by the host.
    pub sent: u64,
    /// Heard by the enclave, by its own clock.
    pub heard: u64,
    /// Answer there at the host.
    pub answered: u64,
}

impl Crossing {
    /// From the host to the enclave, ns: by both clocks where they agree that it was heard before it was answered,
    /// and half of the round trip where they don't.
    pub fn one_way_ns(&self) -> u64 {
        match (self.sent..=self.answered).contains(&self.heard) {
            true => self.heard - self.sent,
            false => self.answered.saturating_sub(self.sent) / 2,
        }
    }
}

/// A program in an enclave.
pub struct Enclave<S> {
    name: String,
    settings: String,
    boundary: Boundary<S>,
    hold: Hold,
    told: Vec<u8>,
}

impl<S> std::fmt::Debug for Enclave<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enclave").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: Read + Write> Enclave<S> {
    /// A program that was attested; `settings` is told to it before anything else, and `hold` is called
    /// before each piece of news goes to it.
    pub fn new(name: &str, settings: &str, boundary: Boundary<S>, hold: Hold) -> Enclave<S> {
        let (name, settings) = (name.to_string(), settings.to_string());
        Enclave { name, settings, boundary, hold, told: Vec::new() }
    }

    /// Measures the boundary once, by the host's clock.
    ///
    /// # Errors
    /// The enclave does not answer, or something else.
    pub fn cross(&mut self, clock: impl Fn() -> u64) -> Result<Crossing, BoundaryError> {
        let sent = clock();
        self.boundary.send(&[4])?;
        let answer = self.boundary.receive()?;
        let answered = clock();
        match *answer {
            [2, a, b, c, d, e, f, g, h] => {
                let heard = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                Ok(Crossing { sent, heard, answered })
            }
            _ => Err(BoundaryError::Forged),
        }
    }

    /// From now on waits differently before news goes to it.
    pub fn set_hold(&mut self, hold: Hold) {
        self.hold = hold;
    }

    fn hear(&mut self, news: &News<'_>, answer: &mut Vec<Action>) -> Result<(), String> {
        self.told.clear();
        encode(news, &self.settings, &mut self.told);
        self.boundary.send(&self.told).map_err(|error| error.to_string())?;
        let bytes = self.boundary.receive().map_err(|error| error.to_string())?;
        match bytes.split_first() {
            Some((0, actions)) if actions.len() > ACTIONS_MAX * ACTION_LEN => {
                Err(format!("answered with {} actions", actions.len() / ACTION_LEN))
            }
            Some((0, actions)) if actions.len().is_multiple_of(ACTION_LEN) => {
                for one in actions.chunks_exact(ACTION_LEN) {
                    answer.push(action(one).ok_or("answered what is no action")?);
                }
                Ok(())
            }
            Some((1, why)) if matches!(news, News::Start { .. }) => {
                let why = String::from_utf8_lossy(why);
                let why = why.chars().filter(|one| !one.is_control()).take(200);
                Err(format!("refused to start: {}", why.collect::<String>()))
            }
            _ => Err("answered what is no answer".to_string()),
        }
    }
}

impl<S: Read + Write> Program for Enclave<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn tell(&mut self, news: &News<'_>, answer: &mut Vec<Action>) -> Result<(), String> {
        let (of, now) = match news {
            News::Start { .. } => ("at its start", None),
            News::Book { now, .. } => ("on a book", Some(*now)),
            News::Trade { now, .. } => ("on a trade", Some(*now)),
            News::Report { now, .. } => ("on a report", Some(*now)),
        };
        if let Some(now) = now {
            (self.hold)(now);
        }
        self.hear(news, answer).map_err(|why| format!("{why} {of}"))
    }
}

fn put_levels(to: &mut Vec<u8>, levels: &[Level]) {
    for level in levels {
        to.extend_from_slice(&level.price.0.to_le_bytes());
        to.extend_from_slice(&level.qty.0.to_le_bytes());
    }
}

fn put_orders(to: &mut Vec<u8>, orders: &[Order]) {
    for order in orders {
        to.extend_from_slice(&order.id.to_le_bytes());
        to.extend_from_slice(&order.price.0.to_le_bytes());
        to.extend_from_slice(&order.open.to_le_bytes());
        let flags = [order.side as u8, u8::from(order.working), u8::from(order.leaving)];
        to.extend_from_slice(&flags);
    }
}

/// Appends a piece of news.
fn encode(news: &News<'_>, settings: &str, to: &mut Vec<u8>) {
    match news {
        News::Start { instruments, price_decimals } => {
            to.extend_from_slice(&[0, *price_decimals]);
            to.extend_from_slice(&(instruments.len() as u16).to_le_bytes());
            for one in *instruments {
                to.extend_from_slice(&one.id.0.to_le_bytes());
                to.extend_from_slice(&one.tick.0.to_le_bytes());
                to.push(one.lot_decimals);
                to.extend_from_slice(&one.symbol.0);
            }
            to.extend_from_slice(settings.as_bytes());
        }
        News::Book { now, instrument, bids, asks, held, orders } => {
            to.push(1);
            to.extend_from_slice(&now.0.to_le_bytes());
            to.extend_from_slice(&instrument.0.to_le_bytes());
            to.extend_from_slice(&held.to_le_bytes());
            to.extend_from_slice(&[bids.len() as u8, asks.len() as u8]);
            put_levels(to, bids);
            put_levels(to, asks);
            put_orders(to, orders);
        }
        News::Trade { now, trade } => {
            to.push(2);
            to.extend_from_slice(&now.0.to_le_bytes());
            to.extend_from_slice(&trade.time.0.to_le_bytes());
            to.extend_from_slice(&trade.instrument.0.to_le_bytes());
            to.extend_from_slice(&trade.price.0.to_le_bytes());
            to.extend_from_slice(&trade.qty.0.to_le_bytes());
            to.push(trade.aggressor.map_or(2, |side| side as u8));
        }
        News::Report { now, report } => {
            to.push(3);
            to.extend_from_slice(&now.0.to_le_bytes());
            to.extend_from_slice(&report.happened.0.to_le_bytes());
            to.extend_from_slice(&report.instrument.0.to_le_bytes());
            to.extend_from_slice(&report.id.to_le_bytes());
            to.extend_from_slice(&report.price.0.to_le_bytes());
            to.extend_from_slice(&report.qty.0.to_le_bytes());
            to.extend_from_slice(&report.left.0.to_le_bytes());
            to.extend_from_slice(&[report.kind as u8, report.side as u8, u8::from(report.rested)]);
        }
    }
}

/// An action: what it is, side, life, whether it rests; instrument, two bytes unused; lots or the order's number; price.
fn action(bytes: &[u8]) -> Option<Action> {
    let bytes: &[u8; ACTION_LEN] = bytes.try_into().ok()?;
    let [kind, side, life, rests, i, j, _, _, a, b, c, d, rest @ ..] = *bytes;
    let number = u32::from_le_bytes([a, b, c, d]);
    match kind {
        1 => Some(Action::Cancel { id: number }),
        0 => Some(Action::Order {
            instrument: InstrumentId(u16::from_le_bytes([i, j])),
            side: *[Side::Buy, Side::Sell].get(usize::from(side))?,
            qty: number,
            price: Price(i64::from_le_bytes(rest)),
            life: *[TimeInForce::Day, TimeInForce::ImmediateOrCancel].get(usize::from(life))?,
            rests: rests != 0,
        }),
        _ => None,
    }
}
