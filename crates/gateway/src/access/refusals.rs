//! Why somebody was not let in: counted by reason, the last ones kept.

use std::collections::VecDeque;

use types::{Address, Nanos};

/// Refusals that are kept.
const KEPT: usize = 64;
/// Bytes of a name, and of a detail, that are kept.
const NAME_MAX: usize = 24;
const DETAIL_MAX: usize = 120;

macro_rules! reasons {
    ($($name:ident: $text:literal,)*) => {
        /// Why a connection or a logon was refused.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Refusal {
            $(#[doc = $text] $name,)*
        }

        impl Refusal {
            /// All there are.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)*];

            /// In words.
            pub fn text(self) -> &'static str {
                match self {
                    $(Refusal::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    HalfOpen: "too many connections that are not logged on",
    TooSlow: "no logon in time",
    NoLogon: "the first message is no logon",
    BadLogon: "a logon that is wrong in itself",
    UnknownName: "no such user name or CompID",
    WrongAddress: "not from an address of this account",
    WrongCertificate: "not with a certificate of this account",
    Throttled: "too many wrong passwords for this account from this address",
    NewAddress: "too many wrong passwords for this account from addresses new to it",
    WrongPassword: "wrong password",
    SecondLogon: "the account is logged on already",
    Crowded: "the account has as many subscriptions here as it may",
    Locked: "locked by an operator",
    Ahead: "it names a message that was never sent",
}

/// One refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Time of the refusal by the gateway's clock, in ns since the epoch.
    pub at: Nanos,
    /// Which rule refused it.
    pub why: Refusal,
    /// From where, if that is known.
    pub from: Option<Address>,
    /// The name that was given, its first bytes.
    pub name: Vec<u8>,
    /// What was wrong with it, in words; empty: there is no more to say.
    pub detail: String,
}

/// Counts of all refusals, and the last of them.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    counts: [u64; Refusal::ALL.len()],
    last: VecDeque<Refused>,
}

impl Refusals {
    /// How many for this reason.
    pub fn count(&self, why: Refusal) -> u64 {
        self.counts.get(why as usize).copied().unwrap_or(0)
    }

    /// The last ones, oldest first.
    pub fn last(&self) -> impl Iterator<Item = &Refused> {
        self.last.iter()
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts one; name and detail are cut.
    pub fn note(
        &mut self,
        at: Nanos,
        why: Refusal,
        from: Option<Address>,
        name: &[u8],
        detail: &str,
    ) {
        if let Some(count) = self.counts.get_mut(why as usize) {
            *count += 1;
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        let name = name.get(..NAME_MAX).unwrap_or(name).to_vec();
        let detail = detail.chars().take(DETAIL_MAX).collect();
        self.last.push_back(Refused { at, why, from, name, detail });
    }
}
