//! `fairbell hash-password`: the line of the configuration for a password.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use host::failure::Failure;
use host::password::{PASSWORD_MAX, hash};

/// Options of `fairbell hash-password`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell hash-password               asks for a password, prints the line for fairbell.toml\n  \
    fairbell hash-password < secret.txt  the first line of a file\n\n\
    The password is read from standard input, never from the command line.")]
pub struct HashArgs {}

/// Reads a password from standard input and prints its hash.
///
/// # Errors
/// No password, or one that no login can carry.
pub fn run(_: &HashArgs) -> Result<(), Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprint!("password (it will be seen): ");
        let _ = std::io::stderr().flush();
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| Failure::Run(format!("standard input: {error}")))?;
    let password = line.trim_end_matches(['\r', '\n']);
    let fits = (1..=PASSWORD_MAX).contains(&password.len());
    if !fits || !password.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage(format!(
            "a password is 1 to {PASSWORD_MAX} ASCII characters without spaces"
        )));
    }
    println!("password_hash = \"{}\"", hash(password.as_bytes())?);
    Ok(())
}
