//! Machines whose names come to other addresses while the others run, and those that are nowhere yet.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use host::fleet::file::{ClusterFile, NodeEntry};
use host::subscriber::Session;
use wire::subscription::Way;

use super::{Venue, ear, packet, wait_for};

const NAME: &str = "edge-1.venue.invalid";
/// Where the edge is first, and where it comes back.
const OLD: &str = "127.0.77.21";
const NEW: &str = "127.0.77.22";

impl Venue {
    /// The file with names in place of the edges' addresses, for a machine that binds this address.
    fn named(&self, hosts: &Path, bind: Option<&str>) -> ClusterFile {
        let mut file = self.file.clone();
        file.hosts = Some(hosts.to_path_buf());
        let names = ["root-1", NAME, "edge-2.venue.invalid"];
        for (node, name) in file.nodes.iter_mut().zip(names).skip(1) {
            *node = NodeEntry { address: name.to_string(), ..node.clone() };
        }
        file.nodes[1].bind = bind.map(|ip| ip.parse().expect("an address"));
        file
    }
}

#[test]
fn a_machine_that_comes_back_with_another_address_is_found_and_one_that_is_nowhere_is_not_waited_for()
 {
    let mut venue = Venue::new("names");
    let hosts = venue.dir.join("hosts");
    let write = |ip: &str| std::fs::write(&hosts, format!("{ip} {NAME}\n")).expect("written");
    write(OLD);
    // The second edge has no address anywhere: root and edge start without it.
    venue.file = venue.named(&hosts, None);
    let root = venue.named(&hosts, None);
    venue.start_with(root, "root-1");
    let edge = venue.named(&hosts, Some(OLD));
    venue.start_with(edge, "edge-1");
    venue.wait("edge-1", "up");
    let port = venue.door("edge-1").port();
    let heard = |venue: &Venue, ip: &str| {
        let (socket, at) = ear();
        socket.set_read_timeout(Some(Duration::from_millis(1_500))).expect("set");
        let door = SocketAddr::new(ip.parse().expect("an address"), port);
        let session = Session::open(door, ("FLOW01", "flow"), Some(&venue.tls()));
        let mut session = session.expect("logged on");
        session.subscribe(Way::Unicast, at).expect("granted");
        let heard = packet(&socket).is_some();
        session.leave();
        heard
    };
    assert!(heard(&venue, OLD), "the feed comes");
    let machine =
        venue.running.iter().position(|machine| machine.name == "edge-1").expect("started");
    venue.running[machine].stop.store(true, std::sync::atomic::Ordering::Relaxed);
    venue.ended("edge-1").expect("it was told to");
    let edge = venue.named(&hosts, Some(NEW));
    venue.start_with(edge, "edge-1");
    venue.wait("edge-1", "up");
    // Control: as long as the name leads to the old address nothing comes.
    assert!(!heard(&venue, NEW), "who told the root?");
    write(NEW);
    wait_for(|| heard(&venue, NEW));
    assert!(venue.said("root-1").iter().any(|line| line.contains("another address")));
}
