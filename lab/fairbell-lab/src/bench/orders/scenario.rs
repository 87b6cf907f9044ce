//! Scenario files of orders: who sends how many of which size, what was published of it, and what is swept.

use std::path::Path;
use std::time::Duration;

use host::failure::{Failure, on};
use serde::{Deserialize, Deserializer};
use types::Nanos;

use crate::bench::rtt::ioc::{CLIENTS_MAX, IocFlow};

/// Most orders a second.
const RATE_MAX: u64 = 1_000_000;
/// Most bytes of an order: what a gateway takes as one message is more.
const BYTES_MAX: usize = 2_000;
/// Most orders of one run: each is remembered with its stamps.
const ORDERS_MAX: u64 = 50_000_000;

/// Latencies that are told, by their names.
pub const FIGURES: [&str; 7] = ["average", "least", "p50", "p95", "p99", "p99.9", "largest"];

/// A workload of orders.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct OrderScenario {
    /// What it is called.
    pub name: String,
    /// Orders a second.
    pub rate: u64,
    /// How long they are played.
    #[serde(deserialize_with = "time")]
    pub duration: Duration,
    /// FIX sessions.
    pub clients: usize,
    /// Bytes of an order, about; 0: as it comes.
    #[serde(default)]
    pub bytes: usize,
    /// What an order takes more in the exchange's thread, us.
    #[serde(default)]
    pub matching_delay_us: u64,
    /// Exchange and clients each have a core.
    #[serde(default)]
    pub pinned: bool,
    /// Figures of its source.
    #[serde(default)]
    pub published: Vec<PublishedFigure>,
    /// What is swept.
    pub sweep: Sweep,
}

/// A latency of the source.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// Which one, as the command prints it.
    pub figure: String,
    /// Least and most, us.
    #[serde(deserialize_with = "ends")]
    pub us: [f64; 2],
}

/// Two numbers and no more: an array of serde takes two of a longer list.
fn ends<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
    let all = Vec::<f64>::deserialize(from)?;
    let ends = <[f64; 2]>::try_from(all);
    ends.map_err(|_| serde::de::Error::custom("published: us is the least and the most"))
}

/// Rates, clients and sizes: each with each.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Orders a second, ascending.
    pub rates: Vec<u64>,
    /// FIX sessions.
    pub clients: Vec<usize>,
    /// Bytes of an order; 0: as it comes.
    pub bytes: Vec<usize>,
    /// How long each is played.
    #[serde(deserialize_with = "time")]
    pub duration: Duration,
    /// How many times the least p99 of a curve is still before its knee.
    pub knee: f64,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    fairbell::options::duration(&text).map_err(serde::de::Error::custom)
}

