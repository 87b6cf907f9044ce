//! Prices in configuration are text, `"0.01"`: exact, where a float would not be.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use types::{Price, decimal};

/// Writes a price as decimal text.
///
/// # Errors
/// The writer's.
pub fn serialize<S: Serializer>(price: &Price, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(price)
}

/// Reads a price from decimal text.
///
/// # Errors
/// What is no price.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Price, D::Error> {
    let text = String::deserialize(from)?;
    decimal::price(&text).ok_or_else(|| D::Error::custom("must be a price like \"0.01\""))
}
