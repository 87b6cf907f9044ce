//! Accounts' sessions against a gateway played by hand, and the door over real connections.

mod account;
mod door;
