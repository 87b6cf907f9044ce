//! An order in and a report out allocate nothing once everything has grown.

mod sample;

use fix::app::{Symbols, report, request};
use fix::dictionary::builtin;
use fix::session::{Application, MemoryStore, Port, Proof, SessionConfig, Store};
use fix::value::StampWriter;
use fix::{Acceptor, Limits, Message, Version};
use types::{ConnId, Nanos};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

struct App {
    symbols: Symbols,
    taken: u32,
}

impl Application for App {
    fn logon(&mut self, _: usize, _: &Message<'_>) -> Proof {
        Proof::Right
    }

    fn message<S: Store>(
        &mut self,
        _: usize,
        _: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        if let Ok(Some(_)) = request::parse(message, &self.symbols) {
            self.taken += 1;
        }
        let execution = sample::execution();
        port.send(report::msg_type(&execution), |writer| {
            report::write(Version::Fix50Sp2, &execution, &self.symbols, writer);
        });
    }
}

#[test]
fn orders_and_reports_do_not_allocate() {
    let rules = builtin(Version::Fix50Sp2).unwrap();
    let config = SessionConfig::new("FAIR", "MEM7", rules);
    let store = MemoryStore::new(64, 1 << 14);
    let mut door = Acceptor::new(vec![(config, store)], Limits::default());
    let mut app = App { symbols: Symbols::new(&[sample::instrument()]), taken: 0 };
    let (conn, now) = (ConnId(1), sample::now());
    door.handle_connect(now, conn);
    let stamp = *StampWriter::default().text(now);
    let stamp = String::from_utf8_lossy(&stamp);
    let head =
        |kind: &str, seq| format!("8=FIXT.1.1|9=0|35={kind}|34={seq}|49=MEM7|52={stamp}|56=FAIR|");
    let wire = |text: &str| sample::wire(&sample::repaired(text));
    let body = sample::NEW_ORDER.split_once("56=FAIR|").unwrap().1;
    let mut messages = vec![wire(&format!("{}98=0|108=30|1137=9|", head("A", 1)))];
    messages.extend((2..902).map(|seq| wire(&format!("{}{body}", head("D", seq)))));
    let mut out = Vec::with_capacity(1 << 12);
    let mut before = 0;
    for (number, message) in messages.iter().enumerate() {
        if number == 500 {
            before = counting::allocations();
        }
        out.clear();
        assert_eq!(door.handle_bytes(now, conn, message, &mut app, &mut out), None);
        assert!(!out.is_empty());
    }
    let allocated = counting::allocations() - before;
    assert_eq!(app.taken, 900);
    assert_eq!(allocated, 0);
    // The counter counts.
    drop(std::hint::black_box(vec![0u8; 10]));
    assert!(counting::allocations() > before);
}
