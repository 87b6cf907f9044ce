//! The gateway between real SoupBinTCP clients and a root that answers by the frame layouts.

mod access;
mod bench;
mod cancel_on_disconnect;
mod holding;
mod hostile;
mod login;
mod operate;
mod rates;
mod requests;
mod subscriptions;
