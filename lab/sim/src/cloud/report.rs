//! What an experiment gives: rows of published and own figures, curves to draw, checks, remarks.

use std::ops::Range;

use telemetry::plot::Figure;

use super::{
    link::Profile,
    stats::{Estimate, median_interval},
    table1,
};

/// Where a figure comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A run of the simulator.
    Simulated,
    /// Arithmetic with given numbers; nothing ran.
    Computed,
    /// Real nodes, threads and sockets on the machine that ran the command.
    Measured,
}

impl Kind {
    /// Its name in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Simulated => "simulated",
            Kind::Computed => "computed",
            Kind::Measured => "measured",
        }
    }
}

/// One figure beside the published one.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// "ns", "%", or another unit.
    pub unit: &'static str,
    /// As printed in the paper, or read off its figure; `None` where the paper gives no number.
    pub published: Option<f64>,
    /// Ours, over the seeds; of measured ones `mean` is the median of the runs.
    pub ours: Estimate,
    /// Where this figure comes from, where not all of its report have the same source.
    pub kind: Option<Kind>,
    /// Of a measured figure: the interval of the median, see [`median_interval`].
    pub interval: Option<(f64, f64)>,
    /// Of each seed or run.
    pub values: Vec<f64>,
}

impl Row {
    /// A figure over several seeds.
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        published: Option<f64>,
        values: &[f64],
    ) -> Row {
        let ours = Estimate::of(values);
        let values = values.to_vec();
        Row { what: what.into(), unit, published, ours, kind: None, interval: None, values }
    }

    /// A figure measured in several runs: their median and its interval.
    pub fn measured(
        what: impl Into<String>,
        unit: &'static str,
        published: Option<f64>,
        values: &[f64],
    ) -> Row {
        let row = Row::new(what, unit, published, values);
        let Some((median, low, high)) = median_interval(values) else {
            return Row { kind: Some(Kind::Measured), ..row };
        };
        let ours = Estimate { mean: median, half_width: (high - low) / 2.0 };
        Row { ours, kind: Some(Kind::Measured), interval: Some((low, high)), ..row }
    }

    /// The same figure, marked as simulated beside measured ones.
    pub fn simulated(self) -> Row {
        Row { kind: Some(Kind::Simulated), ..self }
    }

    /// A single figure.
    pub fn single(
        what: impl Into<String>,
        unit: &'static str,
        published: Option<f64>,
        ours: f64,
    ) -> Row {
        Row::new(what, unit, published, &[ours])
    }

    /// Ours over published, less 1.
    pub fn difference(&self) -> Option<f64> {
        self.published.filter(|published| *published != 0.0).map(|p| self.ours.mean / p - 1.0)
    }
}

/// A demand on a figure and whether it was met.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What is demanded.
    pub what: String,
    /// What came out.
    pub ours: f64,
    /// Least and most allowed.
    pub allowed: (f64, f64),
}

impl Check {
    /// Demands `ours` within the bounds, which belong to it.
    pub fn new(what: impl Into<String>, ours: f64, least: f64, most: f64) -> Check {
        Check { what: what.into(), ours, allowed: (least, most) }
    }

    /// Whether it is met.
    pub fn holds(&self) -> bool {
        self.allowed.0 <= self.ours && self.ours <= self.allowed.1
    }
}

/// The result of one experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Name of the experiment.
    pub name: &'static str,
    /// What it reproduces.
    pub title: &'static str,
    /// Model, parameters, run lengths.
    pub model: String,
    /// Seeds used: 0 up to this many.
    pub seeds: u64,
    /// Figures.
    pub rows: Vec<Row>,
    /// Named single numbers, for programs.
    pub scalars: Vec<(&'static str, f64)>,
    /// Demands.
    pub checks: Vec<Check>,
    /// Drawings.
    pub figures: Vec<Figure>,
    /// What a reader must know: what does not reproduce, and why.
    pub notes: Vec<String>,
    /// Whether the rows follow from given numbers by arithmetic alone: nothing was simulated.
    pub computed: bool,
}

impl Report {
    /// Whether all checks hold.
    pub fn passes(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

/// An option that an experiment may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// `--receivers`.
    Receivers,
    /// `--depth`.
    Depth,
    /// `--fanout`.
    Fanout,
    /// `--hedge`.
    Hedge,
    /// `--loss`.
    Loss,
    /// `--clocks`.
    Clocks,
    /// `--stragglers`.
    Stragglers,
    /// `--straggler-extra`.
    StragglerExtra,
}

impl Takes {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Takes::Receivers => "--receivers",
            Takes::Depth => "--depth",
            Takes::Fanout => "--fanout",
            Takes::Hedge => "--hedge",
            Takes::Loss => "--loss",
            Takes::Clocks => "--clocks",
            Takes::Stragglers => "--stragglers",
            Takes::StragglerExtra => "--straggler-extra",
        }
    }
}

/// Whose errors the hosts' clocks have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockSource {
    /// What the clock agents leave, simulated in a cloud of the same profile.
    #[default]
    Agents,
    /// Drawn once for each host: 300 ns at the 99th percentile in the standard cloud.
    Assumed,
}

