//! How a WebSocket ends: by a close frame with a code and a reason, wherever the door ends it and the client
//! still takes something.
//!
//! Behind the frame the door sends nothing more, and reads what still comes without looking at it: where
//! something is unread when a connection is closed the system resets it, and the frame may be lost.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message};
use futures_util::future::poll_fn;
use futures_util::{SinkExt, TryFutureExt};
use tokio::time::timeout;

use super::Connection;

/// From the close frame to the end of the connection at most.
const LEAVE: Duration = Duration::from_secs(2);

/// Code and reason of a close frame.
pub(super) type Why = (u16, &'static str);

pub(super) const STOPPED: Why = (1001, "the door is stopped");
const NO_PROTOCOL: Why = (1002, "this is no WebSocket message");
const NO_UTF8: Why = (1007, "a text that is no UTF-8");
pub(super) const IDLE: Why = (1008, "no subscription and no key within 5 s");
const LARGE: Why = (1009, "a message has 64 KiB at most");
pub(super) const BUSY: Why = (1013, "what is subscribed to can't be told now: try again");

/// It is over; and what the client is told.
pub(super) struct Ended(pub(super) Option<Why>);

/// It is over, and there is nobody to tell; or a fault of a sandbox lets it break.
pub(super) const GONE: Ended = Ended(None);

pub(super) type Went = Result<(), Ended>;

/// What could not be read. The kinds of errors are told by their texts: no type of them comes through axum.
pub(super) fn unreadable(error: &axum::Error) -> Ended {
    let text = error.to_string();
    let is = |begin: &str| text.starts_with(begin);
    Ended(match () {
        () if is("Space limit exceeded") => Some(LARGE),
        () if is("UTF-8 encoding error") => Some(NO_UTF8),
        () if text.contains("without closing handshake") => None,
        () if is("WebSocket protocol error") => Some(NO_PROTOCOL),
        () => None,
    })
}

impl Connection {
    /// Tells the client why it ends, and waits a little for it to end it, too.
    pub(super) async fn close(&mut self, (code, reason): Why) {
        let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        let (socket, place) = (&mut self.socket, &self.place);
        let told = async {
            poll_fn(|cx| socket.poll_ready_unpin(cx)).await?;
            place.leave();
            socket.start_send_unpin(frame)?;
            socket.flush().await
        };
        let _ = timeout(LEAVE, told.map_err(drop)).await;
    }
}
