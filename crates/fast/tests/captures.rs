//! Captures of OPRA's binary format made by others, decoded completely.
//!
//! They are not part of the repository: the folder is `../shared/data` beside it, or
//! `FAIRBELL_SHARED_DATA`. Where it is absent the test says so and passes.

use std::io::Write;
use std::path::{Path, PathBuf};

use fast::opra::binary;
use fast::opra::{Event, Price};

fn folder() -> PathBuf {
    let data = match std::env::var_os("FAIRBELL_SHARED_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    data.join("captures/Opra.v6.2")
}

/// The one block of a capture: file and record header, Ethernet, IPv4 and UDP without options.
fn block(name: &str) -> Vec<u8> {
    let file = std::fs::read(folder().join(name)).unwrap();
    file[24 + 16 + 14 + 20 + 8..].to_vec()
}

fn check(name: &str, expected: impl Fn(&Event<'_>)) {
    let bytes = block(name);
    let mut count = 0;
    let header = binary::block(&bytes, |event| {
        expected(event);
        count += 1;
    })
    .unwrap_or_else(|code| panic!("{name}: {code}"));
    assert_eq!((header.version(), header.feed(), count), (6, b'O', 1), "{name}");
    for len in 0..bytes.len() {
        assert!(binary::block(&bytes[..len], |_| ()).is_err(), "{name} cut to {len}");
    }
}

#[test]
fn captures_decode() {
    if !folder().is_dir() {
        let _ = writeln!(std::io::stderr(), "EXTERNAL SUITE ABSENT: Opra.v6.2");
        return;
    }
    check("LongEquityAndIndexQuoteMessage.pcap", |event| {
        let Event::Quote(header, quote) = event else { panic!("{event:?}") };
        assert_eq!((header.participant, quote.bbo), (b'D', b'M'));
        assert_eq!(quote.series.symbol.to_be_bytes(), *b"\0\0\0\0AMZN");
        assert_eq!(quote.series.strike, Price(16_525_000_000));
        assert_eq!((quote.bid, quote.bid_size), (Price(61_000_000), 239));
        assert_eq!((quote.offer, quote.offer_size), (Price(63_000_000), 495));
        let best = quote.best_bid.unwrap();
        assert_eq!((best.participant, best.price, best.size), (b'P', Price(61_000_000), 243));
        assert_eq!(quote.best_offer, None);
    });
    check("ShortEquityAndIndexQuoteMessage.pcap", |event| {
        let Event::Quote(header, quote) = event else { panic!("{event:?}") };
        assert_eq!((header.participant, quote.bbo), (b'T', b'M'));
        assert_eq!((quote.series.month, quote.series.day, quote.series.year), (b'L', 29, 23));
        assert_eq!(quote.series.strike, Price(13_300_000_000));
        assert_eq!((quote.bid, quote.offer), (Price(1_410_000_000), Price(1_465_000_000)));
        assert_eq!((quote.bid_size, quote.offer_size), (43, 2));
        assert_eq!(quote.best_bid.unwrap().size, 50);
    });
    check("AdministrativeMessage.pcap", |event| {
        let Event::Admin(header, control) = event else { panic!("{event:?}") };
        assert_eq!((header.participant, control.text_len), (b'C', 83));
    });
    check("ControlMessage.pcap", |event| {
        let Event::Control(header, control) = event else { panic!("{event:?}") };
        assert_eq!((header.kind, control.text_len), (b'N', 0));
    });
    let _ = writeln!(std::io::stderr(), "EXTERNAL SUITES: 1 ran, 0 absent (OPRA captures)");
}