impl OrderScenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, is none, or asks for what can't be.
    pub fn read(path: &Path) -> Result<OrderScenario, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| on(path, error))?;
        OrderScenario::parse(&text)
            .map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))
    }

    /// Reads its text.
    ///
    /// # Errors
    /// It is none, or asks for what can't be.
    pub fn parse(text: &str) -> Result<OrderScenario, String> {
        let scenario: OrderScenario = toml::from_str(text).map_err(|error| error.to_string())?;
        scenario.check().map(|()| scenario)
    }

    /// Whether it can be played.
    ///
    /// # Errors
    /// What can't be.
    pub fn check(&self) -> Result<(), String> {
        let Sweep { rates, clients, bytes, duration, knee } = &self.sweep;
        let is_rate = |rate: &u64| (1..=RATE_MAX).contains(rate);
        let is_count = |count: &usize| (1..=CLIENTS_MAX).contains(count);
        let is_size = |size: &usize| *size <= BYTES_MAX;
        let is_time = |time: &Duration, rate: u64| {
            let orders = u128::from(rate) * time.as_nanos() / u128::from(Nanos::SECOND);
            time.as_millis() >= 100 && (1..=u128::from(ORDERS_MAX)).contains(&orders)
        };
        let most = rates.last().copied().unwrap_or(0);
        let checks = [
            (is_rate(&self.rate), format!("rate: 1 to {RATE_MAX}")),
            (is_count(&self.clients), format!("clients: 1 to {CLIENTS_MAX}")),
            (is_size(&self.bytes), format!("bytes: at most {BYTES_MAX}")),
            (self.matching_delay_us <= 1_000_000, "matching_delay_us: at most 1000000".to_string()),
            (
                is_time(&self.duration, self.rate),
                format!("duration: 100ms or more, with 1 to {ORDERS_MAX} orders"),
            ),
            (
                self.published.iter().all(|of| of.us[0] <= of.us[1] && of.us[0] >= 0.0)
                    && self.published.iter().all(|of| of.us[1].is_finite()),
                "published: us is the least and the most".to_string(),
            ),
            (
                (1..self.published.len()).all(|at| {
                    let mut before = self.published.iter().take(at);
                    before.all(|of| of.figure != self.published[at].figure)
                }),
                "published: each figure once".to_string(),
            ),
            (
                self.published.iter().all(|of| FIGURES.contains(&&of.figure[..])),
                format!("published: figure is one of {}", FIGURES.join(", ")),
            ),
            (
                !rates.is_empty() && rates.is_sorted() && rates.iter().all(is_rate),
                format!("sweep.rates: ascending, 1 to {RATE_MAX}"),
            ),
            (
                !clients.is_empty() && clients.iter().all(is_count),
                format!("sweep.clients: 1 to {CLIENTS_MAX}"),
            ),
            (
                !bytes.is_empty() && bytes.iter().all(is_size),
                format!("sweep.bytes: at most {BYTES_MAX}"),
            ),
            (
                is_time(duration, most) && is_time(duration, rates.first().copied().unwrap_or(0)),
                format!("sweep.duration: 100ms or more, with 1 to {ORDERS_MAX} orders"),
            ),
            ((1.0..=1_000.0).contains(knee), "sweep.knee: 1 to 1000".to_string()),
        ];
        let wrong = checks.into_iter().find(|(holds, _)| !holds);
        if let Some((_, what)) = wrong {
            return Err(what);
        }
        let most = clients.iter().copied().max().unwrap_or(0);
        let least = rates.first().copied().unwrap_or(0);
        let slowest = IocFlow { rate: least, clients: most, ..self.flow(*duration) };
        let lack = self.flow(self.duration).lack().map(|why| format!("duration: {why}"));
        let lack = lack.or_else(|| slowest.lack().map(|why| format!("sweep.duration: {why}")));
        lack.map_or(Ok(()), Err)
    }

    /// What is played, for so long.
    pub fn flow(&self, duration: Duration) -> IocFlow {
        IocFlow {
            clients: self.clients,
            bytes: self.bytes,
            matching_delay_ns: self.matching_delay_us * Nanos::MICRO,
            pinned: self.pinned,
            ..IocFlow::of(self.rate, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FX: &str = include_str!("../../../../../scenarios/papers/fx-trading.toml");
    const AWS: &str = include_str!("../../../../../scenarios/papers/aws-prototype.toml");

    #[test]
    fn every_client_has_an_order_and_some_are_measured() {
        let scenario = OrderScenario::parse(FX).expect("a scenario");
        let why = |rate, clients, ms| {
            let duration = Duration::from_millis(ms);
            OrderScenario { rate, clients, duration, ..scenario.clone() }.check().err()
        };
        let is = |why: Option<String>, what: &str| why.is_some_and(|why| why.contains(what));
        assert!(is(why(1, 1, 1_000), "duration: the last order is due within the first 200 ms"));
        assert!(is(why(100, 8, 70), "duration: 100ms or more"));
        assert!(is(why(10, 8, 700), "duration: 7 orders are fewer than 8 clients"));
        assert_eq!((why(10, 8, 800), why(2, 1, 1_000)), (None, None));
        let mut slow = scenario;
        (slow.sweep.rates, slow.sweep.clients) = (vec![10], vec![1, 30]);
        assert!(is(slow.check().err(), "sweep.duration: 20 orders are fewer than 30 clients"));
    }

    #[test]
    fn the_papers_files_are_scenarios_and_wrong_ones_say_what_is_wrong() {
        for text in [FX, AWS] {
            let scenario = OrderScenario::parse(text).expect("a scenario");
            let flow = scenario.flow(Duration::from_secs(1));
            assert_eq!((flow.rate, flow.duration_ns), (10_000, Nanos::SECOND));
            assert!(scenario.published.len() == 2 && flow.pinned, "{scenario:?}");
        }
        for (from, to, what) in [
            ("rate = 10000", "rate = 0", "rate: "),
            ("clients = 8 ", "clients = 901", "clients: "),
            ("bytes = 0 ", "bytes = 2001", "bytes: "),
            ("duration = \"60s\"", "duration = \"1ms\"", "duration: "),
            ("duration = \"60s\"", "duration = \"60\"", "duration"),
            ("us = [240, 240]", "us = [241, 240]", "published: "),
            ("figure = \"p99\"", "figure = \"p98\"", "published: figure "),
            ("figure = \"p99\"", "figure = \"average\"", "published: each figure once"),
            ("us = [240, 240]", "us = [240, 240, 1]", "published: us is"),
            ("us = [240, 240]", "us = [240, inf]", "published: us is"),
            ("rates = [1000, 2000", "rates = [2000, 1000", "sweep.rates: "),
            ("clients = [8, 100]", "clients = []", "sweep.clients: "),
            ("bytes = [0, 400]", "bytes = [0, 4000]", "sweep.bytes: "),
            ("knee = 3.0", "knee = 0.5", "sweep.knee: "),
            ("knee = 3.0", "knees = 3.0", "knees"),
        ] {
            let text = FX.replacen(from, to, 1);
            assert_ne!(text, FX, "{from}");
            let why = OrderScenario::parse(&text).expect_err(to);
            assert!(why.contains(what), "{to}: {why}");
        }
    }
}
