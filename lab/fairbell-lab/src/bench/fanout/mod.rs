//! `fairbell-lab bench fanout`: one message to N receivers, each data plane beside its bare call.
//!
//! Over a cable of virtual Ethernet between two network namespaces, into a program that takes each frame
//! in the receiving driver. Players take turns in slices of some milliseconds, in an order that changes
//! from round to round; what is told are medians of slices, and of each round's ratio of a plane to its
//! bare call, so that a machine with other work on it disturbs all alike.

mod calls;
pub mod ground;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use fairbell::options::duration;
use host::failure::Failure;
use net::plane::PlaneKind;
use serde_json::{Value, json};
use telemetry::plot::{self, Curve, Figure};

use ground::{Ground, PLAYERS, Player, Slice};

/// Options of `fairbell-lab bench fanout`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench fanout                            10, 100 and 1000 copies of 128 bytes\n  \
    fairbell-lab bench fanout --copies 40 --size 300 --duration 30s --json\n  \
    fairbell-lab bench fanout --by-size --plot out       cloning against copying by payload size\n\n\
    It needs root, network namespaces and `ip`; where they are refused it says so and exits with 3.")]
pub struct FanoutArgs {
    /// Copies of a message, several times for several [default: 10, 100, 1000]
    #[arg(long = "copies", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub copies: Vec<u32>,
    /// Bytes of a datagram
    #[arg(long, value_name = "BYTES", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(64..=1_400))]
    pub size: u32,
    /// Instead: 10 copies (or the first of --copies) of datagrams of 64 to 1,400 bytes
    #[arg(long)]
    pub by_size: bool,
    /// Time of measurement for each number of copies or size
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "6s")]
    pub duration: Duration,
    /// Fixes the bytes of the messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write plots to FOLDER, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    pub plot: Option<PathBuf>,
    /// Exit with 1 unless the bars hold: planes within 1.15 of their bare calls at up to 100 copies, tc-clone
    /// within 0.65 of sendto a copy and 0.45 of its window at 10
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

const SLICE: Duration = Duration::from_millis(3);
/// Messages whose windows are looked at in a round.
const WINDOWS: usize = 8;
const COPIES: [u32; 3] = [10, 100, 1_000];
const SIZES: [u32; 8] = [64, 128, 256, 512, 768, 1_024, 1_280, 1_400];
/// Bars of the design: a plane over its bare call, tc-clone over sendto, its window over sendto's.
const BARS: [f64; 3] = [1.15, 0.65, 0.45];

/// What one player did.
struct Played {
    player: Player,
    slices: Vec<Slice>,
    windows: Vec<u64>,
}

impl Played {
    fn wall_ns(&self) -> f64 {
        median(self.slices.iter().map(|slice| slice.wall_ns).collect())
    }

    fn cpu_ns(&self) -> f64 {
        median(self.slices.iter().map(|slice| slice.cpu_ns).collect())
    }

    fn window_ns(&self) -> f64 {
        median(self.windows.iter().map(|ns| *ns as f64).collect())
    }

    fn lost(&self) -> u64 {
        self.slices.iter().map(|slice| slice.sent.saturating_sub(slice.came)).sum()
    }

    fn sent(&self) -> u64 {
        self.slices.iter().map(|slice| slice.sent).sum()
    }
}

/// One number of copies of one size.
struct Found {
    copies: u32,
    size: u32,
    played: Vec<Played>,
}

impl Found {
    fn of(&self, player: Player) -> Option<&Played> {
        self.played.iter().find(|played| played.player == player)
    }

    /// Median over the rounds of what one took by what another took; by the clock and on the CPU.
    fn ratio(&self, of: Player, to: Player) -> Option<[f64; 2]> {
        let (of, to) = (self.of(of)?, self.of(to)?);
        let by = |what: fn(&Slice) -> f64| {
            median(of.slices.iter().zip(&to.slices).map(|(a, b)| what(a) / what(b)).collect())
        };
        Some([by(|slice| slice.wall_ns), by(|slice| slice.cpu_ns)])
    }

    fn window_ratio(&self) -> Option<f64> {
        let (of, to) = (self.of(Player::Plane(PlaneKind::TcClone))?, self.of(Player::Sendto)?);
        Some(of.window_ns() / to.window_ns())
    }

