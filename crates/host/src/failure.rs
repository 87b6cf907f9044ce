//! Why a command ends without success, and the exit code that says so.

use std::path::Path;

use crate::config::ConfigError;

/// Why a command ends without success: one line for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Wrong options or configuration; nothing was started.
    Usage(String),
    /// It ran, and the result is bad.
    Run(String),
    /// This machine, or this user, lacks what is needed: nothing was started.
    Unavailable(String),
    /// The roots of the cluster don't let the node in, or no longer.
    Refused(String),
}

impl Failure {
    /// The process's exit code: 2 for wrong usage, 1 for a bad result, 3 where the machine lacks
    /// what is needed, 4 for a node that was refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
            Failure::Unavailable(_) => 3,
            Failure::Refused(_) => 4,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Usage(line)
            | Failure::Run(line)
            | Failure::Unavailable(line)
            | Failure::Refused(line) => f.write_str(line),
        }
    }
}

impl std::error::Error for Failure {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// What goes wrong with a file, in one line with its name.
pub fn on(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}
