//! The index of fields beside an obviously right splitter: same fields, same verdicts.

use fix::{FieldIndex, Garbled, data_tag};
use proptest::prelude::*;

/// Fields of a message, CheckSum left out: byte by byte, in the words of the protocol.
fn split(bytes: &[u8]) -> Result<Vec<(i32, Vec<u8>)>, Garbled> {
    let Some((body, trailer)) = bytes.len().checked_sub(7).map(|at| bytes.split_at(at)) else {
        return Err(Garbled::CheckSum);
    };
    let sum = body.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 256;
    if trailer != format!("10={sum:03}\x01").as_bytes() || body.last() != Some(&1) {
        return Err(Garbled::CheckSum);
    }
    let mut fields: Vec<(i32, Vec<u8>)> = Vec::new();
    let mut rest = body;
    let mut data: Option<(i32, usize)> = None;
    let mut ends = Vec::new();
    while !rest.is_empty() {
        let wrong = if data.is_some() { Garbled::DataLength } else { Garbled::Tag };
        let equals = rest.iter().position(|&byte| byte == b'=').ok_or(wrong)?;
        let tag = number(&rest[..equals]).ok_or(wrong)?;
        rest = &rest[equals + 1..];
        let end = match data {
            Some((wanted, length)) => {
                if tag != wanted || rest.get(length) != Some(&1) {
                    return Err(Garbled::DataLength);
                }
                length
            }
            None => rest.iter().position(|&byte| byte == 1).unwrap(),
        };
        let value = rest[..end].to_vec();
        rest = &rest[end + 1..];
        if fields.len() == fix::FIELDS_MAX {
            return Err(Garbled::TooManyFields);
        }
        data = match data_tag(tag).filter(|_| data.is_none()) {
            Some(wanted) => {
                let text = std::str::from_utf8(&value).map_err(|_| Garbled::DataLength)?;
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let length = text.parse().ok().filter(|_| digits && text.len() <= 18);
                Some((wanted, length.ok_or(Garbled::DataLength)?))
            }
            None => None,
        };
        fields.push((tag, value));
        ends.push(body.len() - rest.len());
    }
    if data.is_some() {
        return Err(Garbled::DataLength);
    }
    let [(8, _), (9, length), (35, _), ..] = fields.as_slice() else {
        return Err(Garbled::FirstFields);
    };
    let stated = std::str::from_utf8(length).ok().and_then(|text| text.parse::<usize>().ok());
    if stated != Some(body.len() - ends[1]) || length.len() > 18 || length.contains(&b'+') {
        return Err(Garbled::BodyLength);
    }
    Ok(fields)
}

/// A tag: at most nine digits, perhaps negative.
fn number(text: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let right = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| right)
}

fn indexed(index: &mut FieldIndex, bytes: &[u8]) -> Result<Vec<(i32, Vec<u8>)>, Garbled> {
    let message = index.parse(bytes)?;
    Ok(message.fields().map(|field| (field.tag, field.value.to_vec())).collect())
}

/// A field; some with tags and values out of the ordinary.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![
        6 => (0u32..1_700).prop_map(|tag| tag.to_string()),
        1 => any::<u32>().prop_map(|tag| tag.to_string()),
        1 => "[-0]{0,2}[0-9:/]{0,10}",
    ];
    let value = prop_oneof![
        6 => prop::collection::vec(32u8..127, 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..100),
    ];
    let plain =
        (tag, value).prop_map(|(tag, value)| [tag.as_bytes(), b"=", &value, b"\x01"].concat());
    let lengths = prop::sample::select(vec![90, 93, 95, 212, 348, 618, 1_184, 1_401, 1_620]);
    let data = (lengths, prop::collection::vec(0u8..4, 0..90), -1isize..9).prop_map(
        |(tag, value, wrong)| {
            let length = value.len().saturating_add_signed(wrong.min(1) * isize::from(wrong < 2));
            let head = format!("{tag}={length}\x01{}=", data_tag(tag).unwrap());
            [head.as_bytes(), &value, b"\x01"].concat()
        },
    );
    prop_oneof![8 => plain, 1 => data]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_says_what_the_plain_splitter_says(
        fields in prop::collection::vec(field(), 0..30),
        first in prop::option::weighted(0.02, "[8935=x]{0,6}"),
        off in prop::option::weighted(0.05, -3i32..3),
        hit in prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>(), any::<bool>())),
    ) {
        let mut body = format!("35={}\x01", first.as_deref().unwrap_or("D")).into_bytes();
        body.extend(fields.concat());
        let stated = body.len().saturating_add_signed(off.unwrap_or(0) as isize);
        let mut bytes = format!("8=FIX.4.4\x019={stated}\x01").into_bytes();
        bytes.extend(&body);
        let mut repair = true;
        if let Some((at, byte, repaired)) = hit {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            repair = repaired;
        }
        let sum = bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 256;
        bytes.extend(format!("10={:03}\x01", if repair { sum } else { 300 - sum }).bytes());
        // An index that has seen a longer message says the same as a new one.
        let mut used = FieldIndex::default();
        used.parse(&crate::sample::wire(crate::sample::EXECUTION_REPORT)).unwrap();
        let expected = split(&bytes);
        prop_assert_eq!(indexed(&mut used, &bytes), expected.clone());
        prop_assert_eq!(indexed(&mut FieldIndex::default(), &bytes), expected);
    }
}

#[test]
fn the_generator_reaches_every_verdict() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut right, mut data, mut tags) = (0, 0, 0);
    for _ in 0..2_000 {
        let fields = prop::collection::vec(field(), 0..6).new_tree(&mut runner).unwrap().current();
        let body = [b"35=D\x01".to_vec(), fields.concat()].concat();
        let mut bytes = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
        bytes.extend(body);
        let sum = bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 256;
        bytes.extend(format!("10={sum:03}\x01").bytes());
        match split(&bytes) {
            Ok(_) => right += 1,
            Err(Garbled::DataLength) => data += 1,
            Err(_) => tags += 1,
        }
    }
    assert!(right > 400 && data > 20 && tags > 100, "{right} {data} {tags}");
}