    /// Bars that are missed.
    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut judge = |what: String, ratio: Option<f64>, bar: f64| {
            if let Some(ratio) = ratio.filter(|ratio| *ratio > bar) {
                missed.push(format!("{} copies: {what}: {ratio:.2}, bar {bar}", self.copies));
            }
        };
        let clone = Player::Plane(PlaneKind::TcClone);
        if self.copies <= 100 {
            for player in PLAYERS.iter().copied() {
                let Some(bare) = player.bare() else { continue };
                let ratio = self.ratio(player, bare).map(|[_, cpu]| cpu);
                judge(format!("{} over {}", player.name(), bare.name()), ratio, BARS[0]);
            }
            let ratio = self.ratio(clone, Player::Sendto).map(|[_, cpu]| cpu);
            judge("tc-clone over sendto".to_string(), ratio, BARS[1]);
        }
        if self.copies == 10 {
            judge("window of tc-clone over sendto's".to_string(), self.window_ratio(), BARS[2]);
        }
        missed
    }
}

/// Measures and prints.
///
/// # Errors
/// Where the ground is refused; with `--strict` bars that are missed.
pub fn run(args: &FanoutArgs) -> Result<(), Failure> {
    let copies = if args.copies.is_empty() { &COPIES[..] } else { &args.copies };
    let cases: Vec<(u32, u32)> = match args.by_size {
        true => SIZES.iter().map(|size| (copies[0], *size)).collect(),
        false => copies.iter().map(|copies| (*copies, args.size)).collect(),
    };
    let mut all = Vec::new();
    for (copies, size) in cases {
        let found = measure(copies, size, args)?;
        if !args.json {
            print(&found);
        }
        all.push(found);
    }
    let figures = figures(&all, args.by_size);
    let files = match &args.plot {
        Some(folder) => plot::write(&figures, folder)
            .map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?,
        None => Vec::new(),
    };
    match args.json {
        true => println!("{:#}", document(args, &all, &files)),
        false => files.iter().for_each(|file| println!("{}", file.display())),
    }
    let missed: Vec<String> = all.iter().flat_map(Found::missed).collect();
    match missed.is_empty() || !args.strict {
        true => Ok(()),
        false => Err(Failure::Run(missed.join("; "))),
    }
}

fn measure(copies: u32, size: u32, args: &FanoutArgs) -> Result<Found, Failure> {
    let mut ground = Ground::new(copies as usize, size as usize, args.seed)?;
    let new = |player| Played { player, slices: Vec::new(), windows: Vec::new() };
    let mut played: Vec<Played> = PLAYERS.iter().copied().map(new).collect();
    // A round that is not counted: caches, and what planes learn first.
    for player in PLAYERS.iter().copied() {
        ground.play(player, SLICE)?;
    }
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < args.duration || round == 0 {
        for turn in 0..PLAYERS.len() {
            let of = &mut played[(turn + round) % PLAYERS.len()];
            of.slices.push(ground.play(of.player, SLICE)?);
            of.windows.extend(ground.windows(of.player, WINDOWS)?);
        }
        round += 1;
    }
    Ok(Found { copies, size, played })
}

/// The middle one.
pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print(found: &Found) {
    let Found { copies, size, played } = found;
    let rounds = played.first().map_or(0, |played| played.slices.len());
    println!(
        "{copies} copies of {size} bytes, medians of {rounds} slices each in turn, veth between namespaces"
    );
    println!("{:<14} ns/copy  CPU ns/copy  over bare: time  CPU   window us    copies    lost", "");
    for of in played {
        let ratio = of.player.bare().and_then(|bare| found.ratio(of.player, bare));
        let ratio =
            ratio.map_or(format!("{:>21}", "-"), |[wall, cpu]| format!("{wall:>16.2} {cpu:>4.2}"));
        println!(
            "{:<14} {:>7.0} {:>12.0} {ratio} {:>11.2} {:>9} {:>7}",
            of.player.name(),
            of.wall_ns(),
            of.cpu_ns(),
            of.window_ns() / 1e3,
            of.sent(),
            of.lost(),
        );
    }
    let clone = Player::Plane(PlaneKind::TcClone);
    if let Some([wall, cpu]) = found.ratio(clone, Player::Sendto) {
        let window = found.window_ratio().unwrap_or(f64::NAN);
        println!("tc-clone over sendto: time {wall:.2}, CPU {cpu:.2}, window {window:.2}");
    }
}

