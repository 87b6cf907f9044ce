//! Capture files: what is written is read, broken ones do no harm, and every capture made by others
//! decodes to its last byte.
//!
//! Those captures are not part of the repository: the folder is `../shared/data` beside it, or
//! `FAIRBELL_SHARED_DATA`. Where it is absent the test says so and passes.

use std::io::Write;
use std::path::{Path, PathBuf};

use feed::Pcap;
use feed::pcap::{Payload, PcapError, put_header, put_udp};
use proptest::prelude::*;
use types::Nanos;
use wire::moldudp::Packet;
use wire::soupbin::Framer;

const SUITES: [&str; 4] = [
    "Nasdaq.Equities.TotalView.Itch.v5.0",
    "Nasdaq.Equities.TotalView.Itch.v5.0.20230822",
    "Nasdaq.Nsm.Ouch.v5.0",
    "Opra.v6.2",
];

fn captures() -> PathBuf {
    let data = match std::env::var_os("FAIRBELL_SHARED_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    data.join("captures")
}

/// Decodes a datagram as whatever it is; the number of messages.
fn datagram(name: &str, bytes: &[u8]) -> usize {
    if name.contains("Opra") {
        let mut count = 0;
        let header = fast::opra::binary::block(bytes, |_| count += 1);
        assert_eq!(header.map(|header| usize::from(header.messages())), Ok(count), "{name}");
        return count;
    }
    let packet = Packet::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut count = 0;
    for message in packet.messages() {
        count += 1;
        let view = fast::itch::Message::parse(message).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut fields = 0;
        view.each(|_| fields += 1);
        assert!(fields >= 4, "{name}");
        assert!(wire::itch::parse(message).is_ok(), "{name}");
    }
    count
}

#[test]
fn captures_of_others_decode_completely() {
    let (mut ran, mut messages) = (0, 0);
    for suite in SUITES {
        let folder = captures().join(suite);
        if !folder.is_dir() {
            let _ = writeln!(std::io::stderr(), "EXTERNAL SUITE ABSENT: {suite}");
            continue;
        }
        ran += 1;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "pcap") {
                continue;
            }
            let name = path.display().to_string();
            let file = std::fs::read(&path).unwrap();
            for frame in Pcap::new(&file).unwrap_or_else(|error| panic!("{name}: {error}")) {
                match frame.unwrap_or_else(|error| panic!("{name}: {error}")).payload {
                    Payload::Udp(_, _, bytes) => messages += datagram(&name, bytes),
                    Payload::Tcp(bytes) => {
                        let (mut framer, mut rest) = (Framer::new(1_024), bytes);
                        while framer.next(&mut rest).unwrap().is_some() {
                            messages += 1;
                        }
                        assert!(rest.is_empty(), "{name}");
                    }
                    Payload::Other => panic!("{name}: a frame of no market data"),
                }
            }
        }
    }
    let absent = SUITES.len() - ran;
    let line =
        format!("EXTERNAL SUITES: {ran} ran, {absent} absent ({messages} captured messages)");
    let _ = writeln!(std::io::stderr(), "{line}");
    if absent == 0 {
        assert!(messages >= 33, "{messages} messages");
    }
}

/// Appends a block of pcapng.
fn put_block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (12 + body.len() + padding) as u32;
    file.extend_from_slice(&kind.to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(body);
    file.extend(std::iter::repeat_n(0, padding));
    file.extend_from_slice(&length.to_le_bytes());
}

