//! Which shard a request goes to, in a venue of several: that of its instrument, or of the open order
//! that it names.
//!
//! Where an account's requests went follows from its streams in all shards, which are read from
//! their beginning when a session of it comes, and from what it sends meanwhile. What is answered
//! stays known for a while, so that a request that is sent again finds the shard that had it, which
//! does not answer twice. A request for an order that is not known waits while several shards' streams
//! have not been read; it goes to the only one whose stream has not, since the order can only be there,
//! or, with all read, to the account's home, which refuses it. Nothing here in a venue of one shard.
//!
//! Memory: at most [`KNOWN_MAX`] requests of an account are known; beyond that the older half of those
//! that are no open orders is forgotten, and only then the lowest of these.

use types::{AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId};

/// Requests of an account whose shard is known.
const KNOWN_MAX: usize = 1 << 17;

/// A request that asked for an order.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u32,
    shard: u16,
    /// It may be open.
    open: bool,
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// To one shard.
    To(usize),
    /// To all shards.
    All,
    /// It names an order that may be in any of several shards whose streams are not read yet.
    Unknown,
}

/// Requests of one account.
#[derive(Clone, Debug, Default)]
struct AccountOrders {
    /// Ascending by number.
    known: Vec<Known>,
    /// Bit by shard: its stream has not been read as far as it was when the session came.
    unread: u32,
}

/// Which shard each request of an account belongs to, as far as this gateway knows.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    shards: u16,
    /// By instrument number less one.
    shard_of: Vec<u16>,
    /// By account number.
    accounts: Vec<AccountOrders>,
    /// A stream was read or an order heard of since [`Routes::take_news`].
    news: bool,
}

impl Routes {
    /// Routes to so many shards; those left out of `shard_of` are in the first.
    pub(crate) fn new(shards: usize, shard_of: Vec<u16>, accounts_max: usize) -> Routes {
        let shards = shards.clamp(1, types::limits::SHARDS_MAX) as u16;
        let accounts = if shards > 1 { accounts_max + 1 } else { 0 };
        let accounts = vec![AccountOrders::default(); accounts];
        Routes { shards, shard_of, accounts, news: false }
    }

    /// The shard that orders an account's streams.
    pub(crate) fn home(&self, account: AccountId) -> usize {
        usize::from(account.0.saturating_sub(1) % self.shards)
    }

    /// The shard of an instrument; `None` for one that there is not.
    fn of_instrument(&self, instrument: InstrumentId) -> Option<usize> {
        let place = usize::from(instrument.0).checked_sub(1)?;
        let shard = self.shard_of.get(place)?;
        Some(usize::from(*shard)).filter(|shard| *shard < usize::from(self.shards))
    }

    /// Where a request goes. What it begins is known from now on, unless it has to wait.
    #[inline]
    pub(crate) fn route(&mut self, command: &Command) -> Route {
        if self.shards == 1 { Route::To(0) } else { self.route_among(command) }
    }

    fn route_among(&mut self, command: &Command) -> Route {
        let home = self.home(command.account);
        let instrument = self.of_instrument(command.instrument);
        let Some(orders) = self.accounts.get_mut(usize::from(command.account.0)) else {
            return Route::To(home);
        };
        match command.kind {
            CommandKind::NewOrder => {
                let shard = instrument.unwrap_or(home);
                orders.open(command.user_ref.0, shard);
                Route::To(shard)
            }
            CommandKind::Cancel => orders.route(command.user_ref.0, home),
            CommandKind::Replace => {
                let route = match orders.known(command.user_ref.0) {
                    Some(shard) => Route::To(shard),
                    None => orders.route(command.orig_user_ref.0, home),
                };
                if let Route::To(shard) = route {
                    orders.open(command.user_ref.0, shard);
                }
                route
            }
            CommandKind::MassCancel if command.instrument == InstrumentId(0) => Route::All,
            CommandKind::MassCancel => Route::To(instrument.unwrap_or(home)),
            _ => Route::To(home),
        }
    }

    /// Whether requests that had to wait may have somewhere to go since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// A session of the account came: nothing is read of its streams.
    pub(crate) fn begin(&mut self, account: AccountId) {
        let all = (1u32 << self.shards) - 1;
        if let Some(orders) = self.accounts.get_mut(usize::from(account.0)) {
            orders.known.clear();
            orders.unread = all;
        }
    }

    /// The account's stream of a shard is read as far as it was when the session came.
    pub(crate) fn note_read(&mut self, account: AccountId, shard: usize) {
        if let Some(orders) = self.accounts.get_mut(usize::from(account.0)) {
            let unread = orders.unread & !(1u32 << shard.min(31));
            self.news |= unread != orders.unread;
            orders.unread = unread;
        }
    }

    /// A record of the account's stream of a shard.
    pub(crate) fn learn(&mut self, account: AccountId, shard: usize, report: &ExecutionReport) {
        // A copy is of another account's order.
        if report.account != account {
            return;
        }
        let Some(orders) = self.accounts.get_mut(usize::from(account.0)) else { return };
        self.news = true;
        let number = report.user_ref.0;
        match report.kind {
            ExecutionKind::Accepted => orders.open(number, shard),
            ExecutionKind::Replaced => {
                orders.close(report.orig_user_ref.0, shard);
                orders.open(number, shard);
            }
            ExecutionKind::Rejected => orders.close(number, shard),
            ExecutionKind::Executed | ExecutionKind::Canceled if report.leaves.0 == 0 => {
                orders.close(number, shard);
            }
            _ => {}
        }
    }
}

