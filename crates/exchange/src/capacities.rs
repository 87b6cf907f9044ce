//! How full the bounded parts of a node are, for operators.

use gateway::Gateway;
use types::limits::{SEQUENCER_MAX, UPLINK_WINDOW};

use crate::Root;

/// A part that takes so much and no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// What it is, as in the operator's table of bounds.
    pub name: &'static str,
    /// How much of it is in use.
    pub used: u64,
    /// How much there is.
    pub bound: u64,
}

impl Capacity {
    /// One of a name.
    pub fn new(name: &'static str, used: usize, bound: usize) -> Capacity {
        Capacity { name, used: used as u64, bound: bound as u64 }
    }

    /// Percent in use, rounded down; 100 where there is nothing to use.
    pub fn percent(&self) -> u64 {
        self.used.saturating_mul(100).checked_div(self.bound).unwrap_or(100)
    }

    /// Of two of the same name the fuller one.
    #[must_use]
    pub fn fuller(self, other: Capacity) -> Capacity {
        let share = |of: Capacity, by: Capacity| u128::from(of.used) * u128::from(by.bound);
        if share(other, self) > share(self, other) { other } else { self }
    }
}

impl Root {
    /// What the root has bounds for; of books the fullest.
    pub fn capacities(&self) -> Vec<Capacity> {
        let (books, config) = (self.engine().books(), self.engine().config());
        let most = |of: fn(book::Capacity) -> u32| {
            let numbers = 0..config.instruments.len() as u16;
            numbers.map(|book| of(books.used(book))).max().unwrap_or(0) as usize
        };
        let book = config.book;
        let mut all = vec![
            Capacity::new("open orders", books.len(), book.orders as usize),
            Capacity::new("price levels of a side", most(|of| of.levels), book.levels as usize),
            Capacity::new("stop orders of an instrument", most(|of| of.stops), book.stops as usize),
            Capacity::new("pegged orders of an instrument", most(|of| of.pegs), book.pegs as usize),
            Capacity::new(
                "orders waiting in the sequencer",
                self.ingress().sequencer().held(),
                SEQUENCER_MAX,
            ),
        ];
        all.extend(self.gate_room().map(|(used, bound)| Capacity {
            name: "inputs waiting for their write",
            used,
            bound,
        }));
        all
    }
}

/// What a gateway has bounds for.
pub fn gateway_capacities(gateway: &Gateway) -> [Capacity; 2] {
    let (connections, most) = (gateway.connections(), gateway.connections_max());
    let (_, in_flight) = gateway.requests_waiting();
    [
        Capacity::new("connections of a gateway", connections, most),
        Capacity::new("orders of a gateway not yet in the log", in_flight, UPLINK_WINDOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_compared_not_numbers() {
        let of = |used, bound| Capacity::new("x", used, bound);
        assert_eq!(of(3, 4).percent(), 75);
        assert_eq!((of(0, 0).percent(), of(9, 4).percent()), (100, 225));
        assert_eq!(of(10, 100).fuller(of(3, 4)), of(3, 4));
        assert_eq!(of(3, 4).fuller(of(10, 100)), of(3, 4));
        assert_eq!(of(1, 2).fuller(of(1, 2)), of(1, 2));
    }
}