/// The beginning of a pcapng, little-endian.
fn section() -> Vec<u8> {
    let mut file = Vec::new();
    let body = [0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
    put_block(&mut file, 0x0A0D_0D0A, &body);
    file
}

/// Appends a packet of pcapng, at so many ticks of an interface.
fn put_packet(file: &mut Vec<u8>, interface: u32, ticks: u64, bytes: &[u8]) {
    let mut record = Vec::new();
    put_udp(&mut record, Nanos(0), ([233, 1, 2, 3], 9_000), bytes);
    let frame = &record[16..];
    let length = frame.len() as u32;
    let mut body = Vec::new();
    for word in [interface, (ticks >> 32) as u32, ticks as u32, length, length] {
        body.extend_from_slice(&word.to_le_bytes());
    }
    body.extend_from_slice(frame);
    put_block(file, 6, &body);
}

/// A pcapng file of the same frames.
fn blocks(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = section();
    put_block(&mut file, 1, &[1, 0, 0, 0, 0, 0, 4, 0]);
    put_block(&mut file, 5, &[0; 12]);
    for (time, bytes) in frames {
        put_packet(&mut file, 0, time / 1_000, bytes);
    }
    file
}

fn read(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let one = |frame: Result<feed::pcap::Captured<'_>, _>| {
        let frame = frame.unwrap();
        match frame.payload {
            Payload::Udp([233, 1, 2, 3], 9_000, bytes) => (frame.time.0, bytes.to_vec()),
            other => panic!("{other:?}"),
        }
    };
    Pcap::new(file).unwrap().map(one).collect()
}

/// A pcapng of one packet at so many ticks, on the last of these interfaces (if_tsresol).
fn at_resolutions(resolutions: &[Option<u8>], ticks: u64) -> Vec<u8> {
    let mut file = section();
    for resolution in resolutions {
        let mut body = vec![1, 0, 0, 0, 0xFF, 0xFF, 0, 0];
        if let Some(resolution) = resolution {
            // A name of three bytes, if_tsresol, the end of the options.
            body.extend_from_slice(b"\x02\0\x03\0eth\0\x09\0\x01\0");
            body.extend_from_slice(&[*resolution, 0, 0, 0, 0, 0, 0, 0]);
        }
        put_block(&mut file, 1, &body);
    }
    put_packet(&mut file, resolutions.len() as u32 - 1, ticks, &[7]);
    file
}

#[test]
fn times_of_pcapng_have_the_resolution_of_their_interface() {
    let at = 1_795_585_508_739_375_123_u64;
    let cases = [
        (vec![None], at / 1_000, at / 1_000 * 1_000),
        (vec![Some(6)], at / 1_000, at / 1_000 * 1_000),
        (vec![Some(9)], at, at),
        (vec![Some(6), Some(9)], at, at),
        (vec![Some(9), None], at / 1_000, at / 1_000 * 1_000),
        (vec![Some(0)], 1_795_585_508, 1_795_585_508_000_000_000),
        // Powers of two: 1/1024 s.
        (vec![Some(0x80 | 10)], 1_024 * 5 + 512, 5_500_000_000),
    ];
    for (interfaces, ticks, due) in cases {
        let file = at_resolutions(&interfaces, ticks);
        assert_eq!(read(&file), [(due, vec![7])], "{interfaces:?}");
    }
    let finer = at_resolutions(&[Some(60)], 1);
    let first = Pcap::new(&finer).unwrap().next();
    assert_eq!(first, Some(Err(PcapError::Resolution(60))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec(
            (0_u64..4_000_000_000, prop::collection::vec(any::<u8>(), 0..100)), 0..20),
    ) {
        let frames: Vec<(u64, Vec<u8>)> =
            frames.into_iter().map(|(micros, bytes)| (micros * 1_000, bytes)).collect();
        let mut file = Vec::new();
        put_header(&mut file);
        for (time, bytes) in &frames {
            put_udp(&mut file, Nanos(*time), ([233, 1, 2, 3], 9_000), bytes);
        }
        prop_assert_eq!(&read(&file), &frames);
        prop_assert_eq!(&read(&blocks(&frames)), &frames);
    }

    #[test]
    fn broken_files_do_no_harm(
        which in any::<bool>(),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..20),
        cut in any::<u16>(),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let frames = [(1_000, vec![1, 2, 3]), (2_000, vec![9; 70])];
        let mut file = if which { blocks(&frames) } else { Vec::new() };
        if !which {
            put_header(&mut file);
            for (time, bytes) in &frames {
                put_udp(&mut file, Nanos(*time), ([233, 1, 2, 3], 9_000), bytes);
            }
        }
        for (at, byte) in changes {
            let at = usize::from(at) % file.len();
            file[at] = byte;
        }
        file.truncate(usize::from(cut) % (file.len() + 1));
        for bytes in [&file, &noise] {
            if let Ok(frames) = Pcap::new(bytes) {
                prop_assert!(frames.count() <= bytes.len() / 12 + 1);
            }
        }
    }
}
