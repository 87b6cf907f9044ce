//! The three versions the door speaks, and where they differ on the wire.

/// A version of the protocol, session and application layer together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Version {
    /// FIX 4.2.
    Fix42,
    /// FIX 4.4.
    Fix44,
    /// FIX 5.0 SP2 over FIXT 1.1.
    Fix50Sp2,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Version; 3] = [Version::Fix42, Version::Fix44, Version::Fix50Sp2];

    /// BeginString(8) of its messages.
    pub const fn begin_string(self) -> &'static str {
        match self {
            Version::Fix42 => "FIX.4.2",
            Version::Fix44 => "FIX.4.4",
            Version::Fix50Sp2 => "FIXT.1.1",
        }
    }

    /// Its name in running text.
    pub const fn name(self) -> &'static str {
        match self {
            Version::Fix42 => "FIX 4.2",
            Version::Fix44 => "FIX 4.4",
            Version::Fix50Sp2 => "FIX 5.0 SP2",
        }
    }

    /// ApplVerID(1128) of its application messages, where a session has to say so.
    pub const fn appl_ver_id(self) -> Option<&'static str> {
        match self {
            Version::Fix42 | Version::Fix44 => None,
            Version::Fix50Sp2 => Some("9"),
        }
    }

    /// Whether the version has an application message of this MsgType(35), taken here or not.
    pub fn defines(self, msg_type: &[u8]) -> bool {
        let old = self == Version::Fix42;
        match *msg_type {
            [b'6'..=b'9' | b'B'..=b'H' | b'J'..=b'N' | b'P'..=b'T' | b'V'..=b'Z'] => true,
            [b'a'..=b'm'] => true,
            [b'o'..=b'z'] => !old,
            [first, second @ b'A'..=b'Z'] if !old => {
                let last = if self == Version::Fix44 { *b"BH" } else { *b"CE" };
                (*b"AA"..=last).contains(&[first, second])
            }
            _ => false,
        }
    }

    /// The largest SessionRejectReason(373) the version defines; larger ones are left out.
    pub const fn largest_reject_reason(self) -> u16 {
        match self {
            Version::Fix42 => 11,
            Version::Fix44 | Version::Fix50Sp2 => u16::MAX,
        }
    }
}
