//! The gateway between real SoupBinTCP clients and a root that answers by the frame layouts.

mod bench;
mod guard;
mod holding;
mod hostile;
mod leaving;
mod login;
mod operate;
mod rates;
mod requests;
