//! Instruments that move from one shard to another at a roll of the day, as the logs of all shards say.
//!
//! 1. An operator's command for all shards ([`InstrumentParam::Shard`](types::InstrumentParam)) names an
//!    instrument and a shard. Every shard notes it. One move of an instrument at a time.
//! 2. The shard that has the instrument takes it out at its next end of a day, or at once between two days:
//!    readers of its feed see the displayed orders deleted. What is left of it, and how much of its accounts'
//!    limits they use in it, stays in the state ([`Engine::leaving`]) until 5. From then on requests for it,
//!    and for the orders that went, are dropped without a word: the new shard answers them.
//! 3. The other one takes the bytes into its log part by part ([`types::MovePart`]) after *its* next end of a day;
//!    with the last part it takes the instrument up. What was cancelled meanwhile for all instruments, or by a
//!    kill switch, is cancelled then.
//! 4. That it has arrived ([`Engine::arrived`]) is told to the first shard, which gives a second command for all
//!    ([`InstrumentParam::Placed`](types::InstrumentParam)).
//! 5. With that the old shard forgets the bytes, and each shard tells the accounts that are at home there
//!    ([`types::PlaceRecord`]): gateways send requests to the new shard, and again those that have no answer.
//!
//! So a request has one answer: before 2. from the old shard, which the new one knows by the request numbers
//! that came along, and afterwards from the new one. Numbered requests of FIX sessions, which are known by
//! another number, are refused by the old shard with [`RejectReason::Halted`].
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
use crate::output::{Output, account_of, key_of, refusal};

/// Most bytes of an instrument on its way.
const BYTES_MAX: usize = 1 << 28;
/// Bytes before those of the instrument: their number and digest.
const HEADER: usize = 16;
/// Requests that are dropped, of an instrument; more are refused.
const DROPPED_MAX: usize = 1 << 16;
/// Commands kept that cancel orders on their way to this shard; the oldest goes first.
const CANCELS_MAX: usize = 1 << 10;
/// Limits that instruments take along. Messages of a second are spent where they are.
const CARRIED: [LimitKind; 2] = [LimitKind::OpenOrders, LimitKind::Credit];

const _: () = assert!(BYTES_MAX < u32::MAX as usize, "places of parts have 32 bits");

/// A move that was asked for and is not done.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// Number of the command for all shards.
    number: u32,
    to: u16,
    /// A day has ended in this shard since, or none was on.
    due: bool,
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
    /// What cancels orders of it, and when it came.
    cancels: VecDeque<(Nanos, Command)>,
}

/// An instrument that has gone, until the first end of a day after it has arrived.
#[derive(Clone, Debug)]
struct Gone {
    slot: usize,
    number: u32,
    placed: bool,
    /// Orders that went and requests that were dropped, ascending.
    keys: Vec<u64>,
    dropped: usize,
}

/// What of an instrument is to be told to another shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeavingInstrument<'a> {
    /// Which.
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
    gone: Vec<Gone>,
    /// An instrument came since the last end of a day, and numbers of requests have begun anew: who sends
    /// again what has no answer may mean the day before.
    overnight: bool,
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
}

impl Moves {
    pub(crate) fn new(instruments: usize) -> Moves {
        let (leaving, coming, gone) = (Vec::new(), Vec::new(), Vec::new());
        let planned = vec![None; instruments];
        let placed = vec![0; instruments];
        Moves { planned, placed, leaving, coming, gone, overnight: false, fault: None }
    }

    /// Nothing has moved lately, and nothing is to.
    pub(crate) fn is_empty(&self) -> bool {
        let none = self.planned.iter().all(Option::is_none);
        let waiting = self.leaving.is_empty() && self.coming.is_empty() && self.gone.is_empty();
        let never = self.placed.iter().all(|placed| *placed == 0);
        none && waiting && never && !self.overnight
    }

    fn coming(&mut self, slot: usize) -> Option<&mut Coming> {
        self.coming.iter_mut().find(|coming| coming.slot == slot)
    }

