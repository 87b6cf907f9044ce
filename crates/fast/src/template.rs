//! Templates as their XML has them: names, instructions, operators, dictionaries (FAST 1.1, §6,
//! §7).

use crate::value::{Owned, Type};

/// A name with its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Name {
    /// URI of the namespace; empty where none is given.
    pub ns: String,
    /// The name within its namespace.
    pub local: String,
}

/// What an operator does with the value of its field (§6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// No operator: the value is always in the stream.
    None,
    /// The value is the initial value and never in the stream.
    Constant,
    /// The value is the initial value unless one is in the stream.
    Default,
    /// The value is the previous value unless one is in the stream.
    Copy,
    /// The value is the previous value plus one unless one is in the stream.
    Increment,
    /// The stream has the difference from the previous value.
    Delta,
    /// The stream may have the end of the string; the rest is that of the previous value.
    Tail,
}

/// Where previous values are kept (§6.3.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dictionary {
    /// One dictionary for each template.
    Template,
    /// One for each application type.
    Type,
    /// One dictionary for all templates.
    Global,
    /// A dictionary of its own, shared by all operators that give this name.
    User(String),
}

/// An operator with its dictionary, key and initial value.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The operator (§6.3).
    pub operator: Operator,
    /// Dictionary that has the previous value.
    pub dictionary: Dictionary,
    /// Key of the previous value in the dictionary; `None`: the name of the field.
    pub key: Option<Name>,
    /// Initial value, of the field's type, normalized; `None`: there is none.
    pub initial: Option<Owned>,
}

impl Operation {
    /// The operation of a field without an operator.
    pub fn none() -> Operation {
        Operation {
            operator: Operator::None,
            dictionary: Dictionary::Global,
            key: None,
            initial: None,
        }
    }
}

/// A primitive field: one value of one type.
#[derive(Clone, PartialEq, Debug)]
pub struct Primitive {
    /// Type of the field's values.
    pub ty: Type,
    /// Operator of the field, with its context.
    pub operation: Operation,
}

/// What a field of a template contains.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// One value of a primitive type.
    Primitive(Primitive),
    /// A decimal whose parts have operators of their own.
    Parts {
        /// Operation of the exponent, an int32.
        exponent: Operation,
        /// Operation of the mantissa, an int64.
        mantissa: Operation,
    },
    /// Several fields, present or absent together.
    Group(Body),
    /// Several fields, repeated a number of times.
    Sequence {
        /// Name of the length field, where it has one.
        length_name: Option<Name>,
        /// Operation of the length field, a uInt32.
        length: Operation,
        /// The fields of each element.
        body: Body,
    },
}

/// The instructions of a template, a group or a sequence.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Body {
    /// Application type (typeRef) from here on; `None`: none is given.
    pub type_ref: Option<Name>,
    /// Instructions in the order of the stream.
    pub instructions: Vec<Instruction>,
}

/// A field of a template.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name of the field, with its namespace.
    pub name: Name,
    /// Auxiliary identifier (the XML attribute `id`); `None`: it has none.
    pub id: Option<String>,
    /// Whether the field may be absent.
    pub optional: bool,
    /// Type and operator, or the fields inside.
    pub content: Content,
}

/// One step of a template.
#[derive(Clone, PartialEq, Debug)]
pub enum Instruction {
    /// A field, group or sequence.
    Field(Box<Field>),
    /// A static reference: the instructions of another template.
    Static(Name),
    /// A dynamic reference: a template that the stream names.
    Dynamic,
}

/// A template as its XML defines it.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    /// Name of the template, with its namespace.
    pub name: Name,
    /// Template identifier: the auxiliary one, where it is a number.
    pub id: Option<u32>,
    /// Whether dictionaries are reset before a message of it (session control protocol 1.1).
    pub reset: bool,
    /// Line of the XML text at which the template begins, from 1; 0: it was not made from text.
    pub line: u32,
    /// Application type and instructions of the template.
    pub body: Body,
}
