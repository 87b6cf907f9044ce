//! Settings of a session, and the reasons for which a connection ends.

use types::Nanos;

use crate::dictionary::{CustomTags, Rules};

/// One session: a pair of CompIDs and what is agreed for it.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Our CompID: SenderCompID(49) of what we send.
    pub own_comp_id: String,
    /// The counterparty's CompID: SenderCompID(49) of what we receive.
    pub their_comp_id: String,
    /// FIX version of the session and its dictionaries.
    pub rules: Rules,
    /// What happens to tags of 5000 and above that no dictionary has.
    pub custom_tags: CustomTags,
    /// Whether every Logon begins both directions at 1; otherwise sequence numbers go on, and what
    /// was sent while the counterparty was away is resent on request.
    pub reset_on_logon: bool,
    /// Where every Logon begins both directions at 1, or nothing was ever sent and received here:
    /// whether a Logon with another number, of a counterparty whose numbers go on, is answered with
    /// ResetSeqNumFlag(141) Y, so that it begins at 1, too. Otherwise it is taken for one that is ahead.
    pub tells_reset: bool,
    /// Largest difference between SendingTime(52) and our clock, either way, ns.
    pub latency_max_ns: u64,
    /// Largest HeartBtInt(108) a Logon may ask for, seconds.
    pub heart_bt_int_max_s: u64,
    /// Longest wait for the answer to our Logout, ns.
    pub logout_wait_ns: u64,
    /// Time after which a gap that has not been filled is asked for again, ns.
    pub gap_retry_ns: u64,
    /// Most messages kept while earlier ones are being resent to us.
    pub queue_messages_max: usize,
    /// Most bytes of those messages.
    pub queue_bytes_max: usize,
    /// Bytes of a resend written at a time; the rest waits until the caller comes back.
    pub resend_slice: usize,
}

impl SessionConfig {
    /// A session with the exchange's defaults.
    pub fn new(own_comp_id: &str, their_comp_id: &str, rules: Rules) -> SessionConfig {
        SessionConfig {
            own_comp_id: own_comp_id.to_string(),
            their_comp_id: their_comp_id.to_string(),
            rules,
            custom_tags: CustomTags::Refused,
            reset_on_logon: false,
            tells_reset: false,
            latency_max_ns: 120 * Nanos::SECOND,
            heart_bt_int_max_s: 3_600,
            logout_wait_ns: 2 * Nanos::SECOND,
            gap_retry_ns: 30 * Nanos::SECOND,
            queue_messages_max: 1_024,
            queue_bytes_max: 1 << 20,
            resend_slice: 64 << 10,
        }
    }
}

/// Why a connection is closed, after what has been written to it has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Bytes that are not a message came before the Logon.
    Garbled,
    /// The first message of the connection was not a Logon.
    NotLogon,
    /// No session has this BeginString and these CompIDs.
    UnknownSession,
    /// The session is live on another connection, which stays.
    AlreadyLoggedOn,
    /// The Logon was malformed, its SendingTime too far off, or its numbers did not fit the
    /// session's.
    BadLogon,
    /// The application refused the credentials.
    NotAuthorized,
    /// No complete Logon came within the configured time.
    LogonTimeout,
    /// MsgSeqNum(34) was lower than expected and the message no possible duplicate; a Logout says
    /// so.
    SequenceTooLow,
    /// The session ended with an exchange of Logouts.
    LoggedOut,
    /// Our Logout was not answered in time.
    LogoutTimeout,
    /// The counterparty sent nothing for too long, not even an answer to a TestRequest.
    Silent,
    /// More bytes came than the connection keeps while a resend goes out.
    Overrun,
    /// The numbers that the account's stream gives are not those that the session was told of; the
    /// counterparty has to log on again.
    Renumbered,
}
