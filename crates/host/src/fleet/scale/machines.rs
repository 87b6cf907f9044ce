//! What makes machines of nodes and takes them away: a program of the operator's, or Kubernetes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::ScaleSettings;
use super::kubernetes::Kubernetes;
use crate::failure::Failure;

/// How long a program may take for one machine.
const PROGRAM_MAX: Duration = Duration::from_secs(600);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whoever makes machines. Both calls may be for machines that are so already, and then change nothing.
pub trait Machines: Send {
    /// Has the machines of these nodes run, with the node's process on each.
    ///
    /// # Errors
    /// The first that could not be had, and why.
    fn start(&mut self, nodes: &[String]) -> Result<(), Failure>;

    /// Takes the machines of these nodes away; their processes have ended.
    ///
    /// # Errors
    /// The first that could not be taken away, and why.
    fn stop(&mut self, nodes: &[String]) -> Result<(), Failure>;
}

/// Those of a file's `[scale]`; `None`: nobody is named there.
///
/// # Errors
/// Not in a pod of Kubernetes, where that is named.
pub fn of(settings: &ScaleSettings) -> Result<Option<Box<dyn Machines>>, Failure> {
    Ok(match &settings.by[..] {
        "command" => Some(Box::new(Program { words: settings.command.clone() })),
        "kubernetes" => Some(Box::new(Kubernetes::in_cluster(settings)?)),
        _ => None,
    })
}

/// A program: it is run with `start` or `stop` and a node's name behind its own arguments, once for each
/// node. Exit code 0: it is so.
pub struct Program {
    /// The program and its first arguments.
    pub words: Vec<String>,
}

impl Program {
    fn run(&self, what: &str, node: &str) -> Result<(), Failure> {
        let Some((program, first)) = self.words.split_first() else {
            return Err(Failure::Usage("scale.command: a program".to_string()));
        };
        let failed = |why: String| Failure::Run(format!("{program} {what} {node}: {why}"));
        let mut command = Command::new(program);
        command.args(first).args([what, node]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(status.to_string())),
                Ok(None) if since.elapsed() < PROGRAM_MAX => std::thread::sleep(LOOK_EVERY),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(format!("not done within {} s", PROGRAM_MAX.as_secs())));
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }

    /// All are tried, whatever becomes of one.
    fn each(&self, what: &str, nodes: &[String]) -> Result<(), Failure> {
        let all = nodes.iter().map(|node| self.run(what, node));
        all.fold(Ok(()), Result::and)
    }
}

impl Machines for Program {
    fn start(&mut self, nodes: &[String]) -> Result<(), Failure> {
        self.each("start", nodes)
    }

    fn stop(&mut self, nodes: &[String]) -> Result<(), Failure> {
        self.each("stop", nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program { words: ["sh", "-c", script, "machine"].map(String::from).to_vec() }
    }

    #[test]
    fn a_program_is_told_what_and_whose_and_its_failure_is_said() {
        let file = std::env::temp_dir().join(format!("fairbell-machines-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let mut program = shell(&format!("echo $1 $2 >> {}", file.display()));
        let names = ["edge-3", "edge-4"].map(String::from);
        program.start(&names).expect("started");
        program.stop(&names[..1]).expect("stopped");
        let told = std::fs::read_to_string(&file).expect("written");
        let _ = std::fs::remove_file(&file);
        assert_eq!(told, "start edge-3\nstart edge-4\nstop edge-3\n");
        let why = shell("exit 3").start(&names).expect_err("refused").to_string();
        assert!(why.contains("sh start edge-3: exit status: 3"), "{why}");
        let mut none = Program { words: vec!["/nowhere/machine".to_string()] };
        let why = none.stop(&names).expect_err("there is none").to_string();
        assert!(why.starts_with("/nowhere/machine stop edge-3: "), "{why}");
    }

    #[test]
    fn whoever_is_named_makes_them() {
        let named = |by: &str| ScaleSettings { by: by.to_string(), ..ScaleSettings::default() };
        assert!(of(&named("")).expect("nobody").is_none());
        assert!(of(&named("command")).expect("a program").is_some());
        // Not in a pod: no token.
        let why = of(&named("kubernetes")).err().map(|why| why.to_string());
        assert!(why.is_some_and(|why| why.contains("scale.by: \"kubernetes\"")));
    }
}
