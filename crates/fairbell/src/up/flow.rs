//! What the built-in participants play: the venue's sample, if it is there, and generated flow.

use std::path::Path;

use participant::{
    Action, ClientConfig, Driver, DriverConfig, FlowMessage, Generator, GeneratorConfig,
    PARTICIPANTS, Sample, Schedule, Source, Special, participant_of, sample,
};
use types::{Instrument, Nanos, OrderType, Peer, Price, Qty, Side, SplitMix64, TimeInForce};

use host::config::Config;
use host::failure::Failure;

use super::scenario::Scenario;

/// Play of generated flow when there is no sample, in seconds.
pub const WITHOUT_SAMPLE_S: u64 = 30;
/// Orders that a generated book opens with.
const GENERATED_OPENING: usize = 400;
/// Orders of each generated instrument that cross in its auctions, and their first flow id, which no
/// generator reaches.
const CROSSING: u64 = 60;
const CROSSING_IDS: u64 = 1 << 48;
/// From the end of loading to the first timed message: time for the opening auction.
const AUCTION_NS: u64 = 1_500 * Nanos::MILLI;
/// Patience for the last answers, on a machine that may be busy with other things.
const DRAIN_NS: u64 = 30 * Nanos::SECOND;
/// Reference price of generated instruments.
const GENERATED_PRICE: i64 = 100;

/// The sample in the configured folder, or why there is none.
pub fn load_sample(config: &Config) -> Result<Sample, String> {
    let folder = Path::new(&config.flow.sample);
    let Some(instrument) = config.instruments().first().map(|instrument| instrument.id) else {
        return Err("no instrument to play it on".to_string());
    };
    if !folder.exists() {
        return Err(match config.flow.sample.as_str() {
            "none" => "flow.sample is none".to_string(),
            other => format!("there is no folder {other} (flow.sample)"),
        });
    }
    sample::load(folder, instrument).map_err(|error| format!("{} ({})", error, folder.display()))
}

/// The participants, each with its own gateway first, and their flow.
pub fn driver(
    config: &Config,
    sample: Option<&Sample>,
    duration_ns: Option<u64>,
    gateways: &[Peer],
) -> Result<Driver, Failure> {
    played(config, flow(config, &config.instruments(), sample), false, duration_ns, gateways)
}

/// The participants, who load the books and then play.
fn played(
    config: &Config,
    (opening, schedule): (Vec<FlowMessage>, Schedule),
    in_turn: bool,
    duration_ns: Option<u64>,
    gateways: &[Peer],
) -> Result<Driver, Failure> {
    let accounts = config.accounts.0.iter().take(config.flow.participants as usize);
    let clients = accounts.enumerate().map(|(index, account)| {
        let mut mine = gateways.to_vec();
        mine.rotate_left(index % gateways.len().max(1));
        ClientConfig::new(&account.username, &account.password, mine)
    });
    let mut driver = DriverConfig::new(config.instruments(), clients.collect());
    driver.duration_ns = duration_ns;
    driver.in_turn = in_turn;
    driver.drain_timeout_ns = DRAIN_NS;
    if config.has_auctions() {
        driver.start_delay_ns = AUCTION_NS;
    }
    Driver::new(driver, opening, schedule)
        .map_err(|_| Failure::Usage("an account's login does not fit SoupBinTCP".to_string()))
}

/// The participants, who play a scenario, the same each time.
pub fn scripted(
    config: &Config,
    scenario: &Scenario,
    duration_ns: Option<u64>,
    gateways: &[Peer],
) -> Result<Driver, Failure> {
    let mut schedule = Schedule::default();
    schedule.add(Source::Scripted(scenario.messages.clone()), 1);
    played(config, (Vec::new(), schedule), true, duration_ns, gateways)
}

/// No participants, who play nothing: for an exchange that goes on, with clients from outside.
pub fn nobody(config: &Config) -> Result<Driver, Failure> {
    let driver = DriverConfig::new(config.instruments(), Vec::new());
    Driver::new(driver, Vec::new(), Schedule::default())
        .map_err(|_| Failure::Usage("no participants".to_string()))
}

