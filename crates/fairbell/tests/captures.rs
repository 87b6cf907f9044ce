//! Captures and files of market data by the command, as somebody who has only its help would: formats
//! told from the bytes, FAST by templates of the user, and nothing in a file that could end it badly.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use fast::opra::stream::{Shape, make};
use fast::opra::{V2, fast_templates};
use fast::slots::Description;
use fast::xml::NAMESPACE;
use fast::{Encoder, Owned, Record, Templates};
use feed::pcap::{put_header, put_udp};
use serde_json::Value;
use types::{Nanos, SplitMix64};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Scratch(path)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn feed(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
    command.arg("feed").args(args).output().expect("it runs")
}

fn stats(args: &[&str]) -> Value {
    let output = feed(&[&["stats", "--json"], args].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {complaint}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn refused(args: &[&str]) -> (i32, String) {
    let output = feed(args);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("no signal"), complaint)
}

fn capture<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    put_header(&mut file);
    for (at, packet) in (1..).zip(packets) {
        put_udp(&mut file, Nanos(at * 1_000_000), ([127, 0, 0, 1], 9_000), packet);
    }
    file
}

#[test]
fn templates_of_the_user_give_the_checksum_of_the_built_in_decoder() {
    let scratch = Scratch::new("opra");
    let stream = make::<V2>(Shape { seed: 31, bytes: 100_000, ..Shape::default() });
    let file = scratch.put("opra.pcap", capture(stream.packets()));
    let printed = feed(&["templates", "--print", "opra"]);
    assert_eq!(printed.status.code(), Some(0));
    let text = String::from_utf8(printed.stdout).expect("text");
    assert_eq!(text, fast_templates(&V2::FORMAT));
    let xml = scratch.put("opra.xml", &text);
    let built_in = stats(&[&file]);
    assert_eq!(
        (&built_in["messages"], &built_in["not_decoded"]),
        (&stream.messages.into(), &0.into())
    );
    for options in [
        &["--templates", &xml][..],
        &["--templates", &xml, "--format", "fast", "--framing", "opra"],
    ] {
        let user = stats(&[&[file.as_str()], options].concat());
        for same in ["messages", "checksum", "numbers_lost", "not_decoded"] {
            assert_eq!(built_in[same], user[same], "{same} {options:?}");
        }
    }
    // A control: another file of templates, another checksum.
    let other = text.replace("name=\"bid\" id=\"25\"", "name=\"bid\" id=\"27\"");
    assert!(other != text);
    let other = scratch.put("other.xml", other);
    assert_ne!(built_in["checksum"], stats(&[&file, "--templates", &other])["checksum"]);
}

