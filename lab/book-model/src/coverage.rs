//! Which cells of order kind x phase x self-trade mode x outcome the runs have reached.
//!
//! A cell is about one order: its kind and mode as it was submitted or last replaced, the phase of
//! its market when the outcome was told (for refusals: when the command came), and what became of
//! it. [`crate::possible::possible`] says which cells can occur by the rules. An empty cell that
//! can occur, and a cell that cannot but was reached, are both findings.

use std::collections::BTreeMap;
use std::fmt::Write;

use types::{
    CancelReason, NewOrder, OrderEvent, OrderFacts, OrderType, Phase, Price, RejectReason,
    SelfTrade,
};

use crate::flow::Step;
use crate::kind::Kind;
use crate::model::{Model, Told};
use crate::possible::possible;

/// Defines the outcomes and the list of them.
macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What can become of an order.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Outcome {
            $($(#[$doc])* $name,)*
        }

        impl Outcome {
            /// All outcomes, in the order of the variants.
            pub const ALL: &[Outcome] = &[$(Outcome::$name),*];
        }
    };
}

outcomes! {
    /// The order was refused with [`types::RejectReason::DuplicateOrder`].
    RefusedDuplicate,
    /// The order was refused with [`types::RejectReason::Unsupported`].
    RefusedUnsupported,
    /// The order was refused with [`types::RejectReason::InvalidQuantityTerms`].
    RefusedQuantities,
    /// The order was refused with [`types::RejectReason::InvalidStopPrice`].
    RefusedStopPrice,
    /// The order was refused with [`types::RejectReason::MarketClosed`].
    RefusedClosed,
    /// The order was refused with [`types::RejectReason::Halted`].
    RefusedHalted,
    /// The order was refused with [`types::RejectReason::NotInThisPhase`].
    RefusedPhase,
    /// The order was refused with [`types::RejectReason::PostOnlyWouldTrade`].
    RefusedPostOnly,
    /// The order was refused with [`types::RejectReason::CapacityReached`].
    RefusedCapacity,
    /// The order entered and rests; nothing of it traded.
    Rested,
    /// The order waits for the closing call.
    Waiting,
    /// The order entered the list of stops or of pegs.
    Listed,
    /// The order traded in full on entry.
    TradedFully,
    /// Traded in part on entry; the rest rests.
    TradedThenRested,
    /// Traded in part on entry; the rest is cancelled.
    TradedThenCancelled,
    /// Cancelled on entry; nothing traded.
    CancelledUntraded,
    /// The order was cancelled with [`types::CancelReason::NotEnough`].
    NotEnough,
    /// Self-trade prevention took its last lots on entry; nothing had traded.
    PreventedUntraded,
    /// Self-trade prevention took its last lots on entry, after it had traded in part.
    PreventedAfterTrade,
    /// Self-trade prevention took lots on entry, and the order went on.
    PreventedAndWentOn,
    /// The collar stopped the order on entry; the rest of it rests.
    CollarRested,
    /// The collar stopped the order on entry; the rest of it is cancelled.
    CollarCancelled,
    /// The order was cancelled with [`types::CancelReason::Capacity`].
    CapacityCancelled,
    /// The order traded while it rested.
    TradedResting,
    /// The order traded in an uncrossing.
    TradedInAuction,
    /// An iceberg displayed its next lots.
    Replenished,
    /// Lost lots to self-trade prevention while it rested.
    PreventedResting,
    /// The trigger price reached the stop, which became active.
    Triggered,
    /// A parked or moving peg found a price.
    Priced,
    /// A peg lost its price and was parked.
    Parked,
    /// Went from the waiting orders into the closing call.
    EnteredClose,
    /// The order was reduced by a request.
    Reduced,
    /// The order was cancelled by a request.
    Cancelled,
    /// The order was cancelled by a mass cancel.
    MassCancelled,
    /// The end of a good-till-date order came.
    Expired,
    /// The auction that the order was for is over.
    AuctionOver,
    /// The order replaced another one and kept its place.
    KeptPlace,
    /// Replaced a displayed order and is not displayed.
    Withdrew,
}

/// All modes of self-trade prevention, in the order of their numbers.
pub const MODES: [SelfTrade; 5] = [
    SelfTrade::Allow,
    SelfTrade::CancelNewest,
    SelfTrade::CancelOldest,
    SelfTrade::CancelBoth,
    SelfTrade::Decrement,
];

