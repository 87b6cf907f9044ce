//! The outcome of a certification, as text and as Markdown.

use std::fmt::Write as _;

use crate::Protocol;

/// How a step of the script ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// The client did what it was asked; what was seen.
    Passed(String),
    /// The client did not do what it was asked; the reason.
    Failed(String),
    /// The dialogue ended before this step.
    NotReached,
    /// The protocol does not have the step, or the operator left it out.
    LeftOut,
}

impl Status {
    /// The result as one word, for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Passed(_) => "passed",
            Status::Failed(_) => "FAILED",
            Status::NotReached => "not reached",
            Status::LeftOut => "left out",
        }
    }

    /// What was seen, or the reason of a failure.
    pub fn detail(&self) -> &str {
        match self {
            Status::Passed(text) | Status::Failed(text) => text,
            Status::NotReached | Status::LeftOut => "",
        }
    }
}

/// A step of the script, and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepReport {
    /// Short name of the step, as in [`Step::name`](crate::Step::name).
    pub name: &'static str,
    /// What the client was asked to do.
    pub asked: &'static str,
    /// How the step ended.
    pub status: Status,
    /// Time that the step took, ns.
    pub took_ns: u64,
}

/// The report of a whole certification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Protocol that the client speaks.
    pub protocol: Protocol,
    /// Reports of all steps, in the order of the script.
    pub steps: Vec<StepReport>,
}

impl Report {
    /// Whether every step that was not left out was passed, and there was at least one.
    pub fn passed(&self) -> bool {
        let mut counted = self.steps.iter().filter(|step| step.status != Status::LeftOut);
        let any = self.steps.iter().any(|step| matches!(step.status, Status::Passed(_)));
        any && counted.all(|step| matches!(step.status, Status::Passed(_)))
    }

    /// Number of steps that failed or were not reached.
    pub fn failed(&self) -> usize {
        let bad =
            |step: &&StepReport| matches!(step.status, Status::Failed(_) | Status::NotReached);
        self.steps.iter().filter(bad).count()
    }

    /// Name of the protocol, for people.
    pub fn protocol_name(&self) -> &'static str {
        match self.protocol {
            Protocol::Ouch => "OUCH 5.0 over SoupBinTCP",
            Protocol::Fix => "FIX",
        }
    }

    /// The verdict as one line, for people.
    pub fn verdict(&self) -> String {
        match self.passed() {
            true => format!("passed: the client may trade over {}", self.protocol_name()),
            false => format!("not passed: {} of {} steps", self.failed(), self.steps.len()),
        }
    }

    /// The report as a Markdown page.
    pub fn to_markdown(&self) -> String {
        let mut page = format!("# Certification over {}\n\n", self.protocol_name());
        let _ = writeln!(page, "{}.\n", capital(&self.verdict()));
        page.push_str("| step | asked of the client | outcome | seconds | seen |\n");
        page.push_str("|---|---|---|---|---|\n");
        for step in &self.steps {
            let seconds = step.took_ns as f64 / 1e9;
            // A client's text could hold what would break the table.
            let detail = step.status.detail().replace('|', "/").replace(char::is_control, " ");
            let (name, asked, word) = (step.name, step.asked, step.status.word());
            let _ = writeln!(page, "| {name} | {asked} | {word} | {seconds:.1} | {detail} |");
        }
        page
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(statuses: &[Status]) -> Report {
        let step = |status: &Status| StepReport {
            name: "logon",
            asked: "log on",
            status: status.clone(),
            took_ns: 1_500_000_000,
        };
        Report { protocol: Protocol::Fix, steps: statuses.iter().map(step).collect() }
    }

    #[test]
    fn only_passed_steps_pass() {
        let fine = Status::Passed("as it should".to_string());
        assert!(report(&[fine.clone(), Status::LeftOut]).passed());
        assert!(!report(&[Status::LeftOut]).passed());
        assert!(!report(&[fine.clone(), Status::NotReached]).passed());
        let bad = report(&[fine, Status::Failed("a | b\n".to_string())]);
        assert!(!bad.passed() && bad.verdict().contains("1 of 2"));
        assert!(bad.to_markdown().contains("| FAILED | 1.5 | a / b  |"));
    }
}
