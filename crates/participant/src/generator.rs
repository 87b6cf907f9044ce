//! Zero-intelligence order flow for one instrument: seeded, integer-only, unaware of the book.
//!
//! Sizes and distances are drawn from quantile tables of the real sample's accepted orders
//! (aggregates of 49,859 orders; no row of it is here). The generator quotes around a reference
//! price that walks by single ticks and returns slowly to where it began; a few orders are priced
//! through it and a few are market orders, so that trades happen. It cancels and replaces orders
//! that it entered itself and has not yet cancelled: whether they still rest it does not know, so
//! some of those requests come too late, as they do in the field.

use types::{Instrument, InstrumentId, OrderType, Price, Qty, Side, SplitMix64, TimeInForce};

use crate::{
    flow::{Action, FlowMessage, participant_of},
    special::Special,
};

/// Order sizes in lots of 1e-8: the middle of each 32nd of the sample's accepted orders.
pub const SIZE_QUANTILES: [u64; 32] = [
    31_907,
    72_295,
    107_106,
    135_926,
    142_877,
    255_213,
    1_275_900,
    2_635_119,
    4_274_016,
    4_405_806,
    5_000_000,
    5_620_000,
    6_000_000,
    6_000_000,
    6_378_812,
    6_397_502,
    7_000_000,
    7_000_000,
    7_000_000,
    7_000_000,
    7_000_000,
    7_500_000,
    7_500_000,
    8_796_225,
    12_753_927,
    12_768_218,
    15_000_000,
    19_142_314,
    26_780_218,
    34_320_117,
    58_651_500,
    132_192_000,
];

/// Distance of a passive order from the opposite best price, in ticks: as above.
pub const DISTANCE_QUANTILES: [u64; 32] = [
    1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 7, 8, 10, 11, 13, 15, 16, 18, 21, 23, 26, 28, 31, 35, 41,
    47, 57, 73, 107, 460,
];

/// The longest life of an order that ends soon, ms.
const BRIEF_MS: u64 = 400;

/// Shares and limits of the flow. Shares are per thousand messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneratorConfig {
    /// Instrument that is traded; its tick, largest price and quantity are respected.
    pub instrument: Instrument,
    /// Reference price at the start; rounded down to a tick.
    pub reference: Price,
    /// Participants the orders are spread over.
    pub participants: u8,
    /// Seed of all random choices.
    pub seed: u64,
    /// Share of market orders, permille.
    pub market_permille: u64,
    /// Limit orders priced through the reference (they usually trade).
    pub marketable_permille: u64,
    /// Post-only among the other limit orders.
    pub post_only_permille: u64,
    /// Immediate-or-cancel among the marketable ones.
    pub ioc_permille: u64,
    /// Share of replaces, permille.
    pub replace_permille: u64,
    /// Orders with other terms than price, quantity and life, each [`Special`] in turn.
    pub special_permille: u64,
    /// Limit orders that are good for less than half a second, at or near the best price.
    pub brief_permille: u64,
    /// Own orders believed open beyond which every message is a cancel.
    pub open_max: usize,
}

impl GeneratorConfig {
    /// The default mix: as calibrated, with somewhat more trading than the sample's half per cent
    /// of accepted orders so that a short run shows some.
    pub fn new(instrument: Instrument, reference: Price, seed: u64) -> GeneratorConfig {
        GeneratorConfig {
            instrument,
            reference,
            participants: crate::flow::PARTICIPANTS,
            seed,
            market_permille: 10,
            marketable_permille: 40,
            post_only_permille: 50,
            ioc_permille: 300,
            replace_permille: 50,
            special_permille: 0,
            brief_permille: 0,
            open_max: 2_000,
        }
    }
}

/// An order of ours that we have not cancelled.
#[derive(Clone, Copy, Debug)]
struct Own {
    id: u64,
    participant: u8,
    side: Side,
    qty: Qty,
    price: Price,
    /// Whether it has terms that a plain replace would not carry over.
    special: bool,
}

/// The flow itself; never ends.
#[derive(Clone, Debug)]
pub struct Generator {
    config: GeneratorConfig,
    rng: SplitMix64,
    next_id: u64,
    /// Reference price now and at the start, in ticks.
    reference: i64,
    home: i64,
    open: Vec<Own>,
    /// Number of special orders so far.
    specials: usize,
}

