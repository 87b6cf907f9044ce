//! JSON in which no object has a name twice: which of the two counts is another one for every reader.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value that was read so. As deep as `serde_json` goes, 128 levels.
pub(crate) struct Unique(pub(crate) Value);

struct Reader;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unique, D::Error> {
        from.deserialize_any(Reader).map(Unique)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, of: bool) -> Result<Value, E> {
        Ok(of.into())
    }

    fn visit_i64<E: Error>(self, of: i64) -> Result<Value, E> {
        Ok(of.into())
    }

    fn visit_u64<E: Error>(self, of: u64) -> Result<Value, E> {
        Ok(of.into())
    }

    fn visit_f64<E: Error>(self, of: f64) -> Result<Value, E> {
        Ok(of.into())
    }

    fn visit_str<E: Error>(self, of: &str) -> Result<Value, E> {
        Ok(of.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = all.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Unique(value))) = all.next_entry::<String, Unique>()? {
            if map.contains_key(&name) {
                let shown: String = name.chars().take(40).collect();
                return Err(A::Error::custom(format!("{shown:?} is there twice")));
            }
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        serde_json::from_str(text).map(|Unique(value)| value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_wherever_it_is() {
        for text in
            [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":null,"c":2,"a":3}}]"#, r#"{"a":1,"\u0061":2}"#]
        {
            assert!(read(text).expect_err(text).contains(r#""a" is there twice"#));
        }
        assert!(read(r#"{"a":{"a":[{"a":1},{"a":2}]}}"#).is_ok());
        assert!(read(&"[".repeat(100_000)).is_err(), "too deep");
    }

    proptest! {
        #[test]
        fn everything_else_is_read_as_serde_json_reads_it(text in r#"[\[\]{},:"a-c0-9.eE+ \\nultrfs-]{0,40}"#) {
            let usual: Result<Value, _> = serde_json::from_str(&text);
            match (read(&text), usual) {
                (Ok(ours), Ok(usual)) => prop_assert_eq!(ours, usual),
                (Err(why), Ok(_)) => prop_assert!(why.contains("is there twice"), "{}", why),
                (ours, Err(_)) => prop_assert!(ours.is_err(), "{:?}", ours),
            }
        }
    }
}
