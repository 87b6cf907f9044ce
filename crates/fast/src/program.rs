//! Templates compiled: every field knows its operator, its place in the dictionaries and whether
//! it takes a presence bit, and static references are written out.
//!
//! A reference to a template that does not exist becomes a step that fails with D8 when it is
//! reached, because that is a dynamic error. A template that a stream refers to dynamically starts
//! with application type `any` unless it names one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::{Code, TemplateError};
use crate::template::{
    Body, Content, Dictionary, Field, Instruction, Name, Operation, Operator, Template,
};
use crate::value::{Decimal, Owned, Type};
use crate::xml;

/// Most steps of all templates together, with static references written out.
const STEPS_MAX: usize = 1 << 16;
/// Deepest nesting of static references, and of groups and sequences once static references are
/// written out.
const DEPTH_MAX: usize = 32;
/// Most bytes of initial values, with static references written out.
const INITIAL_BYTES_MAX: usize = 4 << 20;
/// Template identifiers below this are looked up directly.
const DIRECT_MAX: u32 = 4_096;

/// What a field of a template contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One value of a type.
    Primitive(Type),
    /// Several fields.
    Group,
    /// Several fields, any number of times.
    Sequence,
}

/// A field of a template.
#[derive(Clone, PartialEq, Debug)]
pub struct FieldInfo {
    /// Name of the field, with its namespace.
    pub name: Name,
    /// Index of the name in [`Templates::names`]: equal for fields of equal name.
    pub name_index: u32,
    /// Auxiliary identifier (the XML attribute `id`); `None`: it has none.
    pub id: Option<String>,
    /// What the field contains: a value, a group or a sequence.
    pub kind: Kind,
    /// Whether the field may be absent.
    pub optional: bool,
}

/// A compiled template, as sinks are told of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TemplateInfo {
    /// Name of the template, with its namespace.
    pub name: Name,
    /// Template identifier in the stream; `None`: the template can only be referred to.
    pub id: Option<u32>,
    /// Whether dictionaries are reset before a message of this template.
    pub reset: bool,
    pub(crate) block: usize,
}

/// An initial value, in a form that the compiler can have as a constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Initial {
    /// The field has no initial value.
    None,
    /// An integer, whose value is in [`Scalar::bits`].
    Integer,
    /// A decimal, normalized.
    Decimal(Decimal),
    /// The bytes of a string or vector.
    Text(Cow<'static, [u8]>),
}

impl Initial {
    fn of(value: Option<&Owned>) -> Initial {
        match value {
            None => Initial::None,
            Some(Owned::Decimal(value)) => Initial::Decimal(*value),
            Some(Owned::Ascii(bytes) | Owned::Bytes(bytes)) => {
                Initial::Text(Cow::Owned(bytes.clone()))
            }
            Some(Owned::Unicode(text)) => Initial::Text(Cow::Owned(text.as_bytes().to_vec())),
            Some(_) => Initial::Integer,
        }
    }
}

/// A primitive field, ready to be decoded.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    /// Index of the field in [`Templates::fields`].
    pub field: u32,
    /// Type of the field's values.
    pub ty: Type,
    /// Operator of the field (§6.3).
    pub operator: Operator,
    /// Whether the field may be absent.
    pub optional: bool,
    /// Index of the field's previous value.
    pub slot: usize,
    /// Initial value of the field.
    pub initial: Initial,
    /// Initial value of an integer field, as 64 bits; `None`: it has none.
    pub bits: Option<u64>,
}

