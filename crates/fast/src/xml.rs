//! Template XML to [`Template`]s, checked against the schema of FAST 1.1, appendix 1.
//!
//! Elements and attributes of other namespaces are ignored, as §9 has it; anything unknown in the
//! specification's own namespace is S1.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};

use crate::convert::from_string;
use crate::error::{Code, TemplateError};
use crate::template::{
    Body, Content, Dictionary, Field, Instruction, Name, Operation, Operator, Primitive, Template,
};
use crate::value::{Owned, Type};

/// Namespace of template definitions (FAST 1.1).
pub const NAMESPACE: &str = "http://www.fixprotocol.org/ns/fast/td/1.1";
/// Namespace of the session control protocol, whose `reset` attribute is understood.
pub const CONTROL: &str = "http://www.fixprotocol.org/ns/fast/scp/1.1";
/// Deepest nesting of groups and sequences.
const DEPTH_MAX: u32 = 32;
/// Longest document, bytes.
pub const TEXT_MAX: usize = 4 << 20;
/// Most elements, texts and comments of a document.
const NODES_MAX: u32 = 1 << 16;
/// Longest name, namespace or identifier, bytes; every element inside inherits them.
const NAME_MAX: usize = 256;

type Parsed<T> = Result<T, TemplateError>;

/// Attributes that an element inherits from those around it.
#[derive(Clone)]
struct Scope {
    ns: String,
    template_ns: String,
    dictionary: Dictionary,
    depth: u32,
}

/// Reads a document with one template or several.
///
/// # Errors
/// S1 to S5; [`Code::Limit`] for more than [`TEXT_MAX`] bytes, too many elements, or too deep ones.
pub fn parse(text: &str) -> Parsed<Vec<Template>> {
    read(&document(text)?)
}

/// As [`parse`], and for a file that somebody else wrote: a reference to a template that the document
/// lacks is D8 here and not when a stream reaches it, an element of no namespace is S1 and not passed
/// over, and so is a document of which no template has an identifier, since no message could be of it.
///
/// # Errors
/// Those of [`parse`], and these.
pub fn parse_checked(text: &str) -> Parsed<Vec<Template>> {
    let document = document(text)?;
    let templates = read(&document)?;
    let names: BTreeSet<&Name> = templates.iter().map(|template| &template.name).collect();
    let elements = document.descendants().filter(Node::is_element);
    for node in elements {
        if node.tag_name().namespace().is_none_or(str::is_empty) {
            return Err(wrong(node, Code::S1, "of no namespace"));
        }
        let Some(target) = node.attribute("name").filter(|_| kind(node) == Some("templateRef"))
        else {
            continue;
        };
        let ns = node.ancestors().find_map(|around| around.attribute("templateNs")).unwrap_or("");
        let name = Name { ns: ns.to_string(), local: target.trim().to_string() };
        if !names.contains(&name) {
            return Err(wrong(node, Code::D8, &format!("no template {target:?}")));
        }
    }
    if templates.iter().all(|template| template.id.is_none()) {
        let root = document.root_element();
        return Err(wrong(root, Code::S1, "no template has an id, a number below 2^32"));
    }
    Ok(templates)
}

fn document(text: &str) -> Parsed<Document<'_>> {
    if text.len() > TEXT_MAX {
        let detail = format!("{} bytes, more than {TEXT_MAX}", text.len());
        return Err(TemplateError { code: Code::Limit, line: 1, detail });
    }
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| {
        let code = match error {
            roxmltree::Error::NodesLimitReached => Code::Limit,
            _ => Code::S1,
        };
        TemplateError { code, line: error.pos().row, detail: error.to_string() }
    })
}

fn read(document: &Document<'_>) -> Parsed<Vec<Template>> {
    let root = document.root_element();
    let ends: Vec<usize> = document.input_text().match_indices('\n').map(|(at, _)| at).collect();
    let template = |node: Node<'_, '_>, scope: &Scope| {
        let line = ends.partition_point(|end| *end < node.range().start) + 1;
        template(node, scope, line as u32)
    };
    let scope = Scope {
        ns: String::new(),
        template_ns: String::new(),
        dictionary: Dictionary::Global,
        depth: 0,
    };
    match kind(root) {
        Some("templates") => {
            attributes(root, &["ns", "templateNs", "dictionary"])?;
            let scope = inner(root, &scope)?;
            children(root)?.into_iter().map(|node| template(node, &scope)).collect()
        }
        Some("template") => Ok(vec![template(root, &scope)?]),
        _ => {
            let detail = format!("neither templates nor template of the namespace {NAMESPACE}");
            Err(wrong(root, Code::S1, &detail))
        }
    }
}

