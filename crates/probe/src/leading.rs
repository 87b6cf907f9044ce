//! The leader's additional work: tell the members, collect what they heard, report once.

use planner::campaign::{Heard, JobKind, JobReport};
use planner::stats::Messages;
use types::{ConnId, Nanos};

use crate::job::{DRAIN_NS, options};
use crate::message::Order;

/// Number of points of the messages' distribution that are reported.
const QUANTILES: usize = 50;

/// A job that this agent leads.
#[derive(Debug)]
pub struct Leading {
    /// The order, with its start time set.
    pub order: Order,
    /// Connection that the order came by.
    pub asked_by: ConnId,
    /// Connection of each member; `None` for the leader itself.
    pub members: Vec<Option<ConnId>>,
    heard: Vec<Option<Vec<Heard>>>,
    series: Vec<Vec<i32>>,
    /// Whether each member can no longer report.
    lost: Vec<bool>,
}

impl Leading {
    /// The job of a checked order.
    pub fn new(order: Order, asked_by: ConnId) -> Leading {
        let members = order.members.len();
        Leading {
            asked_by,
            members: vec![None; members],
            heard: vec![None; members],
            series: vec![Vec::new(); members],
            lost: vec![false; members],
            order,
        }
    }

    /// Time at which the report is made, whatever has come.
    pub fn deadline(&self) -> Nanos {
        self.order.end().after(DRAIN_NS).after(self.order.gather_ns)
    }

    /// The member at the other end of a connection.
    pub fn member(&self, conn: ConnId) -> Option<usize> {
        self.members.iter().position(|member| *member == Some(conn))
    }

    /// What a member heard; more than it can have heard is cut.
    pub fn gather(&mut self, place: usize, mut heard: Vec<Heard>, mut series: Vec<i32>) {
        heard.truncate(self.order.members.len());
        for heard in &mut heard {
            heard.quantiles_ns.truncate(QUANTILES);
            heard.deviations_ns.truncate(64);
        }
        heard.retain(|heard| heard.from < self.order.members.len());
        series.truncate(self.order.probes() as usize);
        if let Some(entry) = self.heard.get_mut(place).filter(|entry| entry.is_none()) {
            *entry = Some(heard);
            self.series[place] = series;
        }
    }

    /// Notes that the connection of a member broke.
    pub fn lose(&mut self, place: usize) {
        if let Some(lost) = self.lost.get_mut(place) {
            *lost = true;
        }
    }

    /// Whether everybody who can has reported.
    pub fn is_complete(&self) -> bool {
        self.heard.iter().zip(&self.lost).all(|(heard, lost)| heard.is_some() || *lost)
    }

    /// The report made of what the members heard.
    pub fn report(&self) -> JobReport {
        let places = 0..self.heard.len();
        let silent = places.filter(|place| self.heard[*place].is_none()).collect();
        let messages = (self.order.kind == JobKind::Mcast).then(|| {
            let leaves: Vec<Vec<Option<i64>>> =
                self.series.iter().filter(|one| !one.is_empty()).map(|one| options(one)).collect();
            Messages::of(&leaves, QUANTILES)
        });
        JobReport {
            heard: self.heard.iter().map(|heard| heard.clone().unwrap_or_default()).collect(),
            silent,
            messages,
        }
    }
}
