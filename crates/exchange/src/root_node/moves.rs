//! Instruments that move between shards, as their roots tell one another: the engine's logs say what moves
//! and when (`engine`, module `moves`), a leader only carries bytes from one log to another.
//!
//! What the new shard tells an account of an order comes after what the old one told it. So nothing is sent
//! before the homes of all accounts have merged the old shard's streams as far as they were when the instrument
//! left: a home that is away delays the move.
//!
//! The shard that an instrument leaves sends its bytes in order, a few datagrams beyond what the other one's log
//! is known to have; what was lost is sent again with the next look. The other one logs what comes next and
//! says how much it has. When it has taken the instrument up it tells the first shard until that one has given
//! the command that says so to all. Whoever leads next goes on where the logs are.
//!
//! Contents of datagrams, little-endian. Bytes of an instrument: instrument u16, two zeros, number of the
//! command u32, place of the first byte u32, the bytes. How many there are: the same with no bytes, and the
//! number of bytes in the place of the place; all of them once it is taken up. Arrived: instrument u16, two
//! zeros, number u32.

use engine::{LeavingInstrument, MoveFault};
use types::{
    AccountId, ClockReading, Command, CommandKind, InstrumentId, InstrumentParam, MovePart, Nanos,
    Outbox, Price, Qty, ShardId,
};

use super::Root;
use super::shards::{HEADER, Kind, TAG};

/// Before the bytes of a datagram.
const BEFORE: usize = 12;
const ARRIVED: usize = 8;
/// Datagrams sent beyond what the other shard has said to have.
const WINDOW: usize = 8;
/// Between two looks.
const AGAIN_NS: u64 = 20 * Nanos::MILLI;
/// Said in the place of a number of bytes: the instrument is taken up.
const ALL: u32 = u32::MAX;

/// How far a transfer to or from another shard is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    instrument: InstrumentId,
    number: u32,
    other: ShardId,
    /// Bytes that the other shard is said to have; of an instrument that comes: has been told to be here.
    had: u32,
    /// Of an instrument that comes: bytes that are logged here, applied or not.
    logged: u32,
}

/// What a leader knows of instruments on their way besides what its log says.
#[derive(Debug)]
pub(super) struct Moves {
    look_at: Nanos,
    going: Vec<Progress>,
    coming: Vec<Progress>,
    /// Of instruments that go, by account number: records of its stream here that its home has to have merged
    /// before anything is sent; 0 where it is at home here.
    streamed: Vec<(InstrumentId, u32, Vec<u64>)>,
}

impl Default for Moves {
    fn default() -> Moves {
        let (going, coming, streamed) = (Vec::new(), Vec::new(), Vec::new());
        Moves { look_at: Nanos(0), going, coming, streamed }
    }
}

impl Moves {
    /// Somebody else leads, or begins to.
    pub(super) fn forget(&mut self) {
        *self = Moves::default();
    }

    /// Something was applied that may let an instrument go on.
    pub(super) fn look(&mut self) {
        self.look_at = Nanos(0);
    }

    /// What comes begins with the first byte.
    pub(super) fn begin_anew(&mut self) {
        self.coming.clear();
        self.look();
    }

    pub(super) fn next_timeout(&self) -> Nanos {
        self.look_at
    }
}

fn of(
    all: &mut Vec<Progress>,
    (instrument, number, other): (InstrumentId, u32, ShardId),
) -> &mut Progress {
    let new = Progress { instrument, number, other, had: 0, logged: 0 };
    let at = all.iter().position(|of| of.instrument == instrument).unwrap_or_else(|| {
        all.push(new);
        all.len() - 1
    });
    if (all[at].number, all[at].other) != (number, other) {
        all[at] = new;
    }
    &mut all[at]
}

fn write(buffer: &mut Vec<u8>, instrument: InstrumentId, number: u32, place: Option<u32>) {
    buffer.extend_from_slice(&instrument.0.to_le_bytes());
    buffer.extend_from_slice(&[0; 2]);
    buffer.extend_from_slice(&number.to_le_bytes());
    if let Some(place) = place {
        buffer.extend_from_slice(&place.to_le_bytes());
    }
}

/// Instrument and number, and what follows.
fn read(bytes: &[u8]) -> Option<(InstrumentId, u32, &[u8])> {
    let (&[low, high, 0, 0, a, b, c, d], rest) = bytes.split_first_chunk::<ARRIVED>()? else {
        return None;
    };
    let instrument = InstrumentId(u16::from_le_bytes([low, high]));
    Some((instrument, u32::from_le_bytes([a, b, c, d]), rest))
}