fn wrong(node: Node<'_, '_>, code: Code, detail: &str) -> TemplateError {
    let line = node.document().text_pos_at(node.range().start).row;
    let name = node.tag_name().name();
    TemplateError { code, line, detail: format!("<{name}>: {detail}") }
}

/// Local name of an element in the namespace of template definitions; `None`: another namespace.
fn kind<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    (node.tag_name().namespace() == Some(NAMESPACE)).then(|| node.tag_name().name())
}

/// Child elements in the namespace of template definitions.
fn children<'a, 'b>(node: Node<'a, 'b>) -> Parsed<Vec<Node<'a, 'b>>> {
    let text = |child: Node<'_, '_>| {
        child.is_text() && child.text().is_some_and(|text| !text.trim().is_empty())
    };
    if node.children().any(text) {
        return Err(wrong(node, Code::S1, "text inside"));
    }
    let ours = |child: &Node<'_, '_>| child.is_element() && kind(*child).is_some();
    Ok(node.children().filter(ours).collect())
}

/// Checks that an element has no other attributes without a namespace than those known.
fn attributes(node: Node<'_, '_>, known: &[&str]) -> Parsed<()> {
    for attribute in node.attributes() {
        let strange = match attribute.namespace() {
            None => !known.contains(&attribute.name()),
            Some(namespace) => namespace == NAMESPACE,
        };
        if strange {
            return Err(wrong(node, Code::S1, &format!("attribute {}", attribute.name())));
        }
        if attribute.name() != "value" && attribute.value().len() > NAME_MAX {
            let detail = format!("attribute {} of more than {NAME_MAX} bytes", attribute.name());
            return Err(wrong(node, Code::Limit, &detail));
        }
    }
    Ok(())
}

fn dictionary(name: &str) -> Dictionary {
    match name {
        "template" => Dictionary::Template,
        "type" => Dictionary::Type,
        "global" => Dictionary::Global,
        other => Dictionary::User(other.to_string()),
    }
}

/// The scope of the elements inside `node`.
fn inner(node: Node<'_, '_>, outer: &Scope) -> Parsed<Scope> {
    let mut scope = outer.clone();
    if let Some(ns) = node.attribute("ns") {
        scope.ns = ns.to_string();
    }
    if let Some(ns) = node.attribute("templateNs") {
        scope.template_ns = ns.to_string();
    }
    if let Some(name) = node.attribute("dictionary") {
        scope.dictionary = dictionary(name);
    }
    scope.depth += 1;
    if scope.depth > DEPTH_MAX {
        return Err(wrong(node, Code::Limit, "nested too deeply"));
    }
    Ok(scope)
}

fn local(node: Node<'_, '_>) -> Parsed<String> {
    let name = node.attribute("name").map(str::trim).filter(|name| !name.is_empty());
    name.map(str::to_string).ok_or_else(|| wrong(node, Code::S1, "no name"))
}

fn template(node: Node<'_, '_>, outer: &Scope, line: u32) -> Parsed<Template> {
    if kind(node) != Some("template") {
        return Err(wrong(node, Code::S1, "not a template"));
    }
    attributes(node, &["name", "templateNs", "id", "ns", "dictionary"])?;
    let scope = inner(node, outer)?;
    let reset = node.attribute((CONTROL, "reset"));
    Ok(Template {
        name: Name { ns: scope.template_ns.clone(), local: local(node)? },
        id: node.attribute("id").and_then(|id| id.trim().parse().ok()),
        reset: reset.is_some_and(|word| ["yes", "true", "T", "Y"].contains(&word)),
        line,
        body: body(node, &children(node)?, &scope)?,
    })
}

