//! Participants' programs in a running exchange: signed, told what is released, caged, and replayed.

#[allow(dead_code)]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use common::{document, number};
use host::enclave::{Bounds, Image, Trust, attested};
use strategy::{Cage, Limits, Module, News, Program, Programmed, Strategy, heard};
use types::InstrumentId;

const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../strategy/tests/guests");

/// A folder of a test that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.current_dir(&self.0).args(args).output().expect("the binary runs")
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A guest's copy under a name of its own, signed for an account; its lines of the configuration.
    fn signed(&self, guest: &str, account: &str, settings: &str) -> String {
        let module = format!("{account}.wasm");
        fs::copy(Path::new(GUESTS).join(guest), self.0.join(&module)).expect("a copy");
        let key = format!("{account}.key");
        self.text(&["strategy", "key", &key]);
        let lines = self.text(&["strategy", "sign", &module, "--account", account, "--key", &key]);
        format!("{lines}settings = \"{settings}\"\nrecord = \"{account}.heard\"\n")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn account(name: &str) -> String {
    format!("[[account]]\nname = \"{name}\"\nusername = \"{name}\"\npassword = \"secret\"\n")
}

fn config(accounts: &[&str], strategies: &[String]) -> String {
    let accounts: String = accounts.iter().map(|name| account(name)).collect();
    format!(
        "doors.plain = true\n[flow]\nparticipants = 2\n[overlay]\nreceivers = 3\n{accounts}{}",
        strategies.concat()
    )
}

/// What a strategy of an account heard, told to the same module again.
fn again(folder: &Folder, account: &str, settings: &str) -> heard::Replayed {
    let record = fs::read(folder.0.join("out").join(format!("{account}.heard"))).expect("a record");
    let module = fs::read(folder.0.join(format!("{account}.wasm"))).expect("a module");
    let replayed = heard::replay(&record, |instruments, decimals| {
        let limits = Limits::default();
        let module = Module::new(account, &module, &limits).map_err(|why| why.to_string())?;
        let cage = Cage::new(&module, settings, &limits).map_err(|why| why.to_string())?;
        let bounds = (limits.actions, limits.unanswered);
        let started = Programmed::start(cage, (instruments, decimals), bounds);
        Ok(Box::new(started) as Box<dyn Strategy>)
    });
    replayed.expect("a record")
}

#[test]
fn what_is_no_strategy_is_signed_only_unchecked() {
    let folder = Folder::new("unsigned");
    folder.text(&["strategy", "key", "key"]);
    // A module of nothing, and one that imports a function.
    let head = b"\0asm\x01\0\0\0";
    let imports = b"\x01\x04\x01\x60\0\0\x02\x07\x01\x01a\x01b\0\0";
    for (name, bytes, why) in [
        ("hello", &b"hello"[..], "neither a WebAssembly module nor"),
        ("empty", head, "memory"),
        ("imports", &[&head[..], imports].concat(), "it imports b of a"),
    ] {
        fs::write(folder.0.join(name), bytes).expect("a file");
        let sign = ["strategy", "sign", name, "--account", "GUEST", "--key", "key"];
        let said = folder.refused(&sign);
        assert!(said.contains(why) && said.contains("nothing was signed"), "{said}");
        let signature = folder.0.join(format!("{name}.sig"));
        assert!(!signature.exists(), "{name}");
        folder.text(&[&sign[..], &["--unchecked"]].concat());
        assert!(signature.exists(), "{name}");
    }
}

#[test]
fn a_module_is_signed_for_an_account_that_the_configuration_knows() {
    let folder = Folder::new("sign-account");
    folder.text(&["strategy", "key", "key"]);
    fs::copy(Path::new(GUESTS).join("maker.wasm"), folder.0.join("m.wasm")).expect("a copy");
    fs::write(folder.0.join("venue.toml"), config(&["P1", "MAKER"], &[])).expect("a file");
    let signature = folder.0.join("m.wasm.sig");
    let sign = |account| ["strategy", "sign", "m.wasm", "--key", "key", "--account", account];
    let with = |account, config| [&sign(account)[..], &["--config", config]].concat();
    folder.refused(&sign(""));
    let said = folder.refused(&with("NOSUCH", "venue.toml"));
    assert!(said.contains("\"NOSUCH\" is no [[account]] of venue.toml"), "{said}");
    assert!(!signature.exists());
    folder.text(&with("MAKER", "venue.toml"));
    fs::remove_file(&signature).expect("signed");
    folder.text(&sign("NOSUCH"));
    fs::remove_file(&signature).expect("signed where no configuration is at hand");
    fs::copy(folder.0.join("venue.toml"), folder.0.join("fairbell.toml")).expect("a copy");
    folder.refused(&sign("NOSUCH"));
    assert!(!signature.exists());
    folder.text(&[&sign("NOSUCH")[..], &["--unchecked"]].concat());
}

#[test]
fn strategies_trade_live_are_caged_and_ask_for_the_same_again() {
    let folder = Folder::new("strategies");
    let maker = "lots=1000 offset=100 most=100000";
    let strategies = [
        folder.signed("maker.wasm", "MAKER", maker),
        folder.signed("taker.wasm", "TAKER", "lots=1000 most=5000 threshold=600"),
        folder.signed("misbehave.wasm", "LOOP", "loop at=200") + "edge = 2\n",
        folder.signed("misbehave.wasm", "FLOOD", "flood at=200") + "edge = 3\n",
        folder.signed("misbehave.wasm", "TRAP", "divide at=200"),
    ];
    let accounts = ["P1", "P2", "MAKER", "TAKER", "LOOP", "FLOOD", "TRAP"];
    fs::write(folder.0.join("venue.toml"), config(&accounts, &strategies)).expect("a file");
    let checked = folder.text(&["strategy", "check", "--config", "venue.toml"]);
    assert_eq!(checked.lines().count(), strategies.len(), "{checked}");
    assert!(checked.contains("signed for MAKER; starts with "), "{checked}");
    let up = ["up", "--config", "venue.toml", "--json", "--quiet", "--rate", "2000"];
    let rest = ["--port-base", "0", "--duration", "4s", "--out", "out"];
    let report = document(&folder.run(&[&up[..], &rest].concat()));
    assert_eq!(report["verdict"], "pass");
    let notices: Vec<&str> =
        report["notices"].as_array().expect("a list").iter().flat_map(|one| one.as_str()).collect();
    let line = |account: &str| {
        let of = format!("of {account}: ");
        let line = notices.iter().find(|line| line.contains(&of) && line.contains("heard"));
        line.copied().unwrap_or_else(|| panic!("{account} is not told of: {notices:?}"))
    };
    let messages = number(&report, "feed_messages");
    for (account, settings, why) in [
        ("MAKER", maker, None),
        ("TAKER", "lots=1000 most=5000 threshold=600", None),
        ("LOOP", "loop at=200", Some("out of fuel")),
        ("FLOOD", "flood at=200", Some("of its requests have no answer")),
        ("TRAP", "divide at=200", Some("trapped on a book")),
    ] {
        let line = line(account);
        assert_eq!(line.contains("stopped"), why.is_some(), "{line}");
        let replayed = again(&folder, account, settings);
        assert!(replayed.is_equal(), "{account}: {replayed:?}");
        // It hears all of the day.
        assert!(replayed.messages <= messages && replayed.messages > messages / 2, "{line}");
        match why {
            Some(why) => {
                let told = format!("strategy {account} of {account} is stopped");
                assert!(notices.iter().any(|line| line.contains(&told)), "{notices:?}");
                assert!(replayed.failed_now.is_some_and(|failed| failed.contains(why)), "{line}");
            }
            None => assert!(replayed.orders > 10 && replayed.reports > 10, "{line}: {replayed:?}"),
        }
    }
    // Control: other settings, other orders.
    assert!(!again(&folder, "MAKER", "lots=1").is_equal());
    // Their orders are in the log under their accounts, like everybody's.
    let statement = document(&folder.run(&[
        "statement",
        "--json",
        "--config",
        "venue.toml",
        "--log",
        "out/exchange.log",
    ]));
    assert_eq!(statement["reconciled"], true);
}

/// An example of the guest crate as a static program for an enclave.
fn program(example: &str) -> PathBuf {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/strategy/Cargo.toml");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("enclaves");
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--locked", "--manifest-path", manifest, "--target", &machine]);
    cargo.args(["--example", example, "--crate-type", "bin", "--target-dir"]).arg(&folder);
    // Static, and nothing of what this test is built with.
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "none");
    assert!(cargo.status().expect("cargo").success(), "{example} is not built");
    folder.join(machine).join("debug/examples").join(example)
}

