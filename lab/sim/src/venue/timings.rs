//! How a run felt: when messages were published and handed on, how long participants waited.

use types::Nanos;

/// One datagram of market data, true times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When the root sent it.
    pub at: Nanos,
    /// When the first honest receiver handed it on.
    pub first: Nanos,
    /// When the last one did, so far.
    pub last: Nanos,
    /// Honest receivers that have handed it on.
    pub receivers: u32,
}

/// One answer to a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// When it came, by the participants' clock.
    pub at: Nanos,
    /// Time since the request was due.
    pub ns: u64,
}

/// All times of one run, or of several.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// Datagrams of market data, in order of publication.
    pub deliveries: Vec<Delivery>,
    /// First answers to the timed requests of honest participants.
    pub answers: Vec<Answer>,
    /// Honest receivers.
    pub receivers: u32,
}

/// What others than an attacker have of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Service {
    /// Messages that every honest receiver handed on.
    pub messages: u64,
    /// From publication to the last hand-on, median and 99th percentile, ns.
    pub oml_ns: (u64, u64),
    /// Share of messages that all handed on within the window of fairness.
    pub p_fair: f64,
    /// Answers.
    pub answers: u64,
    /// From when a request was due to its first answer, median and 99th percentile, ns.
    pub latency_ns: (u64, u64),
}

impl Timings {
    /// Adds another run's.
    pub fn add(&mut self, other: Timings) {
        self.deliveries.extend(other.deliveries);
        self.answers.extend(other.answers);
        self.receivers = other.receivers;
    }

    /// Messages that all honest receivers handed on.
    pub fn complete(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().filter(|delivery| delivery.receivers >= self.receivers)
    }

    /// The figures; `window_ns` is the window of fairness.
    pub fn service(&self, window_ns: u64) -> Service {
        let mut oml: Vec<u64> = self.complete().map(|d| d.last.since(d.at)).collect();
        let fair = self.complete().filter(|d| d.last.since(d.first) <= window_ns).count();
        let mut latency: Vec<u64> = self.answers.iter().map(|answer| answer.ns).collect();
        Service {
            messages: oml.len() as u64,
            oml_ns: two(&mut oml),
            p_fair: fair as f64 / oml.len().max(1) as f64,
            answers: latency.len() as u64,
            latency_ns: two(&mut latency),
        }
    }
}

fn two(values: &mut [u64]) -> (u64, u64) {
    values.sort_unstable();
    let at = |permille: usize| {
        let rank = (values.len() * permille).div_ceil(1_000).max(1);
        values.get(rank - 1).copied().unwrap_or(0)
    };
    (at(500), at(990))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_everybody_has_counts() {
        let delivery = |last, receivers| {
            let (at, first) = (Nanos(100), Nanos(200));
            Delivery { at, first, last: Nanos(last), receivers }
        };
        let answers = (1..=100).map(|ns| Answer { at: Nanos(0), ns }).collect();
        let deliveries = vec![delivery(210, 3), delivery(900, 3), delivery(201, 2)];
        let timings = Timings { deliveries, answers, receivers: 3 };
        let service = timings.service(50);
        assert_eq!((service.messages, service.oml_ns, service.p_fair), (2, (110, 800), 0.5));
        assert_eq!((service.answers, service.latency_ns), (100, (50, 99)));
        assert_eq!(Timings::default().service(1), Service::default());
    }
}
