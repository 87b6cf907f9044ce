//! `fairbell explain`: one order's whole story from a log.

use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;

use engine::explain::{ExplainedEvent, Which, explain};
use serde_json::{Value, json};
use types::{
    AccountId, Command, ExecutionReport, Input, MarketEvent, Nanos, OrderRef, Price, UserRefNum,
};

use crate::log::open;
use host::failure::{Failure, on};

/// Options of `fairbell explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell explain 3:17 --log out/exchange.log     request 17 of account 3\n  \
    fairbell explain 4711 --log out/exchange.log     the order with this reference on the feed\n  \
    fairbell explain 3:17 --log out/exchange.log --json")]
pub struct ExplainArgs {
    /// account:number of the request, or the order's reference on the feed
    #[arg(value_name = "ORDER")]
    pub order: String,
    /// The log
    #[arg(long, value_name = "FILE", default_value = "out/exchange.log")]
    pub log: PathBuf,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Tells the story, as text or JSON; an order that the log does not know is a failure.
pub fn run(args: &ExplainArgs, also: &[engine::Config]) -> Result<(), Failure> {
    let which = which(&args.order)?;
    let opened = open(&args.log, args.config.as_deref(), also)?.whole(&args.log)?;
    let inputs: Result<Vec<Input>, _> = opened.reader.collect();
    let inputs = inputs.map_err(|error| on(&args.log, error))?;
    let lines = explain(&opened.config, &inputs, which);
    if lines.is_empty() {
        return Err(Failure::Run(format!("the log does not know order {}", args.order)));
    }
    if args.json {
        let lines: Vec<Value> = lines.iter().map(document).collect();
        println!("{:#}", json!({ "order": args.order, "story": lines }));
    } else {
        let named = Names { instruments: &opened.config.instruments };
        lines.iter().for_each(|line| println!("{}", named.text(line)));
    }
    Ok(())
}

/// `3:17` is request 17 of account 3, `4711` a reference on the feed.
fn which(text: &str) -> Result<Which, Failure> {
    let found = match text.split_once(':') {
        Some((account, number)) => account
            .parse()
            .ok()
            .zip(number.parse().ok())
            .map(|(account, number)| Which::Request(AccountId(account), UserRefNum(number))),
        None => text.parse().ok().map(|number| Which::Reference(OrderRef(number))),
    };
    let line = "write account:number of the request, like 3:17, or a reference of the feed";
    found.ok_or_else(|| Failure::Usage(format!("{text:?} names no order: {line}")))
}

struct Names<'a> {
    instruments: &'a [types::Instrument],
}

impl Names<'_> {
    fn symbol(&self, id: types::InstrumentId) -> String {
        let found = self.instruments.iter().find(|instrument| instrument.id == id);
        found.map_or_else(|| format!("instrument {id}"), |of| of.symbol.to_string())
    }

    fn text(&self, line: &ExplainedEvent) -> String {
        match line {
            ExplainedEvent::Input { input, applied } => {
                let source = match input.source.gateway.0 {
                    0 => "by the exchange itself".to_string(),
                    gateway => format!(
                        "received by gateway {gateway} at {} ({} us before)",
                        clock(input.t_in),
                        input.t_seq.since(input.t_in) / Nanos::MICRO
                    ),
                };
                let request = self.command(&input.command);
                let (seq, at) = (input.seq, clock(input.t_seq));
                format!("input {seq} at {at}, {source}: {request} [{applied:?}]")
            }
            ExplainedEvent::Report(report) => {
                format!("    told account {}: {}", report.account, told(report))
            }
            ExplainedEvent::Tick { position, event } => {
                format!("    feed {position}: {}", tick(event))
            }
        }
    }

    fn command(&self, c: &Command) -> String {
        let mut text = format!("{:?} {}:{}", c.kind, c.account, c.user_ref);
        if c.orig_user_ref.0 != 0 {
            let _ = write!(text, " instead of {}:{}", c.account, c.orig_user_ref);
        }
        if c.instrument.0 != 0 {
            let _ = write!(text, " {} {:?}", self.symbol(c.instrument), c.side);
        }
        if c.qty.0 != 0 {
            let _ = write!(text, " {} lots", c.qty);
        }
        if c.price.0 != 0 {
            let _ = write!(text, " at {}", c.price);
        }
        if c.kind == types::CommandKind::NewOrder {
            let _ = write!(text, " {:?} {:?}", c.order_type, c.time_in_force);
        }
        let numbers = [
            ("stop", c.stop_price.0),
            ("displayed", c.display_qty.into()),
            ("at least", c.min_qty.into()),
            ("flags", c.flags.into()),
        ];
        for (name, value) in numbers.into_iter().filter(|(_, value)| *value != 0) {
            match name {
                "stop" => _ = write!(text, ", {name} {}", Price(value)),
                _ => _ = write!(text, ", {name} {value}"),
            }
        }
        text
    }
}

