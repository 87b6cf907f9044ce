//! A dictionary as QuickFIX's XML, for the engines of participants.
//!
//! What [`super::xml`] reads back is the same dictionary. The remarks of the compact format stand
//! beside their fields as comments, which no engine looks at. There are no components: each message
//! states its fields in the order of the definition.

use std::fmt::{self, Display, Formatter};

use super::{Block, Dictionary, FieldDef};

/// Displays a text escaped for an XML attribute.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            other => write!(f, "{other}"),
        })
    }
}

/// Displays a remark as an XML comment, or nothing for an empty remark. `--` is replaced, because
/// it would end the comment.
struct Remark<'a>(&'a str);

impl Display for Remark<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            text => write!(f, " <!-- {} -->", text.replace("--", "- -")),
        }
    }
}

impl Display for Dictionary {
    /// Writes the dictionary in QuickFIX's XML format.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (kind, version) = self.name.split_once('.').unwrap_or((&self.name, "0.0"));
        let (version, pack) = version.split_once("SP").unwrap_or((version, "0"));
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        writeln!(
            f,
            "<fix type=\"{kind}\" major=\"{major}\" minor=\"{minor}\" servicepack=\"{pack}\">"
        )?;
        self.part(f, "header", &self.header)?;
        writeln!(f, " <messages>")?;
        for message in self.messages() {
            let layer = if message.admin { "admin" } else { "app" };
            writeln!(
                f,
                "  <message name=\"{}\" msgtype=\"{}\" msgcat=\"{layer}\">{}",
                Quoted(&message.name),
                Quoted(&message.msg_type),
                Remark(&message.note)
            )?;
            self.members(f, &message.body, 3)?;
            writeln!(f, "  </message>")?;
        }
        writeln!(f, " </messages>")?;
        self.part(f, "trailer", &self.trailer)?;
        writeln!(f, " <components/>\n <fields>")?;
        self.fields().try_for_each(|field| definition(f, field))?;
        writeln!(f, " </fields>\n</fix>")
    }
}

impl Dictionary {
    fn part(&self, f: &mut Formatter<'_>, name: &str, block: &Block) -> fmt::Result {
        writeln!(f, " <{name}>")?;
        self.members(f, block, 2)?;
        writeln!(f, " </{name}>")
    }

    fn members(&self, f: &mut Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
        for member in &block.members {
            let name = Quoted(self.field(member.tag).map_or("", |field| &field.name));
            let required = if member.required { 'Y' } else { 'N' };
            let note = Remark(&member.note);
            let attributes = format_args!("name=\"{name}\" required=\"{required}\"");
            match block.groups.get(&member.tag) {
                None => writeln!(f, "{:depth$}<field {attributes}/>{note}", "")?,
                Some(group) => {
                    writeln!(f, "{:depth$}<group {attributes}>{note}", "")?;
                    self.members(f, group, depth + 1)?;
                    writeln!(f, "{:depth$}</group>", "")?;
                }
            }
        }
        Ok(())
    }
}

fn definition(f: &mut Formatter<'_>, field: &FieldDef) -> fmt::Result {
    let (tag, name, of) = (field.tag, Quoted(&field.name), Quoted(&field.type_name));
    write!(f, "  <field number=\"{tag}\" name=\"{name}\" type=\"{of}\"")?;
    if field.values.is_empty() {
        return writeln!(f, "/>");
    }
    writeln!(f, ">")?;
    for (code, meaning) in &field.values {
        let (code, meaning) = (Quoted(code), Quoted(meaning));
        writeln!(f, "   <value enum=\"{code}\" description=\"{meaning}\"/>")?;
    }
    writeln!(f, "  </field>")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::super::builtin;
    use super::*;
    use crate::Version;

    /// A block without its remarks, which are comments in XML.
    fn bare(block: &mut Block) {
        block.members.iter_mut().for_each(|member| member.note.clear());
        block.groups.values_mut().for_each(|group| bare(Arc::make_mut(group)));
    }

    fn without_remarks(dictionary: &Dictionary) -> Dictionary {
        let mut dictionary = dictionary.clone();
        bare(&mut dictionary.header);
        bare(&mut dictionary.trailer);
        for message in dictionary.messages.values_mut() {
            message.note.clear();
            bare(&mut message.body);
        }
        dictionary
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same() {
        let mut names = BTreeSet::new();
        for version in Version::ALL {
            let rules = builtin(version).expect("our own");
            for dictionary in [&*rules.transport, &*rules.application] {
                let xml = dictionary.to_string();
                let read = Dictionary::from_xml(&xml).expect("our own XML");
                assert_eq!(read, without_remarks(dictionary), "{}", dictionary.name);
                names.insert(read.name.clone());
                // Control: a field less, and it is another dictionary.
                let field = xml.lines().find(|line| line.contains("required=\"N\"/>"));
                let less = xml.replacen(field.expect("an optional field"), "", 1);
                let less = Dictionary::from_xml(&less).expect("still XML");
                assert_ne!(less, without_remarks(dictionary), "{}", dictionary.name);
            }
        }
        assert_eq!(Vec::from_iter(names), ["FIX.4.2", "FIX.4.4", "FIX.5.0SP2", "FIXT.1.1"]);
    }

    #[test]
    fn marks_of_xml_are_quoted() {
        let text =
            "dictionary FIX.4.4\nfield 1 A&B CHAR <=less\nmessage \" M app | a -- b\n  1 A&B";
        let dictionary = Dictionary::compact(&[text]).expect("compact");
        let read = Dictionary::from_xml(&dictionary.to_string()).expect("XML");
        assert_eq!(read, without_remarks(&dictionary));
    }
}