fn document(args: &FanoutArgs, all: &[Found], files: &[PathBuf]) -> Value {
    let one = |found: &Found| {
        let players = found.played.iter().map(|of| {
            let ratio = of.player.bare().and_then(|bare| found.ratio(of.player, bare));
            json!({ "name": of.player.name(), "ns_per_copy": of.wall_ns(), "cpu_ns_per_copy": of.cpu_ns(),
                    "cpu_ns_per_message": of.cpu_ns() * f64::from(found.copies),
                    "over_bare": ratio.map(|[wall, cpu]| json!({ "time": wall, "cpu": cpu })),
                    "window_ns": of.window_ns(), "slices": of.slices.len(), "sent": of.sent(),
                    "lost": of.lost() })
        });
        let clone = found.ratio(Player::Plane(PlaneKind::TcClone), Player::Sendto);
        json!({ "copies": found.copies, "bytes": found.size, "players": players.collect::<Vec<_>>(),
                "tc_clone_over_sendto": clone.map(|[wall, cpu]| json!({ "time": wall, "cpu": cpu })),
                "tc_clone_window_over_sendto": found.window_ratio(), "missed": found.missed() })
    };
    json!({ "bench": "fanout", "seed": args.seed, "cases": all.iter().map(one).collect::<Vec<_>>(),
            "plots": files })
}