/// A type reference, if there is one, and the instructions.
fn body(node: Node<'_, '_>, inside: &[Node<'_, '_>], scope: &Scope) -> Parsed<Body> {
    let (type_ref, rest) = match inside.split_first() {
        Some((first, rest)) if kind(*first) == Some("typeRef") => {
            attributes(*first, &["name", "ns"])?;
            let ns = first.attribute("ns").unwrap_or(&scope.ns).to_string();
            (Some(Name { ns, local: local(*first)? }), rest)
        }
        _ => (None, inside),
    };
    let instructions = rest.iter().map(|child| instruction(*child, scope));
    let instructions: Vec<Instruction> = instructions.collect::<Parsed<_>>()?;
    let names: Vec<&Name> = instructions
        .iter()
        .filter_map(|instruction| match instruction {
            Instruction::Field(field) => Some(&field.name),
            _ => None,
        })
        .collect();
    // §5: a field's name is unique within its group.
    let mut sorted = names.clone();
    sorted.sort();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(wrong(node, Code::S1, "two fields of one name"));
    }
    Ok(Body { type_ref, instructions })
}

fn instruction(node: Node<'_, '_>, scope: &Scope) -> Parsed<Instruction> {
    let ty = match kind(node).unwrap_or("") {
        "int32" => Type::I32,
        "uInt32" => Type::U32,
        "int64" => Type::I64,
        "uInt64" => Type::U64,
        "decimal" => return field(node, scope, &[], decimal),
        "string" => match node.attribute("charset").unwrap_or("ascii") {
            "ascii" => Type::Ascii,
            "unicode" => Type::Unicode,
            _ => return Err(wrong(node, Code::S1, "charset")),
        },
        "byteVector" => Type::Bytes,
        "sequence" => return field(node, scope, &["dictionary"], sequence),
        "group" => return field(node, scope, &["dictionary"], group),
        "templateRef" => return reference(node, scope),
        _ => return Err(wrong(node, Code::S1, "not an instruction")),
    };
    let known: &[&str] = if node.tag_name().name() == "string" { &["charset"] } else { &[] };
    field(node, scope, known, |node, scope, optional| {
        let mut inside = children(node)?;
        let sized = matches!(ty, Type::Unicode | Type::Bytes);
        if sized && inside.first().is_some_and(|first| kind(*first) == Some("length")) {
            let length = inside.remove(0);
            attributes(length, &["name", "ns", "id"])?;
            local(length)?;
        }
        let operation = one_operation(node, &inside, scope, ty, optional)?;
        Ok(Content::Primitive(Primitive { ty, operation }))
    })
}

fn reference(node: Node<'_, '_>, scope: &Scope) -> Parsed<Instruction> {
    attributes(node, &["name", "templateNs"])?;
    if !children(node)?.is_empty() {
        return Err(wrong(node, Code::S1, "elements inside"));
    }
    if node.attribute("name").is_none() {
        return Ok(Instruction::Dynamic);
    }
    let ns = node.attribute("templateNs").unwrap_or(&scope.template_ns).to_string();
    Ok(Instruction::Static(Name { ns, local: local(node)? }))
}

/// Reads name, identifier and presence of a field; `content` reads the rest.
fn field(
    node: Node<'_, '_>,
    scope: &Scope,
    more: &[&str],
    content: impl Fn(Node<'_, '_>, &Scope, bool) -> Parsed<Content>,
) -> Parsed<Instruction> {
    let known: Vec<&str> = ["name", "ns", "id", "presence"].iter().chain(more).copied().collect();
    attributes(node, &known)?;
    let optional = match node.attribute("presence") {
        None | Some("mandatory") => false,
        Some("optional") => true,
        Some(_) => return Err(wrong(node, Code::S1, "presence")),
    };
    let scope = inner(node, scope)?;
    Ok(Instruction::Field(Box::new(Field {
        name: Name { ns: scope.ns.clone(), local: local(node)? },
        id: node.attribute("id").map(str::to_string),
        optional,
        content: content(node, &scope, optional)?,
    })))
}

