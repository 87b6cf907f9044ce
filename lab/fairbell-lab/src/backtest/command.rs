//! `--strategy-cmd`: a strategy in another process, line by line over its standard input and
//! output.
//!
//! Each piece of news is one line of JSON and waits for one line in answer, an array of actions:
//! the backtest goes on only then, so that the outcome depends on what the strategy answers and
//! never on how fast. The first answer that is none, a line that is too long, silence or the end
//! of the process ends the backtest with an error. So does a line too many, which would count as
//! the answer to the next piece of news: one that is there before news was sent, if it is seen then,
//! and in any case what is left when the process has ended its output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use feed::Level;
use serde::Deserialize;
use serde_json::{Value, json};
use strategy::{News, Program, ReportKind};
use types::{InstrumentId, Price, Side, Symbol, TimeInForce};

use host::failure::Failure;

/// Bytes of an answer at most, its end of line included.
const LINE_MAX: usize = 64 << 10;
/// Actions of an answer at most.
pub const ACTIONS_MAX: usize = 1_000;

/// One action of an answer.
#[derive(Deserialize, Debug, PartialEq, Eq)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Action {
    /// A new order; orders are numbered from 1 in the order in which they are sent.
    Order {
        symbol: String,
        side: Way,
        qty: u32,
        /// In price units.
        price: i64,
        #[serde(default)]
        life: Life,
        #[serde(default)]
        post_only: bool,
    },
    /// An order is to go.
    Cancel { id: u32 },
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Way {
    Buy,
    Sell,
}

#[derive(Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Life {
    #[default]
    Day,
    Ioc,
}

/// A line of the other process.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    bytes: Vec<u8>,
    /// Something stood behind it when it was read.
    more: bool,
}

/// A line, or why there is none.
type Answer = Result<Line, Ended>;

/// Why there are no more lines.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing is left.
    Output,
    /// What is left is no line.
    Damaged(String),
}

impl From<Ended> for String {
    fn from(ended: Ended) -> String {
        match ended {
            Ended::Output => "its output ended".to_string(),
            Ended::Damaged(why) => why,
        }
    }
}

/// The next line without its end.
fn line<R: Read>(from: &mut BufReader<R>) -> Answer {
    let mut bytes = Vec::new();
    let read = from.take(LINE_MAX as u64).read_until(b'\n', &mut bytes);
    read.map_err(|error| Ended::Damaged(error.to_string()))?;
    match bytes.pop() {
        Some(b'\n') => Ok(Line { bytes, more: !from.buffer().is_empty() }),
        Some(_) if bytes.len() + 1 >= LINE_MAX => {
            Err(Ended::Damaged(format!("a line above {LINE_MAX} bytes")))
        }
        Some(_) => Err(Ended::Damaged("its output ended in the middle of a line".to_string())),
        None => Err(Ended::Output),
    }
}

fn read_lines(from: ChildStdout, to: &SyncSender<Answer>) {
    let mut from = BufReader::new(from);
    loop {
        let answer = line(&mut from);
        let ends = answer.is_err();
        if to.send(answer).is_err() || ends {
            return;
        }
    }
}

/// The beginning of a line.
fn shown(bytes: &[u8]) -> impl std::fmt::Display {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(120)).unwrap_or(&[]))
}

/// The actions of an answer.
fn actions(bytes: &[u8]) -> Result<Vec<Action>, String> {
    let actions: Vec<Action> = serde_json::from_slice(bytes).map_err(|error| {
        format!("answered what is no list of actions ({error}): {}", shown(bytes))
    })?;
    if actions.len() > ACTIONS_MAX {
        return Err(format!("answered {} actions, above {ACTIONS_MAX}", actions.len()));
    }
    Ok(actions)
}

/// A program in another process.
pub struct External {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Answer>,
    patience: Duration,
    /// Pieces of news that were answered.
    answered: u64,
    symbols: BTreeMap<InstrumentId, Symbol>,
}

