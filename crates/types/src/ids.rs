//! Identifiers, each its own type so that one is never passed for another.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default,
            FromBytes, IntoBytes, KnownLayout, Immutable,
        )]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A trading account (one OUCH port); 0 is no account.
    AccountId(u16)
);
id!(
    /// An instrument, equal to its ITCH stock locate; dense from 1, 0 is none.
    InstrumentId(u16)
);
id!(
    /// A gateway; 0 is the exchange itself (operator and schedule commands).
    GatewayId(u16)
);
id!(
    /// One life of a gateway, granted through the log, from 1.
    Incarnation(u32)
);
id!(
    /// An engine shard: one engine, one input log and one feed; numbered from 0 (below
    /// [`crate::limits::SHARDS_MAX`]).
    ShardId(u16)
);
id!(
    /// A node of the overlay: 0 the root, then layer by layer from the root's children.
    NodeId(u16)
);
id!(
    /// A position in the input log, dense from 1.
    Seq(u64)
);
id!(
    /// A MoldUDP64 sequence number: position of an ITCH message in the feed, dense from 1.
    FeedSeq(u64)
);
id!(
    /// ITCH order reference number, unique for the trading day, dense from 1.
    OrderRef(u64)
);
id!(
    /// ITCH / OUCH match number, unique for the trading day, dense from 1.
    MatchNumber(u64)
);
id!(
    /// OUCH 5.0 UserRefNum: strictly increasing per account and trading day, from 1.
    UserRefNum(u32)
);

/// The participant's own order identifier of OUCH 5.0: 14 bytes, echoed and never interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct ClOrdId(pub [u8; 14]);

impl ClOrdId {
    /// Fourteen spaces: no identifier was given.
    pub const BLANK: ClOrdId = ClOrdId([b' '; 14]);
}

impl Default for ClOrdId {
    fn default() -> Self {
        ClOrdId::BLANK
    }
}
