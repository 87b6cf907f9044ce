//! fairbell
fn main() {}