#[test]
fn a_program_in_an_attested_enclave_asks_for_what_the_module_asks_for() {
    let folder = Folder::new("enclaves");
    let signed = |account: &str, example: &str, settings: &str, more: &str| {
        let file = format!("{account}.enclave");
        fs::copy(program(example), folder.0.join(&file)).expect("a copy");
        let key = format!("{account}.key");
        folder.text(&["strategy", "key", &key]);
        let sign = ["strategy", "sign", &file, "--account", account, "--key", &key];
        let lines = folder.text(&sign);
        assert!(lines.contains("measurement = \""), "{lines}");
        format!(
            "{lines}settings = \"{settings}\"\nrecord = \"{account}.heard\"\nmemory_kib = 65536\n{more}"
        )
    };
    let maker = "lots=1000 offset=100 most=100000";
    let [maker_lines, loop_lines, trap_lines] = [
        // A busy machine stops nobody: not the good one, and the bad one at its start as little.
        signed("MAKER", "maker", maker, "answer_ms = 10000\n"),
        signed("LOOP", "misbehave", "loop at=20", "answer_ms = 1000\nedge = 2\n"),
        signed("TRAP", "misbehave", "trap at=20", "answer_ms = 10000\nedge = 3\n"),
    ];
    let accounts = ["P1", "P2", "MAKER", "LOOP", "TRAP"];
    let enclaves = folder.text(&["strategy", "attestor", "attestor.key"]);
    let write = |strategies: &[String], enclaves: &str| {
        let text = config(&accounts, strategies) + enclaves;
        fs::write(folder.0.join("venue.toml"), text).expect("a file");
    };
    let check = ["strategy", "check", "--config", "venue.toml"];
    // Not believed: other code, an attestor under another root, and none at all.
    let place = maker_lines.find("measurement = \"").expect("it is there") + 15;
    let mut other = maker_lines.clone();
    other.replace_range(
        place..place + 2,
        if &other[place..place + 2] == "00" { "11" } else { "00" },
    );
    write(&[other], &enclaves);
    let why = folder.refused(&check);
    assert!(why.contains("enclave MAKER: attestation refused: wrong measurement: "), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
    write(std::slice::from_ref(&maker_lines), "");
    assert!(folder.refused(&check).contains("this machine has no attestor"));
    folder.text(&["strategy", "attestor", "other.key"]);
    write(std::slice::from_ref(&maker_lines), &enclaves.replace("key.pem", "pem"));
    fs::copy(folder.0.join("other.key.pem"), folder.0.join("attestor.pem")).expect("a copy");
    let why = folder.refused(&check);
    assert!(why.contains("attestation refused: wrong signer"), "{why}");

    write(&[maker_lines, loop_lines, trap_lines], &enclaves);
    let checked = folder.text(&check);
    assert!(checked.contains("starts with an attested enclave, "), "{checked}");
    let up = ["up", "--config", "venue.toml", "--json", "--quiet", "--rate", "2000"];
    let rest = ["--port-base", "0", "--duration", "4s", "--out", "out"];
    let report = document(&folder.run(&[&up[..], &rest].concat()));
    assert_eq!(report["verdict"], "pass");
    let notices = report["notices"].to_string();
    for (account, why) in
        [("LOOP", "the enclave does not answer on a book"), ("TRAP", "the enclave ended on a book")]
    {
        let stopped = format!("strategy {account} of {account} is stopped");
        assert!(notices.contains(&stopped) && notices.contains(why), "{notices}");
    }
    // The module of the same source asks for the same, bit for bit.
    fs::copy(Path::new(GUESTS).join("maker.wasm"), folder.0.join("MAKER.wasm")).expect("a copy");
    let replayed = again(&folder, "MAKER", maker);
    assert!(replayed.is_equal() && replayed.orders > 10, "{replayed:?}");
    assert!(!again(&folder, "MAKER", "lots=1").is_equal());
}

#[test]
fn a_program_that_does_not_answer_is_ended() {
    let bytes = fs::read(program("misbehave")).expect("a program");
    let image = Image::new(&bytes).expect("an executable");
    let clock = net::Clock::start(0);
    let trust = Trust::own(clock.now()).expect("randomness");
    let bounds = Bounds { memory_bytes: 64 << 20, answer: Duration::from_secs(2) };
    let expected = (image.measurement(), &bounds, clock);
    let running = attested(&trust, &image, ("misbehave", "loop at=2"), expected);
    let (mut running, mut answer) = (running.expect("it attests itself"), Vec::new());
    let start = News::Start { instruments: &[], price_decimals: 4 };
    running.tell(&start, &mut answer).expect("it starts");
    let (now, instrument) = (clock.now(), InstrumentId(1));
    let book = News::Book { now, instrument, bids: &[], asks: &[], held: 0, orders: &[] };
    running.tell(&book, &mut answer).expect("it answers the first book");
    // Control: it runs until then.
    assert!(running.process.is_running());
    let why = running.tell(&book, &mut answer).expect_err("it loops at the second one");
    assert!(why.contains("the enclave does not answer on a book"), "{why}");
    assert!(!running.process.is_running());
}

#[test]
fn what_is_not_signed_or_not_within_limits_does_not_start() {
    let folder = Folder::new("strategies-refused");
    let good = folder.signed("maker.wasm", "MAKER", "lots=2");
    let up = |strategy: &str| {
        fs::write(
            folder.0.join("venue.toml"),
            config(&["P1", "P2", "MAKER", "OTHER"], &[strategy.to_string()]),
        )
        .expect("a file");
        folder.refused(&["up", "--config", "venue.toml", "--once", "--quiet", "--port-base", "0"])
    };
    let signature = fs::read_to_string(folder.0.join("MAKER.wasm.sig")).expect("a signature");
    // Somebody else's module.
    let why = up(&good.replace("account = \"MAKER\"", "account = \"OTHER\""));
    assert!(why.contains("another module, for another account"), "{why}");
    for (more, said) in [
        ("module_kib = 1\n", "above 1024"),
        ("fuel = 1000\n", "fuel"),
        ("memory_kib = 64\n", "start"),
        ("edge = 9\n", "edge: must be at most overlay.receivers"),
    ] {
        let why = up(&(good.clone() + more));
        assert!(why.contains(said) && why.lines().count() == 1, "{more}{why}");
    }
    let why = up(&good.replace("lots=2", "lots=0"));
    assert!(why.contains("lots=0: 1 to 1000000"), "{why}");
    // One byte of the module is another one.
    let mut bytes = fs::read(folder.0.join("MAKER.wasm")).expect("a module");
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    fs::write(folder.0.join("MAKER.wasm"), bytes).expect("a file");
    assert!(up(&good).contains("MAKER.wasm.sig"));
    fs::write(folder.0.join("MAKER.wasm.sig"), &signature[..20]).expect("a file");
    assert!(up(&good).contains("128 hexadecimal digits"));
    fs::remove_file(folder.0.join("MAKER.wasm.sig")).expect("a file");
    assert!(up(&good).contains("MAKER.wasm.sig"));
    // A key is not written over.
    assert!(folder.refused(&["strategy", "key", "MAKER.key"]).contains("is there already"));
}