fn decimal(node: Node<'_, '_>, scope: &Scope, optional: bool) -> Parsed<Content> {
    let inside = children(node)?;
    let part = |name: &str| inside.iter().find(|child| kind(**child) == Some(name)).copied();
    let (exponent, mantissa) = (part("exponent"), part("mantissa"));
    if exponent.is_none() && mantissa.is_none() {
        let operation = one_operation(node, &inside, scope, Type::Decimal, optional)?;
        return Ok(Content::Primitive(Primitive { ty: Type::Decimal, operation }));
    }
    if inside.len() != usize::from(exponent.is_some()) + usize::from(mantissa.is_some()) {
        return Err(wrong(node, Code::S1, "more than exponent and mantissa"));
    }
    let operation = |part: Option<Node<'_, '_>>, ty, optional| match part {
        None => Ok(Operation::none()),
        Some(part) => {
            attributes(part, &[])?;
            one_operation(part, &children(part)?, scope, ty, optional)
        }
    };
    Ok(Content::Parts {
        exponent: operation(exponent, Type::I32, optional)?,
        mantissa: operation(mantissa, Type::I64, false)?,
    })
}

fn group(node: Node<'_, '_>, scope: &Scope, _optional: bool) -> Parsed<Content> {
    Ok(Content::Group(body(node, &children(node)?, scope)?))
}

fn sequence(node: Node<'_, '_>, scope: &Scope, optional: bool) -> Parsed<Content> {
    let mut inside = children(node)?;
    let is_length = |child: &Node<'_, '_>| kind(*child) == Some("length");
    // After a type reference at most.
    let (mut length, mut length_name) = (Operation::none(), None);
    if let Some(at) = inside.iter().take(2).position(is_length) {
        let child = inside.remove(at);
        attributes(child, &["name", "ns", "id"])?;
        if child.attribute("name").is_some() {
            let ns = child.attribute("ns").unwrap_or(&scope.ns).to_string();
            length_name = Some(Name { ns, local: local(child)? });
        }
        length = one_operation(child, &children(child)?, scope, Type::U32, optional)?;
    }
    Ok(Content::Sequence { length_name, length, body: body(node, &inside, scope)? })
}

/// The operator among `inside`, which may hold nothing else.
fn one_operation(
    node: Node<'_, '_>,
    inside: &[Node<'_, '_>],
    scope: &Scope,
    ty: Type,
    optional: bool,
) -> Parsed<Operation> {
    match inside {
        [] => Ok(Operation::none()),
        [one] => operation(*one, scope, ty, optional),
        _ => Err(wrong(node, Code::S1, "more than one operator")),
    }
}

fn operation(node: Node<'_, '_>, scope: &Scope, ty: Type, optional: bool) -> Parsed<Operation> {
    let operator = match kind(node).unwrap_or("") {
        "constant" => Operator::Constant,
        "default" => Operator::Default,
        "copy" => Operator::Copy,
        "increment" => Operator::Increment,
        "delta" => Operator::Delta,
        "tail" => Operator::Tail,
        _ => return Err(wrong(node, Code::S1, "not an operator")),
    };
    let known: &[&str] = match operator {
        Operator::Constant | Operator::Default => &["value"],
        _ => &["value", "key", "ns", "dictionary"],
    };
    attributes(node, known)?;
    if !children(node)?.is_empty() {
        return Err(wrong(node, Code::S1, "elements inside"));
    }
    let applicable = match operator {
        Operator::Increment => ty.is_integer(),
        Operator::Tail => ty.is_text(),
        _ => true,
    };
    if !applicable {
        return Err(wrong(node, Code::S2, "for this type"));
    }
    let initial = match node.attribute("value") {
        Some(text) => Some(initial(text, ty).map_err(|why| wrong(node, Code::S3, why.text()))?),
        None if operator == Operator::Constant => return Err(wrong(node, Code::S4, "no value")),
        None if operator == Operator::Default && !optional => {
            return Err(wrong(node, Code::S5, "no value"));
        }
        None => None,
    };
    let key = node.attribute("key").map(|key| Name {
        ns: node.attribute("ns").unwrap_or(&scope.ns).to_string(),
        local: key.trim().to_string(),
    });
    let named = node.attribute("dictionary").map(dictionary);
    let dictionary = named.unwrap_or_else(|| scope.dictionary.clone());
    Ok(Operation { operator, dictionary, key, initial })
}

