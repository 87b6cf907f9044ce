//! Which shard a request goes to, in a venue of several: that of its instrument, or of the open order
//! that it names. A cancel or replace is given the instrument of its order on its way, as far as that is
//! known.
//!
//! Where an account's requests went follows from its streams in all shards, which are read from
//! their beginning when a session of it comes, and from what it sends meanwhile. What is answered
//! stays known for a while, so that a request that is sent again finds the shard that had it, which
//! does not answer twice. A request for an order that is not known waits while any shard's stream has not been
//! read; with all read it goes to the account's home, which refuses it. Nothing here in a venue of one shard.
//!
//! An instrument may move to another shard. Each account's home says so in its stream ([`PlaceRecord`]), when the
//! new shard has it; from then on what is about it, and about orders for it, goes there. The old shard dropped
//! what came after it had gone, so what an account has asked for and has no answer is kept, and sent again.
//!
//! Memory: at most [`KNOWN_MAX`] requests of an account are known; beyond that the older half of those
//! that are no open orders is forgotten, and only then the lowest of these.

use std::collections::VecDeque;

use types::{
    AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId, Nanos,
    PlaceRecord,
};

/// Requests of an account whose shard is known.
const KNOWN_MAX: usize = 1 << 17;

/// Requests of an account kept until they have an answer; beyond that the oldest is forgotten.
const UNANSWERED_MAX: usize = 1 << 12;

/// A request that asked for an order.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u32,
    /// Its instrument, which says the shard; 0: unknown, then `shard` does.
    instrument: InstrumentId,
    shard: u8,
    /// It may be open.
    open: bool,
}

const _: () = assert!(size_of::<Known>() == 8 && types::limits::SHARDS_MAX <= u8::MAX as usize);

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
    /// Requests that were passed up and have no answer, in order, with the times they came.
    unanswered: VecDeque<(Nanos, Command)>,
    /// Bit by shard: its stream has not been read as far as it was when the session came.
    unread: u32,
}

