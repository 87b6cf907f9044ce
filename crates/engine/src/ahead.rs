//! Looking ahead: while one input is applied, the memory that the next ones will touch is fetched.
//!
//! An order is found in steps that depend on each other (index, order, its neighbours in the queue),
//! and each step may wait for memory. So each is taken a few inputs before it is needed. Nothing of
//! this can be observed but the time it saves.

use std::borrow::Borrow;

use types::{CommandKind, Input, UserRefNum};

use crate::apply::{Applied, Engine};
use crate::output::{Output, account_of, key_of};

/// Inputs from the fetch of the index and the identifiers to that of the order, from there to that
/// of what the order points to, and from there to the input itself.
const STEP: usize = 3;
/// Inputs under way: a power of two above `3 * STEP`.
const WAY: usize = 16;

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
        let mut way: [Option<I>; WAY] = [const { None }; WAY];
        for step in 0usize.. {
            let at = |back: usize| step.wrapping_sub(back) % WAY;
            way[at(0)] = inputs.next();
            if let Some(input) = &way[at(0)] {
                self.fetch_index(input.borrow());
            }
            if let Some(input) = &way[at(STEP)] {
                self.fetch_order(input.borrow());
            }
            if let Some(input) = &way[at(2 * STEP)] {
                self.fetch_rest(input.borrow());
            }
            match &way[at(3 * STEP)] {
                Some(input) => {
                    let input = input.borrow();
                    let applied = self.apply(input, out);
                    after(self, input, applied, out);
                }
                None if step >= 3 * STEP => return,
                None => {}
            }
        }
    }

    #[inline(always)]
    fn fetch_index(&self, input: &Input) {
        let command = &input.command;
        self.books.prefetch(key_of(command.account, subject(input)));
        if let Some(ids) = &self.ids
            && command.kind != CommandKind::Cancel
        {
            ids.prefetch(command.account, &command.cl_ord_id);
        }
    }

    #[inline(always)]
    fn fetch_order(&self, input: &Input) {
        if input.command.kind != CommandKind::NewOrder {
            self.books.prefetch_order(key_of(input.command.account, subject(input)));
        }
    }

    #[inline(always)]
    fn fetch_rest(&self, input: &Input) {
        if input.command.kind == CommandKind::NewOrder {
            return;
        }
        let key = key_of(input.command.account, subject(input));
        if let Some(order) = self.books.prefetch_neighbours(key)
            && let Some(ids) = &self.ids
        {
            ids.prefetch(account_of(order.key()), &order.cl_ord_id());
        }
    }
}

/// The request number of the order that an input is about.
#[inline(always)]
fn subject(input: &Input) -> UserRefNum {
    match input.command.kind {
        CommandKind::Replace => input.command.orig_user_ref,
        _ => input.command.user_ref,
    }
}