fn figures(all: &[Found], by_size: bool) -> Vec<Figure> {
    let curve = |player: Player, y: fn(&Played) -> f64| {
        let point = |found: &Found| {
            let x = if by_size { found.size } else { found.copies };
            found.of(player).map(|of| (f64::from(x), y(of)))
        };
        Curve { name: player.name().to_string(), points: all.iter().filter_map(point).collect() }
    };
    let curves = |y| PLAYERS.iter().copied().map(|player| curve(player, y)).collect();
    let x = if by_size { "bytes of a datagram" } else { "copies of a message" };
    let (cost, window) = match by_size {
        true => ("fanout-by-size", "fanout-window-by-size"),
        false => ("fanout", "fanout-window"),
    };
    vec![
        Figure {
            file: cost,
            title: "What a copy costs".to_string(),
            x,
            y: "CPU time, ns a copy",
            curves: curves(Played::cpu_ns),
        },
        Figure {
            file: window,
            title: "From the first copy to the last, in the receiving driver".to_string(),
            x,
            y: "window, us",
            curves: curves(|of| of.window_ns() / 1e3),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> FanoutArgs {
        FanoutArgs {
            copies: vec![7],
            size: 200,
            by_size: false,
            duration: Duration::from_millis(200),
            seed: 3,
            plot: None,
            strict: false,
            json: true,
        }
    }

    #[test]
    fn every_copy_of_every_player_arrives_and_is_counted() {
        let found = match measure(7, 200, &args()) {
            Ok(found) => found,
            Err(error @ Failure::Unavailable(_)) if std::env::var_os("CI").is_none() => {
                println!("not tested: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        for of in &found.played {
            assert!(of.sent() > 0 && of.sent() % 7 == 0, "{:?}", of.player);
            assert_eq!(of.lost(), 0, "{:?}", of.player);
            assert!(!of.windows.is_empty() && of.wall_ns() > 0.0);
        }
        let told = document(&args(), &[found], &[]);
        assert_eq!(told["cases"][0]["players"].as_array().map(Vec::len), Some(PLAYERS.len()));
    }

    /// Whoever sends, the nodes that hear a message from a proxy are those that the tree says, each once, with
    /// the bytes that are its own.
    #[test]
    fn the_children_of_a_message_are_the_trees_by_every_plane() {
        use net::plane::DataPlane;
        use overlay::frame::{self, DataBody, FrameKind, HopHeader};
        use overlay::proxy::{Proxy, ProxyConfig};
        use overlay::topology::{Topology, Tree};
        use std::net::{Ipv4Addr, UdpSocket};
        use types::{Channel, ClockReading, Nanos, Node, NodeId, Op, Outbox, Peer, SplitMix64};

        let mut random = SplitMix64::new(11);
        for kind in PlaneKind::built() {
            for round in 0..6 {
                let (fanout, receivers) =
                    (2 + random.below(4) as usize, 4 + random.below(20) as usize);
                let topology = Topology::new(3, fanout, receivers).expect("a tree");
                let hedge = random.below(3) as usize;
                let tree =
                    Tree { topology, hedge, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
                let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                let ears: Vec<UdpSocket> = (0..topology.id_end())
                    .map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"))
                    .collect();
                ears.iter().for_each(|ear| ear.set_nonblocking(true).expect("an option"));
                let at = |node: NodeId| ears[usize::from(node.0)].local_addr().expect("bound");
                let peers: Vec<_> = topology.proxy_ids().map(at).collect();
                let mut plane = match DataPlane::open(kind, &sender, &peers) {
                    Ok(plane) => plane,
                    Err(error) if std::env::var_os("CI").is_none() => {
                        println!("not tested: {error}");
                        break;
                    }
                    Err(error) => panic!("{error}"),
                };
                for node in topology.proxy_ids() {
                    let mut proxy = Proxy::new(tree, node, ProxyConfig::default());
                    for id in 1..4u64 {
                        let parent = tree.parents(node, id).next().expect("a parent");
                        let body = DataBody {
                            id,
                            t_sent: Nanos(1),
                            deadline: Nanos(2),
                            bound_ns: 0,
                            stream: 0,
                            hedge: 0,
                            flags: 0,
                        };
                        let (mut bytes, mut out) = (Vec::new(), Outbox::default());
                        let header = HopHeader::new(FrameKind::Data, parent, 1);
                        frame::encode(&mut bytes, header, &body, &[7; 60]);
                        let now = ClockReading { now: Nanos(9), bound_ns: 0 };
                        proxy.handle_datagram(
                            now,
                            Channel::OVERLAY,
                            Peer::Node(parent),
                            &bytes,
                            &mut out,
                        );
                        for op in out.ops() {
                            if let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op {
                                // What a link would make of each: ends of its own.
                                let mut sealed = out.bytes(bytes).to_vec();
                                sealed[..2].copy_from_slice(&to.0.to_le_bytes());
                                plane.send(&sender, at(to), &sealed).expect("sent");
                            }
                        }
                        plane.flush(&sender).expect("sent");
                        let wanted: Vec<NodeId> = tree.children_stamped(node, id, 0).collect();
                        for (number, ear) in (0u16..).zip(&ears) {
                            let copies = wanted.iter().filter(|child| child.0 == number).count();
                            for _ in 0..copies {
                                ear.set_nonblocking(false).expect("an option");
                                ear.set_read_timeout(Some(Duration::from_secs(5)))
                                    .expect("an option");
                                let mut heard = [0; 200];
                                let len = ear.recv(&mut heard).expect("its copy");
                                assert_eq!(
                                    (len > 60, &heard[..2]),
                                    (true, &number.to_le_bytes()[..])
                                );
                                ear.set_nonblocking(true).expect("an option");
                            }
                            let more = ear.recv(&mut [0; 200]);
                            assert!(
                                more.is_err(),
                                "{kind} round {round} node {} to {number}",
                                node.0
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bars_are_missed_by_who_is_slower() {
        let played = |player, ns: f64| Played {
            player,
            slices: vec![Slice { wall_ns: ns, cpu_ns: ns, sent: 10, came: 10 }; 3],
            windows: vec![ns as u64 * 9; 3],
        };
        let found = |clone: f64| Found {
            copies: 10,
            size: 128,
            played: vec![
                played(Player::Sendto, 1_000.0),
                played(Player::Batched, 1_000.0),
                played(Player::Plane(PlaneKind::Udp), 1_010.0),
                played(Player::BareClone, 400.0),
                played(Player::Plane(PlaneKind::TcClone), clone),
            ],
        };
        assert_eq!(found(440.0).missed(), Vec::<String>::new());
        let missed = found(900.0).missed();
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert!(missed[1].contains("tc-clone over sendto: 0.90, bar 0.65"), "{missed:?}");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
