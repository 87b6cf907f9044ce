//! Every operator with every type, presence, initial value and previous value, on every kind of
//! field content, against the literal model; and what the encoder makes, read by the model.

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use fast::template::Operator;
use fast::{
    Code, Decimal, Decoder, Encoder, FastError, Item, Owned, Record, Recorder, Templates, Type,
};
use model::{Previous, Spec, Stream, Val};

const TYPES: [(Type, &str); 8] = [
    (Type::U32, "uInt32"),
    (Type::I32, "int32"),
    (Type::U64, "uInt64"),
    (Type::I64, "int64"),
    (Type::Decimal, "decimal"),
    (Type::Ascii, "string"),
    (Type::Unicode, "string charset='unicode'"),
    (Type::Bytes, "byteVector"),
];

const OPERATORS: [(Operator, &str); 7] = [
    (Operator::None, ""),
    (Operator::Constant, "constant"),
    (Operator::Default, "default"),
    (Operator::Copy, "copy"),
    (Operator::Increment, "increment"),
    (Operator::Delta, "delta"),
    (Operator::Tail, "tail"),
];

fn text(bytes: &[u8]) -> Val {
    Val::Text(bytes.to_vec())
}

/// Values worth trying, the initial value first.
fn values(ty: Type) -> Vec<Val> {
    match ty {
        Type::Decimal => vec![
            Val::Dec(-2, 15),
            Val::Dec(0, 0),
            Val::Dec(63, i64::MAX.into()),
            Val::Dec(-63, i64::MIN.into()),
            Val::Dec(3, -7),
        ],
        Type::Ascii => {
            [&b"abc"[..], b"", b"abd", b"xbc", b"abcdef", b"\0", b"\0a", b"zabc"].map(text).to_vec()
        }
        Type::Unicode => ["abc", "", "ab\u{e9}", "\u{20ac}bc", "abcdef", "\0"]
            .map(|t| text(t.as_bytes()))
            .to_vec(),
        Type::Bytes => {
            [&[1, 2, 0xFF][..], &[], &[1, 2, 3], &[9, 2, 0xFF], &[0; 200]].map(text).to_vec()
        }
        _ => {
            let (low, high) = ty.bounds();
            let mut all = vec![41, 42, 0, 1, 63, 64, 127, 128, low, high, high - 1, low + 1];
            all.dedup();
            all.into_iter().map(Val::Int).collect()
        }
    }
}

/// The initial value as the XML has it.
fn xml_value(value: &Val, ty: Type) -> String {
    match value {
        Val::Int(value) => value.to_string(),
        Val::Dec(..) => "0.15".to_string(),
        Val::Text(bytes) if ty == Type::Bytes => bytes.iter().map(|b| format!("{b:02x}")).collect(),
        Val::Text(bytes) => String::from_utf8(bytes.clone()).unwrap(),
    }
}

/// Another value than the first one, for probes.
const PROBE: [(&str, &str); 8] = [
    ("uInt32", "77"),
    ("int32", "77"),
    ("uInt64", "77"),
    ("int64", "77"),
    ("decimal", "7.7"),
    ("string", "probe"),
    ("string charset='unicode'", "probe"),
    ("byteVector", "7777"),
];

struct Case {
    spec: Spec,
    templates: Arc<Templates>,
}

