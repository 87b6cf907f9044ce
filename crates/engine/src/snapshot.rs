//! The whole engine as bytes, at any position of the log, and back.
//!
//! Layout, little-endian: magic `FBELSNAP`, format, rules version, configuration digest, applied
//! position, then the parts of the state in a fixed order, the books last as a section of their
//! own format, and at the end the digest of all bytes before it. What follows from the books (sums
//! over open orders, their identifiers) is not written but counted again. A restored engine has
//! the same [`Engine::state_digest`] and answers every further input alike.

use book::Books;
use types::{FeedSeq, Nanos};

use crate::apply::{Day, Engine, RULES_VERSION, kept};
use crate::codec::{Reader, SnapshotError, Writer, digest_of};
use crate::config::Config;
use crate::engine_events::open_price;
use crate::output::{Feed, account_of};

const MAGIC: &[u8; 8] = b"FBELSNAP";
const FORMAT: u32 = 6;
/// Where one-time tokens were given to nodes: the part about the nodes has them, too. As long as there are
/// none, versions before and after them read one another's snapshots.
const FORMAT_WITH_TOKENS: u32 = 7;
/// Largest count a snapshot may hold: never reached, and far from overflow.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

const _: () = assert!(COUNT_MAX < u64::MAX / 2, "counts that were read still grow");

/// What the beginning of a snapshot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// Version of the rules it was made under.
    pub rules_version: u32,
    /// Digest of the configuration.
    pub config_digest: u64,
    /// Inputs applied: the engine goes on with the input at the next position of the log.
    pub applied: u64,
}

impl SnapshotHeader {
    /// Reads the beginning of a snapshot.
    ///
    /// # Errors
    /// [`SnapshotError`] for what is no snapshot or has another format.
    pub fn read(bytes: &[u8]) -> Result<SnapshotHeader, SnapshotError> {
        header(&mut Reader::new(bytes)).map(|(header, _)| header)
    }
}

/// The beginning, and whether there is a part about tokens.
fn header(bytes: &mut Reader) -> Result<(SnapshotHeader, bool), SnapshotError> {
    if bytes.raw(MAGIC.len()).map_err(|_| SnapshotError::Magic)? != MAGIC {
        return Err(SnapshotError::Magic);
    }
    let format = bytes.u32()?;
    if format != FORMAT && format != FORMAT_WITH_TOKENS {
        return Err(SnapshotError::Format(format));
    }
    let (rules_version, config_digest, applied) = (bytes.u32()?, bytes.u64()?, bytes.u64()?);
    let header = SnapshotHeader { rules_version, config_digest, applied };
    Ok((header, format == FORMAT_WITH_TOKENS))
}

impl Engine {
    /// Appends the whole state to `out`.
    pub fn write_snapshot(&self, out: &mut Vec<u8>) {
        let from = out.len();
        let mut to = Writer { bytes: out };
        to.raw(MAGIC);
        to.u32(if self.nodes.has_tokens() { FORMAT_WITH_TOKENS } else { FORMAT });
        to.u32(RULES_VERSION);
        to.u64(self.config.digest());
        to.u64(self.applied);
        to.u8(self.day as u8);
        to.u8(u8::from(self.market_hours));
        to.u8(u8::from(self.carried_over));
        to.u64(self.now.0);
        to.u64(self.feed.next.0);
        self.counters.write(&mut to);
        self.gateways.write(&mut to);
        self.nodes.write(&mut to);
        self.accounts.write(&mut to);
        self.risk.write(&mut to);
        self.between.iter().for_each(|between| between.write(&mut to));
        self.trades.write(&mut to);
        self.markets.iter().for_each(|market| market.write(&mut to));
        to.section(|bytes| self.books.write_snapshot(bytes));
        let digest = digest_of(&out[from..]);
        let read = SnapshotHeader::read(&out[from..]);
        assert_eq!(read.map(|header| header.applied), Ok(self.applied), "it is read as written");
        Writer { bytes: out }.u64(digest);
    }

    /// The engine that a snapshot was made of. It is as new before its books: a snapshot that is
    /// refused leaves nothing behind.
    ///
    /// # Errors
    /// [`SnapshotError`]: other rules, another configuration, or damage, with its place.
    ///
    /// # Panics
    /// As [`Engine::new`] when the configuration makes no engine.
    pub fn read_snapshot(config: Config, bytes: &[u8]) -> Result<Engine, SnapshotError> {
        config.check().expect("a checked configuration");
        let (body, digest) = bytes.split_last_chunk::<8>().ok_or(SnapshotError::Magic)?;
        let mut from = Reader::new(body);
        let (header, with_tokens) = header(&mut from)?;
        if header.rules_version != RULES_VERSION {
            return Err(SnapshotError::Rules(header.rules_version));
        }
        if header.config_digest != config.digest() {
            return Err(SnapshotError::Config);
        }
        if digest_of(body) != u64::from_le_bytes(*digest) {
            return Err(SnapshotError::Digest);
        }
        Engine::read_state(config, (header.applied, with_tokens), &mut from)
    }

    fn read_state(
        config: Config,
        (applied, with_tokens): (u64, bool),
        from: &mut Reader,
    ) -> Result<Engine, SnapshotError> {
        let (slots, accounts) = (config.instruments.len(), config.accounts_max);
        let day = match from.u8()? {
            0 => Day::New,
            1 => Day::Open,
            2 => Day::Closed,
            _ => return Err(from.damaged()),
        };
        let (market_hours, carried_over) = (from.bool()?, from.bool()?);
        let silent = day == Day::Closed;
        let (now, feed) = (Nanos(from.u64()?), Feed { next: FeedSeq(from.u64()?), silent });
        if feed.next.0.max(applied) > COUNT_MAX {
            return Err(from.damaged());
        }
        // The books come last in the bytes and first in the engine.
        let books = Books::new(&config.books(), config.book);
        let mut engine = Engine::with_books(config, books);
        engine.counters.read(from)?;
        engine.gateways.read(from)?;
        engine.nodes.read(from, with_tokens)?;
        engine.accounts.read(from)?;
        engine.risk.read(from, slots)?;
        if let Some(between) = &mut engine.between {
            between.read(from)?;
        }
        engine.trades.read(from, slots, accounts)?;
        for market in &mut engine.markets {
            market.read(from)?;
        }
        let section = from.section()?;
        from.end()?;
        let books = Books::read_snapshot(&engine.book_configs(), engine.config.book, section);
        engine.books = kept(&engine.config, books.map_err(SnapshotError::Book)?);
        (engine.day, engine.market_hours, engine.carried_over) = (day, market_hours, carried_over);
        (engine.now, engine.feed, engine.applied) = (now, feed, applied);
        for slot in 0..slots {
            let stray = !engine.markets[slot].held && engine.books.len_of(slot as u16) > 0;
            engine.count_orders(slot).filter(|()| !stray).ok_or(from.damaged())?;
        }
        Ok(engine)
    }

    /// Puts the orders of a book that was read on the sums, and checks that their accounts exist.
    pub(crate) fn count_orders(&mut self, slot: usize) -> Option<()> {
        for order in self.books.all_orders(slot as u16) {
            let account = account_of(order.key());
            if order.key() >> 48 != 0 || !self.accounts.exists(account) {
                return None;
            }
            self.risk.opened(account, slot, order.side(), order.open(), open_price(order));
        }
        Some(())
    }
}
