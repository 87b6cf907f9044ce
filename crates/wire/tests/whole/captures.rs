//! Wire captures made by others, decoded and encoded again.
//!
//! They are not part of the repository: the folder is named by `FAIRBELL_CAPTURES`, or it is
//! `../shared/data/captures` beside the checkout. Where it is absent the test says so and passes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use types::{
    AccountId, CancelReason, ClOrdId, ExecutionKind, ExecutionReport, FeedSeq, Instrument,
    InstrumentId, Liquidity, MatchNumber, Nanos, OrderRef, OrderTerms, OrderType, Price, Qty,
    RejectReason, Side, Symbol, TimeInForce, UserRefNum,
};
use wire::itch::Message;
use wire::moldudp::{Packet, PacketBuilder};
use wire::ouch::{
    Inbound, Outbound, cancel_reason, encode_cancel, parse_inbound, parse_outbound, time_in_force,
};
use wire::soupbin::{ClientPacket, Framer, ServerPacket};
use wire::{itch, ouch};

/// The folders under `captures` this test reads, with the fewest files each has.
const SUITES: [(&str, usize); 3] = [
    ("Nasdaq.Equities.TotalView.Itch.v5.0", 8),
    ("Nasdaq.Equities.TotalView.Itch.v5.0.20230822", 15),
    ("Nasdaq.Nsm.Ouch.v5.0", 6),
];

#[test]
fn captures_decode_and_encode_to_the_same_bytes() {
    let captures = folder();
    let mut ran = 0;
    let mut itch_seen = BTreeMap::new();
    let mut ouch_seen = BTreeMap::new();
    for (suite, files) in SUITES {
        let folder = captures.join(suite);
        if !folder.is_dir() {
            say(&format!("absent: {suite} in {}", captures.display()));
            continue;
        }
        let paths = pcaps(&folder);
        assert!(paths.len() >= files, "{suite}: {} files", paths.len());
        for path in paths {
            let name = path.display().to_string();
            let file = std::fs::read(&path).unwrap();
            for payload in payloads(&file).unwrap_or_else(|| panic!("{name}: no pcap")) {
                match payload {
                    Payload::Udp(bytes) => mold(&name, bytes, &mut itch_seen),
                    Payload::Tcp(bytes) => soup(&name, bytes, &mut ouch_seen),
                }
            }
        }
        ran += 1;
    }
    say(&format!("external suites: {ran} run, {} absent (wire captures)", SUITES.len() - ran));
    if ran == SUITES.len() {
        assert_eq!(itch_seen.len(), 15, "ITCH types: {itch_seen:?}");
        assert_eq!(ouch_seen.len(), 6, "SoupBinTCP packets: {ouch_seen:?}");
    }
}

/// Past the test harness, which swallows what a passing test prints.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn folder() -> PathBuf {
    match std::env::var_os("FAIRBELL_CAPTURES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures"),
    }
}

fn pcaps(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    paths.sort();
    paths
}

enum Payload<'a> {
    Udp(&'a [u8]),
    Tcp(&'a [u8]),
}

/// The transport payloads of a capture: classic pcap, Ethernet with or without a VLAN tag, IPv4.
/// Lengths come from the IP and UDP headers, since some captures keep a trailer of the tap.
fn payloads(file: &[u8]) -> Option<Vec<Payload<'_>>> {
    let (header, mut rest) = file.split_at_checked(24)?;
    let number = match header.get(..4)? {
        [0xD4, 0xC3, 0xB2, 0xA1] | [0x4D, 0x3C, 0xB2, 0xA1] => u32::from_le_bytes,
        [0xA1, 0xB2, 0xC3, 0xD4] | [0xA1, 0xB2, 0x3C, 0x4D] => u32::from_be_bytes,
        _ => return None,
    };
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (record, behind) = rest.split_at_checked(16)?;
        let captured = number(record.get(8..12)?.try_into().ok()?) as usize;
        let (frame, behind) = behind.split_at_checked(captured)?;
        found.extend(payload(frame)?);
        rest = behind;
    }
    Some(found)
}

/// The payload of one frame; `Some(None)` for frames that carry none.
fn payload(frame: &[u8]) -> Option<Option<Payload<'_>>> {
    let u16_at = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 2).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])))
    };
    let mut at = 12;
    while u16_at(frame, at)? == 0x8100 {
        at += 4;
    }
    if u16_at(frame, at)? != 0x0800 {
        return Some(None);
    }
    let ip = frame.get(at + 2..)?;
    let ip = ip.get(..u16_at(ip, 2)?)?;
    let segment = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    Some(match ip.get(9)? {
        17 => Some(Payload::Udp(segment.get(8..u16_at(segment, 4)?)?)),
        6 => {
            let bytes = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
            (!bytes.is_empty()).then_some(Payload::Tcp(bytes))
        }
        _ => None,
    })
}

/// A MoldUDP64 packet: every message decodes, and the packet is built again from them.
fn mold(name: &str, bytes: &[u8], seen: &mut BTreeMap<char, usize>) {
    let packet = Packet::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut builder = PacketBuilder::new(packet.session(), packet.seq(), bytes.len());
    for message in packet.messages() {
        let view = itch::parse(message).unwrap_or_else(|error| panic!("{name}: {error}"));
        *seen.entry(char::from(view.header().kind)).or_default() += 1;
        assert_eq!(view.as_bytes(), message);
        reencode_itch(name, &view);
        assert!(builder.push(message));
    }
    assert_eq!(builder.bytes(), bytes, "{name}");
}