impl External {
    /// Starts `command` in a shell; it has `patience` for each answer.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &str, patience: Duration) -> Result<External, Failure> {
        let failed = |error| Failure::Run(format!("{command}: {error}"));
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, from) = sync_channel(1);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || read_lines(output, &sender));
        }
        let to = child.stdin.take();
        Ok(External { child, to, from, patience, answered: 0, symbols: BTreeMap::new() })
    }

    fn say(&mut self, news: &Value) -> std::io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(format!("{news}\n").as_bytes())?;
        to.flush()
    }

    /// Why a line that nobody asked for is refused.
    fn too_many(&self, what: &str) -> String {
        let answered = self.answered;
        format!(
            "a line too many behind {answered} answers{what}: each piece of news but the last is \
             answered by one line; other words go to standard error"
        )
    }

    fn ask(&mut self, news: &Value) -> Result<Vec<Action>, String> {
        // A line that is there already would count as the answer to these news.
        if let Ok(answer) = self.from.try_recv() {
            return Err(self.too_many(&format!(", {}", shown(&answer?.bytes))));
        }
        // A process that is gone has left a better reason than its closed input.
        let said = self.say(news);
        match self.from.recv_timeout(self.patience) {
            Ok(answer) => {
                let answer = answer?;
                let actions = actions(&answer.bytes)?;
                self.answered += 1;
                match answer.more {
                    true => Err(self.too_many(&format!(", after {}", shown(&answer.bytes)))),
                    false => Ok(actions),
                }
            }
            Err(RecvTimeoutError::Timeout) => match said {
                Ok(()) => Err(format!("did not answer within {} s", self.patience.as_secs())),
                Err(error) => Err(error.to_string()),
            },
            Err(RecvTimeoutError::Disconnected) => Err("its output ended".to_string()),
        }
    }

    /// An action as strategies have them.
    fn read(&self, action: Action) -> Result<strategy::Action, String> {
        Ok(match action {
            Action::Cancel { id } => strategy::Action::Cancel { id },
            Action::Order { symbol, side, qty, price, life, post_only } => {
                let known = self.symbols.iter().find(|(_, name)| name.as_str() == symbol);
                let Some((instrument, _)) = known else {
                    return Err(format!("ordered {symbol}, which is not in the recording"));
                };
                strategy::Action::Order {
                    instrument: *instrument,
                    side: match side {
                        Way::Buy => Side::Buy,
                        Way::Sell => Side::Sell,
                    },
                    qty,
                    price: Price(price),
                    life: match life {
                        Life::Day => TimeInForce::Day,
                        Life::Ioc => TimeInForce::ImmediateOrCancel,
                    },
                    rests: post_only,
                }
            }
        })
    }

    fn symbol(&self, instrument: InstrumentId) -> &str {
        self.symbols.get(&instrument).map_or("", |symbol| symbol.as_str())
    }

    /// Says that it is over, and waits for the end of the other's output as for an answer.
    ///
    /// # Errors
    /// There was a line too many, so that answers did not belong to their news.
    pub fn finish(&mut self) -> Result<(), String> {
        // Whoever is gone by now has said all there was to say.
        let _ = self.say(&json!({"type": "end"}));
        self.to = None;
        match self.from.recv_timeout(self.patience) {
            Ok(Ok(line)) => Err(self.too_many(&format!(", at the end: {}", shown(&line.bytes)))),
            Ok(Err(Ended::Damaged(why))) => Err(self.too_many(&format!(", at the end ({why})"))),
            // One that goes on in silence is ended when this value is dropped.
            Ok(Err(Ended::Output)) | Err(_) => Ok(()),
        }
    }
}

impl Drop for External {
    fn drop(&mut self) {
        self.to = None;
        // A second for last words, then it has to go.
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn way(side: Side) -> &'static str {
    if side == Side::Buy { "buy" } else { "sell" }
}

fn levels(side: &[Level]) -> Vec<[i64; 2]> {
    side.iter().map(|level| [level.price.0, level.qty.0 as i64]).collect()
}

impl Program for External {
    fn name(&self) -> &str {
        "command"
    }

