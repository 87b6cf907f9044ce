//! The way to the root of a running exchange, for its operators and its timetable: the loop that it
//! is in, or those of its replicas.

use exchange::{ExchangeConfig, Member, Role, Root};
use net::{ControlError, LeaderEndpoint, LoopHandle};
use types::{ClockReading, Outbox};

/// A handle to the root, or to whichever of a group leads.
#[derive(Clone)]
pub struct RootLine {
    /// In a group: which loop's root leads.
    leader: Option<LeaderEndpoint>,
    loops: Vec<LoopHandle<Role>>,
    /// How many replicas there are places for; 0 where the root is none.
    places: u8,
}

impl RootLine {
    /// To the only root there is.
    pub fn alone(of: LoopHandle<Role>) -> RootLine {
        RootLine { leader: None, loops: vec![of], places: 0 }
    }

    /// To one replica of a group that has so many places, the others of which are elsewhere.
    pub fn one_of(places: u8, of: LoopHandle<Role>) -> RootLine {
        RootLine { leader: None, loops: vec![of], places }
    }

    /// To a group's, in the order of the replicas' numbers.
    pub fn group(leader: LeaderEndpoint, loops: Vec<LoopHandle<Role>>) -> RootLine {
        let places = u8::try_from(loops.len()).unwrap_or(u8::MAX);
        RootLine { leader: Some(leader), loops, places }
    }

    /// Numbers that replicas have or may have.
    pub fn places(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.places
    }

    /// Whether the root's replicas are all here.
    pub fn is_group(&self) -> bool {
        self.leader.is_some()
    }

    /// Whose place it is to lead, as far as is known here.
    fn leader(&self) -> usize {
        self.leader.as_ref().map_or(0, |leader| leader.held().1)
    }

    fn leaders_loop(&self) -> Result<&LoopHandle<Role>, ControlError> {
        self.loops.get(self.leader()).ok_or(ControlError::Ended)
    }

    /// Calls the root that leads. What a group's root wants logged is lost when another one leads
    /// by then; one that does not lead is not called.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn call(
        &self,
        call: impl FnOnce(&mut Root, ClockReading, &mut Outbox) + Send + 'static,
    ) -> Result<(), ControlError> {
        self.leaders_loop()?.call(ExchangeConfig::ROOT, move |role, now, out| {
            if role.as_member().is_none_or(|member| member.leading().is_some()) {
                let _ = role.with_root(out, |root, out| call(root, now, out));
            }
        })
    }

    /// Calls the replica that leads, as far as is known here.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn call_member(
        &self,
        call: impl FnOnce(&mut Member, ClockReading, &mut Outbox) + Send + 'static,
    ) -> Result<(), ControlError> {
        self.leaders_loop()?.call(ExchangeConfig::ROOT, move |role, now, out| {
            if let Some(member) = role.as_member_mut() {
                call(member, now, out);
            }
        })
    }

    /// Calls every root, the one that leads last: what it then tells the others of finds them
    /// called.
    ///
    /// # Errors
    /// [`ControlError`] of the first that was not called; the others are.
    pub fn call_all(
        &self,
        call: impl FnOnce(&mut Root, ClockReading, &mut Outbox) + Clone + Send + 'static,
    ) -> Result<(), ControlError> {
        let leader = self.leader();
        let others = (0..self.loops.len()).filter(|place| *place != leader);
        let mut outcome = Ok(());
        for place in others.chain([leader]) {
            let Some(of) = self.loops.get(place) else { continue };
            let call = call.clone();
            let called = of.call(ExchangeConfig::ROOT, move |role, now, out| {
                let _ = role.with_root(out, |root, out| call(root, now, out));
            });
            outcome = outcome.and(called);
        }
        outcome
    }
}
