//! Days of a venue's calendar in some seconds, over real connections: the statements of each day are
//! what the participants counted themselves, and the store knows each trade's day.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use types::{ClOrdId, Nanos, Price, Qty, Side, SplitMix64, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder, Outbound};
use wire::soupbin::{ClientEvent, ClientSession};

use crate::Scratch;
use crate::common::{document, number};

const SEED: u64 = 26;
/// Days of the calendar. The first is what is left of it when the test begins, which may be too little to trade.
const DAYS: usize = 4;

/// A fill as its participant was told.
#[derive(Clone, Copy)]
struct Fill {
    /// Day of its trading, from 0: OUCH tells times of the day, which begin again with each.
    day: usize,
    symbol: &'static str,
    side: Side,
    lots: u64,
    price: i64,
}

/// Sums of an account in an instrument on a day: lots bought and sold, value bought and sold.
type Sums = BTreeMap<(usize, &'static str), [i128; 4]>;

fn sums(fills: &[Fill]) -> Sums {
    let mut sums = Sums::new();
    for fill in fills {
        let sum = sums.entry((fill.day, fill.symbol)).or_default();
        let side = usize::from(fill.side == Side::Sell);
        sum[side] += i128::from(fill.lots);
        sum[2 + side] += i128::from(fill.lots) * i128::from(fill.price);
    }
    sums
}

fn now() -> Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Nanos(since.expect("after 1970").as_nanos() as u64)
}

/// A participant on one connection, from its login until the exchange closes it: buys and sells at random
/// as long as it is not stopped, whatever the phase. What it was told of its fills.
fn trade(door: SocketAddr, account: usize, stop: Arc<AtomicBool>) -> Vec<Fill> {
    let mut rng = SplitMix64::new(SEED ^ account as u64);
    let mut stream = TcpStream::connect(door).expect("a door");
    stream.set_read_timeout(Some(Duration::from_millis(5))).expect("an option");
    let mut soup = ClientSession::new(&format!("T{account}"), "secret").expect("credentials");
    let mut bytes = Vec::new();
    soup.connect(now(), &mut bytes).expect("a login");
    let (mut orders, mut fills) = (BTreeMap::new(), Vec::new());
    let (mut next, mut buffer) = (1, [0; 65_536]);
    let (mut day, mut last) = (0, 0);
    loop {
        if soup.is_active() && !stop.load(Ordering::Relaxed) {
            let symbol = ["ALFA", "BRAVO"][rng.below(2) as usize];
            let side = [Side::Buy, Side::Sell][rng.below(2) as usize];
            let stays = rng.below(3) == 0;
            let order = NewOrder {
                user_ref: UserRefNum(next),
                side,
                qty: Qty(1 + rng.below(9)),
                symbol: Symbol::new(symbol).expect("a symbol"),
                price: Some(Price(1_000_000 + 100 * rng.below(11) as i64)),
                time_in_force: if stays {
                    TimeInForce::GoodTillCancelled
                } else {
                    TimeInForce::Day
                },
                post_only: false,
                cl_ord_id: ClOrdId(*b"of the days   "),
            };
            orders.insert(next, (symbol, side));
            next += 1;
            let mut message = Vec::new();
            ouch::encode_enter_order(&order, &mut message).expect("encodes");
            soup.send_unsequenced(now(), &message, &mut bytes).expect("logged in");
        }
        soup.handle_timeout(now(), &mut bytes);
        if stream.write_all(&bytes).is_err() {
            return fills;
        }
        bytes.clear();
        let count = match stream.read(&mut buffer) {
            Ok(0) => return fills,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(_) => return fills,
        };
        soup.handle_bytes(now(), &buffer[..count], |event| match event {
            ClientEvent::Sequenced { message, .. } => {
                if let Ok(Outbound::OrderExecuted(m, _)) = ouch::parse_outbound(message) {
                    let (symbol, side) = orders[&m.user_ref.get()];
                    let (lots, price) = (u64::from(m.quantity.get()), m.price.get() as i64);
                    day += usize::from(m.time.get() < last);
                    last = m.time.get();
                    fills.push(Fill { day, symbol, side, lots, price });
                }
            }
            ClientEvent::Violation(violation) => panic!("{violation}"),
            _ => {}
        });
    }
}

/// The first order-entry door that a starting exchange names; what it says is read on until its end, and
/// `stop` is set when the last day is over.
fn door(child: &mut Child, stop: &Arc<AtomicBool>) -> (SocketAddr, JoinHandle<String>) {
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let door = loop {
        let line = lines.next().expect("it starts").expect("text");
        if let Some(rest) = line.strip_prefix("OUCH 5.0 over SoupBinTCP: ") {
            break rest.split(' ').next().and_then(|first| first.parse().ok()).expect("an address");
        }
    };
    let (stop, last) = (Arc::clone(stop), format!("day {DAYS} of this run has ended"));
    let says = std::thread::spawn(move || {
        let mut said = String::new();
        for line in lines.map_while(Result::ok) {
            if line.contains(&last) {
                stop.store(true, Ordering::Relaxed);
            }
            said = said + &line + "\n";
        }
        said
    });
    (door, says)
}

fn text(of: &Value) -> i128 {
    of.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{of}"))
}

