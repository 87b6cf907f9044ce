//! A recording out of Databento's DBN, schema `mbo`: CME and other venues, order by order.
//!
//! In that schema a fill tells what traded and a cancel or change behind it tells what that did to
//! the book; here the fill does both, so what follows is counted less the lots filled before. The
//! data's own book follows the format's rule instead: only adds, changes, cancels and clears touch
//! it, and it is to be read where the flag `F_LAST` says that an event of the venue is complete.
//! Records of schema `status` in the file begin and end trading. Prices keep as many decimals as
//! the file uses, at least four.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use dbn::decode::dbn::Decoder;
use dbn::decode::{DbnMetadata, DecodeRecordRef, DynReader};
use dbn::{
    FlagSet, MboMsg, StatusAction, StatusMsg, UNDEF_PRICE, UNDEF_TIMESTAMP, VersionUpgradePolicy,
};
use feed::{DbnCut, DbnFrames};
use types::{InstrumentId, Nanos, Side, Symbol};

use crate::data_book::{Check, Edit, Excluded};
use crate::record::{Printed, Record, Recording, RecordingError, What};

/// Decimals of prices in the format.
const DECIMALS: u32 = 9;

/// Why there is no recording.
#[derive(Debug)]
pub enum DbnError {
    /// The file cannot be read.
    Format(dbn::Error),
    /// It ends in the middle of a record.
    Cut(DbnCut),
    /// It holds no market by order.
    Schema,
    /// The recording has no room for more.
    Full(RecordingError),
}

impl std::fmt::Display for DbnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DbnError::Format(error) => error.fmt(f),
            DbnError::Cut(cut) => cut.fmt(f),
            DbnError::Schema => f.write_str("the file's schema is not mbo"),
            DbnError::Full(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DbnError {}

impl From<RecordingError> for DbnError {
    fn from(error: RecordingError) -> DbnError {
        DbnError::Full(error)
    }
}

/// Action of a [`Mbo`] that was a status: trading begins or ends. No action of the format.
const OPENS: u8 = 1;
const CLOSES: u8 = 2;

/// One message, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Mbo {
    time: u64,
    venue_id: u32,
    order: u64,
    /// Price in units of 10^-9 of the currency.
    price: i64,
    size: u32,
    action: u8,
    side: u8,
    flags: FlagSet,
}

/// Reads a whole file, plain or compressed by Zstandard, of what happened to the instruments
/// `chosen` by symbol or number (none: to all), at most `records_max` events.
///
/// # Errors
/// [`DbnError`].
pub fn read_dbn(
    file: impl Read,
    chosen: &[String],
    records_max: usize,
) -> Result<Recording, DbnError> {
    let unpacked = DynReader::new_inferred(file).map_err(DbnError::Format)?;
    let mut frames = DbnFrames::new(unpacked);
    let read = read_records(&mut frames, chosen, records_max);
    // The decoder takes a file that is cut off for one that ends.
    frames.cut().map_or(read, |cut| Err(DbnError::Cut(cut)))
}

fn read_records(
    from: impl Read,
    chosen: &[String],
    records_max: usize,
) -> Result<Recording, DbnError> {
    let policy = VersionUpgradePolicy::UpgradeToV3;
    let decoder = Decoder::with_upgrade_policy(from, policy);
    let mut decoder: Decoder<_> = decoder.map_err(DbnError::Format)?;
    let metadata = decoder.metadata();
    if metadata.schema.is_some_and(|schema| schema != dbn::Schema::Mbo) {
        return Err(DbnError::Schema);
    }
    let mut names = BTreeMap::new();
    for mapping in &metadata.mappings {
        for interval in &mapping.intervals {
            if let Ok(id) = interval.symbol.parse::<u32>() {
                names.insert(id, mapping.raw_symbol.clone());
            }
        }
    }
    let name = |id: u32| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
    let wanted = |id: u32| {
        chosen.is_empty() || chosen.iter().any(|c| *c == name(id) || *c == id.to_string())
    };
    let mut messages = Vec::new();
    while let Some(record) = decoder.decode_record_ref().map_err(DbnError::Format)? {
        let mbo = record.get::<MboMsg>().map(message);
        let Some(mbo) = mbo.or_else(|| record.get::<StatusMsg>().and_then(status)) else {
            continue;
        };
        if wanted(mbo.venue_id) {
            if messages.len() >= records_max {
                return Err(RecordingError::Records(records_max).into());
            }
            messages.push(mbo);
        }
    }
    let mut reader = Reader::new(decimals(&messages));
    reader.grouped = messages.iter().any(|message| message.flags.is_last());
    for message in &messages {
        reader.take(message, &name, records_max)?;
    }
    Ok(reader.recording)
}