    /// Whether a request is for another shard by now: nothing is done for it, and nobody told.
    #[inline(always)]
    pub(crate) fn drops(&mut self, input: &Input) -> bool {
        !self.gone.is_empty() && self.drops_request(input)
    }

    #[cold]
    fn drops_request(&mut self, input: &Input) -> bool {
        let command = &input.command;
        let numbered = command.session_seq != 0 || input.source.gateway == GatewayId(0);
        if numbered || self.fault == Some(MoveFault::AnswersForGone) {
            return false;
        }
        let key = key_of(command.account, command.user_ref);
        let former = key_of(command.account, command.orig_user_ref);
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let of = |gone: &&mut Gone| match command.kind {
            CommandKind::NewOrder | CommandKind::MassCancel => gone.slot == slot,
            CommandKind::Cancel => gone.keys.binary_search(&key).is_ok(),
            CommandKind::Replace => gone.keys.binary_search(&former).is_ok(),
            _ => false,
        };
        let Some(gone) = self.gone.iter_mut().find(of) else { return false };
        if matches!(command.kind, CommandKind::Cancel | CommandKind::MassCancel) {
            return true;
        }
        let room = gone.dropped < DROPPED_MAX;
        if let (true, Err(at)) = (room, gone.keys.binary_search(&key)) {
            gone.keys.insert(at, key);
            gone.dropped += 1;
        }
        room
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        if self.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        self.write(&mut Writer { bytes: &mut bytes });
        digest.fold(digest_of(&bytes));
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(u32::from(self.overnight));
        self.placed.iter().for_each(|placed| out.u32(u32::from(*placed)));
        let planned = self.planned.iter().enumerate();
        let planned = planned.filter_map(|(slot, planned)| Some((slot, (*planned)?)));
        out.u64(planned.clone().count() as u64);
        for (slot, Planned { number, to, due }) in planned {
            [slot as u32, number, u32::from(to), u32::from(due)]
                .iter()
                .for_each(|word| out.u32(*word));
        }
        out.u64(self.leaving.len() as u64);
        for Leaving { slot, number, to, bytes } in &self.leaving {
            [*slot as u32, *number, u32::from(*to)].iter().for_each(|word| out.u32(*word));
            out.section(|to| to.extend_from_slice(bytes));
        }
        out.u64(self.coming.len() as u64);
        for Coming { slot, number, bytes, refused, cancels } in &self.coming {
            [*slot as u32, *number, u32::from(*refused)].iter().for_each(|word| out.u32(*word));
            out.section(|to| to.extend_from_slice(bytes));
            out.u64(cancels.len() as u64);
            for (at, command) in cancels {
                out.u64(at.0);
                out.raw(command.as_bytes());
            }
        }
        out.u64(self.gone.len() as u64);
        for Gone { slot, number, placed, keys, dropped } in &self.gone {
            [*slot as u32, *number, u32::from(*placed), *dropped as u32]
                .iter()
                .for_each(|word| out.u32(*word));
            out.u64(keys.len() as u64);
            keys.iter().for_each(|key| out.u64(*key));
        }
    }

