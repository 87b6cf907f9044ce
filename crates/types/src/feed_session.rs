//! Names of the feed's MoldUDP64 sessions, one for each trading day.
//!
//! Each trading day of a stream is a MoldUDP64 session of its own, whose messages are
//! numbered from 1. The first two characters of the name count the sessions, in base 36 with the digits `0-9A-Z`;
//! the other eight stay the same. So a reader that knows one name can compute the names of all
//! days, and tell which of two is the later.

const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Sessions of one stream whose names differ: those of five years of trading days.
pub const FEED_SESSIONS: u16 = 36 * 36;

/// The number in the first two characters of a name, 0..36 × 36; a character that is no digit
/// counts as 0.
fn counted(name: &[u8; 10]) -> u16 {
    let digit = |of: u8| DIGITS.iter().position(|digit| *digit == of).unwrap_or(0) as u16;
    digit(name[0]) * 36 + digit(name[1])
}

/// The name of the session `later` sessions after the one of this name.
pub fn later_session(name: [u8; 10], later: u16) -> [u8; 10] {
    if later == 0 {
        return name;
    }
    let count = (u32::from(counted(&name)) + u32::from(later)) % u32::from(FEED_SESSIONS);
    let mut later = name;
    later[0] = DIGITS[count as usize / 36];
    later[1] = DIGITS[count as usize % 36];
    later
}

/// Number of sessions from the one named `known` to the one named `name`: 0 for the same, at most
/// half of [`FEED_SESSIONS`]. `None` when `name` is an earlier session or one of another stream.
pub fn sessions_later(known: [u8; 10], name: [u8; 10]) -> Option<u16> {
    let later = (counted(&name) + FEED_SESSIONS - counted(&known)) % FEED_SESSIONS;
    (later <= FEED_SESSIONS / 2 && later_session(known, later) == name).then_some(later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_and_say_which_is_later() {
        let first = *b"FB12345678";
        assert_eq!(later_session(first, 0), first);
        assert_eq!(later_session(first, 1), *b"FC12345678");
        assert_eq!(later_session(first, 25), *b"G012345678");
        let last = later_session(*b"ZZ12345678", 1);
        assert_eq!(last, *b"0012345678");
        for later in 0..=FEED_SESSIONS / 2 {
            let name = later_session(first, later);
            assert_eq!(sessions_later(first, name), Some(later));
            assert_eq!(sessions_later(name, first).is_none(), later > 0 && later < 648);
        }
        assert_eq!(sessions_later(first, *b"FB12345679"), None, "another stream");
        assert_eq!(sessions_later([b' '; 10], later_session([b' '; 10], 7)), Some(7));
    }
}
