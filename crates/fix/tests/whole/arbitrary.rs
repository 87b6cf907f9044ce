//! Any bytes at all, into everything that reads bytes: no panic, bounded memory.

use fix::app::request;
use fix::dictionary::Dictionary;
use fix::{FieldIndex, Frame, Framer};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_may_come(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut framer = Framer::new(256);
        let mut index = FieldIndex::default();
        for piece in &pieces {
            let mut rest = &piece[..];
            loop {
                let taken = framer.push(rest);
                rest = &rest[taken..];
                while let Some(frame) = framer.next_frame() {
                    if let Frame::Message(bytes) = frame {
                        let _ = index.parse(bytes);
                    }
                }
                if rest.is_empty() {
                    break;
                }
                prop_assert!(taken > 0);
            }
            let _ = index.parse(piece);
            prop_assert!(framer.held() <= 512);
        }
    }

    #[test]
    fn any_text_may_be_a_value_or_a_dictionary(text in ".{0,40}", at in 0usize..3_000, byte: u8) {
        let bytes = text.as_bytes();
        let _ = (fix::value::int(bytes), fix::value::price(bytes), fix::value::qty(bytes));
        let _ = (fix::value::timestamp(bytes), fix::value::date(bytes));
        let _ = request::cl_ord_id(bytes);
        let source = include_str!("../../dictionaries/session.dict");
        let mut changed = source.as_bytes().to_vec();
        if let Some(place) = changed.get_mut(at) {
            *place = byte & 0x7f;
        }
        let changed = String::from_utf8_lossy(&changed);
        let _ = Dictionary::compact(&[include_str!("../../dictionaries/fields.dict"), &changed]);
        let _ = Dictionary::from_xml(&format!("<fix>{text}</fix>"));
    }
}
