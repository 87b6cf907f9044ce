//! The common name in an X.509 certificate (RFC 5280, 4.1) that has been verified already, and the
//! time that it holds until.
//!
//! Reads no more of the encoding than leads to them. Anything unexpected: there is none.

/// Tags of DER that are met on the way.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xA0;
/// UTF8String, PrintableString, T61String and IA5String; the others are not bytes of a name.
const STRINGS: [u8; 4] = [0x0C, 0x13, 0x14, 0x16];
/// The object identifier 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// Fields between the version and the subject: serial number, algorithm, issuer, validity.
const BEFORE_SUBJECT: usize = 4;
/// Fields between the version and the validity.
const BEFORE_VALIDITY: usize = 3;

/// The bytes of the common name, if the subject has exactly one.
pub(crate) fn common_name(certificate: &[u8]) -> Option<&[u8]> {
    let (mut outer, _) = inside(certificate, SEQUENCE)?;
    let (mut fields, _) = inside(take(&mut outer)?.whole, SEQUENCE)?;
    let first = take(&mut fields)?;
    let skipped = if first.tag == VERSION { BEFORE_SUBJECT } else { BEFORE_SUBJECT - 1 };
    for _ in 0..skipped {
        take(&mut fields)?;
    }
    let (mut names, _) = inside(take(&mut fields)?.whole, SEQUENCE)?;
    let mut found = None;
    while !names.is_empty() {
        let (mut parts, _) = inside(take(&mut names)?.whole, SET)?;
        while !parts.is_empty() {
            let (mut pair, _) = inside(take(&mut parts)?.whole, SEQUENCE)?;
            let (kind, value) = (take(&mut pair)?, take(&mut pair)?);
            if kind.tag == OBJECT && kind.content == COMMON_NAME {
                if found.is_some() || !STRINGS.contains(&value.tag) {
                    return None;
                }
                found = Some(value.content);
            }
        }
    }
    found
}

/// Tags of times (RFC 5280, 4.1.2.5): two digits of the year, and four.
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The last second that a certificate holds, as `YYYYMMDDHHMMSS` in UTC, all digits.
pub(crate) fn holds_until(certificate: &[u8]) -> Option<u64> {
    let (mut outer, _) = inside(certificate, SEQUENCE)?;
    let (mut fields, _) = inside(take(&mut outer)?.whole, SEQUENCE)?;
    let first = take(&mut fields)?;
    let skipped = if first.tag == VERSION { BEFORE_VALIDITY } else { BEFORE_VALIDITY - 1 };
    for _ in 0..skipped {
        take(&mut fields)?;
    }
    let (mut times, _) = inside(take(&mut fields)?.whole, SEQUENCE)?;
    take(&mut times)?;
    let last = take(&mut times)?;
    let digits = last.content.strip_suffix(b"Z")?;
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    match (last.tag, digits.len()) {
        (GENERALIZED_TIME, 14) => Some(number),
        // Years from 50 on are of the last century.
        (UTC_TIME, 12) if number >= 500_000_000_000 => Some(19_000_000_000_000 + number),
        (UTC_TIME, 12) => Some(20_000_000_000_000 + number),
        _ => None,
    }
}

struct Item<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// The content of the item that `bytes` begin with, if it has this tag, and what follows it.
fn inside(mut bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let item = take(&mut bytes)?;
    (item.tag == tag).then_some((item.content, bytes))
}

/// Takes one item off; tags of one byte, definite lengths of at most four (X.690, 8.1).
fn take<'a>(bytes: &mut &'a [u8]) -> Option<Item<'a>> {
    let all = *bytes;
    let (&tag, rest) = all.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let long = usize::from(first & 0x7F);
    let (len, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        _ if (1..=4).contains(&long) => {
            let (digits, rest) = rest.split_at_checked(long)?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(Item { tag, content, whole: all.get(..all.len() - rest.len())? })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn item(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let mut bytes = vec![tag];
        match content.len() {
            len @ 0..=0x7F => bytes.push(len as u8),
            len => bytes.extend([0x82, (len >> 8) as u8, len as u8]),
        }
        bytes.extend(content);
        bytes
    }

    fn name(kind: [u8; 3], text: &[u8]) -> Vec<u8> {
        let pair = item(SEQUENCE, &[&item(OBJECT, &[&kind]), &item(0x0C, &[text])]);
        item(SET, &[&pair])
    }

    fn certificate(version: bool, names: &[Vec<u8>]) -> Vec<u8> {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let version = if version { item(VERSION, &[&[2, 1, 2]]) } else { Vec::new() };
        let empty = item(SEQUENCE, &[]);
        let fields: [&[u8]; 7] = [
            &version,
            &[2, 1, 7],
            &empty,
            &item(SEQUENCE, &[&name(COMMON_NAME, b"the issuer")]),
            &empty,
            &item(SEQUENCE, &names),
            &item(SEQUENCE, &[&[0; 300]]),
        ];
        item(SEQUENCE, &[&item(SEQUENCE, &fields), &empty])
    }

    #[test]
    fn the_subjects_only_common_name_is_found() {
        let other = name([0x55, 0x04, 0x0A], b"Example");
        let own = name(COMMON_NAME, b"member1");
        for version in [true, false] {
            let one = certificate(version, &[other.clone(), own.clone()]);
            assert_eq!(common_name(&one), Some(&b"member1"[..]));
            assert_eq!(common_name(&certificate(version, std::slice::from_ref(&other))), None);
            let two = certificate(version, &[own.clone(), own.clone()]);
            assert_eq!(common_name(&two), None, "which of the two?");
        }
    }

    #[test]
    fn the_last_second_is_read_in_both_forms() {
        let of = |tag, text: &[u8]| {
            let validity =
                item(SEQUENCE, &[&item(UTC_TIME, &[b"250101000000Z"]), &item(tag, &[text])]);
            let empty = item(SEQUENCE, &[]);
            let fields: [&[u8]; 5] =
                [&item(VERSION, &[&[2, 1, 2]]), &[2, 1, 7], &empty, &empty, &validity];
            item(SEQUENCE, &[&item(SEQUENCE, &fields)])
        };
        assert_eq!(holds_until(&of(UTC_TIME, b"280229235959Z")), Some(20_280_229_235_959));
        assert_eq!(holds_until(&of(UTC_TIME, b"990101000000Z")), Some(19_990_101_000_000));
        assert_eq!(
            holds_until(&of(GENERALIZED_TIME, b"40960101000000Z")),
            Some(40_960_101_000_000)
        );
        for (tag, text) in
            [(UTC_TIME, &b"280229235959"[..]), (0x04, b"280229235959Z"), (UTC_TIME, b"Z")]
        {
            assert_eq!(holds_until(&of(tag, text)), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_and_changed_bytes_never_panic(
            bytes in vec(any::<u8>(), 0..300),
            changes in vec((0usize..500, any::<u8>()), 0..6),
            cut in 0usize..500,
        ) {
            let _ = common_name(&bytes);
            let _ = holds_until(&bytes);
            let mut real = certificate(true, &[name(COMMON_NAME, b"member1")]);
            for (at, byte) in changes {
                if let Some(place) = real.get_mut(at) {
                    *place = byte;
                }
            }
            real.truncate(cut.max(1));
            let _ = common_name(&real);
            let _ = holds_until(&real);
        }
    }
}
