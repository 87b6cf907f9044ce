//! How bad a VM looks: the published strategies and scores of the user's own.
//!
//! A score is an arithmetic expression over a [`Summary`]: numbers, `+ - * /`, parentheses, `min`,
//! `max`, `sqrt`, `abs`, and the names `p90 p75 p50 p25 mean stddev` (microseconds), `received`,
//! `lost`, `loss` (0 to 1). Length and nesting are bounded, so is the work of one evaluation. The
//! lower the score, the better the VM; what is no number counts as worst.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::Summary;

/// Longest expression that is parsed, bytes.
pub const EXPRESSION_MAX: usize = 256;
/// Deepest nesting of parentheses, signs and calls.
const NESTING_MAX: usize = 24;

/// How VMs are ranked (thesis, table 4.1).
#[derive(Clone, PartialEq, Debug)]
pub enum Strategy {
    /// The score 0.3 × 90th percentile + 0.7 × standard deviation.
    Weighted,
    /// The score is the 90th percentile of the delays.
    P90,
    /// The score is the median of the delays.
    P50,
    /// The score is an expression of the user.
    Custom(Score),
}

impl Strategy {
    /// `WEIGHTED`, `P90`, `P50`, or else an expression.
    ///
    /// # Errors
    /// Where and why the expression does not parse.
    pub fn parse(text: &str) -> Result<Strategy, ScoreError> {
        Ok(match text.trim() {
            "WEIGHTED" => Strategy::Weighted,
            "P90" => Strategy::P90,
            "P50" => Strategy::P50,
            other => Strategy::Custom(Score::parse(other)?),
        })
    }

    /// The badness of a VM; infinite when nothing arrived or the result is no number.
    pub fn badness(&self, summary: &Summary) -> f64 {
        if summary.received == 0 {
            return f64::INFINITY;
        }
        let score = match self {
            Strategy::Weighted => 0.3 * summary.p90_ns + 0.7 * summary.stddev_ns,
            Strategy::P90 => summary.p90_ns,
            Strategy::P50 => summary.p50_ns,
            Strategy::Custom(score) => score.evaluate(summary),
        };
        if score.is_nan() { f64::INFINITY } else { score }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Weighted => f.write_str("WEIGHTED"),
            Strategy::P90 => f.write_str("P90"),
            Strategy::P50 => f.write_str("P50"),
            Strategy::Custom(score) => f.write_str(&score.text),
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Strategy, D::Error> {
        let text = String::deserialize(deserializer)?;
        Strategy::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A score expression, parsed.
#[derive(Clone, Debug)]
pub struct Score {
    text: String,
    /// Steps of the expression in reverse Polish order.
    steps: Vec<Step>,
}

impl PartialEq for Score {
    /// Two scores are equal when their texts are.
    fn eq(&self, other: &Score) -> bool {
        self.text == other.text
    }
}

/// Why an expression could not be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScoreError {
    /// Offset of the error in the text, bytes.
    pub at: usize,
    /// What is wrong there, in words.
    pub why: &'static str,
}

impl fmt::Display for ScoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "score, at byte {}: {}", self.at, self.why)
    }
}

impl std::error::Error for ScoreError {}

#[derive(Clone, Copy, Debug)]
enum Step {
    Number(f64),
    Field(Field),
    Unary(fn(f64) -> f64),
    Binary(fn(f64, f64) -> f64),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Field {
    P90,
    P75,
    P50,
    P25,
    Mean,
    Stddev,
    Received,
    Lost,
    Loss,
}

fn field(name: &str) -> Option<Field> {
    Some(match name {
        "p90" => Field::P90,
        "p75" => Field::P75,
        "p50" => Field::P50,
        "p25" => Field::P25,
        "mean" => Field::Mean,
        "stddev" => Field::Stddev,
        "received" => Field::Received,
        "lost" => Field::Lost,
        "loss" => Field::Loss,
        _ => return None,
    })
}

impl Score {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first byte at which it can't go on.
    pub fn parse(text: &str) -> Result<Score, ScoreError> {
        if text.len() > EXPRESSION_MAX {
            return Err(ScoreError { at: EXPRESSION_MAX, why: "longer than 256 bytes" });
        }
        let mut parser = Parser { text, at: 0, steps: Vec::new(), depth: 0 };
        parser.sum()?;
        match parser.peek() {
            None => Ok(Score { text: text.to_string(), steps: parser.steps }),
            Some(_) => Err(parser.error("an operator is missing")),
        }
    }

