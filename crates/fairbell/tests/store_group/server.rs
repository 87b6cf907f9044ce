//! The store on a PostgreSQL server, where there is one: `scripts/with-postgres.sh` starts one, and says so in
//! `FAIRBELL_POSTGRES`. Where `CI` is set there has to be one.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use store::{Place, Query};

use super::Scratch;
use super::common::{Running, document, number};

const SERVER: &str = "FAIRBELL_POSTGRES";

/// A schema of the server; gone with it.
struct Schema(String);

impl Schema {
    fn new(name: &str) -> Option<Schema> {
        let url = std::env::var(SERVER).ok().filter(|url| !url.is_empty());
        if url.is_none() {
            let way =
                format!("{SERVER} names no server; scripts/with-postgres.sh COMMAND starts one");
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is to be tested: {way}");
            eprintln!("PostgreSQL is not tested: {way}");
        }
        url.map(|url| Schema(format!("{url}#{name}_{}", std::process::id())))
    }

    fn place(&self) -> Place {
        Place::read(&self.0).expect("an address")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let _ = store::remove(&self.place());
    }
}

struct Exchange {
    scratch: Scratch,
    schema: Schema,
}

impl Exchange {
    fn new(name: &str, schema: Schema, follow: bool) -> Exchange {
        let scratch = Scratch::new(name);
        let text = format!(
            "[doors]\nplain = true\n[overlay]\ndepth = 2\nfanout = 2\nreceivers = 2\n\
             [journal]\ndurability = \"local\"\ndir = \"{}\"\n[store]\nfollow = {follow}\n\
             engine = \"postgres\"\nurl = \"{}\"\npoll_ms = 20\n",
            scratch.at("journal").display(),
            schema.0,
        );
        std::fs::write(scratch.at("server.toml"), text).expect("a file");
        Exchange { scratch, schema }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        command.args(args).arg("--config").arg(self.scratch.at("server.toml")).arg("--json");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary runs")
    }

    fn up(&self, duration: &str) -> Output {
        let out = self.scratch.at("out").display().to_string();
        let args = ["up", "--quiet", "--rate", "1000", "--port-base", "0", "--out", &out];
        self.run(&[&args[..], &["--duration", duration]].concat())
    }

    fn reconciles(&self) {
        let reconciled = document(&self.run(&["store", "reconcile"]));
        assert_eq!(number(&reconciled, "differences"), 0, "{reconciled:#}");
        assert!(number(&reconciled, "inputs") > 300, "{reconciled:#}");
    }

    fn held(&self) -> u64 {
        let held = Query::open(self.schema.place()).and_then(|query| query.freeze());
        held.map_or(0, |held| held.applied)
    }
}

#[test]
fn an_exchange_feeds_a_store_on_a_server_which_is_asked_and_made_anew() {
    let Some(schema) = Schema::new("up") else { return };
    let exchange = Exchange::new("store-server", schema, true);
    let run = document(&exchange.up("1s"));
    let store = &run["store"];
    assert!(number(store, "orders") > 300 && number(store, "behind") == 0, "{store:#}");
    let told = store["file"].as_str().expect("a place");
    assert!(told.starts_with("postgres://") && told.contains("#up_"), "{told}");
    exchange.reconciles();
    let asked = document(&exchange.run(&["query", "orders", "--limit", "5"]));
    assert_eq!(number(&asked, "count"), 5);
    assert_eq!(number(&asked, "up_to_input"), number(store, "inputs"));
    // The same out of a file.
    let file = exchange.scratch.at("same.db").display().to_string();
    document(&exchange.run(&["store", "follow", "--once", "--file", &file]));
    let same = document(&exchange.run(&["query", "orders", "--limit", "5", "--file", &file]));
    assert_eq!(same, asked);
    let server = Query::open(exchange.schema.place()).expect("a store");
    let due = Query::open(Path::new(&file)).expect("a store");
    let mut found = store::Found::keeping(3);
    store::differences(&due, &server, &mut found).expect("both can be asked");
    assert!(found.rows > 300 && found.count == 0, "{:?}", found.first);
    drop(server);
    document(&exchange.run(&["store", "rebuild"]));
    exchange.reconciles();
}

/// Two follow the journal into one store; the second goes on when the first is killed, and no input counts
/// twice.
#[test]
fn another_follower_goes_on_when_the_one_that_feeds_a_server_is_killed() {
    let Some(schema) = Schema::new("turn") else { return };
    let exchange = Exchange::new("store-turn", schema, false);
    let follow = || {
        let mut command = exchange.command(&["store", "follow"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Running(child.expect("the binary runs"))
    };
    std::thread::scope(|scope| {
        let run = scope.spawn(|| document(&exchange.up("6s")));
        let first = follow();
        let wait = |least: u64| {
            let since = Instant::now();
            while exchange.held() < least {
                assert!(since.elapsed() < Duration::from_secs(20), "held {}", exchange.held());
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        wait(50);
        let second = follow();
        std::thread::sleep(Duration::from_millis(300));
        drop(first);
        let held = exchange.held();
        wait(held + 200);
        run.join().expect("no panic");
        drop(second);
    });
    let since = Instant::now();
    // The server takes a moment to see that it is gone.
    while !exchange.run(&["store", "follow", "--once"]).status.success() {
        assert!(since.elapsed() < Duration::from_secs(20), "somebody still feeds it");
        std::thread::sleep(Duration::from_millis(50));
    }
    exchange.reconciles();
}
