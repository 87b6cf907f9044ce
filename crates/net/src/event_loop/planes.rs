//! Which data planes the overlay sockets of a loop send by.

use types::Node;

use super::Loop;
use crate::plane::{PlaneError, PlaneFigures, PlaneKind};

impl<N: Node> Loop<N> {
    /// The overlay sockets of all nodes added so far send by the first of `kinds` that each can have;
    /// `told` hears of each that one can't have, and what it has instead. Call it in the network namespace
    /// of the sockets.
    ///
    /// # Errors
    /// Why a socket can have none of them, in a line.
    pub fn use_planes(
        &mut self,
        kinds: &[PlaneKind],
        mut told: impl FnMut(&str),
    ) -> Result<(), PlaneError> {
        self.driver.io.use_planes(kinds, &mut told)
    }

    /// What the data planes of the loop's sockets did so far; nothing for sockets that send by themselves.
    pub fn plane_figures(&self) -> impl Iterator<Item = (PlaneKind, PlaneFigures)> {
        self.driver.io.plane_figures()
    }
}
