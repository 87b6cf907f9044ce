//! What others recorded: the feed as somebody received it, and copies of reports.
//!
//! Both are read into memory whole, as they were recorded. A recorded feed must hold every message
//! between its first and its last, byte for byte; a drop copy every execution of its firm's
//! accounts, once, from the first on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::Output;
use feed::pcap::{Payload, Pcap, PcapError};
use types::{
    AccountId, ExecutionKind, ExecutionReport, Input, Instrument, MarketEvent, Side,
    SystemEventCode, sessions_later,
};
use wire::itch;
use wire::moldudp::Packet;

use host::config::Config;
use host::failure::{Failure, on};
use host::journal::kept::Genesis;

/// Differences that are kept to be shown.
const SHOWN_MAX: usize = 20;

/// What came of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Things compared.
    pub compared: u64,
    /// Of these, different, missing or too many.
    pub differences: u64,
    /// The first of them.
    pub first: Vec<String>,
}

impl Recorded {
    fn differs(&mut self, what: impl FnOnce() -> String) {
        self.differences += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(what());
        }
    }
}

/// A feed that somebody received.
pub struct RecordedFeed {
    /// By session, counted from the first, and number in it; those compared are gone.
    messages: BTreeMap<(u16, u64), Vec<u8>>,
    /// First and last of them.
    range: ((u16, u64), (u16, u64)),
    /// The session of the log's last message, and the messages before it.
    session: (u16, u64),
    encoder: itch::Encoder,
    bytes: Vec<u8>,
    found: Recorded,
}

/// The datagrams of a file: pcap or pcapng.
fn datagrams<'a>(file: &'a [u8], mut visit: impl FnMut(&'a [u8])) -> Result<(), PcapError> {
    for datagram in Pcap::new(file)? {
        if let Payload::Udp(_, _, bytes) = datagram?.payload {
            visit(bytes);
        }
    }
    Ok(())
}

impl RecordedFeed {
    /// Reads a recording of the feed of an exchange.
    ///
    /// # Errors
    /// When the file can't be read, or holds nothing of that feed.
    pub fn read(
        path: &Path,
        genesis: &Genesis,
        instruments: &[Instrument],
    ) -> Result<RecordedFeed, Failure> {
        let file = std::fs::read(path).map_err(|error| on(path, error))?;
        let mut messages: BTreeMap<(u16, u64), Vec<u8>> = BTreeMap::new();
        let mut found = Recorded::default();
        datagrams(&file, |datagram| {
            let Ok(packet) = Packet::parse(datagram) else { return };
            let Some(session) = sessions_later(genesis.session, packet.session().0) else { return };
            if packet.is_end_of_session() {
                return;
            }
            for (message, position) in packet.messages().zip(packet.seq()..) {
                let first = messages.entry((session, position)).or_insert_with(|| message.to_vec());
                if first.as_slice() != message {
                    found.differs(|| format!("message {position} was received in two versions"));
                }
            }
        })
        .map_err(|error| on(path, error))?;
        let range = messages.first_key_value().zip(messages.last_key_value());
        let Some(range) = range.map(|((first, _), (last, _))| (*first, *last)) else {
            return Err(on(path, "holds no message of this exchange's session"));
        };
        let encoder = itch::Encoder::new(instruments, genesis.midnight);
        Ok(RecordedFeed { messages, range, session: (0, 0), encoder, bytes: Vec::new(), found })
    }

    /// Takes what followed from the next input of the log.
    pub fn take(&mut self, input: &Input, output: &Output) {
        let (first, last) = self.range;
        for (position, event) in &output.market {
            let begins = MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages };
            if *event == begins && position.0 > 1 {
                self.session = (self.session.0 + 1, position.0 - 1);
            }
            let place = (self.session.0, position.0 - self.session.1);
            if place < first || place > last {
                continue;
            }
            let position = position.0;
            self.bytes.clear();
            // What has no format was not published either.
            let _ = self.encoder.encode(event, input.t_seq, &mut self.bytes);
            self.found.compared += 1;
            match self.messages.remove(&place) {
                None => self.found.differs(|| format!("message {position} was not received")),
                Some(received) if received != self.bytes => {
                    self.found.differs(|| format!("message {position} has other bytes"));
                }
                Some(_) => {}
            }
        }
    }

    /// What came of it; at the end of the log nothing may be left that the log does not have.
    pub fn finish(mut self, ended: bool) -> Recorded {
        for (session, number) in std::mem::take(&mut self.messages).into_keys().filter(|_| ended) {
            let day = session + 1;
            self.found.differs(|| format!("message {number} of day {day} was never published"));
        }
        self.found
    }
}