/// One cell of the coverage table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    /// Kind of the order that was entered.
    pub kind: Kind,
    /// Phase of the market at that time.
    pub phase: Phase,
    /// Self-trade prevention of the order, as an index of [`MODES`].
    pub mode: u8,
    /// What became of the order.
    pub outcome: Outcome,
}

impl Cell {
    /// Every cell, possible or not, in order.
    pub fn all() -> impl Iterator<Item = Cell> {
        (0..Kind::ALL.len() * Phase::ALL.len() * MODES.len() * Outcome::ALL.len()).map(|index| {
            let (index, outcome) = (index / Outcome::ALL.len(), index % Outcome::ALL.len());
            let (index, mode) = (index / MODES.len(), index % MODES.len());
            let (kind, phase) = (index / Phase::ALL.len(), index % Phase::ALL.len());
            Cell {
                kind: Kind::ALL[kind],
                phase: Phase::ALL[phase],
                mode: mode as u8,
                outcome: Outcome::ALL[outcome],
            }
        })
    }

    fn index(&self) -> usize {
        let row = self.kind as usize * Phase::ALL.len() + self.phase as usize;
        (row * MODES.len() + usize::from(self.mode)) * Outcome::ALL.len() + self.outcome as usize
    }
}

/// How often each cell was reached.
#[derive(Clone, Debug)]
pub struct Coverage {
    counts: Vec<u64>,
    /// Kind and mode of the open orders of the present run, by key.
    known: BTreeMap<u64, (Kind, SelfTrade)>,
    episode: Option<Episode>,
}

/// An order on its way in: from its acceptance, activation or repricing until it rests or is gone.
#[derive(Clone, Copy, Debug)]
struct Episode {
    key: u64,
    peg: bool,
    phase: Phase,
    traded: bool,
    prevented: bool,
    interrupted: bool,
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage { counts: vec![0; Cell::all().count()], known: BTreeMap::new(), episode: None }
    }
}

impl Coverage {
    /// How often a cell was reached.
    pub fn count(&self, cell: &Cell) -> u64 {
        self.counts[cell.index()]
    }

    /// Adds the counts of another table.
    pub fn add(&mut self, other: &Coverage) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// Cells that can occur and were not reached.
    pub fn empty(&self) -> Vec<Cell> {
        Cell::all().filter(|cell| possible(cell) && self.count(cell) == 0).collect()
    }

    /// Cells that cannot occur and were reached.
    pub fn impossible(&self) -> Vec<Cell> {
        Cell::all().filter(|cell| !possible(cell) && self.count(cell) > 0).collect()
    }

    /// How many cells can occur.
    pub fn possible_cells() -> usize {
        Cell::all().filter(possible).count()
    }

    /// The books are empty from now on.
    pub(crate) fn begin_run(&mut self) {
        self.known.clear();
        self.episode = None;
    }

    /// Counts what a command did, as the model has told it. `phase` is that of the market of a new
    /// order or replace before it.
    pub(crate) fn note(
        &mut self,
        step: &Step,
        phase: Option<Phase>,
        refused: Option<RejectReason>,
        model: &Model,
    ) {
        let order = match step {
            Step::Submit { order, .. } | Step::Replace { order, .. } => Some(order),
            _ => None,
        };
        if let (Some(order), Some(phase), Some(reason)) = (order, phase, refused)
            && let Some(outcome) = refusal(reason)
        {
            self.hit(Kind::of(order), order.self_trade, phase, outcome);
        }
        for (told, phase) in model.told.iter().zip(&model.told_in) {
            self.note_event(told, *phase, order);
        }
        self.end_peg_episode();
        for told in &model.told {
            let gone = told.other.into_iter().chain([told.order]).filter(|order| order.open == 0);
            gone.for_each(|order| {
                self.known.remove(&order.key);
            });
        }
    }

    fn hit(&mut self, kind: Kind, mode: SelfTrade, phase: Phase, outcome: Outcome) {
        let cell = Cell { kind, phase, mode: mode as u8, outcome };
        self.counts[cell.index()] += 1;
    }

    fn hit_order(&mut self, key: u64, phase: Phase, outcome: Outcome) {
        if let Some((kind, mode)) = self.known.get(&key) {
            self.hit(*kind, *mode, phase, outcome);
        }
    }