    /// Takes up what [`Moves::write`] wrote.
    pub(crate) fn read(&mut self, from: &mut Reader) -> Result<(), SnapshotError> {
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
        self.overnight = flag(from)?;
        for placed in &mut self.placed {
            *placed = u16::try_from(from.u32()?).map_err(|_| from.damaged())?;
        }
        for _ in 0..from.count(slots)? {
            let slot = slot(from)?;
            let planned = Planned { number: from.u32()?, to: shard(from)?, due: flag(from)? };
            self.planned[slot] = Some(planned);
        }
        for _ in 0..from.count(slots)? {
            let (slot, number, to) = (slot(from)?, from.u32()?, shard(from)?);
            self.leaving.push(Leaving { slot, number, to, bytes: from.section()?.to_vec() });
        }
        for _ in 0..from.count(slots)? {
            let (slot, number, refused) = (slot(from)?, from.u32()?, flag(from)?);
            let (bytes, mut cancels) = (from.section()?.to_vec(), VecDeque::new());
            for _ in 0..from.count(CANCELS_MAX)? {
                let at = Nanos(from.u64()?);
                let command = Command::try_read_from_bytes(from.raw(size_of::<Command>())?);
                cancels.push_back((at, command.map_err(|_| from.damaged())?));
            }
            self.coming.push(Coming { slot, number, bytes, refused, cancels });
        }
        for _ in 0..from.count(slots)? {
            let (slot, number, placed) = (slot(from)?, from.u32()?, flag(from)?);
            let dropped = from.u32()? as usize;
            let mut keys = Vec::new();
            for _ in 0..from.count(1 << 31)? {
                keys.push(from.u64()?);
            }
            if !keys.is_sorted() {
                return Err(from.damaged());
            }
            self.gone.push(Gone { slot, number, placed, keys, dropped });
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

    /// Whether a request was sent again, perhaps on a later day.
    pub(crate) fn is_of_yesterday(&self, command: &Command) -> bool {
        let overnight = self.between.as_ref().is_some_and(|between| between.moves.overnight);
        overnight && command.param == types::REQUEST_SENT_AGAIN
    }

    /// Why an instrument is not traded here.
    #[cold]
    pub(crate) fn not_here(&self, command: &Command) -> RejectReason {
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let moves = self.between.as_ref().map(|between| &between.moves);
        let moves = moves.is_some_and(|moves| {
            moves.planned.get(slot).is_some_and(Option::is_some)
                || moves.gone.iter().any(|gone| gone.slot == slot)
        });
        if moves { RejectReason::Halted } else { RejectReason::UnknownInstrument }
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
        *planned = Some(Planned { number, to, due: false });
        if closed {
            self.carry_out_move(slot, false, out);
        }
        Applied::Done
    }

    /// Sends off what is to go at the end of a day; `goes_on`: the numbers of requests run on.
    pub(crate) fn roll_moves(&mut self, goes_on: bool, out: &mut Output) {
        let Some(between) = &mut self.between else { return };
        between.moves.overnight = false;
        between.moves.gone.retain(|gone| !gone.placed);
        for coming in &mut between.moves.coming {
            (coming.refused, coming.bytes) = (false, Vec::new());
        }
        for slot in 0..between.moves.planned.len() {
            self.carry_out_move(slot, goes_on, out);
        }
    }

    fn carry_out_move(&mut self, slot: usize, goes_on: bool, out: &mut Output) {
        let (me, held) = (self.config.shard.0, self.markets[slot].held);
        let Some(between) = &mut self.between else { return };
        let Some(planned) = between.moves.planned[slot].as_mut().filter(|of| !of.due) else {
            return;
        };
        planned.due = true;
        let Planned { number, to, .. } = *planned;
        match (to == me, held) {
            (true, false) => {
                let (bytes, cancels) = (Vec::new(), VecDeque::new());
                between.moves.coming.push(Coming { slot, number, bytes, refused: false, cancels });
            }
            (false, true) => self.depart(slot, (number, to), goes_on, out),
            _ => {}
        }
    }

    fn depart(&mut self, slot: usize, (number, to): (u32, u16), goes_on: bool, out: &mut Output) {
        let keys = |engine: &Engine| {
            let mut keys: Vec<u64> =
                engine.books.all_orders(slot as u16).map(book::Order::key).collect();
            keys.sort_unstable();
            keys
        };
        let fault = self.between.as_ref().and_then(|between| between.moves.fault);
        if fault == Some(MoveFault::LeavesOne)
            && let Some(first) = self.books.all_orders(slot as u16).map(book::Order::key).min()
        {
            let mut nobody = Output::default();
            let wanted = |order: &book::Order| order.key() == first;
            self.cancel_where(slot, CancelReason::Requested, wanted, &mut nobody);
            self.feed.next.0 -= nobody.market.len() as u64;
        }
        let keys = keys(self);
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
        between.moves.gone.retain(|gone| gone.slot != slot);
        between.moves.gone.push(Gone { slot, number, placed: false, keys, dropped: 0 });
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
        let (goes_on, mut sent) = (from.bool()?, Vec::new());
        for _ in 0..from.count(self.config.accounts_max * CARRIED.len())? {
            let (named, goes) = (from.u32()?, from.u64()?);
            let account = AccountId((named >> 8) as u16);
            let kind = LimitKind::from_code(named as u8).filter(|kind| CARRIED.contains(kind));
            let kind = kind.filter(|_| named >> 24 == 0 && self.accounts.exists(account));
            sent.push((account, kind.ok_or(from.damaged())?, goes));
        }
        let of_instrument = from.rest();
        // Numbers of a day that is over say nothing about those of the next.
        let unite = goes_on || self.day != Day::Open;
        // Looked at by another engine first: bytes that do not fit change nothing.
        let mut probe = Engine::new(self.config.clone());
        probe.read_instrument(slot, of_instrument, unite)?;
        let keys = probe.books.all_orders(slot as u16).map(book::Order::key);
        let twice: Vec<(u16, u64)> =
            keys.filter_map(|key| Some((self.books.book_of(key)?, key))).collect();
        let mut next = self.clone();
        let mut told = Output::default();
        for (of, key) in twice {
            let wanted = |order: &book::Order| order.key() == key;
            next.cancel_where(usize::from(of), CancelReason::MassCancel, wanted, &mut told);
        }
        let left_at = next.read_instrument(slot, of_instrument, unite)?;
        for (account, kind, goes) in sent {
            next.risk.take_part(account, kind, goes);
        }
        assert!(next.markets[slot].held && next.applied == self.applied && next.now >= self.now);
        *self = next;
        out.executions.append(&mut told.executions);
        out.market.append(&mut told.market);
        self.tell_moved(slot, true, out);
        let cancels = match &mut self.between {
            Some(between) => {
                let coming = between.moves.coming(slot);
                let cancels = coming.map(|coming| std::mem::take(&mut coming.cancels));
                between.moves.coming.retain(|coming| coming.slot != slot);
                between.moves.gone.retain(|gone| gone.slot != slot);
                between.moves.overnight |= !goes_on;
                cancels.unwrap_or_default()
            }
            None => VecDeque::new(),
        };
        if self.day == Day::Open {
            self.announce(slot, out);
            if self.books.phase(slot as u16) == Phase::Closed {
                self.change_phase(slot, Phase::Continuous, out);
            }
        }
        self.cancel_killed(slot, out);
        for (at, command) in cancels.iter().filter(|(at, _)| *at > left_at) {
            match command.kind {
                CommandKind::Kill => {
                    let of = command.account;
                    let wanted = |order: &book::Order| of.0 == 0 || account_of(order.key()) == of;
                    self.cancel_where(slot, CancelReason::Killed, wanted, out);
                }
                _ => {
                    let _ = self.cancel_all(command, &[slot], out);
                }
            }
            assert!(*at <= self.now, "it was carried out before");
        }
        Ok(())
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

    /// Something cancels orders of all instruments, or of one, and some of them are on their way to this
    /// shard.
    pub(crate) fn cancel_of_coming(&mut self, command: &Command) {
        let Some(between) = &mut self.between else { return };
        let named = usize::from(command.instrument.0).checked_sub(1);
        let meant = |coming: &&mut Coming| named.is_none_or(|slot| coming.slot == slot);
        for coming in between.moves.coming.iter_mut().filter(meant) {
            if coming.cancels.len() == CANCELS_MAX {
                coming.cancels.pop_front();
            }
            coming.cancels.push_back((self.now, *command));
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
        for gone in between.moves.gone.iter_mut().filter(|gone| gone.slot == slot) {
            gone.placed = true;
        }
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
