//! OUCH 5.0 over SoupBinTCP: one connection is one session.

pub(crate) mod door;
pub(crate) mod session;
