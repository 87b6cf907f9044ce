//! The `fairbell-lab` command; see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairbell::process("fairbell-lab", fairbell_lab::run)
}