/// Which shard each request of an account belongs to, as far as this gateway knows.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    shards: u16,
    /// By instrument number less one.
    shard_of: Vec<u16>,
    /// By instrument number less one: number of the command that placed it there; 0: the configuration.
    placed: Vec<u32>,
    /// Instruments that have moved since [`Routes::take_moved`].
    moved: Vec<InstrumentId>,
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
        let placed = vec![0; shard_of.len()];
        Routes { shards, shard_of, placed, moved: Vec::new(), accounts, news: false }
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
    pub(crate) fn route(&mut self, command: &mut Command) -> Route {
        if self.shards == 1 { Route::To(0) } else { self.route_among(command) }
    }

    fn route_among(&mut self, command: &mut Command) -> Route {
        let home = self.home(command.account);
        let instrument = self.of_instrument(command.instrument);
        let Routes { shard_of, accounts, .. } = self;
        let Some(orders) = accounts.get_mut(usize::from(command.account.0)) else {
            return Route::To(home);
        };
        match command.kind {
            CommandKind::NewOrder => {
                let shard = instrument.unwrap_or(home);
                orders.open(command.user_ref.0, command.instrument, shard);
                Route::To(shard)
            }
            CommandKind::Cancel => {
                orders.say_instrument(command, command.user_ref.0);
                orders.route(command.user_ref.0, home, shard_of)
            }
            CommandKind::Replace => {
                let of = orders.say_instrument(command, command.orig_user_ref.0);
                let route = match orders.known(command.user_ref.0, shard_of) {
                    Some(shard) => Route::To(shard),
                    None => orders.route(command.orig_user_ref.0, home, shard_of),
                };
                if let Route::To(shard) = route {
                    orders.open(command.user_ref.0, of, shard);
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
            orders.unanswered.clear();
            orders.unread = all;
        }
    }

    /// The session is over: nobody hears what it has asked for.
    pub(crate) fn end(&mut self, account: AccountId) {
        if let Some(orders) = self.accounts.get_mut(usize::from(account.0)) {
            orders.unanswered.clear();
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
        if let Some(record) = PlaceRecord::told(report) {
            self.place(&record);
            return;
        }
        let Some(orders) = self.accounts.get_mut(usize::from(account.0)) else { return };
        self.news = true;
        let (number, of) = (report.user_ref.0, report.instrument);
        orders.answer(report);
        match report.kind {
            ExecutionKind::Accepted => orders.open(number, of, shard),
            ExecutionKind::Replaced => {
                orders.close(report.orig_user_ref.0, of, shard);
                orders.open(number, of, shard);
            }
            ExecutionKind::Rejected => orders.close(number, of, shard),
            ExecutionKind::Executed | ExecutionKind::Canceled if report.leaves.0 == 0 => {
                orders.close(number, of, shard);
            }
            _ => {}
        }
    }

    /// An instrument is elsewhere, if that is news.
    fn place(&mut self, record: &PlaceRecord) {
        let PlaceRecord { instrument, shard, number, .. } = *record;
        let Some(place) = usize::from(instrument.0).checked_sub(1) else { return };
        let (Some(placed), Some(of)) = (self.placed.get_mut(place), self.shard_of.get_mut(place))
        else {
            return;
        };
        if number <= *placed || shard.0 >= self.shards {
            return;
        }
        *placed = number;
        *of = shard.0;
        self.moved.push(instrument);
    }

    /// A request of a participant is on its way to one shard, which will answer it.
    #[inline]
    pub(crate) fn note_sent(&mut self, came: Nanos, command: &Command) {
        let answered = matches!(
            command.kind,
            CommandKind::NewOrder
                | CommandKind::Replace
                | CommandKind::Cancel
                | CommandKind::MassCancel
        );
        if self.shards == 1 || !answered || command.user_ref.0 == 0 || command.session_seq != 0 {
            return;
        }
        if let Some(orders) = self.accounts.get_mut(usize::from(command.account.0)) {
            if orders.unanswered.len() == UNANSWERED_MAX {
                orders.unanswered.pop_front();
            }
            orders.unanswered.push_back((came, *command));
        }
    }

    /// Whether an instrument has moved and [`Routes::take_moved`] has not been called since.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// What has no answer of all accounts and is about an instrument that has moved: it is to be sent again.
    pub(crate) fn take_moved(&mut self) -> Vec<(Nanos, Command)> {
        let moved = std::mem::take(&mut self.moved);
        let unanswered = self.accounts.iter().flat_map(|orders| &orders.unanswered);
        unanswered.filter(|(_, command)| moved.contains(&command.instrument)).copied().collect()
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

    fn open(&mut self, number: u32, instrument: InstrumentId, shard: usize) {
        self.note(Known { number, instrument, shard: shard as u8, open: true });
    }

    /// It is answered and no open order, or no longer.
    fn close(&mut self, number: u32, instrument: InstrumentId, shard: usize) {
        self.note(Known { number, instrument, shard: shard as u8, open: false });
    }

    /// What a report answers waits for no answer any more.
    fn answer(&mut self, report: &ExecutionReport) {
        if self.unanswered.is_empty() {
            return;
        }
        let number = report.user_ref;
        let gone = report.leaves.0 == 0;
        let is_answered = |(_, asked): &(Nanos, Command)| {
            asked.user_ref == number
                && match (asked.kind, report.kind) {
                    (CommandKind::NewOrder, ExecutionKind::Accepted)
                    | (CommandKind::Replace, ExecutionKind::Replaced)
                    | (CommandKind::NewOrder | CommandKind::Replace, ExecutionKind::Rejected)
                    | (
                        CommandKind::Cancel | CommandKind::MassCancel,
                        ExecutionKind::CancelRejected,
                    )
                    | (CommandKind::MassCancel, ExecutionKind::MassCanceled)
                    | (CommandKind::Cancel, ExecutionKind::Canceled) => true,
                    (CommandKind::Cancel, ExecutionKind::Executed) => gone,
                    _ => false,
                }
        };
        // Answers mostly come in the order of the requests.
        if let Some(at) = self.unanswered.iter().position(is_answered) {
            self.unanswered.remove(at);
        }
    }

    /// Gives a request the instrument of the order that it names, and says that; 0: it is not known.
    fn say_instrument(&self, command: &mut Command, number: u32) -> InstrumentId {
        let of = self.find(number).map_or(InstrumentId(0), |at| self.known[at].instrument);
        if of != InstrumentId(0) {
            command.instrument = of;
        }
        of
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

    /// Where the request is, or was answered: where its instrument is.
    fn known(&self, number: u32, shard_of: &[u16]) -> Option<usize> {
        let known = self.known[self.find(number).ok()?];
        let place = usize::from(known.instrument.0).checked_sub(1);
        let of = place.and_then(|place| shard_of.get(place)).copied();
        Some(of.map_or(usize::from(known.shard), usize::from))
    }

    fn route(&self, number: u32, home: usize, shard_of: &[u16]) -> Route {
        match (self.known(number, shard_of), self.unread) {
            (Some(shard), _) => Route::To(shard),
            (None, 0) => Route::To(home),
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
        assert_eq!(routes.route(&mut command(CommandKind::NewOrder, 5, 3)), Route::To(2));
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 5, 0)), Route::To(2));
        let mut replace =
            Command { orig_user_ref: UserRefNum(5), ..command(CommandKind::Replace, 6, 0) };
        assert_eq!(routes.route(&mut replace), Route::To(2));
        assert_eq!(replace.instrument, InstrumentId(3), "of its order");
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 6, 0)), Route::To(2));
        assert_eq!(routes.route(&mut command(CommandKind::MassCancel, 7, 0)), Route::All);
        assert_eq!(routes.route(&mut command(CommandKind::MassCancel, 7, 1)), Route::To(0));
        assert_eq!(
            routes.route(&mut command(CommandKind::SessionSlot, 0, 0)),
            Route::To(1),
            "its home"
        );
        assert_eq!(
            routes.route(&mut command(CommandKind::NewOrder, 8, 9)),
            Route::To(1),
            "no instrument"
        );
        // Unknown ones wait as long as their order may be somewhere, then go home. The only stream that is not
        // read may tell of an order that is elsewhere by now.
        let _ = routes.take_news();
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 99, 0)), Route::Unknown);
        let mut replace =
            Command { orig_user_ref: UserRefNum(99), ..command(CommandKind::Replace, 100, 0) };
        assert_eq!(routes.route(&mut replace), Route::Unknown);
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 100, 0)), Route::Unknown);
        assert!(!routes.take_news());
        routes.note_read(account, 0);
        assert!(routes.take_news());
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 99, 0)), Route::Unknown);
        routes.note_read(account, 1);
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 99, 0)), Route::Unknown);
        routes.note_read(account, 2);
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 99, 0)), Route::To(1));
    }

    #[test]
    fn what_is_sent_again_goes_where_it_was_answered() {
        let mut routes = Routes::new(2, vec![0, 1], 4);
        let account = AccountId(2);
        routes.begin(account);
        (0..2).for_each(|shard| routes.note_read(account, shard));
        routes.route(&mut command(CommandKind::NewOrder, 1, 1));
        let mut replace =
            Command { orig_user_ref: UserRefNum(1), ..command(CommandKind::Replace, 2, 0) };
        assert_eq!(routes.route(&mut replace), Route::To(0));
        routes.accounts[2].close(1, InstrumentId(1), 0);
        routes.accounts[2].close(2, InstrumentId(1), 0);
        assert_eq!(
            routes.route(&mut replace),
            Route::To(0),
            "not to its home, which knows of neither"
        );
        assert_eq!(routes.route(&mut command(CommandKind::Cancel, 1, 0)), Route::To(0));
    }

    fn report(kind: ExecutionKind, number: u32, instrument: u16) -> ExecutionReport {
        let mut bytes = [0; size_of::<ExecutionReport>()];
        bytes[0] = kind as u8;
        let report = zerocopy::TryFromBytes::try_read_from_bytes(&bytes[..]);
        let report: ExecutionReport = report.expect("a report");
        ExecutionReport {
            account: AccountId(2),
            user_ref: UserRefNum(number),
            instrument: InstrumentId(instrument),
            ..report
        }
    }

    #[test]
    fn what_has_no_answer_goes_again_to_where_its_instrument_has_moved() {
        let mut routes = Routes::new(3, vec![0, 1, 2], 4);
        let account = AccountId(2);
        routes.begin(account);
        (0..3).for_each(|shard| routes.note_read(account, shard));
        let replace =
            Command { orig_user_ref: UserRefNum(1), ..command(CommandKind::Replace, 5, 0) };
        let mut asked = [
            command(CommandKind::NewOrder, 1, 1),
            command(CommandKind::NewOrder, 2, 1),
            command(CommandKind::NewOrder, 3, 3),
            command(CommandKind::Cancel, 1, 0),
            replace,
        ];
        for (came, command) in asked.iter_mut().enumerate() {
            routes.route(command);
            routes.note_sent(Nanos(came as u64), command);
        }
        assert_eq!(asked[4].instrument, InstrumentId(1), "a replace is of its order's");
        routes.learn(account, 0, &report(ExecutionKind::Accepted, 1, 1));
        let place = |number: u32, shard: u32| {
            let mut place = report(ExecutionKind::StreamReference, shard, 1);
            place.session_seq = number;
            place
        };
        assert!(!routes.has_moved());
        routes.learn(account, 1, &place(7, 2));
        assert!(routes.has_moved());
        let again = routes.take_moved();
        let expected = [1, 3, 4].map(|at| (Nanos(at as u64), asked[at]));
        assert_eq!(again, expected, "not what is answered, nor another's");
        assert!(again.into_iter().all(|(_, mut again)| routes.route(&mut again) == Route::To(2)));
        // An earlier word, as a stream that is read again tells it, says nothing.
        routes.learn(account, 1, &place(7, 2));
        routes.learn(account, 1, &place(5, 1));
        assert!(!routes.has_moved());
        assert_eq!(routes.route(&mut command(CommandKind::NewOrder, 9, 1)), Route::To(2));
        // Answers of the new shard end it.
        for (kind, number) in [
            (ExecutionKind::Accepted, 2),
            (ExecutionKind::Replaced, 5),
            (ExecutionKind::CancelRejected, 1),
        ] {
            routes.learn(account, 2, &report(kind, number, 1));
        }
        routes.learn(account, 1, &place(8, 1));
        assert_eq!(routes.take_moved(), []);
        routes.note_sent(Nanos(9), &asked[1]);
        routes.end(account);
        assert!(routes.accounts[2].unanswered.is_empty());
    }

    #[test]
    fn what_is_kept_of_an_account_is_bounded() {
        let mut routes = Routes::new(2, vec![0, 1], 2);
        for number in 1..=KNOWN_MAX as u32 + 50 {
            routes.route(&mut command(CommandKind::NewOrder, number, 1));
        }
        let orders = &mut routes.accounts[2];
        assert_eq!((orders.known.len(), orders.known[0].number), (KNOWN_MAX, 51), "all open");
        (51..=150).for_each(|number| orders.close(number, InstrumentId(1), 0));
        orders.open(KNOWN_MAX as u32 + 51, InstrumentId(2), 1);
        assert_eq!((orders.known.len(), orders.known[0].number), (KNOWN_MAX - 49, 101));
    }
}