impl Scalar {
    pub(crate) fn takes_bit(&self) -> bool {
        match self.operator {
            Operator::None | Operator::Delta => false,
            Operator::Constant => self.optional,
            Operator::Default | Operator::Copy | Operator::Increment | Operator::Tail => true,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Op {
    Scalar(Scalar),
    /// A decimal whose exponent and mantissa have operators; `optional` is a property of the
    /// exponent.
    Parts {
        exponent: Scalar,
        mantissa: Scalar,
    },
    /// A group; `map`: it is a segment with a presence map of its own.
    Group {
        field: u32,
        optional: bool,
        map: bool,
        block: usize,
    },
    Sequence {
        field: u32,
        length: Scalar,
        map: bool,
        block: usize,
    },
    /// A static reference to a template that does not exist.
    Missing,
    Dynamic,
}

impl Op {
    fn takes_bit(&self) -> bool {
        match self {
            Op::Scalar(scalar) => scalar.takes_bit(),
            Op::Parts { exponent, mantissa } => exponent.takes_bit() || mantissa.takes_bit(),
            Op::Group { optional, .. } => *optional,
            Op::Sequence { length, .. } => length.takes_bit(),
            Op::Missing | Op::Dynamic => false,
        }
    }
}

/// A step in few bytes, for the pass through a block. Most steps are of few kinds; the rest of a
/// step is looked up only where it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quick {
    /// A mandatory uInt32: field, index of the previous value, and whether it is incremented (else
    /// copied).
    PlainU32 { field: u32, slot: u32, increments: bool },
    /// Optional constants of integer types, so many of them in a row.
    OptionalConstants(u32),
    /// A step of any other kind, found in the block itself.
    Other,
}

impl Quick {
    fn of(op: &Op) -> Quick {
        let Op::Scalar(scalar) = op else { return Quick::Other };
        let Scalar { field, ty, operator, optional, slot, .. } = scalar;
        match (operator, ty, optional) {
            (Operator::Copy | Operator::Increment, Type::U32, false) => Quick::PlainU32 {
                field: *field,
                // There are no more of them than steps.
                slot: *slot as u32,
                increments: *operator == Operator::Increment,
            },
            (Operator::Constant, _, true) if ty.is_integer() => Quick::OptionalConstants(1),
            _ => Quick::Other,
        }
    }
}

/// The steps of a block in their short form.
fn quick(ops: &[Op]) -> Vec<Quick> {
    let mut steps: Vec<Quick> = ops.iter().map(Quick::of).collect();
    let mut run = 0;
    for step in steps.iter_mut().rev() {
        run = match step {
            Quick::OptionalConstants(count) => {
                *count = run + 1;
                *count
            }
            _ => 0,
        };
    }
    steps
}

/// Compiled templates, shared by decoders and encoders.
#[derive(Clone, PartialEq, Debug)]
pub struct Templates {
    /// Templates in the order of the document.
    pub templates: Vec<TemplateInfo>,
    /// Fields of all templates; sinks are given indexes of this list.
    pub fields: Vec<FieldInfo>,
    /// Names of the fields, each once.
    pub names: Vec<Name>,
    pub(crate) blocks: Vec<Vec<Op>>,
    /// The steps of each block in their short form.
    pub(crate) quick: Vec<Vec<Quick>>,
    /// Steps of each block, those of groups in it included: what one pass through it takes at most,
    /// sequences and dynamic references in it counted once.
    pub(crate) costs: Vec<u32>,
    /// Number of previous values in all dictionaries together.
    pub(crate) slots: usize,
    /// Index of a template plus one by its identifier, for identifiers below [`DIRECT_MAX`]; 0:
    /// none.
    direct: Vec<u32>,
    by_id: BTreeMap<u32, u32>,
}

impl Templates {
    /// Compiles template XML.
    ///
    /// # Errors
    /// S1 to S5; [`Code::Limit`] for templates that are too long written out.
    pub fn from_xml(text: &str) -> Result<Templates, TemplateError> {
        Templates::compile(&xml::parse(text)?)
    }

    /// Compiles the template XML of a file that somebody else wrote: see [`xml::parse_checked`].
    ///
    /// # Errors
    /// S1 to S5, D8 for a reference that leads nowhere; [`Code::Limit`] for templates that are too
    /// large, too deep, or too long written out. Each has the line of its element or template.
    pub fn from_user_xml(text: &str) -> Result<Templates, TemplateError> {
        Templates::compile(&xml::parse_checked(text)?)
    }

    /// Compiles templates.
    ///
    /// # Errors
    /// S1 for two templates of one name or identifier; [`Code::Limit`] as above.
    pub fn compile(templates: &[Template]) -> Result<Templates, TemplateError> {
        let mut compiler = Compiler::default();
        for template in templates {
            if compiler.templates.insert(&template.name, template).is_some() {
                return Err(about(template, Code::S1, "two templates of one name"));
            }
        }
        let mut infos = Vec::new();
        for template in templates {
            let context = Context { template: &template.name, ty: None, depth: 0, nested: 0 };
            let block = compiler.block(&template.body, &context);
            let block =
                block.map_err(|code| about(template, code, "too long or too deep written out"))?;
            let (name, reset) = (template.name.clone(), template.reset);
            infos.push(TemplateInfo { name, id: template.id, reset, block });
        }
        let mut by_id = BTreeMap::new();
        let mut direct = Vec::new();
        for (index, (info, template)) in (0..).zip(infos.iter().zip(templates)) {
            let Some(id) = info.id else { continue };
            if by_id.insert(id, index).is_some() {
                return Err(about(template, Code::S1, "two templates of one identifier"));
            }
            if id < DIRECT_MAX {
                direct.resize(direct.len().max(id as usize + 1), 0);
                direct[id as usize] = index + 1;
            }
        }
        Ok(Templates {
            templates: infos,
            fields: compiler.fields,
            names: compiler.names,
            quick: compiler.blocks.iter().map(|ops| quick(ops)).collect(),
            blocks: compiler.blocks,
            costs: compiler.costs,
            slots: compiler.slots.len(),
            direct,
            by_id,
        })
    }

    /// Index of the template with this identifier; `None`: there is none.
    #[inline(always)]
    pub fn by_id(&self, id: u64) -> Option<u32> {
        match self.direct.get(usize::try_from(id).ok()?) {
            Some(0) => None,
            Some(index) => Some(index - 1),
            None => self.by_id.get(&u32::try_from(id).ok()?).copied(),
        }
    }

    /// Index of the template with this local name in any namespace; `None`: there is none.
    pub fn by_name(&self, local: &str) -> Option<u32> {
        let at = self.templates.iter().position(|template| template.name.local == local)?;
        u32::try_from(at).ok()
    }

    /// Index of the field name with this local name in any namespace; `None`: there is none.
    pub fn name(&self, local: &str) -> Option<u32> {
        let at = self.names.iter().position(|name| name.local == local)?;
        u32::try_from(at).ok()
    }
}

fn about(template: &Template, code: Code, detail: &str) -> TemplateError {
    let detail = format!("template {}: {detail}", template.name.local);
    TemplateError { code, line: template.line, detail }
}

/// Where in the templates an instruction is compiled.
#[derive(Clone)]
struct Context<'a> {
    template: &'a Name,
    ty: Option<&'a Name>,
    /// Number of static references around the instruction.
    depth: usize,
    /// Number of groups and sequences around the instruction, those of referring templates
    /// included.
    nested: usize,
}

/// Whose dictionary a previous value is in, and under which key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Template(Name),
    Type(Option<Name>),
    Global,
    User(String),
}

