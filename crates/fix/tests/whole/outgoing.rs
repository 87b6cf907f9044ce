//! Whatever the exchange sends is valid by the dictionary of the version it is sent in. The
//! dictionaries of the crate hold what it sends to what stock ones allow; `scripts/interop/fix.sh`
//! has the same messages judged by QuickFIX/J with the stock ones themselves.

use std::collections::{BTreeMap, BTreeSet};

use fix::dictionary::{Checker, CustomTags, builtin};
use fix::{FieldIndex, Version};

use crate::kinds;

#[test]
fn every_message_sent_is_valid_by_its_versions_dictionary() {
    let (mut checker, mut index) = (Checker::default(), FieldIndex::default());
    let mut faults: BTreeMap<(&str, &str, String), (usize, String)> = BTreeMap::new();
    for version in Version::ALL {
        let rules = builtin(version).unwrap();
        for sample in kinds::of(version) {
            let message = index.parse(&sample.wire).unwrap();
            if let Err(fault) = checker.check(&rules, CustomTags::Refused, &message) {
                let text = String::from_utf8_lossy(&sample.wire).replace('\x01', "|");
                let key = (version.name(), sample.kind, format!("{fault:?}"));
                faults.entry(key).or_insert((0, text)).0 += 1;
            }
        }
    }
    let told: Vec<String> = faults
        .iter()
        .map(|((version, kind, fault), (count, text))| {
            format!("{version}, {kind}, {count} times: {fault} {text}")
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn there_is_a_sample_of_every_kind_and_of_every_message_of_the_dictionaries() {
    for version in Version::ALL {
        let samples = kinds::of(version);
        let kinds: BTreeSet<&str> = samples.iter().map(|sample| sample.kind).collect();
        let wanted = kinds::KINDS.iter().filter(|kind| kinds::has(version, **kind));
        let wanted: BTreeSet<&str> = wanted.map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, wanted, "{version:?}");
        let mut index = FieldIndex::default();
        let types: BTreeSet<Vec<u8>> = samples
            .iter()
            .map(|sample| index.parse(&sample.wire).unwrap().msg_type().to_vec())
            .collect();
        let rules = builtin(version).unwrap();
        let defined = rules.transport.messages().chain(rules.application.messages());
        let sent = defined.filter(|message| message.admin || message.note == "from the exchange");
        let sent: BTreeSet<Vec<u8>> =
            sent.map(|message| message.msg_type.clone().into_bytes()).collect();
        assert_eq!(types, sent, "{version:?}");
    }
}

#[test]
fn control_a_value_that_the_version_does_not_have_is_seen() {
    let (mut checker, mut index) = (Checker::default(), FieldIndex::default());
    for version in Version::ALL {
        let rules = builtin(version).unwrap();
        let samples = kinds::of(version);
        let taken = samples.iter().find(|sample| sample.kind == "order taken").unwrap();
        let text = String::from_utf8_lossy(&taken.wire).replace('\x01', "|");
        let mut judged = |text: &str| {
            let wire = crate::sample::wire(&crate::sample::repaired(text));
            let message = index.parse(&wire).unwrap();
            checker.check(&rules, CustomTags::Refused, &message)
        };
        assert_eq!(judged(&text), Ok(()), "{text}");
        assert!(judged(&text.replace("|39=0|", "|39=Z|")).is_err());
        assert!(judged(&text.replace("|55=BTCUSD|", "|")).is_err());
    }
}
