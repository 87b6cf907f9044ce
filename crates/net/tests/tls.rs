//! TLS on real loopback sockets: who is let in, what the node is told, and what a handshake may
//! take. Every test ends within its own deadline.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{
    ClientTls, Clients, Clock, Counters, Directory, Identity, Loop, LoopConfig, LoopHandle,
    ServerTls, peer_addr,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use types::{Address, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Remote};

const PATIENCE: Duration = Duration::from_secs(10);
const SERVER: NodeId = NodeId(1);
const CLIENT: NodeId = NodeId(2);

/// An authority and what it signs, in PEM.
struct Authority(CertifiedIssuer<'static, KeyPair>);

struct Signed {
    chain: String,
    key: String,
}

impl Signed {
    fn identity(&self) -> Identity<'_> {
        Identity { chain: self.chain.as_bytes(), key: self.key.as_bytes() }
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new() -> Authority {
        let mut params = params("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(name).signed_by(&key, &self.0).expect("signed");
        Signed { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

/// What a node was told, shared with the test.
#[derive(Default)]
struct Told {
    accepted: Vec<Remote>,
    connected: usize,
    closed: usize,
    bytes: Vec<u8>,
}

type Shared = Arc<Mutex<Told>>;

fn told(of: &Shared) -> MutexGuard<'_, Told> {
    of.lock().expect("no test panics with it")
}

/// Echoes what it is sent, or sends and gathers the echo.
struct Plain {
    told: Shared,
    /// What to send once connected, and to whom; a server has none.
    errand: Option<(Peer, Vec<u8>)>,
    started: bool,
}

impl Node for Plain {
    fn handle_timeout(&mut self, _: ClockReading, out: &mut Outbox) {
        self.started = true;
        if let Some((to, _)) = &self.errand {
            out.connect(ConnId(1), *to);
        }
    }

    fn next_timeout(&self) -> Nanos {
        if self.started { Nanos::NEVER } else { Nanos(0) }
    }

    fn handle_connect(&mut self, _: ClockReading, conn: ConnId, out: &mut Outbox) {
        told(&self.told).connected += 1;
        if let Some((_, bytes)) = &self.errand {
            for part in bytes.chunks(70_000) {
                let span = out.store(part);
                out.stream(conn, span);
            }
        }
    }

    fn handle_accept(&mut self, _: ClockReading, _: ConnId, remote: &Remote, _: &mut Outbox) {
        told(&self.told).accepted.push(remote.clone());
    }

    fn handle_stream(&mut self, _: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        told(&self.told).bytes.extend_from_slice(bytes);
        if self.errand.is_none() {
            let span = out.store(bytes);
            out.stream(conn, span);
            if bytes == b"bye" {
                out.close(conn);
            }
        }
    }

    fn handle_close(&mut self, _: ClockReading, _: ConnId, _: &mut Outbox) {
        told(&self.told).closed += 1;
    }
}

/// A loop on its thread.
struct Running {
    told: Shared,
    handle: LoopHandle<Plain>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok(), "the loop panicked");
        }
    }
}

impl Running {
    fn counters(&self) -> Counters {
        self.handle.counters()
    }

    fn until(&self, what: &str, done: impl Fn(&Told, &Counters) -> bool) {
        let started = Instant::now();
        while !done(&told(&self.told), &self.counters()) {
            assert!(started.elapsed() < PATIENCE, "{what}: {:?}", self.counters());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn start(of: Loop<Plain>, told: Shared, address: Option<SocketAddr>) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let (handle, flag) = (of.handle(), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
        of.run(&flag, Duration::from_secs(1), |_, _| {}).expect("epoll works");
    });
    Running { told, handle, stop, thread: Some(thread), address }
}

fn habits() -> LoopConfig {
    LoopConfig { unread_max: 8 << 20, ..LoopConfig::default() }
}

fn empty(config: LoopConfig) -> Loop<Plain> {
    Loop::new(Clock::start(0), Arc::new(Directory::default()), config).expect("epoll")
}

fn server(tls: ServerTls, config: LoopConfig) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let shared = Shared::default();
    let node = Plain { told: shared.clone(), errand: None, started: false };
    let mut of = empty(config);
    of.add_node(SERVER, node, Vec::new(), Some(listener)).expect("added");
    assert!(of.secure_door(SERVER, 0, tls.clone()));
    assert!(!of.secure_door(SERVER, 1, tls), "there is no second door");
    start(of, shared, Some(address))
}

fn client(tls: ClientTls, to: &Running, bytes: &[u8]) -> Running {
    let Some(address) = to.address else { panic!("a server") };
    let shared = Shared::default();
    let errand = Some((peer_addr(address), bytes.to_vec()));
    let mut of = empty(habits());
    let node = Plain { told: shared.clone(), errand, started: false };
    of.add_node(CLIENT, node, Vec::new(), None).expect("added");
    assert!(of.secure_outgoing(CLIENT, tls));
    start(of, shared, None)
}

fn trust(authority: &Authority, identity: Option<&Signed>) -> ClientTls {
    let identity = identity.map(Signed::identity);
    ClientTls::new(authority.pem().as_bytes(), "localhost", identity).expect("sound")
}

fn door(authority: &Authority, clients: Clients<'_>) -> ServerTls {
    ServerTls::new(authority.sign("server").identity(), clients).expect("sound")
}

#[test]
fn the_node_learns_whose_certificate_it_is_and_every_byte_arrives() {
    let authority = Authority::new();
    let member = authority.sign("member1");
    let pem = authority.pem();
    let server = server(door(&authority, Clients::Required(pem.as_bytes())), habits());
    let bytes: Vec<u8> = (0..1_500_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let client = client(trust(&authority, Some(&member)), &server, &bytes);
    client.until("the echo", |told, _| told.bytes.len() >= bytes.len());
    assert!(told(&client.told).bytes == bytes, "the echo is what was sent");
    let remotes = told(&server.told).accepted.clone();
    let [Remote { address, certificate: Some(shown) }] = &remotes[..] else {
        panic!("{remotes:?}")
    };
    assert_eq!(*address, Some(Address::v4(0x7F00_0001)));
    assert_eq!(shown.name, b"member1");
    assert_eq!(Ok(shown.fingerprint), Identity::fingerprint(member.chain.as_bytes()));
    assert_eq!(server.counters().handshakes, 1);
}

#[test]
fn a_node_may_speak_tls_with_some_and_in_clear_with_others() {
    let authority = Authority::new();
    let sealed = server(door(&authority, Clients::Any), habits());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain = listener.local_addr().expect("bound");
    let shared = Shared::default();
    let node = Plain { told: shared.clone(), errand: None, started: false };
    let mut of = empty(habits());
    of.add_node(SERVER, node, Vec::new(), Some(listener)).expect("added");
    let clear = start(of, shared, Some(plain));
    let tells = |to: &Running, only: &Running| {
        let shared = Shared::default();
        let at = |of: &Running| of.address.map(peer_addr).expect("a server");
        let errand = Some((at(to), b"hello".to_vec()));
        let mut of = empty(habits());
        let node = Plain { told: shared.clone(), errand, started: false };
        of.add_node(CLIENT, node, Vec::new(), None).expect("added");
        assert!(of.secure_outgoing_to(CLIENT, trust(&authority, None), vec![at(only)]));
        start(of, shared, None)
    };
    for to in [&sealed, &clear] {
        tells(to, &sealed).until("the echo", |told, _| told.bytes == b"hello");
    }
    // Control: what is said in clear at a door with TLS is not heard.
    let wrong = tells(&sealed, &clear);
    wrong.until("the end", |told, _| told.closed == 1);
    assert!(told(&wrong.told).bytes != b"hello");
    assert_eq!(sealed.counters().handshakes, 1);
}

#[test]
fn an_end_reaches_the_other_side_after_the_last_bytes() {
    let authority = Authority::new();
    let server = server(door(&authority, Clients::Any), habits());
    let client = client(trust(&authority, None), &server, b"bye");
    client.until("the end", |told, _| told.closed == 1);
    assert_eq!(told(&client.told).bytes, b"bye");
    assert_eq!(told(&server.told).accepted[0].certificate, None);
}

#[test]
fn who_has_no_certificate_of_ours_is_unknown_to_the_node() {
    let (authority, other) = (Authority::new(), Authority::new());
    let pem = authority.pem();
    let foreign = other.sign("member1");
    for identity in [None, Some(&foreign)] {
        let server = server(door(&authority, Clients::Required(pem.as_bytes())), habits());
        let client = client(trust(&authority, identity), &server, b"hello");
        client.until("the refusal", |told, _| told.closed == 1);
        server.until("the count", |_, counters| counters.handshakes_failed == 1);
        assert!(told(&server.told).accepted.is_empty() && told(&server.told).bytes.is_empty());
    }
    // Where certificates are optional, one that nobody trusts is none all the same.
    let server = server(door(&authority, Clients::Optional(pem.as_bytes())), habits());
    let nobody = client(trust(&authority, None), &server, b"hello");
    nobody.until("the echo", |told, _| told.bytes == b"hello");
    let stranger = client(trust(&authority, Some(&foreign)), &server, b"hello");
    stranger.until("the refusal", |told, _| told.closed == 1);
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_talked_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(door(&other, Clients::Any), habits());
    let client = client(trust(&authority, None), &server, b"secret");
    client.until("the end", |told, _| told.closed == 1);
    server.until("the count", |_, counters| counters.handshakes_failed == 1);
    assert_eq!(told(&client.told).connected, 0);
}

#[test]
fn garbage_and_too_much_of_a_handshake_end_it() {
    let authority = Authority::new();
    let tls = door(&authority, Clients::Any);
    let server = server(tls, LoopConfig { handshake_bytes_max: 8 << 10, ..habits() });
    // A record that claims to belong to a long handshake message, over and over.
    let mut long = Vec::new();
    for first in [true, false, false, false, false] {
        let mut body = vec![0u8; 4_000];
        if first {
            body[..4].copy_from_slice(&[1, 0, 0xF0, 0]);
        }
        long.extend([22, 3, 1, 0x0F, 0xA0]);
        long.extend(body);
    }
    let old = b"\x16\x03\x01\x00\x02\x01\x00";
    let firsts: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", &[0xFF; 700], old, &long];
    for (n, first) in (1..).zip(firsts) {
        let mut stream = TcpStream::connect(server.address.expect("listens")).expect("connects");
        // It may be cut while we still write.
        let _ = stream.write_all(first);
        if first == old {
            drop(stream);
        } else {
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.len() < 64, "an alert at most");
        }
        server.until("the end", |_, counters| counters.handshakes_failed == n);
    }
    assert!(told(&server.told).accepted.is_empty());
}

#[test]
fn handshakes_are_bounded_in_number_and_time_and_others_get_through() {
    let authority = Authority::new();
    let limits = LoopConfig {
        handshakes_max: 24,
        handshakes_per_source_max: 16,
        handshake_ns: 300 * Nanos::MILLI,
        ..habits()
    };
    let server = server(door(&authority, Clients::Any), limits);
    let address = server.address.expect("listens");
    let held: Vec<TcpStream> = (0..100).filter_map(|_| TcpStream::connect(address).ok()).collect();
    // The oldest make room for the newest.
    server.until("those cut", |_, counters| counters.handshakes_refused >= 84);
    server.until("the end of the wait", |_, counters| counters.handshakes_late == 16);
    assert_eq!(server.counters().handshakes_refused, 84);
    drop(held);
    // One who means it gets through, whoever else is there.
    let _held: Vec<TcpStream> = (0..100).filter_map(|_| TcpStream::connect(address).ok()).collect();
    let client = client(trust(&authority, None), &server, b"hello");
    client.until("the echo", |told, _| told.bytes == b"hello");
}

#[test]
fn what_does_not_go_together_is_refused_with_the_reason() {
    let authority = Authority::new();
    let (one, two) = (authority.sign("one"), authority.sign("two"));
    let mixed = Identity { chain: one.chain.as_bytes(), key: two.key.as_bytes() };
    let complaint = |identity, clients| match ServerTls::new(identity, clients) {
        Ok(_) => "none".to_string(),
        Err(error) => error.to_string(),
    };
    assert!(complaint(mixed, Clients::Any).contains("keys"), "{}", complaint(mixed, Clients::Any));
    let own = one.identity();
    assert_eq!(complaint(own, Clients::Any), "none");
    assert!(complaint(Identity { chain: b"x", ..own }, Clients::Any).contains("no certificate"));
    assert!(complaint(Identity { key: b"x", ..own }, Clients::Any).contains("no private key"));
    assert!(complaint(own, Clients::Required(b"x")).contains("authority"));
}
