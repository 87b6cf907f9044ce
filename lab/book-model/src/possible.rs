//! Which cells of the coverage table can occur, from the rules of docs/matching.md (numbers in
//! comments) and not from what was seen.

use types::{Phase, SelfTrade};

use crate::coverage::{Cell, MODES, Outcome};
use crate::kind::Kind;

use Kind::{
    Hidden, Iceberg, Limit, LimitAtClose, LimitAtOpen, LimitFok, LimitIoc, Market, MarketAtClose,
    MarketAtOpen, MarketFok, MarketIoc, MarketToLimit, MinQty, PegMid, PegPrimary, PostOnly, Slide,
    Stop, StopLimit, TrailingStop,
};

/// Whether the rules allow this to happen.
pub fn possible(cell: &Cell) -> bool {
    let (kind, phase) = (cell.kind, cell.phase);
    let mode = MODES[usize::from(cell.mode)];
    let continuous = phase == Phase::Continuous;
    match cell.outcome {
        // 2.1, 2.2 and 2.4 apply to every kind and come before the phase is looked at.
        Outcome::RefusedDuplicate | Outcome::RefusedUnsupported | Outcome::RefusedStopPrice => true,
        Outcome::RefusedQuantities => has_quantity_terms(kind),
        // 2.5; a replace that keeps its place is taken in Halt, others are not.
        Outcome::RefusedClosed => phase == Phase::Closed,
        Outcome::RefusedHalted => phase == Phase::Halt,
        Outcome::RefusedPhase => refused_in(kind, phase),
        // 2.6; sliding up always finds a price, sliding down does not below the lowest.
        Outcome::RefusedPostOnly => continuous && matches!(kind, PostOnly | Slide),
        // 10.1: in continuous trading what may not rest needs no room.
        Outcome::RefusedCapacity => {
            taken_in(kind, phase) && !(continuous && (immediate(kind) || kind == Market))
        }
        Outcome::Withdrew => can_withdraw(kind, phase),
        Outcome::KeptPlace => can_keep_place(kind, phase),
        _ if is_entry(cell.outcome) => possible_on_entry(kind, phase, mode, cell.outcome),
        _ => possible_later(kind, phase, cell.outcome),
    }
}

/// Outcomes of an order on its way in.
fn is_entry(outcome: Outcome) -> bool {
    (Outcome::Rested..=Outcome::CapacityCancelled).contains(&outcome)
}

fn immediate(kind: Kind) -> bool {
    matches!(kind, LimitIoc | LimitFok | MarketIoc | MarketFok)
}

fn is_stop(kind: Kind) -> bool {
    matches!(kind, Stop | StopLimit | TrailingStop)
}

fn is_peg(kind: Kind) -> bool {
    matches!(kind, PegPrimary | PegMid)
}

fn is_market(kind: Kind) -> bool {
    matches!(kind, Market | MarketIoc | MarketFok | MarketAtOpen | MarketAtClose)
}

/// Kinds that may, or must, have a minimum quantity.
fn has_minimum(kind: Kind) -> bool {
    matches!(kind, MinQty | Hidden | Market | MarketIoc | MarketToLimit)
}

/// Kinds whose terms can hold a display or minimum quantity without being `Unsupported` (2.2) or
/// of another kind.
fn has_quantity_terms(kind: Kind) -> bool {
    has_minimum(kind) || matches!(kind, Iceberg | PostOnly | Slide)
}

/// 2.5: `NotInThisPhase` can be the answer.
fn refused_in(kind: Kind, phase: Phase) -> bool {
    let opening = matches!(phase, Phase::PreOpen | Phase::OpeningCall);
    match kind {
        LimitAtOpen | MarketAtOpen => !opening && !matches!(phase, Phase::Closed | Phase::Halt),
        LimitIoc => phase.is_call() && phase != Phase::Batch,
        LimitFok | MarketFok | PostOnly | Slide | PegPrimary | PegMid => phase.is_call(),
        // No call takes a minimum quantity.
        _ => has_minimum(kind) && phase.is_call(),
    }
}

