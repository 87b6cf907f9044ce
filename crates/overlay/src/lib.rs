//! The fair overlay: market data down a hedged proxy tree, orders up it, everything end to end.
//!
//! Sans-I/O: nothing here knows sockets, threads, clocks, or what an order means.

pub mod frame;