impl Generator {
    /// A flow fixed by `config`.
    pub fn new(config: GeneratorConfig) -> Generator {
        let home = (config.reference.0 / config.instrument.tick.0.max(1)).max(1);
        let rng = SplitMix64::new(config.seed);
        let open = Vec::with_capacity(config.open_max.saturating_add(1).min(1 << 20));
        Generator { config, rng, next_id: 1, reference: home, home, open, specials: 0 }
    }

    /// The instrument played.
    pub fn instrument(&self) -> InstrumentId {
        self.config.instrument.id
    }

    /// `orders` passive limit orders to open the book with.
    pub fn opening(&mut self, orders: usize) -> Vec<FlowMessage> {
        (0..orders.min(self.config.open_max)).map(|_| self.passive(false)).collect()
    }

    /// Draws the next message.
    pub fn next_message(&mut self) -> FlowMessage {
        self.walk();
        let draw = self.rng.below(1_000);
        let market = self.config.market_permille;
        let marketable = market + self.config.marketable_permille;
        let replace = marketable + self.config.replace_permille;
        // What is left is split evenly: as many cancels as passive orders keep the book's size.
        let cancel = replace + 1_000u64.saturating_sub(replace) / 2;
        if self.open.len() >= self.config.open_max {
            self.cancel()
        } else if self.config.special_permille > 0
            && self.rng.permille(self.config.special_permille)
        {
            self.special()
        } else if self.config.brief_permille > 0 && self.rng.permille(self.config.brief_permille) {
            self.brief()
        } else if draw < market {
            self.market()
        } else if draw < marketable {
            self.marketable()
        } else if draw < replace {
            self.replace()
        } else if draw < cancel {
            self.cancel()
        } else {
            let post_only = self.rng.permille(self.config.post_only_permille);
            self.passive(post_only)
        }
    }

    /// One tick up or down every 16th message or so, with a pull of 1/256 per tick towards home.
    fn walk(&mut self) {
        if self.rng.below(16) == 0 {
            let away = (self.reference - self.home).clamp(-128, 128);
            let up = self.rng.below(256) as i64 >= 128 + away;
            self.reference = (self.reference + if up { 1 } else { -1 }).max(1);
        }
    }