#[test]
fn a_stream_of_anybodys_templates_is_decoded_by_name_in_every_framing() {
    let scratch = Scratch::new("anybody");
    let text = format!(
        "<templates xmlns='{NAMESPACE}'>\n <template name='Top' id='7'>\n  <uInt32 name='MsgSeqNum'><increment/></uInt32>\n  \
         <string name='Symbol'><copy/></string>\n  <decimal name='Price'><exponent><default value='-2'/></exponent>\
         <mantissa><delta/></mantissa></decimal>\n </template>\n</templates>\n"
    );
    let xml = scratch.put("top.xml", &text);
    let templates = Arc::new(Templates::from_user_xml(&text).expect("valid"));
    let mut encoder = Encoder::new(Arc::clone(&templates));
    let record = |at: u32| {
        let price =
            Owned::Decimal(fast::Decimal { exponent: -2, mantissa: 10_000 + i64::from(at) });
        Record::of(0)
            .set(&templates, "MsgSeqNum", Owned::U32(at))
            .set(&templates, "Symbol", Owned::Ascii(b"XYZ".to_vec()))
            .set(&templates, "Price", price)
    };
    let mut packets = [Vec::new(), Vec::new(), Vec::new()];
    // Number 5 to 7 are missing.
    for first in [1, 3, 8, 10] {
        let records = [record(first), record(first + 1)];
        for (way, packets) in packets.iter_mut().enumerate() {
            encoder.reset();
            let mut bytes = if way == 2 { vec![0xEE; 5] } else { Vec::new() };
            match way {
                1 => encoder.block(&records, &mut bytes).expect("encoded"),
                _ => records
                    .iter()
                    .for_each(|one| encoder.message(one, &mut bytes).expect("encoded")),
            }
            packets.push(bytes);
        }
    }
    let mut sums = Vec::new();
    for (packets, options) in
        packets.iter().zip([&[][..], &["--framing", "blocks"], &["--preamble", "5"]])
    {
        let file = scratch.put("top.pcap", capture(packets.iter().map(Vec::as_slice)));
        let common = [file.as_str(), "--templates", &xml, "--number", "MsgSeqNum"];
        let seen = stats(&[&common[..], options].concat());
        assert_eq!(
            (&seen["messages"], &seen["numbers_lost"]),
            (&8.into(), &3.into()),
            "{options:?}"
        );
        assert_eq!(seen["kinds"]["fast Top"], 8);
        sums.push(seen["checksum"].clone());
        let output = feed(&[&["decode"], &common[..], options].concat());
        let told = String::from_utf8(output.stdout).expect("text");
        let last = told.lines().last().expect("a line").to_string();
        assert!(last.ends_with("Top  MsgSeqNum=11 Symbol=\"XYZ\" Price=10011e-2"), "{last}");
    }
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{sums:?}");
    let wrong = scratch.put("wrong.xml", text.replace("<copy/>", "<cpoy/>"));
    let file = scratch.put("top.pcap", capture(packets[0].iter().map(Vec::as_slice)));
    let (code, why) = refused(&["stats", &file, "--templates", &wrong]);
    assert!(code == 2 && why.contains("wrong.xml:4: [S1]"), "{why}");
    let (code, why) = refused(&["stats", &file, "--templates", &xml, "--number", "Nobody"]);
    assert!(code == 2 && why.contains("no field \"Nobody\""), "{why}");
    let (code, why) = refused(&["stats", &file, "--templates", &xml, "--framing", "blocks"]);
    assert!(code == 1 && why.contains("frame 1: FAST"), "{why}");
    assert_eq!(refused(&["stats", &file, "--format", "fast"]).0, 2, "without templates");
}