fn message(mbo: &MboMsg) -> Mbo {
    let time = mbo.hd.ts_event;
    Mbo {
        time: if time == UNDEF_TIMESTAMP { mbo.ts_recv } else { time },
        venue_id: mbo.hd.instrument_id,
        order: mbo.order_id,
        price: mbo.price,
        size: mbo.size,
        action: mbo.action as u8,
        side: mbo.side as u8,
        flags: mbo.flags,
    }
}

/// A change of state, if it says whether orders trade.
fn status(status: &StatusMsg) -> Option<Mbo> {
    let by_action = || match StatusAction::try_from(status.action).ok()? {
        StatusAction::Trading => Some(OPENS),
        StatusAction::PreOpen
        | StatusAction::PreCross
        | StatusAction::Cross
        | StatusAction::Rotation
        | StatusAction::Halt
        | StatusAction::Pause
        | StatusAction::Suspend
        | StatusAction::Close
        | StatusAction::PostClose
        | StatusAction::NotAvailableForTrading => Some(CLOSES),
        _ => None,
    };
    let action = match status.is_trading as u8 {
        b'Y' => OPENS,
        b'N' => CLOSES,
        _ => by_action()?,
    };
    let time = status.hd.ts_event;
    Some(Mbo {
        time: if time == UNDEF_TIMESTAMP { status.ts_recv } else { time },
        venue_id: status.hd.instrument_id,
        order: 0,
        price: UNDEF_PRICE,
        size: 0,
        action,
        side: b'N',
        flags: FlagSet::default(),
    })
}

/// Decimals that all prices together need.
fn decimals(messages: &[Mbo]) -> u32 {
    let prices = messages.iter().filter(|m| matches!(m.action, b'A' | b'M'));
    let needed = |price: i64| {
        let fits = |places: &u32| price % 10_i64.pow(DECIMALS - places) == 0;
        (4..DECIMALS).find(fits).unwrap_or(DECIMALS)
    };
    prices.map(|m| m.price).filter(|&p| p != UNDEF_PRICE).map(needed).max().unwrap_or(4)
}

/// An order as the file has it.
#[derive(Clone, Copy, Debug)]
struct Live {
    side: Side,
    price: u32,
    /// Lots by adds, changes and cancels: what the format says of the book.
    rest: u32,
    /// Lots by what was put into the record so far, where fills count at once.
    left: u32,
}

struct Reader {
    recording: Recording,
    instruments: BTreeMap<u32, InstrumentId>,
    live: BTreeMap<(u32, u64), Live>,
    unit: i64,
    /// Some message of the file says that it is the last of its event.
    grouped: bool,
    /// Books of which the data lost messages.
    torn: BTreeSet<u32>,
    /// Orders filled since the last event was complete.
    filled: BTreeSet<(u32, u64)>,
}

impl Reader {
    fn new(decimals: u32) -> Reader {
        Reader {
            recording: Recording::new(decimals),
            instruments: BTreeMap::new(),
            live: BTreeMap::new(),
            unit: 10_i64.pow(DECIMALS - decimals),
            grouped: false,
            torn: BTreeSet::new(),
            filled: BTreeSet::new(),
        }
    }

    fn take(
        &mut self,
        message: &Mbo,
        name: &impl Fn(u32) -> String,
        records_max: usize,
    ) -> Result<(), RecordingError> {
        let instrument = match self.instruments.get(&message.venue_id) {
            Some(known) => *known,
            None => {
                // Spreads have longer names than a feed of ours can tell.
                let symbol = Symbol::new(&name(message.venue_id));
                let number = || Symbol::new(&(message.venue_id % 100_000_000).to_string());
                let symbol = symbol.or_else(number).unwrap_or(Symbol(*b"UNKNOWN "));
                let id = self.recording.instrument(symbol)?;
                self.instruments.insert(message.venue_id, id);
                id
            }
        };
        if let Some(what) = self.what(message) {
            let time = Nanos(message.time);
            self.recording.push(Record { time, instrument, what }, records_max)?;
        }
        if !matches!(message.action, OPENS | CLOSES) {
            if self.grouped && message.flags.is_last() {
                self.settle(message, instrument, records_max)?;
            }
            let (edit, check) = (self.edit(message), self.check(message));
            self.recording.step(instrument, edit, check);
        }
        Ok(())
    }