impl AccountOrders {
    fn find(&self, number: u32) -> Result<usize, usize> {
        // Numbers mostly rise.
        match self.known.last() {
            Some(last) if last.number < number => Err(self.known.len()),
            _ => self.known.binary_search_by_key(&number, |known| known.number),
        }
    }

    fn open(&mut self, number: u32, shard: usize) {
        self.note(Known { number, shard: shard as u16, open: true });
    }

    /// It is answered and no open order, or no longer.
    fn close(&mut self, number: u32, shard: usize) {
        self.note(Known { number, shard: shard as u16, open: false });
    }

    fn note(&mut self, known: Known) {
        match self.find(known.number) {
            Ok(at) => self.known[at] = known,
            Err(at) => {
                self.known.insert(at, known);
                if self.known.len() > KNOWN_MAX {
                    self.forget();
                }
            }
        }
    }

    #[cold]
    fn forget(&mut self) {
        let closed = self.known.iter().filter(|known| !known.open).count();
        let mut gone = closed.div_ceil(2);
        self.known.retain(|known| {
            let goes = !known.open && gone > 0;
            gone -= usize::from(goes);
            !goes
        });
        if closed == 0 {
            self.known.remove(0);
        }
    }

    fn known(&self, number: u32) -> Option<usize> {
        self.find(number).ok().map(|at| usize::from(self.known[at].shard))
    }

    fn route(&self, number: u32, home: usize) -> Route {
        match (self.known(number), self.unread.count_ones()) {
            (Some(shard), _) => Route::To(shard),
            (None, 0) => Route::To(home),
            (None, 1) => Route::To(self.unread.trailing_zeros() as usize),
            (None, _) => Route::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use types::UserRefNum;

    use super::*;

    fn command(kind: CommandKind, number: u32, instrument: u16) -> Command {
        Command {
            account: AccountId(2),
            instrument: InstrumentId(instrument),
            user_ref: UserRefNum(number),
            ..Command::new(kind)
        }
    }

    #[test]
    fn orders_go_by_their_instrument_and_cancels_where_the_order_is() {
        let mut routes = Routes::new(3, vec![0, 1, 2], 4);
        let account = AccountId(2);
        routes.begin(account);
        assert_eq!(routes.route(&command(CommandKind::NewOrder, 5, 3)), Route::To(2));
        assert_eq!(routes.route(&command(CommandKind::Cancel, 5, 0)), Route::To(2));
        let replace =
            Command { orig_user_ref: UserRefNum(5), ..command(CommandKind::Replace, 6, 0) };
        assert_eq!(routes.route(&replace), Route::To(2));
        assert_eq!(routes.route(&command(CommandKind::Cancel, 6, 0)), Route::To(2));
        assert_eq!(routes.route(&command(CommandKind::MassCancel, 7, 0)), Route::All);
        assert_eq!(routes.route(&command(CommandKind::MassCancel, 7, 1)), Route::To(0));
        assert_eq!(
            routes.route(&command(CommandKind::SessionSlot, 0, 0)),
            Route::To(1),
            "its home"
        );
        assert_eq!(
            routes.route(&command(CommandKind::NewOrder, 8, 9)),
            Route::To(1),
            "no instrument"
        );
        // Unknown ones wait as long as the order may be in several, then go where it may be, then home.
        let _ = routes.take_news();
        assert_eq!(routes.route(&command(CommandKind::Cancel, 99, 0)), Route::Unknown);
        let replace =
            Command { orig_user_ref: UserRefNum(99), ..command(CommandKind::Replace, 100, 0) };
        assert_eq!(routes.route(&replace), Route::Unknown);
        assert_eq!(routes.route(&command(CommandKind::Cancel, 100, 0)), Route::Unknown);
        assert!(!routes.take_news());
        routes.note_read(account, 0);
        assert!(routes.take_news());
        assert_eq!(routes.route(&command(CommandKind::Cancel, 99, 0)), Route::Unknown);
        routes.note_read(account, 1);
        assert_eq!(routes.route(&command(CommandKind::Cancel, 99, 0)), Route::To(2));
        routes.note_read(account, 2);
        assert_eq!(routes.route(&command(CommandKind::Cancel, 99, 0)), Route::To(1));
    }

    #[test]
    fn what_is_sent_again_goes_where_it_was_answered() {
        let mut routes = Routes::new(2, vec![0, 1], 4);
        let account = AccountId(2);
        routes.begin(account);
        (0..2).for_each(|shard| routes.note_read(account, shard));
        routes.route(&command(CommandKind::NewOrder, 1, 1));
        let replace =
            Command { orig_user_ref: UserRefNum(1), ..command(CommandKind::Replace, 2, 0) };
        assert_eq!(routes.route(&replace), Route::To(0));
        routes.accounts[2].close(1, 0);
        routes.accounts[2].close(2, 0);
        assert_eq!(routes.route(&replace), Route::To(0), "not to its home, which knows of neither");
        assert_eq!(routes.route(&command(CommandKind::Cancel, 1, 0)), Route::To(0));
    }

    #[test]
    fn what_is_kept_of_an_account_is_bounded() {
        let mut routes = Routes::new(2, vec![0, 1], 2);
        for number in 1..=KNOWN_MAX as u32 + 50 {
            routes.route(&command(CommandKind::NewOrder, number, 1));
        }
        let orders = &mut routes.accounts[2];
        assert_eq!((orders.known.len(), orders.known[0].number), (KNOWN_MAX, 51), "all open");
        (51..=150).for_each(|number| orders.close(number, 0));
        orders.open(KNOWN_MAX as u32 + 51, 1);
        assert_eq!((orders.known.len(), orders.known[0].number), (KNOWN_MAX - 49, 101));
    }
}
