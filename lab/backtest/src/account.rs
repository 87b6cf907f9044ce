//! What the strategy has: lots, money, fees.

use std::collections::BTreeMap;

use types::{InstrumentId, Liquidity, Nanos, Price, Qty, Side};

/// Fees in millionths of the value traded; negative ones are paid to the strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fees {
    /// Fee for trades of orders that rested, in millionths of their value.
    pub maker: i32,
    /// Fee for trades of orders that came in, in millionths of their value.
    pub taker: i32,
}

/// One trade of the strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// When it happened at the exchange.
    pub time: Nanos,
    /// Instrument that traded.
    pub instrument: InstrumentId,
    /// Whether the strategy bought or sold.
    pub side: Side,
    /// Quantity that traded, lots.
    pub qty: Qty,
    /// Price at which the lots traded.
    pub price: Price,
    /// Whether its order rested or came.
    pub liquidity: Liquidity,
}

impl Fill {
    /// Quantity bought, lots; negative: sold.
    pub fn lots(&self) -> i64 {
        let lots = self.qty.0 as i64;
        match self.side {
            Side::Buy => lots,
            Side::Sell => -lots,
        }
    }

    /// Value of the trade, price units times lots.
    pub fn value(&self) -> i128 {
        i128::from(self.price.0) * i128::from(self.qty.0)
    }
}

/// What an account holds of one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Quantity held, lots; negative: short.
    pub lots: i64,
    /// Money received less money paid, price units times lots, without fees.
    pub cash: i128,
    /// Lots traded by orders that rested.
    pub made: u64,
    /// Lots traded by orders that came.
    pub taken: u64,
}

/// What the strategy holds of all instruments, and its fees.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    fees: Fees,
    holdings: BTreeMap<InstrumentId, Holding>,
    /// Fees paid so far, in millionths of price units times lots.
    paid: i128,
}

impl Account {
    /// An empty account that pays these fees.
    pub fn new(fees: Fees) -> Account {
        Account { fees, ..Account::default() }
    }

    /// Adds a trade and its fee to the account.
    pub fn fill(&mut self, fill: &Fill) {
        let holding = self.holdings.entry(fill.instrument).or_default();
        holding.lots += fill.lots();
        holding.cash -= i128::from(fill.lots().signum()) * fill.value();
        let made = fill.liquidity == Liquidity::Added;
        *if made { &mut holding.made } else { &mut holding.taken } += fill.qty.0;
        let rate = if made { self.fees.maker } else { self.fees.taker };
        self.paid += fill.value() * i128::from(rate);
    }

    /// What it has of an instrument.
    pub fn holding(&self, instrument: InstrumentId) -> Holding {
        self.holdings.get(&instrument).copied().unwrap_or_default()
    }

    /// Fees paid, price units times lots.
    pub fn paid(&self) -> i128 {
        self.paid / 1_000_000
    }

    /// What it has if everything were sold or bought back at twice-the-middle `twice`, less fees:
    /// price units times lots.
    pub fn equity(&self, twice: impl Fn(InstrumentId) -> i64) -> i128 {
        let worth = |(id, holding): (&InstrumentId, &Holding)| {
            holding.cash + i128::from(holding.lots) * i128::from(twice(*id)) / 2
        };
        self.holdings.iter().map(worth).sum::<i128>() - self.paid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_lots_add_up() {
        let mut account = Account::new(Fees { maker: -100, taker: 300 });
        let fill = |side, qty, price, liquidity| Fill {
            time: Nanos(0),
            instrument: InstrumentId(1),
            side,
            qty: Qty(qty),
            price: Price(price),
            liquidity,
        };
        account.fill(&fill(Side::Buy, 10, 100_000, Liquidity::Added));
        account.fill(&fill(Side::Sell, 4, 110_000, Liquidity::Removed));
        let held = account.holding(InstrumentId(1));
        assert_eq!((held.lots, held.made, held.taken), (6, 10, 4));
        assert_eq!(held.cash, 440_000 - 1_000_000);
        assert_eq!(account.paid(), 132 - 100);
        // 6 lots at 105,000.5 each.
        assert_eq!(account.equity(|_| 210_001), -560_000 + 630_003 - 32);
        assert_eq!(account.holding(InstrumentId(2)), Holding::default());
    }
}