    /// At the end of an event the record has the orders that were filled as the format says: a
    /// cancel or change may have told of more lots than the fills, or of fewer.
    fn settle(
        &mut self,
        message: &Mbo,
        instrument: InstrumentId,
        records_max: usize,
    ) -> Result<(), RecordingError> {
        let own = (message.venue_id, 0)..=(message.venue_id, u64::MAX);
        let filled: Vec<_> = self.filled.range(own).copied().collect();
        for key in filled {
            self.filled.remove(&key);
            let Some(live) = self.live.get_mut(&key) else { continue };
            let (order, qty, price) = (key.1, live.rest, live.price);
            let what = match live.left.cmp(&qty) {
                Ordering::Equal => continue,
                Ordering::Greater => What::Reduce { order, qty: live.left - qty },
                // Its place is lost where the record had none of it left.
                Ordering::Less => What::Add { order, side: live.side, qty, price },
            };
            live.left = qty;
            let time = Nanos(message.time);
            self.recording.push(Record { time, instrument, what }, records_max)?;
        }
        Ok(())
    }

    /// What a message does to the data's own book.
    fn edit(&self, message: &Mbo) -> Option<Edit> {
        let (order, qty) = (message.order, message.size);
        // The engine's prices have no fractions of a unit; one that has is none of them.
        let whole = message.price % self.unit == 0;
        let price = if whole { message.price / self.unit } else { i64::MAX };
        match (message.action, message.side) {
            (b'A' | b'M', b'B') => Some(Edit::Set { order, side: Side::Buy, price, qty }),
            (b'A' | b'M', b'A') => Some(Edit::Set { order, side: Side::Sell, price, qty }),
            (b'C', _) => Some(Edit::Reduce { order, qty }),
            (b'R', _) => Some(Edit::Clear),
            _ => None,
        }
    }

    /// Whether the data's own book can be read after a message.
    fn check(&mut self, message: &Mbo) -> Check {
        if message.action == b'R' {
            self.torn.remove(&message.venue_id);
        } else if message.flags.is_maybe_bad_book() {
            self.torn.insert(message.venue_id);
        }
        if message.flags.is_snapshot() {
            Check::Excluded(Excluded::Snapshot)
        } else if self.grouped && !message.flags.is_last() {
            Check::Unfinished
        } else if self.torn.contains(&message.venue_id) {
            Check::Excluded(Excluded::Gap)
        } else {
            Check::Book
        }
    }

    fn what(&mut self, message: &Mbo) -> Option<What> {
        let key = (message.venue_id, message.order);
        match message.action {
            b'A' => self.add(key, message),
            b'M' => self.change(key, message),
            b'F' => {
                let live = self.live.get_mut(&key)?;
                self.filled.insert(key);
                let qty = message.size.min(live.left);
                live.left -= qty;
                let execute = What::Execute { order: message.order, qty, printed: Printed::Apart };
                (qty > 0).then_some(execute)
            }
            b'C' => {
                let live = self.live.get_mut(&key)?;
                live.rest = live.rest.saturating_sub(message.size);
                // What a fill took is no longer there.
                let qty = live.left.saturating_sub(live.rest);
                live.left -= qty;
                if live.rest == 0 {
                    self.live.remove(&key);
                }
                (qty > 0).then_some(What::Reduce { order: message.order, qty })
            }
            b'T' => {
                let price = u32::try_from(message.price / self.unit).ok()?;
                let aggressor = match message.side {
                    b'B' => Some(Side::Buy),
                    b'A' => Some(Side::Sell),
                    _ => None,
                };
                Some(What::Print { aggressor, qty: message.size, price })
            }
            OPENS => Some(What::Trading(true)),
            CLOSES => Some(What::Trading(false)),
            b'R' => {
                self.live.retain(|(venue_id, _), _| *venue_id != message.venue_id);
                Some(What::Clear)
            }
            _ => None,
        }
    }

    /// A price that an order of the exchange can have.
    fn price(&mut self, message: &Mbo) -> Option<u32> {
        let price = u32::try_from(message.price / self.unit).ok();
        let price = price.filter(|&price| price > 0 && message.price != UNDEF_PRICE);
        self.recording.left_out += u64::from(price.is_none());
        price
    }