/// Reads an initial value; decimals are normalized (§6.3.2).
fn initial(text: &str, ty: Type) -> Result<Owned, Code> {
    match from_string(text, ty)? {
        Owned::Decimal(value) => {
            let value = value.normalized();
            if value.is_valid() { Ok(Owned::Decimal(value)) } else { Err(Code::R1) }
        }
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(inside: &str) -> Option<Code> {
        let text = format!("<template xmlns='{NAMESPACE}' name='t'>{inside}</template>");
        parse(&text).err().map(|error| error.code)
    }

    #[test]
    fn static_errors_have_their_codes() {
        let number = |operator: &str| code(&format!("<uInt32 name='n'>{operator}</uInt32>"));
        assert_eq!(parse("<template").unwrap_err().code, Code::S1);
        assert_eq!(parse("<template name='t'/>").unwrap_err().code, Code::S1);
        for inside in [
            "<uInt32/>",
            "<uInt32 name='n' colour='red'/>",
            "<uInt32 name='n' presence='maybe'/>",
            "<uInt33 name='n'/>",
            "<uInt32 name='n'><copy/><copy/></uInt32>",
            "<uInt32 name='n'/><uInt32 name='n'/>",
            "<string name='n' charset='ebcdic'/>",
            "<templateRef name='t'><copy/></templateRef>",
            "words",
        ] {
            assert_eq!(code(inside), Some(Code::S1), "{inside}");
        }
        assert_eq!(number("<tail/>"), Some(Code::S2));
        assert_eq!(code("<string name='s'><increment/></string>"), Some(Code::S2));
        assert_eq!(code("<decimal name='d'><tail/></decimal>"), Some(Code::S2));
        assert_eq!(number("<copy value='-1'/>"), Some(Code::S3));
        assert_eq!(number("<copy value='4294967296'/>"), Some(Code::S3));
        assert_eq!(number("<constant/>"), Some(Code::S4));
        assert_eq!(number("<default/>"), Some(Code::S5));
        assert_eq!(code("<uInt32 name='n' presence='optional'><default/></uInt32>"), None);
        assert_eq!(
            code("<x:y xmlns:x='z' q='1'>anything</x:y><uInt32 name='n' x:c='1' xmlns:x='z'/>"),
            None
        );
        let deep = format!("{}{}", "<group name='g'>".repeat(60), "</group>".repeat(60));
        assert_eq!(code(&deep), Some(Code::Limit));
    }

    #[test]
    fn names_keys_and_dictionaries_are_inherited() {
        let text = format!(
            "<templates xmlns='{NAMESPACE}' ns='urn:a' templateNs='urn:t' dictionary='d'>\
               <template name='t' id='7'><typeRef name='T'/>\
                 <uInt32 name='a'><copy key='k' ns='urn:k' value='5'/></uInt32>\
                 <group name='g' ns='urn:g' dictionary='template'>\
                   <decimal name='b'><exponent><default value='-2'/></exponent>\
                     <mantissa><delta/></mantissa></decimal></group>\
               </template></templates>"
        );
        let templates = parse(&text).unwrap();
        let [template] = templates.as_slice() else { panic!("{templates:?}") };
        assert_eq!((template.id, template.name.ns.as_str()), (Some(7), "urn:t"));
        let Instruction::Field(a) = &template.body.instructions[0] else { panic!() };
        assert_eq!(a.name, Name { ns: "urn:a".into(), local: "a".into() });
        let Content::Primitive(primitive) = &a.content else { panic!() };
        assert_eq!(primitive.operation.dictionary, Dictionary::User("d".into()));
        let key = Name { ns: "urn:k".into(), local: "k".into() };
        assert_eq!(primitive.operation.key, Some(key));
        let Instruction::Field(g) = &template.body.instructions[1] else { panic!() };
        let Content::Group(body) = &g.content else { panic!() };
        let Instruction::Field(b) = &body.instructions[0] else { panic!() };
        assert_eq!(b.name.ns, "urn:g");
        let Content::Parts { exponent, mantissa } = &b.content else { panic!() };
        assert_eq!(exponent.initial, Some(Owned::I32(-2)));
        assert_eq!(mantissa.dictionary, Dictionary::Template);
    }
}