    fn note_event(&mut self, told: &Told, phase: Phase, entered: Option<&NewOrder>) {
        let (order, key) = (&told.order, told.order.key);
        match told.event {
            OrderEvent::Accepted => self.register(order, entered, phase),
            OrderEvent::Replaced { old_key, kept, .. } => {
                self.known.remove(&old_key);
                self.register(order, entered, phase);
                if kept {
                    self.episode = None;
                    self.hit_order(key, phase, Outcome::KeptPlace);
                }
            }
            OrderEvent::Triggered => {
                self.end_peg_episode();
                self.hit_order(key, phase, Outcome::Triggered);
                self.begin(key, false, phase);
            }
            OrderEvent::Repriced { .. } => {
                self.end_peg_episode();
                let priced = order.price != Price(0);
                let outcome = if priced { Outcome::Priced } else { Outcome::Parked };
                self.hit_order(key, phase, outcome);
                if priced {
                    self.begin(key, true, phase);
                }
            }
            OrderEvent::Added { .. } => self.note_added(order, phase),
            OrderEvent::Withdrawn { .. } => self.hit_order(key, phase, Outcome::Withdrew),
            OrderEvent::Replenished { .. } => self.hit_order(key, phase, Outcome::Replenished),
            OrderEvent::Interrupted { .. } => {
                self.episode.iter_mut().for_each(|episode| episode.interrupted = true);
            }
            OrderEvent::Traded { auction, .. } => self.note_trade(told, auction, phase),
            OrderEvent::Reduced { reason, .. } => self.note_reduced(key, reason, phase),
            OrderEvent::Canceled { reason, .. } => self.note_canceled(key, reason, phase),
            OrderEvent::Uncrossed { .. } => {}
        }
    }

    fn register(&mut self, order: &OrderFacts, entered: Option<&NewOrder>, phase: Phase) {
        if let Some(terms) = entered {
            self.known.insert(order.key, (Kind::of(terms), terms.self_trade));
        }
        self.begin(order.key, false, phase);
    }

    fn begin(&mut self, key: u64, peg: bool, phase: Phase) {
        let fresh =
            Episode { key, peg, phase, traded: false, prevented: false, interrupted: false };
        self.episode = Some(fresh);
    }

    /// Ends the episode of an order with its outcome.
    fn end(&mut self, episode: &Episode, outcome: Outcome) {
        self.episode = None;
        self.hit_order(episode.key, episode.phase, outcome);
        let ended = matches!(outcome, Outcome::PreventedUntraded | Outcome::PreventedAfterTrade);
        if episode.prevented && !ended {
            self.hit_order(episode.key, episode.phase, Outcome::PreventedAndWentOn);
        }
    }

    /// A peg that rests again says nothing: its episode ends with the next thing told that is not
    /// about it.
    fn end_peg_episode(&mut self) {
        if let Some(episode) = self.episode.filter(|episode| episode.peg) {
            self.end(&episode, rested(&episode));
        }
    }

    fn note_added(&mut self, order: &OrderFacts, phase: Phase) {
        let Some(episode) = self.episode.filter(|episode| episode.key == order.key) else {
            return self.hit_order(order.key, phase, Outcome::EnteredClose);
        };
        let kind = self.known.get(&order.key).map(|(kind, _)| *kind);
        let at_close = matches!(kind, Some(Kind::LimitAtClose | Kind::MarketAtClose));
        let outcome = match order.order_type {
            OrderType::Limit | OrderType::Market | OrderType::MarketToLimit
                if at_close && phase != Phase::ClosingCall =>
            {
                Outcome::Waiting
            }
            OrderType::Limit | OrderType::Market | OrderType::MarketToLimit => rested(&episode),
            _ => Outcome::Listed,
        };
        self.end(&episode, outcome);
    }

    fn note_trade(&mut self, told: &Told, auction: bool, phase: Phase) {
        let Some(other) = told.other else { return };
        if auction {
            self.hit_order(told.order.key, phase, Outcome::TradedInAuction);
            self.hit_order(other.key, phase, Outcome::TradedInAuction);
            return;
        }
        self.hit_order(told.order.key, phase, Outcome::TradedResting);
        if let Some(episode) = &mut self.episode {
            episode.traded = true;
            if other.open == 0 {
                let episode = *episode;
                self.end(&episode, Outcome::TradedFully);
            }
        }
    }

