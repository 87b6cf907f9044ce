//! What is checked when a run has ended: participants, log, engine and listeners against each
//! other, whoever of them may be wrong.

use std::collections::BTreeMap;

use engine::Applied;
use exchange::{Edge, Root, StreamRouter};
use feed::{Listener, Subscriber};
use participant::{Client, Driver, RequestKind};
use types::{AccountId, CommandKind, FeedSeq, Input, InstrumentId, Nanos, Source, UserRefNum};

use super::{
    actor::Actor,
    report::{Checker, Failures},
    sabotage::Sabotage,
    scenario::{CHECKPOINT_EVERY, Places},
    watch::Watch,
};
use crate::world::World;

/// The nodes that are looked at, all of them alive.
pub(super) struct Cast<'w> {
    pub(super) root: &'w Root,
    pub(super) edges: Vec<&'w Edge>,
    pub(super) listeners: Vec<&'w Subscriber>,
    pub(super) driver: &'w Driver,
}

impl<'w> Cast<'w> {
    /// Finds them; `None` when one is missing.
    pub(super) fn find(world: &'w World<Actor>, places: Places) -> Option<Cast<'w>> {
        let edge = |index: usize| world.node(index)?.as_edge();
        let listener = |index: usize| world.node(places.listener(index))?.as_listener();
        Some(Cast {
            root: world.node(places.root)?.as_root()?,
            edges: places.edges().map(edge).collect::<Option<_>>()?,
            listeners: (0..places.receivers).map(listener).collect::<Option<_>>()?,
            driver: world.node(places.driver())?.as_driver()?,
        })
    }

    /// All listeners have heard all that the engine has said.
    pub(super) fn all_heard(&self) -> bool {
        let next = self.root.router().next();
        let heard = |listener: &&Subscriber| {
            listener.channels().iter().map(Listener::next_seq).eq(next.iter().copied())
        };
        self.listeners.iter().all(heard)
    }

    /// All participants have been told all that concerns them.
    pub(super) fn all_told(&self) -> bool {
        (0..self.driver.clients().len()).all(|index| self.told(index).0 == self.told(index).1)
    }

    /// Messages that a participant got, and that its private stream has.
    fn told(&self, index: usize) -> (u64, u64) {
        let got = self.driver.clients().get(index).map_or(0, |client| client.counters().messages);
        let next = self.root.private().next_position(AccountId(index as u16 + 1));
        (got, next.saturating_sub(1))
    }
}

/// Every request has its answer.
pub(super) fn answered(cast: &Cast<'_>, failures: &mut Failures) {
    let status = cast.driver.status();
    failures.check(Checker::AnsweredOnce, status.not_asked == 0, || {
        format!("{} messages of the flow could not be asked for", status.not_asked)
    });
    for (index, client) in cast.driver.clients().iter().enumerate() {
        let (counts, session) = (client.ledger().counts(), client.counters());
        let wrong = [
            ("requests without an answer", counts.lost()),
            ("answers too many", counts.duplicates),
            ("answers that contradict the order's life", counts.violations),
            ("malformed messages", session.malformed),
            ("jumps of the stream", session.stream_jumps),
            ("requests not sent", session.not_sent),
        ];
        for (what, count) in wrong {
            failures.check(Checker::AnsweredOnce, count == 0, || {
                format!("participant {index}: {count} {what}")
            });
        }
        let (got, sent) = cast.told(index);
        failures.check(Checker::AnsweredOnce, got == sent, || {
            format!("participant {index}: got {got} of the {sent} messages of its stream")
        });
    }
}

/// Both participants of each trade hear of it, once and alike, and none was printed that the engine
/// did not make. `alone` of the trades were with somebody besides the participants, who is not asked.
pub(super) fn both_sides(
    cast: &Cast<'_>,
    prints: u64,
    (tape, alone): (TapeFigures, u64),
    failures: &mut Failures,
) {
    let trades = trades(cast);
    failures.check(Checker::BothSides, prints <= trades, || {
        format!("{prints} trades printed, {trades} made")
    });
    let executions = cast.driver.status().ledger.executions;
    failures.check(Checker::BothSides, executions + alone == 2 * trades, || {
        format!("{executions} executions for {trades} trades")
    });
    let found = (tape.joined, tape.unmatched, tape.mismatched);
    let due = (trades.saturating_sub(alone), alone, 0);
    failures.check(Checker::BothSides, found == due, || {
        format!("of {trades} trades joined, unmatched, mismatched: {found:?}")
    });
}

/// Trades of all instruments.
pub(super) fn trades(cast: &Cast<'_>) -> u64 {
    let engine = cast.root.engine();
    let of = |id| engine.instrument_counters(id).map_or(0, |counts| counts.trades);
    engine.config().instruments.iter().map(|instrument| of(instrument.id)).sum()
}

/// What the driver's tape says of trades.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TapeFigures {
    pub(super) joined: u64,
    pub(super) unmatched: u64,
    pub(super) mismatched: u64,
}

