//! Instruments that move from one shard to another at a roll of the day, as the logs of all shards say.
//!
//! 1. An operator's command for all shards ([`InstrumentParam::Shard`](types::InstrumentParam)) names an
//!    instrument and a shard. Every shard notes it. One move of an instrument at a time.
//! 2. The shard that has the instrument takes it out at its next end of a day, or at once between two days:
//!    readers of its feed see the displayed orders deleted. What is left of it, and how much of its accounts'
//!    limits they use in it, stays in the state ([`Engine::leaving`]) until 5.
//! 3. The other one takes the bytes into its log part by part ([`types::MovePart`]) after *its* next end of a day;
//!    with the last part it takes the instrument up. What was cancelled meanwhile for all instruments, or by a
//!    kill switch, is cancelled then.
//! 4. That it has arrived ([`Engine::arrived`]) is told to the first shard, which gives a second command for all
//!    ([`InstrumentParam::Placed`](types::InstrumentParam)).
//! 5. With that the old shard forgets the bytes, and each shard tells the accounts that are at home there
//!    ([`types::PlaceRecord`]): gateways send requests to the new shard, and again those that have no answer.
//!
//! A request has one answer. Gateways say of each request which instrument it is about, of cancels and replaces
//! too. A shard that an instrument has left, or has not reached yet, drops what is about it without a word,
//! however late that comes: whoever trades it answers. The numbers of requests that the old shard has seen come
//! along and count as seen in the new one, but for mass cancels of all instruments, which every shard gets.
//! Numbered requests of FIX sessions, which are known by another number, are refused by the old shard with
//! [`RejectReason::Halted`].
//!
//! Where numbers begin again between the old shard's end of a day and the new one's present day, a request that
//! a gateway sends again may be one of the day before, by the time when it came there. It is refused with
//! [`RejectReason::Halted`], unless the old shard had seen its number; that of the new day is not used up.
//!
//! An order of the new shard that has the number of one that comes is cancelled: a participant that gives a
//! number twice, to instruments of two shards, has to choose.

use std::collections::VecDeque;

use types::{
    AccountId, CancelReason, Command, CommandKind, Digest, ExecutionKind, GatewayId, Input,
    InstrumentId, LimitKind, MovePart, Nanos, Phase, Qty, RejectReason, ShardId, UserRefNum,
};
use zerocopy::{IntoBytes, TryFromBytes};

use crate::apply::{Applied, Day, Engine};
use crate::codec::{Reader, SnapshotError, Writer, digest_of};
use crate::output::{Output, account_of, refusal};
use crate::sources::Accounts;

/// Most bytes of an instrument on its way.
const BYTES_MAX: usize = 1 << 28;
/// Bytes before those of the instrument: their number and digest.
const HEADER: usize = 16;
/// Commands kept that cancel orders on their way to this shard; the oldest goes first.
const CANCELS_MAX: usize = 1 << 10;
/// A cancel without a number counts for what left its shard up to so much later: it may have come there after
/// that. Far above the bound of clocks and a datagram's way.
const CANCEL_MARGIN_NS: u64 = Nanos::SECOND;
/// Limits that instruments take along. Messages of a second are spent where they are.
const CARRIED: [LimitKind; 2] = [LimitKind::OpenOrders, LimitKind::Credit];

const _: () = assert!(BYTES_MAX < u32::MAX as usize, "places of parts have 32 bits");

/// A move that was asked for and is not done.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// Number of the command for all shards.
    number: u32,
    to: u16,
}

/// What is left of an instrument that has gone, until it has arrived.
#[derive(Clone, Debug)]
struct Leaving {
    slot: usize,
    number: u32,
    to: u16,
    /// Behind the header.
    bytes: Vec<u8>,
}

/// An instrument on its way to this shard.
#[derive(Clone, Debug)]
struct Coming {
    slot: usize,
    number: u32,
    bytes: Vec<u8>,
    /// It could not be taken up. With the next day it is tried again, from the first byte.
    refused: bool,
}