#[test]
fn dbn_and_itch_files_are_known_by_their_first_bytes() {
    use dbn::encode::{DbnEncoder, EncodeRecord};
    let scratch = Scratch::new("files");
    let metadata = dbn::Metadata::builder()
        .dataset("TEST".to_string())
        .schema(Some(dbn::Schema::Mbo))
        .start(1)
        .stype_in(Some(dbn::SType::RawSymbol))
        .stype_out(dbn::SType::InstrumentId)
        .build();
    let mut bytes = Vec::new();
    let mut encoder = DbnEncoder::new(&mut bytes, &metadata).expect("a file");
    for order_id in 1..=3 {
        let (price, side) = (1_250_000_000, b'B' as std::ffi::c_char);
        let mbo = dbn::MboMsg { order_id, price, side, ..dbn::MboMsg::default() };
        encoder.encode_record(&mbo).expect("written");
    }
    let file = scratch.put("three.dbn", &bytes);
    let seen = stats(&[&file]);
    assert_eq!((&seen["messages"], &seen["kinds"]["dbn Mbo"]), (&3.into(), &3.into()), "{seen}");
    let told = String::from_utf8(feed(&["decode", &file]).stdout).expect("text");
    let last = told.lines().last().expect("a line");
    assert!(
        ["order_id=3", "price=1.250000000", "side=B"].iter().all(|of| last.contains(of)),
        "{last}"
    );
    let told = feed(&["decode", "--json", &file]).stdout;
    let last: Value =
        serde_json::from_slice(told.split(|byte| *byte == b'\n').nth(2).expect("a third"))
            .expect("JSON");
    let message = &last["message"];
    assert_eq!(
        (&message["order_id"], &message["price"]),
        (&"3".into(), &"1.250000000".into()),
        "{last}"
    );
    assert_eq!(message["hd"]["publisher_id"], 0, "{last}");
    let none = scratch.put("none.dbn", &bytes[..20]);
    assert_eq!(refused(&["stats", &none]).0, 1, "it ends inside its head");
    let cut = scratch.put("cut.dbn", &bytes[..bytes.len() - 5]);
    let (code, said) = refused(&["stats", &cut]);
    let place = format!("cut off at byte {}", bytes.len() - 5);
    assert!(code == 1 && said.contains(&place) && said.contains("2 whole records"), "{said}");
    // A system event, twice.
    let event = [0, 12, b'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'O'];
    let itch = scratch.put("two.itch", [event, event].concat());
    assert_eq!(stats(&[&itch])["kinds"]["itch S"], 2);
    let cut = scratch.put("cut.itch", [&event[..], &event[..9]].concat());
    assert_eq!(refused(&["stats", &cut]).0, 1, "it ends inside a message");
}

/// Numbers missing in datagrams of so many messages: template and number of each.
fn missing(scratch: &Scratch, messages: &[(u32, u32)], per_datagram: usize) -> Value {
    let text = format!(
        "<templates xmlns='{NAMESPACE}'><template name='A' id='1'><uInt32 name='Seq'/></template>\
         <template name='B' id='2'><uInt32 name='V'/><uInt32 name='Seq'/></template>\
         <template name='Beat' id='3'><uInt32 name='V'/></template></templates>"
    );
    let xml = scratch.put("three.xml", &text);
    let templates = Arc::new(Templates::from_user_xml(&text).expect("valid"));
    let mut encoder = Encoder::new(Arc::clone(&templates));
    let packets: Vec<Vec<u8>> = messages
        .chunks(per_datagram)
        .map(|messages| {
            encoder.reset();
            let mut bytes = Vec::new();
            for &(template, number) in messages {
                let record = Record::of(template).set(&templates, "V", Owned::U32(7)).set(
                    &templates,
                    "Seq",
                    Owned::U32(number),
                );
                encoder.message(&record, &mut bytes).expect("encoded");
            }
            bytes
        })
        .collect();
    let file = scratch.put("three.pcap", capture(packets.iter().map(Vec::as_slice)));
    stats(&[&file, "--templates", &xml, "--number", "Seq"])["numbers_lost"].clone()
}

#[test]
fn numbers_of_all_templates_with_the_field_count_together() {
    let scratch = Scratch::new("numbers");
    for together in [1, 4] {
        let second = [1, 2, 3, 10, 11, 12, 100].map(|number| (1, number));
        assert_eq!(missing(&scratch, &second, together), 93, "the second template alone");
        let mixed = [(0, 1), (0, 2), (1, 3), (0, 10), (1, 11), (0, 12), (0, 100)];
        assert_eq!(missing(&scratch, &mixed, together), 93);
        // A message without a number between others is none of them.
        let beats = [(0, 1), (2, 0), (1, 2), (2, 0), (2, 0), (0, 3), (1, 5), (2, 0)];
        assert_eq!(missing(&scratch, &beats, together), 1);
        let whole: Vec<(u32, u32)> = (1..30).map(|number| (number % 2, number)).collect();
        assert_eq!(missing(&scratch, &whole, together), 0);
    }
}

/// A message of ITCH 5.0 with these parts behind its locate, tracking number and time.
fn itch(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let ns: u64 = (9 * 3_600 + 30 * 60) * 1_000_000_000 + 5;
    let head = [&[kind, 0, 7, 0, 9][..], &ns.to_be_bytes()[2..]].concat();
    [head, parts.concat()].concat()
}

#[test]
fn messages_are_shown_field_by_field() {
    let scratch = Scratch::new("shown");
    let order = u64::MAX.to_be_bytes();
    let add =
        itch(b'A', &[&order, b"B", &[0, 0, 1, 44], b"ZORK    ", &1_234_500_u32.to_be_bytes()]);
    let file = |name: &str, messages: &[Vec<u8>]| {
        let framed = messages.iter().flat_map(|message| {
            [(message.len() as u16).to_be_bytes().to_vec(), message.clone()].concat()
        });
        scratch.put(name, framed.collect::<Vec<u8>>())
    };
    let one = file("add.itch", std::slice::from_ref(&add));
    let told = String::from_utf8(feed(&["decode", &one]).stdout).expect("text");
    let line = "1 itch A    AddOrder locate=7 tracking=9 time=09:30:00.000000005 \
                order_ref=18446744073709551615 side=B shares=300 stock=\"ZORK\" price=123.4500";
    assert_eq!(told.trim(), line);
    let told = feed(&["decode", "--json", &one]).stdout;
    let told: Value = serde_json::from_slice(&told).expect("a document");
    let message = serde_json::json!({
        "type": "A", "name": "AddOrder", "locate": 7, "tracking": 9, "time": 34_200_000_000_005_u64,
        "order_ref": "18446744073709551615", "side": "B", "shares": 300, "stock": "ZORK",
        "price": "123.4500",
    });
    assert_eq!(told["message"], message);
    assert_eq!((&told["frame"], &told["kind"]), (&1.into(), &"A".into()));
    // Every type that there is.
    let all: Vec<Vec<u8>> = wire::itch::Message::LENGTHS
        .iter()
        .map(|&(kind, length)| {
            let mut message = itch(kind, &[&[0; 50]]);
            message.truncate(length);
            // Fields of which only some values are right.
            for (kinds, at, code) in
                [(&b"S"[..], 11, b'O'), (b"H", 19, b'T'), (b"AFP", 19, b'B'), (b"C", 31, b'Y')]
            {
                if kinds.contains(&kind) {
                    message[at] = code;
                }
            }
            message
        })
        .collect();
    let many = file("all.itch", &all);
    let told = String::from_utf8(feed(&["decode", "--json", &many]).stdout).expect("text");
    assert_eq!(told.lines().count(), wire::itch::Message::LENGTHS.len());
    for line in told.lines() {
        let one: Value = serde_json::from_str(line).expect("a document");
        assert_eq!(one["kind"], one["message"]["type"]);
        assert!(one["message"]["time"].is_number() && one["message"]["name"].is_string(), "{one}");
    }
    let told = String::from_utf8(feed(&["decode", &many]).stdout).expect("text");
    assert_eq!(told.lines().count(), wire::itch::Message::LENGTHS.len());
    assert!(!told.contains("(["), "{told}");
}

#[test]
fn a_message_of_templates_is_an_object_of_json() {
    let scratch = Scratch::new("object");
    let text = format!(
        "<templates xmlns='{NAMESPACE}'><template name='Book' id='1'><uInt64 name='Seq'/><int64 name='Small'/>\
         <decimal name='Px'/><string name='Text' charset='unicode'/><byteVector name='Raw'/>\
         <uInt32 name='Not' presence='optional'/><group name='G'><string name='S'/></group>\
         <sequence name='Rows'><uInt32 name='Qty'/></sequence></template></templates>"
    );
    let xml = scratch.put("book.xml", &text);
    let templates = Arc::new(Templates::from_user_xml(&text).expect("valid"));
    let name = |name: &str| templates.name(name).expect("it is there");
    let of = |field: &str, value| Record::default().set(&templates, field, value);
    let mut record = Record::of(0)
        .set(&templates, "Seq", Owned::U64((1 << 53) + 1))
        .set(&templates, "Small", Owned::I64(-3))
        .set(&templates, "Px", Owned::Decimal(fast::Decimal { exponent: -2, mantissa: -5 }))
        .set(&templates, "Text", Owned::Unicode("é\"\n".to_string()))
        .set(&templates, "Raw", Owned::Bytes(vec![0, 255]));
    let group = fast::Item::Group(of("S", Owned::Ascii(b"x".to_vec())));
    let rows = [1, 2].map(|qty| of("Qty", Owned::U32(qty)));
    record.fields.push((name("G"), group));
    record.fields.push((name("Rows"), fast::Item::Sequence(rows.to_vec())));
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(Arc::clone(&templates));
    encoder.message(&record, &mut bytes).expect("encoded");
    let file = scratch.put("book.pcap", capture([bytes.as_slice()].into_iter()));
    let told = feed(&["decode", "--json", &file, "--templates", &xml]).stdout;
    let told: Value = serde_json::from_slice(&told).expect("a document");
    let message = serde_json::json!({
        "Seq": "9007199254740993", "Small": -3, "Px": "-0.05", "Text": "é\"\n", "Raw": "00ff",
        "G": {"S": "x"}, "Rows": [{"Qty": 1}, {"Qty": 2}],
    });
    assert_eq!((&told["message"], &told["kind"]), (&message, &"Book".into()));
}

#[test]
fn what_is_cut_or_of_another_encoding_is_told_with_its_place() {
    let scratch = Scratch::new("cut");
    let event = [0, 12, b'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'O'];
    for (left, what) in [
        (9, "message 2, byte 14: the file ends after 7 bytes of its 12"),
        (1, "after 1 bytes of the 2"),
    ] {
        let cut = scratch.put("cut.itch", [&event[..], &event[..left]].concat());
        let (code, said) = refused(&["decode", &cut]);
        assert!(code == 1 && said.contains(what) && said.contains("cut off"), "{said}");
    }
    let whole = capture([&[1; 20][..], &[2; 20]].into_iter());
    let second = 24 + (whole.len() - 24) / 2;
    let cut = scratch.put("cut.pcap", &whole[..whole.len() - 3]);
    let to = "127.0.0.1:9";
    for args in [&["stats", &cut][..], &["play", &cut, "--to", to, "--speed", "max"]] {
        let (code, said) = refused(args);
        let place = format!("behind 1 whole frames, at byte {second}");
        assert!(code == 1 && said.contains(&place), "{said}");
    }
    let latin = b"<templates\nxmlns='x'><template name='\xe9'/></templates>";
    let utf16: Vec<u8> = "\u{feff}<templates/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, what) in [
        (&latin[..], ".xml:2: no UTF-8 (byte 0xe9 at 37)"),
        (&utf16, ".xml:1: is UTF-16 (byte 0xff at 0)"),
    ] {
        let xml = scratch.put("latin.xml", bytes);
        let (code, said) = refused(&["templates", "--check", &xml]);
        assert!(code == 2 && said.contains(what) && said.contains("must be in UTF-8"), "{said}");
    }
    for speed in ["-1", "nan", "inf", "0", "1e9", "fast"] {
        let (code, said) = refused(&["play", &cut, "--to", to, "--speed", speed]);
        assert!(code == 2 && said.contains("0.001 to 1000000, or max"), "{speed}: {said}");
    }
}

#[test]
fn no_bytes_end_it_badly() {
    let scratch = Scratch::new("bytes");
    let xml = scratch.put("opra.xml", fast_templates(&V2::FORMAT));
    let stream = make::<V2>(Shape { seed: 32, bytes: 3_000, ..Shape::default() });
    let right = capture(stream.packets());
    let seed = 0xCAFE;
    println!("seed {seed:#x}");
    let mut random = SplitMix64::new(seed);
    for round in 0..40 {
        let mut bytes = right.clone();
        for _ in 0..1 + random.below(20) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        // Also as what it is not.
        match round % 8 {
            0 => bytes[..4].copy_from_slice(b"DBN\x02"),
            1 => bytes[..4].copy_from_slice(&[0x28, 0xB5, 0x2F, 0xFD]),
            2 => bytes[..3].copy_from_slice(&[0, 12, b'S']),
            _ => {}
        }
        let file = scratch.put("broken", &bytes);
        let options: &[&str] = if round % 2 == 0 { &["--templates", &xml] } else { &[] };
        let (code, why) = refused(&[&["stats", &file], options].concat());
        assert!(matches!(code, 0..=2), "{code}: {why}");
    }
}
