//! Templates as they are written: names, instructions, operators, dictionaries (FAST 1.1, §6, §7).

use crate::value::{Owned, Type};

/// A name with its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Name {
    /// URI, empty where none is given.
    pub ns: String,
    /// Local name.
    pub local: String,
}

/// What an operator does with the value of its field (§6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// Always in the stream.
    None,
    /// Never in the stream.
    Constant,
    /// The initial value unless in the stream.
    Default,
    /// The previous value unless in the stream.
    Copy,
    /// One more than the previous value unless in the stream.
    Increment,
    /// The difference is in the stream.
    Delta,
    /// The end of the string may be in the stream.
    Tail,
}

/// Where previous values are kept (§6.3.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dictionary {
    /// One for each template.
    Template,
    /// One for each application type.
    Type,
    /// One for all.
    Global,
    /// One with a name.
    User(String),
}

/// An operator with its context.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// What it does.
    pub operator: Operator,
    /// Where its previous value is.
    pub dictionary: Dictionary,
    /// Under which key; by default the name of the field.
    pub key: Option<Name>,
    /// Its initial value, of the field's type, normalized.
    pub initial: Option<Owned>,
}

impl Operation {
    /// That of a field without an operator.
    pub fn none() -> Operation {
        Operation {
            operator: Operator::None,
            dictionary: Dictionary::Global,
            key: None,
            initial: None,
        }
    }
}

/// A primitive field.
#[derive(Clone, PartialEq, Debug)]
pub struct Primitive {
    /// Its type.
    pub ty: Type,
    /// Its operator.
    pub operation: Operation,
}

/// What a field holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// One value.
    Primitive(Primitive),
    /// A decimal whose parts have operators of their own.
    Parts {
        /// Of the exponent, an int32.
        exponent: Operation,
        /// Of the mantissa, an int64.
        mantissa: Operation,
    },
    /// Several fields.
    Group(Body),
    /// Several fields, several times.
    Sequence {
        /// Name of the length field, where it has one.
        length_name: Option<Name>,
        /// Operator of the length field, a uInt32.
        length: Operation,
        /// What is repeated.
        body: Body,
    },
}

/// The inside of a template, a group or a sequence.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Body {
    /// Application type from here on.
    pub type_ref: Option<Name>,
    /// In the order of the stream.
    pub instructions: Vec<Instruction>,
}

/// A field and its name.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Auxiliary identifier.
    pub id: Option<String>,
    /// Whether it may be absent.
    pub optional: bool,
    /// Type and operator.
    pub content: Content,
}

/// One step of a template.
#[derive(Clone, PartialEq, Debug)]
pub enum Instruction {
    /// A field.
    Field(Box<Field>),
    /// Goes on with another template.
    Static(Name),
    /// Goes on with the template that the stream names.
    Dynamic,
}

/// A template.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    /// Its name.
    pub name: Name,
    /// Template identifier: the auxiliary one, where it is a number.
    pub id: Option<u32>,
    /// Dictionaries are reset when a message of it comes (session control protocol 1.1).
    pub reset: bool,
    /// Line of the XML text where it begins, from 1; 0 where there is no text.
    pub line: u32,
    /// What it consists of.
    pub body: Body,
}