/// Replays the log: the engine's state and books come out again, every listener's checkpoints are
/// the replayed books, and the log holds what was asked for, once. Gives the checkpoints compared.
pub(super) fn replayed(
    cast: &Cast<'_>,
    sabotage: Sabotage,
    watch: &Watch,
    failures: &mut Failures,
) -> u64 {
    let mut inputs: Vec<Input> = cast.root.log().iter().copied().collect();
    if sabotage == Sabotage::ForgetInput {
        let middle = inputs.len() / 2;
        let found =
            inputs.iter().skip(middle).position(|i| i.command.kind == CommandKind::NewOrder);
        inputs.remove(middle + found.unwrap_or(0));
    }
    let engine = cast.root.engine();
    let places = places(cast, &inputs);
    let positions: Vec<FeedSeq> = places.values().copied().collect();
    let found = engine::replay_digests(engine.config().clone(), &inputs, &positions);
    logged_once(cast, &inputs, failures);
    causal(&inputs, failures);
    let replay = match found {
        Ok(replay) => replay,
        Err(error) => {
            failures.add(Checker::ReplayEqual, || format!("the log does not replay: {error}"));
            return 0;
        }
    };
    let same = replay.state == engine.state_digest() && replay.feed_next == engine.feed_next();
    failures.check(Checker::ReplayEqual, same, || "the replay ends in another state".to_string());
    let mut compared = 0;
    for (stream, due) in cast.root.router().next().iter().enumerate() {
        let (digest, next) = watch.published(stream);
        failures.check(Checker::FeedEqual, FeedSeq(next) == *due, || {
            format!("stream {stream}: published up to {next}, the engine is at {due}")
        });
        for (index, listener) in cast.listeners.iter().enumerate() {
            let Some(listener) = listener.channels().get(stream) else {
                failures.add(Checker::NoLoss, || format!("listener {index}: no stream {stream}"));
                continue;
            };
            let heard = listener.next_seq();
            failures.check(Checker::NoLoss, heard == FeedSeq(next), || {
                format!(
                    "listener {index}, stream {stream}: heard up to {heard}, published was up to \
                     {next}"
                )
            });
            // Who joined late has no digest of what came before.
            let joined = listener.joined().map(|joined| joined.last);
            let digest = joined.map_or(digest, |first| watch.published_since(stream, first.0));
            failures.check(Checker::FeedEqual, listener.stream_digest() == digest, || {
                format!("listener {index}, stream {stream}: heard other bytes than were published")
            });
            let ear = (index, stream, listener);
            compared += checkpoints(ear, &places, &replay, failures);
        }
    }
    compared
}

/// The engine's positions of all places at which a listener noted digests: by stream and number.
fn places(cast: &Cast<'_>, inputs: &[Input]) -> BTreeMap<(usize, FeedSeq), FeedSeq> {
    let mut places = BTreeMap::new();
    for listener in &cast.listeners {
        for (stream, listener) in listener.channels().iter().enumerate() {
            let noted = listener.checkpoints().iter();
            places.extend(noted.map(|at| ((stream, at.seq), FeedSeq(0))));
        }
    }
    let mut router: StreamRouter = cast.root.router().anew();
    let config = cast.root.engine().config().clone();
    engine::replay(config, inputs, |_, _, _, output| {
        for (position, event) in &output.market {
            router.deal(event, |stream, seq| {
                if let Some(place) = places.get_mut(&(stream, seq)) {
                    *place = *position;
                }
            });
        }
    });
    places
}