/// 2.5: orders of the kind can be taken.
fn taken_in(kind: Kind, phase: Phase) -> bool {
    match phase {
        Phase::Closed | Phase::Halt => false,
        // Of these only those with a minimum quantity are refused.
        _ if matches!(kind, Market | Hidden) => true,
        Phase::Batch if kind == MarketIoc => true,
        _ => !refused_in(kind, phase),
    }
}

/// Kinds that trade on entry in continuous trading (3.2): not those that wait, that may only rest,
/// or that are lists' first. Stops do once triggered.
fn trades_on_entry(kind: Kind) -> bool {
    let never = matches!(
        kind,
        PostOnly | Slide | LimitAtOpen | LimitAtClose | MarketAtOpen | MarketAtClose
    );
    // A primary peg is never better than the best displayed price of its own side, which is not
    // at or better than anything on the other side.
    !never && kind != PegPrimary
}

/// Kinds of which a rest can rest in continuous trading.
fn rests_after_trade(kind: Kind) -> bool {
    matches!(kind, Limit | MinQty | Iceberg | Hidden | MarketToLimit | StopLimit | PegMid)
}

fn possible_on_entry(kind: Kind, phase: Phase, mode: SelfTrade, outcome: Outcome) -> bool {
    let continuous = phase == Phase::Continuous;
    let trades = continuous && trades_on_entry(kind);
    let full_or_nothing = matches!(kind, LimitFok | MarketFok);
    let oldest = mode == SelfTrade::CancelOldest;
    let rests = trades && rests_after_trade(kind);
    // What is left of these is cancelled: by life or type, or a rest of either sort.
    let immediate = trades
        && matches!(
            kind,
            LimitIoc | MinQty | Market | MarketIoc | MarketToLimit | Stop | TrailingStop
        );
    match outcome {
        Outcome::Rested => can_rest_untraded(kind, phase),
        Outcome::Waiting => {
            matches!(kind, LimitAtClose | MarketAtClose)
                && taken_in(kind, phase)
                && phase != Phase::ClosingCall
        }
        Outcome::Listed => (is_stop(kind) || is_peg(kind)) && taken_in(kind, phase),
        Outcome::TradedFully => trades,
        Outcome::TradedThenRested => rests,
        Outcome::TradedThenCancelled => immediate,
        // With a minimum quantity something has traded (3.3).
        Outcome::CancelledUntraded => immediate && kind != MinQty,
        Outcome::NotEnough => continuous && (has_minimum(kind) || full_or_nothing),
        // 3.3: levels with an order of the group do not count for FOK, and the first lots a minimum
        // quantity counts are others', except with CancelOldest, which never takes the incoming.
        Outcome::PreventedUntraded => trades && ends(mode) && !full_or_nothing && kind != MinQty,
        Outcome::PreventedAfterTrade => trades && ends(mode) && !full_or_nothing,
        Outcome::PreventedAndWentOn => {
            trades && (oldest || mode == SelfTrade::Decrement && !full_or_nothing)
        }
        Outcome::CollarRested => rests && kind != MarketToLimit,
        Outcome::CollarCancelled => immediate,
        Outcome::CapacityCancelled => can_find_no_place(kind, phase, mode),
        _ => false,
    }
}

/// Modes in which self-trade prevention takes the incoming order's last lots (4.5).
fn ends(mode: SelfTrade) -> bool {
    matches!(mode, SelfTrade::CancelNewest | SelfTrade::CancelBoth | SelfTrade::Decrement)
}

/// Entered and resting in a level or market queue with nothing traded.
fn can_rest_untraded(kind: Kind, phase: Phase) -> bool {
    if phase == Phase::Continuous {
        return matches!(kind, Limit | Iceberg | Hidden | PostOnly | Slide | StopLimit)
            || is_peg(kind);
    }
    let waits = matches!(kind, LimitAtClose | MarketAtClose) && phase != Phase::ClosingCall;
    taken_in(kind, phase) && !waits && !is_stop(kind) && !is_peg(kind)
}

/// Whether an order of this kind, once accepted, may be cancelled for want of room, by rule 10.4.
fn can_find_no_place(kind: Kind, phase: Phase, mode: SelfTrade) -> bool {
    match (kind, phase) {
        // A waiting order that finds no level in the closing call.
        (LimitAtClose, Phase::ClosingCall) => true,
        // All places taken, an order that would trade, and the collar in between.
        (Limit | Iceberg | Hidden, Phase::Continuous) => true,
        // Only CancelOldest leaves a rest of an order that was covered in full.
        (MinQty, Phase::Continuous) => mode == SelfTrade::CancelOldest,
        // Prices that were not known when they were accepted.
        (MarketToLimit | StopLimit | PegPrimary | PegMid, Phase::Continuous) => true,
        _ => false,
    }
}

