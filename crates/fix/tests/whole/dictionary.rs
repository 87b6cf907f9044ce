//! Dictionaries: both formats, and the reason of each refusal.

use fix::dictionary::{Checker, CustomTags, Dictionary, Fault, RejectReason, Rules, builtin};
use fix::{FieldIndex, Version};

const XML: &str = r#"<fix type="FIX" major="4" minor="4" servicepack="0">
 <header>
  <field name="BeginString" required="Y"/><field name="BodyLength" required="Y"/>
  <field name="MsgType" required="Y"/><field name="MsgSeqNum" required="Y"/>
 </header>
 <trailer><field name="CheckSum" required="Y"/></trailer>
 <messages>
  <message name="Order" msgtype="D" msgcat="app">
   <field name="ClOrdID" required="Y"/>
   <component name="Parties" required="N"/>
   <field name="Side" required="N"/>
  </message>
  <message name="Beat" msgtype="0" msgcat="admin"/>
 </messages>
 <components>
  <component name="Parties">
   <group name="NoPartyIDs" required="N">
    <field name="PartyID" required="Y"/><field name="PartyRole" required="N"/>
    <group name="NoSubs" required="N"><field name="SubID" required="Y"/></group>
   </group>
  </component>
 </components>
 <fields>
  <field number="8" name="BeginString" type="STRING"/>
  <field number="9" name="BodyLength" type="LENGTH"/>
  <field number="10" name="CheckSum" type="STRING"/>
  <field number="11" name="ClOrdID" type="STRING"/>
  <field number="34" name="MsgSeqNum" type="SEQNUM"/>
  <field number="35" name="MsgType" type="STRING"/>
  <field number="54" name="Side" type="CHAR"><value enum="1" description="BUY"/><value enum="2" description="SELL"/></field>
  <field number="448" name="PartyID" type="STRING"/>
  <field number="452" name="PartyRole" type="INT"/>
  <field number="453" name="NoPartyIDs" type="NUMINGROUP"/>
  <field number="523" name="SubID" type="STRING"/>
  <field number="802" name="NoSubs" type="NUMINGROUP"/>
  <field number="999" name="Elsewhere" type="STRING"/>
 </fields>
</fix>"#;

const COMPACT: &str = "
dictionary FIX.4.4
field 8 BeginString STRING
field 9 BodyLength LENGTH
field 10 CheckSum STRING
field 11 ClOrdID STRING
field 34 MsgSeqNum SEQNUM
field 35 MsgType STRING
field 54 Side CHAR 1=BUY 2=SELL
field 448 PartyID STRING
field 452 PartyRole INT
field 453 NoPartyIDs NUMINGROUP
field 523 SubID STRING
field 802 NoSubs NUMINGROUP
field 999 Elsewhere STRING   # defined, but in no message
header
  8! BeginString
  9! BodyLength
  35! MsgType
  34! MsgSeqNum
trailer
  10! CheckSum
message 0 Beat admin
message D Order app
  11! ClOrdID
  453 NoPartyIDs {
    448! PartyID
    452 PartyRole
    802 NoSubs {
      523! SubID
    }
  }
  54 Side
";

fn judged(rules: &Rules, custom: CustomTags, text: &str) -> Result<(), Fault> {
    let wire = crate::sample::wire(&crate::sample::repaired(&format!("8=FIX.4.4|9=0|{text}")));
    let mut index = FieldIndex::default();
    let message = index.parse(&wire).unwrap();
    let mut checker = Checker::default();
    let first = checker.check(rules, custom, &message);
    assert_eq!(checker.check(rules, custom, &message), first, "tables are left clean");
    first
}

#[test]
fn both_formats_say_the_same() {
    let (xml, compact) =
        (Dictionary::from_xml(XML).unwrap(), Dictionary::compact(&[COMPACT]).unwrap());
    assert_eq!(xml, compact);
    assert_eq!(xml.name, "FIX.4.4");
    assert_ne!(xml, Dictionary::compact(&[&COMPACT.replace("54 Side\n", "")]).unwrap());
}

