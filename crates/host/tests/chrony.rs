//! A daemon of chrony's own on a port of its own, which follows nobody and sets no clock: what it says is
//! read, compared with what chrony's client prints, and followed. Where chrony is missing nothing is
//! tried; in CI that fails.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::clock_sources::{Chronyc, Tracking};
use host::config::Config;
use host::followed_clock::{Chrony, FollowedClock};
use net::Clock;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon in a folder that goes with it.
struct Daemon {
    child: Child,
    dir: PathBuf,
    port: String,
}

impl Daemon {
    /// None: chrony is not installed.
    fn start() -> Option<Daemon> {
        let dir = std::env::temp_dir().join(format!("fairbell-chrony-{}", std::process::id()));
        host::files::folder(&dir).expect("a folder");
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its address").port().to_string();
        drop(free);
        let pid = dir.join("pid");
        let conf = dir.join("chrony.conf");
        let text = format!(
            "local stratum 1\nport 0\ncmdport {port}\nbindcmdaddress 127.0.0.1\n\
             bindcmdaddress /\npidfile {}\n",
            pid.display()
        );
        std::fs::write(&conf, text).expect("written");
        let user = Command::new("id").arg("-un").output().expect("a user").stdout;
        let user = String::from_utf8(user).expect("a name");
        // -x: sets no clock; -U: needs no rights; -t: ends by itself should the test not end it.
        let mut daemon = Command::new("chronyd");
        daemon.args(["-x", "-d", "-U", "-t", "120", "-u", user.trim(), "-f"]).arg(&conf);
        let path = std::env::var("PATH").unwrap_or_default();
        daemon.env("PATH", format!("{path}:/usr/sbin"));
        daemon.stdout(Stdio::null()).stderr(Stdio::null());
        match daemon.spawn() {
            Ok(child) => Some(Daemon { child, dir, port }),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "in CI chrony must be there: {error}");
                println!("no chronyd: {error}");
                None
            }
        }
    }

    fn client(&self) -> Chronyc {
        Chronyc { options: ["-h", "127.0.0.1", "-p", &self.port].map(str::to_string).to_vec() }
    }

    fn tracking(&self) -> Tracking {
        let begun = Instant::now();
        loop {
            if let Some(tracking) = self.client().tracking() {
                return tracking;
            }
            assert!(begun.elapsed() < PATIENCE, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A line of what `chronyc tracking` prints.
    fn printed(&self, name: &str) -> String {
        let output = Command::new("chronyc").args(self.client().options).arg("tracking").output();
        let text = String::from_utf8(output.expect("a client").stdout).expect("text");
        let line = text.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_once(": ").expect(name).1.to_string()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn what_a_daemon_says_is_read_as_its_client_prints_it_and_followed() {
    let Some(mut daemon) = Daemon::start() else { return };
    let tracking = daemon.tracking();
    assert_eq!(daemon.printed("Stratum"), tracking.stratum.to_string());
    let id = daemon.printed("Reference ID");
    assert!(id.contains("7F7F0101"), "it follows its own clock: {id}");
    let seconds = |name: &str| {
        let text = daemon.printed(name);
        text.split(' ').next().expect("a number").parse::<f64>().expect("a number")
    };
    let printed = seconds("System time") + seconds("Root delay") / 2.0 + seconds("Root dispersion");
    // Between two questions the dispersion grows, by some ppm.
    let again = daemon.tracking().bound_ns as f64;
    assert!(again >= tracking.bound_ns as f64 && (printed * 1e9 - again).abs() < 1e5, "{printed}");
    assert_eq!(daemon.printed("Leap status"), "Normal");

    let (own, kept) = (Clock::start(0), FollowedClock::start(&Config::default()));
    let asymmetry_ns = 10_000;
    let mut source = Chrony::new(daemon.client(), asymmetry_ns);
    kept.ask(&mut source, &own).expect("an answer");
    let reading = own.kept_by(kept).reading();
    assert!(reading.bound_ns >= tracking.bound_ns + asymmetry_ns / 2, "{reading:?}");
    let wall = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
    assert!(wall - reading.now.0 < 1_000_000_000, "the system's clock");

    // Control: one that has ended says nothing, and the bound grows.
    daemon.child.kill().expect("ours");
    daemon.child.wait().expect("ended");
    let why = kept.ask(&mut source, &own).expect_err("it has ended");
    assert_eq!(why, "chrony does not answer");
    std::thread::sleep(Duration::from_millis(500));
    assert!(own.kept_by(kept).reading().bound_ns > reading.bound_ns);
}
