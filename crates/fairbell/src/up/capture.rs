//! `--capture`: what receiver 1 released, for readers of other makes, written while it is recorded.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use exchange::Role;
use feed::CaptureConfig;
use net::LoopHandle;
use types::NodeId;

use host::config::Config;
use host::deployment::LISTENERS;
use host::failure::{Failure, on};

/// What the listener keeps until it is taken, and how often the best prices are noted.
pub const KEPT: CaptureConfig = CaptureConfig {
    // Multicast set aside for documents (RFC 5771): the released packets come by unicast.
    to: ([233, 252, 0, 1], 26_400),
    packet_bytes_max: 64 << 20,
    message_bytes_max: None,
    quote_every: host::deployment::CHECKPOINT_EVERY,
    quotes_max: 1 << 16,
};

/// How often packets are taken from the listener.
const EVERY: Duration = Duration::from_millis(250);

/// The files of a capture.
pub struct CaptureFiles {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// By session of the feed: what the second tree carries has a file of its own.
    files: Vec<File>,
    to: Sender<Vec<Vec<u8>>>,
    from: Receiver<Vec<Vec<u8>>>,
    asked: Instant,
    failed: Option<Failure>,
}

impl CaptureFiles {
    /// Makes the first file.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> Result<CaptureFiles, Failure> {
        let first = host::files::create(path).map_err(|error| on(path, error))?;
        let (to, from) = channel();
        let state = State { files: vec![first], to, from, asked: Instant::now(), failed: None };
        Ok(CaptureFiles { path: path.to_path_buf(), state: Mutex::new(state) })
    }

    /// Writes what was recorded, and asks for more, now and then. `outside`: the listeners' loop.
    pub fn collect(&self, outside: &LoopHandle<Role>) {
        let mut state = self.state();
        if state.asked.elapsed() < EVERY {
            return;
        }
        state.asked = Instant::now();
        self.store(&mut state);
        if state.failed.is_none() {
            let to = state.to.clone();
            // Refused when the loop has much to do, or the listener is dead: then later, or never.
            let _ = outside.call(LISTENERS, move |role, _, _| drop(to.send(role.take_captured())));
        }
    }

    /// Writes what is left, and our own best prices beside it, once the loops have ended.
    ///
    /// # Errors
    /// The system's, also those of before; packets that were left out.
    pub fn finish(&self, nodes: &[(NodeId, Role)], config: &Config) -> Result<(), Failure> {
        let mut state = self.state();
        self.store(&mut state);
        let listener = nodes.iter().find_map(|(_, role)| role.as_listener());
        let channels = listener.map_or(&[][..], |listener| listener.channels());
        let mut left_out = 0;
        for (session, capture) in channels.iter().filter_map(|of| of.capture()).enumerate() {
            self.append(&mut state, session, capture.packets());
            let quotes = quotes(capture, config).to_string();
            let mut beside = self.name(session);
            beside.push(".bbo.json");
            let beside = Path::new(&beside);
            host::files::write(beside, quotes).map_err(|error| on(beside, error))?;
            left_out += capture.left_out();
        }
        match state.failed.take() {
            Some(failure) => Err(failure),
            None if left_out > 0 => {
                let path = self.path.display();
                Err(Failure::Run(format!("{path}: lacks {left_out} packets, which came too fast")))
            }
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, state: &mut State) {
        while let Ok(sessions) = state.from.try_recv() {
            for (session, packets) in sessions.iter().enumerate() {
                self.append(state, session, packets);
            }
        }
    }

    fn append(&self, state: &mut State, session: usize, packets: &[u8]) {
        if packets.is_empty() || state.failed.is_some() {
            return;
        }
        let name = self.name(session);
        let path = Path::new(&name);
        let written = (|| {
            if state.files.len() <= session {
                state.files.push(host::files::create(path)?);
            }
            match state.files.get_mut(session) {
                Some(file) => file.write_all(packets),
                None => Ok(()),
            }
        })();
        state.failed = written.err().map(|error| on(path, error));
    }

    fn name(&self, session: usize) -> OsString {
        let mut name = self.path.as_os_str().to_owned();
        if session > 0 {
            name.push(format!(".tree{}", session + 1));
        }
        name
    }
}

fn quotes(capture: &feed::Capture, config: &Config) -> serde_json::Value {
    let one = |quote: &feed::Quote| {
        let symbol = usize::from(quote.instrument.0)
            .checked_sub(1)
            .and_then(|index| config.instruments.0.get(index))
            .map(|entry| entry.symbol.clone());
        let price = |level: Option<feed::Level>| level.map(|level| level.price.0);
        let qty = |level: Option<feed::Level>| level.map(|level| level.qty.0);
        serde_json::json!({
            "feed_seq": quote.seq.0,
            "symbol": symbol,
            "bid_price": price(quote.bid),
            "bid_qty": qty(quote.bid),
            "ask_price": price(quote.ask),
            "ask_qty": qty(quote.ask),
        })
    };
    capture.quotes().iter().map(one).collect()
}