    fn note_reduced(&mut self, key: u64, reason: CancelReason, phase: Phase) {
        if reason != CancelReason::SelfTrade {
            return self.hit_order(key, phase, Outcome::Reduced);
        }
        self.note_prevented(key, phase);
    }

    fn note_prevented(&mut self, key: u64, phase: Phase) {
        let Some(episode) = &mut self.episode else { return };
        episode.prevented = true;
        if episode.key != key {
            self.hit_order(key, phase, Outcome::PreventedResting);
        }
    }

    fn note_canceled(&mut self, key: u64, reason: CancelReason, phase: Phase) {
        let own = self.episode.filter(|episode| episode.key == key);
        let traded = own.is_some_and(|episode| episode.traded);
        let outcome = match reason {
            CancelReason::SelfTrade if own.is_none() => return self.note_prevented(key, phase),
            CancelReason::SelfTrade if traded => Outcome::PreventedAfterTrade,
            CancelReason::SelfTrade => Outcome::PreventedUntraded,
            CancelReason::ImmediateOrCancel if traded => Outcome::TradedThenCancelled,
            CancelReason::ImmediateOrCancel => Outcome::CancelledUntraded,
            CancelReason::NotEnough => Outcome::NotEnough,
            CancelReason::Collar => Outcome::CollarCancelled,
            CancelReason::Capacity => Outcome::CapacityCancelled,
            CancelReason::Requested => Outcome::Cancelled,
            CancelReason::Expired => Outcome::Expired,
            CancelReason::AuctionOver => Outcome::AuctionOver,
            _ => Outcome::MassCancelled,
        };
        match own {
            Some(episode) => self.end(&episode, outcome),
            None => self.hit_order(key, phase, outcome),
        }
    }

    /// The table as text: per kind the outcomes that can occur, per phase the fewest hits among the
    /// self-trade modes (`.` where the outcome cannot occur in any mode).
    pub fn render(&self) -> String {
        let mut text = String::new();
        for kind in Kind::ALL {
            let _ = write!(text, "{:<30}", kind.name());
            for phase in Phase::ALL {
                let _ = write!(text, "{:>15}", format!("{phase:?}"));
            }
            text.push('\n');
            for &outcome in Outcome::ALL {
                let cells = |phase| {
                    (0..MODES.len() as u8)
                        .map(move |mode| Cell { kind, phase, mode, outcome })
                        .filter(possible)
                };
                if Phase::ALL.into_iter().all(|phase| cells(phase).next().is_none()) {
                    continue;
                }
                let _ = write!(text, "  {:<28}", format!("{outcome:?}"));
                for phase in Phase::ALL {
                    let fewest = cells(phase).map(|cell| self.count(&cell)).min();
                    let shown = fewest.map_or(".".to_string(), |count| count.to_string());
                    let _ = write!(text, "{shown:>15}");
                }
                text.push('\n');
            }
        }
        let (empty, impossible) = (self.empty().len(), self.impossible().len());
        let _ = writeln!(
            text,
            "{} cells can occur, {empty} of them empty; {impossible} reached that cannot",
            Coverage::possible_cells()
        );
        text
    }
}

fn rested(episode: &Episode) -> Outcome {
    match episode {
        Episode { interrupted: true, .. } => Outcome::CollarRested,
        Episode { traded: true, .. } => Outcome::TradedThenRested,
        _ => Outcome::Rested,
    }
}

fn refusal(reason: RejectReason) -> Option<Outcome> {
    Some(match reason {
        RejectReason::DuplicateOrder => Outcome::RefusedDuplicate,
        RejectReason::Unsupported => Outcome::RefusedUnsupported,
        RejectReason::InvalidQuantityTerms => Outcome::RefusedQuantities,
        RejectReason::InvalidStopPrice => Outcome::RefusedStopPrice,
        RejectReason::MarketClosed => Outcome::RefusedClosed,
        RejectReason::Halted => Outcome::RefusedHalted,
        RejectReason::NotInThisPhase => Outcome::RefusedPhase,
        RejectReason::PostOnlyWouldTrade => Outcome::RefusedPostOnly,
        RejectReason::CapacityReached => Outcome::RefusedCapacity,
        _ => return None,
    })
}
