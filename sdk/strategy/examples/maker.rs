//! Quotes both sides near the best prices of the others, and no side that would add to a holding that is large
//! enough. Settings: `lots=1` of each quote, `offset=0` price units behind the best price, `most=10` lots held.

use fairbell_strategy::{Action, Book, Level, Life, NewOrder, Setup, Side, Strategy, setting};

struct Maker {
    lots: i64,
    offset: i64,
    most: i64,
}

impl Maker {
    /// The best price of others than this strategy.
    fn best(book: &Book, side: Side, levels: &[Level]) -> Option<i64> {
        let own = |price| -> u64 {
            let at = book.orders.iter().filter(|own| own.working && own.side == side);
            at.filter(|own| own.price == price).map(|own| own.open).sum()
        };
        levels.iter().find(|level| level.lots > own(level.price)).map(|level| level.price)
    }

    fn quote(&self, book: &Book, side: Side, answer: &mut Vec<Action>) {
        let (levels, held, away) = match side {
            Side::Buy => (&book.bids, book.held, -self.offset),
            Side::Sell => (&book.asks, -book.held, self.offset),
        };
        let best = Maker::best(book, side, levels).filter(|_| held + self.lots <= self.most);
        let target = best.map(|price| price + away).filter(|price| *price > 0);
        let mut quoted = false;
        for own in book.orders.iter().filter(|own| own.side == side && !own.leaving) {
            if Some(own.price) == target && !quoted {
                quoted = true;
            } else {
                answer.push(Action::Cancel(own.id));
            }
        }
        if let (false, Some(price)) = (quoted, target) {
            answer.push(Action::Order(NewOrder {
                instrument: book.instrument,
                side,
                lots: self.lots as u32,
                price,
                life: Life::Day,
                post_only: true,
            }));
        }
    }
}

impl Strategy for Maker {
    fn start(setup: Setup) -> Result<Maker, String> {
        let number = |name, otherwise| setting(&setup.settings, name, otherwise);
        let maker = Maker {
            lots: number("lots", 1)?,
            offset: number("offset", 0)?,
            most: number("most", 10)?,
        };
        match maker.lots {
            1..=1_000_000 => Ok(maker),
            lots => Err(format!("lots={lots}: 1 to 1000000")),
        }
    }

    fn on_book(&mut self, book: Book) -> Vec<Action> {
        let mut answer = Vec::new();
        self.quote(&book, Side::Buy, &mut answer);
        self.quote(&book, Side::Sell, &mut answer);
        answer
    }
}

fairbell_strategy::strategy!(Maker);