/// What of an instrument is to be told to another shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeavingInstrument<'a> {
    /// The instrument that left, by its number in the venue.
    pub instrument: InstrumentId,
    /// Number of the command for all shards that asked for it.
    pub number: u32,
    /// Where it goes.
    pub to: ShardId,
    /// All of it, for [`MovePart`]s.
    pub bytes: &'a [u8],
}

/// Moves of all instruments as one shard knows them.
#[derive(Clone, Debug)]
pub(crate) struct Moves {
    /// By instrument less one.
    planned: Vec<Option<Planned>>,
    /// By instrument less one: the shard that the first shard said last has it, from 1; 0: as configured.
    placed: Vec<u16>,
    leaving: Vec<Leaving>,
    coming: Vec<Coming>,
    /// What cancels orders of all instruments while one is to come, and when it was carried out here.
    cancels: VecDeque<(Nanos, Command)>,
    /// Numbers of today's requests that other shards had seen of instruments that are here now.
    elsewhere: Option<Accounts>,
    /// When this shard's day began, if an instrument came or was to come between two days; else 0.
    began: Nanos,
    /// Numbers of the day before, until the end of this one: this shard's and those that came along.
    yesterday: Option<Accounts>,
    fault: Option<MoveFault>,
}

/// Mistakes that the checks of a simulation have to find. No part of any product.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveFault {
    /// The oldest order of an instrument stays behind and is forgotten.
    LeavesOne,
    /// The shard that an instrument leaves keeps it.
    KeepsAll,
    /// Limits stay where they are, though their use moves.
    ForgetsParts,
    /// Requests for an instrument that has gone are refused.
    AnswersForGone,
    /// The numbers of requests that the old shard has seen do not come along.
    ForgetsSeen,
}

impl Moves {
    pub(crate) fn new(instruments: usize) -> Moves {
        Moves {
            planned: vec![None; instruments],
            placed: vec![0; instruments],
            leaving: Vec::new(),
            coming: Vec::new(),
            cancels: VecDeque::new(),
            elsewhere: None,
            began: Nanos(0),
            yesterday: None,
            fault: None,
        }
    }

    /// Nothing has moved, and nothing is to: all else that is kept follows from a move.
    pub(crate) fn is_empty(&self) -> bool {
        self.planned.iter().all(Option::is_none) && self.placed.iter().all(|placed| *placed == 0)
    }

    fn coming(&mut self, slot: usize) -> Option<&mut Coming> {
        self.coming.iter_mut().find(|coming| coming.slot == slot)
    }

    /// Whether another shard trades an instrument that this one, `me`, has not got, or does so soon.
    fn is_elsewhere(&self, slot: usize, me: u16) -> bool {
        let placed = self.placed.get(slot).and_then(|placed| placed.checked_sub(1));
        let planned = self.planned.get(slot).copied().flatten();
        self.leaving.iter().any(|leaving| leaving.slot == slot)
            || planned.is_some_and(|planned| planned.to == me)
            || placed.is_some_and(|placed| placed != me)
    }

    /// Whether the shard that an instrument came from had seen a request. What goes to every shard counts for
    /// each of them alone.
    #[inline(always)]
    pub(crate) fn has_seen(&self, command: &Command) -> bool {
        let for_all = command.kind == CommandKind::MassCancel && command.instrument.0 == 0;
        self.elsewhere
            .as_ref()
            .is_some_and(|seen| !for_all && seen.contains(command.account, command.user_ref))
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        if self.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        self.write_moving(&mut Writer { bytes: &mut bytes });
        digest.fold(digest_of(&bytes));
        let seen = self.elsewhere.iter().chain(&self.yesterday);
        seen.for_each(|seen| seen.fold(digest));
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.write_moving(out);
        for seen in [&self.elsewhere, &self.yesterday] {
            out.u32(u32::from(seen.is_some()));
            seen.iter().for_each(|seen| seen.write_seen(out));
        }
    }

