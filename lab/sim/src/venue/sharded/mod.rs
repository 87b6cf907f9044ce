//! Venues of several shards as they are deployed: groups of roots with journals, proxies, edges that serve
//! all shards, participants who change gateways; the very nodes of `exchange`.
//!
//! Links between all nodes lose, double, delay and reorder datagrams, also those between the roots of
//! shards; machines of the groups die, stand still and are parted; gateways die and start anew; roots do
//! not hear edges or each other for a while. An operator gives commands for all shards: among them days end
//! and go over into the next, and instruments move to another shard with the orders that stay. Then everything is
//! mended, participants cancel what they have open, and each account's stream is read again at every
//! gateway.
//!
//! A seed passes when
//! - each order has exactly one answer, and a cancel finds its order wherever that is;
//! - what a participant has heard, number by number and through whatever gateways, and what every gateway
//!   gives it afterwards, is the merged stream that the logs of the shards say, whole;
//! - at each moment of all logs together the parts of each limit, and what is used of it, are within it;
//! - each shard has carried out the operator's commands once, in the order of their numbers;
//! - each instrument is in the end traded by one shard, the one it was to go to, and what accounts have there
//!   in orders and lots is what they were told of;
//! - no gateway tells of an execution before its own receivers have released the tick;
//! - every edge has released all that each shard has published.

mod audit;
mod site;
mod trader;
mod world;

use std::ops::Range;

use engine::MoveFault;

use crate::shards::{SeedReport, Summary, counts, run_many};

/// A mistake that the checks have to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// One gateway merges a record more than the home's log says.
    MergesEarly,
    /// One gateway has another placement of the instruments.
    RoutesWrong,
    /// Roots tell others of grants that are not in their logs.
    GrantsDoubled,
    /// One gateway does not hear after which tick an execution is public, and tells of it at once.
    TellsEarly,
    /// Roots leave an order behind when an instrument moves.
    LeavesOrder,
    /// Roots keep all orders of an instrument that moves, too.
    KeepsOrders,
    /// By the rules requests for an instrument that has gone are refused.
    AnswersForGone,
    /// By the rules the numbers of requests that were answered do not come along with an instrument.
    ForgetsSeen,
}

impl Mistake {
    /// Of the rules by which instruments move, in all roots.
    fn of_moves(self) -> Option<MoveFault> {
        match self {
            Mistake::LeavesOrder => Some(MoveFault::LeavesOne),
            Mistake::KeepsOrders => Some(MoveFault::KeepsAll),
            Mistake::AnswersForGone => Some(MoveFault::AnswersForGone),
            Mistake::ForgetsSeen => Some(MoveFault::ForgetsSeen),
            Mistake::MergesEarly
            | Mistake::RoutesWrong
            | Mistake::GrantsDoubled
            | Mistake::TellsEarly => None,
        }
    }
}

/// How it is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Shards of the venue, 2 to [`types::limits::SHARDS_MAX`].
    pub shards: u16,
    /// A mistake, for tests.
    pub mistake: Option<Mistake>,
}

counts! {
    orders "Orders and replaces of participants.",
    executions "Executions, each side counted.",
    messages "Messages of merged streams.",
    references "References to other shards' records in them.",
    merge_logins "Sessions let in, those that listen again included.",
    parts_moved "Records of limits moved between shards.",
    parts_short "Orders refused because the shard's part of a limit was used up.",
    commands_for_all "Operators' commands for all shards.",
    terms "Times that somebody else began to lead a shard.",
    leaders_killed "Leaders that died.",
    gateways_killed "Gateways that died.",
    shard_links_cut "Times that two shards' roots did not hear each other.",
    datagrams_lost "Datagrams lost.",
    told_public "Executions told by gateways, all after their tick.",
    rolls "Ends of a day, and beginnings of the next, that all shards carried out.",
    instruments_moved "Instruments that went to another shard.",
    orders_moved "Open orders that went with them.",
    sent_again "Requests without an answer that gateways sent to the new shard.",
}

/// What a seed came to.
pub type Report = SeedReport<Counts>;

/// Plays one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    world::run(seed, options)
}

/// Plays seeds as [`crate::shards::run_seeds`] does.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    options: &Options,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Summary<Counts> {
    run_many(seeds, threads, |seed| run(seed, options), progress)
}
