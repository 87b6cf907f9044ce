//! Requests for market data that ask for nothing.

use fix::Version;
use fix::app::market;
use fix::session::{MemoryStore, Outbound};

use crate::orders::{body, symbols, with_message};

/// Whether a request is taken; what it is told if it is not.
fn answer(version: Version, text: &str) -> Result<(), String> {
    with_message(version, text, |message| {
        let Err(refusal) = market::market_data_request(message, &symbols()) else { return Ok(()) };
        let store = MemoryStore::new(9, 9_999);
        let mut outbound = Outbound::new(version, "FAIR", "MEM7", store, 9_999);
        outbound.connect();
        let mut out = Vec::new();
        outbound.send(
            crate::sample::now(),
            fix::app::MARKET_DATA_REQUEST_REJECT,
            &mut out,
            |writer| market::write_refusal(b"m", refusal, writer),
        );
        Err(body(version, &out))
    })
}

/// A required group without an entry asks for nothing, which no snapshot can answer.
#[test]
fn a_market_data_request_for_nothing_is_refused_with_the_reason() {
    const GOOD: &str = "262=m|263=1|264=0|267=1|269=0|146=1|55=BTCUSD|";
    for version in Version::ALL {
        for (from, to, said) in [
            ("146=1|55=BTCUSD|", "146=0|", "281=0|58=NoRelatedSym must be above 0|"),
            ("267=1|269=0|", "267=0|", "281=8|58=NoMDEntryTypes must be above 0|"),
        ] {
            for kind in ["263=0|", "263=1|"] {
                let body = GOOD.replace(from, to).replace("263=1|", kind);
                let told = answer(version, &format!("V|{body}"));
                assert_eq!(told, Err(format!("Y|262=m|{said}")), "{version:?} {body}");
            }
            // The end of a subscription names it by MDReqID alone.
            let end = GOOD.replace(from, to).replace("263=1|", "263=2|");
            assert_eq!(answer(version, &format!("V|{end}")), Ok(()));
        }
        assert_eq!(answer(version, &format!("V|{GOOD}")), Ok(()));
    }
}
