//! Fixed-size storage for one order's opaque bytes, so that queues of orders never allocate.

/// Longest payload of an order message, bytes.
pub const ORDER_PAYLOAD_MAX: usize = 128;

/// Up to [`ORDER_PAYLOAD_MAX`] bytes, stored in place.
#[derive(Clone, Copy)]
pub struct Payload {
    len: u8,
    bytes: [u8; ORDER_PAYLOAD_MAX],
}

const _: () = assert!(ORDER_PAYLOAD_MAX <= u8::MAX as usize);

impl Payload {
    /// A payload of length 0.
    pub const EMPTY: Payload = Payload { len: 0, bytes: [0; ORDER_PAYLOAD_MAX] };

    /// A copy of `bytes`; `None` when they are too long.
    pub fn new(bytes: &[u8]) -> Option<Payload> {
        let mut payload = Payload::EMPTY;
        payload.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        payload.len = bytes.len() as u8;
        Some(payload)
    }

    /// The bytes of the payload.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({:02x?})", self.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::{ORDER_PAYLOAD_MAX, Payload};

    #[test]
    fn keeps_what_fits_and_refuses_more() {
        let bytes = [7; ORDER_PAYLOAD_MAX + 1];
        assert_eq!(Payload::new(&bytes[..5]).unwrap().as_slice(), &bytes[..5]);
        assert_eq!(Payload::new(&bytes[1..]).unwrap().as_slice(), &bytes[1..]);
        assert!(Payload::new(&bytes).is_none());
        assert!(Payload::EMPTY.as_slice().is_empty());
    }
}