/// Everything that is played: orders to open the books with, then the timetable.
fn flow(
    config: &Config,
    instruments: &[Instrument],
    sample: Option<&Sample>,
) -> (Vec<FlowMessage>, Schedule) {
    let (mut opening, mut schedule) = (Vec::new(), Schedule::default());
    let mut seconds = WITHOUT_SAMPLE_S;
    if let Some(sample) = sample {
        opening.extend(&sample.opening);
        seconds = (sample.live.len() as u64).div_ceil(config.flow.rate.max(1));
        schedule.add(Source::Recorded(sample.live.iter().copied().collect()), config.flow.rate);
    }
    let generated = instruments.iter().enumerate().skip(usize::from(sample.is_some()));
    let mut seeds = SplitMix64::new(config.flow.seed);
    for (place, instrument) in generated {
        let reference = Price::from_whole(GENERATED_PRICE);
        let mut settings = GeneratorConfig::new(*instrument, reference, seeds.next_u64());
        settings.participants = (config.flow.participants as u8).min(PARTICIPANTS);
        settings.special_permille = config.flow.special_permille;
        let mut flow = Generator::new(settings);
        // Without flow there are no orders of it either.
        if config.flow.generated_rate > 0 {
            opening.extend(flow.opening(GENERATED_OPENING));
        }
        if config.has_auctions() {
            opening.extend(crossing(instrument, reference, settings.participants));
        }
        let rate = config.flow.rate_of(place, sample.is_some());
        let source = Source::Generated { flow: Box::new(flow), left: seconds * rate };
        schedule.add(source, rate);
    }
    (opening, schedule)
}

/// Orders for the auctions, on both sides of one price and through it: they trade.
fn crossing(
    instrument: &Instrument,
    reference: Price,
    participants: u8,
) -> impl Iterator<Item = FlowMessage> {
    let (instrument, tick) = (instrument.id, instrument.tick.0);
    (0..CROSSING).map(move |n| {
        let side = if n % 2 == 0 { Side::Buy } else { Side::Sell };
        let through = (n / 2 % 5) as i64 - 1;
        let signed = if side == Side::Buy { through } else { -through };
        let lives = [TimeInForce::Day, TimeInForce::AtTheOpen, TimeInForce::AtTheClose];
        let action = Action::New {
            side,
            qty: Qty(10_000 * (1 + n % 7)),
            price: Price(reference.0 + signed * tick),
            order_type: OrderType::Limit,
            post_only: false,
            time_in_force: lives[(n / 2 % 3) as usize],
        };
        let id = CROSSING_IDS + n;
        let participant = participant_of(id, participants);
        FlowMessage { id, participant, instrument, action, special: Special::None }
    })
}

/// Messages that the timetable has, cut at the duration if there is one.
pub fn timed(config: &Config, sample: Option<&Sample>, duration_ns: Option<u64>) -> u64 {
    let flow = &config.flow;
    let rate = flow.rate_of_all(config.instruments.0.len(), sample.is_some());
    let all = match sample {
        Some(sample) => {
            let live = sample.live.len() as u64;
            live + (rate - flow.rate) * live.div_ceil(flow.rate.max(1))
        }
        None => rate * WITHOUT_SAMPLE_S,
    };
    let within = |ns: u64| u128::from(rate) * u128::from(ns) / u128::from(Nanos::SECOND);
    duration_ns.map_or(all, |ns| all.min(u64::try_from(within(ns)).unwrap_or(u64::MAX)))
}

/// Nanoseconds of a duration option.
pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sample_is_told_without_the_words_of_an_error() {
        let mut config = Config::default();
        for (sample, why) in [
            ("none", "flow.sample is none"),
            ("not/here", "there is no folder not/here (flow.sample)"),
        ] {
            config.flow.sample = sample.to_string();
            assert_eq!(load_sample(&config).expect_err("there is none"), why);
        }
    }
}