/// Compares the books that a listener noted with those of the replay; how many were equal.
fn checkpoints(
    (index, stream, listener): (usize, usize, &Listener),
    places: &BTreeMap<(usize, FeedSeq), FeedSeq>,
    replay: &engine::ReplayDigests,
    failures: &mut Failures,
) -> u64 {
    let mut compared = 0;
    for checkpoint in listener.checkpoints().iter() {
        let position = places.get(&(stream, checkpoint.seq)).copied().unwrap_or_default();
        let at = replay.at.binary_search_by_key(&position, |at| at.position).ok();
        let of = |at: usize| {
            let digest = |id: &InstrumentId| replay.at[at].digests.get(usize::from(id.0) - 1);
            listener.instruments().iter().map(digest).eq(checkpoint.books.iter().map(Some))
        };
        let same = position != FeedSeq(0) && at.is_some_and(of);
        compared += u64::from(same);
        failures.check(Checker::BooksEqual, same, || {
            let seq = checkpoint.seq;
            format!("listener {index}, stream {stream}: books differ at feed position {seq}")
        });
    }
    // A stream may carry so little that no checkpoint is due; its end is compared all the same.
    let due = listener.next_seq().0 > CHECKPOINT_EVERY || replay.feed_next == listener.next_seq();
    let noted = !listener.checkpoints().is_empty() || listener.joined().is_some();
    failures.check(Checker::BooksEqual, !due || noted, || {
        format!("listener {index}, stream {stream}: no checkpoint was compared")
    });
    compared
}

/// Snapshots are loaded by whoever can't hear the feed otherwise, and by nobody else.
pub(super) fn snapshots(cast: &Cast<'_>, kept: Option<usize>, failures: &mut Failures) {
    let clients = cast.listeners.iter().flat_map(|listener| listener.channels());
    for (index, listener) in clients.enumerate() {
        let (joined, counters) = (listener.joined().is_some(), listener.catch_up());
        failures.check(Checker::Sound, kept.is_some() || !joined, || {
            format!("client {index} joined by a snapshot where everything was kept")
        });
        failures.check(Checker::Sound, joined == (counters.loaded > 0), || {
            format!("client {index}: {counters:?}")
        });
    }
    let receivers = cast.edges.iter().flat_map(|edge| edge.receivers());
    for (index, receiver) in receivers.enumerate() {
        let skip = receiver.stats().skip;
        failures.check(Checker::NoLoss, kept.is_some() || skip.messages == 0, || {
            format!("receiver {index} jumped where everything was kept: {skip:?}")
        });
    }
}

/// The books of all listeners are now those of the engine.
pub(super) fn books_equal(cast: &Cast<'_>, when: &str, failures: &mut Failures) {
    let engine = cast.root.engine();
    // Between two days orders end without a word: listeners have what was told last.
    let told = engine.is_between_days().then(|| {
        let inputs: Vec<Input> = cast.root.log().iter().copied().collect();
        let replay = engine::replay_digests(engine.config().clone(), &inputs, &[]);
        replay.map(|replay| replay.end).unwrap_or_default()
    });
    let digest = |id: InstrumentId| match &told {
        Some(told) => told.get(usize::from(id.0) - 1).copied().unwrap_or_default(),
        None => engine.displayed_digest(id),
    };
    for (index, listener) in cast.listeners.iter().enumerate() {
        let kept: usize = listener.channels().iter().map(|c| c.instruments().len()).sum();
        let books = engine.config().instruments.len();
        failures.check(Checker::BooksEqual, kept == books, || {
            format!("listener {index}: keeps {kept} books of {books}")
        });
        for listener in listener.channels() {
            let ours = listener.instruments().iter().map(|&id| digest(id));
            let same = listener.digests().eq(ours);
            failures.check(Checker::BooksEqual, same, || {
                format!("listener {index}: books differ {when}")
            });
            let counters = listener.counters();
            let errors = counters.parse_errors + counters.image_errors;
            failures.check(Checker::BooksEqual, errors == 0, || {
                format!("listener {index}: {:?}", listener.first_error())
            });
        }
    }
}

