//! The way out for an application's answers.

use types::Nanos;

use super::outbound::Outbound;
use super::store::{MsgType, Store};
use crate::encode::Writer;
use crate::version::Version;

/// Sends an application's answers during one call of [`super::Application::message`].
#[derive(Debug)]
pub struct Port<'a, S> {
    pub(super) outbound: &'a mut Outbound<S>,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) now: Nanos,
    pub(super) received: u32,
}

impl<S: Store> Port<'_, S> {
    /// Sends a message that is no record of the account's stream; see [`Outbound::answer`].
    #[inline]
    pub fn send(&mut self, msg_type: MsgType, build: impl FnOnce(&mut Writer<'_>)) {
        self.outbound.answer(self.now, msg_type, self.out, build);
    }

    /// As [`Port::send`]; whether the message waits for its number, so that until then
    /// [`Outbound::revise`] can write it anew under `mark`, which is larger than those before it.
    pub(crate) fn send_marked(
        &mut self,
        msg_type: MsgType,
        mark: u64,
        build: impl FnOnce(&mut Writer<'_>),
    ) -> bool {
        self.outbound.answer(self.now, msg_type, self.out, build);
        self.outbound.mark(mark)
    }

    /// Mark of the first waiting message that has one.
    pub(crate) fn first_marked(&self) -> Option<u64> {
        self.outbound.first_marked()
    }

    /// FIX version of the session.
    pub fn version(&self) -> Version {
        self.outbound.version()
    }

    /// Number of bytes written during this call so far.
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Number of the message among all that the session ever received, from 1.
    pub fn received(&self) -> u32 {
        self.received
    }
}
