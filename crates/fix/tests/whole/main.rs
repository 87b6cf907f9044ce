//! The FIX crate from outside: dictionaries, sessions, orders, documents.

mod arbitrary;
mod chains;
mod dictionary;
mod docs;
mod fix_application;
#[path = "../sample/kinds.rs"]
mod kinds;
mod market_data;
mod orders;
mod outgoing;
#[path = "../sample/mod.rs"]
mod sample;
mod session;
mod splitter;
mod terms;
mod vectors;
