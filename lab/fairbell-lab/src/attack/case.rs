//! What an attack is: what is done, what has to hold meanwhile, and how its defence is taken away
//! for the control, in which it must not hold.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::Clock;

use super::line::Line;
use super::site::{ATTACKER, Doors, Outcome, Terms};

/// Attempts that an attacker makes at least, however early the honest clients are done.
pub const ATTEMPTS_MIN: u64 = 100;

/// What an attacker did and what came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Attempts: logons, connections, requests, as the attack has it.
    pub attempts: u64,
    /// Attempts that succeeded and must not.
    pub succeeded: u64,
    /// Attempts after which the exchange ended the connection or answered with a refusal.
    pub refused: u64,
    /// Texts that the exchange answered with, and how often.
    pub told: BTreeMap<String, u64>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { attempts, succeeded, refused, told } = self;
        write!(f, "{attempts} attempts, {succeeded} succeeded, {refused} refused")?;
        told.iter().try_for_each(|(text, count)| write!(f, "; {count} {text:?}"))
    }
}

/// What an attacker has.
pub struct Tools<'a> {
    /// Where the doors are.
    pub doors: Doors,
    /// A clock.
    pub clock: Clock,
    /// Certificates, and what was taken away for a control.
    pub terms: &'a Terms,
    /// Honest clients are done.
    pub stop: &'a AtomicBool,
}

impl Tools<'_> {
    /// Until honest clients are done, and not before [`ATTEMPTS_MIN`] attempts.
    pub fn goes_on(&self, attempts: u64) -> bool {
        !self.stop.load(Ordering::Relaxed) || attempts < ATTEMPTS_MIN
    }

    /// A plain connection from the attackers' address.
    pub fn plain(&self, door: std::net::SocketAddr) -> Option<Line> {
        Line::open(ATTACKER, door, None).ok()
    }
}

/// What an attack is held to, beside what all are held to: see [`super::attacks`].
pub struct Evidence<'a> {
    /// What became of the exchange.
    pub outcome: &'a Outcome,
    /// What the attacker saw.
    pub seen: &'a Seen,
    /// How long the attack went on.
    pub lasted: Duration,
}

/// An attack.
#[derive(Clone, Copy)]
pub struct AttackCase {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub about: &'static str,
    /// What has to hold, beside what has to hold in all.
    pub must_hold: &'static str,
    /// What the control takes away.
    pub control: &'static str,
    /// Takes it away.
    pub weaken: fn(&mut Terms),
    /// Does it until it is told to stop.
    pub run: fn(&Tools<'_>) -> Seen,
    /// Why it did not hold; empty when it did.
    pub judge: fn(&Evidence<'_>) -> Vec<String>,
}
