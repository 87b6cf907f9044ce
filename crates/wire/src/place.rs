//! Messages that are encoded in place: a prepared message is appended to the buffer and its fields
//! are filled in there, without a second copy.

/// Appends `prepared` and returns the appended copy, in which the caller fills in the remaining
/// fields.
#[inline(always)]
pub(crate) fn appended<'a, const N: usize>(
    prepared: &[u8; N],
    out: &'a mut Vec<u8>,
) -> &'a mut [u8; N] {
    out.extend_from_slice(prepared);
    out.last_chunk_mut().expect("as many bytes were appended")
}

/// Writes `$value`, bytes, into field `$field` of a message `$of` that lies in `$bytes`.
macro_rules! fill {
    ($bytes:ident, $of:ident.$($field:ident).+, $value:expr) => {{
        let value = $value;
        let at = core::mem::offset_of!($of, $($field).+);
        $bytes[at..at + value.len()].copy_from_slice(&value);
    }};
}

pub(crate) use fill;

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Sample {
        _kind: u8,
        inner: Inner,
    }

    #[repr(C)]
    struct Inner {
        _first: u8,
        second: [u8; 2],
    }

    #[test]
    fn fields_are_filled_in_behind_what_was_there() {
        let mut out = vec![9];
        let message = appended(b"abcd", &mut out);
        fill!(message, Sample.inner, *b"x");
        fill!(message, Sample.inner.second, *b"yz");
        assert_eq!(out, b"\x09axyz");
        assert_eq!(size_of::<Sample>(), 4);
    }
}
