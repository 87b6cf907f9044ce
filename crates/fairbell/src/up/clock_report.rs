//! What the clocks of a run were worth.

use host::clocks::ClockFigures;
use host::config::Config;
use types::Nanos;

use crate::clock::RTS25_NS;
use crate::report::{ClockReport, Quantiles};

/// The figures of a run's clocks.
pub fn report(figures: ClockFigures, config: &Config) -> ClockReport {
    let ClockFigures { source, bounds, errors } = figures;
    let held = errors.iter().zip(&bounds).filter(|(error, bound)| error <= bound).count();
    let held = held as f64 / errors.len().max(1) as f64;
    let judged = if errors.is_empty() { &bounds } else { &errors };
    let within = judged.iter().filter(|ns| **ns <= RTS25_NS).count();
    let within_100us = (!judged.is_empty()).then(|| within as f64 / judged.len() as f64);
    let known = !errors.is_empty();
    ClockReport {
        source,
        asymmetry_ns: config.clock.asymmetry_us * Nanos::MICRO,
        held: known.then_some(held),
        within_100us,
        error_ns: known.then(|| quantiles(errors)),
        bound_ns: quantiles(match bounds.is_empty() {
            true => vec![config.hold.clock_bound_ns],
            false => bounds,
        }),
    }
}

fn quantiles(mut values: Vec<u64>) -> Quantiles {
    values.sort_unstable();
    let at = |permille| clock::simulate::quantile(&values, permille);
    let sum: u128 = values.iter().map(|ns| u128::from(*ns)).sum();
    Quantiles {
        count: values.len() as u64,
        min: values.first().copied().unwrap_or(0),
        mean: (sum / values.len().max(1) as u128) as u64,
        p50: at(500),
        p90: at(900),
        p99: at(990),
        p999: at(999),
        max: at(1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_looked_at_claims_what_is_configured() {
        let config = Config::default();
        let report = report(ClockFigures::default(), &config);
        assert_eq!((report.bound_ns.max, report.error_ns), (config.hold.clock_bound_ns, None));
        assert_eq!((report.held, report.within_100us), (None, None));
    }

    #[test]
    fn errors_beyond_their_bounds_show() {
        let (bounds, errors) = (vec![10, 200_000], vec![11, 150_000]);
        let figures = ClockFigures { source: String::new(), bounds, errors };
        let report = report(figures, &Config::default());
        assert_eq!((report.held, report.within_100us), (Some(0.5), Some(0.5)));
    }
}
