//! What an experiment gives: rows of published and own figures, curves to draw, checks, remarks.

use std::ops::Range;

use super::{link::Profile, stats::Estimate};

/// One figure beside the published one.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// "ns", "%", or another unit.
    pub unit: &'static str,
    /// As printed in the paper, or read off its figure; `None` where the paper gives no number.
    pub published: Option<f64>,
    /// Ours, over the seeds.
    pub ours: Estimate,
}

impl Row {
    /// A figure over several seeds.
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        published: Option<f64>,
        values: &[f64],
    ) -> Row {
        Row { what: what.into(), unit, published, ours: Estimate::of(values) }
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

/// One line of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its legend.
    pub name: String,
    /// Points in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// A figure to draw.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// File name without extension.
    pub file: &'static str,
    /// Title.
    pub title: String,
    /// What x is.
    pub x: &'static str,
    /// What y is.
    pub y: &'static str,
    /// Lines.
    pub curves: Vec<Curve>,
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
}

impl Report {
    /// Whether all checks hold.
    pub fn passes(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

/// What a user asks of an experiment; `None`: the experiment's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// N.
    pub receivers: Option<usize>,
    /// D.
    pub depth: Option<usize>,
    /// F.
    pub fanout: Option<usize>,
    /// H.
    pub hedge: Option<usize>,
    /// Copies lost, of a million.
    pub loss_ppm: Option<u32>,
    /// The first seed.
    pub first_seed: u64,
}

impl Options {
    /// Whether another tree is asked for.
    pub fn has_tree(&self) -> bool {
        [self.receivers, self.depth, self.fanout, self.hedge].iter().any(Option::is_some)
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

    /// A profile that loses what was asked for, nothing otherwise: the paper's section 11.5 says
    /// that its runs saw no loss.
    pub fn lossy(&self, profile: Profile) -> Profile {
        Profile { loss_ppm: self.options.loss_ppm.unwrap_or(0), ..profile }
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
