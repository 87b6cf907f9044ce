//! Strategies for Fairbell: WebAssembly modules, or programs of their own in enclaves.
//!
//! A strategy implements [`Strategy`] and is exported by [`strategy!`]. It is told what was released and what
//! became of its orders, and answers with [`Action`]s. It has no clock but the times in what it is told, no
//! randomness, no files, no network and no floating point; what it is told decides what it answers, so that a backtest, the
//! simulator and the running exchange get the same orders from it. See `docs/strategies.md`.
//!
//! ```ignore
//! struct Mine;
//!
//! impl fairbell_strategy::Strategy for Mine {
//!     fn start(_: Setup) -> Result<Mine, String> { Ok(Mine) }
//!     fn on_book(&mut self, book: Book) -> Vec<Action> { Vec::new() }
//! }
//!
//! fairbell_strategy::strategy!(Mine);
//! ```

#[allow(missing_docs)]
pub mod bindings {
    //! What the interface's description says.
    wit_bindgen::generate!({
        path: "../../crates/strategy/wit",
        world: "program",
        pub_export_macro: true,
        default_bindings_module: "fairbell_strategy::bindings",
    });
}

pub use bindings::exports::fairbell::strategy::handler::{
    Action, Book, Instrument, Level, Life, NewOrder, OwnOrder, Report, ReportKind, Setup, Side,
    Trade,
};

/// A strategy.
pub trait Strategy: Sized {
    /// Called once, before anything else.
    ///
    /// # Errors
    /// Why it can't run, for whoever configured it.
    fn start(setup: Setup) -> Result<Self, String>;

    /// The displayed book of an instrument has changed.
    fn on_book(&mut self, book: Book) -> Vec<Action>;

    /// The public was told of a trade.
    fn on_trade(&mut self, _trade: Trade) -> Vec<Action> {
        Vec::new()
    }

    /// Something became of an order of this strategy.
    fn on_report(&mut self, _report: Report) -> Vec<Action> {
        Vec::new()
    }
}

/// The number that `name=` stands before in settings like `lots=2 most=10`, or `otherwise`.
///
/// # Errors
/// What stands there is no number.
pub fn setting(settings: &str, name: &str, otherwise: i64) -> Result<i64, String> {
    let given =
        settings.split_whitespace().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    match given {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| format!("{name}={text}: no number")),
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub mod enclave;

/// Exports a [`Strategy`]: as a module, or, built for a machine, as the `main` of a program for an enclave.
#[macro_export]
macro_rules! strategy {
    ($of:ty) => {
        struct Exported;

        std::thread_local! {
            static RUNNING: std::cell::RefCell<Option<$of>> = const { std::cell::RefCell::new(None) };
        }

        impl Exported {
            fn answer(of: impl FnOnce(&mut $of) -> Vec<$crate::Action>) -> Vec<$crate::Action> {
                RUNNING.with_borrow_mut(|running| running.as_mut().map(of).unwrap_or_default())
            }
        }

        impl $crate::bindings::exports::fairbell::strategy::handler::Guest for Exported {
            fn start(setup: $crate::Setup) -> Result<(), String> {
                let started = <$of as $crate::Strategy>::start(setup)?;
                RUNNING.set(Some(started));
                Ok(())
            }

            fn on_book(book: $crate::Book) -> Vec<$crate::Action> {
                Exported::answer(|of| $crate::Strategy::on_book(of, book))
            }

            fn on_trade(trade: $crate::Trade) -> Vec<$crate::Action> {
                Exported::answer(|of| $crate::Strategy::on_trade(of, trade))
            }

            fn on_report(report: $crate::Report) -> Vec<$crate::Action> {
                Exported::answer(|of| $crate::Strategy::on_report(of, report))
            }
        }

        $crate::bindings::export!(Exported with_types_in $crate::bindings);

        #[cfg(not(target_arch = "wasm32"))]
        #[allow(dead_code)]
        fn main() {
            $crate::enclave::run::<$of>();
        }
    };
}
