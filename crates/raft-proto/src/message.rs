//! What the library wants of a message beyond its fields: a size.

/// Implements the trait for types with a function `memory(&self) -> usize`.
macro_rules! sized_message {
    ($($name:ident),* $(,)?) => {$(
        impl protobuf::Message for $name {
            fn compute_size(&self) -> u32 {
                u32::try_from(self.memory()).unwrap_or(u32::MAX)
            }
        }
    )*};
}
pub(crate) use sized_message;
