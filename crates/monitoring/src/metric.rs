//! Metrics: what each is, what was seen of it, and the page that Prometheus reads (text format 0.0.4).

use std::fmt::Write;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The `Content-Type` of a page.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What kind of figure a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only rises, from 0 at the start of the process; its name on the page ends with `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times in buckets, each of which counts all that are not longer.
    Histogram,
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name without `_total`.
    pub name: &'static str,
    /// What kind of figure it is.
    pub kind: Kind,
    /// Names of its labels, in the order of a sample's.
    pub labels: &'static [&'static str],
    /// What it says, in a sentence without its full stop.
    pub help: &'static str,
}

impl Metric {
    /// Its name as queries have it; a histogram's is that of its parts without their endings.
    pub fn full_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_string(),
        }
    }
}

/// Value of a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Label {
    /// A word that is known when the program is built.
    Word(&'static str),
    /// A number.
    Number(u64),
    /// A name that is known when the program starts.
    Name(Arc<str>),
}

impl From<&'static str> for Label {
    fn from(word: &'static str) -> Label {
        Label::Word(word)
    }
}

impl From<u16> for Label {
    fn from(number: u16) -> Label {
        Label::Number(number.into())
    }
}

impl From<usize> for Label {
    fn from(number: usize) -> Label {
        Label::Number(number as u64)
    }
}

impl From<&Arc<str>> for Label {
    fn from(name: &Arc<str>) -> Label {
        Label::Name(Arc::clone(name))
    }
}

impl Label {
    fn text(&self) -> String {
        match self {
            Label::Word(word) => (*word).to_string(),
            Label::Number(number) => number.to_string(),
            Label::Name(name) => name.to_string(),
        }
    }
}

/// Times in buckets.
#[derive(Clone, PartialEq, Debug)]
pub struct Buckets {
    /// Upper ends, seconds, rising; one without end follows.
    bounds: &'static [f64],
    /// Times in each.
    counts: Vec<u64>,
    sum_s: f64,
}

impl Buckets {
    /// Empty ones that end at `bounds`, seconds, rising.
    pub fn new(bounds: &'static [f64]) -> Buckets {
        Buckets { bounds, counts: vec![0; bounds.len() + 1], sum_s: 0.0 }
    }

    /// Counts a time.
    pub fn record_ns(&mut self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let at = self.bounds.iter().position(|bound| seconds <= *bound);
        let at = at.unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum_s += seconds;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many each bucket that has an end has; the one without comes of the count of all.
    fn each(&self) -> Vec<(f64, u64)> {
        self.bounds.iter().copied().zip(self.counts.iter().copied()).collect()
    }
}

/// What was seen of a metric.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Count(u64),
    Sum(f64),
    Level(f64),
    Times(Buckets),
}

/// A figure of a metric, with the values of its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    metric: &'static Metric,
    labels: [Option<Label>; LABELS_MAX],
    value: Value,
}

/// Labels of a metric at most.
pub const LABELS_MAX: usize = 3;

/// Figures, collected one after the other into memory that is used again.
#[derive(Clone, Default, Debug)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Forgets all; keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Those of others, too.
    pub fn extend(&mut self, other: &Samples) {
        self.0.extend(other.0.iter().cloned());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A counter stands at so much.
    pub fn count<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Label; N],
        value: u64,
    ) {
        self.push(metric, Kind::Counter, labels, Value::Count(value));
    }

    /// A counter of time stands at so many nanoseconds; its metric is in seconds.
    pub fn count_ns<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Label; N],
        ns: u64,
    ) {
        self.push(metric, Kind::Counter, labels, Value::Sum(ns as f64 / 1e9));
    }

    /// A counter that is no whole number stands at so much.
    pub fn sum<const N: usize>(&mut self, metric: &'static Metric, labels: [Label; N], value: f64) {
        self.push(metric, Kind::Counter, labels, Value::Sum(value));
    }

    /// A gauge stands at so much.
    pub fn level<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Label; N],
        value: f64,
    ) {
        self.push(metric, Kind::Gauge, labels, Value::Level(value));
    }

    /// A gauge of time stands at so many nanoseconds; its metric is in seconds.
    pub fn level_ns<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Label; N],
        ns: u64,
    ) {
        self.level(metric, labels, ns as f64 / 1e9);
    }

    /// A histogram stands so.
    pub fn times<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Label; N],
        buckets: Buckets,
    ) {
        self.push(metric, Kind::Histogram, labels, Value::Times(buckets));
    }

    fn push<const N: usize>(
        &mut self,
        metric: &'static Metric,
        kind: Kind,
        labels: [Label; N],
        value: Value,
    ) {
        const { assert!(N <= LABELS_MAX, "a metric has three labels at most") };
        assert!(metric.kind == kind, "{} is a {:?}", metric.name, metric.kind);
        assert!(metric.labels.len() == N, "{} has labels {:?}", metric.name, metric.labels);
        let mut labels = labels.into_iter();
        let labels = std::array::from_fn(|_| labels.next());
        self.0.push(Sample { metric, labels, value });
    }

    /// The page, metrics in the order of their names, each with the labels `common` too.
    pub fn page(mut self, common: &[(&'static str, String)]) -> String {
        self.0.sort_by_key(|sample| sample.metric.name);
        let labels = common.iter().map(|(name, value)| ((*name).into(), value.clone().into()));
        let mut registry = Registry::with_labels(labels);
        registry.register_collector(Box::new(Page(self.0)));
        let mut text = String::new();
        if prometheus_text::encode(&mut text, &registry).is_err() {
            // Writing to a text fails only when one of ours has no form.
            let _ = writeln!(text, "# a figure could not be written");
        }
        text
    }
}

/// Samples in the order of their metrics.
#[derive(Debug)]
struct Page(Vec<Sample>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for family in self.0.chunk_by(|a, b| std::ptr::eq(a.metric, b.metric)) {
            let Some(metric) = family.first().map(|sample| sample.metric) else { continue };
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut of = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for sample in family {
                let values = sample.labels.iter().flatten().map(Label::text);
                let labels: Vec<(&str, String)> =
                    metric.labels.iter().copied().zip(values).collect();
                let mut one = of.encode_family(&labels)?;
                match &sample.value {
                    Value::Count(count) => one.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                    Value::Sum(sum) => one.encode_counter::<NoLabelSet, _, u64>(sum, None)?,
                    Value::Level(level) => one.encode_gauge(level)?,
                    Value::Times(times) => one.encode_histogram::<NoLabelSet>(
                        times.sum_s,
                        times.count(),
                        &times.each(),
                        None,
                    )?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ORDERS: Metric =
        Metric { name: "orders", kind: Kind::Counter, labels: &["gateway"], help: "Orders" };
    static LAG: Metric =
        Metric { name: "lag_seconds", kind: Kind::Gauge, labels: &[], help: "A lag" };
    static WAY: Metric =
        Metric { name: "way_seconds", kind: Kind::Histogram, labels: &["gateway"], help: "A way" };

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut samples = Samples::default();
        let mut way = Buckets::new(&[0.001, 0.01]);
        [500_000, 1_000_000, 2_000_000, 50_000_000].iter().for_each(|ns| way.record_ns(*ns));
        samples.times(&WAY, [3u16.into()], way);
        samples.count(&ORDERS, [Label::Name("a\"b\\\n".into())], 7);
        samples.level_ns(&LAG, [], 1_500_000_000);
        samples.count(&ORDERS, ["two".into()], 8);
        let page = samples.page(&[("machine", "edge-1".to_string())]);
        let expected = "# HELP lag_seconds A lag\n# TYPE lag_seconds gauge\n\
                        lag_seconds{machine=\"edge-1\"} 1.5\n\
                        # HELP orders_total Orders\n# TYPE orders_total counter\n\
                        orders_total{machine=\"edge-1\",gateway=\"a\\\"b\\\\\\n\"} 7\n\
                        orders_total{machine=\"edge-1\",gateway=\"two\"} 8\n\
                        # HELP way_seconds A way\n# TYPE way_seconds histogram\n";
        assert!(page.starts_with(expected), "{page}");
        for line in [
            "way_seconds_bucket{machine=\"edge-1\",gateway=\"3\",le=\"0.001\"} 2",
            "way_seconds_bucket{machine=\"edge-1\",gateway=\"3\",le=\"0.01\"} 3",
            "way_seconds_bucket{machine=\"edge-1\",gateway=\"3\",le=\"+Inf\"} 4",
            "way_seconds_count{machine=\"edge-1\",gateway=\"3\"} 4",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }

    #[test]
    #[should_panic(expected = "orders is a Counter")]
    fn control_a_figure_of_another_kind_is_no_figure_of_a_metric() {
        Samples::default().level(&ORDERS, ["x".into()], 1.0);
    }
}