#[test]
fn each_fault_has_its_reason_and_its_tag() {
    use RejectReason::*;
    let rules = Rules::single(Version::Fix44, Dictionary::from_xml(XML).unwrap());
    type Expected = Option<(RejectReason, Option<i32>)>;
    let cases: &[(&str, Expected)] = &[
        ("35=D|34=1|11=a|54=1|", None),
        ("35=D|34=1|54=1|11=a|", None),
        ("35=Z|34=1|", Some((InvalidMsgType, None))),
        ("35=D|34=1|54=1|", Some((RequiredTagMissing, Some(11)))),
        ("35=D|11=a|", Some((RequiredTagMissing, Some(34)))),
        ("35=D|11=a|34=1|", Some((OutOfOrder, Some(34)))),
        ("35=D|34=1|11=a|7=1|", Some((InvalidTag, Some(7)))),
        ("35=D|34=1|11=a|0=1|", Some((InvalidTag, Some(0)))),
        ("35=D|34=1|11=a|-4=1|", Some((InvalidTag, Some(-4)))),
        ("35=D|34=1|11=a|5000=1|", Some((InvalidTag, Some(5000)))),
        ("35=D|34=1|11=a|999=1|", Some((TagNotDefined, Some(999)))),
        ("35=D|34=1|11=|", Some((NoValue, Some(11)))),
        ("35=D|34=1|11=a|54=3|", Some((ValueIncorrect, Some(54)))),
        ("35=D|34=1|11=a|54=11|", Some((DataFormat, Some(54)))),
        ("35=D|34=1|11=a|11=a|", Some((TagTwice, Some(11)))),
        ("35=D|34=1|34=1|11=a|", Some((TagTwice, Some(34)))),
        ("35=D|34=1|11=a|453=0|54=1|", None),
        ("35=D|34=1|11=a|453=2|448=a|448=b|452=1|54=1|", None),
        ("35=D|34=1|11=a|453=1|448=a|802=2|523=x|523=y|452=1|54=1|", None),
        ("35=D|34=1|11=a|453=3|448=a|448=b|54=1|", Some((GroupCount, Some(453)))),
        ("35=D|34=1|11=a|453=1|448=a|448=b|54=1|", Some((GroupCount, Some(453)))),
        ("35=D|34=1|11=a|453=1|54=1|", Some((GroupCount, Some(453)))),
        ("35=D|34=1|11=a|453=1|452=1|448=a|54=1|", Some((GroupOrder, Some(452)))),
        ("35=D|34=1|11=a|453=1|448=a|452=1|452=1|54=1|", Some((TagTwice, Some(452)))),
        ("35=D|34=1|11=a|453=1|448=a|452=x|54=1|", Some((DataFormat, Some(452)))),
        ("35=D|34=1|11=a|453=1|448=a|802=2|523=x|452=1|", Some((GroupCount, Some(802)))),
        ("35=D|34=1|11=a|453=x|448=a|", Some((DataFormat, Some(453)))),
        ("35=D|34=1|11=a|448=a|", Some((TagNotDefined, Some(448)))),
        ("35=0|34=1|11=a|", Some((TagNotDefined, Some(11)))),
    ];
    for &(text, expected) in cases {
        let expected = expected.map_or(Ok(()), |(reason, tag)| Err(Fault { reason, tag }));
        assert_eq!(judged(&rules, CustomTags::Refused, text), expected, "{text}");
    }
    let custom = "35=D|34=1|11=a|5000=1|";
    assert_eq!(judged(&rules, CustomTags::Tolerated, custom), Ok(()));
    let low = "35=D|34=1|11=a|4999=1|";
    assert!(judged(&rules, CustomTags::Tolerated, low).is_err());
}

#[test]
fn texts_that_make_no_sense_say_where() {
    let xml = |from: &str, to: &str| Dictionary::from_xml(&XML.replacen(from, to, 1));
    for (from, to) in [
        ("<fix ", "<!DOCTYPE fix [<!ENTITY a \"b\">]><fix "),
        ("</fix>", ""),
        ("name=\"Side\" required", "name=\"Nobody\" required"),
        ("component name=\"Parties\" required", "component name=\"Nobody\" required"),
        ("number=\"54\"", "number=\"0\""),
        ("number=\"54\"", "number=\"99999999\""),
        ("<field name=\"SubID\" required=\"Y\"/>", ""),
        // A component that holds itself.
        (
            "<group name=\"NoPartyIDs\" required=\"N\">",
            "<component name=\"Parties\"/><group name=\"NoPartyIDs\" required=\"N\">",
        ),
    ] {
        assert!(xml(from, to).is_err(), "{to}");
    }
    assert!(xml("BUY", "BOUGHT").is_ok());
    let line = |from: &str, to: &str| {
        Dictionary::compact(&[&COMPACT.replacen(from, to, 1)]).unwrap_err().line
    };
    assert_eq!(line("field 54 Side", "field x Side"), 9);
    assert_eq!(line("  54 Side", "  54 Size"), 33);
    assert_eq!(line("  54 Side", "  11 ClOrdID"), 33);
    assert_eq!(line("  }\n  54", "  54"), 0);
    assert_eq!(line("message 0", "massage 0"), 23);
}

#[test]
fn the_exchanges_own_dictionaries_load_and_know_their_messages() {
    for version in Version::ALL {
        let rules = builtin(version).unwrap();
        assert_eq!(rules.transport.name, version.begin_string());
        for msg_type in ["0", "1", "2", "3", "4", "5", "A", "D", "F", "G", "H", "V", "8", "9", "j"]
        {
            assert!(rules.message(msg_type.as_bytes()).is_some(), "{version:?} {msg_type}");
        }
        let later = version != Version::Fix42;
        for msg_type in ["q", "r", "x", "y"] {
            let known = rules.message(msg_type.as_bytes()).is_some();
            assert_eq!(known, later, "{version:?} {msg_type}");
        }
        assert!(rules.message(b"AE").is_none());
    }
}
