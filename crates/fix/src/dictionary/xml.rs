//! Reads dictionaries in QuickFIX's XML format.

use std::collections::BTreeMap;
use std::sync::Arc;

use roxmltree::{Document, Node, ParsingOptions};

use super::{Block, DEPTH_MAX, Dictionary, DictionaryError, FieldDef, Kind, Member, MessageDef};

/// Most elements of a file; the largest published dictionary has 26,000 lines.
const NODES_MAX: u32 = 1_000_000;

struct Reader<'a, 'input> {
    numbers: BTreeMap<&'a str, u32>,
    components: BTreeMap<&'a str, Node<'a, 'input>>,
    document: &'a Document<'input>,
    /// Groups that have been read, by tag of their count, because components use the same group
    /// many times.
    groups: BTreeMap<u32, Arc<Block>>,
    /// Number of members that may still be added; components within components could otherwise grow
    /// without bound.
    budget: usize,
}

/// Reads the text of one XML file.
pub(super) fn read(text: &str) -> Result<Dictionary, DictionaryError> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        DictionaryError { line: error.pos().row as usize, what: error.to_string() }
    })?;
    let root = document.root_element();
    let mut dictionary = Dictionary { name: name(root), ..Dictionary::default() };
    let section = |name: &str| root.children().find(|node| node.has_tag_name(name));
    let mut reader = Reader {
        numbers: BTreeMap::new(),
        components: BTreeMap::new(),
        document: &document,
        groups: BTreeMap::new(),
        budget: 4_000_000,
    };
    for node in elements(section("fields")) {
        let field = reader.field(node)?;
        reader.numbers.insert(attribute(node, "name").unwrap_or(""), field.tag);
        dictionary.fields.insert(field.tag, field);
    }
    for node in elements(section("components")) {
        reader.components.insert(reader.required(node, "name")?, node);
    }
    for (part, block) in [("header", &mut dictionary.header), ("trailer", &mut dictionary.trailer)]
    {
        if let Some(node) = section(part) {
            reader.block(node, true, block, 0)?;
        }
    }
    for node in elements(section("messages")) {
        let msg_type = reader.required(node, "msgtype")?.to_string();
        let mut message = MessageDef {
            msg_type: msg_type.clone(),
            name: attribute(node, "name").unwrap_or("").to_string(),
            admin: attribute(node, "msgcat") == Some("admin"),
            note: String::new(),
            body: Block::default(),
        };
        reader.block(node, true, &mut message.body, 0)?;
        dictionary.messages.insert(msg_type.into_bytes(), message);
    }
    dictionary.index()
}

/// Name of the version that the file defines, such as `FIX.4.4`, `FIXT.1.1` or `FIX.5.0SP2`.
fn name(root: Node<'_, '_>) -> String {
    let part = |name| attribute(root, name).unwrap_or("0");
    let kind = attribute(root, "type").unwrap_or("FIX");
    let pack = match part("servicepack") {
        "0" => String::new(),
        pack => format!("SP{pack}"),
    };
    format!("{kind}.{}.{}{pack}", part("major"), part("minor"))
}

fn elements<'a, 'input>(node: Option<Node<'a, 'input>>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.into_iter().flat_map(|node| node.children()).filter(|node| node.is_element())
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attribute(name)
}

impl<'a, 'input> Reader<'a, 'input> {
    fn error(&self, node: Node<'_, '_>, what: String) -> DictionaryError {
        let line = self.document.text_pos_at(node.range().start).row as usize;
        DictionaryError { line, what }
    }

    fn required(&self, node: Node<'a, '_>, name: &str) -> Result<&'a str, DictionaryError> {
        attribute(node, name).ok_or_else(|| self.error(node, format!("no attribute {name}")))
    }

    fn field(&self, node: Node<'a, 'input>) -> Result<FieldDef, DictionaryError> {
        let number = self.required(node, "number")?;
        let tag = number.parse::<u32>().ok().filter(|tag| (1..=super::TAG_MAX).contains(tag));
        let tag = tag.ok_or_else(|| self.error(node, format!("{number} is no tag")))?;
        let type_name = self.required(node, "type")?.to_ascii_uppercase();
        let mut field = FieldDef {
            tag,
            name: self.required(node, "name")?.to_string(),
            kind: Kind::of(&type_name),
            type_name,
            values: Vec::new(),
        };
        let open = attribute(node, "allowOtherValues") == Some("Y");
        for value in elements(Some(node)).filter(|value| !open && value.has_tag_name("value")) {
            let code = self.required(value, "enum")?.to_string();
            let meaning = attribute(value, "description").unwrap_or("").to_string();
            field.values.push((code, meaning));
        }
        Ok(field)
    }

    /// Adds the fields under `node` to `block`; the fields of a component are added in its place.
    fn block(
        &mut self,
        node: Node<'a, 'input>,
        required: bool,
        block: &mut Block,
        depth: usize,
    ) -> Result<(), DictionaryError> {
        if depth > DEPTH_MAX {
            return Err(self.error(node, "components nested too deep".to_string()));
        }
        for child in elements(Some(node)) {
            self.budget = self
                .budget
                .checked_sub(1)
                .ok_or_else(|| self.error(child, "too many fields".to_string()))?;
            let name = self.required(child, "name")?;
            let needed = required && attribute(child, "required") == Some("Y");
            if child.has_tag_name("component") {
                let component = self.components.get(name).copied();
                let component =
                    component.ok_or_else(|| self.error(child, format!("no component {name}")))?;
                self.block(component, needed, block, depth + 1)?;
                continue;
            }
            let tag = self.numbers.get(name).copied();
            let tag = tag.ok_or_else(|| self.error(child, format!("no field {name}")))?;
            block.add(Member { tag, required: needed, note: String::new() });
            if child.has_tag_name("group") {
                let group = self.group(child, depth)?;
                block.groups.insert(tag, group);
            }
        }
        Ok(())
    }

    fn group(
        &mut self,
        node: Node<'a, 'input>,
        depth: usize,
    ) -> Result<Arc<Block>, DictionaryError> {
        if let Some(known) = self.groups.get(&node.id().get()) {
            return Ok(Arc::clone(known));
        }
        let mut group = Block::default();
        self.block(node, true, &mut group, depth + 1)?;
        if group.members.is_empty() {
            return Err(self.error(node, "the group is empty".to_string()));
        }
        let group = Arc::new(group);
        self.groups.insert(node.id().get(), Arc::clone(&group));
        Ok(group)
    }
}
