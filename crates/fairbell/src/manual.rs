//! `fairbell completions` and `fairbell man`: the command line as shells and `man` want it, made of its
//! definition.

use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueEnum};

use host::failure::{Failure, on};

use crate::cli::{Cli, with_examples};

/// A shell that completions are made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
}

/// Options of `fairbell completions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell completions bash > ~/.local/share/bash-completion/completions/fairbell\n  \
    fairbell completions zsh > \"${fpath[1]}/_fairbell\"\n  \
    fairbell completions fish > ~/.config/fish/completions/fairbell.fish")]
pub struct CompletionsArgs {
    /// For which shell
    pub shell: Shell,
}

/// Options of `fairbell man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell man --out man && man man/fairbell-cluster.1    a page for each command")]
pub struct ManArgs {
    /// Folder of the pages
    #[arg(long, value_name = "DIR", default_value = "man")]
    pub out: PathBuf,
}

/// Prints what a shell is to know.
///
/// # Errors
/// Output that is not taken.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    use std::io::Write;
    std::io::stdout().write_all(&completed(args.shell)).map_err(host::sockets::io)
}

fn completed(shell: Shell) -> Vec<u8> {
    let (mut command, mut text) = (Cli::command(), Vec::new());
    let of = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let name = command.get_name().to_string();
    clap_complete::generate(of, &mut command, name, &mut text);
    text
}

/// Writes a page for each command.
///
/// # Errors
/// The folder's.
pub fn pages(args: &ManArgs) -> Result<(), Failure> {
    host::files::folder(&args.out)?;
    // As they are named on the command line, and without a page for `help`.
    let command = with_examples(Cli::command()).disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.out).map_err(|error| on(&args.out, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(of: &clap::Command, name: &str, all: &mut Vec<String>) {
        all.push(name.to_string());
        for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            commands(sub, &format!("{name}-{}", sub.get_name()), all);
        }
    }

    #[test]
    fn each_command_has_a_page_and_is_completed_in_each_shell() {
        let out = std::env::temp_dir().join(format!("fairbell-man-{}", std::process::id()));
        pages(&ManArgs { out: out.clone() }).expect("written");
        let mut all = Vec::new();
        commands(&Cli::command(), "fairbell", &mut all);
        assert!(all.len() > 30, "{all:?}");
        for name in &all {
            let page = std::fs::read_to_string(out.join(format!("{name}.1"))).expect(name);
            assert!(page.contains(".SH NAME") && page.len() > 200, "{name}");
        }
        let written = std::fs::read_dir(&out).expect("a folder").count();
        assert_eq!(written, all.len(), "pages of nothing");
        let _ = std::fs::remove_dir_all(out);
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completed(shell)).expect("text");
            for word in ["provision", "hash-password", "--least-loaded"] {
                let word = if shell == Shell::Fish { word.trim_start_matches("--") } else { word };
                assert!(text.contains(word), "{shell:?}: {word}");
            }
        }
    }
}