/// Time of day, UTC.
fn clock(at: Nanos) -> String {
    let (seconds, part) = (at.0 / Nanos::SECOND, at.0 % Nanos::SECOND);
    let (h, m, s) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{h:02}:{m:02}:{s:02}.{part:09}")
}

fn told(report: &ExecutionReport) -> String {
    let mut text = format!("{:?} {}:{}", report.kind, report.account, report.user_ref);
    if report.qty.0 != 0 {
        let _ = write!(text, " {} lots", report.qty);
    }
    if report.price.0 != 0 {
        let _ = write!(text, " at {}", report.price);
    }
    if report.match_number.0 != 0 {
        let _ = write!(text, ", trade {} ({:?})", report.match_number, report.liquidity);
    }
    if report.reject != types::RejectReason::None {
        let _ = write!(text, ", {:?}", report.reject);
    }
    if report.cancel_reason != types::CancelReason::None {
        let _ = write!(text, ", {:?}", report.cancel_reason);
    }
    if report.order_ref.0 != 0 {
        let _ = write!(text, "; order {}, open {}", report.order_ref, report.leaves);
    }
    if report.public_after.0 != 0 {
        let _ = write!(text, "; not before feed {}", report.public_after);
    }
    text
}

fn tick(event: &MarketEvent) -> String {
    match *event {
        MarketEvent::AddOrder { order_ref, side, qty, price, .. } => {
            format!("order {order_ref} added, {side:?} {qty} lots at {price}")
        }
        MarketEvent::OrderReplace { old_ref, new_ref, qty, price, .. } => {
            format!("order {old_ref} goes on as {new_ref}, {qty} lots at {price}")
        }
        MarketEvent::OrderCancel { order_ref, qty, .. } => {
            format!("order {order_ref} loses {qty} lots")
        }
        MarketEvent::OrderDelete { order_ref, .. } => format!("order {order_ref} is gone"),
        MarketEvent::OrderExecuted { order_ref, qty, match_number, .. } => {
            format!("order {order_ref} traded {qty} lots, trade {match_number}")
        }
        MarketEvent::OrderExecutedWithPrice { order_ref, qty, match_number, price, .. } => {
            format!("order {order_ref} traded {qty} lots at {price}, trade {match_number}")
        }
        MarketEvent::Trade { qty, price, match_number, .. } => {
            format!("a hidden order traded {qty} lots at {price}, trade {match_number}")
        }
        MarketEvent::CrossTrade { qty, price, match_number, kind, .. } => {
            format!("{kind:?} auction {match_number}: {qty} lots at {price}")
        }
        MarketEvent::BrokenTrade { match_number, .. } => format!("trade {match_number} is broken"),
        other => format!("{other:?}"),
    }
}

fn document(line: &ExplainedEvent) -> Value {
    match line {
        ExplainedEvent::Input { input, applied } => json!({
            "input": input.seq.0,
            "t_in": input.t_in.0,
            "t_seq": input.t_seq.0,
            "gateway": input.source.gateway.0,
            "gateway_seq": input.source.seq,
            "kind": format!("{:?}", input.command.kind),
            "account": input.command.account.0,
            "user_ref": input.command.user_ref.0,
            "instrument": input.command.instrument.0,
            "side": format!("{:?}", input.command.side),
            "qty": input.command.qty.0,
            "price": input.command.price.0,
            "applied": format!("{applied:?}"),
        }),
        ExplainedEvent::Report(report) => json!({
            "report": format!("{:?}", report.kind),
            "account": report.account.0,
            "user_ref": report.user_ref.0,
            "qty": report.qty.0,
            "price": report.price.0,
            "open": report.leaves.0,
            "order_ref": report.order_ref.0,
            "match_number": report.match_number.0,
            "reject": format!("{:?}", report.reject),
            "cancel_reason": format!("{:?}", report.cancel_reason),
            "public_after": report.public_after.0,
        }),
        ExplainedEvent::Tick { position, event } => json!({
            "feed": position.0,
            "event": format!("{event:?}"),
        }),
    }
}
