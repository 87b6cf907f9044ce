//! Looking ahead: while one input is applied, the memory that the next ones will touch is fetched.
//!
//! An order is found in steps that depend on each other (index, order, its neighbours in the queue),
//! and each step may wait for memory. So each is taken a few inputs before it is needed. Nothing of
//! this can be observed but the time it saves.

use std::borrow::Borrow;

use book::Trace;
use types::{CommandKind, Input};

use crate::apply::{Applied, Engine};
use crate::output::{Output, key_of};

/// Inputs from the fetch of the index and the identifiers to that of the order, from there to that
/// of what the order points to, and from there to the input itself.
const STEP: usize = 2;
/// Inputs under way: a power of two above `3 * STEP`.
const WAY: usize = 8;

const _: () = assert!(WAY.is_power_of_two() && WAY > 3 * STEP, "no input is overwritten");

impl Engine {
    /// Applies inputs in their order, as [`Engine::apply`] would, and calls `after` with each once
    /// its output is in `out`.
    pub fn apply_all<I: Borrow<Input>>(
        &mut self,
        inputs: impl IntoIterator<Item = I>,
        out: &mut Output,
        mut after: impl FnMut(&Engine, &Input, Applied, &mut Output),
    ) {
        let mut inputs = inputs.into_iter();
        // Each input, and what is known of the order that it is about; of none, of some order.
        let mut way = [const { None::<I> }; WAY];
        let mut traces = [Trace::default(); WAY];
        for step in 0usize.. {
            let at = |back: usize| step.wrapping_sub(back) % WAY;
            way[at(0)] = inputs.next();
            let next = way[at(0)].as_ref();
            traces[at(0)] = next.map_or(Trace::default(), |next| self.fetch_index(next.borrow()));
            self.books.prefetch_order(&mut traces[at(STEP)]);
            self.books.prefetch_neighbours(&traces[at(2 * STEP)]);
            match &way[at(3 * STEP)] {
                Some(input) => {
                    let input = input.borrow();
                    let applied = self.apply_next(input, out);
                    after(self, input, applied, out);
                }
                None if step >= 3 * STEP => return,
                None => {}
            }
        }
    }

    /// Where the order is that the input is about. Nearly the same is done for every kind of command: of which
    /// kind the next one is cannot be foreseen, and a wrong guess costs more than a fetch in vain.
    #[inline(always)]
    fn fetch_index(&self, input: &Input) -> Trace {
        let command = &input.command;
        let own = key_of(command.account, command.user_ref);
        self.books.prefetch_identifier(own, &command.cl_ord_id);
        // The same fetch in both branches, not before them: `bench engine` is 4 % slower so.
        if command.kind != CommandKind::Replace {
            return self.books.prefetch(own);
        }
        self.books.prefetch(own);
        self.books.prefetch(key_of(command.account, command.orig_user_ref))
    }
}