#[test]
fn days_of_a_calendar_pass_in_seconds_and_each_has_its_statement() {
    println!("seed {SEED}");
    let scratch = Scratch::new("three-days");
    let accounts: String = (0..3)
        .map(|n| {
            format!("[[account]]\nname = \"{n}\"\nusername = \"T{n}\"\npassword = \"secret\"\n")
        })
        .collect();
    let symbols = ["ALFA", "BRAVO"];
    let instruments: String = symbols
        .map(|name| {
            format!("[[instrument]]\nsymbol = \"{name}\"\ntick = \"0.01\"\nlot_decimals = 0\n")
        })
        .concat();
    let settings = std::fs::read_to_string(scratch.at("store.toml")).expect("a file");
    let settings = format!(
        "{settings}[calendar]\nzone = \"UTC\"\nweekdays = \"mon tue wed thu fri sat sun\"\n\
         [overlay]\nreceivers = 2\n[flow]\nparticipants = 1\nsample = \"{}\"\nrate = 1\n\
         generated_rate = 0\n{instruments}{accounts}",
        scratch.at("no-sample").display()
    );
    std::fs::write(scratch.at("store.toml"), settings).expect("a file");
    let mut child = scratch
        .fairbell(&["up", "--port-base", "0", "--accelerate", "400ms"])
        .args(["--days", &DAYS.to_string()])
        .arg("--out")
        .arg(scratch.at("out"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stop = Arc::new(AtomicBool::new(false));
    let (door, says) = door(&mut child, &stop);
    let client = |account| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || trade(door, account, stop))
    };
    // Account 1 plays from within, at one order a second.
    let clients: Vec<JoinHandle<Vec<Fill>>> = [1, 2].map(client).into();
    let output = child.wait_with_output().expect("it ends");
    stop.store(true, Ordering::Relaxed);
    let fills: Vec<Vec<Fill>> = clients.into_iter().map(|of| of.join().expect("sound")).collect();
    let said = says.join().expect("read");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}\n{said}", report["failures"]);

    let statement = |day: &str, log: &std::path::Path| {
        let mut command = scratch.fairbell(&["statement", "--day", day]);
        command.arg("--log").arg(log).output().expect("the binary runs")
    };
    let log = scratch.at("out").join("exchange.log");
    let all = document(&statement("all", &log));
    let days = all["days"].as_array().expect("days");
    assert!(all["reconciled"] == true && days.len() >= DAYS, "{all}");
    let mut closing: BTreeMap<(u64, String), (i64, i128)> = BTreeMap::new();
    let (mut traded, mut carried) = (0, 0);
    for (number_of, day) in (1..).zip(days) {
        assert_eq!(day["day"], number_of);
        let mut sum: BTreeMap<&str, (i64, i128)> = BTreeMap::new();
        let mut before = std::mem::take(&mut closing);
        for line in day["statements"].as_array().expect("lines") {
            let account = number(line, "account");
            let symbol = line["symbol"].as_str().expect("a symbol");
            let whole = |key: &str| line[key].as_i64().expect("a number");
            let key = (account, symbol.to_string());
            let opening = (whole("opening_lots"), text(&line["opening_cash"]));
            assert_eq!(opening, before.remove(&key).unwrap_or_default(), "day {number_of}: {line}");
            let (lots, cash) = (whole("closing_lots"), text(&line["closing_cash"]));
            closing.insert(key, (lots, cash));
            let sum = sum.entry(symbol).or_default();
            (sum.0, sum.1) = (sum.0 + lots, sum.1 + cash);
            carried += number(line, "open_orders");
        }
        assert!(sum.values().all(|sum| *sum == (0, 0)), "day {number_of}: {sum:?}");
        before.retain(|_, held| *held != (0, 0));
        assert!(before.is_empty(), "day {number_of} lacks {before:?}");
        traded += u64::from(number(day, "trades") > 0);
        let query = ["query", "trades", "--limit", "0", "--day", &number_of.to_string()];
        let stored = document(&scratch.run(&query));
        assert_eq!(number(&stored, "count"), number(day, "trades"), "day {number_of}");
    }
    assert!(traded + 1 >= DAYS as u64 && carried > 0, "orders are carried over nights: {all}");

    // Each participant's own sums, day by day that it traded, are those of its statements.
    let traded = |account: u64, day: &Value| {
        let lines = day["statements"].as_array().expect("lines").iter();
        lines
            .filter(|line| line["account"] == account)
            .any(|line| number(line, "bought_lots") + number(line, "sold_lots") > 0)
    };
    let told = |account: u64, fills: &[Fill]| {
        let sums = sums(fills);
        days.iter().filter(|day| traded(account, day)).enumerate().all(|(date, day)| {
            let lines = day["statements"].as_array().expect("lines");
            symbols.iter().all(|symbol| {
                let of = |line: &&Value| line["account"] == account && line["symbol"] == *symbol;
                let line = lines.iter().find(of);
                let due = line.map_or([0; 4], |line| {
                    let lots = |key: &str| i128::from(number(line, key));
                    let value = |key: &str| text(&line[key]);
                    [
                        lots("bought_lots"),
                        lots("sold_lots"),
                        value("bought_value"),
                        value("sold_value"),
                    ]
                });
                sums.get(&(date, *symbol)).copied().unwrap_or_default() == due
            })
        })
    };
    for (account, fills) in (2..).zip(&fills) {
        assert!(fills.len() > 20, "account {account} traded: {}", fills.len());
        assert!(told(account, fills), "account {account}: {all}");
        // Control: a fill that is left out does not go unnoticed.
        let mut without = fills.clone();
        without.remove(without.len() / 2);
        assert!(!told(account, &without), "account {account} without a fill");
    }
}
