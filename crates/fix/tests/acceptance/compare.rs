//! What counts as the expected message: the same fields in the same order, the same values but
//! where `fields.fmt` has a pattern for the tag.

use std::collections::BTreeMap;
use std::path::Path;

/// Patterns by tag.
#[derive(Default)]
pub struct Formats {
    patterns: BTreeMap<String, String>,
}

impl Formats {
    /// Lines of `tag=pattern`.
    pub fn read(path: &Path) -> Formats {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.trim().split_once('='));
        let patterns = pairs.map(|(tag, p)| (tag.to_string(), p.to_string())).collect();
        Formats { patterns }
    }

    /// The first difference, if any.
    pub fn difference(&self, expected: &str, actual: &str) -> Option<String> {
        let fields = |text: &str| -> Vec<(String, String)> {
            let fields = text.split('\x01').filter(|field| !field.is_empty());
            let pair = |field: &str| {
                let (tag, value) = field.split_once('=').unwrap_or((field, ""));
                (tag.to_string(), value.to_string())
            };
            fields.map(pair).collect()
        };
        let (wanted, found) = (fields(expected), fields(actual));
        for (number, (tag, value)) in wanted.iter().enumerate() {
            let Some((found_tag, found_value)) = found.get(number) else {
                return Some(format!("field {tag}={value} is missing"));
            };
            let same = match self.patterns.get(tag) {
                Some(pattern) => matches(pattern, found_value),
                None => value == found_value,
            };
            if tag != found_tag || !same {
                return Some(format!("expected {tag}={value}, got {found_tag}={found_value}"));
            }
        }
        found.get(wanted.len()).map(|(tag, value)| format!("{tag}={value} is too much"))
    }
}

/// Whether `text` begins with what `pattern` describes: `\d`, `[.]` and plain characters, each
/// perhaps with `{n}`; alternatives separated by `|`.
fn matches(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|alternative| begins(alternative.as_bytes(), text.as_bytes()))
}

fn begins(mut pattern: &[u8], mut text: &[u8]) -> bool {
    while let Some((&first, rest)) = pattern.split_first() {
        let (digit, wanted, mut after) = match (first, rest) {
            (b'\\', [b'd', after @ ..]) => (true, 0, after),
            (b'[', [wanted, b']', after @ ..]) => (false, *wanted, after),
            (wanted, after) => (false, wanted, after),
        };
        let mut times = 1;
        if let [b'{', n, b'}', behind @ ..] = after {
            times = usize::from(n - b'0');
            after = behind;
        }
        for _ in 0..times {
            match text.split_first() {
                Some((&found, behind))
                    if if digit { found.is_ascii_digit() } else { found == wanted } =>
                {
                    text = behind;
                }
                _ => return false,
            }
        }
        pattern = after;
    }
    true
}

/// The comparison itself must be able to say no.
pub fn controls() {
    assert!(matches(r"\d{3}", "123") && !matches(r"\d{3}", "12x"));
    assert!(matches(r"\d{2}:\d|x[.]\d{3}", "x.123") && !matches(r"x[.]\d", "xy1"));
    let patterns = BTreeMap::from([("10".to_string(), r"\d{3}".to_string())]);
    let formats = Formats { patterns };
    assert_eq!(formats.difference("8=a\x0110=0\x01", "8=a\x0110=123\x01"), None);
    for bad in ["8=b\x0110=123\x01", "8=a\x01", "8=a\x0110=12\x01", "8=a\x0110=123\x0158=x\x01"] {
        assert!(formats.difference("8=a\x0110=0\x01", bad).is_some(), "{bad}");
    }
}
