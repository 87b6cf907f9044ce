//! The three FIX versions that the door speaks, and where they differ on the wire.

/// A FIX version: session layer and application layer together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Version {
    /// FIX 4.2, with session layer and messages of that version.
    Fix42,
    /// FIX 4.4, with session layer and messages of that version.
    Fix44,
    /// FIX 5.0 SP2 messages, over the session layer FIXT 1.1.
    Fix50Sp2,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 3] = [Version::Fix42, Version::Fix44, Version::Fix50Sp2];

    /// BeginString(8) of the version's messages.
    pub const fn begin_string(self) -> &'static str {
        match self {
            Version::Fix42 => "FIX.4.2",
            Version::Fix44 => "FIX.4.4",
            Version::Fix50Sp2 => "FIXT.1.1",
        }
    }

    /// Name of the version, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Version::Fix42 => "FIX 4.2",
            Version::Fix44 => "FIX 4.4",
            Version::Fix50Sp2 => "FIX 5.0 SP2",
        }
    }

    /// ApplVerID(1128) of its application messages; `None`: the version has no such field.
    pub const fn appl_ver_id(self) -> Option<&'static str> {
        match self {
            Version::Fix42 | Version::Fix44 => None,
            Version::Fix50Sp2 => Some("9"),
        }
    }

    /// Whether the version defines an application message with this MsgType(35), served here or
    /// not.
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

    /// Largest SessionRejectReason(373) that the version defines; larger ones are left out.
    pub const fn largest_reject_reason(self) -> u16 {
        match self {
            Version::Fix42 => 11,
            Version::Fix44 | Version::Fix50Sp2 => u16::MAX,
        }
    }
}
