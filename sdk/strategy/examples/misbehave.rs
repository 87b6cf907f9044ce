//! Does what a cage has to hold: settings `loop`, `allocate`, `trap`, `divide`, `recurse`, `flood`, `many`
//! or `stranger`, and `at=3` the book at which it begins. For tests of hosts.

use std::hint::black_box;

use fairbell_strategy::{Action, Book, Life, NewOrder, Setup, Side, Strategy, setting};

struct Misbehave {
    how: String,
    at: i64,
    books: i64,
    kept: Vec<Vec<u8>>,
}

fn order(instrument: u16, lots: u32) -> Action {
    Action::Order(NewOrder {
        instrument,
        side: Side::Buy,
        lots,
        price: 100,
        life: Life::Day,
        post_only: true,
    })
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let here = black_box([depth; 64]);
    if black_box(depth) == u64::MAX { 0 } else { deeper(depth + 1) + here[black_box(7)] }
}

impl Strategy for Misbehave {
    fn start(setup: Setup) -> Result<Misbehave, String> {
        let how = setup.settings.split_whitespace().next().unwrap_or("").to_string();
        if how == "refuse" {
            return Err("refuses\nto start".to_string());
        }
        while how == "loop-at-start" {
            black_box(0);
        }
        Ok(Misbehave { how, at: setting(&setup.settings, "at", 3)?, books: 0, kept: Vec::new() })
    }

    fn on_book(&mut self, book: Book) -> Vec<Action> {
        self.books += 1;
        if self.books < self.at {
            return Vec::new();
        }
        match self.how.as_str() {
            "loop" => loop {
                black_box(0);
            },
            "allocate" => loop {
                self.kept.push(vec![1; 1 << 20]);
            },
            #[cfg(target_arch = "wasm32")]
            "trap" => core::arch::wasm32::unreachable(),
            #[cfg(not(target_arch = "wasm32"))]
            "trap" => std::process::abort(),
            "divide" => {
                let none = black_box(book.time_ns) - black_box(book.time_ns);
                vec![order(book.instrument, (7 / none) as u32)]
            }
            "recurse" => vec![order(book.instrument, deeper(book.time_ns) as u32)],
            // Within its answers' bounds, without end.
            "flood" => (0..16).map(|_| order(book.instrument, 1)).collect(),
            "many" => (0..1_000_000).map(|_| order(book.instrument, 1)).collect(),
            "stranger" => vec![order(9_999, 1)],
            _ => Vec::new(),
        }
    }
}

fairbell_strategy::strategy!(Misbehave);
