//! The exchange's side of the admin socket: one line from each operator, one action at a time, all
//! written down.
//!
//! Who may speak: the user the exchange runs as, and root, as the kernel names the peer; the socket
//! file has mode 0600 besides. Bounded: a request is 4 KiB, a connection has five seconds for it and for
//! its answer, 32 of them are served side by side, and the oldest makes room for the newest: a tool that
//! hangs keeps nobody from a kill. Nothing a peer sends ends the server.

use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};

use super::audit::{Audit, Who};
use super::callers::Callers;
use super::protocol::{Reply, Request};
use crate::admin::action::Action;
use crate::alarms::Alarms;
use crate::failure::Failure;

/// Connections accepted in a row while others wait to be read.
const ACCEPTS_PER_TURN: usize = 16;
/// The audit file, beside the socket.
const AUDIT_FILE: &str = "admin-audit.jsonl";

/// The operators' server: requests in, answers out.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    audit: Audit,
    /// User ids that may speak.
    admitted: Vec<u32>,
    /// Written down as they come.
    alarms: Alarms,
}

impl Server {
    /// Takes the socket at `path`, which may be left over from an exchange that has ended, and
    /// opens the audit file beside it.
    ///
    /// # Errors
    /// [`Failure::Run`] in one line: a live exchange has the socket, or the system refuses.
    pub fn bind(path: &Path) -> Result<Server, Failure> {
        let on = |error: io::Error| {
            let hint = "set admin.socket to a shorter or another path, or to \"off\"";
            Failure::Run(format!("admin socket {}: {error}; {hint}", path.display()))
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(on)?;
        if UnixStream::connect(path).is_ok() {
            return Err(on(io::Error::new(ErrorKind::AddrInUse, "another exchange has it")));
        }
        let listener = bind_closed(folder, path).map_err(on)?;
        listener.set_nonblocking(true).map_err(on)?;
        let audit = Audit::open(&folder.join(AUDIT_FILE)).map_err(on)?;
        let admitted = vec![0, rustix::process::geteuid().as_raw()];
        let alarms = Alarms::default();
        Ok(Server { listener, path: path.to_path_buf(), audit, admitted, alarms })
    }

    /// Writes these down, too.
    pub fn with_alarms(mut self, alarms: &Alarms) -> Server {
        self.alarms = alarms.clone();
        self
    }

    /// Where operators connect.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until `stop`; `perform` does what is asked for, `told` gets a line for people about
    /// every action, as long as it has room.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        told: &SyncSender<String>,
        mut perform: impl FnMut(&Who, &Action) -> Reply,
    ) {
        let mut callers = Callers::default();
        while !stop.load(Ordering::Relaxed) {
            self.write_alarms();
            let (waits, ready) = callers.wait(&self.listener);
            for id in ready {
                // A peer that leaves in the middle is its own trouble.
                let Some(who) = callers.go_on(id) else { continue };
                let reply = match who {
                    (who, Ok(line)) => self.obey(who, &line, told, &mut perform),
                    (who, Err(why)) => self.refuse(&who, &why, told),
                };
                callers.answer(id, &reply);
            }
            while let Some((id, who)) = callers.expire() {
                let reply = self.refuse(&who, "no request in time", told);
                callers.answer(id, &reply);
                callers.leave(id);
            }
            for _ in 0..if waits { ACCEPTS_PER_TURN } else { 0 } {
                let Ok((stream, _)) = self.listener.accept() else { break };
                let Some((id, who)) = callers.take(stream) else { continue };
                if !self.admitted.contains(&who.uid) {
                    let why = "only the exchange's own user and root may do this";
                    let reply = self.refuse(&who, why, told);
                    callers.answer(id, &reply);
                }
            }
        }
        self.write_alarms();
    }

    /// Writes down what there is of alarms; what finds no room on the disk waits until it does.
    fn write_alarms(&mut self) {
        while let Some(record) = self.alarms.first_record() {
            if self.audit.write_alarm(&record).is_err() {
                return;
            }
            self.alarms.drop_record();
        }
    }

    fn obey(
        &mut self,
        mut who: Who,
        line: &[u8],
        told: &SyncSender<String>,
        perform: &mut impl FnMut(&Who, &Action) -> Reply,
    ) -> Reply {
        match Request::parse(line) {
            Ok(request) => {
                who.operator = request.operator;
                self.act(&who, &request.action, told, perform)
            }
            Err(why) => self.refuse(&who, &why, told),
        }
    }