/// Template 1 sets the previous value, 2 is the field tested, 3 tells the previous value (its
/// initial value says undefined), 4 sets a previous value of another type.
fn document(
    (ty, element): (Type, &str),
    (operator, name): (Operator, &str),
    optional: bool,
    initial: Option<&Val>,
) -> String {
    let tag = element.split(' ').next().unwrap();
    let presence = if optional { "presence='optional'" } else { "" };
    let keyed =
        matches!(operator, Operator::Copy | Operator::Increment | Operator::Delta | Operator::Tail);
    let key = if keyed { "key='k'" } else { "" };
    let value = initial.map_or(String::new(), |v| format!("value='{}'", xml_value(v, ty)));
    let inside = if name.is_empty() { String::new() } else { format!("<{name} {key} {value}/>") };
    let probe = PROBE.iter().find(|(known, _)| *known == element).unwrap().1;
    let (other, other_tag) =
        if ty == Type::U32 { ("int32", "int32") } else { ("uInt32", "uInt32") };
    format!(
        "<templates xmlns='http://www.fixprotocol.org/ns/fast/td/1.1'>\
         <template name='set' id='1'><{element} name='f' presence='optional'><copy key='k'/></{tag}></template>\
         <template name='test' id='2'><{element} name='f' {presence}>{inside}</{tag}></template>\
         <template name='probe' id='3'><{element} name='f' presence='optional'>\
           <copy key='k' value='{probe}'/></{tag}></template>\
         <template name='other' id='4'><{other} name='f'><copy key='k'/></{other_tag}></template>\
         </templates>"
    )
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for ty in TYPES {
        for operator in OPERATORS {
            for optional in [false, true] {
                for initial in [None, Some(values(ty.0).remove(0))] {
                    let xml = document(ty, operator, optional, initial.as_ref());
                    let spec = Spec { ty: ty.0, operator: operator.0, optional, initial };
                    match (static_error(&spec), Templates::from_xml(&xml)) {
                        (None, Ok(templates)) => {
                            all.push(Case { spec, templates: Arc::new(templates) });
                        }
                        (Some(expected), Err(error)) => assert_eq!(error.code, expected, "{xml}"),
                        (expected, got) => panic!("{spec:?}: {expected:?}, {:?}", got.err()),
                    }
                }
            }
        }
    }
    all
}

/// What the specification forbids.
fn static_error(spec: &Spec) -> Option<Code> {
    match spec.operator {
        Operator::Increment if !spec.ty.is_integer() => Some(Code::S2),
        Operator::Tail if !spec.ty.is_text() => Some(Code::S2),
        Operator::Constant if spec.initial.is_none() => Some(Code::S4),
        Operator::Default if spec.initial.is_none() && !spec.optional => Some(Code::S5),
        _ => None,
    }
}

/// Entities by a second, bit-wise writer.
fn entity(value: i128, signed: bool, pad: usize) -> Vec<u8> {
    let mut groups = vec![(value & 127) as u8 | 128];
    let mut rest = value >> 7;
    let finished = |rest: i128, last: u8| {
        if signed { rest == 0 && last & 64 == 0 || rest == -1 && last & 64 != 0 } else { rest == 0 }
    };
    while !finished(rest, groups[0]) {
        groups.insert(0, (rest & 127) as u8);
        rest >>= 7;
    }
    for _ in 0..pad {
        groups.insert(0, if value < 0 { 127 } else { 0 });
    }
    groups
}

fn number(value: i128, ty: Type, nullable: bool, pad: usize) -> Vec<u8> {
    let value = if nullable && value >= 0 { value + 1 } else { value };
    entity(value, !matches!(ty, Type::U32 | Type::U64), pad)
}

fn ascii(bytes: &[u8], nullable: bool) -> Vec<u8> {
    let mut all = match bytes.first() {
        None | Some(0) if nullable => vec![0, 0],
        None | Some(0) => vec![0],
        _ => vec![],
    };
    all.extend(bytes);
    *all.last_mut().unwrap() |= 128;
    all
}

fn encoded(value: &Val, ty: Type, nullable: bool) -> Vec<u8> {
    match value {
        Val::Int(value) => number(*value, ty, nullable, 0),
        Val::Dec(exponent, mantissa) => {
            [number(*exponent, Type::I32, nullable, 0), number(*mantissa, Type::I64, false, 0)]
                .concat()
        }
        Val::Text(bytes) if ty == Type::Ascii => ascii(bytes, nullable),
        Val::Text(bytes) => {
            [number(bytes.len() as i128, Type::U32, nullable, 0), bytes.clone()].concat()
        }
    }
}

