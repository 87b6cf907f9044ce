//! Participants that trade over all edges from a host of their own, and note what each of them sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::failure::Failure;
use host::fleet::file::{NodeRole, Port};
use host::sockets::io;
use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, peer_addr};
use participant::load::{Load, LoadConfig, LoadPhase, Login, Protocol, UNREAD_MAX};
use types::{Instrument, Nanos, NodeId};

use super::site::Site;

/// Their node.
const CLIENTS: NodeId = NodeId(60_001);
/// How many there are.
pub const COUNT: u32 = 8;
/// What they trade, and around which price, in ticks.
const SYMBOL: &str = "BTCUSD";
const MIDDLE_TICKS: i64 = 78_000;
/// How long all logins may take, and the last answers.
const LOGINS: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(15);
/// How long those rest who are about to end: longer than any trading, ns.
const REST_NS: u64 = 86_400 * Nanos::SECOND;
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How the control of the checkers deals with answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tamper {
    /// One answer is kept from its participant.
    pub lose: bool,
    /// One is handed over twice.
    pub double: bool,
}

/// Participants that trade.
pub struct Participants {
    /// The clock of what they note.
    pub clock: Clock,
    of: LoopHandle<Tampered>,
    over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<Trading>,
}

type Trading = JoinHandle<std::io::Result<Vec<(NodeId, Tampered)>>>;

impl Drop for Participants {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Who trades what.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Symbol of the instrument.
    pub symbol: String,
    /// Around which price, in ticks.
    pub middle_ticks: i64,
    /// Numbers of the participants, of `1..=COUNT`.
    pub numbers: Vec<u32>,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            symbol: SYMBOL.to_string(),
            middle_ticks: MIDDLE_TICKS,
            numbers: (1..=COUNT).collect(),
        }
    }
}

impl Participants {
    /// Begins to trade: so many requests per second for so long, all together.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        site: &Site<'_>,
        rate: (u64, u64),
        time: Duration,
        tamper: Tamper,
    ) -> Result<Participants, Failure> {
        Participants::start_flow(site, (&Flow::default(), rate), time, tamper)
    }

    /// The same of some participants and an instrument.
    ///
    /// # Errors
    /// The system's.
    pub fn start_flow(
        site: &Site<'_>,
        (flow, (rate, seed)): (&Flow, (u64, u64)),
        time: Duration,
        tamper: Tamper,
    ) -> Result<Participants, Failure> {
        let mut gateways = Vec::new();
        for place in site.places(NodeRole::Edge) {
            gateways.push(peer_addr(site.file.at(&site.file.nodes[place], Port::Ouch)?));
        }
        let load =
            Load::new(config(&site.config.instruments(), gateways, (flow, rate, seed), time)?);
        let mut load = load.map_err(|error| Failure::Run(error.to_string()))?;
        load.watch();
        let clock = Clock::start(0);
        let habits = LoopConfig { opened_max: 64, unread_max: UNREAD_MAX, ..LoopConfig::default() };
        let mut of = Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io)?;
        of.add_node(CLIENTS, Tampered::new(load, tamper), Vec::new(), None).map_err(io)?;
        let authority = site.file.authority_path();
        let tls = host::tls::client(&authority.to_string_lossy(), None, &site.file.name)?;
        of.secure_outgoing(CLIENTS, tls);
        let (over, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (handle, host) = (of.handle(), site.participants().clone());
        let (done, told) = (Arc::clone(&over), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let look = |of: &Loop<Tampered>, _| {
                let is_over = of.nodes().all(|(_, node)| node.load.phase() == LoadPhase::Done);
                done.store(is_over, Ordering::Relaxed);
            };
            // Connections are of the host that they are opened in.
            host.enter(|| of.run(&told, LOOK_EVERY, look))?
        });
        Ok(Participants { clock, of: handle, over, stop, thread: Some(thread) })
    }

    /// Waits until all have logged in and trade.
    ///
    /// # Errors
    /// They don't within their patience.
    pub fn wait_for_trading(&self) -> Result<(), Failure> {
        let since = Instant::now();
        while since.elapsed() < LOGINS {
            let (to, from) = std::sync::mpsc::sync_channel(1);
            let asked = self.of.call(CLIENTS, move |node: &mut Tampered, _, _| {
                let _ = to.try_send(node.load.phase());
            });
            if asked.is_ok()
                && let Ok(LoadPhase::Playing) = from.recv_timeout(LOGINS)
            {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(Failure::Run("participants can't log in".to_string()))
    }

    /// Whoever has to log on again does so at this gateway first, by its place among the edges; one for each
    /// participant.
    pub fn prefer(&self, firsts: Vec<usize>) {
        let _ = self.of.call(CLIENTS, move |node: &mut Tampered, _, _| node.load.begin_at(&firsts));
    }

    /// All of them trade no more, wait for the last answers, and give back what was noted. Nobody leaves
    /// before everybody's requests are answered: who has left isn't told of executions of its open orders.
    ///
    /// # Errors
    /// The system's.
    pub fn end_all(all: Vec<Participants>) -> Result<Vec<Load>, Failure> {
        for one in &all {
            let _ = one.of.call(CLIENTS, |node: &mut Tampered, _, _| node.load.rest(REST_NS));
        }
        let since = Instant::now();
        while since.elapsed() < DRAIN && !all.iter().all(Participants::is_answered) {
            std::thread::sleep(LOOK_EVERY);
        }
        all.into_iter().map(Participants::end).collect()
    }

    /// Whether no request waits for its answer.
    fn is_answered(&self) -> bool {
        let (to, from) = std::sync::mpsc::sync_channel(1);
        let asked = self.of.call(CLIENTS, move |node: &mut Tampered, _, _| {
            // So far without an answer.
            let _ = to.try_send(node.load.counts().lost == 0);
        });
        asked.is_err() || from.recv_timeout(LOOK_EVERY).unwrap_or(false)
    }

    /// Trades no more, waits for the last answers, and gives back what was noted.
    ///
    /// # Errors
    /// The system's.
    pub fn end(self) -> Result<Load, Failure> {
        let _ = self.of.call(CLIENTS, |node: &mut Tampered, _, _| node.load.stop());
        self.wait()
    }

    /// Waits for the end of trading.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(mut self) -> Result<Load, Failure> {
        let gone = || Failure::Run("the participants ended before".to_string());
        let thread = self.thread.take().ok_or_else(gone)?;
        while !self.over.load(Ordering::Relaxed) && !thread.is_finished() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.stop.store(true, Ordering::Relaxed);
        let ended = thread.join();
        let ended = ended.map_err(|_| Failure::Run("the participants panicked".to_string()))?;
        let node = ended.map_err(io)?.into_iter().next();
        let load = node.map(|(_, node)| node.load);
        load.ok_or_else(|| Failure::Run("the participants' loop lost them".to_string()))
    }
}