impl Root {
    /// A deliberate mistake, for tests of the checks that have to find it.
    #[doc(hidden)]
    pub fn move_wrongly(&mut self, fault: MoveFault) {
        self.engine.move_wrongly(fault);
    }

    /// Looks what instruments that come and go need.
    pub(super) fn serve_moves(&mut self, now: ClockReading, out: &mut Outbox) {
        let Some(shards) = self.shards.as_mut().filter(|shards| shards.allotter.is_some()) else {
            return;
        };
        if shards.moves.look_at > now.now {
            return;
        }
        let leaving: Vec<(InstrumentId, u32)> =
            self.engine.leaving().map(|of| (of.instrument, of.number)).collect();
        let arrived: Vec<(InstrumentId, u32)> = self.engine.arrived().collect();
        let idle = leaving.is_empty() && arrived.is_empty();
        shards.moves.look_at = if idle { Nanos::NEVER } else { now.now.after(AGAIN_NS) };
        shards.moves.streamed.retain(|(of, number, _)| leaving.contains(&(*of, *number)));
        let (me, directive) = (shards.me, self.engine.directive());
        for (instrument, number) in leaving {
            if self.streams_are_merged(instrument, number) {
                self.send_parts(instrument, number, out);
            }
        }
        self.tell_coming(out);
        for (instrument, number) in arrived {
            if me == ShardId(0) {
                self.say_placed(now, instrument, number, me, out);
            } else if let Some(shards) = &mut self.shards {
                let fill = |buffer: &mut Vec<u8>| write(buffer, instrument, number, None);
                shards.send((ShardId(0), Kind::Arrived), directive, fill, out);
            }
        }
    }

    /// Whether all homes have merged what was streamed here up to when an instrument that goes was seen first.
    fn streams_are_merged(&mut self, instrument: InstrumentId, number: u32) -> bool {
        let Root { shards: Some(shards), private, .. } = self else { return false };
        let mut known = shards.moves.streamed.iter();
        let known = known.position(|(of, by, _)| (*of, *by) == (instrument, number));
        let at = known.unwrap_or_else(|| {
            let elsewhere = |account: &AccountId| shards.home_of(*account) != shards.me;
            let accounts = (0..shards.confirmed.len() as u16).map(AccountId);
            let length = |account: AccountId| match account.0 > 0 && elsewhere(&account) {
                true => private.next_position(account) - 1,
                false => 0,
            };
            let lengths = accounts.map(length).collect();
            shards.moves.streamed.push((instrument, number, lengths));
            shards.moves.streamed.len() - 1
        });
        let streamed = &shards.moves.streamed[at].2;
        streamed.iter().zip(&shards.confirmed).all(|(streamed, confirmed)| confirmed >= streamed)
    }

    /// Tells other shards how much has come of their instruments since they were told last.
    fn tell_coming(&mut self, out: &mut Outbox) {
        let Some(shards) = &mut self.shards else { return };
        let mut coming = std::mem::take(&mut shards.moves.coming);
        for each in &mut coming {
            let Progress { instrument, number, other, .. } = *each;
            let arrived = self.engine.arrived().any(|of| of == (instrument, number));
            let all = arrived.then_some(ALL);
            let had = all.or(self.engine.coming(instrument, number)).unwrap_or(each.had);
            if had != std::mem::replace(&mut each.had, had) {
                self.say_have((other, instrument, number, had), out);
            }
        }
        if let Some(shards) = &mut self.shards {
            shards.moves.coming = coming;
        }
    }

    /// Sends what the other shard lacks of an instrument, as much as may be on its way.
    fn send_parts(&mut self, instrument: InstrumentId, number: u32, out: &mut Outbox) {
        let directive = self.engine.directive();
        let Root { shards: Some(shards), engine, .. } = self else { return };
        let known = |of: &LeavingInstrument<'_>| of.instrument == instrument && of.number == number;
        let Some(LeavingInstrument { to, bytes, .. }) = engine.leaving().find(known) else {
            return;
        };
        let room = shards.datagram_max.saturating_sub(HEADER + TAG + BEFORE);
        let each = (room / MovePart::BYTES).max(1) * MovePart::BYTES;
        let had = of(&mut shards.moves.going, (instrument, number, to)).had as usize;
        // With nothing left it is asked how much is there.
        let rest = bytes.get(had..).unwrap_or(&[]);
        let parts = rest.chunks(each).chain(rest.is_empty().then_some(&[][..]));
        for (index, part) in parts.take(WINDOW).enumerate() {
            let place = (had + index * each) as u32;
            let fill = |buffer: &mut Vec<u8>| {
                write(buffer, instrument, number, Some(place));
                buffer.extend_from_slice(part);
            };
            shards.counters.moved += part.len() as u64;
            shards.send((to, Kind::Move), directive, fill, out);
        }
    }