#[derive(Default)]
struct Compiler<'a> {
    templates: BTreeMap<&'a Name, &'a Template>,
    fields: Vec<FieldInfo>,
    /// Index of each field that has been made, by the address of its instruction.
    made: BTreeMap<*const Field, u32>,
    names: Vec<Name>,
    /// Index of each name in [`Templates::names`].
    places: BTreeMap<&'a Name, u32>,
    blocks: Vec<Vec<Op>>,
    costs: Vec<u32>,
    slots: BTreeMap<(Owner, Name), usize>,
    steps: usize,
    /// Bytes of initial values so far.
    initial_bytes: usize,
}

impl<'a> Compiler<'a> {
    fn block(&mut self, body: &'a Body, context: &Context<'a>) -> Result<usize, Code> {
        let mut ops = Vec::new();
        let context = Context { nested: context.nested + 1, ..context.clone() };
        if context.nested > DEPTH_MAX {
            return Err(Code::Limit);
        }
        self.body(body, &context, &mut ops)?;
        let inside = |op: &Op| match op {
            Op::Group { block, .. } => self.costs.get(*block).copied().unwrap_or(0),
            _ => 0,
        };
        let cost = ops.iter().fold(0, |sum: u32, op| sum.saturating_add(1 + inside(op)));
        self.blocks.push(ops);
        self.costs.push(cost);
        Ok(self.blocks.len() - 1)
    }