/// Contents of the field, right and wrong ones.
fn contents(spec: &Spec) -> Vec<Vec<u8>> {
    let (ty, nullable) = (spec.ty, spec.optional);
    let mut all: Vec<Vec<u8>> = vec![vec![], vec![0x80], vec![0], vec![0x7F; 3], vec![0, 0x81]];
    all.extend(values(ty).iter().map(|value| encoded(value, ty, nullable)));
    all.push([vec![0; 3], vec![0xC1]].concat());
    all.push([vec![0x3F; 30], vec![0xFF]].concat());
    all.push(vec![0xFF; 40]);
    if ty.is_integer() || spec.operator == Operator::Delta {
        let big = [1_i128 << 31, 1 << 32, 1 << 63, 1 << 64, (1 << 64) - 1, 1 << 66];
        for value in big.iter().flat_map(|&big| [big, -big, big - 1, big + 1, 0, 5, -5]) {
            all.push(entity(value, true, 0));
            all.push(entity(value, true, 1));
            if value >= 0 {
                all.push(entity(value, false, 0));
            }
        }
    }
    if ty == Type::Decimal {
        for exponent in [-64, -63, 0, 63, 64, 1 << 40] {
            for mantissa in [0, -1, i128::from(i64::MAX), 1 << 63] {
                let parts = [number(exponent, Type::I32, nullable, 0), entity(mantissa, true, 0)];
                all.push(parts.concat());
            }
        }
    }
    if ty.is_text() && spec.operator == Operator::Delta {
        for length in
            [0, 1, 3, 4, 200, -1, -2, -4, -5, 1 << 31, -(1_i128 << 31), -(1_i128 << 31) - 1]
        {
            for value in values(ty) {
                let length = number(length, Type::I32, nullable, 0);
                all.push([length, encoded(&value, ty, false)].concat());
            }
        }
    }
    if ty == Type::Unicode {
        let broken = text(&[0xE2, 0x82]);
        all.push(encoded(&broken, ty, nullable));
        all.push([number(0, Type::I32, nullable, 0), encoded(&broken, ty, false)].concat());
    }
    all
}

fn previous_values(ty: Type) -> Vec<(Previous, bool)> {
    let mut all = vec![(Previous::Undefined, true), (Previous::Empty, true)];
    all.extend(values(ty).into_iter().map(|value| (Previous::Assigned(value), true)));
    all.push((Previous::Assigned(Val::Int(5)), false));
    all
}

/// A message whose presence map is the template's bit and `bit`.
fn message(template: u8, bit: Option<bool>, content: &[u8]) -> Vec<u8> {
    let map = 0x80 | 0x40 | if bit == Some(true) { 0x20 } else { 0 };
    [&[map, 0x80 | template], content].concat()
}

/// The message that brings the previous value about; `None` for undefined.
fn setting(previous: &Previous, typed: bool, ty: Type) -> Option<Vec<u8>> {
    match previous {
        Previous::Undefined => None,
        Previous::Empty => Some(message(1, Some(true), &[0x80])),
        Previous::Assigned(_) if !typed => Some(message(4, Some(true), &[0x85])),
        Previous::Assigned(value) => Some(message(1, Some(true), &encoded(value, ty, true))),
    }
}

fn val(item: &Item) -> Val {
    let Item::Value(value) = item else { panic!("{item:?}") };
    match value {
        Owned::Decimal(decimal) => Val::Dec(decimal.exponent.into(), decimal.mantissa.into()),
        value => match value.as_value().integer() {
            Some(value) => Val::Int(value),
            None => text(value.as_value().bytes().unwrap()),
        },
    }
}

fn owned(value: &Val, ty: Type) -> Owned {
    match value {
        Val::Int(value) => Owned::of_integer(ty, *value).unwrap(),
        Val::Dec(exponent, mantissa) => {
            Owned::Decimal(Decimal { exponent: *exponent as i32, mantissa: *mantissa as i64 })
        }
        Val::Text(bytes) => match ty {
            Type::Ascii => Owned::Ascii(bytes.clone()),
            Type::Unicode => Owned::Unicode(String::from_utf8(bytes.clone()).unwrap()),
            _ => Owned::Bytes(bytes.clone()),
        },
    }
}

