//! What the address of a request says: a part of its path, and its query, with their escapes undone.
//!
//! Names and values of a query are split first and read then, so that `%26` is a letter of a value. A `+` is
//! itself, as in a path: symbols have it, and none has a space.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::ApiError;
use crate::request::bad;

/// Longest part of a pair that its refusal repeats, characters.
const SHOWN_MAX: usize = 32;
/// What is wrong with an escape.
const WRONG: &str = "% is followed by two hexadecimal digits, and what they spell is UTF-8";

/// The part of the path that a route names.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Segment, ApiError> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        read.map(|Path(text)| Segment(text)).map_err(|_| bad("path", WRONG))
    }
}

/// A text without its escapes; `None`: one of them is none, or it is no UTF-8.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A name of a query, and its value if it has one.
type Pair<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

/// The pairs of a query, or the refusal of one whose escapes can't be read.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = Result<Pair<'_>, ApiError>> {
    let all = query.unwrap_or("").split('&').filter(|pair| !pair.is_empty());
    all.map(|pair| {
        let read = match pair.split_once('=') {
            Some((name, value)) => {
                decoded(name).zip(decoded(value)).map(|(name, value)| (name, Some(value)))
            }
            None => decoded(pair).map(|name| (name, None)),
        };
        let shown = || pair.chars().take(SHOWN_MAX).collect::<String>();
        read.ok_or_else(|| bad(&shown(), WRONG))
    })
}

/// A parameter of a query.
///
/// # Errors
/// An escape before it, or its own, can't be read.
pub(crate) fn parameter<'a>(
    query: Option<&'a str>,
    name: &str,
) -> Result<Option<Cow<'a, str>>, ApiError> {
    for pair in pairs(query) {
        if let (key, Some(value)) = pair?
            && key == name
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values_of_a_query_are_decoded_behind_their_split() {
        let found = |query: &'static str, name: &str| {
            parameter(Some(query), name).map(|value| value.map(Cow::into_owned))
        };
        for (query, due) in [
            ("symbol=BRK%2FA%26%2B", Some("BRK/A&+")),
            ("s%79mbol=a%3Db%3d", Some("a=b=")),
            ("x=1&symbol=A+B", Some("A+B")),
            ("symbol=%C3%A9", Some("é")),
            ("symbol=%2541", Some("%41")),
            ("symbol=", Some("")),
            ("symbol", None),
            ("symbol%3D1", None),
            ("x=%26symbol=A", None),
        ] {
            assert_eq!(found(query, "symbol"), Ok(due.map(str::to_string)), "{query}");
        }
        for wrong in ["%", "%4", "%4g", "%-1", "%+1", "%%41", "é%", "%FF", "%C3", "%E9t", "% 1"] {
            for query in [format!("symbol={wrong}"), format!("{wrong}=A"), wrong.to_string()] {
                let refused = parameter(Some(&query), "symbol").expect_err(&query);
                assert_eq!(refused.code, "bad_field");
                assert!(refused.message.starts_with(&query), "{refused:?}");
            }
        }
        let long = format!("symbol={}", "%".repeat(10_000));
        assert!(parameter(Some(&long), "symbol").is_err_and(|why| why.message.len() < 120));
    }

    proptest! {
        #[test]
        fn every_text_comes_through_its_escapes(text in ".{0,20}") {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decoded(&escaped), Some(Cow::Borrowed(&*text)));
            if !text.contains('%') {
                prop_assert_eq!(decoded(&text), Some(Cow::Borrowed(&*text)));
            }
        }
    }
}