fn config(
    instruments: &[Instrument],
    gateways: Vec<types::Peer>,
    (flow, rate, seed): (&Flow, u64, u64),
    time: Duration,
) -> Result<LoadConfig, Failure> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let known = instruments.iter().find(|known| known.symbol.as_str() == flow.symbol);
    let none = || Failure::Run(format!("the venue has no instrument {}", flow.symbol));
    let instrument = *known.ok_or_else(none)?;
    let login = |number: u32| Login {
        protocol: Protocol::Ouch,
        username: format!("FLOW0{number}"),
        password: "flow".to_string(),
    };
    Ok(LoadConfig {
        logins: flow.numbers.iter().copied().map(login).collect(),
        gateways,
        middle: types::Price(flow.middle_ticks * instrument.tick.0),
        instrument,
        rate,
        duration_ns: ns(time),
        warmup_ns: Nanos::SECOND,
        login_timeout_ns: ns(LOGINS),
        drain_timeout_ns: ns(DRAIN),
        expiring: 0,
        seed,
        run: "BOX".to_string(),
    })
}

use tampered::Tampered;

/// Participants whose ways a control tampers with.
mod tampered {
    use participant::load::{Load, LoadPhase};
    use types::{ClockReading, ConnId, Nanos, Node, Outbox};

    use super::Tamper;

    /// Answers are left alone before so many requests.
    const AFTER: u64 = 1_000;

    /// A load, and what is still to be done to its answers.
    pub struct Tampered {
        pub load: Load,
        tamper: Tamper,
    }

    impl Tampered {
        pub fn new(load: Load, tamper: Tamper) -> Tampered {
            Tampered { load, tamper }
        }

        /// Whether these bytes are to be kept back, or to be given twice: packets of sequenced data, whole.
        fn choose(&mut self, bytes: &[u8]) -> usize {
            let playing = self.load.phase() == LoadPhase::Playing;
            if !playing || self.load.counts().asked < AFTER || !is_answer(bytes) {
                return 1;
            }
            if std::mem::take(&mut self.tamper.lose) {
                return 0;
            }
            1 + usize::from(std::mem::take(&mut self.tamper.double))
        }
    }

    /// Whether bytes are one SoupBinTCP packet with an acceptance in it.
    fn is_answer(bytes: &[u8]) -> bool {
        match bytes {
            [high, low, b'S', b'A', rest @ ..] => {
                usize::from(u16::from_be_bytes([*high, *low])) == rest.len() + 2
            }
            _ => false,
        }
    }

    impl Node for Tampered {
        fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
            self.load.handle_timeout(now, out);
        }

        fn next_timeout(&self) -> Nanos {
            self.load.next_timeout()
        }

        fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
            self.load.handle_connect(now, conn, out);
        }

        fn handle_stream(
            &mut self,
            now: ClockReading,
            conn: ConnId,
            bytes: &[u8],
            out: &mut Outbox,
        ) {
            let none = self.tamper == Tamper::default();
            let times = if none { 1 } else { self.choose(bytes) };
            (0..times).for_each(|_| self.load.handle_stream(now, conn, bytes, out));
        }

        fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
            self.load.handle_close(now, conn, out);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn one_whole_acceptance_is_an_answer_and_nothing_else() {
            assert!(is_answer(&[0, 4, b'S', b'A', 1, 2]));
            for other in [&[0, 4, b'S', b'A', 1][..], &[0, 4, b'S', b'C', 1, 2], &[0, 1, b'H'], &[]]
            {
                assert!(!is_answer(other), "{other:?}");
            }
        }
    }
}
