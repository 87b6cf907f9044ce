//! Strategies: programs that hear the released market and answer with orders, the same in a backtest, in the
//! simulator and beside the receiver of a running exchange.
//!
//! - [`Strategy`] is what such a program is to its host, [`Desk`] what it sees and does; [`Maker`] and
//!   [`Taker`] are built in.
//! - [`Seat`] is the host's part: books made of the feed's messages, orders and holdings made of reports. What
//!   it was given, in that order, decides what the strategy asks for, and nothing else does.
//! - [`Program`] is a strategy that is told [`News`] and answers [`Action`]s, wherever it runs: [`Cage`] runs a
//!   WebAssembly module with the world in `wit/strategy.wit`, within [`Limits`]; `fairbell-lab backtest
//!   --strategy-cmd` one behind a pipe.
//! - [`StrategyNode`] is the sans-I/O node of a live strategy: it listens to an edge's released feed and has an
//!   ordinary OUCH session at the gateway of that edge. [`heard`] is the record of what it was told.
//! - [`signature`] says whose a module is.
//!
//! Nothing here knows a socket, a file or a clock.

mod blotter;
mod built_in;
mod cage;
pub mod enclave;
pub mod heard;
mod node;
mod program;
mod report;
mod seat;
mod session;
pub mod signature;
mod strategy;

pub use built_in::{Idle, Maker, MakerConfig, Taker, TakerConfig};
pub use cage::{Cage, CageError, Limits, Module};
pub use node::{Sink, StrategyNode, StrategySettings, StrategyStatus};
pub use program::{Action, DEPTH, News, Program, Programmed};
pub use report::{MarketTrade, Report, ReportKind};
pub use seat::{Request, Seat};
pub use session::{Login, SessionCounters};
pub use strategy::{Desk, Order, Strategy};
