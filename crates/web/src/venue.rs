//! What the venue tells of itself: the fairness of its deliveries and its tree, to everybody; and the way of
//! its operators in, to keys of the scope `operate`.
//!
//! Who runs the exchange writes the figures here ([`Venue`]) and says what carries an operator's action
//! out; the door knows neither. Each action goes to the exchange's own operators' socket in the key's name, so
//! that it is checked, written into the audit file and told as those of `fairbell admin` are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use telemetry::{Delivery, LatencySummary, ReceiverMeasure};
use types::NodeId;

use crate::auth::Scope;
use crate::error::ApiError;
use crate::request::{no_fields, object, only};
use crate::routes::{answer, private, with_credits};
use crate::server::Door;

/// Actions that may be asked for over the door; others need the socket on the exchange's own machine.
pub const ACTIONS: [&str; 11] = [
    "status",
    "sessions",
    "halt",
    "resume",
    "phase",
    "kill",
    "revive",
    "mass-cancel",
    "disconnect",
    "lock",
    "unlock",
];
/// Fields of a request to carry one out.
pub(crate) const OPERATE: [&str; 1] = ["action"];
/// Longest name of an operator, bytes, and what names of keys are shown as that are none.
const NAME_MAX: usize = 64;
const NO_NAME: &str = "web-door";

/// Carries out an operator's action, in whose name it is: the answer, or why it was not done.
pub type Operators = Box<dyn Fn(&str, &Value) -> Result<Value, String> + Send + Sync>;

/// A node of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeNode {
    /// Its number.
    pub node: NodeId,
    /// `root`, `proxy` or `receiver`.
    pub kind: &'static str,
    /// Hops from the root.
    pub layer: usize,
    /// From whom it hears first, unless parents change from message to message; `None`: the root.
    pub parent: Option<NodeId>,
    /// It answers.
    pub alive: bool,
    /// Copies of market data: that came, were dropped as duplicates, were due and did not come.
    pub copies: [u64; 3],
    /// Median delay from the root, ns, where it is known: of a receiver that of market data, of a proxy half
    /// its round trip.
    pub delay_ns: Option<u64>,
}

/// The exchange as it tells of itself; empty before it first does.
#[derive(Default)]
pub struct Venue {
    told: Mutex<Told>,
    operators: Option<Operators>,
    /// Nobody here knows the figures.
    elsewhere: bool,
}

#[derive(Default)]
struct Told {
    fairness: Value,
    tree: Value,
}

impl Venue {
    /// One whose figures and operators are on other machines: it says so instead of having its clients try
    /// again.
    pub fn elsewhere() -> Venue {
        Venue { elsewhere: true, ..Venue::default() }
    }

    /// One whose operators are heard over the door, too.
    pub fn with_operators(operators: Operators) -> Venue {
        Venue { operators: Some(operators), ..Venue::default() }
    }

    /// Takes the figures as they are now: deliveries of the last second and since the start, each receiver's
    /// own, the window within which a message counts as delivered to all at once, ns, and the largest error
    /// that receivers' clocks may have, ns.
    pub fn tell_fairness(
        &self,
        (second, total): (&Delivery, &Delivery),
        receivers: &[ReceiverMeasure],
        (window_ns, clock_bound_ns): (u64, u64),
    ) {
        let value = json!({
            "window_ns": window_ns,
            "clock_bound_ns": clock_bound_ns,
            "last_second": delivery_json(second),
            "total": delivery_json(total),
            "receivers": receivers.iter().map(receiver_json).collect::<Vec<_>>(),
        });
        self.told.lock().unwrap_or_else(PoisonError::into_inner).fairness = value;
    }

    /// Takes the tree as it is now, the root first.
    pub fn tell_tree(&self, epoch: u32, hedge: u32, nodes: &[TreeNode]) {
        let nodes: Vec<Value> = nodes.iter().map(node_json).collect();
        let value = json!({ "epoch": epoch, "hedge": hedge, "nodes": nodes });
        self.told.lock().unwrap_or_else(PoisonError::into_inner).tree = value;
    }

    /// The figures of [`Venue::tell_fairness`]; `null` before the first.
    pub fn fairness(&self) -> Value {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).fairness.clone()
    }

    fn read(&self, of: impl FnOnce(&Told) -> &Value) -> Result<Value, ApiError> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match of(&told) {
            Value::Null if self.elsewhere => {
                let why = "this door's machine does not know it: the venue's operators do";
                Err(ApiError::new("not_found", why))
            }
            Value::Null => {
                let why = "the exchange has not told it yet: try again in a second";
                Err(ApiError::new("busy", why))
            }
            value => Ok(value.clone()),
        }
    }

    /// Carries out an operator's action.
    fn operate(&self, key: &str, action: &Value) -> Result<Value, ApiError> {
        let Some(operators) = &self.operators else {
            let why = "the exchange takes no operators here (admin.socket is off)";
            return Err(ApiError::new("rejected", why));
        };
        let good = (1..=NAME_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
        operators(if good { key } else { NO_NAME }, action)
            .map_err(|why| ApiError::new("rejected", why))
    }
}

fn delivery_json(of: &Delivery) -> Value {
    json!({
        "messages": of.messages,
        "with_deadline": of.messages.saturating_sub(of.without_deadline),
        "on_time": of.on_time,
        "fair": of.fair,
        "on_time_share": of.p_on_time,
        "fair_share": of.p_fair,
        "late_by_arrival": of.late_self,
        "late_by_predecessor": of.late_blocked,
        "oml_arrival_ns": latency_json(&of.oml_arrival_ns),
        "oml_release_ns": latency_json(&of.oml_release_ns),
        "delivery_window_ns": latency_json(&of.dws_ns),
    })
}

