//! Observes a FIX session: what client and exchange say, and messages that are altered on their
//! way.

use fix::value::{price, qty, uint};
use fix::{FieldIndex, Message};
use types::{Nanos, Side};

use crate::facts::{Facts, Open};

/// What was seen of the session so far.
#[derive(Debug, Default)]
pub struct FixWatch {
    index: FieldIndex,
    /// MsgSeqNum(34) of the client's last message.
    last_out: u64,
    /// Whether the exchange's answer to the client's Logon is still to come.
    begun: bool,
}

fn number(message: &Message<'_>, tag: u32) -> u64 {
    message.get(tag).and_then(uint).unwrap_or(0)
}

impl FixWatch {
    /// Takes note of a message that the client sends.
    pub fn client_sends(&mut self, now: Nanos, bytes: &[u8], facts: &mut Facts) {
        let mut index = std::mem::take(&mut self.index);
        match index.parse(bytes) {
            Ok(message) => self.client_says(now, &message, facts),
            Err(garbled) => facts.fault(format!("sent what is no FIX message: {garbled:?}")),
        }
        self.index = index;
    }

    fn client_says(&mut self, now: Nanos, message: &Message<'_>, facts: &mut Facts) {
        facts.heard(now);
        let seq = number(message, 34);
        let (kind, again) = (message.msg_type(), message.flag(43));
        if kind == b"A" {
            self.logon(seq, message, facts);
        } else if again || kind == b"4" {
            if let Some((from, done)) = &mut facts.resend {
                *done |= seq <= *from;
            }
            // A SequenceReset that is no gap fill moves the numbers on by itself.
            if kind == b"4" && !message.flag(123) {
                self.last_out = number(message, 36).saturating_sub(1);
            } else if !again {
                self.last_out = self.last_out.max(seq);
            }
        } else {
            if seq != self.last_out + 1 {
                let due = self.last_out + 1;
                facts.fault(format!("MsgSeqNum(34) {seq} where {due} was due"));
            }
            self.last_out = seq;
        }
        match kind {
            b"0" => {
                if let (Some((id, answered)), Some(said)) = (&mut facts.test, message.get(112)) {
                    *answered |= id == said;
                }
            }
            b"2" => facts.asked_from = Some(number(message, 7)),
            b"3" => {
                let (of, text) = (number(message, 45), text(message));
                facts.fault(format!("rejected message {of} of the exchange: {text}"));
            }
            b"5" => facts.logouts += 1,
            _ => {}
        }
    }

    fn logon(&mut self, seq: u64, message: &Message<'_>, facts: &mut Facts) {
        let (reset, due) = (message.flag(141), self.last_out + 1);
        facts.heartbeat_ns = number(message, 108).saturating_mul(Nanos::SECOND);
        if facts.logons > 0 && reset {
            facts
                .fault("came back with ResetSeqNumFlag(141), which gives up what it missed".into());
        } else if facts.logons > 0 && seq < due {
            facts.fault(format!("came back with MsgSeqNum(34) {seq}, {due} or more was due"));
        } else if facts.logons == 0 && !reset && seq != 1 {
            facts.fault(format!("began with MsgSeqNum(34) {seq}, 1 was due"));
        }
        self.last_out = seq;
        self.begun = true;
    }

    /// Takes note of a message that the client is sent.
    pub fn client_hears(&mut self, bytes: &[u8], facts: &mut Facts) {
        let mut index = std::mem::take(&mut self.index);
        if let Ok(message) = index.parse(bytes) {
            self.exchange_says(&message, facts);
        }
        self.index = index;
    }

    fn exchange_says(&mut self, message: &Message<'_>, facts: &mut Facts) {
        let (seq, kind) = (number(message, 34), message.msg_type());
        if kind == b"A" && self.begun {
            (self.begun, facts.logged_on) = (false, true);
            facts.logons += 1;
            if message.flag(141) {
                facts.next_told = seq;
            }
        }
        if kind == b"3" || kind == b"j" {
            let tag = message.get(371).map(|tag| format!(": tag {}", tag.escape_ascii()));
            let (text, tag) = (text(message), tag.unwrap_or_default());
            facts.fault(format!("its message {} was refused: {text}{tag}", number(message, 45)));
        }
        if kind == b"5" && !facts.logged_on {
            facts.fault(format!("its Logon was refused: {}", text(message)));
        }
        if kind == b"1" {
            facts.test = Some((message.get(112).unwrap_or(b"").to_vec(), false));
        }
        if kind == b"2" {
            facts.resend = Some((number(message, 7), false));
        }
        // What comes too early is asked for again; what is known already says nothing new.
        if facts.next_told == 0 {
            facts.next_told = 1;
        }
        if seq != facts.next_told {
            return;
        }
        facts.next_told = match kind == b"4" {
            true => number(message, 36).max(seq),
            false => seq + 1,
        };
        if kind == b"8" {
            report(message, facts);
        }
    }
}