/// What a user asks of an experiment; `None`: the experiment's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Receivers of the tree (N), at least 1.
    pub receivers: Option<usize>,
    /// Layers of the tree below the root (D), at least 1.
    pub depth: Option<usize>,
    /// Children of a node (F), at least 1.
    pub fanout: Option<usize>,
    /// Siblings whose children a node also sends to (H).
    pub hedge: Option<usize>,
    /// Copies lost, of a million.
    pub loss_ppm: Option<u32>,
    /// Whose errors the hosts' clocks have.
    pub clocks: Option<ClockSource>,
    /// Stragglers, of a million VMs.
    pub straggler_ppm: Option<u32>,
    /// Mean of what a straggler's delays are longer, in thousandths.
    pub straggler_extra_permille: Option<u32>,
    /// The first seed.
    pub first_seed: u64,
}

impl Options {
    /// Whether another tree is asked for.
    pub fn has_tree(&self) -> bool {
        [self.receivers, self.depth, self.fanout, self.hedge].iter().any(Option::is_some)
    }

    /// The options that were given.
    pub fn given(&self) -> Vec<Takes> {
        let all = [
            (Takes::Receivers, self.receivers.is_some()),
            (Takes::Depth, self.depth.is_some()),
            (Takes::Fanout, self.fanout.is_some()),
            (Takes::Hedge, self.hedge.is_some()),
            (Takes::Loss, self.loss_ppm.is_some()),
            (Takes::Clocks, self.clocks.is_some()),
            (Takes::Stragglers, self.straggler_ppm.is_some()),
            (Takes::StragglerExtra, self.straggler_extra_permille.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect()
    }

    /// Why there is no such tree, where nothing else is said of `receivers` receivers.
    pub fn tree_fault(&self, receivers: usize) -> Option<&'static str> {
        let receivers = self.receivers.unwrap_or(receivers);
        let above = self.depth.unwrap_or_else(|| table1::rule_depth(receivers)) as u32 - 1;
        let last = self.fanout.unwrap_or(10).checked_pow(above);
        let line = "--depth, --fanout: more proxies in the last layer than receivers";
        last.is_none_or(|proxies| proxies > receivers).then_some(line)
    }

    /// Layers of the tree asked for, where nothing else is said of `receivers` receivers below
    /// proxies of fan-out 10 and as deep as the paper's rule says.
    pub fn layers(&self, receivers: usize) -> Vec<usize> {
        let receivers = self.receivers.unwrap_or(receivers);
        let depth = self.depth.unwrap_or_else(|| table1::rule_depth(receivers));
        table1::layers(receivers, depth, self.fanout.unwrap_or(10))
    }
}

/// How an experiment is run.
pub struct Run<'a> {
    /// Seeds to use, so many from the first one on; at least 1.
    pub seeds: u64,
    /// What else was asked for.
    pub options: Options,
    /// Told what part of the work (0 to 1) is done.
    pub progress: &'a mut dyn FnMut(f64),
}

impl<'a> Run<'a> {
    /// An experiment as it is, with seeds 0 up to so many.
    pub fn new(seeds: u64, progress: &'a mut dyn FnMut(f64)) -> Run<'a> {
        Run { seeds, options: Options::default(), progress }
    }

    /// The seeds.
    pub fn range(&self) -> Range<u64> {
        let first = self.options.first_seed;
        first..first.saturating_add(self.seeds)
    }

    /// A profile with the losses and stragglers that were asked for.
    pub fn profile(&self, profile: Profile) -> Profile {
        let Options { loss_ppm, straggler_ppm, straggler_extra_permille, .. } = self.options;
        let extra = straggler_extra_permille.map(|permille| f64::from(permille) / 1e3);
        Profile {
            loss_ppm: loss_ppm.unwrap_or(profile.loss_ppm),
            straggler_ppm: straggler_ppm.unwrap_or(profile.straggler_ppm),
            straggler_extra: extra.unwrap_or(profile.straggler_extra),
            ..profile
        }
    }

    /// A profile that loses what was asked for, nothing otherwise: the paper's section 11.5 says
    /// that its runs saw no loss.
    pub fn lossy(&self, profile: Profile) -> Profile {
        self.profile(Profile { loss_ppm: 0, ..profile })
    }
}

/// One experiment of the list.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Seeds when none are asked for.
    pub seeds: u64,
    /// Options it takes beside the seeds.
    pub takes: &'static [Takes],
    /// Why it cannot have the tree that is asked for; `None`: it can.
    pub fault: fn(&Options) -> Option<&'static str>,
    /// Runs it.
    pub run: fn(&mut Run) -> Report,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_checks() {
        let row = Row::single("a", "ns", Some(200.0), 190.0);
        assert!((row.difference().unwrap() + 0.05).abs() < 1e-12);
        assert_eq!(Row::single("a", "ns", None, 1.0).difference(), None);
        assert_eq!(Row::single("a", "ns", Some(0.0), 1.0).difference(), None);
        let mut report =
            Report { checks: vec![Check::new("a", 1.0, 0.0, 1.0)], ..Report::default() };
        assert!(report.passes());
        report.checks.push(Check::new("b", 1.1, 0.0, 1.0));
        assert!(!report.passes());
    }
}
