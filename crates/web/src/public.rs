//! What requests without a key cost: credits of the address that they come from.
//!
//! A request is let in while its address has a credit left. It then costs one, and one more for each
//! [`BYTES_PER_CREDIT`] of its answer, so whoever asks for large books gets fewer of them. An address may owe what one
//! answer cost; that comes back like the rest.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;

use crate::credits::Bucket;
use crate::error::ApiError;
use crate::server::{Door, now_ms};

/// Bytes of an answer that cost one credit more.
pub const BYTES_PER_CREDIT: u64 = 8_192;
/// Credits that come back to an address in a second, unless the settings say otherwise.
pub const PUBLIC_CREDITS_PER_S: u32 = 1_000;
/// Addresses with less than all their credits, at most; a further one is refused until one has them back.
const ADDRESSES_MAX: usize = 65_536;

/// Credits of all addresses.
pub(crate) struct PublicCredits {
    per_s: u32,
    addresses_max: usize,
    of: Mutex<HashMap<IpAddr, Bucket>>,
}

/// Whose credits an address uses: of IPv6 a subscriber has the last 64 bits to choose from.
fn subscriber(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(own) => Ipv6Addr::from_bits(own.to_bits() >> 64 << 64).into(),
        own @ IpAddr::V4(_) => own,
    }
}

impl PublicCredits {
    /// All addresses have all credits, of which so many come back in a second, at least 1.
    pub fn new(per_s: u32) -> PublicCredits {
        PublicCredits { per_s: per_s.max(1), addresses_max: ADDRESSES_MAX, of: Mutex::default() }
    }

    /// Lets a request in and takes a credit.
    ///
    /// # Errors
    /// `too_many_requests`: the address has none left, or too many addresses ask.
    pub fn admit(&self, now_ms: u64, from: IpAddr) -> Result<(), ApiError> {
        let refused = |why: String| Err(ApiError::new("too_many_requests", why));
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let key = subscriber(from);
        if !all.contains_key(&key) && all.len() >= self.addresses_max {
            all.retain(|_, of| !of.is_full(self.per_s, now_ms));
            if all.len() >= self.addresses_max {
                return refused("too many addresses ask: try again in a second".to_string());
            }
        }
        let per_s = self.per_s;
        let of = all.entry(key).or_insert_with(|| Bucket::full(per_s, now_ms));
        of.take(per_s, now_ms, 1).map(drop).or_else(|left| {
            let ms = (1_000 - left).unsigned_abs().div_ceil(u64::from(per_s));
            refused(format!(
                "paths without a signature: this address has no credits left, {per_s} come back in a second; try again \
                 in {ms} ms"
            ))
        })
    }

    /// Takes what an answer of so many bytes costs beyond the request.
    pub fn charge(&self, from: IpAddr, bytes: u64) {
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = all.get_mut(&subscriber(from)) {
            of.owe(bytes / BYTES_PER_CREDIT);
        }
    }
}

/// Charges a request on a path that no key signs.
pub(crate) async fn charged(
    State(door): State<Arc<Door>>,
    request: Request,
    next: Next,
) -> Response {
    let from = request.extensions().get::<ConnectInfo<std::net::SocketAddr>>();
    let Some(from) = from.map(|from| from.0.ip()) else {
        return next.run(request).await;
    };
    if let Err(refused) = door.public.admit(now_ms(), from) {
        // What else it has sent is not even read: refusals would cost as much as answers.
        let mut response = refused.into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let response = next.run(request).await;
    door.public.charge(from, response.body().size_hint().lower());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_has_two_seconds_of_credits_and_gets_them_back() {
        let credits = PublicCredits::new(5);
        let many = |at, from| (0..100).filter(|_| credits.admit(at, from).is_ok()).count();
        assert_eq!(many(NOW, address(1)), 10);
        let why = credits.admit(NOW, address(1)).expect_err("none left");
        assert_eq!(why.code, "too_many_requests");
        assert!(why.message.contains("in 200 ms"), "{}", why.message);
        assert_eq!(many(NOW, address(2)), 10, "another one has its own");
        assert_eq!(many(NOW + 400, address(1)), 2);
        // A clock that is set back gives nothing.
        assert_eq!(many(NOW, address(1)), 0);
        assert_eq!(many(NOW + 60_000, address(1)), 10);
    }

    #[test]
    fn a_large_answer_costs_more_and_is_owed() {
        let credits = PublicCredits::new(5);
        credits.admit(NOW, address(1)).expect("all are left");
        credits.charge(address(1), 14 * BYTES_PER_CREDIT + 1);
        assert!(credits.admit(NOW + 1_000, address(1)).is_err(), "5 are owed, 5 came back");
        credits.admit(NOW + 1_200, address(1)).expect("one is left");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_share_and_no_more_are_remembered_than_there_is_room_for() {
        let of = |network: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        let credits = PublicCredits { addresses_max: 3, ..PublicCredits::new(1) };
        assert!(credits.admit(NOW, of(1, 1)).is_ok() && credits.admit(NOW, of(1, 2)).is_ok());
        assert!(credits.admit(NOW, of(1, 3)).is_err());
        assert!(credits.admit(NOW, of(2, 3)).is_ok() && credits.admit(NOW, of(3, 3)).is_ok());
        let why = credits.admit(NOW, of(4, 1)).expect_err("no room");
        assert!(why.message.contains("too many addresses"), "{}", why.message);
        // Those that have all their credits back are forgotten.
        credits.admit(NOW + 2_000, of(4, 1)).expect("there is room");
        assert_eq!(credits.of.lock().expect("not poisoned").len(), 1);
    }
}