/// Kinds that lie in a level in continuous trading.
fn lies_in_level(kind: Kind) -> bool {
    // Uncrossing ends the life of those for an auction (8.5).
    let for_auction = matches!(kind, LimitAtOpen | LimitAtClose);
    !is_market(kind) && !for_auction && !matches!(kind, LimitIoc | LimitFok | Stop | TrailingStop)
}

/// Kinds that can be open in a phase, wherever.
fn can_be_open(kind: Kind, phase: Phase) -> bool {
    let collected = phase.is_call() || phase == Phase::Halt;
    match kind {
        LimitFok | MarketFok => false,
        // Departure Batch ends them (8.5, 9.2).
        LimitIoc | MarketIoc => phase == Phase::Batch,
        // Entering Continuous or Closed ends them (8.5, 9.1).
        Market | MarketAtOpen | LimitAtOpen => collected,
        // Waiting until Closed is entered (9.3).
        MarketAtClose | LimitAtClose => phase != Phase::Closed,
        _ => true,
    }
}

fn possible_later(kind: Kind, phase: Phase, outcome: Outcome) -> bool {
    let continuous = phase == Phase::Continuous;
    let collected = phase.is_call() || phase == Phase::Halt;
    match outcome {
        Outcome::TradedResting | Outcome::PreventedResting => continuous && lies_in_level(kind),
        // A call, or a halt that began in one (9.1).
        Outcome::TradedInAuction => {
            let takes_part = !is_peg(kind) && !matches!(kind, Stop | TrailingStop);
            collected && takes_part && can_be_open(kind, phase)
        }
        Outcome::Replenished => {
            let iceberg = matches!(kind, Iceberg | MinQty | PostOnly | Slide);
            iceberg && (continuous || collected)
        }
        Outcome::Triggered => continuous && is_stop(kind),
        Outcome::Priced => continuous && is_peg(kind),
        Outcome::Parked => is_peg(kind),
        Outcome::EnteredClose => {
            phase == Phase::ClosingCall && matches!(kind, LimitAtClose | MarketAtClose)
        }
        Outcome::Reduced | Outcome::Cancelled | Outcome::MassCancelled => can_be_open(kind, phase),
        Outcome::Expired => {
            let dated = !is_market(kind)
                && !matches!(kind, LimitIoc | LimitFok | LimitAtOpen | LimitAtClose);
            dated && can_be_open(kind, phase)
        }
        Outcome::AuctionOver => match kind {
            LimitIoc | MarketIoc => phase == Phase::Batch,
            Market | MarketAtOpen | LimitAtOpen => collected,
            MarketAtClose | LimitAtClose => collected || phase == Phase::Closed,
            _ => false,
        },
        _ => false,
    }
}

/// 5.3, 5.4: an order with these terms keeps the place of the one it replaces.
fn can_keep_place(kind: Kind, phase: Phase) -> bool {
    let collected = phase.is_call() || phase == Phase::Halt;
    match kind {
        Limit | Iceberg | Hidden => phase != Phase::Closed,
        // Its terms are refused in calls, but a halt does not look at them.
        MinQty => matches!(phase, Phase::Continuous | Phase::Halt),
        LimitAtOpen | MarketAtOpen => {
            matches!(phase, Phase::PreOpen | Phase::OpeningCall | Phase::Halt)
        }
        Market | MarketAtClose | LimitAtClose => collected,
        _ => false,
    }
}

/// 5.3: a limit order that replaces a displayed one and is not displayed itself.
fn can_withdraw(kind: Kind, phase: Phase) -> bool {
    match (kind, phase) {
        (_, Phase::Closed | Phase::Halt) => false,
        (Hidden, _) => true,
        (LimitAtClose, _) => phase != Phase::ClosingCall,
        (Limit | LimitIoc | LimitFok | MinQty | Iceberg, Phase::Continuous) => true,
        _ => false,
    }
}