    /// Value of the expression for a VM with this summary; may be NaN.
    pub fn evaluate(&self, of: &Summary) -> f64 {
        // A step adds at most one value, so the stack is no longer than the expression.
        let mut stack = Vec::with_capacity(8);
        for step in &self.steps {
            let value = match *step {
                Step::Number(number) => number,
                Step::Field(field) => value(field, of),
                Step::Unary(apply) => apply(stack.pop().unwrap_or(f64::NAN)),
                Step::Binary(apply) => {
                    let right = stack.pop().unwrap_or(f64::NAN);
                    apply(stack.pop().unwrap_or(f64::NAN), right)
                }
            };
            stack.push(value);
        }
        stack.pop().unwrap_or(f64::NAN)
    }
}

fn value(field: Field, of: &Summary) -> f64 {
    match field {
        Field::P90 => of.p90_ns / 1e3,
        Field::P75 => of.p75_ns / 1e3,
        Field::P50 => of.p50_ns / 1e3,
        Field::P25 => of.p25_ns / 1e3,
        Field::Mean => of.mean_ns / 1e3,
        Field::Stddev => of.stddev_ns / 1e3,
        Field::Received => of.received as f64,
        Field::Lost => of.lost as f64,
        Field::Loss => of.loss(),
    }
}

/// Recursive descent: sum of products of signed atoms.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    steps: Vec<Step>,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, why: &'static str) -> ScoreError {
        ScoreError { at: self.at, why }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, why: &'static str) -> Result<(), ScoreError> {
        if self.peek() != Some(byte) {
            return Err(self.error(why));
        }
        self.at += 1;
        Ok(())
    }

    fn sum(&mut self) -> Result<(), ScoreError> {
        self.product()?;
        while let Some(sign @ (b'+' | b'-')) = self.peek() {
            self.at += 1;
            self.product()?;
            self.steps.push(Step::Binary(if sign == b'+' { |a, b| a + b } else { |a, b| a - b }));
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), ScoreError> {
        self.atom()?;
        while let Some(sign @ (b'*' | b'/')) = self.peek() {
            self.at += 1;
            self.atom()?;
            self.steps.push(Step::Binary(if sign == b'*' { |a, b| a * b } else { |a, b| a / b }));
        }
        Ok(())
    }

    fn atom(&mut self) -> Result<(), ScoreError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.error("nested too deeply"));
        }
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                self.sum()?;
                self.expect(b')', "a closing parenthesis is missing")?;
            }
            Some(b'-') => {
                self.at += 1;
                self.atom()?;
                self.steps.push(Step::Unary(|a| -a));
            }
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() => self.name()?,
            _ => return Err(self.error("a number, a name or a parenthesis is missing")),
        }
        self.depth -= 1;
        Ok(())
    }

    fn take(&mut self, wanted: fn(&u8) -> bool) -> &str {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        let start = self.at;
        self.at += rest.iter().take_while(|byte| wanted(byte)).count();
        self.text.get(start..self.at).unwrap_or("")
    }

    fn number(&mut self) -> Result<(), ScoreError> {
        let start = self.at;
        match self.take(|byte| byte.is_ascii_digit() || *byte == b'.').parse() {
            Ok(number) => {
                self.steps.push(Step::Number(number));
                Ok(())
            }
            Err(_) => Err(ScoreError { at: start, why: "not a number" }),
        }
    }

    fn name(&mut self) -> Result<(), ScoreError> {
        let start = self.at;
        let name = self.take(u8::is_ascii_alphanumeric).to_string();
        if let Some(field) = field(&name) {
            self.steps.push(Step::Field(field));
            return Ok(());
        }
        let (arguments, step) = match name.as_str() {
            "sqrt" => (1, Step::Unary(f64::sqrt)),
            "abs" => (1, Step::Unary(f64::abs)),
            "min" => (2, Step::Binary(f64::min)),
            "max" => (2, Step::Binary(f64::max)),
            _ => return Err(ScoreError { at: start, why: "an unknown name" }),
        };
        self.expect(b'(', "an opening parenthesis is missing")?;
        self.sum()?;
        if arguments == 2 {
            self.expect(b',', "a comma and a second argument are missing")?;
            self.sum()?;
        }
        self.expect(b')', "a closing parenthesis is missing")?;
        self.steps.push(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    fn summary() -> Summary {
        Summary {
            p90_ns: 90e3,
            p75_ns: 75e3,
            p50_ns: 50e3,
            p25_ns: 25e3,
            mean_ns: 55e3,
            stddev_ns: 20e3,
            received: 90,
            lost: 10,
        }
    }

    #[test]
    fn expressions_have_the_usual_meaning() {
        let cases = [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("-2 * -3 - 1", 5.0),
            ("8 / 2 / 2", 2.0),
            ("10 - 4 - 3", 3.0),
            ("0.3*p90 + 0.7*stddev", 41.0),
            ("max(p90, 4*p25)", 100.0),
            ("min(p75, mean) + sqrt(received - 9) + abs(0-lost)", 74.0),
            ("1000 * loss", 100.0),
        ];
        for (text, expected) in cases {
            let score = Score::parse(text).unwrap();
            assert!((score.evaluate(&summary()) - expected).abs() < 1e-9, "{text}");
        }
    }

    #[test]
    fn bad_expressions_are_refused_at_their_place() {
        let deep = "(".repeat(100);
        let long = "1+".repeat(200);
        for (text, at) in [
            ("", 0),
            ("p90 +", 5),
            ("p91", 0),
            ("1 2", 2),
            ("(1", 2),
            ("min(1)", 5),
            ("sqrt 2", 5),
            ("1.2.3", 0),
            ("p90; rm", 3),
            (deep.as_str(), 24),
            (long.as_str(), 256),
        ] {
            assert_eq!(Score::parse(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn strategies_rank_and_read_back_as_written() {
        let of = |text: &str| Strategy::parse(text).unwrap();
        assert_eq!(of("WEIGHTED").badness(&summary()), 0.3 * 90e3 + 0.7 * 20e3);
        assert_eq!((of("P90").badness(&summary()), of("P50").badness(&summary())), (90e3, 50e3));
        assert_eq!(of("p50 + 10 * loss").to_string(), "p50 + 10 * loss");
        // Nothing arrived, and no number: worse than everything.
        assert_eq!(of("P50").badness(&Summary::default()), f64::INFINITY);
        assert_eq!(of("sqrt(0 - p50)").badness(&summary()), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-z0-9+*/().,<> -]{0,300}") {
            if let Ok(score) = Score::parse(&text) {
                let _ = score.evaluate(&summary());
            }
        }

        #[test]
        fn any_characters_too(text in any::<String>()) {
            let _ = Strategy::parse(&text);
        }
    }
}
