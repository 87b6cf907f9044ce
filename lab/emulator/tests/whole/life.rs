//! How networks and programs in them begin and end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use emulator::{Config, HOSTS_MAX, Network, Profile, kill, pause, resume};

use crate::{alone, socket, start, started};

/// Set for the process that is killed in [`nothing_is_left_of_a_process_that_is_killed`].
const VICTIM: &str = "EMULATOR_TEST_VICTIM";

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Letter of a process's state; `None` when it is gone.
fn state_of(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether it becomes true within 5 s.
fn soon(mut is_true: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn sleeper(network: &Network, host: usize) -> Child {
    network.host(host).spawn(Command::new("sleep").arg("1000")).unwrap()
}

#[test]
fn many_hosts_start_quickly_and_leave_nothing() {
    let _alone = alone();
    for hosts in [25, HOSTS_MAX] {
        let before = descriptors();
        let begin = Instant::now();
        let Some(network) = started(Config::new(hosts, Profile::table1())) else { return };
        let took = begin.elapsed();
        println!("{hosts} hosts started in {took:?}");
        assert!(hosts > 25 || took < Duration::from_secs(2), "{took:?}");
        let last = network.host(hosts - 1);
        let (here, there) =
            (socket(network.host(0), network.host(0).v6()), socket(last, last.v6()));
        here.send_to(&[1; 8], there.local_addr().unwrap()).unwrap();
        assert_eq!(there.recv(&mut [0; 16]).unwrap(), 8);
        let mut child = sleeper(&network, 3);
        drop((here, there, network));
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "programs end with their network");
        drop(child);
        assert_eq!(descriptors(), before);
    }
}

#[test]
fn programs_run_in_their_host_and_can_be_paused_and_killed() {
    let Some((network, _alone)) = start(Config::new(2, Profile::clean())) else { return };
    let mut addresses = Command::new("cat");
    addresses.arg("/proc/self/net/if_inet6").stdout(Stdio::piped());
    let output = network.host(1).spawn(&mut addresses).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("fd770000000000000000000000000002"), "{text}");
    let missing = network.host(0).spawn(&mut Command::new("no-such-program")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);

    // Started from a thread that ends: the program does not end with it.
    let mut child =
        std::thread::scope(|scope| scope.spawn(|| sleeper(&network, 0)).join().unwrap());
    std::thread::sleep(Duration::from_millis(20));
    assert!(child.try_wait().unwrap().is_none());
    pause(child.id()).unwrap();
    assert!(soon(|| state_of(child.id()) == Some('T')));
    resume(child.id()).unwrap();
    assert!(soon(|| state_of(child.id()) == Some('S')));
    kill(child.id()).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(pause(0).is_err());

    let host = network.host(0).clone();
    drop(network);
    let late = host.spawn(&mut Command::new("sleep")).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::BrokenPipe);
}

/// Not a test of its own: the process that is killed below.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let network = Network::start(Config::new(5, Profile::clean())).unwrap();
    let mut child = sleeper(&network, 4);
    let namespace = network.host(4).enter(|| fs::read_link("/proc/thread-self/ns/net")).unwrap();
    println!("\nvictim {} {}", child.id(), namespace.unwrap().display());
    std::thread::sleep(Duration::from_secs(60));
    drop(network);
    child.wait().unwrap();
}

#[test]
fn nothing_is_left_of_a_process_that_is_killed() {
    let Some((network, _alone)) = start(Config::new(1, Profile::clean())) else { return };
    drop(network);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.filter_map(|line| line.strip_prefix("victim ").map(str::to_string)).next();
    let told = told.expect("the victim starts");
    let (program, namespace) = told.split_once(' ').unwrap();
    let program: u32 = program.parse().unwrap();
    assert!(state_of(program).is_some() && inhabitants(namespace) > 0);
    victim.kill().unwrap();
    victim.wait().unwrap();
    // Its own parent may take a while to ask for how the orphan ended.
    assert!(soon(|| matches!(state_of(program), None | Some('Z'))), "the program is left");
    assert!(soon(|| inhabitants(namespace) == 0), "somebody is in the namespace");
}

/// Processes in a network namespace.
fn inhabitants(namespace: &str) -> usize {
    let links = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path().join("ns/net");
        Some(fs::read_link(path).ok()?.to_str()? == namespace)
    });
    links.filter(|inside| *inside).count()
}
