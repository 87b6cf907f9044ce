//! A Redis server that a measurement starts for itself.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use host::failure::Failure;
use host::sockets::io;
use monitoring::streams::Server;

/// How long a server may take to answer first.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis server of this run's own, on a free port of loopback; it ends with the value.
pub(crate) struct Redis {
    program: PathBuf,
    dir: PathBuf,
    port: u16,
    synced: bool,
    child: Child,
}

impl Redis {
    /// The server's program: the one that is named, that of FAIRBELL_REDIS_SERVER, else `redis-server`.
    pub(crate) fn program(named: Option<PathBuf>) -> PathBuf {
        let known = || std::env::var_os("FAIRBELL_REDIS_SERVER").map(PathBuf::from);
        named.or_else(known).unwrap_or_else(|| PathBuf::from("redis-server"))
    }

    /// Starts one with its files in `dir`; `synced`: what it takes is on the disk before it answers.
    ///
    /// # Errors
    /// No such program; it ends, or does not answer within 10 s.
    pub(crate) fn start(program: &Path, dir: &Path, synced: bool) -> Result<Redis, Failure> {
        std::fs::create_dir_all(dir).map_err(|error| host::failure::on(dir, error))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
        let port = free.local_addr().map_err(io)?.port();
        drop(free);
        let child = Redis::spawn(program, dir, port, synced)?;
        let mut redis =
            Redis { program: program.to_path_buf(), dir: dir.to_path_buf(), port, synced, child };
        redis.wait()?;
        Ok(redis)
    }

    fn spawn(program: &Path, dir: &Path, port: u16, synced: bool) -> Result<Child, Failure> {
        let kept = if synced { "yes" } else { "no" };
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", kept, "--appendfsync", "always", "--dir"]).arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| {
            let hint = "scripts/with-monitoring.sh installs it, --redis-server names another one";
            Failure::Usage(format!("{}: {error}; {hint}", program.display()))
        })
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let names = Server::new(&self.url()).and_then(|mut server| server.names("none"));
            if names.is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::Run(format!("redis-server ended at once: {status}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(Failure::Run("redis-server does not answer".to_string()))
    }

    /// Its address with a port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of its first database.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// Kills it: what it has not written is lost.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was, with what it has on its disk.
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub(crate) fn start_again(&mut self) -> Result<(), Failure> {
        self.child = Redis::spawn(&self.program, &self.dir, self.port, self.synced)?;
        self.wait()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
