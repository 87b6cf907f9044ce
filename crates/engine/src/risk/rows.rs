//! Positions: one row per account and instrument, made at first use in pages of a few instruments.

use types::limits::{ACCOUNTS_MAX, INSTRUMENTS_MAX};
use types::{AccountId, Price, Side};

use crate::codec::{Reader, SnapshotError, Writer};

/// Instruments of one page.
const PAGE: usize = 8;
/// Largest position a snapshot may hold: far beyond any, and far from overflow.
const POSITION_MAX: u64 = 1 << 60;

const _: () = assert!(size_of::<Row>() == 32 && PAGE.is_power_of_two());
const _: () = assert!(POSITION_MAX <= i64::MAX as u64 / 2, "a trade more does not overflow");
const _: () = assert!(ACCOUNTS_MAX * INSTRUMENTS_MAX.div_ceil(PAGE) < u32::MAX as usize);

/// What an account has in one instrument, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Row {
    /// Lots bought less lots sold.
    pub(crate) position: i64,
    /// Open lots to buy and to sell.
    pub(crate) open: [u64; 2],
    /// Price of the account's last trade here.
    pub(crate) mark: Price,
}

impl Row {
    /// Lots are not open any more.
    #[inline(always)]
    pub(crate) fn release(&mut self, side: Side, lots: u32) {
        let open = &mut self.open[side as usize];
        *open = open.checked_sub(lots.into()).expect("no more lots are released than reserved");
    }

    /// The position in the direction of `side` once all open orders of that side have traded.
    #[inline(always)]
    pub(crate) fn worst(&self, side: Side) -> i128 {
        i128::from(self.open[side as usize]) + turned(side, self.position.into())
    }

    /// Lots held either way at the price of the last trade.
    #[inline(always)]
    pub(crate) fn value(&self) -> i128 {
        i128::from(self.position.unsigned_abs()) * i128::from(self.mark.0)
    }

    /// Changes the position and says by how much its value grew.
    #[inline(always)]
    pub(crate) fn trade(&mut self, side: Side, lots: i64, at: Price) -> i128 {
        let before = self.value();
        let lots = turned(side, lots.into());
        self.position = self.position.saturating_add(lots as i64);
        self.mark = at;
        self.value() - before
    }

    pub(crate) fn words(&self) -> [u64; 4] {
        let [buy, sell] = self.open;
        [self.position as u64, buy, sell, self.mark.0 as u64]
    }

    /// Whether anything was traded.
    pub(crate) fn is_held(&self) -> bool {
        self.position != 0 || self.mark.0 != 0
    }

    /// What does not follow from the open orders.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.i64(self.position);
        out.i64(self.mark.0);
    }

    /// Takes up what [`Row::write`] wrote, in an empty row.
    pub(crate) fn read(&mut self, bytes: &mut Reader) -> Result<(), SnapshotError> {
        let (position, mark) = (bytes.i64()?, Price(bytes.i64()?));
        let sound = position.unsigned_abs() <= POSITION_MAX
            && (0..=types::limits::PRICE_MAX).contains(&mark.0)
            && *self == Row::default();
        if !sound {
            return Err(bytes.damaged());
        }
        (self.position, self.mark) = (position, mark);
        Ok(())
    }
}

/// Bought lots as they are, sold ones as less than nothing; without a branch, since nobody foresees sides.
#[inline(always)]
fn turned(side: Side, lots: i128) -> i128 {
    let sign = -(side as i128);
    (lots ^ sign) - sign
}

/// All rows. `pages` names the page of (account, instruments) or 0; page 0 belongs to nobody.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pages: Vec<u32>,
    per_account: usize,
    rows: Vec<[Row; PAGE]>,
}

impl Rows {
    pub(crate) fn new(accounts: usize, instruments: usize) -> Rows {
        let per_account = instruments.div_ceil(PAGE);
        let rows = vec![[Row::default(); PAGE]];
        Rows { pages: vec![0; accounts * per_account], per_account, rows }
    }

    #[inline(always)]
    fn place(&self, account: AccountId, slot: usize) -> usize {
        (usize::from(account.0) - 1) * self.per_account + slot / PAGE
    }

    /// The row of an account that exists, made if need be.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, account: AccountId, slot: usize) -> &mut Row {
        let place = self.place(account, slot);
        let mut page = self.pages[place] as usize;
        if page == 0 {
            page = self.make_page(place);
        }
        &mut self.rows[page][slot % PAGE]
    }

    #[cold]
    fn make_page(&mut self, place: usize) -> usize {
        let page = self.rows.len();
        assert!(self.pages[place] == 0, "a page is made once");
        assert!(page <= self.pages.len(), "one page per place, and that of nobody");
        self.pages[place] = page as u32;
        self.rows.push([Row::default(); PAGE]);
        page
    }

    /// The row of an account that exists; all zero when nothing was traded or ordered.
    #[inline(always)]
    pub(crate) fn row(&self, account: AccountId, slot: usize) -> &Row {
        &self.rows[self.pages[self.place(account, slot)] as usize][slot % PAGE]
    }

    /// The rows of an account that are not all zero, by instrument index.
    pub(crate) fn of(&self, account: AccountId) -> impl Iterator<Item = (usize, Row)> + Clone {
        let first = self.place(account, 0);
        let pages = &self.pages[first..first + self.per_account];
        let used = pages.iter().enumerate().filter(|&(_, &page)| page != 0);
        used.flat_map(|(index, &page)| {
            let rows = self.rows[page as usize].iter().enumerate();
            rows.map(move |(offset, row)| (index * PAGE + offset, *row))
        })
        .filter(|(_, row)| *row != Row::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sold_lot_is_one_less_than_a_bought_one_counts() {
        let mut row = Row { open: [3, 5], ..Row::default() };
        assert_eq!(row.trade(Side::Buy, 2, Price(10)), 20);
        assert_eq!((row.worst(Side::Buy), row.worst(Side::Sell)), (5, 3));
        assert_eq!(
            row.trade(Side::Sell, 7, Price(11)),
            55 - 20,
            "5 lots sold at 11, after 2 bought"
        );
        assert_eq!((row.position, row.worst(Side::Buy), row.worst(Side::Sell)), (-5, -2, 10));
        row.position = i64::MIN;
        assert_eq!(
            row.worst(Side::Sell),
            5 - i128::from(i64::MIN),
            "exact at the end of the range"
        );
    }
}