    fn act(
        &mut self,
        who: &Who,
        action: &Action,
        told: &SyncSender<String>,
        perform: &mut impl FnMut(&Who, &Action) -> Reply,
    ) -> Reply {
        if action.is_look() {
            return perform(who, action);
        }
        let what = json!(action);
        if let Err(error) = self.audit.write(who, "asked", &what, "") {
            return Reply::refused(format!("not done: the audit file can't be written: {error}"));
        }
        let mut reply = perform(who, action);
        let stage = if reply.ok { "done" } else { "refused" };
        if let Err(error) = self.audit.write(who, stage, &what, &reply.text) {
            reply.text += &format!("; the audit file can't be written: {error}");
        }
        tell(told, format!("admin: {what} by {}: {stage}: {}", who.text(), reply.text));
        reply
    }

    fn refuse(&mut self, who: &Who, why: &str, told: &SyncSender<String>) -> Reply {
        // Without the file nothing is done, and here nothing was to be done.
        let _ = self.audit.write(who, "refused", &Value::Null, why);
        tell(told, format!("admin: {}: refused: {why}", who.text()));
        Reply::refused(why)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Left over, it would be taken over by the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A line for people; when nobody takes them, the audit file still has it.
fn tell(told: &SyncSender<String>, line: String) {
    let _ = told.try_send(line);
}

/// A socket at `path` that has never been open to others: made in a folder of its own that nobody
/// else may enter, closed, then moved to its place, over whatever is left there.
fn bind_closed(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    let room = folder.join(format!(".admin-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&room)?;
    let made = room.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&made);
    let _ = std::fs::remove_dir(&room);
    bound
}

/// The name of a user, by the system's own list; nothing where that can't be read.
pub(super) fn user_name(uid: u32) -> Option<String> {
    let list = std::fs::File::open("/etc/passwd").ok()?;
    let mut text = String::new();
    list.take(1 << 20).read_to_string(&mut text).ok()?;
    let entry = text
        .lines()
        .find(|line| line.split(':').nth(2).and_then(|number| number.parse().ok()) == Some(uid))?;
    entry.split(':').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::admin::ask;
    use crate::admin::protocol::LINE_MAX;

    /// Runs a server whose actions are done as `perform` says, around a test.
    fn with_server(
        name: &str,
        change: impl FnOnce(&mut Server),
        test: impl FnOnce(&Path, &Receiver<String>),
    ) {
        let folder = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
        let path = folder.join("admin.sock");
        let mut server = Server::bind(&path).expect("bound");
        change(&mut server);
        /// Stops the server whatever becomes of the test.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = AtomicBool::new(false);
        let (told, heard) = sync_channel(16);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                server.run(&stop, &told, |who, action| match action {
                    Action::Kill { .. } => Reply::refused("the engine refused it"),
                    Action::Status => Reply::done("fine", json!({ "by": who.uid })),
                    _ => Reply::done("as you wish", Value::Null),
                });
            });
            test(&path, &heard);
        });
        assert!(!path.exists(), "the socket goes with its server");
        let _ = std::fs::remove_dir_all(folder);
    }

    fn request(action: Action) -> Request {
        Request { operator: Some("alice".to_string()), action }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path.with_file_name(AUDIT_FILE)).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn every_action_is_written_down_with_who_and_what_came_of_it() {
        with_server(
            "audit",
            |_| {},
            |path, heard| {
                let mode = std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
                assert_eq!(mode, 0o600);
                let account = || "FLOW01".to_string();
                let look = ask(path, &request(Action::Status)).expect("an answer");
                assert!(look.ok && look.text == "fine");
                assert!(lines(path).is_empty(), "who looks changes nothing");
                assert!(ask(path, &request(Action::Lock { account: account() })).expect("done").ok);
                let refused = ask(path, &request(Action::Kill { account: account() })).expect("no");
                assert_eq!((refused.ok, refused.text.as_str()), (false, "the engine refused it"));
                let lines = lines(path);
                let of = |n: usize, key: &str| lines[n][key].as_str().unwrap_or("").to_string();
                let stages: Vec<String> = (0..4).map(|n| of(n, "stage")).collect();
                assert_eq!(stages, ["asked", "done", "asked", "refused"]);
                assert_eq!(
                    (of(1, "as"), of(3, "outcome")),
                    ("alice".into(), "the engine refused it".into())
                );
                assert_eq!(lines[1]["action"]["lock"]["account"], "FLOW01");
                assert_eq!(lines[1]["uid"], look.data["by"]);
                assert!(lines[3]["at"].as_str().is_some_and(|at| at.ends_with('Z')));
                let heard: Vec<String> = heard.try_iter().collect();
                assert_eq!(heard.len(), 2);
                assert!(heard[0].contains("as alice") && heard[0].contains("done"), "{heard:?}");
            },
        );
    }

    #[test]
    fn strangers_and_nonsense_are_refused_and_written_down() {
        with_server(
            "strangers",
            |server| server.admitted.clear(),
            |path, _| {
                let reply = ask(path, &request(Action::Status)).expect("an answer");
                assert!(!reply.ok && reply.text.contains("root"), "{}", reply.text);
                assert_eq!(lines(path)[0]["stage"], "refused");
            },
        );
        with_server(
            "nonsense",
            |_| {},
            |path, _| {
                let say = |bytes: &[u8]| {
                    let mut stream = UnixStream::connect(path).expect("connected");
                    // The server may have answered before all is said.
                    let _ = stream.write_all(bytes);
                    let mut answer = String::new();
                    let _ = stream.read_to_string(&mut answer);
                    answer
                };
                assert!(say(b"dance\n").contains("not understood"));
                assert!(say(&[b'x'; 3 * LINE_MAX]).contains("at most"));
                // Somebody who leaves in the middle of a line is heard as far as it goes.
                drop(UnixStream::connect(path).expect("connected").write_all(b"{\"action\""));
                assert!(ask(path, &request(Action::Sessions)).expect("served on").ok);
            },
        );
    }

    #[test]
    fn alarms_are_written_down_whole_and_in_order() {
        let alarms = Alarms::default();
        alarms.raise("journal-full", "no room left on the disk");
        with_server(
            "alarms",
            |server| server.alarms = alarms.clone(),
            |path, _| {
                alarms.clear("journal-full", "goes on");
                let until = Instant::now() + Duration::from_secs(20);
                while alarms.first_record().is_some() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let lines = lines(path);
                let of = |n: usize| [&lines[n]["stage"], &lines[n]["action"], &lines[n]["outcome"]];
                assert_eq!(of(0), ["alarm", "journal-full", "no room left on the disk"]);
                assert_eq!(of(1), ["over", "journal-full", "goes on"]);
            },
        );
    }

    #[test]
    fn who_says_nothing_keeps_nobody_waiting() {
        with_server(
            "idle",
            |_| {},
            |path, _| {
                let connect = |_| {
                    let mut stream = UnixStream::connect(path).expect("connected");
                    stream.write_all(b"{").expect("a byte");
                    stream.set_nonblocking(true).expect("set");
                    stream
                };
                let is_open = |mut stream: &UnixStream| {
                    let read = stream.read(&mut [0; 8]);
                    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
                };
                let idle: Vec<UnixStream> = (0..20).map(connect).collect();
                assert!(ask(path, &request(Action::Status)).expect("an answer").ok);
                assert!(idle.iter().all(is_open), "it was served while they had time left");
                let more: Vec<UnixStream> = (0..200).map(connect).collect();
                let lock = request(Action::Lock { account: "FLOW01".to_string() });
                assert!(ask(path, &lock).expect("done").ok);
                assert!(!idle.iter().any(is_open), "the oldest made room");
                assert!(more.iter().filter(|stream| is_open(stream)).count() <= 32);
                // Who never takes a long answer is in nobody's way either.
                let line = serde_json::to_string(&request(Action::Status)).expect("JSON") + "\n";
                let deaf: Vec<UnixStream> = (0..40).map(connect).collect();
                deaf.iter().for_each(|mut stream| drop(stream.write_all(line.as_bytes())));
                assert!(ask(path, &request(Action::Sessions)).expect("served on").ok);
            },
        );
    }

    #[test]
    fn a_live_socket_is_not_taken_and_a_dead_one_is() {
        with_server(
            "twice",
            |_| {},
            |path, _| {
                let Err(failure) = Server::bind(path) else { panic!("taken twice") };
                assert!(failure.to_string().contains("another exchange has it"), "{failure}");
            },
        );
        let folder = std::env::temp_dir().join(format!("fb-dead-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("admin.sock");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        drop(Server::bind(&path).expect("taken over"));
        let _ = std::fs::remove_dir_all(folder);
    }
}
