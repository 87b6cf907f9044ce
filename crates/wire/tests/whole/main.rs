//! Formats against their specifications and against captures.

mod captures;
mod itch;
mod ouch;
mod ouch_terms;
mod soupbin;
mod specifications;