/// New orders and replaces that took effect, by account and number; and cancels.
fn logged_once(cast: &Cast<'_>, inputs: &[Input], failures: &mut Failures) {
    let config = cast.root.engine().config().clone();
    let mut requests: BTreeMap<(AccountId, UserRefNum), (CommandKind, u64)> = BTreeMap::new();
    let mut cancels: BTreeMap<(AccountId, UserRefNum), u64> = BTreeMap::new();
    engine::replay(config, inputs, |_, input, applied, _| {
        let key = (input.command.account, input.command.user_ref);
        match input.command.kind {
            kind @ (CommandKind::NewOrder | CommandKind::Replace) if applied == Applied::Done => {
                requests.entry(key).or_insert((kind, 0)).1 += 1;
            }
            CommandKind::Cancel if applied == Applied::Done => {
                *cancels.entry(key).or_insert(0) += 1;
            }
            _ => {}
        }
    });
    for (index, client) in cast.driver.clients().iter().enumerate() {
        let account = AccountId(index as u16 + 1);
        let all = (account, UserRefNum(0))..=(account, UserRefNum(u32::MAX));
        let asked = asked(client);
        let logged = requests.range(all.clone()).count() + cancels.range(all.clone()).count();
        let counts = client.ledger().counts();
        failures.check(Checker::LoggedOnce, logged as u64 == counts.asked, || {
            format!("participant {index}: {logged} requests in the log, {} asked", counts.asked)
        });
        for (number, kind) in &asked {
            let found = requests.get(&(account, *number));
            failures.check(Checker::LoggedOnce, found == Some(&(*kind, 1)), || {
                format!("participant {index}, request {number}: in the log as {found:?}")
            });
        }
    }
}

/// Within one life of a gateway, what a session asked for is logged in the order of its numbers.
fn causal(inputs: &[Input], failures: &mut Failures) {
    let mut last: BTreeMap<(u16, u16, u32), u64> = BTreeMap::new();
    // What the exchange itself says has no number.
    for input in inputs.iter().filter(|input| input.source.seq != 0) {
        let Source { gateway, incarnation, seq, .. } = input.source;
        let account = input.command.account;
        let before = last.entry((account.0, gateway.0, incarnation.0)).or_insert(0);
        failures.check(Checker::Causality, seq > *before, || {
            format!("account {}: request {seq} of gateway {} after {before}", account.0, gateway.0)
        });
        *before = seq.max(*before);
    }
}

/// New orders and replaces a client asked for.
fn asked(client: &Client) -> Vec<(UserRefNum, CommandKind)> {
    let ledger = client.ledger();
    let numbers = (1..).map(UserRefNum).take_while(|&number| ledger.order(number).is_some());
    let kind = |number| match ledger.kind(number) {
        RequestKind::Replace => (number, CommandKind::Replace),
        RequestKind::New | RequestKind::Cancel => (number, CommandKind::NewOrder),
    };
    numbers.map(kind).collect()
}

/// New orders of all clients.
pub(super) fn orders(cast: &Cast<'_>) -> u64 {
    let new = |client: &Client| {
        asked(client).iter().filter(|(_, kind)| *kind == CommandKind::NewOrder).count() as u64
    };
    cast.driver.clients().iter().map(new).sum()
}

/// Counters that stand for a defect wherever they are not zero.
pub(super) fn sound(cast: &Cast<'_>, failures: &mut Failures) {
    let root = cast.root.counters();
    let mut wrong = vec![
        ("root: malformed", root.malformed),
        ("root: not an order", root.not_an_order),
        ("root: log full", root.log_full),
        ("root: unencodable", root.unencodable),
    ];
    for edge in &cast.edges {
        let gateway = edge.gateway().counters();
        for receiver in edge.receivers() {
            let receiver = receiver.stats();
            wrong.extend([
                ("receiver: malformed", receiver.malformed),
                ("receiver: hold buffer full", receiver.hold_dropped),
                ("receiver: deadlines cut", receiver.deadlines_cut),
            ]);
        }
        wrong.extend([
            ("edge: malformed", edge.malformed()),
            ("gateway: violations", gateway.violations),
            ("gateway: malformed", gateway.malformed),
            ("gateway: unencodable", gateway.unencodable),
            ("gateway: requests refused", gateway.requests_refused),
            ("gateway: executions before their tick", gateway.overdue),
        ]);
    }
    for listener in &cast.listeners {
        let counters = listener.counters();
        wrong.push(("listener: malformed", counters.malformed));
        wrong.push(("listener: other session", counters.other_session));
        wrong.push(("listener: evicted", counters.evicted));
    }
    for (what, count) in wrong {
        failures.check(Checker::Sound, count == 0, || format!("{what}: {count}"));
    }
}

/// Every clock was within the bound it claims: otherwise the run proves nothing about holding.
pub(super) fn clocks(world: &World<Actor>, failures: &mut Failures) {
    let now: Nanos = world.now();
    for (index, _) in world.nodes().enumerate() {
        let Some(clock) = world.clock(index) else { continue };
        failures.check(Checker::Sound, clock.error_ns(now) <= clock.bound_ns, || {
            format!("the clock of node {index} is {} ns wrong", clock.error_ns(now))
        });
    }
}