/// Reads one message; the field's value, if it is there.
fn read(
    decoder: &mut Decoder,
    templates: &Arc<Templates>,
    bytes: &[u8],
) -> Result<(usize, Option<Val>), FastError> {
    let mut recorder = Recorder::new(Arc::clone(templates));
    let used = decoder.message(bytes, &mut recorder)?;
    let record = recorder.messages.pop().unwrap();
    Ok((used, record.get(0).map(val)))
}

fn takes_bit(spec: &Spec) -> bool {
    match spec.operator {
        Operator::None | Operator::Delta => false,
        Operator::Constant => spec.optional,
        _ => true,
    }
}

#[test]
fn every_combination_decodes_as_the_model_says() {
    let mut compared: BTreeMap<String, u32> = BTreeMap::new();
    for case in cases() {
        let Case { spec, templates } = &case;
        let bits: &[Option<bool>] =
            if takes_bit(spec) { &[Some(false), Some(true)] } else { &[None] };
        for (previous, typed) in previous_values(spec.ty) {
            for &bit in bits {
                for content in contents(spec) {
                    let outcome = compare(spec, templates, (&previous, typed), bit, &content);
                    *compared.entry(outcome).or_default() += 1;
                }
            }
        }
    }
    for code in ["D2", "D4", "D5", "D6", "D7", "R1", "R2", "R4", "R6", "R9", "Truncated", "value"] {
        assert!(compared.get(code).is_some_and(|&count| count > 50), "{code}: {compared:?}");
    }
}

fn compare(
    spec: &Spec,
    templates: &Arc<Templates>,
    (previous, typed): (&Previous, bool),
    bit: Option<bool>,
    content: &[u8],
) -> String {
    let about = format!("{spec:?} {previous:?} typed {typed} {bit:?} {content:02x?}");
    let mut decoder = Decoder::new(Arc::clone(templates)).strict();
    if let Some(setting) = setting(previous, typed, spec.ty) {
        read(&mut decoder, templates, &setting).unwrap();
    }
    let mut stream =
        Stream { map: bit.into_iter().collect(), bytes: content.iter().copied().collect() };
    let mut after = previous.clone();
    let expected = model::decode(spec, &mut after, typed, &mut stream);
    let bytes = message(2, bit, content);
    let got = read(&mut decoder, templates, &bytes);
    match (&got, &expected) {
        (Ok((used, value)), Ok(expected)) => {
            assert_eq!(value, expected, "{about}");
            assert_eq!(bytes.len() - used, stream.bytes.len(), "{about}");
        }
        (Err(error), Err(code)) => {
            assert_eq!(error.code, *code, "{about}");
            assert!(error.field.is_some(), "{about}");
            return code.name().to_string();
        }
        _ => panic!("{about}: {got:?}, the model says {expected:?}"),
    }
    if let Previous::Assigned(_) = &after
        && !typed
        && after == *previous
    {
        return "untouched".to_string();
    }
    let (_, told) = read(&mut decoder, templates, &message(3, Some(false), &[])).unwrap();
    let probe = PROBE.iter().zip(TYPES).find(|(_, (ty, _))| *ty == spec.ty).unwrap().0.1;
    match after {
        Previous::Assigned(value) => assert_eq!(told, Some(value), "{about}"),
        Previous::Empty => assert_eq!(told, None, "{about}"),
        Previous::Undefined => match told {
            Some(Val::Int(told)) => assert_eq!(told.to_string(), probe, "{about}"),
            Some(Val::Dec(exponent, mantissa)) => assert_eq!((exponent, mantissa), (-1, 77)),
            Some(Val::Text(told)) if spec.ty == Type::Bytes => assert_eq!(told, [0x77, 0x77]),
            Some(Val::Text(told)) => assert_eq!(told, probe.as_bytes(), "{about}"),
            None => panic!("{about}: empty, not undefined"),
        },
    }
    "value".to_string()
}