    /// Bytes of an instrument that comes.
    pub(super) fn hear_move(
        &mut self,
        now: ClockReading,
        from: ShardId,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let Some((instrument, number, rest)) = read(bytes) else { return false };
        let Some((place, mut rest)) = rest.split_first_chunk::<4>() else { return false };
        let mut place = u32::from_le_bytes(*place);
        if self.engine.arrived().any(|arrived| arrived == (instrument, number)) {
            self.say_have((from, instrument, number, ALL), out);
            return true;
        }
        let had = self.engine.coming(instrument, number);
        let Some(shards) = &mut self.shards else { return false };
        let Some(had) = had else {
            // Not asked for, or not before this shard's day has ended.
            shards.moves.coming.retain(|of| of.instrument != instrument);
            return true;
        };
        let logged = of(&mut shards.moves.coming, (instrument, number, from)).logged.max(had);
        let mut next = logged;
        while let Some(skipped) = next.checked_sub(place).filter(|_| !rest.is_empty()) {
            let Some(wanted) = rest.get(skipped as usize..).filter(|wanted| !wanted.is_empty())
            else {
                break;
            };
            let taken = wanted.len().min(MovePart::BYTES);
            let part = MovePart::new(instrument, number, next, &wanted[..taken]);
            let Some(part) = part.filter(|_| next.checked_add(taken as u32).is_some()) else {
                return false;
            };
            if !self.record(now, part.command()) {
                break;
            }
            rest = &wanted[taken..];
            next += taken as u32;
            place = next;
        }
        if let Some(shards) = &mut self.shards {
            of(&mut shards.moves.coming, (instrument, number, from)).logged = next;
        }
        if next == logged {
            self.say_have((from, instrument, number, had), out);
        }
        true
    }

    fn say_have(
        &mut self,
        (to, instrument, number, bytes): (ShardId, InstrumentId, u32, u32),
        out: &mut Outbox,
    ) {
        let directive = self.engine.directive();
        let Some(shards) = &mut self.shards else { return };
        let fill = |buffer: &mut Vec<u8>| write(buffer, instrument, number, Some(bytes));
        shards.send((to, Kind::Have), directive, fill, out);
    }

    /// The other shard says how much of an instrument it has.
    pub(super) fn hear_have(&mut self, from: ShardId, bytes: &[u8], out: &mut Outbox) -> bool {
        let Some((instrument, number, rest)) = read(bytes) else { return false };
        let Ok(bytes) = rest.try_into().map(u32::from_le_bytes) else { return false };
        let mut leaving = self.engine.leaving();
        let known = leaving.find(|of| of.instrument == instrument && of.number == number);
        let known = known.filter(|of| of.to == from).map(|of| of.bytes.len() as u32);
        drop(leaving);
        let (Some(length), Some(shards)) = (known, &mut self.shards) else { return true };
        let progress = of(&mut shards.moves.going, (instrument, number, from));
        let new = bytes.min(length);
        let more = new > progress.had;
        // It may have less than before: it could not take all of it up, and begins anew.
        progress.had = new;
        if more && new < length {
            self.send_parts(instrument, number, out);
        }
        true
    }

    /// An instrument has arrived in another shard; only the first one is told.
    pub(super) fn hear_arrived(
        &mut self,
        now: ClockReading,
        from: ShardId,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let first = self.shards.as_ref().is_some_and(|shards| shards.me == ShardId(0));
        let Some((instrument, number, [])) = read(bytes).filter(|_| first) else { return false };
        self.say_placed(now, instrument, number, from, out);
        true
    }

    /// Tells all shards where an instrument is, if that is so and nothing else is on its way to them.
    fn say_placed(
        &mut self,
        now: ClockReading,
        instrument: InstrumentId,
        number: u32,
        at: ShardId,
        out: &mut Outbox,
    ) {
        let expected = self.engine.moving(instrument) == Some((at, number));
        let busy = |directing: u32| directing > self.engine.directive();
        let free = self.shards.as_ref().is_some_and(|shards| !busy(shards.directing));
        if !expected || !free {
            return;
        }
        let command = Command {
            instrument,
            param: InstrumentParam::Placed as u8,
            qty: Qty(u64::from(at.0)),
            price: Price(i64::from(number)),
            ..Command::new(CommandKind::SetInstrument)
        };
        // When it is not taken it is said again.
        let _ = self.direct(now, command, out);
    }
}