    /// All but the numbers of requests.
    fn write_moving(&self, out: &mut Writer) {
        self.placed.iter().for_each(|placed| out.u32(u32::from(*placed)));
        let planned = self.planned.iter().enumerate();
        let planned = planned.filter_map(|(slot, planned)| Some((slot, (*planned)?)));
        out.u64(planned.clone().count() as u64);
        for (slot, Planned { number, to }) in planned {
            [slot as u32, number, u32::from(to)].iter().for_each(|word| out.u32(*word));
        }
        out.u64(self.leaving.len() as u64);
        for Leaving { slot, number, to, bytes } in &self.leaving {
            [*slot as u32, *number, u32::from(*to)].iter().for_each(|word| out.u32(*word));
            out.section(|to| to.extend_from_slice(bytes));
        }
        out.u64(self.coming.len() as u64);
        for Coming { slot, number, bytes, refused } in &self.coming {
            [*slot as u32, *number, u32::from(*refused)].iter().for_each(|word| out.u32(*word));
            out.section(|to| to.extend_from_slice(bytes));
        }
        out.u64(self.cancels.len() as u64);
        for (at, command) in &self.cancels {
            out.u64(at.0);
            out.raw(command.as_bytes());
        }
        out.u64(self.began.0);
    }

    /// Takes up what [`Moves::write`] wrote, of so many accounts.
    pub(crate) fn read(
        &mut self,
        from: &mut Reader,
        accounts_max: usize,
    ) -> Result<(), SnapshotError> {
        let slots = self.planned.len();
        let slot = |from: &mut Reader| {
            let slot = from.u32()? as usize;
            if slot < slots { Ok(slot) } else { Err(from.damaged()) }
        };
        let flag = |from: &mut Reader| match from.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.damaged()),
        };
        let shard = |from: &mut Reader| u16::try_from(from.u32()?).map_err(|_| from.damaged());
        for placed in &mut self.placed {
            *placed = shard(from)?;
        }
        for _ in 0..from.count(slots)? {
            let slot = slot(from)?;
            self.planned[slot] = Some(Planned { number: from.u32()?, to: shard(from)? });
        }
        for _ in 0..from.count(slots)? {
            let (slot, number, to) = (slot(from)?, from.u32()?, shard(from)?);
            self.leaving.push(Leaving { slot, number, to, bytes: from.section()?.to_vec() });
        }
        for _ in 0..from.count(slots)? {
            let (slot, number, refused) = (slot(from)?, from.u32()?, flag(from)?);
            self.coming.push(Coming { slot, number, bytes: from.section()?.to_vec(), refused });
        }
        for _ in 0..from.count(CANCELS_MAX)? {
            let at = Nanos(from.u64()?);
            let command = Command::try_read_from_bytes(from.raw(size_of::<Command>())?);
            self.cancels.push_back((at, command.map_err(|_| from.damaged())?));
        }
        self.began = Nanos(from.u64()?);
        for seen in [&mut self.elsewhere, &mut self.yesterday] {
            if flag(from)? {
                *seen = Some(Accounts::read_seen(from, accounts_max)?);
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Instruments that have gone to other shards and not arrived there.
    pub fn leaving(&self) -> impl Iterator<Item = LeavingInstrument<'_>> {
        let leaving = self.between.iter().flat_map(|between| &between.moves.leaving);
        leaving.map(|leaving| LeavingInstrument {
            instrument: InstrumentId(leaving.slot as u16 + 1),
            number: leaving.number,
            to: ShardId(leaving.to),
            bytes: &leaving.bytes,
        })
    }

    /// How many bytes this shard's log has of an instrument that is to come by the command with that number;
    /// `None` when it does not come, has come, or can't be taken before the next day.
    pub fn coming(&self, instrument: InstrumentId, number: u32) -> Option<u32> {
        let slot = usize::from(instrument.0).checked_sub(1)?;
        let mut coming = self.between.as_ref()?.moves.coming.iter();
        let coming = coming.find(|coming| coming.slot == slot && coming.number == number)?;
        (!coming.refused).then_some(coming.bytes.len() as u32)
    }

    /// Instruments that have arrived here and of which the first shard has not said so: with the numbers of
    /// the commands that asked for it.
    pub fn arrived(&self) -> impl Iterator<Item = (InstrumentId, u32)> {
        let planned = self.between.iter().flat_map(|between| &between.moves.planned);
        planned.enumerate().filter_map(|(slot, planned)| {
            let Planned { number, to, .. } = (*planned)?;
            let here = to == self.config.shard.0 && self.markets[slot].held;
            here.then_some((InstrumentId(slot as u16 + 1), number))
        })
    }

    /// Where an instrument is to go that has not arrived there, and the number of the command that asked
    /// for it.
    pub fn moving(&self, instrument: InstrumentId) -> Option<(ShardId, u32)> {
        let slot = usize::from(instrument.0).checked_sub(1)?;
        let planned = (*self.between.as_ref()?.moves.planned.get(slot)?)?;
        Some((ShardId(planned.to), planned.number))
    }

    /// The shard that an instrument has moved to, as all shards were told last; `None`: it is where the
    /// configuration says.
    pub fn placed(&self, instrument: InstrumentId) -> Option<ShardId> {
        let slot = usize::from(instrument.0).checked_sub(1)?;
        let placed = self.between.as_ref()?.moves.placed.get(slot)?;
        placed.checked_sub(1).map(ShardId)
    }

    /// A deliberate mistake, for tests of the checks that have to find it.
    #[doc(hidden)]
    pub fn move_wrongly(&mut self, fault: MoveFault) {
        if let Some(between) = &mut self.between {
            between.moves.fault = Some(fault);
        }
    }

    /// Whether a request is for another shard: nothing is done for it, and nobody told.
    #[inline(always)]
    pub(crate) fn drops(&self, input: &Input) -> bool {
        self.between.is_some()
            && self.slot(input.command.instrument).is_none()
            && self.drops_request(input)
    }

    #[cold]
    fn drops_request(&self, input: &Input) -> bool {
        let Some(between) = &self.between else { return false };
        let command = &input.command;
        let numbered = command.session_seq != 0 || input.source.gateway == GatewayId(0);
        let asked = matches!(
            command.kind,
            CommandKind::NewOrder
                | CommandKind::MassCancel
                | CommandKind::Cancel
                | CommandKind::Replace
        );
        let answers = between.moves.fault == Some(MoveFault::AnswersForGone);
        asked && !numbered && !answers && self.trades_elsewhere(command.instrument)
    }

    /// Whether an instrument that this shard has not got is another one's, or on its way.
    #[cold]
    fn trades_elsewhere(&self, instrument: InstrumentId) -> bool {
        let Some(slot) = usize::from(instrument.0).checked_sub(1) else { return false };
        let moves = self.between.as_ref().map(|between| &between.moves);
        let absent = self.markets.get(slot).is_some_and(|market| !market.held);
        absent && moves.is_some_and(|moves| moves.is_elsewhere(slot, self.config.shard.0))
    }

    /// Why an instrument, or an order for it, is not known here.
    #[cold]
    pub(crate) fn not_here(&self, command: &Command, unknown: RejectReason) -> RejectReason {
        if self.trades_elsewhere(command.instrument) { RejectReason::Halted } else { unknown }
    }

    /// What is to be said of a request that was sent again and came to its gateway before this day began:
    /// nothing, as it was answered, or that it is too late. `None` for any other.
    #[cold]
    pub(crate) fn check_sent_again(&mut self, input: &Input) -> Option<Option<RejectReason>> {
        let (command, moves) = (&input.command, &mut self.between.as_mut()?.moves);
        let seen = moves.yesterday.as_mut().filter(|_| input.t_in < moves.began)?;
        let known = command.kind != CommandKind::Cancel
            && command.user_ref.0 != 0
            && !seen.record(command.account, command.user_ref);
        Some((!known).then_some(RejectReason::Halted))
    }

    pub(crate) fn plan_move(&mut self, command: &Command, out: &mut Output) -> Applied {
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let (shards, closed) = (self.config.shards, self.day != Day::Open);
        let to = u16::try_from(command.qty.0).ok().filter(|to| *to < shards);
        let moves = self.between.as_mut().map(|between| &mut between.moves);
        let planned = moves.and_then(|moves| moves.planned.get_mut(slot));
        let (Some(planned @ None), Some(to), number @ 1..) = (planned, to, command.session_seq)
        else {
            return Applied::Refused;
        };
        *planned = Some(Planned { number, to });
        if closed {
            self.carry_out_move(slot, false, out);
        }
        Applied::Done
    }

    /// Sends off what is to go at the end of a day; `goes_on`: the numbers of requests run on.
    pub(crate) fn roll_moves(&mut self, goes_on: bool, out: &mut Output) {
        let Some(between) = &mut self.between else { return };
        (between.moves.began, between.moves.yesterday) = (Nanos(0), None);
        for coming in &mut between.moves.coming {
            (coming.refused, coming.bytes) = (false, Vec::new());
        }
        for slot in 0..between.moves.planned.len() {
            self.carry_out_move(slot, goes_on, out);
        }
    }

    /// A day begins: request numbers start again.
    pub(crate) fn begin_day_of_moves(&mut self) {
        let Some(between) = &mut self.between else { return };
        let elsewhere = between.moves.elsewhere.take();
        if elsewhere.is_some() || !between.moves.coming.is_empty() {
            let mut seen = self.accounts.clone();
            elsewhere.iter().for_each(|elsewhere| seen.unite(elsewhere));
            (between.moves.began, between.moves.yesterday) = (self.now, Some(seen));
        }
    }

    fn carry_out_move(&mut self, slot: usize, goes_on: bool, out: &mut Output) {
        let (me, held) = (self.config.shard.0, self.markets[slot].held);
        let Some(between) = &mut self.between else { return };
        let Some(Planned { number, to }) = between.moves.planned[slot] else { return };
        match (to == me, held) {
            (true, false) if between.moves.coming(slot).is_none() => {
                let (bytes, refused) = (Vec::new(), false);
                between.moves.coming.push(Coming { slot, number, bytes, refused });
            }
            (false, true) => self.depart(slot, (number, to), goes_on, out),
            _ => {}
        }
    }

    fn depart(&mut self, slot: usize, (number, to): (u32, u16), goes_on: bool, out: &mut Output) {
        let fault = self.between.as_ref().and_then(|between| between.moves.fault);
        if fault == Some(MoveFault::LeavesOne)
            && let Some(first) = self.books.all_orders(slot as u16).map(book::Order::key).min()
        {
            let mut nobody = Output::default();
            let wanted = |order: &book::Order| order.key() == first;
            self.cancel_where(slot, CancelReason::Requested, wanted, &mut nobody);
            self.feed.next.0 -= nobody.market.len() as u64;
        }
        let accounts = self.risk.accounts();
        let used: Vec<_> = accounts
            .flat_map(|account| CARRIED.map(|kind| (account, kind)))
            .map(|(account, kind)| (account, kind, self.risk.used(account, kind, 0)))
            .collect();
        let of_instrument = match fault {
            Some(MoveFault::KeepsAll) => self.clone().take_out(slot, &mut Output::default()),
            _ => self.take_out(slot, out),
        };
        let (mut body, mut sent) = (Vec::new(), Vec::new());
        for (account, kind, used) in used {
            let goes = match fault {
                Some(MoveFault::ForgetsParts) => 0,
                _ => self.risk.send_part(account, kind, used),
            };
            sent.extend((goes > 0).then_some((account, kind, goes)));
        }
        let mut writer = Writer { bytes: &mut body };
        writer.u8(u8::from(goes_on));
        writer.u32(self.directive());
        writer.u64(sent.len() as u64);
        for (account, kind, goes) in sent {
            writer.u32(u32::from(account.0) << 8 | kind as u32);
            writer.u64(goes);
        }
        body.extend_from_slice(&of_instrument);
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&digest_of(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        let Some(between) = &mut self.between else { return };
        between.moves.leaving.push(Leaving { slot, number, to, bytes });
    }

    /// The numbers of requests seen today, here or where the instruments of this shard were before.
    pub(crate) fn seen_by_all(&self) -> Accounts {
        let mut seen = self.accounts.clone();
        let elsewhere = self.between.iter().flat_map(|between| &between.moves.elsewhere);
        elsewhere.for_each(|elsewhere| seen.unite(elsewhere));
        seen
    }

    pub(crate) fn take_part(&mut self, command: &Command, out: &mut Output) -> Applied {
        let Some(part) = MovePart::of(command) else { return Applied::Refused };
        let slot = usize::from(part.instrument.0).wrapping_sub(1);
        let moves = self.between.as_mut().map(|between| &mut between.moves);
        let Some(coming) = moves.and_then(|moves| moves.coming(slot)) else {
            return Applied::Refused;
        };
        let length = coming.bytes.len();
        if coming.number != part.number || coming.refused || part.offset as usize != length {
            return Applied::Refused;
        }
        coming.bytes.extend_from_slice(part.bytes());
        let Some((header, body)) = coming.bytes.split_first_chunk::<HEADER>() else {
            return Applied::Done;
        };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| header[at + n]));
        let (whole, digest) = (word(0), word(8));
        let more = body.len() as u64 > whole || whole > BYTES_MAX as u64;
        if more || (body.len() as u64 == whole && digest_of(body) != digest) {
            coming.bytes = Vec::new();
            coming.refused = true;
        } else if body.len() as u64 == whole {
            let bytes = std::mem::take(&mut coming.bytes);
            let taken = self.arrive(slot, bytes.get(HEADER..).unwrap_or(&[]), out);
            if taken.is_err()
                && let Some(between) = &mut self.between
                && let Some(coming) = between.moves.coming(slot)
            {
                coming.refused = true;
            }
        }
        Applied::Done
    }

    /// Takes an instrument up.
    fn arrive(&mut self, slot: usize, body: &[u8], out: &mut Output) -> Result<(), SnapshotError> {
        let mut from = Reader::new(body);
        let (goes_on, directive, mut sent) = (from.bool()?, from.u32()?, Vec::new());
        for _ in 0..from.count(self.config.accounts_max * CARRIED.len())? {
            let (named, goes) = (from.u32()?, from.u64()?);
            let account = AccountId((named >> 8) as u16);
            let kind = LimitKind::from_code(named as u8).filter(|kind| CARRIED.contains(kind));
            let kind = kind.filter(|_| named >> 24 == 0 && self.accounts.exists(account));
            sent.push((account, kind.ok_or(from.damaged())?, goes));
        }
        let of_instrument = from.rest();
        // Looked at by another engine first: bytes that do not fit change nothing.
        let mut probe = Engine::new(self.config.clone());
        probe.read_instrument(slot, of_instrument)?;
        let keys = probe.books.all_orders(slot as u16).map(book::Order::key);
        let twice: Vec<(u16, u64)> =
            keys.filter_map(|key| Some((self.books.book_of(key)?, key))).collect();
        let mut next = self.clone();
        let mut told = Output::default();
        for (of, key) in twice {
            let wanted = |order: &book::Order| order.key() == key;
            next.cancel_where(usize::from(of), CancelReason::MassCancel, wanted, &mut told);
        }
        let (left_at, seen) = next.read_instrument(slot, of_instrument)?;
        for (account, kind, goes) in sent {
            next.risk.take_part(account, kind, goes);
        }
        assert!(next.markets[slot].held && next.applied == self.applied && next.now >= self.now);
        *self = next;
        out.executions.append(&mut told.executions);
        out.market.append(&mut told.market);
        self.tell_moved(slot, true, out);
        if self.day == Day::Open {
            self.announce(slot, out);
            if self.books.phase(slot as u16) == Phase::Closed {
                self.change_phase(slot, Phase::Continuous, out);
            }
        }
        self.cancel_killed(slot, out);
        for (at, command) in self.take_cancels(slot) {
            // Whether it had come to the other shard before the instrument left.
            let done = match command {
                Command { user_ref: UserRefNum(1..), .. } => {
                    seen.contains(command.account, command.user_ref)
                }
                Command { session_seq: number @ 1.., .. } => number <= directive,
                _ => at.after(CANCEL_MARGIN_NS) <= left_at,
            };
            match command.kind {
                _ if done => {}
                CommandKind::Kill => {
                    let of = command.account;
                    let wanted = |order: &book::Order| of.0 == 0 || account_of(order.key()) == of;
                    self.cancel_where(slot, CancelReason::Killed, wanted, out);
                }
                _ => {
                    let _ = self.cancel_all(&command, &[slot], out);
                }
            }
        }
        self.take_seen(seen, goes_on);
        Ok(())
    }

    /// The instrument is here: nothing of it is to come any more. Commands that were carried out meanwhile.
    fn take_cancels(&mut self, slot: usize) -> Vec<(Nanos, Command)> {
        let Some(between) = &mut self.between else { return Vec::new() };
        let cancels = between.moves.cancels.iter().copied().collect();
        between.moves.coming.retain(|coming| coming.slot != slot);
        self.forget_cancels();
        cancels
    }

    /// Keeps what cancels orders of all instruments only while one is to come.
    fn forget_cancels(&mut self) {
        let waits = self.waits_for_instrument();
        if let Some(between) = self.between.as_mut().filter(|_| !waits) {
            between.moves.cancels.clear();
        }
    }

    fn waits_for_instrument(&self) -> bool {
        let planned = self.between.iter().flat_map(|between| &between.moves.planned);
        planned.zip(&self.markets).any(|(planned, market)| {
            planned.is_some_and(|planned| planned.to == self.config.shard.0 && !market.held)
        })
    }

    /// The numbers of requests that came along.
    fn take_seen(&mut self, seen: Accounts, goes_on: bool) {
        // Numbers of a day that is over say nothing about those of the next.
        let today = goes_on || self.day != Day::Open;
        let Some(between) = &mut self.between else { return };
        let all = match today {
            true => &mut between.moves.elsewhere,
            false => &mut between.moves.yesterday,
        };
        match all {
            _ if between.moves.fault == Some(MoveFault::ForgetsSeen) => {}
            Some(all) => all.unite(&seen),
            None => *all = Some(seen),
        }
    }

    fn cancel_killed(&mut self, slot: usize, out: &mut Output) {
        let all = self.risk.all_killed;
        let killed: Vec<bool> =
            self.risk.accounts().map(|account| all || self.risk.account(account).killed).collect();
        if killed.contains(&true) {
            let of = |key: u64| usize::from(account_of(key).0).wrapping_sub(1);
            let wanted =
                |order: &book::Order| killed.get(of(order.key())).copied().unwrap_or(false);
            self.cancel_where(slot, CancelReason::Killed, wanted, out);
        }
    }

    /// Something cancels orders of all instruments, and some of them may be on their way to this shard.
    pub(crate) fn cancel_of_coming(&mut self, command: &Command) {
        if command.instrument.0 != 0 || !self.waits_for_instrument() {
            return;
        }
        if let Some(between) = &mut self.between {
            if between.moves.cancels.len() == CANCELS_MAX {
                between.moves.cancels.pop_front();
            }
            between.moves.cancels.push_back((self.now, *command));
        }
    }

    /// The first shard says that an instrument has arrived.
    pub(crate) fn place(&mut self, command: &Command, out: &mut Output) -> Applied {
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let Some(between) = &mut self.between else { return Applied::Refused };
        let Some(planned) = between.moves.planned.get_mut(slot) else { return Applied::Refused };
        let (number, to) = (command.price.0, command.qty.0);
        let meant = |of: &Planned| i64::from(of.number) == number && u64::from(of.to) == to;
        if !planned.as_ref().is_some_and(meant) || command.session_seq == 0 {
            return Applied::Refused;
        }
        *planned = None;
        between.moves.placed[slot] = to as u16 + 1;
        between.moves.leaving.retain(|leaving| leaving.slot != slot);
        between.moves.coming.retain(|coming| coming.slot != slot);
        self.forget_cancels();
        let told = Command {
            instrument: command.instrument,
            user_ref: UserRefNum(to as u32),
            qty: Qty(0),
            ..Command::new(CommandKind::MergeStream)
        };
        let homes = self.risk.accounts().filter(|of| self.config.home_of(*of) == self.config.shard);
        for account in homes {
            let told = Command { account, ..told };
            let kind = ExecutionKind::StreamReference;
            let mut report = refusal(kind, &told, RejectReason::None, self.now);
            report.session_seq = command.session_seq;
            out.executions.push(report);
        }
        Applied::Done
    }
}
