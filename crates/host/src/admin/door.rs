//! The admin socket of a run: where it is, and the thread that serves it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use exchange::Role;
use net::LoopHandle;
use types::NodeId;

use crate::admin::act::Exchange;
use crate::admin::server::Server;
use crate::alarms::Alarms;
use crate::config::Config;
use crate::failure::Failure;
use crate::replica::line::RootLine;

/// Lines about actions that may wait for the live view.
const LINES: usize = 1_024;
/// Lines that go into the report.
pub const NOTICES_MAX: usize = 1_000;

/// The socket of a run, not served yet.
pub struct Door {
    server: Option<Server>,
    told: SyncSender<String>,
    alarms: Alarms,
}

impl Door {
    /// Takes the socket that the configuration names, relative to the folder of the report; also
    /// the end from which lines about actions come.
    ///
    /// # Errors
    /// When the socket can't be had.
    pub fn open(
        config: &Config,
        out: &Path,
        alarms: &Alarms,
    ) -> Result<(Door, Receiver<String>), Failure> {
        let (told, lines) = sync_channel(LINES);
        let server = path(config, out).map(|path| Server::bind(&path)).transpose()?;
        let server = server.map(|server| server.with_alarms(alarms));
        Ok((Door { server, told, alarms: alarms.clone() }, lines))
    }

    /// The socket, unless there is none.
    pub fn path(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::path)
    }

    /// For the greeting: how to speak to this exchange.
    pub fn greeting(&self) -> String {
        let path = self.path().map(|path| path.display().to_string());
        path.map_or_else(String::new, |path| format!("\nOperators: fairbell admin --socket {path}"))
    }

    /// Serves until `stop`.
    pub fn serve(
        self,
        config: &Config,
        (root, edges): (RootLine, LoopHandle<Role>),
        gateways: Vec<NodeId>,
        stop: &AtomicBool,
    ) {
        let Some(server) = self.server else { return };
        let exchange = Exchange::new(config, root, edges, gateways).with_alarms(&self.alarms);
        server.run(stop, &self.told, |who, action| exchange.perform(who, action));
    }
}

fn path(config: &Config, out: &Path) -> Option<PathBuf> {
    let socket = config.admin.socket.as_str();
    (socket != "off").then(|| out.join(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_beside_the_report_unless_it_says_otherwise() {
        let mut config = Config::default();
        assert_eq!(path(&config, Path::new("out")), Some(PathBuf::from("out/admin.sock")));
        config.admin.socket = "/run/fairbell.sock".to_string();
        assert_eq!(path(&config, Path::new("out")), Some(PathBuf::from("/run/fairbell.sock")));
        config.admin.socket = "off".to_string();
        assert_eq!(path(&config, Path::new("out")), None);
    }
}
