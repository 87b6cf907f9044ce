//! What a request is refused with: an HTTP status, a code that programs read, and a text for people.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::auth::Credits;
use crate::routes::with_credits;

/// Every code: name, HTTP status, meaning. The OpenAPI document and docs/web.md list them.
pub const CODES: [(&str, u16, &str); 26] = [
    ("bad_json", 400, "the body is no JSON object"),
    ("missing_field", 400, "a field is missing; the message names it"),
    (
        "bad_field",
        400,
        "a field that the request does not have, or a value that it can't have; the message names it",
    ),
    ("missing_header", 401, "FB-KEY, FB-TIMESTAMP or FB-SIGN is missing or no text"),
    ("unknown_key", 401, "there is no such key"),
    ("key_expired", 401, "the key is past its end"),
    ("bad_signature", 401, "the signature is not that of this request"),
    ("late_timestamp", 401, "the timestamp is more than 5 s off"),
    ("replayed", 401, "this very request has come before; change FB-NONCE or the timestamp"),
    ("bad_token", 401, "no WebSocket token that is still good"),
    ("wrong_scope", 403, "the key may not do this"),
    ("wrong_address", 403, "the key may not be used from this address"),
    ("cross_site", 403, "a page of another site asks; the door answers its own"),
    ("no_sandbox", 403, "faults are for a sandbox, and this is none"),
    ("not_found", 404, "no such path, symbol or order"),
    ("method_not_allowed", 405, "the path does not take this method"),
    ("client_order_id_used", 409, "an order of other terms has this client_order_id"),
    ("not_open", 409, "the order is not open any more"),
    ("cancel_rejected", 409, "the exchange has nothing to cancel there"),
    ("too_large", 413, "the body is larger than 64 KiB"),
    ("deadline_passed", 422, "the request's own deadline is past; nothing was sent"),
    ("rejected", 422, "the exchange refuses the request; the message says why"),
    (
        "too_many_requests",
        429,
        "the credits of the key, or of the address without one, are used up; FB-CREDITS-LEFT tells a key's",
    ),
    ("busy", 503, "too much waits just now; try again"),
    ("session_down", 503, "the account's session is not up; the message says why"),
    ("timeout", 408, "the request did not come in time"),
];

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiError {
    /// One of [`CODES`].
    pub code: &'static str,
    /// For people: what was wrong, where, what to do.
    pub message: String,
    /// What the key has left, where it was proved before it was refused.
    pub credits: Option<Credits>,
}

impl ApiError {
    /// A refusal with this code.
    pub fn new(code: &'static str, message: impl Into<String>) -> ApiError {
        debug_assert!(CODES.iter().any(|(name, ..)| *name == code), "{code}");
        ApiError { code, message: message.into(), credits: None }
    }

    /// The same, of a key that has these credits.
    pub(crate) fn of_key(self, credits: Credits) -> ApiError {
        ApiError { credits: Some(credits), ..self }
    }

    /// Its HTTP status.
    pub fn status(&self) -> u16 {
        CODES.iter().find(|(name, ..)| *name == self.code).map_or(500, |(_, status, _)| *status)
    }

    /// Its body.
    pub fn body(&self) -> serde_json::Value {
        json!({ "error": { "code": self.code, "message": self.message } })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = (status, self.body().to_string()).into_response();
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        match self.credits {
            Some(credits) => with_credits(credits, response),
            None => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_have_a_status() {
        let mut names: Vec<&str> = CODES.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CODES.len());
        assert!(CODES.iter().all(|(_, status, _)| StatusCode::from_u16(*status).is_ok()));
        let refused = ApiError::new("replayed", "x");
        assert_eq!((refused.status(), &refused.body()["error"]["code"]), (401, &"replayed".into()));
    }
}