    fn add(&mut self, key: (u32, u64), message: &Mbo) -> Option<What> {
        let side = match message.side {
            b'B' => Side::Buy,
            b'A' => Side::Sell,
            _ => return None,
        };
        let price = self.price(message)?;
        let (rest, left) = (message.size, message.size);
        self.live.insert(key, Live { side, price, rest, left });
        Some(What::Add { order: message.order, side, qty: message.size, price })
    }

    fn change(&mut self, key: (u32, u64), message: &Mbo) -> Option<What> {
        let order = message.order;
        let Some(live) = self.live.get(&key).copied() else { return self.add(key, message) };
        let Some(price) = self.price(message) else {
            self.live.remove(&key);
            return Some(What::Delete { order });
        };
        let size = message.size;
        if size == 0 {
            self.live.remove(&key);
            return Some(What::Delete { order });
        }
        self.live.insert(key, Live { price, rest: size, left: size, ..live });
        // Dearer, cheaper or larger than it was: last at its price.
        if price != live.price || size > live.left {
            // An order that the record filled whole is no longer there.
            return Some(if live.left == 0 {
                What::Add { order, side: live.side, qty: size, price }
            } else {
                What::Replace { old: order, new: order, qty: size, price }
            });
        }
        (size < live.left).then(|| What::Reduce { order, qty: live.left - size })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use dbn::encode::{DbnEncoder, EncodeRecord};
    use dbn::{FlagSet, MappingInterval, Metadata, RecordHeader, SType, Schema, SymbolMapping};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn mbo(
        action: u8,
        side: u8,
        order_id: u64,
        price: i64,
        size: u32,
        time: u64,
    ) -> MboMsg {
        MboMsg {
            hd: RecordHeader::new::<MboMsg>(dbn::rtype::MBO, 1, 5_482, time),
            order_id,
            price,
            size,
            flags: FlagSet::default(),
            channel_id: 0,
            action: action as _,
            side: side as _,
            ts_recv: time + 1,
            ts_in_delta: 0,
            sequence: 0,
        }
    }

    pub(crate) fn file(schema: Schema, messages: &[MboMsg]) -> Vec<u8> {
        let day = |day| time::Date::from_calendar_date(2025, time::Month::December, day).unwrap();
        let (start_date, end_date) = (day(1), day(2));
        let interval = MappingInterval { start_date, end_date, symbol: "5482".to_string() };
        let mapping = SymbolMapping { raw_symbol: "6JZ5".to_string(), intervals: vec![interval] };
        let metadata = Metadata::builder()
            .version(3)
            .dataset("GLBX.MDP3".to_string())
            .schema(Some(schema))
            .start(0)
            .stype_in(Some(SType::RawSymbol))
            .stype_out(SType::InstrumentId)
            .mappings(vec![mapping])
            .build();
        let mut bytes = Vec::new();
        let mut encoder = DbnEncoder::new(&mut bytes, &metadata).unwrap();
        messages.iter().for_each(|message| encoder.encode_record(message).unwrap());
        bytes
    }

    /// A price of the yen, tick 0.0000005.
    fn yen(ticks: i64) -> i64 {
        6_500_000 + ticks * 500
    }

    #[test]
    fn fills_and_what_follows_them_count_once() {
        let bytes = file(
            Schema::Mbo,
            &[
                mbo(b'A', b'B', 1, yen(0), 10, 100),
                mbo(b'A', b'A', 2, yen(1), 5, 101),
                mbo(b'T', b'A', 0, yen(0), 4, 102),
                mbo(b'F', b'B', 1, yen(0), 4, 102),
                mbo(b'C', b'B', 1, yen(0), 4, 102),
                mbo(b'F', b'A', 2, yen(1), 2, 103),
                mbo(b'M', b'A', 2, yen(1), 3, 103),
                mbo(b'M', b'A', 2, yen(1), 1, 104),
                mbo(b'M', b'A', 2, yen(2), 1, 105),
                mbo(b'C', b'B', 1, yen(0), 6, 106),
                mbo(b'A', b'A', 3, UNDEF_PRICE, 6, 107),
                mbo(b'R', b'N', 0, UNDEF_PRICE, 0, 108),
            ],
        );
        for chosen in [vec![], vec!["6JZ5".to_string()], vec!["5482".to_string()]] {
            let recording = read_dbn(bytes.as_slice(), &chosen, 100).unwrap();
            assert_eq!((recording.price_decimals, recording.left_out), (7, 1));
            assert_eq!(recording.instruments()[0].symbol.as_str(), "6JZ5");
            let whats: Vec<(u64, What)> =
                recording.records().iter().map(|record| (record.time.0, record.what)).collect();
            let expected = [
                (100, What::Add { order: 1, side: Side::Buy, qty: 10, price: 65_000 }),
                (101, What::Add { order: 2, side: Side::Sell, qty: 5, price: 65_005 }),
                (102, What::Print { aggressor: Some(Side::Sell), qty: 4, price: 65_000 }),
                (102, What::Execute { order: 1, qty: 4, printed: Printed::Apart }),
                (103, What::Execute { order: 2, qty: 2, printed: Printed::Apart }),
                (104, What::Reduce { order: 2, qty: 2 }),
                (105, What::Replace { old: 2, new: 2, qty: 1, price: 65_010 }),
                (106, What::Reduce { order: 1, qty: 6 }),
                (108, What::Clear),
            ];
            assert_eq!(whats, expected);
        }
        let other = read_dbn(bytes.as_slice(), &["ESZ5".to_string()], 100).unwrap();
        assert!(other.records().is_empty());
        let full = read_dbn(bytes.as_slice(), &[], 3);
        assert!(matches!(full, Err(DbnError::Full(RecordingError::Records(3)))));
    }

    #[test]
    fn other_schemas_and_cut_files_are_refused() {
        let bytes = file(Schema::Trades, &[]);
        assert!(matches!(read_dbn(bytes.as_slice(), &[], 9), Err(DbnError::Schema)));
        assert!(matches!(read_dbn(&bytes[..20], &[], 9), Err(DbnError::Cut(_))));
        assert!(matches!(read_dbn(&b"nothing"[..], &[], 9), Err(DbnError::Format(_))));
    }

    #[test]
    fn a_file_cut_anywhere_is_read_up_to_a_record_or_refused_with_the_byte() {
        let messages: Vec<MboMsg> =
            (1..=5).map(|n| mbo(b'A', b'B', n, yen(0), 10, 100 + n)).collect();
        let borders: Vec<usize> =
            (0..=5).map(|count| file(Schema::Mbo, &messages[..count]).len()).collect();
        let whole = file(Schema::Mbo, &messages);
        for end in 1..=whole.len() {
            let read = read_dbn(&whole[..end], &[], 100);
            match borders.iter().position(|border| *border == end) {
                Some(count) => assert_eq!(read.expect("whole").records().len(), count),
                None => {
                    let cut = match read {
                        Err(DbnError::Cut(cut)) => cut,
                        // Too short to tell what it is.
                        Err(DbnError::Format(_)) if end < 8 => continue,
                        other => panic!("cut at {end}: {other:?}"),
                    };
                    let before = borders.iter().filter(|border| **border < end).count();
                    let records = before.saturating_sub(1) as u64;
                    assert_eq!((cut.at, cut.records), (end as u64, records));
                }
            }
        }
        let mut packed = Vec::new();
        let mut writer = dbn::encode::DynWriter::new(&mut packed, dbn::Compression::Zstd).unwrap();
        std::io::Write::write_all(&mut writer, &whole).unwrap();
        drop(writer);
        assert_eq!(read_dbn(packed.as_slice(), &[], 100).expect("whole").records().len(), 5);
        for end in 1..packed.len() {
            let read = read_dbn(&packed[..end], &[], 100);
            assert!(matches!(read, Err(DbnError::Cut(_) | DbnError::Format(_))), "{end}: {read:?}");
        }
        // What more there is than asked for is another error.
        let full = read_dbn(&whole[..whole.len() - 1], &[], 3);
        assert!(matches!(full, Err(DbnError::Full(_))), "{full:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_bytes_are_read_or_refused(
            at in 0..400_usize,
            bytes in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            let mut file = file(
                Schema::Mbo,
                &[mbo(b'A', b'B', 1, yen(0), 10, 100), mbo(b'C', b'B', 1, yen(0), 4, 102)],
            );
            let length = file.len();
            for (place, byte) in file.iter_mut().skip(at % length).zip(bytes) {
                *place = byte;
            }
            if let Ok(recording) = read_dbn(file.as_slice(), &[], 100) {
                prop_assert!(recording.records().len() <= 4);
            }
        }
    }
}
