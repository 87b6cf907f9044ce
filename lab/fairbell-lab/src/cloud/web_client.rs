//! A client of the web door on the first edge of a box: REST over TLS, from the participants' host.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use host::failure::{Failure, on};
use host::fleet::file::{NodeRole, Port};
use host::sockets::io;
use net::ClientTls;
use serde::Serialize;
use serde_json::json;

use super::site::Site;
use crate::web::client::rest_over;

/// File of the door, and the secret of its key `box`.
pub const KEYS: &str = "web.toml";
const SECRET: &str = "secret of the box";
/// Orders that it enters.
const ORDERS: u32 = 20;
/// Between two, and before it asks again.
const PACE: Duration = Duration::from_millis(20);
/// For a connection and an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// For all of its orders to be answered: the door opens its session when it is first asked.
const ALL: Duration = Duration::from_secs(20);

/// What became of its orders.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WebOrders {
    /// Orders accepted.
    pub accepted: u64,
    /// Orders that the exchange refused.
    pub rejected: u64,
    /// Orders that were not answered, and may be in the log.
    pub unanswered: u64,
}

/// Writes the door's file: a key for an account that nobody plays.
///
/// # Errors
/// The system's.
pub fn write_keys(dir: &Path) -> Result<(), Failure> {
    let path = dir.join(KEYS);
    let text = format!(
        "[[key]]\nname = \"box\"\nsecret = \"{SECRET}\"\nusername = \"GUEST\"\npassword = \"welcome\"\n"
    );
    std::fs::write(&path, text).map_err(|error| on(&path, error))
}

/// Enters its orders, each again under its own id until it is answered.
///
/// # Errors
/// The venue has no edge; certificates that are none.
pub fn trade(site: &Site<'_>) -> Result<WebOrders, Failure> {
    let none = || Failure::Run("the venue has no edge".to_string());
    let edge = site.places(NodeRole::Edge).first().copied().ok_or_else(none)?;
    let door = site.file.at(&site.file.nodes[edge], Port::Web)?;
    let authority = site.file.authority_path();
    let tls = host::tls::client(&authority.to_string_lossy(), None, &site.file.name)?;
    let work = || {
        let (mut told, until) = (WebOrders::default(), Instant::now() + ALL);
        for number in 0..ORDERS {
            match order((door, &tls), number, until) {
                Some(200) => told.accepted += 1,
                Some(_) => told.rejected += 1,
                None => told.unanswered += 1,
            }
            thread::sleep(PACE);
        }
        told
    };
    site.participants().enter(work).map_err(io)
}

/// Enters an order far from the market until it is accepted or refused: 200 or 422.
fn order((door, tls): (SocketAddr, &ClientTls), number: u32, until: Instant) -> Option<u16> {
    let order = json!({
        "symbol": "BTCUSD", "side": "buy", "qty": "1", "price": "100",
        "client_order_id": format!("box-{number}"),
    });
    while Instant::now() < until {
        let stream = TcpStream::connect_timeout(&door, PATIENCE).ok();
        let sealed = stream.and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            tls.over(stream).ok()
        });
        let told = sealed.and_then(|stream| {
            rest_over(stream, ("box", SECRET), ("POST", "/v1/orders"), &order.to_string())
        });
        match told {
            Some((status @ (200 | 422), _)) => return Some(status),
            _ => thread::sleep(PACE),
        }
    }
    None
}
