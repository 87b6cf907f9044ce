//! Loading an opening book through several sessions without losing its queue order.
//!
//! Connections race, so two orders of different participants at one price must not be under way
//! together. The book is loaded in rounds: the r-th order of every price, each round after all
//! answers to the one before. Within a round no two orders share a queue and any order will do.

use std::collections::{BTreeMap, VecDeque};

use types::{InstrumentId, Price, Side};

use crate::flow::{Action, FlowMessage};

/// The rounds still to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    rounds: VecDeque<VecDeque<FlowMessage>>,
}

impl Opening {
    /// Splits `messages` into rounds; what is no new order goes into a round of its own.
    pub fn new(messages: Vec<FlowMessage>) -> Opening {
        let mut depth: BTreeMap<(InstrumentId, bool, Price), usize> = BTreeMap::new();
        let mut rounds: VecDeque<VecDeque<FlowMessage>> = VecDeque::new();
        for message in messages {
            let round = match message.action {
                Action::New { side, price, .. } => {
                    let key = (message.instrument, side == Side::Buy, price);
                    let depth = depth.entry(key).or_default();
                    *depth += 1;
                    *depth - 1
                }
                Action::Cancel | Action::Replace { .. } => rounds.len(),
            };
            if rounds.len() <= round {
                rounds.resize_with(round + 1, VecDeque::new);
            }
            if let Some(round) = rounds.get_mut(round) {
                round.push_back(message);
            }
        }
        Opening { rounds }
    }

    /// The round being sent, or the next one when `answered` says that nothing is under way.
    pub fn round(&mut self, answered: bool) -> Option<&mut VecDeque<FlowMessage>> {
        while answered && self.rounds.front().is_some_and(VecDeque::is_empty) {
            self.rounds.pop_front();
        }
        self.rounds.front_mut()
    }

    /// Everything has been handed out and, as far as the caller last said, answered.
    pub fn is_done(&self) -> bool {
        self.rounds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::Special;
    use types::{OrderType, Qty, TimeInForce};

    #[test]
    fn no_round_has_two_orders_of_one_queue() {
        let message = |id, price, side| FlowMessage {
            id,
            participant: 0,
            instrument: InstrumentId(1),
            action: Action::New {
                side,
                qty: Qty(1),
                price: Price(price),
                order_type: OrderType::Limit,
                post_only: false,
                time_in_force: TimeInForce::Day,
            },
            special: Special::None,
        };
        let (buy, sell) = (Side::Buy, Side::Sell);
        let messages =
            vec![message(1, 5, buy), message(2, 5, buy), message(3, 5, sell), message(4, 6, buy)];
        let mut opening = Opening::new(messages);
        let mut ids = Vec::new();
        while let Some(round) = opening.round(true) {
            ids.push(round.drain(..).map(|message| message.id).collect::<Vec<_>>());
        }
        assert_eq!(ids, [vec![1, 3, 4], vec![2]]);
        assert!(opening.is_done());
    }
}