/// What this exchange could have sent is encoded again; the tracking number, and in directory and
/// trading action the fields documented as constants, are taken from the capture.
fn reencode_itch(name: &str, message: &Message<'_>) {
    let Some(event) = message.to_event() else { return };
    let instrument = Instrument {
        id: InstrumentId(message.header().locate.get()),
        symbol: message.symbol().unwrap_or(Symbol([b' '; 8])),
        tick: Price(1),
        price_max: Price(1),
        qty_max: Qty(1),
        lot_decimals: 0,
    };
    let mut encoded = Vec::new();
    itch::Encoder::new(&[instrument], Nanos(0))
        .encode(&event, Nanos(message.header().time.get()), &mut encoded)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let captured = message.as_bytes();
    let constants = match message {
        Message::StockTradingAction(_) => 20..25,
        Message::StockDirectory(_) => 19..39,
        _ => 0..0,
    };
    for range in [3..5, constants] {
        encoded[range.clone()].copy_from_slice(&captured[range]);
    }
    assert_eq!(encoded, captured, "{name}");
}

/// A TCP segment of SoupBinTCP packets from either side.
fn soup(name: &str, bytes: &[u8], seen: &mut BTreeMap<String, usize>) {
    let (mut framer, mut rest, mut again) = (Framer::new(1_024), bytes, Vec::new());
    while let Some(frame) = framer.next(&mut rest).unwrap() {
        let kind = frame.escape_ascii().to_string();
        let (server, client) = (ServerPacket::parse(frame), ClientPacket::parse(frame));
        let message = frame[1..].to_vec();
        let mut inner = Vec::new();
        match (server, client) {
            // The unsequenced packets of these captures are all from clients.
            (_, Ok(packet @ ClientPacket::Unsequenced(_))) => {
                let view = parse_inbound(&message).unwrap_or_else(|e| panic!("{name}: {e}"));
                view.encode(&mut inner);
                reencode_inbound(name, &view, &message);
                packet.encode(&mut again).unwrap();
            }
            (Ok(packet @ ServerPacket::Sequenced(_)), _) => {
                let view = parse_outbound(&message).unwrap_or_else(|e| panic!("{name}: {e}"));
                view.encode(&mut inner);
                reencode_outbound(name, &view, &message);
                packet.encode(&mut again).unwrap();
            }
            (Ok(packet), _) => packet.encode(&mut again).unwrap(),
            (_, Ok(packet)) => packet.encode(&mut again).unwrap(),
            (Err(error), Err(_)) => panic!("{name}: {error}"),
        }
        assert_eq!(inner, message, "{name}");
        *seen.entry(kind.chars().take(2).collect()).or_default() += 1;
    }
    assert_eq!(again, bytes, "{name}");
}

fn reencode_inbound(name: &str, message: &Inbound<'_>, captured: &[u8]) {
    if let Inbound::CancelOrder(cancel, _) = message {
        let mut encoded = Vec::new();
        let qty = Qty(u64::from(cancel.quantity.get()));
        encode_cancel(UserRefNum(cancel.user_ref.get()), qty, &mut encoded).unwrap();
        assert_eq!(encoded, captured, "{name}");
    }
}

/// Acceptances and cancels come out of the report encoder again; of an acceptance the capacity,
/// the time in force (extended hours, not served here) and the appendage are taken from the
/// capture.
fn reencode_outbound(name: &str, message: &Outbound<'_>, captured: &[u8]) {
    let mut report = blank_report();
    let mut symbol = Symbol([b' '; 8]);
    match message {
        Outbound::OrderAccepted(m, _) => {
            report.kind = ExecutionKind::Accepted;
            report.side = m.side.into();
            report.time_in_force = time_in_force(m.time_in_force).unwrap_or(TimeInForce::Day);
            report.user_ref = UserRefNum(m.user_ref.get());
            report.qty = Qty(u64::from(m.quantity.get()));
            report.leaves = report.qty;
            report.price = Price(m.price.get() as i64);
            report.order_ref = OrderRef(m.order_ref.get());
            report.t_seq = Nanos(m.time.get());
            report.cl_ord_id = ClOrdId(m.cl_ord_id);
            symbol = Symbol(m.symbol);
        }
        Outbound::OrderCanceled(m, _) => {
            report.kind = ExecutionKind::Canceled;
            report.user_ref = UserRefNum(m.user_ref.get());
            report.qty = Qty(u64::from(m.quantity.get()));
            report.cancel_reason = cancel_reason(m.reason).unwrap();
            report.t_seq = Nanos(m.time.get());
        }
        _ => return,
    }
    let instrument = Instrument {
        id: report.instrument,
        symbol,
        tick: Price(1),
        price_max: Price(1),
        qty_max: Qty(1),
        lot_decimals: 0,
    };
    let mut encoded = Vec::new();
    let encoder = ouch::Encoder::new(&[instrument], Nanos(0));
    encoder.encode_report(&report, &mut encoded).unwrap();
    if report.kind == ExecutionKind::Accepted {
        encoded.truncate(62);
        encoded.extend_from_slice(&captured[62..]);
        for not_kept in [34, 44] {
            encoded[not_kept] = captured[not_kept];
        }
    }
    assert_eq!(encoded, captured, "{name}");
}

fn blank_report() -> ExecutionReport {
    ExecutionReport {
        kind: ExecutionKind::Accepted,
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: AccountId(1),
        instrument: InstrumentId(1),
        user_ref: UserRefNum(0),
        orig_user_ref: UserRefNum(0),
        session_seq: 0,
        qty: Qty(0),
        leaves: Qty(0),
        price: Price(0),
        order_ref: OrderRef(0),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq: Nanos(0),
        cl_ord_id: ClOrdId::default(),
        reserved2: [0; 2],
        terms: OrderTerms::default(),
    }
}
