//! Where participants come in: OUCH 5.0 over SoupBinTCP, or FIX, on one side, the overlay on the
//! other.
//!
//! Sans-I/O. A gateway authenticates, checks syntax, stamps `t_in` and numbers each request; what
//! needs state is the engine's to judge, so that its answer lies in the log (corner 20). It owns no
//! business state: a private stream's positions are the session's sequence numbers, of SoupBinTCP
//! as of FIX, so a client
//! that comes back, here or at another gateway, gets what it missed from the root (corner 2).
//! What prints waits for its public tick (corner 16), seen at the receiver on the same VM. The
//! orders of a session that ended can be cancelled after a grace time, if its login says so.
//!
//! Bounded: connections, orders in flight, orders waiting (then reading stops), messages held (then
//! the private stream is paused).

mod access;
mod cancel_on_disconnect;
mod config;
mod context;
mod fix;
mod gateway;
mod hold;
mod operate;
mod ouch;
mod routes;
mod session;
mod streams;
mod subscriptions;

pub use ::fix::Version as FixVersion;
pub use ::fix::app::market::{Level, Print};
pub use access::bucket::Rate;
pub use access::throttle::Throttle;
pub use access::{
    AccessConfig, AccessKey, CertificateRule, LoginTerms, Refusal, Refusals, Refused, decode_work,
};
pub use config::{
    CANCEL_GRACE_NS, FixLogin, FixRole, GatewayConfig, Login, OUTSTANDING, ShardPath,
};
pub use context::{Ahead, GatewayCounters};
pub use fix::application::FixCounters;
pub use fix::market::{Books, News};
pub use gateway::{FIX_DOOR, Gateway, OUCH_DOOR, SUBSCRIPTION_DOOR};
pub use operate::SessionInfo;
pub use subscriptions::{
    SubscriptionCounters, SubscriptionEvent, SubscriptionRefusal, SubscriptionTerms,
};
pub use wire::subscription::EdgeLoad;