    fn side(&mut self) -> Side {
        if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell }
    }

    fn size(&mut self) -> Qty {
        let lots = self.quantile(&SIZE_QUANTILES);
        Qty(lots.clamp(1, self.config.instrument.qty_max.0.max(1)))
    }

    /// A value between two neighbouring quantiles, uniformly.
    fn quantile(&mut self, table: &[u64; 32]) -> u64 {
        let index = self.rng.below(31) as usize;
        let low = table.get(index).copied().unwrap_or(1);
        let high = table.get(index + 1).copied().unwrap_or(low);
        low + self.rng.below(high.saturating_sub(low) + 1)
    }

    /// Price `ticks` away from the reference: below it for a buy, above it for a sell.
    fn price(&self, side: Side, ticks: i64) -> Price {
        let signed = if side == Side::Buy { -ticks } else { ticks };
        let tick = self.config.instrument.tick.0.max(1);
        let highest = (self.config.instrument.price_max.0 / tick).max(1);
        Price((self.reference + signed).clamp(1, highest) * tick)
    }

    fn passive(&mut self, post_only: bool) -> FlowMessage {
        let side = self.side();
        // The table counts from the opposite best price; the reference lies half a spread inside.
        let ticks = self.quantile(&DISTANCE_QUANTILES) as i64 - i64::from(side == Side::Buy);
        let price = self.price(side, ticks);
        let time_in_force =
            if self.rng.below(4) == 0 { TimeInForce::GoodTillCancelled } else { TimeInForce::Day };
        self.enter(side, price, OrderType::Limit, post_only, time_in_force)
    }

    fn marketable(&mut self) -> FlowMessage {
        let side = self.side();
        let through = self.rng.below(4) as i64;
        let price = self.price(side, -through);
        let time_in_force = if self.rng.permille(self.config.ioc_permille) {
            TimeInForce::ImmediateOrCancel
        } else {
            TimeInForce::Day
        };
        self.enter(side, price, OrderType::Limit, false, time_in_force)
    }

    fn market(&mut self) -> FlowMessage {
        let side = self.side();
        self.enter(side, Price(0), OrderType::Market, false, TimeInForce::ImmediateOrCancel)
    }

    fn enter(
        &mut self,
        side: Side,
        price: Price,
        order_type: OrderType,
        post_only: bool,
        time_in_force: TimeInForce,
    ) -> FlowMessage {
        let (id, qty) = (self.take_id(), self.size());
        let participant = participant_of(id, self.config.participants);
        if time_in_force != TimeInForce::ImmediateOrCancel {
            self.open.push(Own { id, participant, side, qty, price, special: false });
        }
        let action = Action::New { side, qty, price, order_type, post_only, time_in_force };
        let special = Special::None;
        FlowMessage { id, participant, instrument: self.instrument(), action, special }
    }

    /// The next kind of special order, priced as it wants it.
    fn special(&mut self) -> FlowMessage {
        let special = Special::ALL[self.specials % Special::ALL.len()];
        self.specials += 1;
        let side = self.side();
        let ticks = self.quantile(&DISTANCE_QUANTILES) as i64;
        let price = match special {
            Special::MarketToLimit | Special::PegMid => Price(0),
            Special::TrailingStop | Special::PegPrimary => {
                Price(ticks.clamp(1, 16) * self.config.instrument.tick.0.max(1))
            }
            // Stops lie on the other side of the market; these shall trade.
            Special::Stop
            | Special::StopLimit
            | Special::FillOrKill
            | Special::MinQuantity
            | Special::SelfTrade => self.price(side, -ticks),
            _ => self.price(side, ticks),
        };
        let time_in_force = special.time_in_force();
        let market = price.0 == 0 && special == Special::MarketToLimit;
        let order_type = if market { OrderType::Market } else { OrderType::Limit };
        let message = self.enter(side, price, order_type, false, time_in_force);
        if let Some(own) = self.open.last_mut().filter(|own| own.id == message.id) {
            own.special = true;
        }
        FlowMessage { special, ..message }
    }

    /// An order near the market that ends soon.
    fn brief(&mut self) -> FlowMessage {
        let side = self.side();
        let ticks = self.rng.below(4) as i64;
        let special = Special::Brief(1 + self.rng.below(BRIEF_MS) as u16);
        let (price, life) = (self.price(side, ticks), special.time_in_force());
        let message = self.enter(side, price, OrderType::Limit, false, life);
        if let Some(own) = self.open.last_mut() {
            own.special = true;
        }
        FlowMessage { special, ..message }
    }

    fn cancel(&mut self) -> FlowMessage {
        let Some(own) = self.take_open() else { return self.passive(false) };
        let instrument = self.instrument();
        Self::cancel_of(own, instrument)
    }

    fn cancel_of(Own { id, participant, .. }: Own, instrument: InstrumentId) -> FlowMessage {
        let (action, special) = (Action::Cancel, Special::None);
        FlowMessage { id, participant, instrument, action, special }
    }

    /// Half of the replaces reduce at the same price (priority is kept), half move the price.
    fn replace(&mut self) -> FlowMessage {
        let Some(own) = self.take_open() else { return self.passive(false) };
        if own.special {
            return Self::cancel_of(own, self.instrument());
        }
        let (price, qty) = if self.rng.below(2) == 0 {
            (own.price, Qty((own.qty.0 / 2).max(1)))
        } else {
            let ticks = self.quantile(&DISTANCE_QUANTILES) as i64;
            (self.price(own.side, ticks), own.qty)
        };
        let id = self.take_id();
        self.open.push(Own { id, qty, price, ..own });
        let action = Action::Replace { orig: own.id, qty, price };
        let (participant, special) = (own.participant, Special::None);
        FlowMessage { id, participant, instrument: self.instrument(), action, special }
    }

    fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn take_open(&mut self) -> Option<Own> {
        if self.open.is_empty() {
            return None;
        }
        let index = self.rng.below(self.open.len() as u64) as usize;
        Some(self.open.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use types::{Symbol, limits};

    fn config(seed: u64) -> GeneratorConfig {
        let instrument = Instrument {
            id: InstrumentId(2),
            symbol: Symbol::new("ETHUSD").expect("valid"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 8,
        };
        GeneratorConfig::new(instrument, Price::from_whole(2_300), seed)
    }

    #[test]
    fn same_seed_same_flow() {
        let flow = |seed| {
            let mut generator = Generator::new(config(seed));
            (0..1_000).map(|_| generator.next_message()).collect::<Vec<_>>()
        };
        assert_eq!(flow(7), flow(7));
        assert_ne!(flow(7), flow(8));
    }

    #[test]
    fn flows_of_known_seeds_stay_what_they_were() {
        let digest = |seed| {
            let mut generator = Generator::new(config(seed));
            let mut digest = types::Digest::default();
            for message in generator.opening(50) {
                digest.fold(message.id);
            }
            for _ in 0..5_000 {
                let message = generator.next_message();
                digest.fold(message.id << 8 | u64::from(message.participant));
                let (kind, qty, price) = match message.action {
                    Action::New { qty, price, side, .. } => (side as u64, qty.0, price.0),
                    Action::Cancel => (2, 0, 0),
                    Action::Replace { orig, qty, price } => (orig, qty.0, price.0),
                };
                [kind, qty, price as u64].into_iter().for_each(|word| digest.fold(word));
            }
            digest.0
        };
        assert_eq!([digest(1), digest(2)], [10_362_809_625_184_685_076, 7_999_547_665_962_980_788]);
    }

    #[test]
    fn special_orders_come_in_turn_and_only_when_asked_for() {
        let mut generator = Generator::new(GeneratorConfig { special_permille: 100, ..config(3) });
        let (mut kinds, mut specials) = (HashMap::new(), HashMap::new());
        for message in (0..10_000).map(|_| generator.next_message()) {
            match message.action {
                Action::New { price, qty, .. } => {
                    *kinds.entry(message.special).or_insert(0) += 1;
                    assert!(price.0 >= 0 && price.0 % 100 == 0 && qty.0 > 0);
                    specials.insert(message.id, message.special);
                }
                Action::Replace { orig, .. } => {
                    assert_eq!(specials.get(&orig).copied().unwrap_or_default(), Special::None);
                }
                Action::Cancel => assert_eq!(message.special, Special::None),
            }
        }
        let least = Special::ALL.iter().map(|kind| kinds.get(kind).copied().unwrap_or(0)).min();
        assert!(least >= Some(50), "{kinds:?}");
        let mut plain = Generator::new(config(3));
        assert!((0..10_000).all(|_| plain.next_message().special == Special::None));
    }

    #[test]
    fn messages_are_valid_and_the_mix_holds() {
        let mut generator = Generator::new(config(1));
        let opening = generator.opening(500);
        let mut owner = HashMap::new();
        let (mut news, mut cancels, mut replaces, mut markets) = (0, 0, 0, 0);
        let flow: Vec<_> = (0..20_000).map(|_| generator.next_message()).collect();
        for message in opening.iter().chain(&flow) {
            assert_eq!(message.instrument, InstrumentId(2));
            match message.action {
                Action::New { qty, price, order_type, .. } => {
                    news += 1;
                    markets += u64::from(order_type == OrderType::Market);
                    assert!((1..=limits::QTY_MAX).contains(&qty.0));
                    assert!(order_type == OrderType::Market || price.0 > 0 && price.0 % 100 == 0);
                    assert_eq!(message.participant, participant_of(message.id, 8));
                    assert!(owner.insert(message.id, message.participant).is_none());
                }
                Action::Cancel => {
                    cancels += 1;
                    assert_eq!(owner.get(&message.id), Some(&message.participant));
                }
                Action::Replace { orig, qty, price } => {
                    replaces += 1;
                    assert!(qty.0 > 0 && price.0 > 0 && price.0 % 100 == 0);
                    assert_eq!(owner.get(&orig), Some(&message.participant));
                    assert!(owner.insert(message.id, message.participant).is_none());
                }
            }
        }
        assert_eq!(news + cancels + replaces, 20_500);
        assert!((150..250).contains(&markets), "{markets} market orders");
        assert!((800..1_200).contains(&replaces), "{replaces} replaces");
        assert!((8_000..10_500).contains(&cancels), "{cancels} cancels");
    }

    #[test]
    fn open_orders_stay_bounded() {
        let mut config = config(3);
        config.open_max = 50;
        let mut generator = Generator::new(config);
        assert_eq!(generator.opening(500).len(), 50);
        for _ in 0..5_000 {
            generator.next_message();
            assert!(generator.open.len() <= 50);
        }
    }
}
