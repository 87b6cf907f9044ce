//! FAST for OPRA, version 2, as templates of FAST 1.1, for decoders of the standard.
//!
//! The category is the first presence bit and copied: just what a template identifier is. Slots
//! that a category does not have keep their bit as an optional constant that is never there.
//! Appended fields are always part of the template, with an initial value, because FAST knows no
//! condition; of repeated fields there is one repetition. A message that does not break these two
//! limits is read from the very same bytes; previous values are reset at the start of a packet.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::slots::{Format, Kind, More, Rule};
use crate::xml::NAMESPACE;

/// Auxiliary identifiers of fields that are only a presence bit begin here; some decoders want one
/// for every field.
const UNUSED: u32 = 1_000;

/// The templates of a format whose category is in slot 0. The auxiliary identifier of a field is
/// its slot.
pub fn fast_templates(format: &Format) -> String {
    let mut text = format!("<?xml version=\"1.0\"?>\n<templates xmlns=\"{NAMESPACE}\">\n");
    for category in format.categories {
        let _ = writeln!(text, "  <template name=\"{}\" id=\"{}\">", category.name, category.code);
        let mut slots: BTreeSet<u8> = category.slots.iter().copied().collect();
        let mut appended = BTreeSet::new();
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                appended = appendage.cases.iter().flat_map(|(_, slots)| *slots).copied().collect();
            }
            More::Repeat(repeat) => {
                if let Some((_, count, repeated)) = repeat.cases.first() {
                    slots.insert(*count);
                    slots.extend(*repeated);
                }
            }
        }
        let last = slots.union(&appended).max().copied().unwrap_or(0);
        for slot in 1..=last {
            let initial = appended.contains(&slot);
            if initial || slots.contains(&slot) {
                field(format, slot, initial, &mut text);
            } else {
                let _ = writeln!(
                    text,
                    "    <uInt32 name=\"unused {slot}\" id=\"{}\" presence=\"optional\">\
                     <constant value=\"0\"/></uInt32>",
                    UNUSED + u32::from(slot)
                );
            }
        }
        text += "  </template>\n";
    }
    text + "</templates>\n"
}

fn field(format: &Format, slot: u8, initial: bool, text: &mut String) {
    let Some(described) = format.slots.get(usize::from(slot)) else { return };
    let (element, zero) = match described.kind {
        Kind::Number => ("uInt32", "0"),
        Kind::Short | Kind::Long => ("string", ""),
    };
    let operator = match described.rule {
        Rule::Copy => "copy",
        Rule::Increment => "increment",
    };
    let value = if initial { format!(" value=\"{zero}\"") } else { String::new() };
    let name = described.name;
    let _ = writeln!(
        text,
        "    <{element} name=\"{name}\" id=\"{slot}\"><{operator}{value}/></{element}>"
    );
}
