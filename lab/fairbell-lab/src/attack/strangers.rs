//! What a stranger on the network tries without any login: to be answered with more than it asks,
//! into somebody else's socket; to have forged packets taken for the feed; and to lock an account
//! by wrong passwords. Functions for attacks and tests, over real sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use net::Clock;
use types::Price;
use wire::moldudp::{HEADER_LEN, PacketBuilder, Request, Session, TOKEN_LEN};

use super::line::{Line, Login, Ouch};
use host::failure::Failure;
use host::sockets::io;

/// Largest answer there is.
const ANSWER_MAX: usize = 2_048;
/// Between two requests of one address, so that most answers are heard.
const PACE: Duration = Duration::from_micros(200);
/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_millis(100);
/// At what a forger's orders buy, 400,001.23: a price of no order of the sample, which has one at
/// 400,000, and of no generated flow.
pub const FORGED_PRICE: Price = Price(4_000_012_300);
/// An Add Order of a forger.
const ORDER_LEN: usize = 36;

/// What one address sent to a retransmission server and got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amplified {
    /// Retransmission requests sent, without a token.
    pub requests: u64,
    /// Their bytes.
    pub sent: u64,
    /// Bytes of the answers.
    pub heard: u64,
}

impl Amplified {
    /// Whether it got more than three times what it sent.
    pub fn is_too_much(&self) -> bool {
        self.heard > 3 * self.sent
    }
}

/// Asks `server` for the messages from `first` on, as `addresses` whose owners never show that they
/// hear the answers (they never show a token): plain, padded, and with a token of zeros by turns.
///
/// # Errors
/// When there are no sockets.
pub fn amplify(
    server: SocketAddr,
    (session, first): ([u8; 10], u64),
    addresses: usize,
    requests: u64,
) -> Result<Vec<Amplified>, Failure> {
    let socket = |_| {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.set_nonblocking(true)?;
        Ok((socket, Amplified::default()))
    };
    let sockets: std::io::Result<Vec<_>> = (0..addresses).map(socket).collect();
    let mut sockets = sockets.map_err(io)?;
    for n in 0..requests {
        for (socket, of) in &mut sockets {
            let request = Request { session: Session(session), seq: first + n % 64, count: 1_000 };
            let mut bytes = Vec::with_capacity(ANSWER_MAX);
            request.encode(&mut bytes);
            let extra = [0, 0, TOKEN_LEN, 0, 0, 444][n as usize % 6];
            bytes.resize(HEADER_LEN + extra, 0);
            if socket.send_to(&bytes, server).is_ok() {
                of.requests += 1;
                of.sent += bytes.len() as u64;
            }
            of.heard += heard(socket);
        }
        std::thread::sleep(PACE);
    }
    std::thread::sleep(PATIENCE);
    sockets.iter_mut().for_each(|(socket, of)| of.heard += heard(socket));
    Ok(sockets.into_iter().map(|(_, of)| of).collect())
}

/// Bytes of what has come.
fn heard(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; ANSWER_MAX];
    std::iter::from_fn(|| socket.recv_from(&mut buffer).ok().map(|(len, _)| len as u64)).sum()
}

/// Sends packets of a session with an order each, numbered from `next` on, to whoever takes the feed
/// at `targets`, from a socket that is none of a receiver; datagrams sent.
///
/// # Errors
/// When there is no socket.
pub fn forge_feed(
    targets: &[SocketAddr],
    (session, next): ([u8; 10], u64),
    packets: u64,
) -> Result<u64, Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
    let mut sent = 0;
    for seq in next..next + packets {
        let mut builder = PacketBuilder::new(Session(session), seq, ANSWER_MAX);
        builder.push(&order(seq));
        for target in targets {
            sent += u64::from(socket.send_to(builder.bytes(), target).is_ok());
        }
    }
    Ok(sent)
}

/// ITCH Add Order of instrument 1: buy 1,000,000 lots at [`FORGED_PRICE`].
fn order(seq: u64) -> [u8; ORDER_LEN] {
    let mut order = [0; ORDER_LEN];
    order[0] = b'A';
    order[2] = 1;
    order[11..19].copy_from_slice(&(u64::MAX - seq).to_be_bytes());
    order[19] = b'B';
    order[20..24].copy_from_slice(&1_000_000u32.to_be_bytes());
    order[24..32].copy_from_slice(b"BTCUSD  ");
    order[32..].copy_from_slice(&(FORGED_PRICE.0 as u32).to_be_bytes());
    order
}

/// Gives an account's plain OUCH door a wrong password from each of so many addresses of the loopback
/// network, 127.0.1.1 on; attempts that were refused.
pub fn lock_out(door: SocketAddr, clock: Clock, user: &str, addresses: u8) -> u64 {
    let attempt = |last: u8| {
        let from = Ipv4Addr::new(127, 0, 1, last);
        let line = Line::open(from, door, None).ok()?;
        let login = Ouch::login(line, clock, (user, "wrong"), 1);
        Some(u64::from(matches!(login, Login::Out)))
    };
    (1..=addresses).filter_map(attempt).sum()
}

/// Whether an account's plain OUCH door lets its owner in.
pub fn is_let_in(door: SocketAddr, clock: Clock, login: (&str, &str)) -> bool {
    let line = Line::open(Ipv4Addr::LOCALHOST, door, None);
    line.is_ok_and(|line| matches!(Ouch::login(line, clock, login, 1), Login::In(_)))
}