    fn tell(&mut self, news: &News<'_>, answer: &mut Vec<strategy::Action>) -> Result<(), String> {
        let line = match news {
            News::Start { instruments, price_decimals } => {
                self.symbols = instruments.iter().map(|one| (one.id, one.symbol)).collect();
                let names: Vec<&str> = self.symbols.values().map(Symbol::as_str).collect();
                json!({"type": "start", "version": 1, "symbols": names,
                       "price_decimals": price_decimals})
            }
            News::Book { now, instrument, bids, asks, held, orders } => {
                let orders: Vec<Value> = orders
                    .iter()
                    .map(|order| {
                        json!({"id": order.id, "side": way(order.side), "price": order.price.0,
                               "open": order.open, "working": order.working,
                               "leaving": order.leaving})
                    })
                    .collect();
                json!({
                    "type": "book",
                    "time_ns": now.0,
                    "symbol": self.symbol(*instrument),
                    "bids": levels(bids),
                    "asks": levels(asks),
                    "lots": held,
                    "orders": orders,
                })
            }
            News::Report { now, report } => {
                let kind = match report.kind {
                    ReportKind::Accepted => "accepted",
                    ReportKind::Executed => "executed",
                    ReportKind::Rejected => "rejected",
                    ReportKind::CancelRejected => "cancel_rejected",
                    ReportKind::Ended => "ended",
                    ReportKind::Changed => "changed",
                };
                json!({
                    "type": "report",
                    "time_ns": now.0,
                    "happened_ns": report.happened.0,
                    "symbol": self.symbol(report.instrument),
                    "id": report.id,
                    "kind": kind,
                    "side": way(report.side),
                    "price": report.price.0,
                    "qty": report.qty.0,
                    "left": report.left.0,
                    "rested": report.rested,
                })
            }
            News::Trade { now, trade } => json!({
                "type": "trade",
                "time_ns": now.0,
                "happened_ns": trade.time.0,
                "symbol": self.symbol(trade.instrument),
                "price": trade.price.0,
                "qty": trade.qty.0,
                "aggressor": trade.aggressor.map(way),
            }),
        };
        for action in self.ask(&line)? {
            answer.push(self.read(action)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_are_lists_of_known_actions() {
        let order = br#"[{"do":"order","symbol":"A","side":"buy","qty":1,"price":7},
                         {"do":"cancel","id":3}]"#;
        let due = Action::Order {
            symbol: "A".to_string(),
            side: Way::Buy,
            qty: 1,
            price: 7,
            life: Life::Day,
            post_only: false,
        };
        assert_eq!(actions(order), Ok(vec![due, Action::Cancel { id: 3 }]));
        let wrong: [&[u8]; 5] =
            [b"", b"{}", b"[1]", br#"[{"do":"sing"}]"#, br#"[{"do":"cancel","id":-1}]"#];
        for bytes in wrong {
            assert!(actions(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        let many = format!("[{}]", vec![r#"{"do":"cancel","id":1}"#; ACTIONS_MAX + 1].join(","));
        assert!(actions(many.as_bytes()).is_err_and(|error| error.contains("1001 actions")));
    }

    #[test]
    fn lines_are_bounded_and_say_whether_something_is_behind_them() {
        let mut two = BufReader::new(&b"[]\n\nrest"[..]);
        assert_eq!(line(&mut two), Ok(Line { bytes: b"[]".to_vec(), more: true }));
        assert_eq!(line(&mut two), Ok(Line { bytes: Vec::new(), more: true }));
        assert!(matches!(line(&mut two), Err(Ended::Damaged(why)) if why.contains("middle")));
        assert_eq!(line(&mut two), Err(Ended::Output));
        let mut one = BufReader::new(&b"[]\n"[..]);
        assert_eq!(line(&mut one), Ok(Line { bytes: b"[]".to_vec(), more: false }));
        let long = vec![b'x'; 2 * LINE_MAX];
        let long = line(&mut BufReader::new(long.as_slice()));
        assert!(matches!(long, Err(Ended::Damaged(why)) if why.contains("above")));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = actions(&bytes);
            let _ = line(&mut BufReader::new(bytes.as_slice()));
        }
    }
}