    fn body(
        &mut self,
        body: &'a Body,
        context: &Context<'a>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Code> {
        let mut context = context.clone();
        context.ty = body.type_ref.as_ref().or(context.ty);
        for instruction in &body.instructions {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(Code::Limit);
            }
            match instruction {
                Instruction::Field(field) => {
                    let op = self.field(field, &context)?;
                    ops.push(op);
                }
                Instruction::Dynamic => ops.push(Op::Dynamic),
                Instruction::Static(name) => match self.templates.get(name).copied() {
                    None => ops.push(Op::Missing),
                    Some(template) => {
                        if context.depth == DEPTH_MAX {
                            return Err(Code::Limit);
                        }
                        let mut inside = context.clone();
                        inside.template = &template.name;
                        inside.depth += 1;
                        self.body(&template.body, &inside, ops)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &'a Field, context: &Context<'a>) -> Result<Op, Code> {
        let index = self.info(field);
        Ok(match &field.content {
            Content::Primitive(primitive) => {
                let key = field.name.clone();
                let (ty, operation) = (primitive.ty, &primitive.operation);
                Op::Scalar(self.scalar(index, ty, operation, field.optional, key, context)?)
            }
            Content::Parts { exponent, mantissa } => {
                let key = |part: &str| derived(&field.name, part);
                let optional = field.optional;
                let exponent =
                    self.scalar(index, Type::I32, exponent, optional, key("exponent"), context)?;
                let mantissa =
                    self.scalar(index, Type::I64, mantissa, false, key("mantissa"), context)?;
                Op::Parts { exponent, mantissa }
            }
            Content::Group(body) => {
                let block = self.block(body, context)?;
                let map = self.blocks[block].iter().any(Op::takes_bit);
                Op::Group { field: index, optional: field.optional, map, block }
            }
            Content::Sequence { length_name, length, body } => {
                let key = length_name.clone().unwrap_or_else(|| derived(&field.name, "length"));
                let length = self.scalar(index, Type::U32, length, field.optional, key, context)?;
                let block = self.block(body, context)?;
                let map = self.blocks[block].iter().any(Op::takes_bit);
                Op::Sequence { field: index, length, map, block }
            }
        })
    }

    fn info(&mut self, field: &'a Field) -> u32 {
        let place: *const Field = field;
        if let Some(&index) = self.made.get(&place) {
            return index;
        }
        let free = self.names.len() as u32;
        let name_index = *self.places.entry(&field.name).or_insert(free);
        if name_index == free {
            self.names.push(field.name.clone());
        }
        let kind = match &field.content {
            Content::Primitive(primitive) => Kind::Primitive(primitive.ty),
            Content::Parts { .. } => Kind::Primitive(Type::Decimal),
            Content::Group(_) => Kind::Group,
            Content::Sequence { .. } => Kind::Sequence,
        };
        let index = self.fields.len() as u32;
        let (name, id, optional) = (field.name.clone(), field.id.clone(), field.optional);
        self.fields.push(FieldInfo { name, name_index, id, kind, optional });
        self.made.insert(place, index);
        index
    }

    fn scalar(
        &mut self,
        field: u32,
        ty: Type,
        operation: &Operation,
        optional: bool,
        key: Name,
        context: &Context<'a>,
    ) -> Result<Scalar, Code> {
        let owner = match &operation.dictionary {
            Dictionary::Template => Owner::Template(context.template.clone()),
            Dictionary::Type => Owner::Type(context.ty.cloned()),
            Dictionary::Global => Owner::Global,
            Dictionary::User(name) => Owner::User(name.clone()),
        };
        let previous = matches!(
            operation.operator,
            Operator::Copy | Operator::Increment | Operator::Delta | Operator::Tail
        );
        let slot = if previous {
            let free = self.slots.len();
            let key = operation.key.clone().unwrap_or(key);
            *self.slots.entry((owner, key)).or_insert(free)
        } else {
            0
        };
        let initial = operation.initial.as_ref();
        let bits = initial.and_then(|value| value.as_value().integer());
        let bits = bits.map(|value| value as u64);
        let initial = Initial::of(initial);
        if let Initial::Text(text) = &initial {
            self.initial_bytes += text.len();
            if self.initial_bytes > INITIAL_BYTES_MAX {
                return Err(Code::Limit);
            }
        }
        Ok(Scalar { field, ty, operator: operation.operator, optional, slot, initial, bits })
    }
}

/// Name of a part of a field (exponent, mantissa, length); no template can use such a name.
fn derived(name: &Name, part: &str) -> Name {
    Name { ns: name.ns.clone(), local: format!("{}\0{part}", name.local) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::NAMESPACE;

    #[test]
    fn dictionaries_decide_which_fields_share_a_previous_value() {
        let field = |dictionary: &str| format!("<uInt32 name='n'><copy {dictionary}/></uInt32>");
        let slots = |one: &str, other: &str| {
            let text = format!(
                "<templates xmlns='{NAMESPACE}'>\
                   <template name='a'><typeRef name='A'/>{}</template>\
                   <template name='b'><typeRef name='B'/>{}</template>\
                   <template name='c'><typeRef name='A'/>{}</template></templates>",
                field(one),
                field(other),
                field(other)
            );
            Templates::from_xml(&text).unwrap().slots
        };
        assert_eq!(slots("", ""), 1);
        assert_eq!(slots("dictionary='template'", "dictionary='template'"), 3);
        assert_eq!(slots("dictionary='type'", "dictionary='type'"), 2);
        assert_eq!(slots("dictionary='x'", "dictionary='x'"), 1);
        assert_eq!(slots("dictionary='x'", "dictionary='y'"), 2);
        assert_eq!(slots("key='k'", ""), 2);
    }

    #[test]
    fn endless_references_are_refused() {
        let text = |refs: &str| {
            format!(
                "<templates xmlns='{NAMESPACE}'><template name='a' id='1'>{refs}</template></templates>"
            )
        };
        let error = Templates::from_xml(&text("<templateRef name='a'/>")).unwrap_err();
        assert_eq!(error.code, Code::Limit);
        let missing = Templates::from_xml(&text("<templateRef name='b'/>")).unwrap();
        assert_eq!(missing.blocks, [vec![Op::Missing]]);
        assert_eq!((missing.by_id(1), missing.by_id(2)), (Some(0), None));
    }

    #[test]
    fn wide_trees_of_references_are_refused() {
        let mut text = format!("<templates xmlns='{NAMESPACE}'>");
        for at in 0..20 {
            let next = format!("<templateRef name='t{}'/>", at + 1).repeat(4);
            text += &format!("<template name='t{at}'>{next}</template>");
        }
        text += "<template name='t20'><uInt32 name='n'/></template></templates>";
        assert_eq!(Templates::from_xml(&text).unwrap_err().code, Code::Limit);
    }
}