/// One side of a trade: number, and whether it bought.
type Fill = (u64, bool);

/// What a drop-copy session received.
pub struct DropCopy {
    /// By trade and side: account, lots, price in 1/10000.
    fills: BTreeMap<Fill, (u16, u64, i64)>,
    /// Whose reports it gets.
    accounts: BTreeSet<AccountId>,
    found: Recorded,
}

/// The values of a FIX message that matter here.
#[derive(Default)]
struct Message<'a> {
    kind: &'a str,
    exec_id: &'a str,
    account: &'a str,
    qty: &'a str,
    price: &'a str,
    to: &'a str,
    side: &'a str,
}

impl DropCopy {
    /// Reads the bytes that a drop-copy session received.
    ///
    /// # Errors
    /// When the file can't be read, or is of no drop-copy session of this configuration.
    pub fn read(path: &Path, config: &Config) -> Result<DropCopy, Failure> {
        let bytes = std::fs::read(path).map_err(|error| on(path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut copies = DropCopy {
            fills: BTreeMap::new(),
            accounts: BTreeSet::new(),
            found: Recorded::default(),
        };
        let mut message = Message::default();
        for field in text.split('\u{1}') {
            let Some((tag, value)) = field.split_once('=') else { continue };
            match tag {
                "8" => message = Message::default(),
                "35" => message.kind = value,
                "17" => message.exec_id = value,
                "1" => message.account = value,
                "32" => message.qty = value,
                "31" => message.price = value,
                "56" => message.to = value,
                "54" => message.side = value,
                "10" => copies.note(&message, config),
                _ => {}
            }
        }
        if copies.accounts.is_empty() {
            return Err(on(path, "holds no message to a drop-copy session of this configuration"));
        }
        Ok(copies)
    }

    /// Takes one message of the recording.
    fn note(&mut self, message: &Message<'_>, config: &Config) {
        let accounts = &config.accounts.0;
        let session = accounts.iter().find(|one| one.fix_comp_id == message.to);
        let Some(session) = session.filter(|one| one.fix_role == "drop-copy") else { return };
        let firm = |one: &host::config::AccountEntry| {
            one.firm == session.firm && !one.firm.is_empty() && one.fix_role != "drop-copy"
        };
        let of_firm = (1..).zip(accounts).filter(|(_, one)| firm(one));
        self.accounts.extend(of_firm.map(|(id, _)| AccountId(id)));
        let digits = message.exec_id.strip_prefix('T').filter(|_| message.kind == "8");
        let Some(digits) = digits else { return };
        let number = digits.trim_end_matches(|c: char| !c.is_ascii_digit()).parse();
        let account = (1..).zip(accounts).find(|(_, one)| one.username == message.account);
        let price = types::decimal::price(message.price).map(|price| price.0);
        let read = (number.ok(), account, message.qty.parse().ok(), price);
        let (Some(number), Some((account, _)), Some(qty), Some(price)) = read else {
            self.found.differs(|| format!("{} makes no sense", message.exec_id));
            return;
        };
        // A resent message is the same again.
        let fill = (account, qty, price);
        let known = self.fills.insert((number, message.side == "1"), fill);
        if known.is_some_and(|known| known != fill) {
            self.found.differs(|| format!("trade {number} was copied in two versions"));
        }
    }

    /// Takes the next report of the log.
    pub fn take(&mut self, report: &ExecutionReport) {
        if report.kind != ExecutionKind::Executed || !self.accounts.contains(&report.account) {
            return;
        }
        let fill = (report.match_number.0, report.side == Side::Buy);
        let due = (report.account.0, report.qty.0, report.price.0);
        self.found.compared += 1;
        match self.fills.remove(&fill) {
            None => self.found.differs(|| format!("trade {}: no copy to {}", fill.0, due.0)),
            Some(copy) if copy != due => {
                self.found.differs(|| format!("trade {}: copy {copy:?}, must be {due:?}", fill.0));
            }
            Some(_) => {}
        }
    }

    /// What came of it; at the end of the log nothing may be left that the log does not have.
    pub fn finish(mut self, ended: bool) -> Recorded {
        for ((number, _), copy) in std::mem::take(&mut self.fills).into_iter().filter(|_| ended) {
            self.found.differs(|| format!("trade {number}: copy {copy:?} of what never traded"));
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_recording_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut count = 0;
            let _ = datagrams(&bytes, |datagram| {
                count += Packet::parse(datagram).map_or(0, |packet| packet.messages().count());
            });
        }
    }
}
