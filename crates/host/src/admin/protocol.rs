//! What goes over the admin socket: a line of JSON there, a line of JSON back.

use serde::{Deserialize, Serialize};

use crate::admin::action::Action;

/// Longest request, its line end included.
pub const LINE_MAX: usize = 4_096;
/// Longest answer.
pub const REPLY_MAX: usize = 4 << 20;
/// Longest name of an operator, and of anything else that is named.
const NAME_MAX: usize = 64;

/// What an operator wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// On whose behalf.
    #[serde(rename = "as", default)]
    pub operator: Option<String>,
    /// The action that is asked for.
    pub action: Action,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// It was done.
    pub ok: bool,
    /// For people; when it was not done, why.
    pub text: String,
    /// The same for programs.
    #[serde(default)]
    pub data: serde_json::Value,
}

impl Reply {
    /// It was not done.
    pub fn refused(why: impl Into<String>) -> Reply {
        Reply { ok: false, text: why.into(), data: serde_json::Value::Null }
    }

    /// It was done.
    pub fn done(text: impl Into<String>, data: serde_json::Value) -> Reply {
        Reply { ok: true, text: text.into(), data }
    }

    /// As it goes over the socket.
    pub fn line(&self) -> String {
        serde_json::json!(self).to_string() + "\n"
    }
}

/// What is wrong with a line, in one line: words of the request are in it, and are to begin no other.
fn not_understood(error: &serde_json::Error) -> String {
    let mut why = "not understood: ".to_string();
    for char in error.to_string().chars() {
        match char.is_control() {
            true => why.extend(char.escape_default()),
            false => why.push(char),
        }
    }
    why
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        if line.len() > LINE_MAX {
            return Err(format!("a request has at most {LINE_MAX} bytes"));
        }
        let request: Request =
            serde_json::from_slice(line).map_err(|error| not_understood(&error))?;
        request.check()?;
        Ok(request)
    }

    /// What is wrong with the operator's name.
    ///
    /// # Errors
    /// One line.
    pub fn check(&self) -> Result<(), String> {
        let good = |name: &String| {
            (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
        };
        match self.operator.as_ref().filter(|name| !good(name)) {
            None => Ok(()),
            Some(name) => {
                let short: String = name.chars().take(NAME_MAX).collect();
                Err(format!(
                    "on whose behalf (--as): {short:?}: a name is 1 to {NAME_MAX} ASCII characters without \
                     spaces"
                ))
            }
        }
    }

    /// As it goes over the socket.
    pub fn line(&self) -> String {
        serde_json::json!(self).to_string() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(action: Action) -> Request {
        Request { operator: Some("alice".to_string()), action }
    }

    #[test]
    fn a_refusal_is_one_line_whatever_the_request_has_in_it() {
        let refused =
            Request::parse(br#"{"action":"sessio\n{\u001b\u0085s"}"#).expect_err("unknown");
        assert!(!refused.contains(char::is_control), "{refused:?}");
        assert!(refused.contains(r"sessio\n{\u{1b}\u{85}s"), "{refused}");
    }

    #[test]
    fn requests_survive_the_line() {
        let account = || "FLOW01".to_string();
        let actions = [
            Action::Status,
            Action::Kill { account: account() },
            Action::MassCancel {
                account: account(),
                instrument: "all".to_string(),
                side: Some("buy".to_string()),
            },
            Action::CorrectTrade { match_number: 7, price: "1.5".to_string(), lots: 3 },
        ];
        for action in actions {
            let line = request(action.clone()).line();
            assert_eq!(Request::parse(line.as_bytes()), Ok(request(action)), "{line}");
        }
        let line = br#"{"action":{"kill":{"account":"FLOW01"}}}"#;
        assert_eq!(Request::parse(line).unwrap().operator, None);
    }

    #[test]
    fn what_is_no_request_is_refused_in_one_line() {
        let long = format!(r#"{{"action":"status","as":"{}"}}"#, "x".repeat(LINE_MAX));
        let bad: [&[u8]; 7] = [
            b"",
            b"status",
            br#"{"action":"dance"}"#,
            br#"{"action":"status","as":"two words"}"#,
            br#"{"action":"status","as":""}"#,
            br#"{"action":{"kill":{"account":"A","more":1}}}"#,
            long.as_bytes(),
        ];
        for line in bad {
            let why = Request::parse(line).expect_err("refused");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
        for name in ["\u{c5}lice", "two words", "", "a\nb"] {
            let bad = Request { operator: Some(name.to_string()), action: Action::Status };
            let why = bad.check().expect_err("refused");
            assert!(why.contains("--as") && why.contains(&format!("{name:?}")), "{why}");
        }
    }

    proptest! {
        #[test]
        fn mutated_and_arbitrary_lines_are_read_or_refused(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in 0usize..200,
            noise in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let action = Action::SetLimit {
                account: "all".to_string(),
                limit: "credit".to_string(),
                value: "none".to_string(),
            };
            let mut line = request(action).line().into_bytes();
            let at = at.index(line.len());
            line[at] = byte;
            line.truncate(cut.max(1));
            let _ = Request::parse(&line);
            let _ = Request::parse(&noise);
        }
    }
}