/// Value of Text(58), for people; empty when it is missing.
fn text(message: &Message<'_>) -> String {
    String::from_utf8_lossy(message.get(58).unwrap_or(b"")).into_owned()
}

/// Takes note of an ExecutionReport(8).
fn report(message: &Message<'_>, facts: &mut Facts) {
    let key = message.get(11).unwrap_or(b"");
    let lots = |tag: u32| message.get(tag).and_then(qty).map_or(0, |qty| qty.0);
    let open = Open {
        side: if message.get(54) == Some(b"1") { Side::Buy } else { Side::Sell },
        leaves: lots(151),
        price: message.get(44).and_then(price).unwrap_or_default(),
    };
    let original = message.get(41);
    match message.get(150) {
        Some(b"0") => {
            facts.accepted += 1;
            facts.opened(key, open);
            if let Some(stop) = message.get(99).and_then(price).filter(|_| open.leaves > 0) {
                facts.stops.insert(key.to_vec(), stop);
            }
        }
        Some(b"5") => {
            facts.replaced += 1;
            if let Some(original) = original {
                facts.gone(original);
            }
            facts.opened(key, open);
        }
        Some(b"4") => {
            // A cancel that was asked for has a name of its own; an order that goes away otherwise
            // keeps that of its last replace, and the one before.
            let original = original.filter(|_| !facts.open.contains_key(key));
            let asked = original.is_some();
            facts.canceled += u64::from(asked);
            facts.removed += u64::from(!asked);
            facts.left(original.unwrap_or(key), lots(151));
        }
        Some(b"C") => {
            facts.removed += 1;
            facts.expired += 1;
            facts.left(key, lots(151));
        }
        // FIX 4.2 and 4.4 have no word of its own for what 5.0 SP2 calls triggered.
        Some(b"L" | b"D") => {
            facts.triggered += u64::from(facts.stops.remove(key).is_some());
        }
        Some(b"8") => facts.rejected += 1,
        Some(b"F" | b"1" | b"2") => facts.traded(key, lots(151)),
        _ => {}
    }
}

/// The same order at a price that is no multiple of any tick above 0.001; `None` for what is no
/// order with a price. Length and sum are right again.
pub fn off_the_tick(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut fields: Vec<Vec<u8>> = bytes.split(|byte| *byte == 1).map(<[u8]>::to_vec).collect();
    // The last field ends with a separator, too.
    fields.pop();
    let order = fields.iter().any(|field| field == b"35=D" || field == b"35=G");
    let price = fields.iter_mut().find(|field| field.starts_with(b"44=")).filter(|_| order)?;
    let digits = match price.iter().position(|byte| *byte == b'.') {
        Some(dot) => price.len() - dot - 1,
        None => {
            price.push(b'.');
            0
        }
    };
    let zeros = 3usize.checked_sub(digits)?.checked_sub(1)?;
    price.extend(std::iter::repeat_n(b'0', zeros));
    price.push(b'1');
    let (begin, inner) = (fields.first()?, fields.get(2..fields.len().checked_sub(1)?)?);
    let length: usize = inner.iter().map(|field| field.len() + 1).sum();
    let mut out = [begin.as_slice(), format!("\x019={length}\x01").as_bytes()].concat();
    inner.iter().for_each(|field| out.extend(field.iter().copied().chain([1])));
    let sum = out.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    out.extend(format!("10={sum:03}\x01").bytes());
    Some(out)
}

/// Whether the client would miss this message of the exchange: numbered, and no answer to its own
/// session's questions.
pub fn can_be_lost(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == 1).any(|field| matches!(field, b"35=8" | b"35=9" | b"35=0"))
}

/// Whether the exchange would ask for this message of the client.
pub fn is_order(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == 1).any(|field| matches!(field, b"35=D" | b"35=F" | b"35=G"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(text: &str) -> Vec<u8> {
        text.replace('|', "\x01").into_bytes()
    }

    #[test]
    fn an_altered_price_leaves_a_message_in_order() {
        for (price, altered) in [("100", "100.001"), ("99.5", "99.501"), ("99.50", "99.501")] {
            let order = wire(&format!("8=FIX.4.4|9=1|35=D|34=2|44={price}|38=5|10=000|"));
            let out = off_the_tick(&order).unwrap();
            let mut index = FieldIndex::default();
            let message = index.parse(&out).unwrap();
            assert_eq!(message.get(44), Some(altered.as_bytes()));
            assert_eq!(message.get(38), Some(b"5".as_slice()));
        }
        assert_eq!(off_the_tick(&wire("8=FIX.4.4|9=1|35=8|44=1|10=000|")), None);
        assert_eq!(off_the_tick(&wire("8=FIX.4.4|9=1|35=D|10=000|")), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = off_the_tick(&bytes);
            let (mut watch, mut facts) = (FixWatch::default(), Facts::default());
            watch.client_sends(Nanos(1), &bytes, &mut facts);
            watch.client_hears(&bytes, &mut facts);
        }
    }
}
