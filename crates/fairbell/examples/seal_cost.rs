//! What sealing costs, beside the loopback hop that every datagram takes anyway: the least of many
//! rounds in turns, so that other work on the machine matters little.
//!
//! `cargo run --release -p fairbell --example seal_cost`

use std::{net::UdpSocket, time::Instant};

use overlay::{
    aes_gcm::KeySource,
    frame::{self, DataBody, FrameKind, HopHeader},
    key_ring::KeyRing,
    lives::Life,
    sealed_link::{Fleet, SealedLink},
    topology::{ROOT, Topology},
};
use types::{Nanos, NodeId};

const ROUNDS: usize = 60;
const DATAGRAMS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fleet = Fleet::of(&Topology::new(2, 3, 9)?);
    let source = KeySource::new(&[7; 32]);
    let (proxy, leaf) = (NodeId(1), NodeId(4));
    println!("ns per datagram    seal  pass on    open    loopback hop");
    for len in [64, 256, 1_360] {
        let mut best = [u128::MAX; 4];
        let to = UdpSocket::bind("127.0.0.1:0")?;
        let from = UdpSocket::bind("127.0.0.1:0")?;
        from.connect(to.local_addr()?)?;
        let mut buffer = [0; 2_048];
        for _ in 0..ROUNDS {
            let guard = |node| {
                let ring = source.ring(node, &fleet);
                SealedLink::new(node, fleet.clone(), Life::of(1), false, ring).ok_or("no cipher")
            };
            let (mut root, mut middle, mut edge) = (guard(ROOT)?, guard(proxy)?, guard(leaf)?);
            meet(&mut [(ROOT, &mut root), (proxy, &mut middle), (leaf, &mut edge)]);
            let mut spent = [0; 4];
            let (mut sealed, mut passed) = (Vec::new(), Vec::new());
            for id in 0..DATAGRAMS as u64 {
                let clear = datagram(ROOT, id, len);
                sealed.clear();
                let start = Instant::now();
                let sent = root.seal(Nanos(1), proxy, (&clear, false), &mut sealed);
                spent[0] += start.elapsed().as_nanos();
                assert!(sent && middle.open(Nanos(1), &sealed).is_ok());
                let onward = datagram(proxy, id, len);
                passed.clear();
                let start = Instant::now();
                let sent = middle.seal(Nanos(1), leaf, (&onward, false), &mut passed);
                spent[1] += start.elapsed().as_nanos();
                let start = Instant::now();
                let opened = edge.open(Nanos(1), &passed).is_ok();
                spent[2] += start.elapsed().as_nanos();
                assert!(sent && opened);
                let start = Instant::now();
                from.send(&clear)?;
                to.recv(&mut buffer)?;
                spent[3] += start.elapsed().as_nanos();
            }
            best.iter_mut().zip(spent).for_each(|(best, spent)| *best = (*best).min(spent));
        }
        let [seal, pass, open, hop] = best.map(|ns| ns / DATAGRAMS as u128);
        println!("{len:>5} bytes        {seal:>4}  {pass:>7}  {open:>6}  {hop:>14}");
    }
    Ok(())
}

/// All come to know each other's lives.
fn meet(nodes: &mut [(NodeId, &mut SealedLink<KeyRing>)]) {
    // The middle one has to be asked by what comes first.
    let mut unsent = Vec::new();
    let first = datagram(nodes[1].0, 0, 1);
    let leaf = nodes[2].0;
    nodes[1].1.seal(Nanos(0), leaf, (&first, false), &mut unsent);
    nodes.iter_mut().for_each(|(_, guard)| guard.handle_timeout(Nanos(0)));
    for _ in 0..4 {
        let mut said = Vec::new();
        for (_, guard) in nodes.iter_mut() {
            guard.take_hellos(|to, bytes| said.push((to, bytes.to_vec())));
        }
        for (to, bytes) in said {
            if let Some((_, guard)) = nodes.iter_mut().find(|(node, _)| *node == to) {
                let _ = guard.open(Nanos(0), &bytes);
            }
        }
    }
}

/// Market data of so many bytes behind the header and body.
fn datagram(sender: NodeId, id: u64, len: usize) -> Vec<u8> {
    let header = HopHeader::new(FrameKind::Data, sender, 1);
    let (t_sent, deadline) = (Nanos(1), Nanos(2));
    let body = DataBody { id, t_sent, deadline, bound_ns: 0, stream: 0, hedge: 0, flags: 0 };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, header, &body, &vec![0x5A; len]);
    bytes
}
