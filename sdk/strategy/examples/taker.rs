//! Buys where many bid and few offer, sells the other way round, and gives up what it holds when the two are
//! even again. Settings: `lots=1` of each order, `most=10` lots held, `threshold=850`: share of the best bid's
//! lots in those of both best prices, in thousandths, from which on it buys.

use fairbell_strategy::{Action, Book, Life, NewOrder, Setup, Side, Strategy, setting};

struct Taker {
    lots: i64,
    most: i64,
    threshold: i128,
}

impl Strategy for Taker {
    fn start(setup: Setup) -> Result<Taker, String> {
        let number = |name, otherwise| setting(&setup.settings, name, otherwise);
        Ok(Taker {
            lots: number("lots", 1)?.clamp(1, 1_000_000),
            most: number("most", 10)?,
            threshold: number("threshold", 850)?.into(),
        })
    }

    fn on_book(&mut self, book: Book) -> Vec<Action> {
        // One order at a time.
        let (Some(bid), Some(ask), true) =
            (book.bids.first(), book.asks.first(), book.orders.is_empty())
        else {
            return Vec::new();
        };
        let share = i128::from(bid.lots) * 1_000 / i128::from((bid.lots + ask.lots).max(1));
        let room = |held: i64| held + self.lots <= self.most;
        let (side, lots) = if share >= self.threshold && room(book.held) {
            (Side::Buy, self.lots)
        } else if share <= 1_000 - self.threshold && room(-book.held) {
            (Side::Sell, self.lots)
        } else if book.held > 0 && share <= 500 {
            (Side::Sell, book.held)
        } else if book.held < 0 && share >= 500 {
            (Side::Buy, -book.held)
        } else {
            return Vec::new();
        };
        let price = if side == Side::Buy { ask.price } else { bid.price };
        vec![Action::Order(NewOrder {
            instrument: book.instrument,
            side,
            lots: lots as u32,
            price,
            life: Life::ImmediateOrCancel,
            post_only: false,
        })]
    }
}

fairbell_strategy::strategy!(Taker);
