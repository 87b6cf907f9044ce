//! Numbered sessions of accounts: FIX, whose messages in both directions have numbers.
//!
//! Inbound, a request carries its place among all that the session ever received, so a request that
//! two gateways bring (the first died, the client sent it again) is carried out once, whatever it
//! asks for; the first report it causes carries the number on, so that any gateway reads from the
//! stream what the next one to expect is. Outbound, the position in the private stream is the
//! number, so a message that is no report takes a place there first: a slot.

use types::{Command, CommandKind, ExecutionKind, Input, RejectReason, SESSION_RESET};

use crate::apply::{Applied, Engine};
use crate::output::{Output, refusal};

impl Engine {
    /// An input that is part of a numbered session.
    #[inline(never)]
    pub(crate) fn apply_numbered(&mut self, input: &Input, out: &mut Output) -> Applied {
        let Command { account, session_seq, kind, .. } = input.command;
        let request = matches!(
            kind,
            CommandKind::NewOrder
                | CommandKind::Cancel
                | CommandKind::Replace
                | CommandKind::MassCancel
        );
        if !request || !self.accounts.exists(account) {
            return self.dispatch(input, out);
        }
        if session_seq <= self.accounts.session_seq(account) {
            self.counters.duplicate_request += 1;
            return Applied::DuplicateRequest;
        }
        self.accounts.raise_session_seq(account, session_seq);
        let from = out.executions.len();
        let applied = self.dispatch(input, out);
        assert_eq!(self.accounts.session_seq(account), session_seq, "it counts once");
        let mut caused = out.executions.iter_mut().skip(from);
        if let Some(report) = caused.find(|report| report.account == account) {
            report.session_seq = session_seq;
        }
        applied
    }

    /// A place in the account's stream for a message of its gateway.
    pub(crate) fn session_slot(&mut self, command: &Command, out: &mut Output) -> Applied {
        let account = command.account;
        if !self.accounts.exists(account) || command.flags & !SESSION_RESET != 0 {
            return Applied::Refused;
        }
        // A reset that was long on its way must not end the numbers of the session after it.
        let newest = command.session_seq > self.accounts.session_seq(account);
        self.accounts.raise_session_seq(account, command.session_seq);
        let kind = ExecutionKind::SessionSlot;
        let mut report = refusal(kind, command, RejectReason::None, self.now);
        report.session_seq = command.session_seq;
        report.flags = if newest { command.flags } else { 0 };
        out.executions.push(report);
        Applied::Done
    }
}