#[test]
fn whatever_is_encoded_the_model_reads_back() {
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for Case { spec, templates } in cases() {
        let all = values(spec.ty);
        let wanted: Vec<Option<&Val>> = all.iter().map(Some).chain([None]).collect();
        for (previous, typed) in previous_values(spec.ty) {
            for &value in &wanted {
                let outcome = encode(&spec, &templates, (&previous, typed), value);
                *count.entry(outcome).or_default() += 1;
            }
        }
    }
    assert!(count["value"] > 2_000, "{count:?}");
    for code in ["D4", "D5", "D6", "Unencodable"] {
        assert!(count.contains_key(code), "{code}: {count:?}");
    }
}

fn encode(
    spec: &Spec,
    templates: &Arc<Templates>,
    (previous, typed): (&Previous, bool),
    value: Option<&Val>,
) -> String {
    let about = format!("{spec:?} {previous:?} typed {typed} {value:?}");
    let record = |template: u32, value: Option<Owned>| {
        let record = Record::of(template);
        match value {
            Some(value) => record.set(templates, "f", value),
            None => record,
        }
    };
    let mut encoder = Encoder::new(Arc::clone(templates));
    let mut bytes = Vec::new();
    let setting = match previous {
        Previous::Undefined => None,
        Previous::Empty => Some(record(0, None)),
        Previous::Assigned(_) if !typed => {
            let ty = if spec.ty == Type::U32 { Type::I32 } else { Type::U32 };
            Some(record(3, Owned::of_integer(ty, 5)))
        }
        Previous::Assigned(value) => Some(record(0, Some(owned(value, spec.ty)))),
    };
    if let Some(setting) = setting {
        encoder.message(&setting, &mut bytes).unwrap();
    }
    bytes.clear();
    let wanted = record(1, value.map(|value| owned(value, spec.ty)));
    if let Err(error) = encoder.message(&wanted, &mut bytes) {
        return refused(spec, (previous, typed), value, error.code, &about);
    }
    // The template identifier is in the stream, because the message before was of another.
    let (head, content) = bytes.split_at(2);
    let mut stream = Stream {
        map: takes_bit(spec).then_some(head[0] & 0x20 != 0).into_iter().collect(),
        bytes: content.iter().copied().collect(),
    };
    assert_eq!(head[1], 0x82, "{about}");
    let mut after = previous.clone();
    let got = model::decode(spec, &mut after, typed, &mut stream);
    let constant = spec.operator == Operator::Constant && !spec.optional;
    let expected = if constant { spec.initial.clone() } else { value.cloned() };
    assert_eq!(got, Ok(expected), "{about}: {bytes:02x?}");
    assert!(stream.bytes.is_empty(), "{about}: {bytes:02x?}");
    "value".to_string()
}

/// Whether the refusal is one that has to be.
fn refused(
    spec: &Spec,
    (previous, typed): (&Previous, bool),
    value: Option<&Val>,
    code: Code,
    about: &str,
) -> String {
    let right = match code {
        Code::D5 => value.is_none() && !spec.optional,
        Code::D4 => !typed && matches!(spec.operator, Operator::Delta | Operator::Tail),
        Code::D6 => *previous == Previous::Empty && spec.operator == Operator::Delta,
        Code::Unencodable => match spec.operator {
            Operator::Constant => value != spec.initial.as_ref(),
            Operator::Tail => {
                let Some(Val::Text(value)) = value else { panic!("{about}") };
                let base = match (previous, &spec.initial) {
                    (Previous::Assigned(Val::Text(base)), _) => base.len(),
                    (_, Some(Val::Text(base))) => base.len(),
                    _ => 0,
                };
                value.len() < base
            }
            _ => false,
        },
        _ => false,
    };
    assert!(right, "{about}: refused with {code}");
    code.name().to_string()
}
