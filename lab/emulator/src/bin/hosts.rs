//! Hosts of a cloud in a box for programs that this one does not start: containers, whole systems.
//!
//! `hosts NUMBER PROFILE` (root is needed) prints a line a host, `INDEX ADDRESS PID`: whoever enters the
//! network namespace of PID (`nsenter --net=/proc/PID/ns/net`) is on that host. The network ends when
//! standard input does. Ends with 1 and one line when there is no such profile or no network.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};

use emulator::{Config, Network, Profile};

/// Makes the hosts and waits for the end of standard input.
///
/// # Errors
/// One line: what was asked for, or what this machine refuses.
fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [number, profile] = words.as_slice() else {
        return Err("usage: hosts NUMBER PROFILE".into());
    };
    let number = number.parse().map_err(|_| format!("{number}: no number of hosts"))?;
    let names = || format!("{profile}: no profile; one of {}", Profile::NAMES.join(", "));
    let profile = Profile::named(profile).ok_or_else(names)?;
    let network =
        Network::start(Config::new(number, profile)).map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    for host in network.hosts() {
        // It holds the namespace open, and its number is the namespace's name.
        let mut holder = Command::new("sleep");
        let holder = host.spawn(holder.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null()));
        let holder = holder.map_err(|error| format!("sleep: {error}"))?;
        writeln!(out, "{} {} {}", host.index(), host.v4(), holder.id())
            .map_err(|e| e.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hosts: {error}");
            ExitCode::FAILURE
        }
    }
}