/// Quantiles; `null` where nothing was measured.
fn latency_json(of: &LatencySummary) -> Value {
    match of.count {
        0 => Value::Null,
        _ => json!({ "p50": of.p50, "p99": of.p99, "max": of.max }),
    }
}

fn receiver_json(of: &ReceiverMeasure) -> Value {
    json!({
        "node": of.node.0,
        "alive": !of.gone,
        "arrival_ns": latency_json(&of.arrival.summary()),
        "release_ns": latency_json(&of.release.summary()),
        "late_by_arrival": of.late_self,
        "late_by_predecessor": of.late_blocked,
    })
}

fn node_json(of: &TreeNode) -> Value {
    let [received, duplicates, missing] = of.copies;
    json!({
        "node": of.node.0,
        "kind": of.kind,
        "layer": of.layer,
        "parent": of.parent.map(|parent| parent.0),
        "alive": of.alive,
        "copies": { "received": received, "duplicates": duplicates, "missing": missing },
        "delay_ns": of.delay_ns,
    })
}

/// The action that a body asks for, if it is one of [`ACTIONS`]: `"halt"` or `{"halt": {...}}`.
fn action(body: &[u8]) -> Result<Value, ApiError> {
    let map = object(body)?;
    only(&map, &[&OPERATE])?;
    let missing = || ApiError::new("missing_field", "action is missing");
    let action = map.get("action").filter(|action| !action.is_null()).ok_or_else(missing)?;
    let name = match action {
        Value::String(name) => Some(name.as_str()),
        Value::Object(of) if of.len() == 1 => of.keys().next().map(String::as_str),
        _ => None,
    };
    match name.filter(|name| ACTIONS.contains(name)) {
        Some(_) => Ok(action.clone()),
        None => {
            let all = ACTIONS.join(", ");
            Err(ApiError::new("bad_field", format!("action: one of {all}, with its parameters")))
        }
    }
}

type Here = State<Arc<Door>>;

pub(crate) async fn tree(State(door): Here) -> Response {
    answer(door.settings.venue.read(|told| &told.tree))
}

pub(crate) async fn operate(
    State(door): Here,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let asked = request.method() == axum::http::Method::GET;
    let key = request.headers().get("fb-key").and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default().to_string();
    let (admitted, _, body) = match private(&door, from, request, Scope::Operate).await {
        Ok(read) => read,
        Err(refused) => return refused.into_response(),
    };
    let wanted = if asked { no_fields(&body).map(|()| json!("status")) } else { action(&body) };
    let done = match wanted {
        Err(refused) => Err(refused),
        Ok(action) => {
            // The operators' socket is waited for beside the door's own thread.
            let venue = Arc::clone(&door.settings.venue);
            let task = tokio::task::spawn_blocking(move || venue.operate(&key, &action));
            task.await.unwrap_or_else(|_| {
                Err(ApiError::new("busy", "the action was not carried out: look at the status"))
            })
        }
    };
    with_credits(admitted.credits, answer(done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_actions_are_passed_on() {
        let code = |body: &str| action(body.as_bytes()).map_err(|refused| refused.code);
        assert_eq!(code(r#"{"action": "status"}"#), Ok(json!("status")));
        let halt = json!({ "halt": { "instrument": "GENA" } });
        assert_eq!(code(&json!({ "action": halt }).to_string()), Ok(halt.clone()));
        assert_eq!(code(&json!({ "action": halt, "more": 1 }).to_string()), Err("bad_field"));
        for (body, why) in [
            ("", "bad_json"),
            ("[]", "bad_json"),
            ("{}", "missing_field"),
            (r#"{"action": null}"#, "missing_field"),
            (r#"{"action": 7}"#, "bad_field"),
            (r#"{"action": {}}"#, "bad_field"),
            (r#"{"action": {"halt": {}, "kill": {}}}"#, "bad_field"),
            (r#"{"action": {"set-limit": {"account": "all"}}}"#, "bad_field"),
            (r#"{"action": "end-of-day"}"#, "bad_field"),
        ] {
            assert_eq!(code(body), Err(why), "{body}");
        }
    }

    #[test]
    fn nothing_is_told_before_it_is_known_and_names_are_names() {
        let venue = Venue::with_operators(Box::new(|who, action| {
            if action == "status" { Ok(json!({ "as": who })) } else { Err("refused".to_string()) }
        }));
        assert_eq!(venue.read(|told| &told.tree).expect_err("nothing yet").code, "busy");
        let node = TreeNode {
            node: NodeId(3),
            kind: "receiver",
            layer: 1,
            parent: Some(NodeId(0)),
            alive: true,
            copies: [5, 1, 0],
            delay_ns: None,
        };
        venue.tell_tree(2, 1, &[node]);
        let told = venue.read(|told| &told.tree).expect("told");
        assert_eq!(told["nodes"][0]["copies"]["duplicates"], 1);
        assert_eq!(told["nodes"][0]["delay_ns"], Value::Null);
        assert_eq!(venue.operate("desk1", &json!("status")), Ok(json!({ "as": "desk1" })));
        for name in ["two words", "", "é", "x".repeat(65).as_str()] {
            assert_eq!(venue.operate(name, &json!("status")), Ok(json!({ "as": NO_NAME })));
        }
        assert_eq!(venue.operate("k", &json!("halt")).expect_err("refused").message, "refused");
        let none = Venue::default().operate("k", &json!("status")).expect_err("nobody");
        assert_eq!(none.code, "rejected");
        let fleet = Venue::elsewhere();
        assert_eq!(fleet.read(|told| &told.tree).expect_err("not here").code, "not_found");
    }
}
