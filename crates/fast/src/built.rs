//! Templates known when a program is built: a decoder written out for them.
//!
//! A build script calls [`generate`] and writes the text to its output folder; the program includes it
//! and decodes with `Decoder::<Name>::built()`. Every step then has its field, type, operator and place
//! of the previous value as constants, so that the compiler leaves of it what the template needs. It is
//! the same code that templates read at run time go through, with [`AtRunTime`] as its program.

use std::fmt::Write;

use crate::bits::PresenceMap;
use crate::error::{Code, FastError, TemplateError};
use crate::program::{Op, Quick};

pub use crate::decode::Run;
pub use crate::program::{Initial, Scalar, Templates};
pub use crate::sink::Sink;
pub use crate::template::Operator;
pub use crate::value::{Decimal, Type};

/// The steps that decode the fields of templates.
pub trait Program: Sized {
    /// Runs the steps of a block.
    ///
    /// # Errors
    /// What is wrong with the stream.
    fn block<S: Sink>(
        run: &mut Run<'_, '_, '_, '_, S>,
        block: usize,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError>;
}

/// A program that [`generate`] has written.
pub trait Built: Program {
    /// The template XML that the program was generated from.
    const XML: &'static str;
}

/// The steps of templates that are compiled at run time, not generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtRunTime;

impl Program for AtRunTime {
    fn block<S: Sink>(
        run: &mut Run<'_, '_, '_, '_, S>,
        block: usize,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        let templates = run.templates();
        let (ops, quick) = (&templates.blocks[block], &templates.quick[block]);
        let mut at = 0;
        while let (Some(op), Some(step)) = (ops.get(at), quick.get(at)) {
            at += 1;
            match (step, op) {
                (&Quick::PlainU32 { field, slot, increments }, Op::Scalar(scalar)) => {
                    run.plain_u32((scalar, increments), (field, slot), map)?;
                    continue;
                }
                (&Quick::OptionalConstants(count), Op::Scalar(scalar)) => {
                    if count > 1 && map.take_zeros(count) {
                        let until = at - 1 + count as usize;
                        run.absent_fields(ops.get(at - 1..until).unwrap_or(&[]));
                        at = until;
                    } else {
                        run.constant_field(scalar, map);
                    }
                    continue;
                }
                _ => {}
            }
            match op {
                Op::Scalar(scalar) => run.field(scalar, map)?,
                Op::Parts { exponent, mantissa } => run.decimal_parts(exponent, mantissa, map)?,
                Op::Group { field, optional, map: own, block } => {
                    run.group::<AtRunTime>(*field, (*optional, *own), *block, map)?;
                }
                Op::Sequence { field, length, map: own, block } => {
                    run.sequence::<AtRunTime>(*field, length, (*own, *block), map)?;
                }
                Op::Missing => return Err(missing()),
                Op::Dynamic => run.dynamic::<AtRunTime>()?,
            }
        }
        Ok(())
    }
}

/// The error for a reference to a template that does not exist (D8).
pub fn missing() -> FastError {
    Code::D8.into()
}

/// Rust source of a type `name` that is the [`Built`] program of templates.
///
/// # Errors
/// S1 to S5, and a bound exceeded: errors of templates are found when the program is built.
pub fn generate(name: &str, xml: &str) -> Result<String, TemplateError> {
    let templates = Templates::from_xml(xml)?;
    let mut text = format!(
        "/// Templates compiled when this was built.\n\
         #[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub struct {name};\n\n\
         impl ::fast::built::Built for {name} {{\n    const XML: &'static str = {xml:?};\n}}\n\n\
         impl ::fast::built::Program for {name} {{\n    fn block<S: ::fast::Sink>(\n        \
         run: &mut {RUN}, block: usize, map: &mut ::fast::PresenceMap<'_>,\n    \
         ) -> Result<(), ::fast::FastError> {{\n        match block {{\n"
    );
    for at in 0..templates.blocks.len() {
        let _ = writeln!(text, "            {at} => {name}::block_{at}(run, map),");
    }
    text += "            _ => Err(::fast::built::missing()),\n        }\n    }\n}\n\n";
    let _ = writeln!(text, "impl {name} {{");
    for (at, ops) in templates.blocks.iter().enumerate() {
        let _ = writeln!(
            text,
            "    fn block_{at}<S: ::fast::Sink>(\n        run: &mut {RUN}, \
             map: &mut ::fast::PresenceMap<'_>,\n    ) -> Result<(), ::fast::FastError> {{"
        );
        let leads_nowhere = ops.iter().position(|op| *op == Op::Missing);
        for op in ops.iter().take(leads_nowhere.unwrap_or(ops.len())) {
            let _ = writeln!(text, "        {}", step(name, op));
        }
        let outcome = match leads_nowhere {
            Some(_) => "Err(::fast::built::missing())",
            None => "Ok(())",
        };
        let _ = writeln!(text, "        {outcome}\n    }}");
    }
    text += "}\n";
    Ok(text)
}

const RUN: &str = "::fast::built::Run<'_, '_, '_, '_, S>";

/// Rust source of one step, as a statement.
fn step(name: &str, op: &Op) -> String {
    match op {
        Op::Scalar(op) => {
            format!(
                "{{ static F: ::fast::built::Scalar = {}; run.field(&F, map)?; }}",
                constant(op)
            )
        }
        Op::Parts { exponent, mantissa } => format!(
            "{{ static E: ::fast::built::Scalar = {}; static M: ::fast::built::Scalar = {}; \
             run.decimal_parts(&E, &M, map)?; }}",
            constant(exponent),
            constant(mantissa)
        ),
        Op::Group { field, optional, map, block } => {
            format!("run.group::<{name}>({field}, ({optional}, {map}), {block}, map)?;")
        }
        Op::Sequence { field, length, map, block } => format!(
            "{{ static L: ::fast::built::Scalar = {}; \
             run.sequence::<{name}>({field}, &L, ({map}, {block}), map)?; }}",
            constant(length)
        ),
        Op::Missing => String::new(),
        Op::Dynamic => format!("run.dynamic::<{name}>()?;"),
    }
}

fn constant(op: &Scalar) -> String {
    let Scalar { field, ty, operator, optional, slot, initial, bits } = op;
    let initial = match initial {
        Initial::None => "None".to_string(),
        Initial::Integer => "Integer".to_string(),
        Initial::Decimal(Decimal { exponent, mantissa }) => format!(
            "Decimal(::fast::built::Decimal {{ exponent: {exponent}, mantissa: {mantissa} }})"
        ),
        Initial::Text(bytes) => format!("Text(::std::borrow::Cow::Borrowed(&{bytes:?}))"),
    };
    format!(
        "::fast::built::Scalar {{ field: {field}, ty: ::fast::built::Type::{ty:?}, \
         operator: ::fast::built::Operator::{operator:?}, optional: {optional}, slot: {slot}, \
         initial: ::fast::built::Initial::{initial}, bits: {bits:?} }}"
    )
}
